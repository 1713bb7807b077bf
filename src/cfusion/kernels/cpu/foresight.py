"""Compilation of the kernels of a method before they are needed, in several processes at a time.

Numba compiles one kernel at a time and holds the interpreter's lock. Kernels that are missing from its cache are
therefore a queue, a pipe of one byte per kernel, from which this process and its helpers take; what a helper compiles
goes to the cache, from where a kernel's first call loads it. Nothing depends on a helper: a kernel that is missing
afterwards, or that `foreseen` does not know, is compiled when it is called.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import parent_process
from pathlib import Path
from threading import Lock

import numba

from cfusion.kernels.contract import Fidelity
from cfusion.kernels.cpu.compiling import hearing
from cfusion.kernels.cpu.foreseen import compile_kernel, foreseen
from cfusion.kernels.threads import threads

MOST_HELPERS = 3  # a fourth would shorten nothing: the longest kernel takes as long as all others by then
PATIENCE = 60.0  # seconds for a helper's last kernel
QUEUE = 0  # a helper's standard input
HELP = "import sys; sys.path[:] = sys.argv[3:]; from cfusion.kernels.cpu.foresight import help_out; help_out()"
Kind = tuple[int, Fidelity, bool, bool]
_one_at_a_time = Lock()
_ready: set[Kind] = set()


def precompile(shape: tuple[int, int], order: int, fidelity: Fidelity, posed: bool, adaptive: bool) -> None:
    """As `Backend.precompile`: float32. Returns when the kernels are compiled."""
    kind = order, fidelity, posed, adaptive
    with _one_at_a_time:
        if kind not in _ready and not numba.config.DISABLE_JIT:
            _compile(foreseen(order, fidelity, posed=posed, adaptive=adaptive), order, fidelity)
            _ready.add(kind)


def crew() -> int:
    """The number of processes that compile: this one, and helpers unless they would be in the way."""
    if parent_process() is not None or not _is_python(sys.executable):
        return 1  # one of several workers, or an application
    return 1 + min(threads() - 1, MOST_HELPERS)


def help_out() -> None:
    """Compile kernels from the queue on standard input, in a helper, until there are no more or the caller has died."""
    order, fidelity = (int(each) for each in sys.argv[1:3])
    caller = os.getppid()
    for number in _taken(QUEUE):
        if os.getppid() != caller:
            return
        compile_kernel(number, order, fidelity)


def _compile(numbers: list[int], order: int, fidelity: Fidelity) -> None:
    """Load or compile kernels, with helpers from the first one that is not in the cache."""
    source, sink = os.pipe()
    try:
        os.write(sink, bytes(numbers))
    finally:
        os.close(sink)
    with ExitStack() as closing:
        closing.callback(os.close, source)
        helpers = closing.enter_context(_helpers())

        def start(kernel: str, done: bool) -> None:
            if not helpers:
                helpers.extend(_started(crew() - 1, source, order, fidelity))

        left = set(numbers)
        with hearing(start):
            for number in _taken(source):
                left.remove(number)
                compile_kernel(number, order, fidelity)
        if left:  # taken by helpers
            for helper in helpers:
                with suppress(subprocess.TimeoutExpired):
                    helper.wait(PATIENCE)


def _started(count: int, queue: int, order: int, fidelity: Fidelity) -> Iterator[subprocess.Popen[bytes]]:
    """Helpers with this process's path, or fewer where processes cannot be started."""
    command = [sys.executable, "-c", HELP, str(order), str(int(fidelity)), *sys.path]
    nothing, hidden = subprocess.DEVNULL, getattr(subprocess, "CREATE_NO_WINDOW", 0)  # of Windows
    try:
        for _ in range(count):
            yield subprocess.Popen(command, stdin=queue, stdout=nothing, stderr=nothing, creationflags=hidden)
    except OSError:
        return


@contextmanager
def _helpers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list for helpers, which are ended with the block."""
    helpers: list[subprocess.Popen[bytes]] = []
    try:
        yield helpers
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def _taken(queue: int) -> Iterator[int]:
    """The numbers that this process takes from the queue."""
    while taken := os.read(queue, 1):
        yield taken[0]


def _is_python(executable: str | None) -> bool:
    """False in an application that contains an interpreter: its executable is the application."""
    return bool(executable) and Path(str(executable)).stem.lower().startswith("python")
