"""Compiled loops of filling: planes through known disparities, and what they say at a hole."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "parallel": True, "error_model": "numpy"}
WAYS = 16


@njit(**OPTIONS)
def slopes(disparity: Floats, image: Floats, reach: int, step: float, contrast: float) -> Floats:
    """(2, H, W) slope of the disparity along rows and columns, by least squares around each known pixel; 0 if unsure.

    Only neighbours within `reach` that are at most `step` per pixel of distance away in disparity (one surface) count,
    those of another grey value less.
    """
    height, width = disparity.shape
    out = np.zeros((2, height, width), np.float32)
    for v in prange(height):
        for u in range(width):
            here = disparity[v, u]
            if np.isnan(here):
                continue
            xx, xy, yy, xd, yd = 0.0, 0.0, 0.0, 0.0, 0.0
            for dv in range(-reach, reach + 1):
                for du in range(-reach, reach + 1):
                    row, column = v + dv, u + du
                    if row < 0 or row >= height or column < 0 or column >= width:
                        continue
                    apart = disparity[row, column] - here
                    if not abs(apart) <= step * (1 + max(abs(dv), abs(du))):
                        continue
                    weight = np.exp(-abs(image[row, column] - image[v, u]) / contrast)
                    xx += weight * du * du
                    xy += weight * du * dv
                    yy += weight * dv * dv
                    xd += weight * du * apart
                    yd += weight * dv * apart
            xx += reach * reach  # towards fronto-parallel where there is little to go by
            yy += reach * reach
            det = xx * yy - xy * xy
            out[0, v, u] = (yy * xd - xy * yd) / det
            out[1, v, u] = (xx * yd - xy * xd) / det
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _weighted_quantile(values: Floats, weights: Floats, count: int, share: float) -> float:
    order = np.argsort(values[:count])
    total = 0.0
    for k in range(count):
        total += weights[k]
    passed = 0.0
    for k in range(count):
        passed += weights[order[k]]
        if passed >= share * total:
            return values[order[k]]
    return values[order[count - 1]]


@njit(**OPTIONS)
def fill(
    disparity: Floats,
    trust: Floats,
    image: Floats,
    slope: Floats,
    hidden: Mask,
    contrast: float,
    depth_of_view: float,
    per_way: int,
) -> Floats:
    """(H, W) without holes: the weighted median of what the planes of known pixels in sixteen directions say there.

    A known pixel counts by its trust, by the darkest or brightest step of the image on the way to it (`contrast`), and
    by its distance (`depth_of_view`, pixels). At `hidden` pixels, behind an edge, the farther quarter is taken.
    """
    height, width = disparity.shape
    out = disparity.copy()
    for v in prange(height):
        values = np.empty(WAYS * per_way, np.float32)
        weights = np.empty(WAYS * per_way, np.float32)
        for u in range(width):
            if not np.isnan(disparity[v, u]):
                continue
            count = 0
            for way in range(WAYS):
                angle = 2 * np.pi * way / WAYS
                dx, dy = np.cos(angle), np.sin(angle)
                found, apart = 0, np.float32(0.0)
                for length in range(1, width):
                    column, row = round(u + length * dx), round(v + length * dy)
                    if row < 0 or row >= height or column < 0 or column >= width or found >= per_way:
                        break
                    apart = max(apart, abs(image[row, column] - image[v, u]))
                    there = disparity[row, column]
                    if np.isnan(there):
                        continue
                    reach = min(1.0, depth_of_view / length)  # far away a plane is not carried on
                    said = there - reach * (slope[0, row, column] * (column - u) + slope[1, row, column] * (row - v))
                    if said < 0:
                        continue
                    values[count] = said
                    weights[count] = (
                        (0.02 + trust[row, column]) * (0.02 + np.exp(-apart / contrast)) / (1 + length / depth_of_view)
                    )
                    count += 1
                    found += 1
            if count > 0:
                out[v, u] = _weighted_quantile(values, weights, count, 0.25 if hidden[v, u] else 0.5)
    return out


@njit(**OPTIONS)
def hidden_pixels(disparity: Floats, other: Floats, count: int, tolerance: float) -> Mask:
    """(H, W) unknown pixels that no disparity of the other image's map points back to: that camera cannot see them."""
    height, width = disparity.shape
    out = np.zeros((height, width), np.bool_)
    for v in prange(height):
        for u in range(width):
            if not np.isnan(disparity[v, u]):
                continue
            met = False
            for d in range(min(count, u + 1)):
                if abs(other[v, u - d] - d) <= tolerance:
                    met = True
                    break
            out[v, u] = not met
    return out
