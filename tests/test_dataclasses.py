"""Data are frozen, and what holds arrays is equal to itself only: `==` of two arrays is no truth."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cfusion"
AT_WORK = {"State", "Volume", "Watched", "_MosaicRun"}  # what a computation changes in place
ARRAYS = re.compile(
    r"\b(NDArray|Floats|Doubles|Ints|DepthMap|WeightMap|Mask|Matrix|Points|Image|Plane|Places|Counts)\b"
)


def dataclasses_of(text: str) -> Iterator[tuple[ast.ClassDef, str]]:
    """Each dataclass, and how it is made."""
    for node in ast.walk(ast.parse(text)):
        for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            if (made := ast.unparse(decorator)).startswith("dataclass"):
                yield node, made  # type: ignore[misc]


def faults(text: str) -> list[str]:
    found = []
    for node, made in dataclasses_of(text):
        kinds = [ast.unparse(each.annotation) for each in node.body if isinstance(each, ast.AnnAssign)]
        if ("frozen=True" in made) == (node.name in AT_WORK):
            found.append(f"{node.name} is not frozen, or need not be named here")
        if any(ARRAYS.search(kind) for kind in kinds if not kind.startswith("Callable")) and "eq=False" not in made:
            found.append(f"{node.name} holds arrays: eq=False")
    return found


@pytest.mark.parametrize("part", sorted(path.name for path in SOURCE.iterdir() if not path.name.startswith("__pyc")))
def test_data_are_frozen_and_arrays_are_not_compared(part: str) -> None:
    place = SOURCE / part
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.suffix == ".py" else []
    assert {str(file): told for file in files if (told := faults(file.read_text()))} == {}


def test_the_rule_can_fail() -> None:
    assert len(faults("@dataclass\nclass A:\n    x: Floats\n")) == 2
    assert len(faults("@dataclass(frozen=True, eq=False)\nclass A:\n    x: Floats\n")) == 0
    assert len(faults("@dataclass(frozen=True)\nclass State:\n    x: int\n")) == 1
