"""The minimum of a linear term plus Huber's data term, per pixel: the summands of the lower bound.

    min over x in [low, high] of   g x + sum_k w_k phi(x - d_k)
    phi(t) = t^2 / (2 delta) up to |t| = delta, |t| - delta / 2 beyond

The root of the derivative is max over j of min over i >= j of the roots of its linear pieces, in which the j smallest
observations lie at least delta below x and those after i at least delta above (`kernels/cpu/tiles.py` does the same for
the prox). The root r is rounded, but the function is convex: in the box it is nowhere below its tangent at r, whose
minimum is returned.
"""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
AT_ONCE = 1 << 14  # pixels per chunk, so that intermediate arrays stay in the processor's cache


def huber_minimum(slope: Doubles, values: Doubles, weights: Doubles, delta: float, low: float, high: float) -> Doubles:
    """Minima (n,) for slopes (n,), values (K, n) in ascending order with inf where missing, weights (K, n)."""
    parts = [slice(first, first + AT_ONCE) for first in range(0, slope.size, AT_ONCE)]
    out = np.empty_like(slope)
    for part in parts:
        out[part] = _minimum(slope[part], values[:, part], weights[:, part], delta, low, high)
    return out


def _minimum(slope: Doubles, values: Doubles, weights: Doubles, delta: float, low: float, high: float) -> Doubles:
    known = np.isfinite(values) & (weights > 0)
    weights = np.where(known, weights, 0.0)
    values = np.where(known, values, high)
    root = np.clip(_root(slope, values, weights, delta), low, high)
    value, tangent = slope * root, slope.copy()
    for observed, weight in zip(values, weights, strict=True):
        apart = root - observed
        size = np.abs(apart)
        value += weight * np.where(size < delta, size * size / (2 * delta), size - delta / 2)
        tangent += weight * np.clip(apart / delta, -1, 1)
    return value - np.where(tangent > 0, tangent * (root - low), -tangent * (high - root))


def _root(slope: Doubles, values: Doubles, weights: Doubles, delta: float) -> Doubles:
    """The root of slope + sum_k w_k clip((x - d_k) / delta, -1, 1); infinite if there is none."""
    total = weights.sum(axis=0)
    greatest = np.full_like(slope, -np.inf)
    below = np.zeros_like(slope)  # weight of the j smallest observations
    for j in range(len(values)):
        least = np.where(slope + 2 * below - total <= 0, np.inf, -np.inf)
        weight, moment = np.zeros_like(slope), np.zeros_like(slope)
        for i in range(j, len(values)):
            weight += weights[i]
            moment += weights[i] * values[i]
            lifted = moment - delta * (slope + 2 * below - total + weight)
            with np.errstate(divide="ignore", invalid="ignore"):
                least = np.minimum(least, np.where(weight > 0, lifted / weight, np.inf))
        greatest = np.maximum(greatest, least)
        below += weights[j]
    return np.where(slope + total <= 0, np.inf, greatest)
