"""Jobs of one function over many tiles: in this process, or in several; a killed worker costs the tile it was at."""

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

MOST_DEATHS = 3  # of workers at one tile; then it is the tile


def run(
    function: Callable[..., Any],
    jobs: Sequence[tuple[Any, ...]],
    workers: int = 1,
    done: Callable[[int, Any], None] = lambda number, result: None,
) -> None:
    """Call the function for every job; `done(number, result)` in this process, in whatever order they end."""
    if workers != int(workers) or workers < 1:
        raise InputError(f"--workers is {workers}; it is a number of processes, at least 1")
    if workers == 1 or len(jobs) < 2:
        for number, job in enumerate(jobs):
            done(number, function(*job))
        return
    _Crew(function, jobs, min(workers, len(jobs))).run(done)


class _Crew:
    """One thread a worker process: if a process dies, only its own tile is started again."""

    def __init__(self, function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], workers: int) -> None:
        self.function, self.jobs, self.workers = function, jobs, workers
        self.todo: queue.Queue[int] = queue.Queue()
        for number in range(len(jobs)):
            self.todo.put(number)
        self.answers: queue.Queue[tuple[int, Any, BaseException | None]] = queue.Queue()
        self.stop = threading.Event()

    def run(self, done: Callable[[int, Any], None]) -> None:
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        try:
            for _ in self.jobs:
                number, result, error = self.answers.get()
                if error is not None:
                    raise error
                done(number, result)
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()

    def _work(self) -> None:
        pool = self._pool()
        while not self.stop.is_set():
            try:
                number = self.todo.get_nowait()
            except queue.Empty:
                break
            result, error = None, None
            for _ in range(MOST_DEATHS):
                try:
                    result, error = pool.submit(self.function, *self.jobs[number]).result(), None
                    break
                except BrokenProcessPool:
                    pool.shutdown(wait=False)
                    pool = self._pool()
                    error = CFusionError(
                        f"worker processes were killed {MOST_DEATHS} times at one tile; is there too little memory? "
                        "Pass a smaller --tile or fewer --workers"
                    )
                except BaseException as raised:
                    error = raised
                    break
            self.answers.put((number, result, error))
        pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self) -> ProcessPoolExecutor:
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        return ProcessPoolExecutor(
            1, mp_context=multiprocessing.get_context("spawn"), initializer=_limit_threads, initargs=(threads,)
        )


def _limit_threads(threads: int) -> None:
    """Before Numba is imported: workers share the cores."""
    os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))
