"""A surface as seen by other cameras, per pixel; formulas in `cfusion.kernels.numpy.sight`."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats, Mask
from cfusion.kernels.cpu.cameras import bent, is_bent, row_of_slopes
from cfusion.kernels.cpu.sums import INSIDE, OPTIONS
from cfusion.kernels.numpy.sight import RELATIVE, SLOPES
from cfusion.kernels.threads import cuts, in_bands, in_parallel, threads

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
    """As `Backend.hidden`; each thread processes whole views."""
    surface, tolerance = np.ascontiguousarray(surface), np.ascontiguousarray(tolerance, np.float32)
    out = np.empty((len(onto), *surface.shape), np.bool_)
    sizes = np.array(shapes, np.int64).reshape(-1, 2)
    arguments = (surface, camera, onto, onto_from_camera, sizes, tolerance, out)

    def of_views(start: int, stop: int) -> None:
        depth, landing = np.empty(surface.shape, np.float32), np.empty(surface.shape, np.int64)
        nearest = np.empty(int(sizes[start:stop].prod(axis=1).max(initial=0)), np.float32)
        _hidden(start, stop, *arguments, depth, landing, nearest, *np.empty((4, surface.shape[1])))

    parts = cuts(len(onto), max(1, min(threads(), len(onto))))
    in_parallel([(of_views, start, stop) for start, stop in parts])
    return out


@njit(**OPTIONS)
def _parallax(
    start: int, stop: int, surface: Floats, camera: Floats, onto: Floats, motions: Floats, out: Floats
) -> None:
    width = surface.shape[1]
    across, down = np.empty(width), np.empty(width)
    on_ray = 1.0 if camera[0] == 0 else 0.0
    beside = 1.0 - on_ray
    for i in range(start, stop):
        row_of_slopes(camera, i, across, down)
        for k in range(len(onto)):
            m, fx, fy = motions[k], onto[k, 1], onto[k, 2]
            to_pinhole = onto[k, 0] == 0
            for j in range(width):  # without a branch, to vectorise
                tilt_x = m[0, 0] * across[j] + m[0, 1] * down[j]
                tilt_y = m[1, 0] * across[j] + m[1, 1] * down[j]
                tilt_z = m[2, 0] * across[j] + m[2, 1] * down[j]
                rate_x, rate_y, rate_z = on_ray * tilt_x + m[0, 2], on_ray * tilt_y + m[1, 2], on_ray * tilt_z + m[2, 2]
                z = beside * tilt_z + m[2, 3] + rate_z * surface[i, j]
                over = (1 / z if z > 0 else np.nan) if to_pinhole else 1.0
                x = (beside * tilt_x + m[0, 3] + rate_x * surface[i, j]) * over
                y = (beside * tilt_y + m[1, 3] + rate_y * surface[i, j]) * over
                towards = rate_z if to_pinhole else 0.0
                moved_x, moved_y = fx * (rate_x - x * towards) * over, fy * (rate_y - y * towards) * over
                out[k, i, j] = sqrt(moved_x * moved_x + moved_y * moved_y) + 0 * z


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
    depth: Floats,
    landing: Floats,
    nearest: Floats,
    across: Floats,
    down: Floats,
    u: Floats,
    v: Floats,
) -> None:
    """Process the views [start, stop); the arrays after `out` are room to work in."""
    height, width = surface.shape
    for k in range(start, stop):
        for at in range(sizes[k, 0] * sizes[k, 1]):
            nearest[at] = np.inf
        _land(
            surface, camera, onto[k], motions[k], sizes[k, 0], sizes[k, 1],
            depth, landing, nearest, across, down, u, v,
        )  # fmt: skip
        for i in range(height):
            for j in range(width):
                out[k, i, j] = False
                here = depth[i, j]
                if landing[i, j] != NOWHERE:
                    before = nearest[landing[i, j]]
                    if here > before + max(np.float32(RELATIVE) * here, tolerance[i, j]):
                        least = np.float32(SLOPES) * _even_slope(depth, i, j)
                        out[k, i, j] = here > before + least


@njit(**INSIDE)
def _land(
    surface: Floats,
    camera: Floats,
    onto: Floats,
    m: Floats,
    rows: int,
    columns: int,
    depth: Floats,
    landing: Floats,
    nearest: Floats,
    across: Floats,
    down: Floats,
    u: Floats,
    v: Floats,
) -> None:
    """Write each point's depth in the other camera and the pixel it lands on; and the nearest depth of each pixel."""
    lens, to_pinhole = is_bent(onto), onto[0] == 0
    height, width = surface.shape
    for i in range(height):
        row_of_slopes(camera, i, across, down)
        for j in range(width):
            reach = np.float64(surface[i, j]) if camera[0] == 0 else 1.0
            x, y = across[j] * reach, down[j] * reach
            z = m[2, 0] * x + m[2, 1] * y + m[2, 2] * surface[i, j] + m[2, 3]
            over = 1 / z if to_pinhole else 1.0
            u[j] = (m[0, 0] * x + m[0, 1] * y + m[0, 2] * surface[i, j] + m[0, 3]) * over
            v[j] = (m[1, 0] * x + m[1, 1] * y + m[1, 2] * surface[i, j] + m[1, 3]) * over
            depth[i, j] = z if z > 0 else np.nan
        if lens:
            for j in range(width):
                u[j], v[j] = bent(onto, u[j], v[j])
        for j in range(width):
            landing[i, j] = NOWHERE
            column, row = onto[1] * u[j] + onto[3] + 0.5, onto[2] * v[j] + onto[4] + 0.5
            if depth[i, j] > 0 and column >= 0 and column < columns and row >= 0 and row < rows:
                at = np.int64(row) * columns + np.int64(column)
                landing[i, j] = at
                nearest[at] = min(nearest[at], depth[i, j])


@njit(**INSIDE)
def _even_slope(depth: Floats, i: int, j: int) -> float:
    """The same as the definition, at one pixel."""
    height, width = depth.shape
    here = depth[i, j]
    up = abs(here - depth[i - 1, j]) if i > 0 else np.float32(np.inf)
    down = abs(here - depth[i + 1, j]) if i + 1 < height else np.float32(np.inf)
    left = abs(here - depth[i, j - 1]) if j > 0 else np.float32(np.inf)
    right = abs(here - depth[i, j + 1]) if j + 1 < width else np.float32(np.inf)
    return max(_least(up, down), _least(left, right))


@njit(**INSIDE)
def _least(one: float, other: float) -> float:
    """The smaller of the known values; zero if neither is known."""
    least = one if one < other or other != other else other
    return least if least < np.inf else 0.0
