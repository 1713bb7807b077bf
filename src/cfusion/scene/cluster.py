"""Tasks on a dask.distributed cluster: a local one, or one that is there already.

A task is a path and a few numbers, its result a short record; maps are written by the worker that made them. A worker
that dies takes its task with it, which the scheduler gives to another; a scheduler that dies is waited for, and what is
not on disk by then is handed out again.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cfusion.errors import BackendUnavailable, InputError, MissingDependency
from cfusion.scene.job import Job, Task
from cfusion.scene.record import Record
from cfusion.scene.runner import Heard
from cfusion.scene.work import do

AHEAD = 2  # tasks handed out per worker and waiting, so that none idles between two
TRIES = 3  # of a task that failed for want of disk or memory, each on another worker if there is one
PATIENCE = 60.0  # seconds to wait for a scheduler that went away
CONNECT = 10.0  # seconds to wait for one at the beginning


@dataclass(frozen=True)
class Cluster:
    """A cluster of `workers` processes on this machine, or the one whose scheduler is at `address`."""

    count: int = 0
    address: str = ""
    memory: str = "auto"  # of each local worker, as dask spells it: "4GB"
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        if self.count <= 0 and not self.address:
            raise InputError("name a number of workers (at least 1), or the address of a scheduler")

    @contextmanager
    def open(self) -> Iterator[Cluster]:
        """The cluster with its workers started, for one run after the other."""
        if self.address:
            yield self
        else:
            with _local(self.count, self.memory) as address:
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
                            f"the scheduler at {there.address} is gone ({gone}); {len(left)} tasks left: start it and "
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
    try:
        waiting = list(left)
        running: dict[Any, Task] = {}
        done = distributed.as_completed(loop=client.loop)

        def hand_out() -> None:
            room = AHEAD * max(1, sum(client.nthreads().values()))
            while waiting and len(running) < room:
                give(waiting.pop(0), ())

        def give(task: Task, apart_from: Sequence[str]) -> None:
            others = [each for each in client.nthreads() if each not in apart_from]
            place = {"workers": others, "allow_other_workers": True} if apart_from and others else {}
            # An address of its own each time: a result must not be taken from an earlier try.
            future = client.submit(_at_work, job, task, pure=False, retries=0, **place)
            running[future] = task
            done.add(future)

        hand_out()
        while running:
            future = next(done)
            task = running.pop(future)
            if client.status != "running" or future.status in ("lost", "cancelled"):
                raise _Gone("connection lost")
            record = _record_of(future, task)
            future.release()
            left[task] += 1
            if record.failure and record.elsewhere and left[task] < TRIES:
                give(task, [record.worker])
            else:
                del left[task]
                yield record
            hand_out()
    except (OSError, StopIteration) as error:
        raise _Gone(str(error) or type(error).__name__) from None
    finally:
        client.close(timeout=2)


def _at_work(job: Job, task: Task) -> Record:
    """What a worker does."""
    record = do(job, task)
    return replace(record, worker=_distributed().get_worker().address)


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
    return Record(task.view, f"{task.view:06d}", task.key, task.neighbours, failure=reason)


@contextmanager
def _local(count: int, memory: str) -> Iterator[str]:
    """The address of a cluster on this machine; the cores are shared out, and the GPUs given round."""
    distributed = _distributed()
    threads = max(1, (os.cpu_count() or 1) // count)
    devices = _devices()

    def environment(number: int) -> dict[str, str]:
        shared = {name: str(threads) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        quiet = {"DASK_LOGGING__DISTRIBUTED": "critical"}  # what goes wrong in a task is in its record
        return shared | quiet | ({"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]} if devices else {})

    nanny = {
        number: {
            "cls": distributed.Nanny,
            "options": {"nthreads": 1, "memory_limit": memory, "env": environment(number), "dashboard": False},
        }
        for number in range(count)
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard": False, "port": 0}}
    with distributed.SpecCluster(workers=nanny, scheduler=scheduler, silence_logs=50) as cluster:
        yield cluster.scheduler_address


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
