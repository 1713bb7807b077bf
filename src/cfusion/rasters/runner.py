"""Run one function over many tiles, in this process or in several; a killed worker costs one tile."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from queue import SimpleQueue
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
        self._free: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()  # of workers that are not at work
        for _ in range(self.workers if self.workers > 1 else 0):
            self._free.put(self._pool())

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        while not self._free.empty():
            self._free.get().shutdown(cancel_futures=True)

    def run(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], done: Done) -> None:
        """Call the function for every job; `done(number, result)` is called in this process, in order of completion."""
        if self.workers == 1:
            for number, job in enumerate(jobs):
                done(number, function(*job))
            return
        with ThreadPoolExecutor(self.workers) as threads:  # each waits for one worker process
            numbers = {threads.submit(self._one, function, job): number for number, job in enumerate(jobs)}
            try:
                for answer in as_completed(list(numbers)):
                    done(numbers.pop(answer), answer.result())
            finally:
                threads.shutdown(cancel_futures=True)

    def _one(self, function: Callable[..., Any], job: tuple[Any, ...]) -> Any:
        """Run one job on a free worker, which is replaced if it dies."""
        pool = self._free.get()
        try:
            for _ in range(MOST_DEATHS):
                try:
                    return pool.submit(function, *job).result()
                except BrokenProcessPool:
                    pool.shutdown(wait=False)
                    pool = self._pool()
        finally:
            self._free.put(pool)
        raise CFusionError(
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
