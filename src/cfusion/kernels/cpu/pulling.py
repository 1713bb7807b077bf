"""Re-association per pixel; formulas and conventions in `cfusion.kernels.numpy.pulling`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats
from cfusion.kernels.cpu.cameras import bent, is_bent, row_of_slopes
from cfusion.kernels.cpu.sums import INSIDE, OPTIONS
from cfusion.kernels.numpy.pulling import DISTANT, EVEN, SAFE, STEEPEST, STENCIL
from cfusion.kernels.threads import in_bands

REACH = max(STENCIL)
SIDE = 2 * REACH + 1
BAND = 32  # rows that all views are read at, one after the other
TOUCHING = 6  # numbers of a plane that touches the surface


def read_view(
    x: Floats,
    reference_camera: Floats,
    view_camera: Any,
    view_from_reference: Any,
    depth: Any,
    confidence: Any,
    agreement: Any,
) -> tuple[Floats, Floats, Floats]:
    """As `Backend.read_view`; for several views the planes that touch the surface are computed once."""
    if isinstance(depth, np.ndarray):
        one = ([each] for each in (view_camera, view_from_reference, depth, confidence, agreement))
        observed, weight, seen = read_view(x, reference_camera, *one)
        return observed[0], weight[0], seen[0]
    height, width = x.shape
    kinds = (np.float32, np.float32, np.bool_)
    observed, weight, seen = (np.empty((len(depth), height, width), kind) for kind in kinds)
    views = list(
        zip(view_camera, view_from_reference, depth, confidence, agreement, observed, weight, seen, strict=True)
    )

    def read(start: int, stop: int) -> None:
        touching = np.empty((TOUCHING, min(BAND, stop - start), width))
        planes = np.full((SIDE, width + SIDE - 1), np.nan)  # rows around the current one, in turn, with a margin
        rows = np.empty((4, width))
        for first in range(start, stop, BAND):
            end = min(first + BAND, stop)
            _touch(first, end, x, reference_camera, planes, *rows, touching)
            for view in views:
                _pull(first, end, x, touching, reference_camera[0] == 0, *view)

    in_bands(x.shape, (read,))
    return observed, weight, seen


@njit(**OPTIONS)
def _touch(
    start: int,
    stop: int,
    x: Floats,
    camera: Floats,
    planes: Floats,
    across_row: Floats,
    down_row: Floats,
    slopes_x: Floats,
    slopes_y: Floats,
    touching: Floats,
) -> None:
    """The ray of each pixel and the plane that touches the surface there: slopes, n along the ray's axis, n . r."""
    width = x.shape[1]
    for i in range(start - REACH, start + REACH):
        _plane(x, i, camera, planes)
    for i in range(start, stop):
        _plane(x, i + REACH, camera, planes)
        _slopes(planes, i, slopes_x, slopes_y)
        row_of_slopes(camera, i, across_row, down_row)
        for j in range(width):
            here = np.float64(x[i, j])
            across, down = across_row[j], down_row[j]
            slope_x, slope_y = camera[1] * slopes_x[j], camera[2] * slopes_y[j]
            facing, ahead = 1.0, 1.0
            if camera[0] == 0:
                facing = 1 / here if here > 0 else 0.0
                steep = here * np.sqrt(slope_x * slope_x + slope_y * slope_y)
                if steep > STEEPEST[0]:
                    share = max((STEEPEST[1] - steep) / (STEEPEST[1] - STEEPEST[0]), 0.0)
                    slope_x *= max(share, _goes_on(x, i, j, i, j + DISTANT, slopes_x[j]))
                    slope_y *= max(share, _goes_on(x, i, j, i + DISTANT, j, slopes_y[j]))
                ahead = facing - slope_x * across - slope_y * down
            touching[0, i - start, j] = across
            touching[1, i - start, j] = down
            touching[2, i - start, j] = slope_x
            touching[3, i - start, j] = slope_y
            touching[4, i - start, j] = ahead
            touching[5, i - start, j] = facing


@njit(**OPTIONS)
def _pull(
    start: int,
    stop: int,
    x: Floats,
    touching: Floats,
    pinhole: bool,
    view_camera: Floats,
    transform: Floats,
    depth: Floats,
    confidence: Floats,
    agreement: float,
    observed: Floats,
    weight: Floats,
    seen: Floats,
) -> None:
    width = x.shape[1]
    rows, columns = depth.shape
    lens = is_bent(view_camera)
    for i in range(start, stop):
        r = i - start
        for j in range(width):
            observed[i, j] = np.nan
            weight[i, j] = 0
            seen[i, j] = False
            here = np.float64(x[i, j])
            if here != here:
                continue
            across, down = touching[0, r, j], touching[1, r, j]
            px = across * here if pinhole else across
            py = down * here if pinhole else down
            qx = transform[0, 0] * px + transform[0, 1] * py + transform[0, 2] * here + transform[0, 3]
            qy = transform[1, 0] * px + transform[1, 1] * py + transform[1, 2] * here + transform[1, 3]
            qz = transform[2, 0] * px + transform[2, 1] * py + transform[2, 2] * here + transform[2, 3]
            rate = transform[2, 2]
            if pinhole:
                rate += transform[2, 0] * across + transform[2, 1] * down
            if rate <= 0:
                continue
            scale = 1.0
            if view_camera[0] == 0:
                if qz <= 0:
                    continue
                scale = 1.0 / qz
            u = view_camera[1] * qx * scale + view_camera[3]
            v = view_camera[2] * qy * scale + view_camera[4]
            if lens:
                bent_x, bent_y = bent(view_camera, qx * scale, qy * scale)
                u, v = view_camera[1] * bent_x + view_camera[3], view_camera[2] * bent_y + view_camera[4]
            column = np.floor(u + 0.5)
            row = np.floor(v + 0.5)
            if not (column >= 0 and column < columns and row >= 0 and row < rows):
                continue
            seen[i, j] = True
            near_row = np.int64(row)
            near_column = np.int64(column)
            measured = np.float64(depth[near_row, near_column])
            beside, below = (column - u) / view_camera[1], (row - v) / view_camera[2]
            left = np.floor(u)
            top = np.floor(v)
            # an agreement of 0: the nearest
            if agreement > 0 and left >= 0 and top >= 0 and left + 1 < columns and top + 1 < rows:
                a = np.int64(top)
                b = np.int64(left)
                c0 = np.float64(depth[a, b])
                c1 = np.float64(depth[a, b + 1])
                c2 = np.float64(depth[a + 1, b])
                c3 = np.float64(depth[a + 1, b + 1])
                spread = max(max(c0, c1), max(c2, c3)) - min(min(c0, c1), min(c2, c3))
                # comparisons with NaN are false, sums with it are NaN: all four have to be known
                if c0 + c1 + c2 + c3 == c0 + c1 + c2 + c3 and spread <= agreement:
                    top_row = c0 + (u - left) * (c1 - c0)
                    low_row = c2 + (u - left) * (c3 - c2)
                    measured = top_row + (v - top) * (low_row - top_row)
                    beside, below = 0.0, 0.0
            if measured != measured:
                continue
            # the plane that touches the surface, in the view
            slope_x, slope_y, ahead, facing = touching[2, r, j], touching[3, r, j], touching[4, r, j], touching[5, r, j]
            normal_x = transform[0, 0] * slope_x + transform[0, 1] * slope_y + transform[0, 2] * ahead
            normal_y = transform[1, 0] * slope_x + transform[1, 1] * slope_y + transform[1, 2] * ahead
            there = transform[2, 0] * slope_x + transform[2, 1] * slope_y + transform[2, 2] * ahead
            further = normal_x * beside + normal_y * below
            touches = facing > 0
            if view_camera[0] == 0:
                there += normal_x * (qx * scale + beside) + normal_y * (qy * scale + below)
                touches = touches and there < SAFE * (there - further) and there - further < SAFE * there
                further *= qz
            steeper = 1.0
            if touches and there > 0:
                qz -= further / there
                steeper = min(max(there * rate / facing, 1 / SAFE), SAFE)
            observed[i, j] = here + (measured - qz) * (steeper / rate)
            weight[i, j] = confidence[near_row, near_column] if confidence.size > 0 else 1.0


@njit(**INSIDE)
def _goes_on(x: Floats, row: int, column: int, row_after: int, column_after: int, slope: float) -> float:
    """How even 1 / x goes on with this slope, to a distant pixel and its opposite; comparisons with unknown are false.

    Places, not directions: Numba would compile it for each literal direction.
    """
    best, here = 0.0, 1 / np.float64(x[row, column])
    for side in range(-1, 2, 2):
        i, j = row + side * (row_after - row), column + side * (column_after - column)
        if slope != 0 and 0 <= i < x.shape[0] and 0 <= j < x.shape[1] and x[i, j] > 0:
            ratio = (1 / np.float64(x[i, j]) - here) / (side * DISTANT * slope)
            alike = min(ratio, 1 / ratio) if ratio > 0 else 0.0
            best = max(best, (alike - EVEN[0]) / (EVEN[1] - EVEN[0]))
    return min(best, 1.0)


@njit(**INSIDE)
def _plane(x: Floats, row: int, camera: Floats, planes: Floats) -> None:
    """A row of 1 / x, or of -x, unknown outside."""
    here = row % SIDE
    for j in range(x.shape[1]):
        z = np.float64(x[row, j]) if 0 <= row < x.shape[0] else np.nan
        planes[here, REACH + j] = -z if camera[0] != 0 else 1 / z if z > 0 else np.nan


@njit(**INSIDE)
def _slopes(planes: Floats, row: int, across: Floats, down: Floats) -> None:
    """The slopes of a row."""
    a, b, c, d, e = (row - 2) % SIDE, (row - 1) % SIDE, row % SIDE, (row + 1) % SIDE, (row + 2) % SIDE
    for j in range(len(across)):
        k = j + 2
        across[j] = _slope(planes[c, j], planes[c, j + 1], planes[c, k], planes[c, j + 3], planes[c, j + 4])
        down[j] = _slope(planes[a, k], planes[b, k], planes[c, k], planes[d, k], planes[e, k])


@njit(**INSIDE)
def _slope(second_before: float, before: float, here: float, after: float, second_after: float) -> float:
    """The change per pixel; comparisons with unknown neighbours are false."""
    least, most = np.inf, -np.inf
    for step in ((here - second_before) / 2, here - before, after - here, (second_after - here) / 2):
        least = step if step < least else least
        most = step if step > most else most
    if not ((least > 0 and most > 0) or (least < 0 and most < 0)):
        return 0.0
    flattest, steepest = (least, most) if least > 0 else (most, least)
    share = (flattest / steepest - EVEN[0]) / (EVEN[1] - EVEN[0])
    return min(max(share, 0.0), 1.0) * flattest
