"""OpenEXR: depth in channel Z (or the only one) and confidence; infinity and renderers' 1e10 mean unknown."""

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError, first_line, optional_module
from cfusion.io.codecs.exr_header import DEEP, Header, read_header
from cfusion.io.codecs.exr_lines import read_channels
from cfusion.io.files import require_file
from cfusion.io.limits import require_pixels, require_shape

DEPTH_NAMES = ("Z", "depth", "V", "Y", "R")
CONFIDENCE_NAMES = ("confidence", "conf", "C")
BACKGROUND = 1e9  # at least: the depth that renderers store for rays without a hit
BESIDE = 1 << 26  # bytes of other channels that the library may decode, for any file
DENSEST = 8  # and per byte of the file


def read_exr(
    path: Path, expected: tuple[int, int] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Depth (H, W), NaN where unknown, and confidence (H, W) if there is one; other channels are ignored.

    If the data set states a size, another size is refused before anything is decoded.
    """
    held = require_file(path)
    header = read_header(path)
    require_pixels(path, header.width, header.height, held)
    require_shape(path, (header.height, header.width), expected)
    if header.flags & DEEP:
        raise FileError(f"{path} is an .exr with deep samples; save one depth per pixel")
    names = [channel.name for channel in header.channels]
    chosen = _name(path, names, DEPTH_NAMES, needed=True)
    trusted = _name(path, names, CONFIDENCE_NAMES, needed=False)
    wanted = [name for name in (chosen, trusted) if name]
    maps = read_channels(path, header, wanted) if header.is_plain else _read_by_library(path, header, wanted, held)
    depth = maps[0]
    depth[~(np.isfinite(depth) & (depth < BACKGROUND))] = np.nan
    return depth, maps[1] if trusted else None


def _read_by_library(path: Path, header: Header, wanted: list[str], held: int) -> list[NDArray[np.float32]]:
    """Channels of files with tiles, several parts or other compression, decoded by OpenEXR.

    The library decodes all channels, so all count; its call for a single channel crashes on damaged files.
    """
    library = require_openexr()
    pixels = header.width * header.height
    if 4 * pixels * len(header.channels) > max(4 * pixels * len(wanted) + BESIDE, DENSEST * held):
        raise FileError(
            f"{path} claims {len(header.channels)} channels of {header.width} x {header.height} pixels in {held} "
            "bytes; save depth alone, or in scan lines with ZIP"
        )
    try:
        printed = io.StringIO()
        with redirect_stdout(printed), library.File(str(path), separate_channels=True) as file:
            if "Exception" in printed.getvalue():  # the library prints the error and continues
                raise FileError(f"{path} is a damaged .exr: its pixels do not unpack; write it again")
            maps = [np.array(file.channels()[name].pixels, np.float32) for name in wanted]
    except FileError:
        raise
    except Exception as error:  # the library raises RuntimeError, ValueError and others on damaged files
        raise FileError(f"{path} is a damaged .exr ({first_line(error)}); write it again") from None
    if any(each.shape != (header.height, header.width) for each in maps):
        raise FileError(f"{path} has a subsampled channel; save depth in full size")
    return maps


def write_exr(path: Path, depth: NDArray[np.floating], confidence: NDArray[np.floating]) -> None:
    """Write depth as Z (infinity where unknown) and confidence, float32, without loss."""
    library = require_openexr()
    unknown_far = np.where(np.isnan(depth), np.inf, depth)
    channels = {"Z": unknown_far.astype(np.float32), "confidence": confidence.astype(np.float32)}
    header = {"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}
    try:
        library.File(header, channels).write(str(path))
    except RuntimeError as error:  # how the library reports a full disk
        raise OSError(str(error).split("\n")[0]) from None


def _name(path: Path, kinds: list[str], names: tuple[str, ...], *, needed: bool) -> str:
    """The first channel with one of the names, alone or at the end of a layer's name (`View.Depth.Z`); "" if none."""
    for name in names:
        for key in kinds:
            if key == name or key.lower().split(".")[-1] == name.lower():
                return key
    if needed and len(kinds) == 1:
        return kinds[0]
    if needed:
        raise FileError(f"{path} has channels {', '.join(sorted(kinds))[:200]}; save depth in channel Z")
    return ""


def require_openexr() -> Any:
    """The library, imported late."""
    return optional_module("OpenEXR", missing="EXR files need OpenEXR: pip install 'cfusion[data]'")
