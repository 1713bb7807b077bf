"""Keys of tasks: digests of settings, neighbours and input files; equal keys mean equal results."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.io.to_json import digest
from cfusion.scene.graph import Graph
from cfusion.scene.job import FOLDER, Job, Task

if TYPE_CHECKING:
    from cfusion.datasets.dataset import Dataset

Stamp = str  # hash of a file's contents


def stamp(file: Path) -> Stamp:
    """A hash of a file's contents, independent of its times; empty if there is no file."""
    try:
        found = file.stat()
        return _hashed(str(file), found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    except OSError:
        return ""


@lru_cache(1 << 17)
def _hashed(file: str, size: int, modified: int, changed: int) -> Stamp:
    """Cached: a file is read again only if its size or times change."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]


def description_key(root: Path, dataset: Dataset) -> str:
    """Digest of all files of a data set but its depth maps: cameras, poses, lists, models, images."""
    maps = {str(file) for file in dataset.files}
    return digest([(str(file.relative_to(root)), stamp(file)) for file in _described(root, maps)])


def _described(root: Path, maps: set[str]) -> Iterator[Path]:
    for folder, below, names in os.walk(root, followlinks=True):
        below[:] = sorted(name for name in below if not name.startswith(".") and name != FOLDER)
        for name in sorted(names):
            path = Path(folder) / name
            if not name.startswith(".") and str(path) not in maps and path.is_file():
                yield path


def fuse_tasks(job: Job, root: Path, dataset: Dataset, graph: Graph) -> tuple[Task, ...]:
    """One task per view."""
    described = description_key(root, dataset)
    stamps: Sequence[Stamp] = [stamp(file) for file in dataset.files] or [""] * len(dataset)
    read_as = (job.format, job.options, job.correction, job.scales)
    settings = (job.version, read_as, job.method, job.parameters, job.backend, job.write_back)
    return tuple(
        Task(
            "fuse",
            view,
            graph.neighbours[view],
            digest([settings, described, view, graph.neighbours[view], [stamps[each] for each in graph.bundle(view)]]),
        )
        for view in range(len(graph))
    )
