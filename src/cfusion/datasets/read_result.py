"""A depth map to judge: from a folder that `write_result` filled, or from a file of its own."""

from pathlib import Path

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.datasets.write_result import FORMAT, VERSION
from cfusion.errors import FileError
from cfusion.geometry import Camera
from cfusion.io.cameras import camera_from_json
from cfusion.io.codecs.png import Encoding, read_png
from cfusion.io.json_object import JsonObject
from cfusion.io.maps import read_map

FILE_NAME = "result.json"


def read_depth(path: Path, scale: float | None = None) -> tuple[DepthMap, Camera | None]:
    """Depth (H, W) and, from a result folder, its camera; `scale` is for a lone file (a PNG needs it)."""
    if path.name == FILE_NAME:
        path = path.parent
    if not path.is_dir():
        return read_map(path, scale), None
    entry = JsonObject.of_file(path / FILE_NAME)
    found = entry.content.get("format"), entry.content.get("version")
    if found != (FORMAT, VERSION):
        raise FileError(f"{entry.where} says format {found[0]!r}, version {found[1]!r}; expected {FORMAT!r}")
    camera = camera_from_json(entry.object("camera")) if "camera" in entry else None
    return _read_written(entry.object("files").object("depth"), path), camera


def settings_of_result(folder: Path) -> dict[str, object] | None:
    """The settings a whole result was written with; None where there is none, or a file of it is missing."""
    try:
        entry = JsonObject.of_file(folder / FILE_NAME)
        maps = entry.object("files")
        named = [maps.object(name).object(kind) for name in maps.content for kind in maps.object(name).content]
        if not all(each.path_inside("file", folder).is_file() for each in named):
            return None
        return dict(entry.object("settings").content)
    except FileError:
        return None


def _read_written(written: JsonObject, folder: Path) -> DepthMap:
    for name in ("npy", "pfm", "exr"):  # exact, unlike png
        if name in written:
            return read_map(written.object(name).path_inside("file", folder))
    if "png" not in written:
        raise FileError(f"{written.where} names no depth map; write the result with npy, pfm or png")
    png = written.object("png")
    encoding = Encoding(png.number("scale"), png.number("offset"))
    return np.asarray(read_png(png.path_inside("file", folder), encoding))
