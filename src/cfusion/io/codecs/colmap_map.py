"""COLMAP's dense maps: `width&height&channels&` as text, then float32, little endian, channel by channel."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.files import read_bytes
from cfusion.io.limits import require_bytes

HEADER = re.compile(rb"(\d{1,9})&(\d{1,9})&(\d{1,9})&")
LONGEST_HEADER = 40


def read_colmap_map(path: Path) -> NDArray[np.float32]:
    """A map (H, W), or (H, W, C) for C > 1 channels, as stored: 0 means no depth."""
    data = read_bytes(path)
    header = HEADER.match(data[:LONGEST_HEADER])
    if header is None:
        raise FileError(f"{path} is not a COLMAP map: it does not start with `width&height&channels&`; check the name")
    width, height, channels = (int(header[place]) for place in (1, 2, 3))
    if 0 in (width, height, channels):
        raise FileError(f"{path} claims {width} x {height} x {channels} values; none of them may be zero")
    what = f"{width} x {height} x {channels} floats are"
    require_bytes(path, len(data) - header.end(), 4 * width * height * channels, what)
    planes = np.frombuffer(data, dtype="<f4", offset=header.end()).reshape(channels, height, width)
    return planes[0].astype(np.float32) if channels == 1 else np.moveaxis(planes, 0, -1).astype(np.float32)


def write_colmap_map(path: Path, values: NDArray[np.floating]) -> None:
    """Write a map (H, W) or (H, W, C); NaN becomes 0, COLMAP's value for no depth."""
    planes = values[None] if values.ndim == 2 else np.moveaxis(values, -1, 0)
    channels, height, width = planes.shape
    body = np.nan_to_num(planes.astype("<f4"), nan=0.0, copy=True)
    path.write_bytes(f"{width}&{height}&{channels}&".encode() + np.ascontiguousarray(body).tobytes())
