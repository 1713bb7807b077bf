"""A depth map to be evaluated: from a folder written by `write_result`, or from a single file."""

from pathlib import Path

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.datasets.fingerprint import file_fingerprint
from cfusion.datasets.write_result import FORMAT, VERSION
from cfusion.errors import FileError
from cfusion.geometry import Camera
from cfusion.io.cameras import camera_from_json
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.json_object import JsonObject
from cfusion.io.maps import read_map

FILE_NAME = "result.json"


def read_depth(path: Path, scale: float | None = None) -> tuple[DepthMap, Camera | None]:
    """Depth (H, W) and, from a result folder, its camera; `scale` is for a single file alone (required for PNG)."""
    if path.name == FILE_NAME:
        path = path.parent
    if not path.exists():
        raise FileError(f"{path} does not exist; give a result folder or a depth map")
    if not path.is_dir():
        return read_map(path, scale), None
    if scale is not None:
        raise FileError(f"{path} is a result, which states its own scale; leave --scale or --truth-scale out")
    entry = JsonObject.of_file(path / FILE_NAME)
    found = entry.content.get("format"), entry.content.get("version")
    if found != (FORMAT, VERSION):
        raise FileError(f"{entry.where} has format {found[0]!r}, version {found[1]!r}; give a {FORMAT!r}")
    camera = camera_from_json(entry.object("camera")) if "camera" in entry else None
    size = None if camera is None else camera.shape
    return _read_written(entry.object("files").object("depth"), path, size), camera


def settings_of_result(folder: Path) -> dict[str, object] | None:
    """The settings of a complete result; None if there is none, or one of its files has changed."""
    try:
        entry = JsonObject.of_file(folder / FILE_NAME)
        maps = entry.object("files")
        named = [maps.object(name).object(kind) for name in maps.content for kind in maps.object(name).content]
        if not all(_is_as_written(each, each.path_inside("file", folder)) for each in named):
            return None
        return dict(entry.object("settings").content)
    except FileError:
        return None


def _is_as_written(entry: JsonObject, file: Path) -> bool:
    """Whether a file still has the size and contents that result.json states."""
    stated = {key: entry.content.get(key) for key in ("bytes", "sha256")}
    if not file.is_file() or file.stat().st_size != stated["bytes"]:
        return False
    return file_fingerprint(file) == stated


def _read_written(written: JsonObject, folder: Path, size: tuple[int, int] | None) -> DepthMap:
    for name in ("npy", "pfm", "exr"):  # exact, unlike png
        if name in written:
            return read_map(written.object(name).path_inside("file", folder), expected=size)
    if "png" not in written:
        raise FileError(f"{written.where} lists no depth map; write the result with npy, pfm or png")
    png = written.object("png")
    encoding = Encoding(png.number("scale"), png.number("offset"))
    return np.asarray(read_png(png.path_inside("file", folder), encoding, expected=size))
