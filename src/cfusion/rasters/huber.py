"""The smallest value of a slope plus Huber's data term, pixel by pixel: what a lower bound is summed from.

    min over x in [low, high] of   g x + sum_k w_k phi(x - d_k)
    phi(t) = t^2 / (2 delta) up to |t| = delta, |t| - delta / 2 beyond

The root of the derivative is the greatest over j, of the least over i >= j, of the roots of its straight pieces: the j
smallest observations lie a corner or more below x there, those beyond i a corner or more above (`kernels/cpu/tiles.py`
has the same with a prox). Whatever rounding makes of that root r, the function is convex: nowhere in the box is it
lower than what its tangent at r falls to.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
AT_ONCE = 1 << 14  # pixels, so that what is computed of them stays in the processor's cache


def huber_minimum(slope: Doubles, values: Doubles, weights: Doubles, delta: float, low: float, high: float) -> Doubles:
    """(n,) for slopes (n,), values (K, n) ascending with inf where missing, weights (K, n)."""
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
    out: Doubles = value - np.where(tangent > 0, tangent * (root - low), -tangent * (high - root))
    return out


def _root(slope: Doubles, values: Doubles, weights: Doubles, delta: float) -> Doubles:
    """Where slope + sum_k w_k clip((x - d_k) / delta, -1, 1) is zero, infinite where it nowhere is."""
    total = weights.sum(axis=0)
    greatest = np.full_like(slope, -np.inf)
    below = np.zeros_like(slope)  # weight of the j smallest
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
