"""A confidence that follows the local noise: the Laplace scale of a neighbourhood, shrunk towards the whole image's.

Empirical Bayes: with noise scales of mean b0 spread as an inverse Gamma of shape a, the pixels around i with misfit m_i and
weight n_i give lam_i = b0 (n_i + a) / (m_i + a b0). The spread beyond what sampling explains says how large a is: even noise
gives a large a and a confidence of one everywhere.
"""

from __future__ import annotations

import numpy as np

from cfusion.solvers.task import Floats, Mask

RADIUS = 4  # pixels around the centre that share a noise scale
RANGE = (0.05, 20.0)


def local_confidence(misfit: Floats, total: Floats, inside: Mask) -> Floats:
    """(H, W) lam about 1; zero outside the domain."""
    keep = inside & (total > 0)
    overall = float(np.sum(misfit[keep], dtype=np.float64)) / max(float(np.sum(total[keep], dtype=np.float64)), 1e-300)
    if overall <= 0:
        return inside.astype(misfit.dtype)
    pooled = window_sum(np.where(keep, misfit, 0))
    amount = window_sum(np.where(keep, total, 0))
    shape = _shape(pooled[keep] / np.maximum(amount[keep], 1e-12), amount[keep])
    lam = overall * (amount + shape) / (pooled + shape * overall)
    return np.where(inside, np.clip(lam, *RANGE), 0).astype(misfit.dtype)


def _shape(scales: Floats, amounts: Floats) -> float:
    """a of the inverse Gamma, from the scales' variance beyond that of a mean of `amounts` exponentials."""
    mean = float(np.mean(scales))
    sampled = float(np.mean(1 / np.maximum(amounts, 1.0)))
    excess = (float(np.var(scales)) / mean**2 - sampled) / (1 + sampled)
    return 2 + 1 / max(excess, 1e-4)


def window_sum(values: Floats) -> Floats:
    """Sum over the square of side 2 RADIUS + 1 around each pixel, cut at the border."""
    out = values.astype(np.float64)
    for axis in (0, 1):
        size = out.shape[axis]
        heaped = np.concatenate([np.zeros_like(np.take(out, [0], axis)), np.cumsum(out, axis)], axis)
        low = np.clip(np.arange(size) - RADIUS, 0, size)
        high = np.clip(np.arange(size) + RADIUS + 1, 0, size)
        out = np.take(heaped, high, axis) - np.take(heaped, low, axis)
    return np.maximum(out, 0)
