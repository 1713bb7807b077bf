"""The options of a mosaic; every one has a default that works."""

import re
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path

from cfusion.errors import InputError
from cfusion.rasters.coregister import STEPS
from cfusion.rasters.grids import Bounds

RESAMPLINGS = ("bilinear", "cubic", "nearest")


@dataclass(frozen=True)
class Options:
    """Options of `fuse_rasters` and `cfusion mosaic`."""

    weights: tuple[Path, ...] = ()
    sigma: tuple[Path, ...] = ()
    like: Path | None = None
    resolution: float | None = None
    bounds: Bounds | None = None
    resampling: str = "bilinear"
    band: int = 1
    nodata: tuple[float, ...] = ()
    coregister: str | None = None  # offset, shift (and offset), tilt (and both)
    keep_offsets: bool = False
    alpha: tuple[float, float] | None = None  # None: chosen on the sample
    tolerance: float = 1e-3  # certified relative gap
    iterations: int = 3000  # at most
    tile: int = 2048  # pixels, side of the window held in memory
    workers: int = 1
    scheduler: str | None = None  # address of a dask scheduler, instead of workers
    backend: str = "auto"
    scratch: Path | None = None  # folder for intermediate images; None: beside the output
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.resampling not in RESAMPLINGS:
            raise InputError(f"resampling is {self.resampling!r}; choose one of {', '.join(RESAMPLINGS)}")
        if self.coregister is not None and self.coregister not in STEPS:
            raise InputError(f"coregister is {self.coregister!r}; choose one of {', '.join(STEPS)}")
        if self.scheduler is not None and self.workers != 1:
            raise InputError("--workers starts processes, --scheduler uses a cluster; give only one of them")
        if not 0 < self.tolerance < 1:
            raise InputError(f"tolerance is {self.tolerance}; give a share of the energy, such as 1e-3")
        if self.iterations < 1:
            raise InputError(f"iterations is {self.iterations}; give a whole number of at least 1")
        if self.alpha is not None and (len(self.alpha) != 2 or not all(0 < each < inf for each in self.alpha)):
            raise InputError(f"alpha is {self.alpha}; give two positive weights, such as 1 2")


def in_keywords(message: str) -> str:
    """A message with options of the command line, such as `--keep-offsets`, as keywords, such as `keep_offsets`."""
    names = "|".join(each.name.replace("_", "-") for each in fields(Options))
    return re.sub(rf"(?<![\w-])--({names})(?![\w-])", lambda found: found[1].replace("-", "_"), message)
