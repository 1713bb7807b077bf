"""Tasks on a dask.distributed cluster: a local one, or one that is there already.

A task is a path and a few numbers, its result a short record; maps are written by the worker that made them. A worker
that dies takes its task with it, which the scheduler gives to another; a scheduler that dies is waited for, and what is
not on disk by then is handed out again.
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

from cfusion.errors import BackendUnavailable, InputError, MissingDependency
from cfusion.scene.job import Job, Task
from cfusion.scene.record import Record
from cfusion.scene.work import OUT_OF_MEMORY, Heard, work

AHEAD = 3  # tasks handed out per worker and waiting, so that none idles between two
TRIES = 3  # of a task that failed for want of disk or memory, each on another worker if there is one
PATIENCE = 60.0  # seconds to wait for a scheduler that went away
CONNECT = 10.0  # seconds to wait for one at the beginning
ADDRESS = re.compile(r"inproc://.+|(\w+://)?[^\s/:]+:\d{1,5}|(\w+://)?\[[0-9a-fA-F:.]+\]:\d{1,5}")
MEMORY = re.compile(r"auto|0?\.\d+|\d+(\.\d+)?\s*([kMGTP]i?B|B|)", re.IGNORECASE)  # a share of all, or bytes
MOST_WORKERS = 1000  # that one command starts
GLANCE = 2.0  # seconds for which a number of workers is believed
LOOK = 30.0  # seconds without a record after which the state of the cluster is looked at
STUCK, TIMES = 900.0, 10  # seconds, and times the longest task, without a record: tasks are given to others as well


@dataclass(frozen=True)
class Cluster:
    """A cluster of `workers` processes on this machine, or the one whose scheduler is at `address`."""

    count: int = 0
    address: str = ""
    memory: str = "auto"  # of each local worker, as dask spells it: "4GB"
    patience: float = PATIENCE
    threads: int = 0  # of each local worker; 0: an equal share of the cores

    def __post_init__(self) -> None:
        if self.count <= 0 and not self.address:
            raise InputError("name a number of workers (at least 1), or the address of a scheduler")
        if self.count > MOST_WORKERS:
            raise InputError(
                f"{str(self.count)[:20]} workers are more than this machine can start; give 1 to {MOST_WORKERS}"
            )
        if self.address and not ADDRESS.fullmatch(self.address):
            raise InputError(
                f"{self.address[:80]!r} is no address of a scheduler; give one with its port, as tcp://host:8786"
            )
        if not MEMORY.fullmatch(self.memory):
            raise InputError(
                f"the memory of a worker is {self.memory[:40]!r}; give a size as 4GB or 500MB, or a share as 0.5"
            )

    @contextmanager
    def open(self) -> Iterator[Cluster]:
        """The cluster with its workers started, for one run after the other."""
        if self.address:
            yield self
        else:
            with _local(self.count, self.memory, self.threads) as address:
                yield replace(self, address=address)

    @property
    def workers(self) -> int:
        """How many tasks are done at a time, as far as is known here."""
        return max(1, self.count)

    def run(self, job: Job, tasks: Sequence[Task], heard: Heard | None = None) -> Iterator[Record]:
        """As they are done; each once, however often workers die."""
        if not tasks:
            return
        left = dict.fromkeys(tasks, 0)  # and how often each was tried
        deadline = time.monotonic() + self.patience
        with self.open() as there:
            while left:
                try:
                    for record in _served(there.address, job, left, CONNECT):
                        deadline = time.monotonic() + self.patience
                        yield record
                except _Gone as gone:
                    if time.monotonic() > deadline:
                        raise BackendUnavailable(
                            f"no scheduler answers at {there.address} ({gone}); {len(left)} tasks left: start it and "
                            "give the same command again"
                        ) from None
                    time.sleep(1.0)


class _Gone(Exception):
    """The scheduler does not answer."""


def _served(address: str, job: Job, left: dict[Task, int], timeout: float) -> Iterator[Record]:
    """Records from one connection; raises `_Gone` when it breaks. `left` loses what is done."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise _Gone(str(error) or type(error).__name__) from None
    except ValueError as error:
        raise InputError(
            f"{address[:80]!r} is no address of a scheduler ({error}); give one as tcp://host:8786"
        ) from None
    try:
        yield from _Exchange(client, job, left).records()
    except (OSError, CancelledError, asyncio.CancelledError) as error:
        raise _Gone(str(error) or type(error).__name__) from None
    finally:
        client.close(timeout=2)


class _Exchange:
    """Tasks handed out through one client, and their records; never more than a few per worker."""

    def __init__(self, client: Any, job: Job, left: dict[Task, int]) -> None:
        self.client, self.job, self.left = client, job, left
        self.waiting = list(left)
        self.running: dict[Any, Task] = {}
        self.failed_on: dict[Task, set[str]] = {}
        self.stuck_on: dict[Task, set[str]] = {}
        self.threads, self.looked = 1, -math.inf
        self.heard, self.longest = time.monotonic(), 0.0  # when the last record came, and the seconds of the longest

    def records(self) -> Iterator[Record]:
        """As tasks are done; those that failed by their machine are tried on others first."""
        self._hand_out()
        while self.left:
            for future in self._ready():
                task = self.running.pop(future)
                if task not in self.left:  # another worker was quicker
                    continue
                if self.client.status != "running" or future.status in ("lost", "cancelled"):
                    raise _Gone("connection lost")
                record = _record_of(future, task)
                future.release()
                self.heard, self.longest = time.monotonic(), max(self.longest, record.seconds)
                self.left[task] += 1
                if record.failure and record.elsewhere and self.left[task] < TRIES:
                    self.failed_on.setdefault(task, set()).add(record.worker)
                    self._give(task)
                else:
                    del self.left[task]
                    yield record
            self._hand_out()

    def _hand_out(self) -> None:
        if time.monotonic() > self.looked + GLANCE:  # asking takes a message to the scheduler and back
            self.threads, self.looked = max(1, sum(self.client.nthreads().values())), time.monotonic()
        while self.waiting and len(self.running) < AHEAD * self.threads:
            self._give(self.waiting.pop(0))

    def _give(self, task: Task) -> None:
        bad = self.failed_on.get(task, set()) | self.stuck_on.get(task, set())
        others = [each for each in self.client.nthreads() if each not in bad] if bad else []
        # Not pure: a result must not be taken from an earlier try.
        future = self.client.submit(_at_work, self.job, task, pure=False, workers=others or None)
        self.running[future] = task

    def _ready(self) -> list[Any]:
        """The futures that are done; where workers went away, tasks that wait for them alone are given anew."""
        try:
            with self.client.as_current():
                return list(_distributed().wait(list(self.running), timeout=LOOK, return_when="FIRST_COMPLETED").done)
        except TimeoutError:
            if self.client.status != "running":
                raise _Gone("connection lost") from None
            self._look_after()
            return []

    def _look_after(self) -> None:
        """Give anew the tasks whose only workers went away, and to others as well those of workers that are stuck.

        A worker without memory may live on and never end its task; which of two ends first does not matter.
        """
        for future, task in [each for each in self.running.items() if each[1] in self.failed_on]:
            del self.running[future]
            future.cancel()
            self.failed_on.pop(task, None)
            self._give(task)
        if time.monotonic() > self.heard + max(STUCK, TIMES * self.longest):
            self.heard = time.monotonic()
            at = {key: place for place, keys in self.client.processing().items() for key in keys}
            for future, task in list(self.running.items()):
                if task in self.left and sum(each == task for each in self.running.values()) < TRIES:
                    self.stuck_on.setdefault(task, set()).add(at.get(future.key, ""))
                    self._give(task)


def _at_work(job: Job, task: Task) -> Record:
    """What a worker does; where even the words for its failure find no memory, these do."""
    address = _distributed().get_worker().address
    try:
        record = next(work(job, [task]))
    except MemoryError:
        record = replace(_failed(task, OUT_OF_MEMORY), elsewhere=True)
    return replace(record, worker=address)


def _failed(task: Task, reason: str) -> Record:
    return Record(task.view, f"{task.view:06d}", task.key, task.neighbours, failure=reason)


def _record_of(future: Any, task: Task) -> Record:
    """The record of a finished future; a worker that died too often with it is its failure."""
    error = future.exception() if future.status == "error" else None
    if error is None:
        record: Record = future.result()
        return record
    name = type(error).__name__
    reason = (
        "its worker died each time; give workers more memory, or fewer neighbours"
        if name == "KilledWorker"
        else f"{name}: {error}"
    )
    return _failed(task, reason)


@contextmanager
def _local(count: int, memory: str, threads: int = 0) -> Iterator[str]:
    """The address of a cluster on this machine; the cores are shared out, and the GPUs given round."""
    distributed = _distributed()
    threads = threads or max(1, (os.cpu_count() or 1) // count)
    devices = _devices()

    def environment(number: int) -> dict[str, str]:
        shared = {name: str(threads) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        return shared | ({"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]} if devices else {})

    quiet = {"dashboard": False, "silence_logs": logging.CRITICAL}
    nanny = {
        number: {
            "cls": distributed.Nanny,
            "options": {"nthreads": 1, "memory_limit": memory, "env": environment(number), **quiet},
        }
        for number in range(count)
    }
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong in a task is in its record
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": "127.0.0.1", "dashboard": False, "dashboard_address": ":0", "port": 0},
    }
    with _usual_allocator(), distributed.SpecCluster(workers=nanny, scheduler=scheduler, silence_logs=50) as cluster:
        yield cluster.scheduler_address


def _usual_allocator() -> Any:
    """Workers without dask's limit of memory that glibc may keep: each array would be handed back, and cleared anew.

    A third of a worker's time went into that.
    """
    limit = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
    return importlib.import_module("dask").config.set({limit: None})


def _devices() -> list[str]:
    """The GPUs of this machine, by number; those the user hid stay hidden."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [each for each in visible.split(",") if each.strip()]
    try:
        found = [name.removeprefix("nvidia") for name in os.listdir("/dev")]
    except OSError:
        return []
    return sorted((each for each in found if each.isdigit()), key=int)


def require_dask() -> None:
    """Find out before computing whether a cluster can be used."""
    _distributed()


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise MissingDependency("a cluster needs dask: pip install 'cfusion[cluster]'") from None
