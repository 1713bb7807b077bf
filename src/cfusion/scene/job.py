"""What to do with one scene, by reference: paths, names and numbers that travel to a worker, and no arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from cfusion.errors import InputError
from cfusion.scene.kept import BYTES, Kept

if TYPE_CHECKING:
    from cfusion.datasets.dataset import Dataset

FOLDER = "cfusion"  # inside the output: records, maps and the graph
Pairs = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Job:
    """The settings of a whole scene."""

    data: str
    format: str
    output: str
    version: str  # of the code; a worker of another version refuses
    options: Pairs = ()  # of the format
    method: str = "auto"
    parameters: Pairs = ()
    backend: str = "auto"
    write_back: bool = True  # whether each view is written in the layout of the input
    kept_bytes: int = BYTES  # of decoded views, per process

    @property
    def folder(self) -> Path:
        """Where records, maps and the graph are."""
        return Path(self.output) / FOLDER


@dataclass(frozen=True)
class Task:
    """One view to work on: what is known by its key is not done again."""

    kind: str  # "fuse" or "cloud"
    view: int
    neighbours: tuple[int, ...]
    key: str


@dataclass(frozen=True, eq=False)
class Opened:
    """The data set of a job, open in this process."""

    views: Kept
    dataset: Dataset

    @property
    def names(self) -> Sequence[str]:
        """The depth maps' files, or numbers."""
        return [str(file.name) for file in self.dataset.files] or [str(number) for number in range(len(self.views))]


@lru_cache(1)
def code_version() -> str:
    """The version of cfusion, and a hash of its code: what has another one may give other bits."""
    from cfusion import __version__
    from cfusion.io.versions import code_fingerprint

    return f"{__version__} ({code_fingerprint()[:12]})"


def open_job(job: Job) -> Opened:
    """The data set, read once per process."""
    if job.version != code_version():
        raise InputError(f"this worker runs cfusion {code_version()}, the command {job.version}; install the same code")
    return _opened(job.data, job.format, job.options, job.kept_bytes)


@lru_cache(2)
def _opened(data: str, format: str, options: Pairs, kept_bytes: int) -> Opened:
    from cfusion.datasets import read

    dataset = read(data, format=format, options=dict(options))
    return Opened(Kept(dataset, kept_bytes), dataset)
