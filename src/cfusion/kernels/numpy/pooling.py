"""Means over the neighbourhood of each pixel."""

import numpy as np

from cfusion.kernels.contract import Floats


def pooled(maps: Floats, radius: int, passes: int, times: float = 1.0) -> Floats:
    """As `Backend.pooled`."""
    out: Floats = maps.astype(np.float64)
    for _ in range(passes):
        for axis in (1, 2):
            out = window_sum(out, radius, axis) / (2 * radius + 1)
    return out if times == 1 else out * times


def window_sum(values: Floats, radius: int, axis: int) -> Floats:
    """Sums over 2 radius + 1 pixels along one axis, in float64, clipped at the border."""
    size, values = values.shape[axis], values.astype(np.float64)
    heaped = np.concatenate([np.zeros_like(np.take(values, [0], axis)), np.cumsum(values, axis)], axis)
    places = np.arange(size)
    low, high = np.clip(places - radius, 0, size), np.clip(places + radius + 1, 0, size)
    out: Floats = np.take(heaped, high, axis) - np.take(heaped, low, axis)
    return out
