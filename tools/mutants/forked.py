"""Run tests in a child that is forked: what they need of other packages is loaded already, most of a short trial."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

OFTEN = ("pytest", "numpy", "numba", "scipy.spatial", "PIL.Image", "rasterio", "rasterio.warp", "rasterio.shutil")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore", "--no-header", "--tb=no")
LOOK = 0.02  # seconds between two looks at the child


def load_often_used() -> None:
    """Import what most tests need, but nothing of the package."""
    for name in OFTEN:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    assert "cfusion" not in sys.modules


def run(tests: list[str], tree: Path, environment: dict[str, str], limit: float) -> tuple[int | None, str]:
    """pytest's exit code (None: it hung) and what it said."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            _child(tests, tree, environment, said.fileno())
        ended, status, deadline = 0, 0, time.monotonic() + limit
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0 if ended else LOOK)
        if not ended:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, ""
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read()


def _child(tests: list[str], tree: Path, environment: dict[str, str], out: int) -> None:
    """Never returns."""
    code = 70
    try:
        os.setsid()
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(tree)
        sys.path[:] = [*environment["PYTHONPATH"].split(os.pathsep), *sys.path]
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.split(".")[0] == "tools"]:
            del sys.modules[name]  # of this tree, not of that
        import pytest

        code = int(pytest.main([*OPTIONS, *tests]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
