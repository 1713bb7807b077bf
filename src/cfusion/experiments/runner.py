"""Runs a plan: stored results are not repeated, the others run in parallel, each stored as it ends."""

import multiprocessing
import os
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from cfusion.errors import CFusionError
from cfusion.experiments.conditions import Condition, KittiBundle, OnTrack
from cfusion.experiments.plan import Job, Plan
from cfusion.experiments.provenance import provenance
from cfusion.experiments.renders import Roll
from cfusion.experiments.store import Record, Store
from cfusion.experiments.work import work
from cfusion.solvers import Progress, Report

THREAD_VARIABLES = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Task = tuple[Any, ...]  # a function and its arguments
Complete = Callable[[Sequence[Sequence[Task]]], Iterator[Any]]  # runs queues of tasks that share inputs


class Unfinished(CFusionError):
    """Some jobs failed; the results of the others are stored."""


class Eta:
    """Expects remaining jobs to take as long as earlier ones of the same method, or as the average."""

    def __init__(self, todo: Sequence[Job]) -> None:
        self.left = Counter(job.method for job in todo)
        self.spent: dict[str, list[float]] = defaultdict(list)

    def after(self, job: Job, seconds: float) -> float:
        """Record the duration of a finished job; return the share of all work that is done."""
        self.left[job.method] -= 1
        self.spent[job.method].append(seconds)
        known = {method: sum(times) / len(times) for method, times in self.spent.items()}
        spent = sum(sum(times) for times in self.spent.values())
        usual = spent / sum(len(times) for times in self.spent.values())
        left = sum(count * known.get(method, usual) for method, count in self.left.items())
        return spent / (spent + left) if spent + left > 0 else 1.0


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(plan: Plan, store: Store, *, workers: int | None = None, report: Report | None = None) -> list[Record]:
    """One line of results per cell of the plan, in order; new results are stored.

    After an interruption, a second call continues from the stored results.
    """
    jobs = plan.jobs()
    keys = {job: job.key() for job in jobs}
    todo = [job for job, maps in jobs.items() if not store.has(keys[job], maps=maps)]
    crew = min(workers or cores(), max(len(todo), 1))
    failures: list[str] = []
    with _crew(crew) as complete:
        first = _preparations(store, todo)
        for number, failure in enumerate(complete([[task] for task in first]), start=1):
            failures += [] if failure is None else [failure]
            _say(report, f"{plan.spec.name}, scenes, {number} of {len(first)}", 0.0)
        eta = Eta(todo)
        by_condition: dict[Condition, list[Task]] = {}
        for job in [] if failures else todo:
            by_condition.setdefault(job.condition, []).append((_run_job, store, job, keys[job], jobs[job]))
        for number, (job, seconds, failure) in enumerate(complete(list(by_condition.values())), start=1):
            failures += [] if failure is None else [failure]
            _say(report, f"{plan.spec.name}, {number} of {len(todo)}", eta.after(job, seconds))
    if failures:
        raise Unfinished(f"{len(failures)} of {len(todo)} jobs failed, the others are stored; the first: {failures[0]}")
    return [cell.place() | _stored(store, keys[cell.job]) for cell in plan.cells]


def _say(report: Report | None, stage: str, done: float) -> None:
    if report is not None:
        report(Progress(stage, done, float("nan"), float("nan")))


def _stored(store: Store, key: str) -> Record:
    record = store.read(key)
    if record is None:
        raise Unfinished(f"the result {key} is no longer in {store.folder}; run again")
    return record


def _preparations(store: Store, todo: Sequence[Job]) -> list[Task]:
    """Every mesh once, with all positions it is seen from; every stereo bundle once."""
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
    """The error of a preparation; None if it succeeded."""
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
    """Worker processes that share the cores; a single worker is this process.

    They are spawned, not forked: a fork cannot use a CUDA device that this process has opened.
    """
    if workers == 1:
        yield lambda queues: (function(*arguments) for queue in queues for function, *arguments in queue)
        return
    bystanders = set(multiprocessing.active_children())
    spawning = multiprocessing.get_context("spawn")
    with _threads(max(1, cores() // workers)):
        crew = [ProcessPoolExecutor(1, spawning, _exit_with_parent) for _ in range(workers)]
        try:
            yield lambda queues: _results_of(crew, queues)
        except BaseException as error:  # do not wait for tasks that nobody will collect
            for worker in crew:
                worker.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - bystanders:
                child.terminate()
            if isinstance(error, BrokenProcessPool):
                raise Unfinished(
                    "a worker died, perhaps for lack of memory; results so far are kept: run again, with fewer --jobs"
                ) from None
            raise
        for worker in crew:
            worker.shutdown()


def _results_of(crew: Sequence[ProcessPoolExecutor], queues: Sequence[Sequence[Task]]) -> Iterator[Any]:
    """Each worker keeps to one queue, whose tasks share inputs; then takes the next, or half of the longest."""
    waiting, free = deque(deque(queue) for queue in queues if queue), list(crew)
    own: dict[ProcessPoolExecutor, deque[Task]] = {worker: deque() for worker in crew}
    running: dict[Future[Any], ProcessPoolExecutor] = {}
    while True:
        for worker in free:
            own[worker] = own[worker] or (waiting.popleft() if waiting else _half(max(own.values(), key=len)))
            if own[worker]:
                running[worker.submit(*own[worker].popleft())] = worker
        if not running:
            return
        done = wait(running, return_when=FIRST_COMPLETED).done
        free = [running.pop(future) for future in done]
        yield from (future.result() for future in done)


def _half(queue: deque[Task]) -> deque[Task]:
    """Remove and return the rear half of a queue."""
    return deque([queue.pop() for _ in range((len(queue) + 1) // 2)][::-1])


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the environment that new processes inherit."""
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


def _exit_with_parent() -> None:
    """End this worker when its parent is killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
