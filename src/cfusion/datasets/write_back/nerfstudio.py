"""nerfstudio written back: the user's transforms.json and images, with new depth maps at the paths that it states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cfusion.datasets.readers.nerfstudio import FILE_NAME, Options, depth_factor
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.errors import InputError
from cfusion.io.codecs.npy import write_npy
from cfusion.io.codecs.png import write_counts
from cfusion.io.json_object import JsonObject


def replaced(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map."""
    if source.suffix.lower() not in (".png", ".npy"):
        raise InputError(f"{source} is neither .png nor .npy and cannot be written back; pass --write bundle")
    return (source.relative_to(data),)


def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: Options) -> None:
    """Write in counts of the file's factor, like the user's own: PNG rounded, npy as float32."""
    (file,) = files
    factor, _ = depth_factor(JsonObject.of_file(data / FILE_NAME), options)
    if source.suffix.lower() == ".png":
        write_counts(file, fused.depth, factor)
    else:
        write_npy(file, np.nan_to_num(fused.depth / np.float32(factor), nan=0.0).astype(np.float32))
