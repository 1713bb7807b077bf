"""Means over squares, row by row; the definition is `cfusion.kernels.numpy.pooling`."""

from __future__ import annotations

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.threads import in_bands


def pooled(maps: Floats, radius: int, passes: int, times: float = 1.0) -> Floats:
    """As `Backend.pooled`; each pixel sums its own square, so that no sum depends on where a band begins."""
    count, height, width = maps.shape
    out = np.array(maps, np.float64, order="C")
    for _ in range(passes):
        source, out = out, np.empty_like(out)
        in_bands((count * height, width), (_mean, source, radius, out))
    return out if times == 1 else out * times


@njit(**OPTIONS)
def _mean(start: int, stop: int, values: Floats, radius: int, out: Floats) -> None:
    """Process the lines [start, stop) of all maps, stacked vertically."""
    _, height, width = values.shape
    line = np.zeros(width + 2 * radius)  # a row of column sums, padded with zeros
    over = 1.0 / (2 * radius + 1) ** 2
    for at in range(start, stop):
        m, i = at // height, at % height
        for j in range(width):
            line[radius + j] = 0.0
        for t in range(max(i - radius, 0), min(i + radius + 1, height)):
            for j in range(width):
                line[radius + j] += values[m, t, j]
        for j in range(width):
            out[m, i, j] = 0.0
        for t in range(2 * radius + 1):
            for j in range(width):
                out[m, i, j] += line[t + j]
        for j in range(width):
            out[m, i, j] *= over
