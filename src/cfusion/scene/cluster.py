"""Tasks on a dask.distributed cluster: one started here, or a running one given by its address.

A task is a path and a few numbers, its result a short record; the worker writes the maps. If a worker dies the
scheduler gives its task to another. If the scheduler dies the command waits for it and resubmits the tasks without a
record.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cfusion.errors import BackendUnavailable, InputError, optional_module
from cfusion.scene.job import Job, Task
from cfusion.scene.record import Record
from cfusion.scene.work import OUT_OF_MEMORY, TaskCallback, work

TASKS_PER_THREAD = 3  # tasks submitted per worker thread, so that no worker waits for its next one
TRIES = 3  # attempts at a task that failed for lack of disk or memory, on different workers where there are several
PATIENCE = 60.0  # seconds to wait for a lost scheduler
CONNECT = 10.0  # seconds to wait for the first connection
ADDRESS = re.compile(r"inproc://.+|(\w+://)?[^\s/:]+:\d{1,5}|(\w+://)?\[[0-9a-fA-F:.]+\]:\d{1,5}")
MEMORY = re.compile(r"auto|0?\.\d+|\d+(\.\d+)?\s*([kMGTP]i?B|B|)", re.IGNORECASE)  # share of all memory, or bytes
# Ctrl-C reaches all processes of a terminal: this one ends the workers, which would print a traceback each.
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"  # run by each worker as it starts
MOST_WORKERS = 1000  # started by one command
QUERY_EVERY = 2.0  # seconds between two queries for the number of workers
INSPECT_AFTER = 30.0  # seconds without a record after which the cluster is inspected
STUCK, STUCK_FACTOR = 900.0, 10  # seconds without a record, and times the longest task: tasks go to others too


@dataclass(frozen=True)
class Cluster:
    """A cluster of `count` processes on this machine, or the one whose scheduler is at `address`."""

    count: int = 0
    address: str = ""
    memory: str = "auto"  # of each local worker, in dask's notation: "4GB"
    patience: float = PATIENCE
    threads: int = 0  # of each local worker; 0: an equal share of the cores

    def __post_init__(self) -> None:
        if self.count <= 0 and not self.address:
            raise InputError("give a number of workers (at least 1) or the address of a scheduler")
        if self.count > MOST_WORKERS:
            raise InputError(f"{str(self.count)[:20]} workers are too many; give 1 to {MOST_WORKERS}")
        if self.address and not ADDRESS.fullmatch(self.address):
            raise InputError(
                f"{self.address[:80]!r} is not the address of a scheduler; give host and port, such as tcp://host:8786"
            )
        if not MEMORY.fullmatch(self.memory):
            raise InputError(
                f"the memory of a worker is {self.memory[:40]!r}; give a size such as 4GB or a share such as 0.5"
            )

    @contextmanager
    def open(self) -> Iterator[Cluster]:
        """Start the workers; the opened cluster serves several runs."""
        if self.address:
            yield self
        else:
            with _local(self.count, self.memory, self.threads) as address:
                yield replace(self, address=address)

    @property
    def workers(self) -> int:
        """Number of tasks that run at the same time; 1 if the cluster was not started here."""
        return max(1, self.count)

    def run(self, job: Job, tasks: Sequence[Task], callback: TaskCallback | None = None) -> Iterator[Record]:
        """Yield the records as tasks end; each task ends once, however often workers die."""
        if not tasks:
            return
        left = dict.fromkeys(tasks, 0)  # attempts per task
        deadline = time.monotonic() + self.patience
        with self.open() as there:
            while left:
                try:
                    for record in _records_from(there.address, job, left, CONNECT):
                        deadline = time.monotonic() + self.patience
                        yield record
                except _SchedulerLost as gone:
                    if time.monotonic() > deadline:
                        raise BackendUnavailable(
                            f"no scheduler answers at {there.address} ({gone}); {len(left)} tasks left: start it and "
                            "run the same command again"
                        ) from None
                    time.sleep(1.0)


class _SchedulerLost(Exception):
    """The scheduler does not answer."""


def _records_from(address: str, job: Job, left: dict[Task, int], timeout: float) -> Iterator[Record]:
    """Yield records over one connection and remove their tasks from `left`; raise `_SchedulerLost` when it breaks."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise _SchedulerLost(str(error) or type(error).__name__) from None
    except ValueError as error:
        raise InputError(
            f"{address[:80]!r} is not the address of a scheduler ({error}); give one such as tcp://host:8786"
        ) from None
    try:
        yield from _Exchange(client, job, left).records()
    except (OSError, CancelledError, asyncio.CancelledError) as error:
        raise _SchedulerLost(str(error) or type(error).__name__) from None
    finally:
        client.close(timeout=2)


class _Exchange:
    """Tasks submitted through one client, a few per worker at a time, and their records."""

    def __init__(self, client: Any, job: Job, left: dict[Task, int]) -> None:
        self.client, self.job, self.left = client, job, left
        self.waiting = list(left)
        self.running: dict[Any, Task] = {}
        self.failed_on: dict[Task, set[str]] = {}
        self.stuck_on: dict[Task, set[str]] = {}
        self.threads, self.looked = 1, -math.inf
        self.last_record, self.longest = time.monotonic(), 0.0  # time of the last record; seconds of the longest task

    def records(self) -> Iterator[Record]:
        """Yield records as tasks end; a task that failed because of its machine is first retried on others."""
        self._submit_waiting()
        while self.left:
            for future in self._finished():
                task = self.running.pop(future)
                if task not in self.left:  # another worker finished it first
                    continue
                if self.client.status != "running" or future.status in ("lost", "cancelled"):
                    raise _SchedulerLost("connection lost")
                record = _record_of(future, task)
                future.release()
                self.last_record, self.longest = time.monotonic(), max(self.longest, record.seconds)
                self.left[task] += 1
                if record.failure and record.elsewhere and self.left[task] < TRIES:
                    self.failed_on.setdefault(task, set()).add(record.worker)
                    self._submit(task)
                else:
                    del self.left[task]
                    yield record
            self._submit_waiting()

    def _submit_waiting(self) -> None:
        if time.monotonic() > self.looked + QUERY_EVERY:  # the query is a round trip to the scheduler
            self.threads, self.looked = max(1, sum(self.client.nthreads().values())), time.monotonic()
        while self.waiting and len(self.running) < TASKS_PER_THREAD * self.threads:
            self._submit(self.waiting.pop(0))

    def _submit(self, task: Task) -> None:
        bad = self.failed_on.get(task, set()) | self.stuck_on.get(task, set())
        others = [each for each in self.client.nthreads() if each not in bad] if bad else []
        # pure=False: dask must not return the result of an earlier attempt
        future = self.client.submit(_run_task, self.job, task, pure=False, workers=others or None)
        self.running[future] = task

    def _finished(self) -> list[Any]:
        """The finished futures; after INSPECT_AFTER seconds without one, resubmit tasks of lost or stuck workers."""
        try:
            with self.client.as_current():
                return list(
                    _distributed().wait(list(self.running), timeout=INSPECT_AFTER, return_when="FIRST_COMPLETED").done
                )
        except TimeoutError:
            if self.client.status != "running":
                raise _SchedulerLost("connection lost") from None
            self._resubmit()
            return []

    def _resubmit(self) -> None:
        """Resubmit tasks bound to workers that are gone, and give tasks of stuck workers to others as well.

        A worker without memory may stay alive and never finish; whichever copy ends first counts.
        """
        for future, task in [each for each in self.running.items() if each[1] in self.failed_on]:
            del self.running[future]
            future.cancel()
            self.failed_on.pop(task, None)
            self._submit(task)
        if time.monotonic() > self.last_record + max(STUCK, STUCK_FACTOR * self.longest):
            self.last_record = time.monotonic()
            at = {key: place for place, keys in self.client.processing().items() for key in keys}
            for future, task in list(self.running.items()):
                if task in self.left and sum(each == task for each in self.running.values()) < TRIES:
                    self.stuck_on.setdefault(task, set()).add(at.get(future.key, ""))
                    self._submit(task)


def _run_task(job: Job, task: Task) -> Record:
    """Run one task on a worker; if memory does not even suffice for the failure's record, return a fixed one."""
    address = _distributed().get_worker().address
    try:
        record = next(work(job, [task]))
    except MemoryError:
        record = replace(_failed(task, OUT_OF_MEMORY), elsewhere=True)
    return replace(record, worker=address)


def _failed(task: Task, reason: str) -> Record:
    return Record(task.view, f"{task.view:06d}", task.key, task.neighbours, failure=reason)


def _record_of(future: Any, task: Task) -> Record:
    """The record of a finished future; an exception (such as a worker that died too often) becomes a failure."""
    error = future.exception() if future.status == "error" else None
    if error is None:
        record: Record = future.result()
        return record
    name = type(error).__name__
    reason = (
        "its worker died each time; give workers more memory, or use fewer neighbours"
        if name == "KilledWorker"
        else f"{name}: {error}"
    )
    return _failed(task, reason)


@contextmanager
def _local(count: int, memory: str, threads: int = 0) -> Iterator[str]:
    """Start a cluster on this machine and yield its address; cores are divided equally, GPUs assigned in turn."""
    distributed = _distributed()
    threads = threads or max(1, (os.cpu_count() or 1) // count)
    devices = _devices()

    def environment(number: int) -> dict[str, str]:
        shared = {name: str(threads) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        return shared | ({"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]} if devices else {})

    quiet = {"dashboard": False, "silence_logs": logging.CRITICAL, "preload": [DEAF]}
    nanny = {
        number: {
            "cls": distributed.Nanny,
            "options": {"nthreads": 1, "memory_limit": memory, "env": environment(number), **quiet},
        }
        for number in range(count)
    }
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors of a task are in its record
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": "127.0.0.1", "dashboard": False, "dashboard_address": ":0", "port": 0},
    }
    with _lean_workers(), distributed.SpecCluster(workers=nanny, scheduler=scheduler, silence_logs=50) as cluster:
        yield cluster.scheduler_address


def _lean_workers() -> Any:
    """Dask's settings without its limit on memory that glibc may keep, and without its profiler.

    With the limit every freed array is returned to the system and cleared again: a third of a worker's time. The
    profiler looks at every worker each 10 ms for a dashboard that nobody opens: 5 to 10 % of two workers' time.
    """
    limit = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
    return importlib.import_module("dask").config.set({limit: None, "distributed.worker.profile.enabled": False})


def _devices() -> list[str]:
    """The GPUs of this machine by number; CUDA_VISIBLE_DEVICES is respected."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [each for each in visible.split(",") if each.strip()]
    try:
        found = [name.removeprefix("nvidia") for name in os.listdir("/dev")]
    except OSError:
        return []
    return sorted((each for each in found if each.isdigit()), key=int)


def require_dask() -> None:
    """Raise before any computation if dask is not installed."""
    _distributed()


def _distributed() -> Any:
    return optional_module("distributed", missing="a cluster needs dask: pip install 'cfusion[cluster]'")
