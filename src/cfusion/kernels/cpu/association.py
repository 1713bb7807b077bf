"""Projecting points onto a raster, compiled: the functions of kernels/numpy/association.py, with the same bits.

One map is processed by one thread without the interpreter's lock: several maps may run at the same time, and no result
depends on their number. Where it is no slower, kernels receive their output arrays: a kernel that allocates takes twice
as long to compile.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cfusion.kernels.numpy.association import MARGIN

Ints = NDArray[np.int32]
ROOTS = np.sqrt(np.arange(1 << 10)).astype(np.int64)
# Contiguous and writable: another layout would be compiled separately.
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
    winner = np.full(shape, -1, np.int64)
    _winners(u, v, z, winner)
    depth = np.full(shape, np.nan, np.float32)
    _gather(z, winner, depth)
    if values is None:
        return depth, None
    carried = np.full(shape, np.nan, np.float32)
    _gather(np.require(values, np.float32, COMPILED_FOR), winner, carried)
    return depth, carried


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
    filled = np.pad(depth, MARGIN, constant_values=np.nan)
    known, wanted = np.pad(known, MARGIN), np.pad(wanted, MARGIN)
    rise, fall, reach = _nearest(known)
    _, _, to_wanted = _nearest(wanted)
    rows, columns = filled.shape
    total, shares = np.zeros((rows, columns + 1)), np.zeros((rows, columns + 1), np.int32)
    _lend(filled, known, rise, fall, reach, to_wanted, total, shares)
    _fill(wanted, total, shares, filled)
    return filled[MARGIN : MARGIN + height, MARGIN : MARGIN + width].copy()


def _nearest(mask: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """Rows up and down to the nearest True pixel of the column, and the squared distance to the nearest of all."""
    rise, fall, squared = (np.empty(mask.shape, np.int32) for _ in range(3))
    _rise_and_fall(mask, rise, fall)
    _squared_distance(rise, fall, np.empty((3, mask.shape[1]), np.int64), squared)
    return rise, fall, squared


@njit(cache=True, nogil=True)
def _winners(u: NDArray[np.float64], v: NDArray[np.float64], z: NDArray[np.float64], winner: NDArray[np.int64]) -> None:
    """Write the index of the point that each pixel shows; initially -1, for none."""
    height, width = winner.shape
    for point in range(len(z)):
        column, row = np.floor(u[point] + 0.5), np.floor(v[point] + 0.5)
        if not (0 <= column < width and 0 <= row < height and np.isfinite(z[point])):
            continue
        shown = winner[int(row), int(column)]
        if shown < 0 or z[point] < z[shown]:
            winner[int(row), int(column)] = point


@njit(cache=True, nogil=True)
def _gather(of_points: NDArray[np.floating], winner: NDArray[np.int64], out: NDArray[np.float32]) -> None:
    """Write the value of each pixel's winner; without one the initial NaN stays."""
    height, width = winner.shape
    for y in range(height):
        for x in range(width):
            if winner[y, x] >= 0:
                out[y, x] = of_points[winner[y, x]]


@njit(cache=True, nogil=True)
def _dilate(mask: NDArray[np.bool_], radius: int) -> NDArray[np.bool_]:
    """True within the disc of a True pixel: per row of the disc, a run of known half width.

    It allocates its own arrays: LLVM then knows that they do not overlap, and the kernel is a quarter faster.
    """
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
def _lend(
    depth: NDArray[np.float32],
    known: NDArray[np.bool_],
    rise: Ints,
    fall: Ints,
    reach: Ints,
    to_wanted: Ints,
    total: NDArray[np.float64],
    shares: Ints,
) -> None:
    """Add what every unknown cell lends to its disc, as differences: each row of a disc is a run with two ends."""
    height, width = depth.shape
    for y in range(height):
        for x in range(width):
            if known[y, x] or to_wanted[y, x] > reach[y, x]:
                continue
            lent = _mean_of_nearest(depth, rise, fall, y, x, reach[y, x])
            for tied in range(2):  # a share for |p - q| <= r(q), and one for < that excludes ties
                at_most = reach[y, x] - tied
                radius = _integer_root(at_most)
                for row in range(max(0, y - radius), min(height, y + radius + 1)):
                    half_width = _integer_root(at_most - (row - y) ** 2)
                    first, after = max(0, x - half_width), min(width, x + half_width + 1)
                    total[row, first] += lent
                    total[row, after] -= lent
                    shares[row, first] += 1
                    shares[row, after] -= 1


@njit(cache=True, nogil=True)
def _fill(wanted: NDArray[np.bool_], total: NDArray[np.float64], shares: Ints, filled: NDArray[np.float32]) -> None:
    """Write the mean of the lent values where wanted, by summing the differences."""
    height, width = wanted.shape
    for y in range(height):
        value, share = 0.0, 0
        for x in range(width):
            value += total[y, x]
            share += shares[y, x]
            if wanted[y, x]:
                filled[y, x] = value / share


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
def _rise_and_fall(mask: NDArray[np.bool_], rise: Ints, fall: Ints) -> None:
    """Rows up and down from each pixel to the nearest True one of its column; >= H + W if there is none."""
    height, width = mask.shape
    for y in range(height):
        for x in range(width):
            above = rise[y - 1, x] if y > 0 else height + width
            rise[y, x] = 0 if mask[y, x] else above + 1
    for y in range(height - 1, -1, -1):
        for x in range(width):
            below = fall[y + 1, x] if y < height - 1 else height + width
            fall[y, x] = 0 if mask[y, x] else below + 1


@njit(cache=True, nogil=True)
def _squared_distance(rise: Ints, fall: Ints, envelope: NDArray[np.int64], squared: Ints) -> None:
    """Squared distance to the nearest True pixel: per row, a lower envelope of parabolas (Meijster, 2000).

    Rows of `envelope`: the height of each column's parabola; columns whose parabola is lowest somewhere, left to right;
    and where that begins.
    """
    height, width = rise.shape
    height_of, apex, start = envelope[0], envelope[1], envelope[2]
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


@njit(cache=True, nogil=True)
def _integer_root(square: int) -> int:
    """floor(sqrt(square)), exact below 2^52; small ones from a table."""
    return ROOTS[square] if square < len(ROOTS) else int(math.sqrt(square))
