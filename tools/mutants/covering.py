"""Which tests run which lines, found once: a plugin for pytest that asks coverage, and the map it leaves."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

BUDGET = 20.0  # seconds of tests for one mutant, the quickest tests first
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
        return Covering(lines, seconds, _importers(root))

    def tests_of(self, file: str, first: int, last: int) -> list[str]:
        """The quickest tests that run these lines; if none is known to, that run the file, or one that imports it.

        Compiled functions and other processes are not seen by coverage.
        """
        here = self.lines.get(file, {})
        found: set[str] = set().union(*(here.get(line, set()) for line in (0, *range(first, last + 1))))
        found = found or set().union(*here.values())
        beyond = {file}
        while not found and (more := set().union(*(self.importers.get(each, set()) for each in beyond)) - beyond):
            beyond |= more
            found = set().union(*(tests for each in more for tests in self.lines.get(each, {}).values()))
        quick = sorted((each for each in found if self.seconds.get(each, 99.0) < SLOWEST), key=self.seconds.__getitem__)
        chosen, spent = [], 0.0
        for test in quick:
            spent += self.seconds[test] + 0.01
            if spent > BUDGET:
                break
            chosen.append(test)
        return chosen


def _importers(root: Path) -> dict[str, set[str]]:
    """Of each file of the package, the files that import it."""
    out: dict[str, set[str]] = defaultdict(set)
    for path in (root / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                modules = [each.name for each in node.names]
            else:
                continue
            for module in modules:
                place = Path("src", *module.split("."))
                for file in (place.with_suffix(".py"), place / "__init__.py"):
                    if (root / file).is_file():
                        out[str(file)].add(str(path.relative_to(root)))
    return out
