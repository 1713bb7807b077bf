"""Data are frozen, and what holds arrays, itself or in what it holds, is equal to itself only, and nothing else is.

`==` of two arrays is no truth.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cfusion"
AT_WORK = {"State", "Volume", "Watched", "_MosaicRun"}  # what a computation changes in place
ARRAYS = re.compile(
    r"\b(NDArray|Floats|Doubles|Ints|DepthMap|WeightMap|Mask|Matrix|Points|Image|Plane|Places|Counts|Map)\b"
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
        kept = [kind for kind in kinds if not kind.startswith("Callable")]
        if any(ARRAYS.search(kind) for kind in kept) and "eq=False" not in made:
            found.append(f"{node.name} holds arrays: eq=False")
        perhaps = any(re.search(rf"Any|{ARRAYS.pattern}", kind) or holds_one(kind, node.name) for kind in kept)
        if "eq=False" in made and not perhaps:
            found.append(f"{node.name} holds no arrays: it can be compared")
    return found


@cache
def held_by_identity() -> frozenset[str]:
    """The dataclasses that are equal to themselves only."""
    made = (each for file in SOURCE.rglob("*.py") for each in dataclasses_of(file.read_text()))
    return frozenset(node.name for node, how in made if "eq=False" in how)


def holds_one(kind: str, of: str) -> bool:
    return bool(set(re.findall(r"\w+", kind)) & (held_by_identity() - {of}))


@pytest.mark.parametrize("part", sorted(path.name for path in SOURCE.iterdir() if not path.name.startswith("__pyc")))
def test_data_are_frozen_and_arrays_are_not_compared(part: str) -> None:
    place = SOURCE / part
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.suffix == ".py" else []
    assert {str(file): told for file in files if (told := faults(file.read_text()))} == {}


def test_the_rule_can_fail() -> None:
    assert len(faults("@dataclass\nclass A:\n    x: Floats\n")) == 2
    assert len(faults("@dataclass(frozen=True, eq=False)\nclass A:\n    x: Floats\n")) == 0
    assert len(faults("@dataclass(frozen=True)\nclass State:\n    x: int\n")) == 1
    assert len(faults("@dataclass(frozen=True, eq=False)\nclass A:\n    x: int\n")) == 1
    assert len(faults("@dataclass(frozen=True, eq=False)\nclass A:\n    x: Sequence[View]\n")) == 0
