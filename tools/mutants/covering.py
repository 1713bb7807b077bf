"""Which tests run which lines, found once: a plugin for pytest that asks coverage, and the map it leaves."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

BUDGET = (
    60.0  # seconds of tests for one mutant; under coverage, maybe on a busy machine: few are spent on one that dies
)
READING = {
    "tests/test_dataclasses.py",
    "tests/test_defaults.py",
}  # of what is declared: these read the sources, and run none of them
STORED = {
    "tests/test_same_bits.py",
    "tests/test_same_files.py",
    "tests/test_same_findings.py",
    "tests/test_same_scenes.py",
}  # bits and files that stay what they were: these notice most in a second
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SLOWEST = 20.0  # seconds: a test that takes longer is left out


class Watch:
    """The plugin: lines per test, and how long each test took."""

    def __init__(self, cover: Any) -> None:
        self.cover = cover
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.cover.switch_context(item.nodeid)
        yield
        self.cover.switch_context("")

    def pytest_runtest_logreport(self, report: Any) -> None:
        taken = self.seconds.get(report.nodeid, 0.0) + report.duration
        self.seconds[report.nodeid] = taken if report.passed else float("inf")


def watch(root: Path, tests: list[str], out: Path) -> None:
    """Run the tests under coverage, and write which lines each of them ran."""
    import coverage

    cover = coverage.Coverage(data_file=None, source=[str(root / "src")])
    plugin = Watch(cover)
    cover.start()
    pytest.main([*tests, "-m", "not slow", "-p", "no:cacheprovider", "-W", "ignore"], plugins=[plugin])
    cover.stop()
    data = cover.get_data()
    lines: dict[str, dict[str, list[str]]] = {}
    for file in data.measured_files():
        name = str(Path(file).relative_to(root))
        ran = data.contexts_by_lineno(file).items()
        lines[name] = {str(line): sorted({each for each in tests if each}) for line, tests in ran}
    passed = {test: taken for test, taken in plugin.seconds.items() if taken < float("inf")}
    hashes = {name: _hash(root / name) for name in lines}
    out.write_text(json.dumps({"lines": lines, "seconds": passed, "hashes": hashes}))


def _hash(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Covering:
    """The map, of several parts of the suite together."""

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    importers: dict[str, set[str]]
    own: dict[str, set[str]]  # files of tests that import a file, or a name of it, by name
    root: Path

    @staticmethod
    def read(root: Path, files: list[Path], there: set[str]) -> Covering:
        """The maps that `watch` left, of tests that are still there; of a file that was edited since, as a whole."""
        lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        seconds: dict[str, float] = {}
        for file in files:
            part = json.loads(file.read_text())
            seconds |= {test: taken for test, taken in part["seconds"].items() if test in there}
            for name, by_line in part["lines"].items():
                if not (root / name).exists():
                    continue
                edited = _hash(root / name) != part["hashes"][name]
                for line, tests in by_line.items():
                    lines[name][0 if edited else int(line)] |= set(tests)
        return Covering(lines, seconds, _importers(root, "src"), _importers(root, "tests"), root)

    def tests_of(self, file: str, first: int, last: int) -> list[str]:
        """The tests that run these lines: stored findings, those of its own subject, of its package, the quickest.

        Coverage sees neither compiled functions nor other processes, and ascribes what tests share (a fixture, a cache)
        to the first of them: last come other tests beside these, and beside an import of the file by name. What runs at
        import it ascribes to whichever test came first, too: there, every test that runs the file counts, or one that
        imports it.
        """
        here = self.lines.get(file, {})
        found: set[str] = set().union(*(here.get(line, set()) for line in (0, *range(first, last + 1))))
        own = self.own.get(file, set())
        if not found or self.at_import(file, first):
            own = own | READING
            found = set().union(*here.values(), (test for test in self.seconds if test.split("::")[0] in own))
        beyond = {file}
        while not found and (more := set().union(*(self.importers.get(each, set()) for each in beyond)) - beyond):
            beyond |= more
            found = set().union(*(tests for each in more for tests in self.lines.get(each, {}).values()))
        sharing = own | {test.split("::")[0] for test in found}
        unseen = {test for test in self.seconds if test.split("::")[0] in sharing} - found
        beside = "/".join(("tests", *Path(file).parts[2:3], ""))

        def rank(test: str) -> tuple[bool, ...]:
            file = test.split("::")[0]
            return file not in READING, file not in own, not test.startswith(beside)

        stored = {test for test in found if test.split("::")[0] in STORED}
        return [
            *self._quickest(stored, rank, BUDGET / 2),
            *self._quickest(found - stored, rank, BUDGET),
            *self._quickest(unseen, rank, BUDGET / 3),
        ]

    def _quickest(self, tests: set[str], rank: Callable[[str], tuple[bool, ...]], budget: float) -> list[str]:
        """As many as there is time for, by rank and then by time."""
        quick = sorted((each for each in tests if self.seconds.get(each, 99.0) < SLOWEST), key=self.seconds.__getitem__)
        chosen, spent = [], 0.0
        for test in sorted(quick, key=rank):
            spent += self.seconds[test] + 0.01
            if spent > budget:
                break
            chosen.append(test)
        return chosen

    def at_import(self, file: str, line: int) -> bool:
        """Whether a line is run when the file is imported: it lies in no function."""
        within = (node for node in ast.walk(ast.parse((self.root / file).read_text())) if isinstance(node, FUNCTIONS))
        return not any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in within)


def _importers(root: Path, among: str) -> dict[str, set[str]]:
    """Of each file of the package, the files that import it; a name of a package counts for the file it comes from."""
    out: dict[str, set[str]] = defaultdict(set)
    for path in (root / among).rglob("*.py"):
        for file in _imported(root, path, through=among == "tests"):
            out[file].add(path.relative_to(root).as_posix())
    return out


def _imported(root: Path, path: Path, through: bool) -> Iterator[str]:
    """The files of the package that a file imports; `through` packages, the files that these have the names from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _files(root, [node.module, *(f"{node.module}.{each.name}" for each in node.names)])
            package = root / "src" / Path(*node.module.split(".")) / "__init__.py"
            names = {each.name for each in node.names}
            for inner in ast.walk(ast.parse(package.read_text())) if through and package.is_file() else ():
                if isinstance(inner, ast.ImportFrom) and inner.module and names & {each.name for each in inner.names}:
                    yield from _files(root, [inner.module])
        elif isinstance(node, ast.Import):
            yield from _files(root, [each.name for each in node.names])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cfusion."):
            yield from _files(root, [node.value])  # of importorskip, import_module


def _files(root: Path, modules: list[str]) -> Iterator[str]:
    for module in modules:
        place = Path("src", *module.split("."))
        yield from (str(file) for file in (place.with_suffix(".py"), place / "__init__.py") if (root / file).is_file())
