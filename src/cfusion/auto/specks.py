"""Specks: pixels with hardly anything observed around them, which the reference itself did not measure."""

from __future__ import annotations

import numpy as np

from cfusion.auto.pooling import window_sums
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass

RADIUS = 3  # pixels: the square of side 7 around a pixel
FEW = 0.25  # of what is usually observed around a pixel that the reference did not measure: sparse maps are no specks
MOST = 5.0  # pixels, this one among them


def specks(weights: Floats, reference: int, backend: Backend) -> Mask:
    """(H, W) where views of these weights (K, H, W) left a speck: noise that was thrown beyond what they look at."""
    observed = _observed(weights)
    around = window_sums(observed, RADIUS, backend)
    (usual,), (known,) = backend.medians(_of_others(around[0], weights, reference))
    limit = min(FEW * usual, MOST) if known else 0.0
    return _few(around[0], weights, reference, np.float32(limit))


@one_pass
def _observed(weights: Floats) -> Floats:
    """(1, H, W) 1 where a view observed something."""
    out: Floats = np.stack([(weights.sum(axis=0) > 0).astype(np.float32)])
    return out


@one_pass
def _of_others(around: Floats, weights: Floats, reference: int) -> Floats:
    """(1, H, W) how many pixels around were observed, NaN but where other views measured and the reference did not."""
    theirs = (weights.sum(axis=0) > 0) & ~(weights[reference] > 0)
    out: Floats = np.stack([np.where(theirs, around, np.nan)])
    return out


@one_pass
def _few(around: Floats, weights: Floats, reference: int, limit: np.float32) -> Mask:
    """(H, W) fewer than so many around, and nothing of the reference."""
    out: Mask = (around < limit) & ~(weights[reference] > 0)
    return out
