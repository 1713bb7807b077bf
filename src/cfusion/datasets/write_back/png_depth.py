"""Depth PNGs written back to their own paths, with the scale of the whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cfusion.datasets.readers import icl_nuim, open3d_log, replica, scannet, seven_scenes, tum
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.errors import InputError
from cfusion.io.codecs.png import write_counts


def replaced(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map."""
    if source.suffix.lower() != ".png":
        raise InputError(f"{source} is not a PNG and cannot be written back; pass --write bundle")
    return (source.relative_to(data),)


def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: Any) -> None:
    """Write 16-bit grey, 0 = unknown; depth beyond the largest count becomes unknown."""
    (file,) = files
    write_counts(file, fused.depth, _metres_a_count(data, options))


def _metres_a_count(data: Path, options: Any) -> float:
    if isinstance(options, tum.Options | scannet.Options | open3d_log.Options):
        return 1 / options.units_per_metre
    if isinstance(options, seven_scenes.Options):
        return seven_scenes.MILLIMETRES.scale
    if isinstance(options, icl_nuim.Options):
        return 1 / icl_nuim.UNITS_PER_METRE
    assert isinstance(options, replica.Options)
    return 1 / replica.counts_a_metre(data)
