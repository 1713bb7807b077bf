"""OpenMVS written back: .dmap files with the user's headers and new depth and confidence, beside the user's .mvs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cfusion.datasets.readers.openmvs import Options, with_maps
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.geometry import normals
from cfusion.io.files import read_bytes


def replaced(data: Path, source: Path) -> tuple[Path, ...]:
    """The .dmap."""
    return (source.relative_to(data),)


def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: Options) -> None:
    """Keep name, views, camera and pose; depth, normals (if there were any) and confidence are new."""
    (file,) = files
    normal = normals(fused.depth, fused.camera)
    file.write_bytes(with_maps(source, read_bytes(source), fused.depth, normal, fused.confidence))
