"""Run one function over many tiles, in this process or in several; a killed worker costs one tile."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from cfusion.errors import CFusionError, InputError

MOST_DEATHS = 3  # of workers at one tile, before the tile is given up

Done = Callable[[int, Any], None]


class Crew:
    """Worker processes, each in its own pool: if one dies, only its tile is repeated.

    A single worker is this process itself.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers != int(workers) or workers < 1:
            raise InputError(f"--workers is {workers}; give a number of processes, at least 1")
        self.workers = int(workers)
        self._pools: list[ProcessPoolExecutor | None] = [None] * self.workers

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)
        self._pools = [None] * self.workers

    def run(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], done: Done) -> None:
        """Call the function for every job; `done(number, result)` is called in this process, in order of completion."""
        if self.workers == 1:
            for number, job in enumerate(jobs):
                done(number, function(*job))
            return
        todo: queue.Queue[int] = queue.Queue()
        for number in range(len(jobs)):
            todo.put(number)
        answers: queue.Queue[tuple[int, Any, BaseException | None]] = queue.Queue()
        stop = threading.Event()

        def work(place: int) -> None:
            while not stop.is_set():
                try:
                    number = todo.get_nowait()
                except queue.Empty:
                    return
                answers.put((number, *self._one(place, function, jobs[number])))

        threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            for _ in jobs:
                number, result, error = answers.get()
                if error is not None:
                    raise error
                done(number, result)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _one(self, place: int, function: Callable[..., Any], job: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
        """Run one job on one worker, which is replaced if it dies."""
        for _ in range(MOST_DEATHS):
            pool = self._pools[place]
            if pool is None:
                pool = self._pools[place] = self._pool()
            try:
                return pool.submit(function, *job).result(), None
            except BrokenProcessPool:
                pool.shutdown(wait=False)
                self._pools[place] = None
            except BaseException as raised:  # raised again by the thread that waits
                return None, raised
        return None, CFusionError(
            f"worker processes were killed {MOST_DEATHS} times at one tile, probably for lack of memory; pass a "
            "smaller --tile or fewer --workers"
        )

    def _pool(self) -> ProcessPoolExecutor:
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=context, initializer=_limit_threads, initargs=(threads,))


HERE = Crew(1)


def _limit_threads(threads: int) -> None:
    """Set the thread limits, before Numba is imported: workers share the cores."""
    os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))
