"""The formats that can be written back: the files that are kept, and how the new ones of a view are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cfusion.datasets.readers import bundle, icl_nuim, mvsnet, nerfstudio, openmvs, replica, seven_scenes
from cfusion.datasets.write_back.fused import FusedMap
from cfusion.errors import InputError
from cfusion.geometry import normals
from cfusion.io.codecs.colmap_map import write_colmap_map
from cfusion.io.codecs.npy import write_npy
from cfusion.io.codecs.pfm import write_pfm
from cfusion.io.codecs.png import write_counts
from cfusion.io.files import read_bytes
from cfusion.io.json_object import JsonObject

Replaced = Callable[[Path, Path], tuple[Path, ...]]  # the data, a view's depth map -> its files below the data
Write = Callable[[Path, Path, Sequence[Path], FusedMap, Any], None]  # the same, new files, a map, the reader's options


def _depth_map(*endings: str, otherwise: str = "pass --write bundle") -> Replaced:
    """The depth map alone, if it has one of these endings."""

    def replaced(data: Path, source: Path) -> tuple[Path, ...]:
        if source.suffix.lower() not in endings:
            raise InputError(f"{source} is not {' or '.join(endings)} and cannot be written back; {otherwise}")
        return (source.relative_to(data),)

    return replaced


PNG = _depth_map(".png")


@dataclass(frozen=True)
class Layout:
    """How a format is written back: which files a view's new ones replace, and what is written into them."""

    new: str  # what is written, for the user
    write_files: Write
    replaced: Replaced = PNG
    kept: tuple[str, ...] = ("**/*",)  # patterns of the files that are kept byte for byte

    def write(self, data: Path, source: Path, draft: Path, fused: FusedMap, options: object) -> None:
        """Write a view's new files below `draft`, under the names of those that they replace."""
        files = [draft / inside for inside in self.replaced(data, source)]
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
        self.write_files(data, source, files, fused, options)


def _counts(metres_a_count: Callable[[Path, Any], float]) -> Write:
    """16-bit grey PNG, 0 = unknown, with the scale of the whole sequence."""

    def write(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: Any) -> None:
        write_counts(files[0], fused.depth, metres_a_count(data, options))

    return write


def _bundle(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: object) -> None:
    """The depth map in the encoding of the user's own."""
    for entry in JsonObject.of_file(data / bundle.FILE_NAME).objects("views"):
        if entry.path_inside("depth", data) == source:
            scale = entry.scale("scale") or 1.0
            break
    else:
        raise InputError(f"{data / bundle.FILE_NAME} no longer lists {source}; run `cfusion scene` again")
    if source.suffix.lower() == ".png":
        write_counts(files[0], fused.depth, scale)
    elif source.suffix.lower() == ".pfm":
        write_pfm(files[0], fused.depth / scale)
    else:
        write_npy(files[0], fused.depth / scale)


def _nerfstudio(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: nerfstudio.Options) -> None:
    """In counts of the file's factor, like the user's own: PNG rounded, npy as float32."""
    factor, _ = nerfstudio.depth_factor(JsonObject.of_file(data / nerfstudio.FILE_NAME), options)
    if source.suffix.lower() == ".png":
        write_counts(files[0], fused.depth, factor)
    else:
        write_npy(files[0], np.nan_to_num(fused.depth / np.float32(factor), nan=0.0).astype(np.float32))


def _colmap(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: object) -> None:
    """Depth and the normals of the same surface: COLMAP's fusion compares both."""
    for file, values in zip(files, (fused.depth, normals(fused.depth, fused.camera)), strict=True):
        write_colmap_map(file, values)


def _with_normals(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map and its normal map."""
    return source.relative_to(data), Path("stereo/normal_maps") / source.relative_to(data / "stereo" / "depth_maps")


def _openmvs(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: object) -> None:
    """Name, views, camera and pose are kept; depth, normals (if there were any) and confidence are new."""
    normal = normals(fused.depth, fused.camera)
    files[0].write_bytes(openmvs.with_maps(source, read_bytes(source), fused.depth, normal, fused.confidence))


def _mvsnet(data: Path, source: Path, files: Sequence[Path], fused: FusedMap, options: object) -> None:
    """Depth with 0 = unknown, and the probability of an error below 1 %, if there was a confidence."""
    for file, values in zip(files, (np.nan_to_num(fused.depth, nan=0.0), fused.confidence), strict=False):
        write_pfm(file, values)


def _with_confidence(data: Path, source: Path) -> tuple[Path, ...]:
    """The depth map, and its confidence if there is one."""
    confidence = mvsnet.confidence_of(data, source)
    return tuple(file.relative_to(data) for file in (source, confidence) if file is not None)


def _stated(data: Path, options: Any) -> float:
    return 1 / float(options.units_per_metre)


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "bundle": Layout(
            "depth maps in their own encoding",
            _bundle,
            _depth_map(".npy", ".pfm", ".png", otherwise="write it as .npy"),
        ),
        "nerfstudio": Layout("depth maps, PNG by the file's factor or npy", _nerfstudio, _depth_map(".png", ".npy")),
        "colmap": Layout(
            "stereo/depth_maps and stereo/normal_maps of the kind that was read",
            _colmap,
            _with_normals,
            ("images/**/*", "sparse/**/*", "stereo/*.cfg", "stereo/depth_maps/**/*", "stereo/normal_maps/**/*"),
        ),
        "openmvs": Layout("*.dmap with confidence", _openmvs, _depth_map(".dmap")),
        "mvsnet": Layout("PFM depth, and confidence where there was one", _mvsnet, _with_confidence),
        "7-scenes": Layout("depth PNG in millimetres", _counts(lambda *_: seven_scenes.MILLIMETRES.scale)),
        "icl-nuim": Layout("depth PNG, 5000 counts per metre", _counts(lambda *_: 1 / icl_nuim.UNITS_PER_METRE)),
        "tum": Layout("depth PNG, 5000 counts per metre", _counts(_stated)),
        "replica": Layout(
            "depth PNG by the scene's own scale", _counts(lambda data, _: 1 / replica.counts_a_metre(data))
        ),
        "scannet": Layout("depth PNG in millimetres", _counts(_stated)),
        "open3d": Layout("depth PNG in millimetres", _counts(_stated)),
    }
)


def root_of(data: Path) -> Path:
    """The folder of a data set that may be given by its main file."""
    return data if data.is_dir() else data.parent
