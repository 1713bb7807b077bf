"""Smoothing less across the edges that a surface has: the weight of the regulariser's first order, per pixel."""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.surface import steps
from cfusion.kernels.contract import Floats

BESIDE = (2, 5)  # pixels: steps as far as this from a pixel, and as many, tell the slope on either side
SHARPNESS = 1.0  # noise scales: an edge that high counts half
LEAST = 0.02


def edge_weights(surface: DepthMap, noise: Floats) -> Floats:
    """(H, W) g = 1 / (1 + (e / noise)^2), where e is by how much a step exceeds the slope of the surface beside it.

    The slope beside it is the smaller one of both sides, so that neither a slope nor a ridge is an edge; noise (H, W)
    is that of an observation.
    """
    change = np.abs(np.nan_to_num(steps(surface)))
    excess = [np.maximum(change[axis] - _slope_beside(change[axis], axis), 0) for axis in (0, 1)]
    out = 1 / (1 + (np.square(excess[0]) + np.square(excess[1])) / np.square(SHARPNESS * noise))
    weights: Floats = np.maximum(out, LEAST).astype(np.float32)
    return weights


def _slope_beside(change: Floats, axis: int) -> Floats:
    """The mean change of a few steps before each, or after it: the smaller one."""
    away, many = BESIDE
    size = change.shape[axis]
    around = np.arange(1 - away - many, size + away + many - 1)
    padded = np.take(change, np.clip(around, 0, max(size - 2, 0)), axis=axis)  # there is no step after the last
    padded = padded if axis == 0 else padded.T
    heaped = sum(
        (padded[k : k + size + 2 * away + many - 1] for k in range(1, many)), padded[: size + 2 * away + many - 1]
    )
    least: Floats = np.minimum(heaped[:size], heaped[-size:]) / np.float32(many)
    return least if axis == 0 else least.T
