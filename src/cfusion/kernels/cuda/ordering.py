"""Sorted observations, or their mean, and the weighted median."""

from functools import cache
from typing import Any

import cupy
import numpy as np

from cfusion.errors import InputError
from cfusion.kernels.contract import Fidelity, Floats, Observations, SortedStack, Window
from cfusion.kernels.cuda.device import (
    blocks_of,
    by_value,
    contiguous,
    desk,
    frame_of,
    kernel,
    or_nothing,
    real_define,
    shared_memory,
)

SOURCES = ("reduce.cuh", "window.cuh", "ordering.cu")
RESERVED = 4 << 10  # bytes of shared memory for sums
THREADS = 256
MOST_BLOCKS = 1024  # each writes seven sums to the desk


def sort_observations(
    depths: Floats,
    weights: Floats | None,
    window: Window,
    centre: float,
    inverse: bool,
    fidelity: Fidelity,
    real: Any,
) -> SortedStack:
    """As `Backend.sort_observations`: one thread sorts one pixel in shared memory."""
    views, shape = len(depths), tuple(part.stop - part.start for part in window)
    mean_only, weighted = fidelity is Fidelity.L2, weights is not None
    per_thread = views * np.dtype(real).itemsize * (2 if weighted else 1)
    threads = min(128, (shared_memory() - RESERVED) // per_thread // 32 * 32)
    if threads == 0:
        raise InputError(f"{views} observations per pixel are more than the CUDA backend sorts; pass backend='cpu'")
    total, median = cupy.empty(shape, real), cupy.empty(shape, real)
    values = None if mean_only else cupy.empty((views, *shape), real)
    carried = cupy.empty((views, *shape), real) if weighted and not mean_only else None
    mean = cupy.empty((1, *shape), real) if mean_only else None
    scatter = cupy.empty_like(total) if mean_only else None
    kind = defines(real_define(total), weighted, fidelity, depths.dtype)
    sums = desk()
    kernel(SOURCES, "order_observations", kind)(
        (min(blocks_of(total.size, threads), MOST_BLOCKS),),
        (threads,),
        (
            contiguous(depths),
            contiguous(weights),
            by_value(frame_of(depths.shape[1:], window)),
            real(centre),
            np.bool_(inverse),
            or_nothing(values),
            or_nothing(carried),
            total,
            median,
            or_nothing(mean),
            or_nothing(scatter),
            np.int32(views),
            sums.argument,
        ),
        shared_mem=per_thread * threads,
    )
    *found, low, high = sums.read(7)
    kept: Any = mean if mean_only else values
    return SortedStack(Observations(kept, carried, total, scatter), median, low, -high, *found)


@cache
def defines(real: str, weighted: bool, fidelity: Fidelity, given: Any = np.float32) -> tuple[str, ...]:
    """The macros for which these kernels are compiled."""
    source = "float" if given == np.float32 else "double"
    return real, f"WEIGHTED={weighted:d}", f"FIDELITY={1 if fidelity is Fidelity.L2 else 0}", f"SOURCE={source}"


def weighted_median(seen: Observations) -> Floats:
    """As `Backend.weighted_median`."""
    if seen.scatter is not None:
        return seen.values[0]
    weighted = seen.weights is not None
    median: Floats = cupy.empty_like(seen.total)
    kernel(SOURCES, "middle", defines(real_define(seen.total), weighted, Fidelity.L1))(
        (blocks_of(median.size, THREADS),),
        (THREADS,),
        (
            seen.values,
            or_nothing(seen.weights),
            seen.total,
            median,
            np.int32(len(seen.values)),
            np.uint64(median.size),
        ),
    )
    return median
