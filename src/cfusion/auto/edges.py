"""Less smoothing across edges of the surface: weights of the regulariser's first order, per pixel."""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.kernels.contract import Floats
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import heaped, neighbour

BESIDE = (2, 5)  # pixels: distance, and number, of the steps from which the slope on either side is estimated
SHARPNESS = 1.0  # noise scales of a step whose weight is one half
LEAST = 0.02


@one_pass
def edge_weights(surface: DepthMap, noise: Floats) -> Floats:
    """Weights g = 1 / (1 + (e / noise)^2), (H, W), with e the excess of a step over the slope of the surface beside it.

    The slope is the smaller one of both sides, so that neither a slope nor a ridge counts as an edge; noise (H, W) is
    that of an observation.
    """
    excess = [_excess(surface, axis) for axis in (0, 1)]
    out = 1 / (1 + (np.square(excess[0]) + np.square(excess[1])) / np.square(SHARPNESS * noise))
    weights: Floats = np.maximum(out, LEAST).astype(np.float32)
    return weights


def _excess(surface: DepthMap, axis: int) -> Floats:
    """Excess (H, W) of a step along an axis over the mean of a few steps before or after it, whichever is smaller."""
    away, many = BESIDE
    change = np.abs(np.nan_to_num(neighbour(surface, 1 - axis, axis, np.nan) - surface))
    before, after = (
        heaped(change, axis, first, many, 1) for first in (1 - away - many, away)
    )  # no step after the last pixel
    out: Floats = np.maximum(change - np.minimum(before, after) / np.float32(many), 0)
    return out
