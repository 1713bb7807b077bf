"""MVSNet's folders written back: PFM depth, and a probability where the user had one; cameras are the user's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cfusion.datasets.readers.mvsnet import Options, confidence_of
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.io.codecs.pfm import write_pfm


def replaced(data: Path, source: Path, options: Options) -> tuple[Path, ...]:
    """The depth map, and its confidence where there is one."""
    confidence = confidence_of(data, source)
    return tuple(file.relative_to(data) for file in (source, confidence) if file is not None)


def write(data: Path, source: Path, draft: Path, fused: FusedMap, options: Options) -> None:
    """Depth with 0 = unknown; the probability that it is right to 1 %."""
    maps = (np.nan_to_num(fused.depth, nan=0.0), fused.confidence)
    for inside, values in zip(replaced(data, source, options), maps, strict=False):
        (draft / inside).parent.mkdir(parents=True, exist_ok=True)
        write_pfm(draft / inside, values)
