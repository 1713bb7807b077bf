"""Bringing points onto a raster, compiled: what kernels/numpy/association.py defines, with the same bits.

One map is one thread's work, without the interpreter's lock: several maps may run at the same time, and no
result depends on how many do.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cfusion.kernels.numpy.association import MARGIN

Ints = NDArray[np.int32]
# Contiguous and writable: another layout would be compiled once more.
COMPILED_FOR: tuple[Literal["C"], Literal["W"]] = ("C", "W")


def splat_nearest(
    u: NDArray[np.float64],
    v: NDArray[np.float64],
    z: NDArray[np.float64],
    values: NDArray[np.float32] | None,
    shape: tuple[int, int],
) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Forward z-buffer: points (N,) go to pixel floor(u + 1/2), floor(v + 1/2); the smallest z wins."""
    u, v, z = (np.require(each, np.float64, COMPILED_FOR) for each in (u, v, z))
    winner = _winners(u, v, z, *shape)
    if values is None:
        return _gather(z, winner), None
    return _gather(z, winner), _gather(np.require(values, np.float32, COMPILED_FOR), winner)


def close_mask(mask: NDArray[np.bool_], radius: int) -> NDArray[np.bool_]:
    """Morphological closing of (H, W) with the disc dx^2 + dy^2 <= radius^2, its centre in the image."""
    closed: NDArray[np.bool_] = ~_dilate(~_dilate(np.require(mask, np.bool_, COMPILED_FOR), radius), radius)
    return closed


def fill_natural(depth: NDArray[np.float32], region: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Natural-neighbour (discrete Sibson) interpolation at the unknown (NaN) pixels of the region."""
    known = ~np.isnan(depth)
    wanted = region & ~known
    if not known.any() or not wanted.any():
        return depth.copy()
    height, width = depth.shape
    filled = _fill(np.pad(depth, MARGIN, constant_values=np.nan), np.pad(known, MARGIN), np.pad(wanted, MARGIN))
    inner: NDArray[np.float32] = filled[MARGIN : MARGIN + height, MARGIN : MARGIN + width].copy()
    return inner


@njit(cache=True, nogil=True)
def _winners(
    u: NDArray[np.float64], v: NDArray[np.float64], z: NDArray[np.float64], height: int, width: int
) -> NDArray[np.int64]:
    """(H, W): the index of the point that each pixel shows, -1 for none."""
    winner = np.full((height, width), -1, np.int64)
    for point in range(len(z)):
        column, row = np.floor(u[point] + 0.5), np.floor(v[point] + 0.5)
        if not (0 <= column < width and 0 <= row < height and np.isfinite(z[point])):
            continue
        shown = winner[int(row), int(column)]
        if shown < 0 or z[point] < z[shown]:
            winner[int(row), int(column)] = point
    return winner


@njit(cache=True, nogil=True)
def _gather(of_points: NDArray[np.float64], winner: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each pixel's winner carries, NaN where there is none."""
    height, width = winner.shape
    out = np.full((height, width), np.float32(np.nan), np.float32)
    for y in range(height):
        for x in range(width):
            if winner[y, x] >= 0:
                out[y, x] = of_points[winner[y, x]]
    return out


@njit(cache=True, nogil=True)
def _dilate(mask: NDArray[np.bool_], radius: int) -> NDArray[np.bool_]:
    """True within the disc of a True pixel: per row of the disc, a run of known half width."""
    height, width = mask.shape
    across = np.empty((height, width), np.int32)  # columns to the nearest True one of the row
    for y in range(height):
        nearest = radius + 1
        for x in range(width):
            nearest = 0 if mask[y, x] else nearest + 1
            across[y, x] = nearest
        for x in range(width - 1, -1, -1):
            nearest = 0 if mask[y, x] else nearest + 1
            across[y, x] = min(across[y, x], nearest)
    grown = np.zeros((height, width), np.bool_)
    for dy in range(-radius, radius + 1):
        half_width = _integer_root(radius * radius - dy * dy)
        for y in range(max(0, -dy), min(height, height - dy)):
            for x in range(width):
                grown[y, x] |= across[y + dy, x] <= half_width
    return grown


@njit(cache=True, nogil=True)
def _fill(depth: NDArray[np.float32], known: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The same on a raster with its margin."""
    height, width = depth.shape
    rise, fall = _rise_and_fall(known)
    reach = _squared_distance(rise, fall)
    rise_to_wanted, fall_to_wanted = _rise_and_fall(wanted)
    to_wanted = _squared_distance(rise_to_wanted, fall_to_wanted)
    total = np.zeros((height, width + 1))  # first as steps: each row of a disc is a run with two ends
    shares = np.zeros((height, width + 1), np.int32)
    for y in range(height):
        for x in range(width):
            if known[y, x] or to_wanted[y, x] > reach[y, x]:
                continue
            lent = _mean_of_nearest(depth, rise, fall, y, x, reach[y, x])
            for tied in range(2):  # a share for |p - q| <= r(q), and one for < that leaves out what is tied
                at_most = reach[y, x] - tied
                radius = _integer_root(at_most)
                for row in range(max(0, y - radius), min(height, y + radius + 1)):
                    half_width = _integer_root(at_most - (row - y) ** 2)
                    first, after = max(0, x - half_width), min(width, x + half_width + 1)
                    total[row, first] += lent
                    total[row, after] -= lent
                    shares[row, first] += 1
                    shares[row, after] -= 1
    filled = depth.copy()
    for y in range(height):
        value, share = 0.0, 0
        for x in range(width):
            value += total[y, x]
            share += shares[y, x]
            if wanted[y, x]:
                filled[y, x] = value / share
    return filled


@njit(cache=True, nogil=True)
def _mean_of_nearest(depth: NDArray[np.float32], rise: Ints, fall: Ints, y: int, x: int, reach: int) -> float:
    """Mean value of the known pixels at squared distance exactly `reach` from the cell (y, x)."""
    total, count = 0.0, 0
    radius = _integer_root(reach)
    for column in range(max(0, x - radius), min(depth.shape[1], x + radius + 1)):
        up, down = rise[y, column], fall[y, column]
        if up * up + (column - x) ** 2 == reach:
            total += depth[y - up, column]
            count += 1
        if down != 0 and down * down + (column - x) ** 2 == reach:
            total += depth[y + down, column]
            count += 1
    return total / count


@njit(cache=True, nogil=True)
def _rise_and_fall(mask: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Rows up and down from each pixel to the nearest True one of its column; >= H + W if there is none."""
    height, width = mask.shape
    rise = np.empty((height, width), np.int32)
    fall = np.empty((height, width), np.int32)
    for y in range(height):
        for x in range(width):
            above = rise[y - 1, x] if y > 0 else height + width
            rise[y, x] = 0 if mask[y, x] else above + 1
    for y in range(height - 1, -1, -1):
        for x in range(width):
            below = fall[y + 1, x] if y < height - 1 else height + width
            fall[y, x] = 0 if mask[y, x] else below + 1
    return rise, fall


@njit(cache=True, nogil=True)
def _squared_distance(rise: Ints, fall: Ints) -> Ints:
    """Squared distance to the nearest True pixel: per row, a lower envelope of parabolas (Meijster, 2000)."""
    height, width = rise.shape
    squared = np.empty((height, width), np.int32)
    height_of = np.empty(width, np.int64)  # of each column's parabola
    apex = np.empty(width, np.int64)  # columns whose parabola is lowest somewhere, left to right
    start = np.empty(width, np.int64)  # and where that begins
    for y in range(height):
        last = -1
        for x in range(width):
            height_of[x] = min(rise[y, x], fall[y, x]) ** 2
            while last >= 0:
                at, left = start[last], apex[last]
                if (at - left) ** 2 + height_of[left] <= (at - x) ** 2 + height_of[x]:
                    break
                last -= 1
            if last < 0:
                last, apex[0], start[0] = 0, x, 0
                continue
            left = apex[last]
            crossing = 1 + (x * x - left * left + height_of[x] - height_of[left]) // (2 * (x - left))
            if crossing < width:
                last += 1
                apex[last], start[last] = x, crossing
        for x in range(width - 1, -1, -1):
            squared[y, x] = (x - apex[last]) ** 2 + height_of[apex[last]]
            if x == start[last]:
                last -= 1
    return squared


@njit(cache=True, nogil=True)
def _integer_root(square: int) -> int:
    """floor(sqrt(square)), exact below 2^52."""
    return int(math.sqrt(square))
