"""Bands of an image in several threads, each in functions that do without the interpreter's lock.

Those are compiled ones, and NumPy's on large arrays. Numba compiles a function for one thread in a third of the time
that it needs to make the same loops parallel.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any

ENOUGH = 1 << 15  # pixels that are worth a second thread
Call = tuple[Any, ...]  # a function and its arguments
Answers = SimpleQueue[BaseException | None]  # how each call ended


def in_bands(shape: tuple[int, ...], *calls: Call) -> None:
    """Call kernel(start, stop, *arguments) of each (kernel, *arguments) in turn, for bands of an (H, W) image's rows.

    Bands go on at the same time, and where they begin depends on the number of threads: what a kernel writes must not
    depend on that, and what another band writes it must not read.
    """
    height, width = shape
    bands = max(1, min(threads(), height, height * width // ENOUGH))
    in_parallel([(_in_turn, start, stop, *calls) for start, stop in cuts(height, bands)])


def _in_turn(start: int, stop: int, *calls: Call) -> None:
    for kernel, *arguments in calls:
        kernel(start, stop, *arguments)


def in_parallel(calls: list[Call]) -> None:
    """Make the calls, at most one for each of the `threads`, at the same time.

    The calling thread takes its share, and the others' too when they are slow to wake.
    """
    if len(calls) == 1:
        function, *arguments = calls[0]
        function(*arguments)
        return
    todo, answers = deque([(copy_context().run, *call) for call in calls]), Answers()  # with NumPy's errstate
    for _ in calls[1:]:
        _helpers(os.getpid()).put((todo, answers))
    _work_off(todo, answers)
    for failure in [answers.get() for _ in calls]:
        if failure is not None:
            raise failure


def threads() -> int:
    """How many threads may work: NUMBA_NUM_THREADS, unless `numba.set_num_threads` says fewer; without Numba, one."""
    numba: Any = sys.modules.get("numba")
    return numba.get_num_threads() if hasattr(numba, "get_num_threads") else 1


def cuts(length: int, parts: int) -> list[tuple[int, int]]:
    """Where each of the parts of range(length) starts and stops; they differ by at most one."""
    return list(pairwise(length * part // parts for part in range(parts + 1)))


@cache
def _helpers(process: int) -> SimpleQueue[tuple[deque[Call], Answers]]:
    """Where the threads of a process wait for work; a fork has none of its parent's, so it gets its own."""
    waiting: SimpleQueue[tuple[deque[Call], Answers]] = SimpleQueue()
    for _ in range(sys.modules["numba"].config.NUMBA_NUM_THREADS - 1):
        Thread(target=_help, args=(waiting,), name="cfusion", daemon=True).start()
    return waiting


def _help(waiting: SimpleQueue[tuple[deque[Call], Answers]]) -> None:
    while True:
        _work_off(*waiting.get())


def _work_off(todo: deque[Call], answers: Answers) -> None:
    """Make calls until none is left, and answer each with the exception it ended in, or None."""
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
