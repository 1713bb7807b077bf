"""Motions of views that remove their residuals, in one launch; definitions in `cfusion.kernels.numpy.motions`."""

from __future__ import annotations

from functools import cache

import cupy
import numpy as np

from cfusion.kernels.contract import Floats, Removal
from cfusion.kernels.cuda.device import desk, kernel
from cfusion.kernels.numpy.motions import LARGEST, OUTLIER, STEPS, by_blocks

SOURCES = ("reduce.cuh", "motions.cu")
THREADS = 512  # of a view


def removal(
    residuals: Floats, effects: Floats, about: Floats, blocks: tuple[Floats, Floats], fewest: float, least: float
) -> Removal:
    """As `Backend.removal`: what is given, and what is returned, is on the host."""
    (views, places), size, work = residuals.shape, len(effects), desk()
    maps = cupy.asarray(np.concatenate([residuals, effects]))
    segments = [part.astype(np.int32) for block in blocks for part in by_blocks(block)]
    order, first, wide_order, wide_first = cupy.split(
        cupy.asarray(np.concatenate(segments)), np.cumsum([len(part) for part in segments[:-1]]).tolist()
    )
    square = size * size
    numbers = 4 * square + size + 3
    kernel(SOURCES, "removal", defines(size))(
        (views,),
        (THREADS,),
        (
            maps,
            maps[views:],
            cupy.asarray(about),
            np.int32(places),
            order,
            first,
            np.int32(len(first)),
            wide_order,
            wide_first,
            np.int32(len(wide_first)),
            np.float64(fewest),
            np.float64(least),
            cupy.empty((views, places)),
            cupy.empty((views, places), np.bool_),
            work.page(views * numbers),
        ),
    )
    found = work.turn(views * numbers).reshape(views, numbers)
    normals, chance, wide, squares = found[:, : 4 * square].reshape(views, 4, size, size).swapaxes(0, 1)
    sizes, told, count = found[:, -3:].T
    return Removal(found[:, 4 * square : -3], normals, sizes, told > 0, count, (chance, wide), squares)


@cache
def defines(size: int) -> tuple[str, ...]:
    """The macros for which this kernel is compiled."""
    law = f"STEPS={STEPS}", f"OUTLIER={OUTLIER}", f"LARGEST={LARGEST}"
    return *law, f"EFFECTS={size}", f"THREADS={THREADS}"
