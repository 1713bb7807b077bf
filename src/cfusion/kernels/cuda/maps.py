"""Whole maps on the device, one launch each; definitions in `cfusion.kernels.numpy.maps`."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats, Mask, Window
from cfusion.kernels.cuda.association import close_mask
from cfusion.kernels.cuda.device import Desk, blocks_of, by_value, contiguous, desk, frame_of, kernel, real_define

SOURCES, THREADS = ("reduce.cuh", "window.cuh", "maps.cu"), 256


def whole(part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool) -> Floats:
    """As `Backend.whole`."""
    out: Floats = cupy.empty(domain.shape, np.float32)
    where = (contiguous(domain), by_value(frame_of(domain.shape, window)))
    undone = (np.float32(outside), part.dtype.type(centre), np.bool_(inverse))
    _launch("whole", out.size, (contiguous(part), *where, *undone, out), real_define(part))
    return out


def blend(surface: Floats, found: Floats, share: float) -> Floats:
    """As `Backend.blend`."""
    out: Floats = cupy.empty(surface.shape, np.float32)
    maps = (contiguous(surface), contiguous(found))
    _launch("blend", out.size, (*maps, np.float32(share), np.uint32(out.size), out))
    return out


def tilted(depth: Floats, down: float, right: float) -> Floats:
    """As `Backend.tilted`."""
    out: Floats = cupy.empty(depth.shape, np.float32)
    slopes = (np.float32(down), np.float32(right))
    sizes = (np.int32(depth.shape[1]), np.uint32(out.size))
    _launch("tilted", out.size, (contiguous(depth), *slopes, *sizes, out))
    return out


def account(depths: Floats, weights: Floats | None, filled: Mask | None, depth: Floats) -> tuple[Floats, Floats]:
    """As `Backend.account`."""
    provenance, sigma = cupy.empty(depth.shape, np.int16), cupy.empty(depth.shape, np.float32)
    stacks = [contiguous(each) for each in (depths, weights, filled, depth)]
    sizes = (np.int32(len(depths)), np.uint32(depth.size))
    _launch("account", depth.size, (*stacks, *sizes, provenance, sigma))
    return provenance, sigma


def gaps(mask: Mask, radius: int) -> Mask | None:
    """As `Backend.gaps`."""
    mask, sums = contiguous(mask), desk()
    out: Mask = cupy.empty(mask.shape, np.bool_)
    arguments = (close_mask(mask, radius), mask, np.uint32(mask.size), out, sums.argument)
    kernel(SOURCES, "added", defines())((Desk.BLOCKS,), (Desk.THREADS,), arguments)
    return out if sums.read(1)[0] else None


def defines(real: str = "REAL=float") -> tuple[str, ...]:
    """What these kernels are compiled for."""
    return (real,)


def _launch(name: str, pixels: int, arguments: tuple[Any, ...], real: str = "REAL=float") -> None:
    kernel(SOURCES, name, defines(real))((blocks_of(pixels, THREADS),), (THREADS,), arguments)
