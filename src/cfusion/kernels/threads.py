"""Bands of an image in several threads, in functions that run without the interpreter's lock.

Those are compiled functions, and NumPy's on large arrays. Numba compiles a function for one thread in a third of the
time that it needs for parallel loops.
"""

import os
import sys
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np

ENOUGH = 1 << 15  # pixels from which a second thread pays off
Call = tuple[Any, ...]  # a function and its arguments
Answers = SimpleQueue[BaseException | None]  # the error of each call, or None
_starting = Lock()  # held while the threads of a process are started


def in_bands(shape: tuple[int, ...], *calls: Call) -> None:
    """Call kernel(start, stop, *arguments) for each (kernel, *arguments) in turn, on bands of an (H, W) image's rows.

    Bands run at the same time, and their borders depend on the number of threads: the output of a kernel must not
    depend on them, and it must not read what another band writes.
    """
    height, width = shape
    bands = max(1, min(threads(), height, height * width // ENOUGH))
    in_parallel([(_in_turn, start, stop, *calls) for start, stop in cuts(height, bands)])


def with_lines(kernel: Any, count: int, width: int, dtype: Any = np.float64) -> Callable[..., None]:
    """The kernel with `count` more arguments, lines to work in: one that allocates them takes longer to compile."""
    return lambda *given: kernel(*given, *np.empty((count, width), dtype))


def _in_turn(start: int, stop: int, *calls: Call) -> None:
    for kernel, *arguments in calls:
        kernel(start, stop, *arguments)


def in_parallel(calls: list[Call]) -> None:
    """Make the calls at the same time, at most one per thread.

    The calling thread takes part, and takes over the share of threads that are slow to wake.
    """
    if len(calls) == 1:
        copy_context().run(*calls[0])
        return
    state = np.geterr()
    todo, answers = deque([(copy_context().run, _under, state, *call) for call in calls]), Answers()
    with _starting:
        helpers = _helpers(os.getpid())
    for _ in calls[1:]:
        helpers.put((todo, answers))
    _work_off(todo, answers)
    for failure in [answers.get() for _ in calls]:
        if failure is not None:
            raise failure


def _under(state: Any, function: Any, *arguments: Any) -> None:
    """Call a function with the caller's errstate, which before NumPy 2 is a thread's own."""
    with np.errstate(**state):
        function(*arguments)


def threads() -> int:
    """The number of threads: NUMBA_NUM_THREADS, or fewer by `numba.set_num_threads`; one if Numba is not loaded."""
    numba: Any = sys.modules.get("numba")
    return numba.get_num_threads() if hasattr(numba, "get_num_threads") else 1


def cuts(length: int, parts: int) -> list[tuple[int, int]]:
    """Start and stop of each part of range(length); their lengths differ by at most one."""
    return list(pairwise(length * part // parts for part in range(parts + 1)))


@cache
def _helpers(process: int) -> SimpleQueue[tuple[deque[Call], Answers]]:
    """The queue on which the threads of a process wait; a fork has no threads of its parent and gets its own."""
    waiting: SimpleQueue[tuple[deque[Call], Answers]] = SimpleQueue()
    numba: Any = sys.modules.get("numba")
    for _ in range(numba.config.NUMBA_NUM_THREADS - 1 if numba else 0):
        Thread(target=_help, args=(waiting,), name="cfusion", daemon=True).start()
    return waiting


def _help(waiting: SimpleQueue[tuple[deque[Call], Answers]]) -> None:
    while True:
        _work_off(*waiting.get())


def _work_off(todo: deque[Call], answers: Answers) -> None:
    """Make calls until none is left, and report the exception of each, or None."""
    while todo:
        try:
            function, *arguments = todo.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            function(*arguments)
        except BaseException as failure:
            answers.put(failure)
        else:
            answers.put(None)
