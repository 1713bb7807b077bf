"""Means over squares, on the device; the definition is `cfusion.kernels.numpy.pooling`."""

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import as_given, blocks_of, kernel, on_device, real_define

SOURCES = ("pooling.cu",)
TILE, THREADS = 32, 256


def pooled(maps: Floats, radius: int, passes: int, times: float = 1.0) -> Floats:
    """As `Backend.pooled`, one launch per pass."""
    kept = on_device(maps, np.float32 if maps.dtype == np.float32 else np.float64)
    count, height, width = kept.shape
    grid = (blocks_of(width, TILE), blocks_of(height, TILE), count)
    sizes = (np.int32(radius), np.int32(height), np.int32(width))
    for left in range(passes, 0, -1):
        out = cupy.empty(kept.shape, np.float64)
        launch = kernel(SOURCES, "mean_around", (real_define(kept),))
        launch(
            grid,
            (THREADS,),
            (kept, *sizes, np.float64(times if left == 1 else 1), out),
            shared_mem=8 * TILE * (TILE + 2 * radius),
        )
        kept = out
    return as_given(kept, maps)
