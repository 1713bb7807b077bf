"""How other cameras see a surface, pixel by pixel; formulas in `cfusion.kernels.numpy.sight`."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, sqrt

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats, Mask
from cfusion.kernels.cpu.cameras import bent, is_bent, slopes
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.cpu.threads import cuts, in_bands, in_parallel, threads
from cfusion.kernels.numpy.sight import RELATIVE, SLOPES

NOWHERE = -1


def parallax(surface: Floats, camera: Floats, onto: Floats, onto_from_camera: Floats) -> Floats:
    """As `Backend.parallax`."""
    out = np.empty((len(onto), *surface.shape), np.float32)
    in_bands(surface.shape, (_parallax, np.ascontiguousarray(surface), camera, onto, onto_from_camera, out))
    return out


def hidden(
    surface: Floats,
    camera: Floats,
    onto: Floats,
    onto_from_camera: Floats,
    shapes: Sequence[tuple[int, int]],
    tolerance: Floats,
) -> Mask:
    """As `Backend.hidden`: whole views in each thread."""
    surface, tolerance = np.ascontiguousarray(surface), np.ascontiguousarray(tolerance, np.float32)
    out = np.empty((len(onto), *surface.shape), np.bool_)
    sizes = np.array(shapes, np.int64).reshape(-1, 2)
    arguments = (surface, camera, onto, onto_from_camera, sizes, tolerance, out)
    parts = cuts(len(onto), max(1, min(threads(), len(onto))))
    in_parallel([(_hidden, start, stop, *arguments) for start, stop in parts])
    return out


@njit(**OPTIONS)
def _moved(camera: Floats, m: Floats, j: int, i: int, here: float) -> tuple[float, float, float, float, float, float]:
    """A pixel's point in the other camera, and how it moves there with its depth."""
    across, down = slopes(camera, j, i)
    a, b, c = (m[0, 0] * across + m[0, 1] * down, m[1, 0] * across + m[1, 1] * down, m[2, 0] * across + m[2, 1] * down)
    if camera[0] == 0:
        a, b, c = a + m[0, 2], b + m[1, 2], c + m[2, 2]
        return m[0, 3] + a * here, m[1, 3] + b * here, m[2, 3] + c * here, a, b, c
    x, y, z = a + m[0, 3] + m[0, 2] * here, b + m[1, 3] + m[1, 2] * here, c + m[2, 3] + m[2, 2] * here
    return x, y, z, m[0, 2], m[1, 2], m[2, 2]


@njit(**OPTIONS)
def _parallax(
    start: int, stop: int, surface: Floats, camera: Floats, onto: Floats, motions: Floats, out: Floats
) -> None:
    for k in range(len(onto)):
        for i in range(start, stop):
            for j in range(surface.shape[1]):
                x, y, z, across, down, along = _moved(camera, motions[k], j, i, np.float64(surface[i, j]))
                if onto[k, 0] == 0:
                    inverse = 1 / z if z > 0 else np.nan
                    across = (across - x * inverse * along) * inverse
                    down = (down - y * inverse * along) * inverse
                across, down = onto[k, 1] * across, onto[k, 2] * down
                out[k, i, j] = sqrt(across * across + down * down) + 0 * z


@njit(**OPTIONS)
def _hidden(
    start: int,
    stop: int,
    surface: Floats,
    camera: Floats,
    onto: Floats,
    motions: Floats,
    sizes: Floats,
    tolerance: Floats,
    out: Mask,
) -> None:
    """Of the views [start, stop)."""
    height, width = surface.shape
    depth = np.empty((height, width), np.float32)
    landing = np.empty((height, width), np.int64)
    for k in range(start, stop):
        nearest = np.full(sizes[k, 0] * sizes[k, 1], np.inf, np.float32)
        _land(surface, camera, onto[k], motions[k], sizes[k, 0], sizes[k, 1], depth, landing, nearest)
        for i in range(height):
            for j in range(width):
                out[k, i, j] = False
                here = depth[i, j]
                if landing[i, j] != NOWHERE:
                    before = nearest[landing[i, j]]
                    if here > before + max(np.float32(RELATIVE) * here, tolerance[i, j]):
                        least = np.float32(SLOPES) * _even_slope(depth, i, j)
                        out[k, i, j] = here > before + least


@njit(**OPTIONS)
def _land(
    surface: Floats,
    camera: Floats,
    onto: Floats,
    motion: Floats,
    rows: int,
    columns: int,
    depth: Floats,
    landing: Floats,
    nearest: Floats,
) -> None:
    """Every point's depth in the other camera and the pixel that it lands on; the nearest depth of each pixel."""
    lens = is_bent(onto)
    for i in range(surface.shape[0]):
        for j in range(surface.shape[1]):
            x, y, z, _, _, _ = _moved(camera, motion, j, i, np.float64(surface[i, j]))
            depth[i, j] = z if z > 0 else np.nan
            landing[i, j] = NOWHERE
            if not z > 0:
                continue
            if onto[0] == 0:
                x, y = x / z, y / z
            if lens:
                x, y = bent(onto, x, y)
            column, row = onto[1] * x + onto[3] + 0.5, onto[2] * y + onto[4] + 0.5
            if column >= 0 and column < columns and row >= 0 and row < rows:
                at = floor(row) * columns + floor(column)
                landing[i, j] = at
                nearest[at] = min(nearest[at], depth[i, j])


@njit(**OPTIONS)
def _even_slope(depth: Floats, i: int, j: int) -> float:
    """As the definition's, at one pixel."""
    height, width = depth.shape
    here = depth[i, j]
    up = abs(here - depth[i - 1, j]) if i > 0 else np.float32(np.inf)
    down = abs(here - depth[i + 1, j]) if i + 1 < height else np.float32(np.inf)
    left = abs(here - depth[i, j - 1]) if j > 0 else np.float32(np.inf)
    right = abs(here - depth[i, j + 1]) if j + 1 < width else np.float32(np.inf)
    return max(_least(up, down), _least(left, right))


@njit(**OPTIONS)
def _least(one: float, other: float) -> float:
    """The smaller one of what is known; zero if neither is."""
    one = one if one == one else np.float32(np.inf)
    other = other if other == other else np.float32(np.inf)
    least = min(one, other)
    return least if least < np.inf else np.float32(0)
