"""Held-out observations, on the device; definitions in `cfusion.kernels.numpy.trials`."""

import cupy
import numpy as np

from cfusion.kernels.contract import Floats, HeldOut
from cfusion.kernels.cuda.device import (
    Desk,
    by_value,
    contiguous,
    desk,
    frame_of,
    kernel,
    or_nothing,
    real_define,
    rows_of,
)
from cfusion.kernels.numpy.trials import gain_of

SOURCES = ("reduce.cuh", "window.cuh", "trials.cu")


def score_difference(x: Floats, other: Floats, held: HeldOut) -> tuple[float, float, float]:
    """As `Backend.score_difference`, in one pass."""
    sums, views = desk(), len(held.depths)
    inside, stride = rows_of(held.inside)
    kernel(SOURCES, "gain", defines(real_define(x)))(
        (Desk.BLOCKS,),
        (Desk.THREADS,),
        (
            *(contiguous(each) for each in (x, other, held.depths, held.weights)),
            inside,
            stride,
            by_value(frame_of(held.depths.shape[1:], held.window)),
            np.float64(held.centre),
            np.bool_(held.inverse),
            np.int32(views),
            sums.argument,
        ),
    )
    return gain_of(*sums.read(6))


def split_folds(
    depths: Floats, weights: Floats | None, turns: Floats, block: int
) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
    """As `Backend.split_folds`, in one pass."""
    sums = desk()
    kept, out = cupy.empty(depths.shape, np.float32), cupy.empty(depths.shape, np.float32)
    both = [None if weights is None else cupy.empty(depths.shape, np.float32) for _ in range(2)]
    given = (contiguous(depths), contiguous(weights))
    sizes = tuple(np.int32(size) for size in (turns.shape[1], block, *depths.shape))
    made = (kept, out, *(or_nothing(each) for each in both))
    arguments = (*given, cupy.asarray(np.ascontiguousarray(turns)), *sizes, *made, sums.argument)
    kernel(SOURCES, "split", defines())((Desk.BLOCKS,), (Desk.THREADS,), arguments)
    kept_known, out_known = (int(each) for each in sums.read(2))
    return (kept, both[0]), (out, both[1]), (kept_known, out_known)


def defines(real: str = "REAL=float") -> tuple[str, ...]:
    """The macros for which these kernels are compiled."""
    return (real,)
