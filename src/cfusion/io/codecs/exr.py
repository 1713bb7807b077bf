"""OpenEXR: depth in channel Z (or the only one), confidence beside it; infinity and renderers' 1e10 mean unknown."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError, MissingDependency, ShapeError
from cfusion.io.codecs.png_chunks import MOST_PIXELS
from cfusion.io.files import read_bytes

MAGIC = b"\x76\x2f\x31\x01"
DEPTH_NAMES = ("Z", "depth", "V", "Y", "R")
CONFIDENCE_NAMES = ("confidence", "conf", "C")
BACKGROUND = 1e9  # at least: where renderers put what they did not hit


def read_exr(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Depth (H, W), NaN where unknown, and confidence (H, W) where there is one."""
    library = require_openexr()
    if not read_bytes(path).startswith(MAGIC):
        raise FileError(f"{path} is not an .exr file")
    try:
        low, high = library.File(str(path), header_only=True).header()["dataWindow"]
        width, height = int(high[0]) - int(low[0]) + 1, int(high[1]) - int(low[1]) + 1
        if not 0 < width * height <= MOST_PIXELS or width < 1:
            raise FileError(f"{path} claims {width} x {height} pixels, expected 1 to {MOST_PIXELS}; write it anew")
        with library.File(str(path), separate_channels=True) as file:
            channels = {name: np.array(channel.pixels) for name, channel in file.channels().items()}
    except FileError:
        raise
    except Exception as error:  # the library raises RuntimeError, ValueError and others on damaged files
        reason = (str(error).splitlines() or ["no reason given"])[0][:100]
        raise FileError(f"{path} is a damaged .exr ({reason}); write it anew") from None
    depth = _channel(path, channels, DEPTH_NAMES, needed=True)
    assert depth is not None
    depth = np.where(np.isfinite(depth) & (depth < BACKGROUND), depth, np.nan).astype(np.float32)
    return depth, _channel(path, channels, CONFIDENCE_NAMES, needed=False)


def write_exr(path: Path, depth: NDArray[np.floating], confidence: NDArray[np.floating] | None = None) -> None:
    """Depth as Z (infinity where unknown) and confidence, float32, compressed without loss."""
    library = require_openexr()
    if confidence is not None and confidence.shape != depth.shape:
        raise ShapeError(f"confidence is {confidence.shape}, depth is {depth.shape}")
    channels = {"Z": np.where(np.isnan(depth), np.inf, depth).astype(np.float32)}
    if confidence is not None:
        channels["confidence"] = confidence.astype(np.float32)
    header = {"compression": library.ZIP_COMPRESSION, "type": library.scanlineimage}
    library.File(header, channels).write(str(path))


def _channel(
    path: Path, channels: dict[str, NDArray[Any]], names: tuple[str, ...], *, needed: bool
) -> NDArray[np.float32] | None:
    """The first channel with one of the names, alone or as the end of a layer's name (`View.Depth.Z`)."""
    for name in names:
        for key in channels:
            if key == name or key.lower().split(".")[-1] == name.lower():
                return channels[key].astype(np.float32)
    if needed and len(channels) == 1:
        return next(iter(channels.values())).astype(np.float32)
    if needed:
        raise FileError(f"{path} has channels {', '.join(sorted(channels))}; expected depth in Z")
    return None


def require_openexr() -> Any:
    """The library, imported late."""
    try:
        return importlib.import_module("OpenEXR")
    except ImportError:
        raise MissingDependency("EXR files need OpenEXR: pip install 'cfusion[data]'") from None
