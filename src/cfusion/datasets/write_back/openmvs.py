"""OpenMVS written back: .dmap with the user's own header, new depth and confidence, beside the user's own .mvs."""

from __future__ import annotations

from pathlib import Path

from cfusion.datasets.readers.openmvs import Options, with_maps
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.geometry import normals
from cfusion.io.files import read_bytes


def replaced(data: Path, source: Path, options: Options) -> tuple[Path, ...]:
    """The .dmap alone."""
    return (source.relative_to(data),)


def write(data: Path, source: Path, draft: Path, fused: FusedMap, options: Options) -> None:
    """The same name, views, camera and pose; depth, normals (where there were some) and confidence are new."""
    (inside,) = replaced(data, source, options)
    (draft / inside).parent.mkdir(parents=True, exist_ok=True)
    normal = normals(fused.depth, fused.camera)
    (draft / inside).write_bytes(with_maps(source, read_bytes(source), fused.depth, normal, fused.confidence))
