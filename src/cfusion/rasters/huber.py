"""The smallest value of a slope plus Huber's data term, pixel by pixel: what a lower bound is summed from.

    min over x in [low, high] of   g x + sum_k w_k phi(x - d_k)
    phi(t) = t^2 / (2 delta) up to |t| = delta, |t| - delta / 2 beyond

Its derivative rises, and is straight between the 2 K corners d_k -+ delta: the corners around the root are found, and
the root between them. What rounding leaves of the derivative there is charged with the width of the box.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def huber_minimum(slope: Doubles, values: Doubles, weights: Doubles, delta: float, low: float, high: float) -> Doubles:
    """(n,) for slopes (n,), values (K, n) ascending with inf where missing, weights (K, n)."""
    known = np.isfinite(values) & (weights > 0)
    weights = np.where(known, weights, 0.0)
    values = np.where(known, values, high)

    def derivative(x: Doubles) -> Doubles:
        out = slope.copy()
        for value, weight in zip(values, weights, strict=True):
            out += weight * np.clip((x - value) / delta, -1, 1)
        return out

    left, right = np.full_like(slope, low), np.full_like(slope, high)
    at_left, at_right = derivative(left), derivative(right)
    for side in (-delta, delta):
        for value in values:
            corner = np.clip(value + side, left, right)
            here = derivative(corner)
            below = here < 0
            left, at_left = np.where(below, corner, left), np.where(below, here, at_left)
            right, at_right = np.where(below, right, corner), np.where(below, at_right, here)
    rise = at_right - at_left
    share = np.where((at_left < 0) & (at_right > 0), -at_left / np.where(rise > 0, rise, 1.0), 0.0)
    root = np.where(at_left >= 0, left, np.where(at_right <= 0, right, left + share * (right - left)))
    value = slope * root
    for observed, weight in zip(values, weights, strict=True):
        size = np.abs(root - observed)
        value += weight * np.where(size < delta, size * size / (2 * delta), size - delta / 2)
    inside = (root > low) & (root < high)
    out: Doubles = value - np.where(inside, np.abs(derivative(root)) * (high - low), 0.0)
    return out
