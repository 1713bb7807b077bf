"""MVSNet's folders written back: PFM depth, and a probability map if there was one, with the user's cameras."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cfusion.datasets.readers.mvsnet import Options, confidence_of
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.io.codecs.pfm import write_pfm


def replaced(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map, and its confidence if there is one."""
    confidence = confidence_of(data, source)
    return tuple(file.relative_to(data) for file in (source, confidence) if file is not None)


def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: Options) -> None:
    """Write depth with 0 = unknown, and the probability of an error below 1 %."""
    maps = (np.nan_to_num(fused.depth, nan=0.0), fused.confidence)
    for file, values in zip(files, maps, strict=False):
        write_pfm(file, values)
