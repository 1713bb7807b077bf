"""OpenMVS written back: .dmap files with the user's headers and new depth and confidence, beside the user's .mvs."""

from __future__ import annotations

from pathlib import Path

from cfusion.datasets.readers.openmvs import Options, with_maps
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.geometry import normals
from cfusion.io.files import read_bytes


def replaced(data: Path, source: Path, options: Options) -> tuple[Path, ...]:
    """The .dmap."""
    return (source.relative_to(data),)


def write(data: Path, source: Path, draft: Path, fused: FusedMap, options: Options) -> None:
    """Keep name, views, camera and pose; depth, normals (if there were any) and confidence are new."""
    (inside,) = replaced(data, source, options)
    (draft / inside).parent.mkdir(parents=True, exist_ok=True)
    normal = normals(fused.depth, fused.camera)
    (draft / inside).write_bytes(with_maps(source, read_bytes(source), fused.depth, normal, fused.confidence))
