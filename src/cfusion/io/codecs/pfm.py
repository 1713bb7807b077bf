"""Portable float maps: a text header, then float32 rows from the bottom up; infinity means unknown."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.files import read_bytes
from cfusion.io.limits import require_bytes

HEADER = re.compile(rb"(P[fF])\s+(\d{1,9})\s+(\d{1,9})\s+([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(\r\n|\s)")
LONGEST_HEADER = 256


def read_pfm(path: Path) -> NDArray[np.float32]:
    """A map (H, W), first row on top, NaN where the file has an infinity.

    The sign of the header's last number gives the byte order (negative: little endian); its magnitude is ignored, as in
    other readers.
    """
    data = read_bytes(path)
    header = HEADER.match(data[:LONGEST_HEADER])
    if header is None:
        raise FileError(f"{path} is not a .pfm file: it does not start with 'Pf', a size and a scale; check the name")
    magic, width, height, scale = header[1], int(header[2]), int(header[3]), float(header[4])
    if magic == b"PF":
        raise FileError(f"{path} has three channels (PF), expected one (Pf); save the depth alone")
    if scale == 0 or width == 0 or height == 0:
        raise FileError(f"{path} has size {width} x {height} and scale {scale:g}; none of them may be zero")
    require_bytes(path, len(data) - header.end(), 4 * width * height, f"{width} x {height} floats are")
    order = "<f4" if scale < 0 else ">f4"
    rows = np.frombuffer(data, dtype=order, offset=header.end()).reshape(height, width)
    values = rows[::-1].astype(np.float32)
    values[np.isinf(values)] = np.nan
    return values


def write_pfm(path: Path, values: NDArray[np.floating]) -> None:
    """A map (H, W), little endian, infinity where it is NaN."""
    height, width = values.shape
    known = np.where(np.isnan(values), np.inf, values).astype("<f4")
    path.write_bytes(f"Pf\n{width} {height}\n-1.0\n".encode() + known[::-1].tobytes())
