"""Observations in ascending order, or their mean, and the weighted median."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from cfusion.errors import InputError
from cfusion.kernels.contract import Fidelity, Floats, Observations
from cfusion.kernels.cuda.device import blocks_of, kernel, or_nothing, real_define

SHARED = 200 << 10  # bytes of shared memory that a block may use on every device since Ampere, with some to spare
THREADS = 256


def order_observations(depths: Floats, weights: Floats | None, fidelity: Fidelity) -> tuple[Observations, Floats]:
    """As `Backend.order_observations`: one thread sorts one pixel in shared memory."""
    views, pixels = depths.shape[0], depths[0].size
    mean_only, weighted = fidelity is Fidelity.L2, weights is not None
    per_thread = views * depths.dtype.itemsize * (2 if weighted else 1)
    threads = min(128, SHARED // per_thread // 32 * 32)
    if threads == 0:
        raise InputError(f"{views} observations per pixel are more than the CUDA backend sorts; pass backend='cpu'")
    total, median = cupy.empty(depths.shape[1:], depths.dtype), cupy.empty(depths.shape[1:], depths.dtype)
    values = None if mean_only else cupy.empty(depths.shape, depths.dtype)
    carried = cupy.empty(depths.shape, depths.dtype) if weighted and not mean_only else None
    mean = cupy.empty((1, *depths.shape[1:]), depths.dtype) if mean_only else None
    scatter = cupy.empty_like(total) if mean_only else None
    defines = (real_define(depths), f"WEIGHTED={weighted:d}", f"FIDELITY={1 if mean_only else 0}")
    kernel(("ordering.cu",), "order_observations", defines, shared=per_thread * threads)(
        (blocks_of(pixels, threads),),
        (threads,),
        (
            cupy.ascontiguousarray(depths),
            or_nothing(None if weights is None else cupy.ascontiguousarray(weights)),
            or_nothing(values),
            or_nothing(carried),
            total,
            median,
            or_nothing(mean),
            or_nothing(scatter),
            np.int32(views),
            np.uint64(pixels),
        ),
        shared_mem=per_thread * threads,
    )
    kept: Any = mean if mean_only else values
    return Observations(kept, carried, total, scatter), median


def middle(seen: Observations) -> Floats:
    """As `Backend.middle`."""
    if seen.scatter is not None:
        return seen.values[0]
    weighted = seen.weights is not None
    median: Floats = cupy.empty_like(seen.total)
    kernel(("ordering.cu",), "middle", (real_define(seen.total), f"WEIGHTED={weighted:d}", "FIDELITY=0"))(
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
