"""Coloured maps as PNG bytes without a plotting library (unknown pixels are transparent), and colours of points."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image

# Perceptually uniform, and readable without colour vision: one for depth, one for sigma.
VIRIDIS = np.array(
    [
        *((68, 1, 84), (71, 45, 123), (59, 82, 139), (44, 114, 142), (33, 145, 140)),
        *((40, 174, 128), (94, 201, 98), (173, 220, 48), (253, 231, 37)),
    ],
    dtype=np.float64,
)
INFERNO = np.array(
    [
        *((0, 0, 4), (31, 12, 72), (85, 15, 109), (136, 34, 106), (186, 54, 85)),
        *((227, 89, 51), (249, 140, 10), (249, 201, 50), (252, 255, 164)),
    ],
    dtype=np.float64,
)
PERCENT = (1.0, 99.0)  # of the known values: outliers do not stretch the range of colours


def depth_colours(depth: NDArray[np.generic], limits: tuple[float, float] | None = None) -> NDArray[np.uint8]:
    """Colours (H, W, 4) of depth, dark = near, over the given limits or its own."""
    return _coloured(np.asarray(depth, np.float64), VIRIDIS, limits)


def sigma_colours(sigma: NDArray[np.generic], limits: tuple[float, float] | None = None) -> NDArray[np.uint8]:
    """Colours (H, W, 4) of sigma on a logarithmic scale, bright = uncertain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.log(np.where(np.asarray(sigma, np.float64) > 0, sigma, np.nan))
    within = None if limits is None else (float(np.log(limits[0])), float(np.log(limits[1])))
    return _coloured(logarithm, INFERNO, within)


def point_colours(depth: DepthMap, image: Image | None) -> NDArray[np.uint8]:
    """Colours (N, 3) of the N known pixels of a depth map (H, W), row by row."""
    known = np.isfinite(depth)
    if image is None:  # percentiles 2 to 98: outliers do not stretch the range of colours
        low, high = np.percentile(depth[known], (2, 98)) if known.any() else (0.0, 1.0)
        return depth_colours(depth[known], (low, high))[:, :3]
    levels = np.rint(255 * np.clip(image[known], 0, 1)).astype(np.uint8)
    return levels if levels.ndim == 2 else np.stack([levels] * 3, axis=-1)


def _coloured(
    values: NDArray[np.float64], ramp: NDArray[np.float64], limits: tuple[float, float] | None
) -> NDArray[np.uint8]:
    known = np.isfinite(values)
    picture = np.zeros((*values.shape, 4), np.uint8)
    if not known.any():
        return picture
    low, high = np.percentile(values[known], PERCENT) if limits is None else limits
    place = np.clip((values[known] - low) / ((high - low) or 1.0), 0, 1) * (len(ramp) - 1)
    for channel in range(3):
        levels = np.interp(place, np.arange(len(ramp)), ramp[:, channel])
        picture[known, channel] = np.rint(levels).astype(np.uint8)
    picture[known, 3] = 255
    return picture


def png_bytes(levels: NDArray[np.uint8]) -> bytes:
    """A PNG file from grey (H, W), colour (H, W, 3) or colour and transparency (H, W, 4)."""
    kind = {2: 0, 3: 2 if levels.shape[-1] == 3 else 6}[levels.ndim]
    height, width = levels.shape[:2]
    rows = np.ascontiguousarray(levels).reshape(height, -1)
    before = np.zeros_like(rows)
    before[1:] = rows[:-1]
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0], filtered[:, 1:] = 2, rows - before  # filter 2: differences to the row above
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    content = zlib.compress(filtered.tobytes(), 7)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(*each) for each in ((b"IHDR", head), (b"IDAT", content), (b"IEND", b""))
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
