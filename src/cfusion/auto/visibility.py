"""Which views see a point of the surface: the surface itself as a z-buffer in each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.source import Sight

RELATIVE = 0.01  # of the depth: what is hidden by less may be the same surface
SLOPES = 2.0  # times the change from pixel to pixel, within which points of one surface share a pixel of the view


def hidden(sight: Sight, tolerance: Floats | float, backend: Backend) -> Mask:
    """(H, W) pixels whose point lies behind another of the surface in the view, by more than the tolerance.

    The z-buffer has the nearest point of each pixel of the view; where none landed, the farthest of its neighbours.
    A point is hidden if it is deeper than that by max(1 %, tolerance, twice the change to the next pixel).
    """
    height, width = sight.shape
    u, v, z = (each.astype(np.float64).ravel() for each in (sight.u, sight.v, sight.depth))
    nearest, _ = backend.splat_nearest(u, v, z, None, sight.shape)
    nearest = np.where(np.isnan(nearest), _farthest_around(nearest), nearest)
    with np.errstate(invalid="ignore"):
        column, row = np.floor(sight.u + 0.5), np.floor(sight.v + 0.5)
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (sight.depth > 0)
        at = np.where(inside, row * width + column, 0).astype(np.int64)
        before = nearest.ravel()[at]
        least = np.maximum(np.maximum(RELATIVE * sight.depth, tolerance), SLOPES * _even_slope(sight.depth))
        out: Mask = inside & (sight.depth > before + least)
    return out


def _farthest_around(depth: Floats) -> Floats:
    """The largest known depth of the eight neighbours; NaN where none is known."""
    known = np.where(np.isnan(depth), np.float32(-np.inf), depth)
    for axis in (0, 1):
        wider = known.copy()
        first, second = _halves(wider, axis)
        before, after = _halves(known, axis)
        np.maximum(first, after, out=first)
        np.maximum(second, before, out=second)
        known = wider
    out: Floats = np.where(np.isinf(known), np.float32(np.nan), known)
    return out


def _even_slope(depth: Floats) -> Floats:
    """How much a surface changes to the next pixel: the smaller change of both sides, so that edges do not count."""
    out = np.zeros_like(depth)
    for axis in (0, 1):
        step = np.abs(np.diff(depth, axis=axis))
        ahead, behind = (np.full_like(depth, np.inf) for _ in range(2))
        _halves(ahead, axis)[0][...] = np.where(np.isnan(step), np.float32(np.inf), step)
        _halves(behind, axis)[1][...] = np.where(np.isnan(step), np.float32(np.inf), step)
        least = np.minimum(ahead, behind)
        out = np.maximum(out, np.where(np.isinf(least), np.float32(0), least))
    return out


def _halves(array: Any, axis: int) -> tuple[Any, Any]:
    """All but the last along the axis, and all but the first."""
    return (array[:-1], array[1:]) if axis == 0 else (array[:, :-1], array[:, 1:])
