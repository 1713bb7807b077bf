"""A parameter that several functions of a package share has one default: whoever leaves it out means the same."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cfusion"
PACKAGES = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
# The same word for different things, or for what is told apart on purpose.
OWN = {
    "auto": {"edges", "inverse", "local"},  # decided, or left open
    "confidence": {"floor"},
    "datasets": {"units_per_metre", "confidence", "every"},  # of each format
    "energy": {"kind"},
    "frontends": {"iterations", "farthest"},
    "scene": {"count"},
    "solvers": {"tolerance", "iterations", "outer"},  # of a convex solve, of joint ones, of none yet
    "source": {"rereads"},
    "synthetic": {"count", "spacing", "resolution", "distance"},  # of an object, of a city, of a mesh
}


# Of public functions, which users may leave out, and four of `auto` that can go.
STATED = {"object_bundle(camera)", "city_bundle(camera)", "sphere(radius)", "step(near)"}


def defaults_of(text: str) -> Iterator[tuple[str, str]]:
    """Names of parameters and fields with their defaults, where these are numbers, truths or named constants."""
    for node in ast.walk(ast.parse(text)):
        given: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.FunctionDef):
            named = [*node.args.posonlyargs, *node.args.args]
            given = [(a.arg, v) for a, v in zip(named[::-1], node.args.defaults[::-1], strict=False)]
            given += [(a.arg, v) for a, v in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if v]
        elif isinstance(node, ast.ClassDef):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and each.value]
            given = [(f.target.id, f.value) for f in fields if isinstance(f.target, ast.Name) and f.value]
        for name, value in given:
            if isinstance(value, ast.Constant) and isinstance(value.value, int | float):
                yield name, repr(value.value)


def disagreements(texts: Iterator[str], own: set[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        for name, value in defaults_of(text):
            found[name].add(value)
    return {name: values for name, values in found.items() if len(values) > 1 and name not in own}


@pytest.mark.parametrize("package", PACKAGES)
def test_one_name_has_one_default(package: str) -> None:
    texts = (path.read_text() for path in sorted((SOURCE / package).rglob("*.py")))
    assert disagreements(texts, OWN.get(package, set())) == {}


def test_the_rule_can_fail() -> None:
    texts = ["def f(a, b=1, *, c=True): ...", "class A:\n    b: int = 2\n    c: bool = True\n"]
    assert disagreements(iter(texts), set()) == {"b": {"1", "2"}}
    assert disagreements(iter(texts), {"b"}) == {}


def always_stated(sources: list[str], texts: list[str]) -> set[str]:
    """Parameters with a default of functions in `sources` that no call in `texts` leaves out."""
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Call):
            calls[getattr(node.func, "attr", "") or getattr(node.func, "id", "")].append(node)
    found = set()
    for node in (node for text in sources for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.FunctionDef) and (made := calls[node.name]):
            named = [each.arg for each in (*node.args.posonlyargs, *node.args.args) if each.arg not in ("self", "cls")]
            optional = {name: named.index(name) for name in named[len(named) - len(node.args.defaults) :]}
            late = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            optional |= {each.arg: 99 for each, value in late if value is not None}
            for name, place in optional.items():
                if all(_states(call, name, place) for call in made):
                    found.add(f"{node.name}({name})")
    return found


def _states(call: ast.Call, name: str, place: int) -> bool:
    unpacked = any(isinstance(each, ast.Starred) for each in call.args)
    return unpacked or len(call.args) > place or any(each.arg in (name, None) for each in call.keywords)


def test_a_default_is_one_that_somebody_leaves_to_it() -> None:
    """Else it is a value that nobody has seen at work."""
    folders = (SOURCE, *(SOURCE.parent.parent / name for name in ("tests", "benchmarks", "examples")))
    texts = {file: file.read_text() for folder in folders for file in folder.rglob("*.py")}
    sources = [text for file, text in texts.items() if SOURCE in file.parents and "cuda" not in file.parts]
    assert always_stated(sources, list(texts.values())) <= STATED


def test_that_rule_can_fail() -> None:
    source = "def f(a, b=1, *, c=True): ...\nclass A:\n    def g(self, d=2, e=3): ..."
    assert always_stated([source], ["f(1, c=False)", "f(2, c=True)", "A().g(1)"]) == {"f(c)", "g(d)"}
    assert always_stated([source], ["f(1, 2)", "f(*x)", "A().g()"]) == {"f(b)"}
