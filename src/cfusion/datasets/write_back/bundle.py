"""A bundle written back: the user's bundle.json, with new depth maps at the paths and scales that it states."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cfusion.datasets.readers.bundle import FILE_NAME
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.errors import InputError
from cfusion.io.codecs.npy import write_npy
from cfusion.io.codecs.pfm import write_pfm
from cfusion.io.codecs.png import write_counts
from cfusion.io.json_object import JsonObject

WRITTEN = (".npy", ".pfm", ".png")


def replaced(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map."""
    if source.suffix.lower() not in WRITTEN:
        raise InputError(f"{source} is not one of {', '.join(WRITTEN)} and cannot be written back; write it as .npy")
    return (source.relative_to(data),)


def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: object) -> None:
    """Write the depth map in the encoding of the user's own."""
    (file,) = files
    scale = _scale(data, source)
    if source.suffix.lower() == ".png":
        write_counts(file, fused.depth, scale)
    elif source.suffix.lower() == ".pfm":
        write_pfm(file, fused.depth / scale)
    else:
        write_npy(file, fused.depth / scale)


def _scale(data: Path, source: Path) -> float:
    """The scale stated for the view; 1 if there is none."""
    for entry in JsonObject.of_file(data / FILE_NAME).objects("views"):
        if entry.path_inside("depth", data) == source:
            return entry.scale("scale") or 1.0
    raise InputError(f"{data / FILE_NAME} no longer lists {source}; run `cfusion scene` again")
