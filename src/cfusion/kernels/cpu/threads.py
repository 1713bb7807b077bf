"""Bands of an image in several threads, each in a compiled function that does without the interpreter's lock.

Numba compiles a function for one thread in a third of the time that it needs to make the same loops parallel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numba

ENOUGH = 1 << 15  # pixels that are worth a second thread
Call = tuple[Any, ...]  # a function and its arguments


def in_bands(kernel: Callable[..., None], shape: tuple[int, ...], *arguments: Any) -> None:
    """Call kernel(start, stop, *arguments) for bands of rows that make up an (H, W) image, at the same time.

    What the kernel writes must not depend on where the bands begin: they follow the number of threads.
    """
    height, width = shape
    bands = min(threads(), height, height * width // ENOUGH)
    if bands <= 1:
        kernel(0, height, *arguments)
    else:
        in_parallel([(kernel, start, stop, *arguments) for start, stop in cuts(height, bands)])


def in_parallel(calls: list[Call]) -> None:
    """Make the calls, at most one for each of the `threads`, at the same time; the first in the calling thread."""
    (function, *arguments), *others = calls
    answers: SimpleQueue[BaseException | None] = SimpleQueue()
    for call in others:
        _helpers(os.getpid()).put((call, answers))
    try:
        function(*arguments)
    finally:  # the arrays are the caller's again only when nobody writes to them any more
        failures = [answers.get() for _ in others]
    for failure in filter(None, failures):
        raise failure


def threads() -> int:
    """How many threads may work: NUMBA_NUM_THREADS, unless `numba.set_num_threads` says fewer."""
    return numba.get_num_threads()


def cuts(length: int, parts: int) -> list[tuple[int, int]]:
    """Where each of the parts of range(length) starts and stops; they differ by at most one."""
    return list(pairwise(length * part // parts for part in range(parts + 1)))


@cache
def _helpers(process: int) -> SimpleQueue[tuple[Call, SimpleQueue[BaseException | None]]]:
    """Where the threads of a process wait for calls; a fork has none of its parent's, so it gets its own."""
    waiting: SimpleQueue[Any] = SimpleQueue()
    for _ in range(numba.config.NUMBA_NUM_THREADS - 1):
        Thread(target=_help, args=(waiting,), name="cfusion", daemon=True).start()
    return waiting


def _help(waiting: SimpleQueue[Any]) -> None:
    while True:
        _answer(*waiting.get())


def _answer(call: Call, answers: SimpleQueue[BaseException | None]) -> None:
    """Make the call and say how it ended; a function of its own, so that an idle thread holds no arrays."""
    function, *arguments = call
    try:
        function(*arguments)
    except BaseException as failure:
        answers.put(failure)
    else:
        answers.put(None)
