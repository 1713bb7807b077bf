"""The middle of weights by weight: not a function of a backend, but of the memory that they are in, as a pass."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from cfusion.kernels.contract import Floats


def weighted_middle(weights: Floats, every: int) -> float:
    """The least weight that holds, with smaller ones, half of the total; of each `every`-th row and column (K, H, W).

    Weights are at least zero.
    """
    if hasattr(type(weights), "__cuda_array_interface__"):
        found: float = _on_gpu()(weights, every)
        return found
    sample = np.sort(weights[:, ::every, ::every].ravel())
    heaped = np.cumsum(sample, dtype=np.float64)
    return float(sample[np.minimum(np.searchsorted(heaped, 0.5 * heaped[-1]), len(sample) - 1)])


@cache
def _on_gpu() -> Any:
    return import_module("cfusion.kernels.cuda.weighted_middle").weighted_middle
