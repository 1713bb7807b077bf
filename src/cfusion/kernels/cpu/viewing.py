"""Reprojection and viewing angles per pixel; formulas and conventions in `cfusion.kernels.numpy.viewing`."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats
from cfusion.kernels.cpu.cameras import bent, is_bent, row_of_slopes, slopes
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.threads import in_bands


def reproject(depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats) -> tuple[Floats, Floats, Floats]:
    """As `Backend.reproject`; one thread per map, as in `association`."""
    u, v, along = np.empty((3, *depth.shape))
    _reproject(depth, camera, onto, np.ascontiguousarray(onto_from_view), *np.empty((2, depth.shape[1])), u, v, along)
    return u.ravel(), v.ravel(), along.ravel()


@njit(**OPTIONS)
def _reproject(
    depth: Floats,
    camera: Floats,
    onto: Floats,
    m: Floats,
    across: Floats,
    down: Floats,
    u: Floats,
    v: Floats,
    along: Floats,
) -> None:
    height, width = depth.shape
    pinhole, to_pinhole, lens = camera[0] == 0, onto[0] == 0, is_bent(onto)
    for i in range(height):
        row_of_slopes(camera, i, across, down)
        for j in range(width):
            z = np.float64(depth[i, j])
            reach = z if pinhole else z * 0 + 1
            x, y = across[j] * reach, down[j] * reach
            along[i, j] = m[2, 0] * x + m[2, 1] * y + m[2, 2] * z + m[2, 3]
            before = (along[i, j] if along[i, j] > 0 else np.nan) if to_pinhole else 1.0
            u[i, j] = (m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3]) / before
            v[i, j] = (m[1, 0] * x + m[1, 1] * y + m[1, 2] * z + m[1, 3]) / before
        for j in range(width):
            x, y = bent(onto, u[i, j], v[i, j]) if lens else (u[i, j], v[i, j])
            u[i, j], v[i, j] = onto[1] * x + onto[3], onto[2] * y + onto[4]


def cosines(depths: Floats, camera: Floats) -> Floats:
    """As `Backend.cosines`."""
    out = np.empty(depths.shape, np.float32)
    views, height, width = depths.shape
    in_bands((views * height, width), (_cosines, depths, camera, out))
    return out


@njit(**OPTIONS)
def _cosines(start: int, stop: int, depths: Floats, camera: Floats, out: Floats) -> None:
    """Process the lines [start, stop) of all views, stacked vertically."""
    _, height, width = depths.shape
    pinhole, lens = camera[0] == 0, is_bent(camera)
    for line in range(start, stop):
        k, i = line // height, line % height
        for j in range(width):
            out[k, i, j] = np.nan
            here = np.float64(depths[k, i, j])
            beside, below = j + 1, i + 1
            if beside == width or depths[k, i, beside] != depths[k, i, beside]:
                beside = j - 1
            if below == height or depths[k, below, j] != depths[k, below, j]:
                below = i - 1
            if beside < 0 or below < 0:
                continue
            next_x, next_y = np.float64(depths[k, i, beside]), np.float64(depths[k, below, j])
            x, y = slopes(camera, j, i)
            x_beside, y_beside = slopes(camera, beside, i)
            x_below, y_below = slopes(camera, j, below)
            if lens:
                a0, a1 = x_beside * next_x - x * here, y_beside * next_x - y * here
                b0, b1 = x_below * next_y - x * here, y_below * next_y - y * here
            elif pinhole:
                a0, a1 = x_beside * next_x - x * here, y * (next_x - here)
                b0, b1 = x * (next_y - here), y_below * next_y - y * here
            else:
                a0, a1 = x_beside - x, 0.0
                b0, b1 = 0.0, y_below - y
                x, y = 0.0, 0.0
            a2, b2 = next_x - here, next_y - here
            n0, n1, n2 = a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0
            length = (n0 * n0 + n1 * n1 + n2 * n2) * (x * x + y * y + 1.0)
            if length > 0:  # false if one of the three is unknown
                out[k, i, j] = abs(n0 * x + n1 * y + n2) / sqrt(length)
