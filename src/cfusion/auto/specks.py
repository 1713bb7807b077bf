"""Specks: pixels with few observed neighbours that the reference itself did not measure."""

from __future__ import annotations

import numpy as np

from cfusion.auto.pooling import window_sums
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass

RADIUS = 3  # pixels: radius of the square of side 7 around a pixel
FEW = 0.25  # of the usual number of observed neighbours, for pixels without the reference: sparse maps are no specks
MOST = 5.0  # pixels, including itself
ROUNDING = 1e-3  # of a number of pixels, which is a mean times the size of the square


def specks(weights: Floats, reference: int, backend: Backend) -> Mask:
    """Specks (H, W) of views with weights (K, H, W): noise splatted beyond the surfaces they see."""
    observed = _observed(weights)
    around = window_sums(observed, RADIUS, backend)
    (usual,), (known,) = backend.medians(_of_others(around[0], weights, reference))
    limit = min(FEW * usual, MOST) if known else 0.0
    return _few(around[0], weights, reference, np.float32(limit - ROUNDING))


@one_pass
def _observed(weights: Floats) -> Floats:
    """1 where any view has an observation, (1, H, W)."""
    out: Floats = np.stack([(weights.sum(axis=0) > 0).astype(np.float32)])
    return out


@one_pass
def _of_others(around: Floats, weights: Floats, reference: int) -> Floats:
    """The number (1, H, W) of observed pixels around; NaN unless others measured it and the reference did not."""
    theirs = (weights.sum(axis=0) > 0) & ~(weights[reference] > 0)
    out: Floats = np.stack([np.where(theirs, around, np.nan)])
    return out


@one_pass
def _few(around: Floats, weights: Floats, reference: int, limit: np.float32) -> Mask:
    """Pixels (H, W) with fewer than `limit` observed around, and no measurement of the reference."""
    out: Mask = (around < limit) & ~(weights[reference] > 0)
    return out
