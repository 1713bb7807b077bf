"""The work on one view, wherever it is done: read by reference, fuse, write atomically, return a short record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cfusion.errors import CFusionError, OutOfMemory
from cfusion.fuse import fuse
from cfusion.geometry import View
from cfusion.io.cameras import camera_to_json
from cfusion.io.codecs.npy import write_npy
from cfusion.result import Result
from cfusion.scene.job import FOLDER, Job, Opened, Task, open_job
from cfusion.scene.placing import placing
from cfusion.scene.record import Record, folder_of, read_record, write_record
from cfusion.solvers import Progress

MOST_VIEWS = 255  # of a pixel's count


def do(job: Job, task: Task, progress: Callable[[Progress], None] | None = None) -> Record:
    """Do a task, unless it is done already; an error becomes a record that says why."""
    from cfusion.scene import cloud

    try:
        return fuse_view(job, task, progress) if task.kind == "fuse" else cloud.piece(job, task)
    except CFusionError as error:
        return _failure(job, task, str(error), elsewhere=isinstance(error, OutOfMemory))
    except MemoryError:
        return _failure(job, task, "out of memory; give the worker more, or fewer neighbours", elsewhere=True)
    except Exception as error:  # a mistake of ours, or of the machine: no reason to lose the other views
        return _failure(job, task, f"{type(error).__name__}: {error}", elsewhere=True)


def fuse_view(job: Job, task: Task, progress: Callable[[Progress], None] | None = None) -> Record:
    """Fuse one view from its neighbours and write its maps, its record, and its place in the data set."""
    folder = folder_of(job.folder, task.view)
    there = read_record(folder, task.key)
    if there is not None:
        return there
    began = time.perf_counter()
    opened = open_job(job)
    view = opened.views[task.view]
    others, left_out = _read(opened.views, task.neighbours)
    result = fuse(
        (view, *others), job.method, reference=0, backend=job.backend, progress=progress, **dict(job.parameters)
    )
    record = _record(task, view, result, left_out, time.perf_counter() - began)
    try:
        _write(job, task, opened, result, record)
    except CFusionError as error:
        return replace(record, failure=str(error), elsewhere=True)
    return record


def _read(views: Sequence[View], neighbours: Sequence[int]) -> tuple[list[View], tuple[str, ...]]:
    """The neighbours that can be read, and why the others cannot."""
    read, left_out = [], []
    for number in neighbours:
        try:
            read.append(views[number])
        except CFusionError as error:
            left_out.append(f"{number}: {error}")
    return read, tuple(left_out)


def _record(task: Task, view: View, result: Result, left_out: tuple[str, ...], seconds: float) -> Record:
    known = np.isfinite(result.depth)
    sigma = result.sigma[np.isfinite(result.sigma)]
    return Record(
        view=task.view,
        name=view.name or f"{task.view:06d}",
        key=task.key,
        neighbours=task.neighbours,
        left_out=left_out,
        density_before=float(np.isfinite(view.depth).mean()),
        density_after=float(known.mean()),
        noise=float(np.median(sigma)) if sigma.size else None,
        gap=result.gap if math.isfinite(result.gap) else None,
        status=result.status.value,
        seconds=seconds,
        backend=result.backend,
        camera=camera_to_json(view.camera),
        pose=view.pose.matrix().tolist(),
    )


def _write(job: Job, task: Task, opened: Opened, result: Result, record: Record) -> None:
    """Everything in one go; the record is the last to appear."""
    output = Path(job.output)
    with placing(output) as draft:
        inside = folder_of(draft / FOLDER, task.view)
        inside.mkdir(parents=True)
        write_npy(inside / "depth.npy", result.depth)
        write_npy(inside / "sigma.npy", result.sigma)
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
    LAYOUTS[job.format].load().write(root, source, draft, fused, options)


def _failure(job: Job, task: Task, reason: str, *, elsewhere: bool) -> Record:
    try:
        name = open_job(job).names[task.view]
    except CFusionError:
        name = f"{task.view:06d}"
    return Record(task.view, name, task.key, task.neighbours, failure=reason, elsewhere=elsewhere)
