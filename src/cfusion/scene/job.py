"""The description of a scene's work that travels to workers: paths, names and numbers, but no arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.datasets.check import Correction
from cfusion.datasets.check.remap import Remap
from cfusion.datasets.check.scales import remapped
from cfusion.errors import InputError
from cfusion.scene.view_cache import BYTES, ViewCache

if TYPE_CHECKING:
    from cfusion.datasets.dataset import Dataset

FOLDER = "cfusion"  # inside the output: records, maps and the graph
MARK = "scene.json"  # inside FOLDER: marks the output as a scene and names its data
Pairs = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Job:
    """The settings of a whole scene."""

    data: str
    format: str
    output: str
    version: str  # of the code; workers of another version refuse the job
    options: Pairs = ()  # of the format
    correction: Correction = field(default_factory=Correction)  # of the stated convention, applied when a view is read
    scales: tuple[Remap, ...] = ()  # a change of the depths of each view; empty: none
    method: str = "auto"
    parameters: Pairs = ()
    backend: str = "auto"
    write_back: bool = True  # whether each view is written in the layout of the input
    cache_bytes: int = BYTES  # cache of decoded views, per process

    @property
    def folder(self) -> Path:
        """The folder of records, maps and the graph."""
        return Path(self.output) / FOLDER


@dataclass(frozen=True)
class Task:
    """One view to fuse, or to make the point cloud of; a task whose key has a record is not repeated."""

    kind: str  # "fuse" or "cloud"
    view: int
    neighbours: tuple[int, ...]
    key: str  # digest of all its inputs and settings


@dataclass(frozen=True, eq=False)
class Opened:
    """The data set of a job, open in this process."""

    views: ViewCache
    dataset: Dataset

    @property
    def names(self) -> Sequence[str]:
        """File names of the depth maps; numbers if the data set has no files."""
        return [str(file.name) for file in self.dataset.files] or [str(number) for number in range(len(self.views))]


@lru_cache(1)
def code_version() -> str:
    """The version of cfusion and a hash of its source: different code may give different bits."""
    from cfusion import __version__
    from cfusion.io.versions import code_fingerprint

    return f"{__version__} ({code_fingerprint()[:12]})"


def open_job(job: Job) -> Opened:
    """The data set of a job, opened once per process."""
    if job.version != code_version():
        raise InputError(f"the worker runs cfusion {code_version()}, the command {job.version}; install the same code")
    return _opened(job.data, job.format, job.options, job.correction, job.scales, job.cache_bytes)


@lru_cache(2)
def _opened(
    data: str, format: str, options: Pairs, correction: Correction, scales: tuple[Remap, ...], cache_bytes: int
) -> Opened:
    dataset = read_corrected(data, format, dict(options), correction, scales)
    return Opened(ViewCache(dataset, cache_bytes), dataset)


def read_corrected(
    data: str, format: str, options: dict[str, object], correction: Correction, scales: Sequence[Remap]
) -> Dataset:
    """The data set with its views corrected, then rescaled, when they are read."""
    from cfusion.datasets import read

    dataset = correction(read(data, format=format, options=options))
    return remapped(dataset, scales) if scales else dataset
