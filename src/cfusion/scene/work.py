"""The work on views, in any process: read by path, fuse, write atomically, return short records."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cfusion import kernels, methods
from cfusion.errors import CFusionError, OutOfMemory
from cfusion.fuse import fuse_each
from cfusion.geometry import View
from cfusion.io.cameras import camera_to_json
from cfusion.io.codecs.npy import write_npy
from cfusion.parameters import refine
from cfusion.result import Result
from cfusion.scene.job import FOLDER, Job, Opened, Task, open_job
from cfusion.scene.placing import placing
from cfusion.scene.record import Record, folder_of, read_record, write_record
from cfusion.solvers import Progress

OUT_OF_MEMORY = "out of memory; give the worker more, or use fewer neighbours"
MOST_VIEWS = 255  # largest count stored per pixel
MOST_HALF = 6e4  # largest value stored in half precision
TaskCallback = Callable[[int, Progress], None]  # number of the task, and the solver's event


def work(job: Job, tasks: Sequence[Task], callback: TaskCallback | None = None) -> Iterator[Record]:
    """Run tasks of one kind that have no record yet; an error becomes a record with its reason."""
    if tasks and tasks[0].kind == "cloud":
        yield from (_piece(job, task) for task in tasks)
        return
    there = {task: read_record(folder_of(job.folder, task.view), task.key) for task in tasks}
    yield from (record for record in there.values() if record is not None)
    todo = [task for task, record in there.items() if record is None]
    if not todo:
        return
    try:
        bundles = _Bundles(open_job(job))
        method, backend = refine(methods.get(job.method), dict(job.parameters)), kernels.load(job.backend)
    except CFusionError as error:
        yield from (_failure(job, task, error) for task in todo)
        return
    for task, outcome in fuse_each(todo, bundles, method, backend, progress=callback):
        yield _kept(job, task, bundles, outcome) if isinstance(outcome, Result) else _failure(job, task, outcome)


class _Bundles:
    """Reads the bundle of a task; remembers when it began and which neighbours could not be read."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.left_out: dict[Task, tuple[str, ...]] = {}
        self.began: dict[Task, float] = {}

    def __call__(self, task: Task) -> Sequence[View]:
        self.began[task] = time.perf_counter()
        read, left_out = [self.opened.views[task.view]], []
        for number in task.neighbours:
            try:
                read.append(self.opened.views[number])
            except CFusionError as error:
                left_out.append(f"{number}: {error}")
        self.left_out[task] = tuple(left_out)
        return tuple(read)


def _kept(job: Job, task: Task, bundles: _Bundles, result: Result) -> Record:
    """Write a result's maps, its file in the data set's layout and its record; return the record."""
    record = _record(task, bundles.opened.views[task.view], result)
    record = replace(record, left_out=bundles.left_out[task], seconds=time.perf_counter() - bundles.began[task])
    try:
        _write(job, task, bundles.opened, result, record)
    except Exception as error:
        return replace(record, failure=_reason(error), elsewhere=True)
    return record


def _record(task: Task, view: View, result: Result) -> Record:
    known = np.isfinite(result.depth)
    sigma = result.sigma[np.isfinite(result.sigma)]
    return Record(
        view=task.view,
        name=view.name or f"{task.view:06d}",
        key=task.key,
        neighbours=task.neighbours,
        density_before=float(np.isfinite(view.depth).mean()),
        density_after=float(known.mean()),
        noise=float(np.median(sigma)) if sigma.size else None,
        gap=result.gap if math.isfinite(result.gap) else None,
        status=result.status.value,
        backend=result.backend,
        camera=camera_to_json(view.camera),
        pose=view.pose.matrix().tolist(),
    )


def _write(job: Job, task: Task, opened: Opened, result: Result, record: Record) -> None:
    """Write all files of a view together; the record appears last."""
    output = Path(job.output)
    with placing(output) as draft:
        inside = folder_of(draft / FOLDER, task.view)
        inside.mkdir(parents=True)
        write_npy(inside / "depth.npy", result.depth)
        write_npy(inside / "sigma.npy", result.sigma)
        write_npy(inside / "confidence.npy", np.minimum(result.confidence, MOST_HALF).astype(np.float16))
        write_npy(inside / "observed.npy", np.clip(result.provenance, -1, MOST_VIEWS).astype(np.int16))
        if job.write_back:
            _write_back(job, task, opened, result, draft)
        write_record(inside, record)


def _write_back(job: Job, task: Task, opened: Opened, result: Result, draft: Path) -> None:
    from cfusion.datasets.options import chosen
    from cfusion.datasets.read import READERS
    from cfusion.datasets.write_back import LAYOUTS, FusedMap, root_of

    assert result.camera is not None
    options = chosen(READERS[job.format].options, dict(job.options), job.format)
    fused = FusedMap(result.depth, result.sigma, result.camera)
    root, source = root_of(Path(job.data)), opened.dataset.files[task.view]
    LAYOUTS[job.format].write(root, source, draft, fused, options)


def _piece(job: Job, task: Task) -> Record:
    from cfusion.scene import cloud

    try:
        return cloud.piece(job, task)
    except Exception as error:
        return _failure(job, task, error)


def _failure(job: Job, task: Task, error: Exception) -> Record:
    """The record of a failed task; `elsewhere` if memory or a bug was the cause, because a retry may succeed."""
    try:
        name = open_job(job).names[task.view]
    except CFusionError:
        name = f"{task.view:06d}"
    elsewhere = isinstance(error, OutOfMemory) or not isinstance(error, CFusionError)
    return Record(task.view, name, task.key, task.neighbours, failure=_reason(error), elsewhere=elsewhere)


def _reason(error: Exception) -> str:
    if isinstance(error, CFusionError):
        return str(error)
    if isinstance(error, MemoryError):
        return OUT_OF_MEMORY
    return f"{type(error).__name__}: {error}"
