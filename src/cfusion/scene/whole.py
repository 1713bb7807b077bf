"""A whole scene: the graph, every view fused by the runner, the data set written back, one cloud, one mesh."""

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cfusion.datasets.check.remap import Remap
from cfusion.datasets.check.scales import require_few, scale_remaps
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.named_neighbours import named_neighbours
from cfusion.datasets.write_back import LAYOUTS, root_of, take_over
from cfusion.errors import CFusionError, FileError, InputError
from cfusion.forecast import Step
from cfusion.io.to_json import digest
from cfusion.scene.graph import NEIGHBOURS, Graph
from cfusion.scene.job import FOLDER, Job, Task, open_job
from cfusion.scene.keys import description_key, fuse_tasks, stamp
from cfusion.scene.neighbours import by_surface
from cfusion.scene.placing import placing
from cfusion.scene.progress import ProgressCallback, TaskProgress
from cfusion.scene.record import Record, folder_of, read_record
from cfusion.scene.runner import InProcess, Runner
from cfusion.scene.summary import table

GRAPH = "neighbours.json"


@dataclass(frozen=True)
class Scene:
    """A scene ready to be fused."""

    job: Job
    graph: Graph
    tasks: tuple[Task, ...]
    done: tuple[Record, ...]  # of views fused by an earlier run
    unreadable: tuple[tuple[int, str], ...] = ()  # views that could not be read for the graph, and why

    @property
    def todo(self) -> tuple[Task, ...]:
        """The tasks without a record."""
        there = {record.view for record in self.done}
        return tuple(task for task in self.tasks if task.view not in there)


@dataclass(frozen=True)
class Report:
    """The outcome of a scene."""

    records: tuple[Record, ...]
    points: int = 0
    triangles: int = 0

    @property
    def failed(self) -> tuple[Record, ...]:
        """The views that were not fused."""
        return tuple(record for record in self.records if record.failure)


def with_aligned_scales(job: Job) -> Job:
    """The job with a map of the depths of each view that brings all to one scale; none for unreadable views.

    One map per view of the whole scene, not per bundle: a map has the same scale as reference and as neighbour.
    """
    views, readable = open_job(job).views, {}
    require_few(len(views))
    for number in range(len(views)):
        with suppress(CFusionError):  # reported when it is fused
            readable[number] = views[number]
    found = dict(zip(readable, scale_remaps(tuple(readable.values())), strict=True))
    return replace(job, scales=tuple(found.get(number, Remap()) for number in range(len(views))))


def prepare(job: Job, neighbours: int = NEIGHBOURS, callback: ProgressCallback | None = None) -> Scene:
    """The graph, the tasks and the records of earlier runs; a new graph is written to the output."""
    opened = open_job(job)
    dataset, data, output = opened.dataset, Path(job.data), Path(job.output)
    root, stamps = root_of(data), [stamp(file) for file in dataset.files]
    read_as = [job.format, job.options, job.correction, job.scales]
    key = digest([job.version, read_as, neighbours, description_key(root, dataset), stamps])
    kept = _kept_graph(job.folder / GRAPH, key)
    graph, unreadable = kept if kept is not None else (None, [])
    if graph is None:
        graph = _graph(job, opened.views, dataset, neighbours, unreadable, callback)
        if len(graph) > 1 and neighbours > 0 and not any(graph.neighbours) and len(unreadable) < len(graph) - 1:
            raise InputError(
                f"no two of the {len(graph)} views share any surface; check them with `cfusion check {data}`, "
                "or pass --neighbours 0 to fuse each view alone"
            )
        with placing(output) as draft:
            _write_graph(draft / FOLDER / GRAPH, graph, key, opened.names, unreadable)
    tasks = fuse_tasks(job, root, dataset, graph)
    done = [read_record(folder_of(job.folder, task.view), task.key) for task in tasks]
    return Scene(job, graph, tasks, tuple(record for record in done if record is not None), tuple(unreadable))


def fuse_scene(scene: Scene, runner: Runner | None = None, callback: ProgressCallback | None = None) -> Report:
    """Fuse the remaining views and write the data set back; a failed view is reported, not raised."""
    where = InProcess() if runner is None else runner
    job = scene.job
    if job.write_back:
        _take_over(job, scene)
    todo = scene.todo
    progress = TaskProgress(callback, len(todo), "view", job.method)
    fresh = []
    for record in where.run(job, todo, progress.solver):
        fresh.append(record)
        progress.finished()
    records = sorted((*scene.done, *fresh), key=lambda each: each.view)
    if job.write_back:
        _copy_maps_of_failed(job, [record.view for record in records if record.failure])
    return Report(tuple(records))


def write_summary(job: Job, report: Report) -> list[str]:
    """Write summary.txt and summary.json into the output; return the lines of the table."""
    lines = table(report.records)
    left_out = ("camera", "pose", "key", "elsewhere")
    content = [{name: value for name, value in vars(each).items() if name not in left_out} for each in report.records]
    with placing(Path(job.output)) as draft:
        (draft / FOLDER).mkdir()
        failed = [f"{record.name}: {record.failure}" for record in report.failed]
        (draft / FOLDER / "summary.txt").write_text("\n".join([*lines, *failed, ""]), encoding="utf-8")
        (draft / FOLDER / "summary.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return lines


def _graph(
    job: Job,
    views: Sequence[Any],
    dataset: Dataset,
    neighbours: int,
    unreadable: list[tuple[int, str]],
    callback: ProgressCallback | None,
) -> Graph:
    """The neighbours named by the data set, else those found by shared surface."""
    if neighbours == 0:
        return Graph(((),) * len(dataset), "nobody")
    named = named_neighbours(root_of(Path(job.data)), job.format, dataset)
    if named is not None:
        return Graph(named.neighbours, named.source).cut(neighbours)

    def failed(number: int, error: CFusionError) -> None:
        unreadable.append((number, str(error)))

    def looked(count: int) -> None:
        if callback is not None:
            callback(Step(f"looking for neighbours, view {count} of {len(dataset)}", count / len(dataset)))

    return by_surface(views, failed=failed, progress=looked).cut(neighbours)


def _kept_graph(file: Path, key: str) -> tuple[Graph, list[tuple[int, str]]] | None:
    """The graph of an earlier run on the same data and the views that it could not read; None if there is none."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["key"] != key:
            return None
        graph = Graph(tuple(tuple(entry["neighbours"]) for entry in content["views"]), content["source"])
        return graph, [(int(view), str(reason)) for view, reason in content["unreadable"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_graph(
    file: Path, graph: Graph, key: str, names: Sequence[str], unreadable: Sequence[tuple[int, str]]
) -> None:
    views = [{"name": name, "neighbours": list(each)} for name, each in zip(names, graph.neighbours, strict=True)]
    file.parent.mkdir(parents=True, exist_ok=True)
    groups = [len(group) for group in graph.groups]
    content = {"source": graph.source, "groups": groups, "key": key, "views": views, "unreadable": list(unreadable)}
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def _take_over(job: Job, scene: Scene) -> None:
    """Link or copy the user's files into the output, except the maps that will be replaced."""
    replaced = _replaced(job, range(len(scene.tasks)))
    take_over(root_of(Path(job.data)), Path(job.output), LAYOUTS[job.format], replaced)


def _replaced(job: Job, views: Sequence[int]) -> frozenset[Path]:
    """The files of some views, relative to the data set, that their new maps replace."""
    layout, root = LAYOUTS[job.format], root_of(Path(job.data))
    files = open_job(job).dataset.files
    return frozenset(each for view in views for each in layout.replaced(root, files[view]))


def _copy_maps_of_failed(job: Job, failed: Sequence[int]) -> None:
    """Copy the input map of each failed view, so that the data set in the output is complete."""
    root, output = root_of(Path(job.data)), Path(job.output)
    for inside in _replaced(job, failed):
        if (root / inside).is_file() and not (output / inside).is_file():
            try:
                (output / inside).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / inside, output / inside)
            except OSError as error:
                raise FileError(f"cannot write {output / inside}: {error.strerror or error}") from error
