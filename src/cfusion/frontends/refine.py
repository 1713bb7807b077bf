"""Disparity maps smoothed by a median, then a bilateral filter; unknown pixels stay unknown."""

import numpy as np
from numpy.typing import NDArray

from cfusion.frontends.opencv import opencv

Floats = NDArray[np.float32]


RADIUS, WIDTH, STEP = 2, 1.5, 0.5  # of the bilateral filter: pixels, pixels, pixels of disparity


def refined(disparity: Floats, filled: Floats) -> Floats:
    """The map after both filters."""
    return bilateral_filtered(median_filtered(disparity, filled), RADIUS, WIDTH, STEP)


def median_filtered(disparity: Floats, filled: Floats) -> Floats:
    """Medians of 5 x 5 pixels; holes are replaced by the values of `filled`."""
    found: Floats = opencv().medianBlur(np.ascontiguousarray(filled, np.float32), 5)
    return np.where(np.isnan(disparity), np.float32(np.nan), found)


def bilateral_filtered(disparity: Floats, radius: int, width: float, step: float) -> Floats:
    """Means over neighbours, weighted by distance (Gaussian of `width` pixels), within `step` pixels of disparity."""
    total, weights = np.zeros(disparity.shape, np.float32), np.zeros(disparity.shape, np.float32)
    padded = np.pad(disparity, radius, constant_values=np.nan)
    height, columns = disparity.shape
    for dv in range(-radius, radius + 1):
        for du in range(-radius, radius + 1):
            there = padded[radius + dv : radius + dv + height, radius + du : radius + du + columns]
            with np.errstate(invalid="ignore"):
                same = np.abs(there - disparity) < step
            weight = np.float32(np.exp(-(dv**2 + du**2) / (2 * width**2)))
            total += np.where(same, weight * there, 0)
            weights += np.where(same, weight, 0)
    return np.where(weights > 0, total / np.maximum(weights, 1e-9), np.nan).astype(np.float32)
