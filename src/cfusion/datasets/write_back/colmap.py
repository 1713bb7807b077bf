"""A COLMAP workspace written back: depth and normal maps of the kind that was read, with the user's model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cfusion.datasets.readers.colmap import Options
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.geometry import normals
from cfusion.io.codecs.colmap_map import write_colmap_map


def replaced(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map and its normal map."""
    inside = source.relative_to(data)
    name = source.relative_to(data / "stereo" / "depth_maps")
    return inside, Path("stereo") / "normal_maps" / name


def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: Options) -> None:
    """Write depth and the normals of the same surface: COLMAP's fusion compares both."""
    depth, normal = files
    write_colmap_map(depth, fused.depth)
    write_colmap_map(normal, normals(fused.depth, fused.camera))
