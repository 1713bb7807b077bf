"""One mutant: the mistake is written into a copy of the tree, and the tests that cover it are run until one fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.mutants import forked
from tools.mutants.covering import Covering
from tools.mutants.sites import Site

PATIENCE = 60.0  # seconds more than three times what the tests take, on a busy machine
COMPILING = 300.0  # seconds more where Numba compiles what has the mistake in it: it does not hang meanwhile
ELAS = "tests/frontends/test_elas.py"
# Compiled code, and tests of it small enough to be interpreted: most mistakes are found before anything is compiled.
UNCOMPILED = {
    "src/cfusion/kernels/cpu/elas.py": [
        *(ELAS, f"--deselect={ELAS}::test_both_sides_agree"),
        f"--deselect={ELAS}::test_support_points_have_the_disparity_and_are_unique",
    ],
    "src/cfusion/frontends/mc_cnn/kernels.py": ["tests/frontends/test_mc_cnn.py"],
    "src/cfusion/kernels/cpu/": ["tests/kernels/test_contract.py"],
}


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    verdict: str  # killed, hung, survived, uncovered
    seconds: float
    tests: int
    by: str = ""


@dataclass(frozen=True)
class Workplace:
    """A tree of its own to make mistakes in."""

    tree: Path

    def trial(self, site: Site, covering: Covering) -> Outcome:
        """Make the mistake, run the tests, and undo it."""
        replaced = (self.tree / site.file).read_bytes()[site.start : site.stop]
        tests = covering.tests_of(site.file, site.line, site.line + replaced.count(b"\n"))
        if not tests:
            return Outcome("uncovered", 0.0, 0)
        return self._run_with(site, tests, 3 * sum(covering.seconds[test] for test in tests) + PATIENCE)

    def _run_with(self, site: Site, tests: list[str], limit: float) -> Outcome:
        file = self.tree / site.file
        source, before = file.read_bytes(), file.stat()
        file.write_bytes(site.applied(source))
        interpreted = next((tests for place, tests in UNCOMPILED.items() if site.file.startswith(place)), None)
        stale = self._compiled(file) if interpreted else {}
        for cache in stale:
            cache.unlink()
        try:
            quickly = self._run(interpreted, limit, NUMBA_DISABLE_JIT="1") if interpreted else None
            slowly = limit + (COMPILING if stale else 0.0)
            return quickly if quickly and quickly.verdict == "killed" else self._run(tests, slowly)
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            if stale:  # what was compiled meanwhile holds the mistake
                for cache in self._compiled(file):
                    cache.unlink()
                for cache, content in stale.items():
                    cache.write_bytes(content)

    def _compiled(self, file: Path) -> dict[Path, bytes]:
        """What Numba has compiled of a file and kept, and of those that import it: they may have it inlined."""
        stems, before = {file.stem}, set[str]()
        while stems != before:
            before = set(stems)
            wanted = re.compile(
                rf"\b(?:{'|'.join(sorted(stems))})\b.* import |import .*\b(?:{'|'.join(sorted(stems))})\b"
            )
            stems |= {other.stem for other in file.parent.glob("*.py") if wanted.search(other.read_text())}
        kept = (file.parent / "__pycache__").glob("*.nb[ic]")
        return {path: path.read_bytes() for path in kept if path.name.split(".")[0] in stems}

    def collected(self) -> set[str]:
        """The tests that there are."""
        command = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "--collect-only", "-q"]
        said = subprocess.run(command, cwd=self.tree, env=environment(self.tree), capture_output=True, text=True).stdout
        return {line for line in said.splitlines() if "::" in line}

    def _run(self, tests: list[str], limit: float, **more: str) -> Outcome:
        started = time.monotonic()
        given = {**environment(self.tree), **more}
        run = _in_a_process if more else forked.run  # Numba reads some at once
        code, said = run(tests, self.tree, given, limit)
        if code == pytest.ExitCode.USAGE_ERROR:  # maybe a test is named by what is another number now: not a failure
            code, said = run(list(dict.fromkeys(test.split("[")[0] for test in tests)), self.tree, given, limit)
        seconds = time.monotonic() - started
        if code is None:
            return Outcome("hung", seconds, len(tests))
        if code == 0:
            return Outcome("survived", seconds, len(tests))
        by = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
        return Outcome("killed", seconds, len(tests), by[1] if by else said.strip()[-200:])


def _in_a_process(tests: list[str], tree: Path, given: dict[str, str], limit: float) -> tuple[int | None, str]:
    """As `forked.run`, from the beginning."""
    child = subprocess.Popen(
        [sys.executable, "-m", "pytest", *forked.OPTIONS, *tests],
        cwd=tree,
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return None, ""
    return child.returncode, said


def environment(tree: Path) -> dict[str, str]:
    """Of a child that works in a tree: its own package, and nothing of Python written into it."""
    return {
        **os.environ,
        **{"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"},
        **{"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins of other packages take longer to load than most tests to run
    }
