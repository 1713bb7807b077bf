"""Kernels that are compiled ahead by several processes: all that a method needs, the same bits, and nothing stays."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

numba = pytest.importorskip("numba")

from cfusion.kernels.contract import Fidelity  # noqa: E402
from cfusion.kernels.cpu import foresight  # noqa: E402
from cfusion.kernels.cpu.foreseen import KERNELS, foreseen  # noqa: E402

TESTS = Path(__file__).parent.parent
PROGRAM = """
import gc, hashlib, json, os, sys
from numba.core.dispatcher import Dispatcher
from cfusion import Stack, fuse, fuse_stack, kernels
from test_same_bits import posed_views, registered_stack
backend = kernels.load("cpu")
from cfusion.kernels.cpu.compiling import hearing
ahead, where, found, known = backend.precompile, [], [], []
compiled, unforeseen = {"ahead": [], "later": []}, set()
def ready():
    ours = [each for each in gc.get_objects() if isinstance(each, Dispatcher) and "cfusion" in each.__module__]
    return {f"{each.__name__} {types}" for each in ours for types in each.overloads}
def precompile(*given, **kind):
    where.append("ahead")
    ahead(*given, **kind)
    where.append("later")
    known.append(ready())
backend.precompile = precompile
with hearing(lambda name, done: compiled[where[-1]].append(name) if done else None):
    for method in sys.argv[1:]:
        name, _, source = method.partition(" on ")
        stack = {"": None, "stack": registered_stack(), "bare": Stack(registered_stack().depths)}[source]
        result = fuse(posed_views(), name, backend="cpu") if stack is None else fuse_stack(stack, name, backend="cpu")
        found.append(hashlib.sha256(result.depth.tobytes()).hexdigest())
        unforeseen |= ready() - known[-1]
try:
    os.waitpid(-1, os.WNOHANG)
    children = True
except ChildProcessError:
    children = False
print(json.dumps([compiled, found, children, sorted(unforeseen)]))
"""


def run(cache: Path, threads: int, *methods: str) -> Any:
    """What a new process compiled; the hash of each depth; whether children are left; what is loaded after `ahead`."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    chosen = {"NUMBA_CACHE_DIR": str(cache), "NUMBA_NUM_THREADS": str(threads), "PYTHONPATH": path}
    program = [sys.executable, "-c", PROGRAM, *methods]
    done = subprocess.run(program, env=os.environ | chosen, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A cache that was empty before `auto` ran with two helpers, and what that run did."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, run(cache, 3, "auto")


def test_helpers_compile_a_part_and_leave_nothing_but_the_cache(cold: tuple[Path, Any]) -> None:
    cache, (compiled, (found,), children, _) = cold
    assert 0 < len(compiled["ahead"]) < len(foreseen(2, Fidelity.L1, posed=True, adaptive=True))
    assert compiled["later"] == []
    assert not children
    assert list(cache.rglob("*.nbc"))
    assert not list(cache.rglob("*.tmp.*"))
    assert run(cache, 1, "auto") == [{"ahead": [], "later": []}, [found], False, []]


def test_all_that_a_method_compiles_is_foreseen(cold: tuple[Path, Any]) -> None:
    """From the method that needs least to the one that needs most: else one would compile for the next."""
    methods = ("l1 on stack", "l1", "rof on bare", "rof", "tgv-fusion", "auto on bare", "auto on stack", "auto")
    assert run(cold[0], 1, *methods)[3] == []


def test_a_kernel_has_one_row_for_a_method() -> None:
    """Two processes that stored one kernel at the same time could lose an entry of its cache."""
    for order, fidelity in ((1, Fidelity.L2), (2, Fidelity.L1), (2, Fidelity.HUBER)):
        rows = [KERNELS[number] for number in foreseen(order, fidelity, posed=True, adaptive=True)]
        assert len({(row.module, row.name) for row in rows}) == len(rows)
    assert len(KERNELS) < 256  # a byte each


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small kernels that no cache holds, in place of those of KERNELS; the numbers of those compiled here."""
    numbers: list[int] = []

    def compile_kernel(number: int, order: int, fidelity: int) -> None:
        numba.njit(lambda x: x + number)(1.0)
        numbers.append(number)

    monkeypatch.setattr(foresight, "compile_kernel", compile_kernel)
    monkeypatch.setattr(foresight, "threads", lambda: 3)
    return numbers


def helping(program: str, monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The helpers, which will run this program."""
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def begin(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
        started.append(start([command[0], "-c", program], **more))
        return started[-1]

    monkeypatch.setattr(foresight.subprocess, "Popen", begin)
    return started


def test_without_other_processes_all_is_compiled_here(kernels: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **more: Any) -> None:
        raise BlockingIOError("there are too many processes")

    monkeypatch.setattr(foresight.subprocess, "Popen", refuse)
    foresight._compile([3, 1, 2], 2, Fidelity.L1)
    assert kernels == [3, 1, 2]


def test_helpers_that_take_nothing_are_not_waited_for(kernels: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = helping("import time; time.sleep(600)", monkeypatch)
    began = time.monotonic()
    foresight._compile([3, 1, 2], 2, Fidelity.L1)
    assert time.monotonic() - began < 300
    assert kernels == [3, 1, 2]
    assert len(helpers) == 2
    assert all(helper.returncode for helper in helpers)


@pytest.mark.parametrize("then", ["raise SystemExit(1)", "import time; time.sleep(600)"], ids=["fails", "hangs"])
def test_what_a_helper_does_not_finish_holds_nothing_up(
    then: str, kernels: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foresight, "PATIENCE", 0.1)
    helpers = helping(f"import os; os.read(0, 1); {then}", monkeypatch)
    numbers = list(range(1, 60))
    foresight._compile(numbers, 2, Fidelity.L1)
    assert len(numbers) - 2 <= len(kernels) <= len(numbers)
    assert all(helper.returncode for helper in helpers)


def test_a_helper_whose_caller_has_died_ends(kernels: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    callers = iter([10, 10, 10, 1])
    monkeypatch.setattr(foresight.os, "getppid", lambda: next(callers))
    monkeypatch.setattr(foresight, "_taken", lambda queue: iter([5, 6, 7, 8]))
    monkeypatch.setattr(sys, "argv", ["-c", "2", "0"])
    foresight.help_out()
    assert kernels == [5, 6]


def test_an_interrupt_ends_the_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(number: int, order: int, fidelity: int) -> None:
        numba.njit(lambda x: x + number)(1.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(foresight, "compile_kernel", interrupt)
    monkeypatch.setattr(foresight, "threads", lambda: 3)
    helpers = helping("import time; time.sleep(600)", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        foresight._compile([1, 2], 2, Fidelity.L1)
    assert all(helper.returncode for helper in helpers)


def test_kernels_from_the_cache_need_no_helper(kernels: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "compile_kernel", lambda number, order, fidelity: None)
    helpers = helping("", monkeypatch)
    foresight._compile([1, 2], 2, Fidelity.L1)
    assert not helpers


def test_helpers_are_at_most_three_and_leave_a_thread_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    crews = []
    for threads in (1, 2, 4, 64):
        monkeypatch.setattr(foresight, "threads", lambda threads=threads: threads)
        crews.append(foresight.crew())
    assert crews == [1, 2, 4, 4]


@pytest.mark.parametrize("executable", [None, "", "/usr/bin/painting", "C:/Apps/Modeller.exe"])
def test_an_application_starts_no_helpers(executable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "threads", lambda: 4)
    monkeypatch.setattr(sys, "executable", executable)
    assert foresight.crew() == 1


def test_workers_start_no_helpers() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(foresight.crew) == 1


def test_nothing_is_compiled_where_numba_is_told_not_to() -> None:
    program = (
        "from cfusion.kernels import cpu\nfrom cfusion.kernels.contract import Fidelity\n"
        "cpu.precompile((3, 4), 2, Fidelity.L1, posed=False, adaptive=False)"
    )
    subprocess.run([sys.executable, "-c", program], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=True)
