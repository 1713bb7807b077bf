"""One map of numbers in a file; the suffix determines the codec."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError
from cfusion.io.codecs import exr, npy, pfm, png

SUFFIXES = (".npy", ".png", ".pfm", ".exr")


def read_map(path: Path, scale: float | None = None, *, expected: tuple[int, int] | None = None) -> NDArray[np.float32]:
    """A map (H, W) times scale, NaN = unknown; a PNG holds counts, so its scale is required.

    If the data set states a size, maps of another size are refused before they are decoded.
    """
    match path.suffix.lower():
        case ".npy":
            return _times(npy.read_npy(path), scale)
        case ".pfm":
            return _times(pfm.read_pfm(path), scale)
        case ".exr":
            return _times(exr.read_exr(path, expected)[0], scale)
        case ".png":
            if scale is None:
                raise FileError(f"{path} holds counts; give its scale, in units of depth per count (e.g. 0.001)")
            return png.read_png(path, png.Encoding(scale), expected=expected)
        case other:
            raise FileError(f"{path} ends in {other!r}; maps are read from {', '.join(SUFFIXES)}")


def _times(values: NDArray[np.float32], scale: float | None) -> NDArray[np.float32]:
    return values if scale is None else (values * np.float64(scale)).astype(np.float32)
