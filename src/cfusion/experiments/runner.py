"""Runs a plan: what is stored is not run again, the rest in parallel, each result written as it comes."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from cfusion.errors import CFusionError
from cfusion.experiments.conditions import KittiBundle, OnTrack
from cfusion.experiments.eta import Eta
from cfusion.experiments.plan import Job, Plan
from cfusion.experiments.provenance import provenance
from cfusion.experiments.renders import Roll
from cfusion.experiments.store import Record, Store
from cfusion.experiments.work import work
from cfusion.solvers import Progress, Report

THREAD_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Task = tuple[Any, ...]  # a function and its arguments
Complete = Callable[[Sequence[Task]], Iterator[Any]]


class Unfinished(CFusionError):
    """Some jobs failed; the others' results are kept."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(plan: Plan, store: Store, *, workers: int | None = None, report: Report | None = None) -> list[Record]:
    """One line of results per cell of the plan, in its order; the store is filled on the way.

    Interrupted, it leaves what is done in the store, and goes on from there when called again.
    """
    keys = {job: job.key() for job in plan.jobs()}
    todo = [job for job, maps in plan.jobs().items() if not store.has(keys[job], maps=maps)]
    crew = min(workers or cores(), max(len(todo), 1))
    failures: list[str] = []
    with _crew(crew) as complete:
        first = _preparations(store, todo)
        for number, failure in enumerate(complete(first), start=1):
            failures += [] if failure is None else [failure]
            _say(report, f"{plan.spec.name}, scenes, {number} of {len(first)}", 0.0)
        eta = Eta(todo, crew)
        jobs: list[Task] = [(_run_job, store, job, keys[job], plan.jobs()[job]) for job in todo]
        for number, (job, seconds, failure) in enumerate(complete([] if failures else jobs), start=1):
            failures += [] if failure is None else [failure]
            _say(report, f"{plan.spec.name}, {number} of {len(jobs)}, {eta.after(job, seconds)}", number / len(jobs))
    if failures:
        raise Unfinished(f"{len(failures)} of {len(todo)} jobs failed, the rest is kept; the first: {failures[0]}")
    return [cell.place() | _stored(store, keys[cell.job]) for cell in plan.cells]


def _say(report: Report | None, stage: str, done: float) -> None:
    if report is not None:
        report(Progress(stage, done, float("nan"), float("nan")))


def _stored(store: Store, key: str) -> Record:
    record = store.read(key)
    if record is None:
        raise Unfinished(f"the result {key} vanished from {store.folder}; run again")
    return record


def _preparations(store: Store, todo: Sequence[Job]) -> list[Task]:
    """Every mesh once, with all places it is seen from; every stereo bundle once."""
    rolls: dict[Roll, set[int]] = {}
    bundles: dict[KittiBundle, None] = {}
    for job in todo:
        if isinstance(job.condition, OnTrack):
            rolls.setdefault(Roll.of(job.condition), set()).update(job.condition.offsets())
        if isinstance(job.condition, KittiBundle):
            bundles[job.condition] = None
    renders: list[Task] = [
        (_prepare, store.renders.make, roll, tuple(sorted(places))) for roll, places in rolls.items()
    ]
    return renders + [(_prepare, store.matches.make, bundle) for bundle in bundles]


def _prepare(make: Callable[..., None], *what: Any) -> str | None:
    """Why it failed, if it did."""
    try:
        make(*what)
    except CFusionError as error:
        return str(error)
    return None


def _run_job(store: Store, job: Job, key: str, keep_maps: bool) -> tuple[Job, float, str | None]:
    began = time.perf_counter()
    try:
        record, maps = work(job, store)
        record["job"], record["provenance"] = job, provenance(job)
        store.write(key, record, maps if keep_maps else None)
    except CFusionError as error:
        return job, 0.0, f"{job.method} on {job.condition.scene}: {error}"
    return job, time.perf_counter() - began, None


@contextmanager
def _crew(workers: int) -> Iterator[Complete]:
    """Processes that share the cores between them; one worker is this process itself."""
    if workers == 1:
        yield lambda tasks: (function(*arguments) for function, *arguments in tasks)
        return
    bystanders = set(multiprocessing.active_children())
    with _threads(max(1, cores() // workers)):
        pool = ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_with_the_parent
        )
        try:
            yield lambda tasks: _as_they_come(pool, tasks)
        except BrokenProcessPool:
            raise Unfinished(
                "a worker died, perhaps for want of memory; results so far are kept: run again, with fewer --jobs"
            ) from None
        except BaseException:  # do not wait for what nobody will collect
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - bystanders:
                child.terminate()
            raise
        pool.shutdown()


def _as_they_come(pool: ProcessPoolExecutor, tasks: Sequence[Task]) -> Iterator[Any]:
    for future in as_completed([pool.submit(*task) for task in tasks]):
        yield future.result()


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """The environment that new processes inherit."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update({name: str(count) for name in THREAD_VARIABLES})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _leave_with_the_parent() -> None:
    """A worker whose parent was killed has nobody to work for."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
