"""Smoothing less across the edges that a surface has: the weight of the regulariser's first order, per pixel."""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.kernels.contract import Floats
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import heaped, neighbour

BESIDE = (2, 5)  # pixels: steps as far as this from a pixel, and as many, tell the slope on either side
SHARPNESS = 1.0  # noise scales: an edge that high counts half
LEAST = 0.02


@one_pass
def edge_weights(surface: DepthMap, noise: Floats) -> Floats:
    """(H, W) g = 1 / (1 + (e / noise)^2), where e is by how much a step exceeds the slope of the surface beside it.

    The slope beside it is the smaller one of both sides, so that neither a slope nor a ridge is an edge; noise (H, W)
    is that of an observation.
    """
    excess = [_excess(surface, axis) for axis in (0, 1)]
    out = 1 / (1 + (np.square(excess[0]) + np.square(excess[1])) / np.square(SHARPNESS * noise))
    weights: Floats = np.maximum(out, LEAST).astype(np.float32)
    return weights


def _excess(surface: DepthMap, axis: int) -> Floats:
    """(H, W) by how much a step along an axis exceeds the mean of a few before it, or after it: the smaller one."""
    away, many = BESIDE
    change = np.abs(np.nan_to_num(neighbour(surface, 1 - axis, axis, np.nan) - surface))
    before, after = (
        heaped(change, axis, first, many, 1) for first in (1 - away - many, away)
    )  # no step after the last
    out: Floats = np.maximum(change - np.minimum(before, after) / np.float32(many), 0)
    return out
