"""Whole maps on the device, one launch each; definitions in `cfusion.kernels.numpy.maps`."""

from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats, Mask, Window
from cfusion.kernels.cuda.device import blocks_of, by_value, contiguous, frame_of, kernel, real_define

SOURCES, THREADS = ("reduce.cuh", "window.cuh", "maps.cu"), 256


def to_image(part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool) -> Floats:
    """As `Backend.to_image`."""
    out: Floats = cupy.empty(domain.shape, np.float32)
    where = (contiguous(domain), by_value(frame_of(domain.shape, window)))
    undone = (np.float32(outside), part.dtype.type(centre), np.bool_(inverse))
    _launch("whole", out.size, (contiguous(part), *where, *undone, out), real_define(part))
    return out


def defines(real: str = "REAL=float") -> tuple[str, ...]:
    """The macros for which these kernels are compiled."""
    return (real,)


def _launch(name: str, pixels: int, arguments: tuple[Any, ...], real: str = "REAL=float") -> None:
    kernel(SOURCES, name, defines(real))((blocks_of(pixels, THREADS),), (THREADS,), arguments)
