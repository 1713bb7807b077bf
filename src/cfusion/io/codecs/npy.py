"""NumPy's own format; pickled Python objects are refused, because loading them runs code."""

import io
import math
from pathlib import Path

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.files import read_bytes
from cfusion.io.limits import require_bytes

HEADER_READERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


def read_npy(path: Path) -> NDArray[np.float32]:
    """A map (H, W) of real numbers, as float32."""
    data = read_bytes(path)
    _check(path, data)
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which a View refuses
        values: NDArray[np.float32] = np.load(io.BytesIO(data), allow_pickle=False).astype(np.float32)
    return values


def write_npy(path: Path, array: NDArray[np.generic]) -> None:
    """Write any array, bit by bit."""
    np.save(path, array, allow_pickle=False)


def _check(path: Path, data: bytes) -> None:
    """Refuse anything but one complete (H, W) array of real numbers."""
    stream = io.BytesIO(data)
    try:
        shape, _, dtype = HEADER_READERS[npy_format.read_magic(stream)](stream)
    except Exception:  # the header is a Python expression; damaged ones fail in many ways
        raise FileError(f"{path} is not a .npy file, or its header is damaged; write it again") from None
    if dtype.hasobject:
        raise FileError(f"{path} holds pickled Python objects; save a plain float array instead")
    if dtype.kind not in "fiu":
        raise FileError(f"{path} holds {dtype}, not real numbers; save it as float32")
    if len(shape) != 2 or min(shape) < 1:
        raise FileError(f"{path} has shape {shape}, expected (H, W); save one map per file")
    require_bytes(path, len(data) - stream.tell(), math.prod(shape) * dtype.itemsize, "its header claims")
