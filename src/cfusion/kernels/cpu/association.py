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

from cfusion.kernels.contract import Floats, Mask
from cfusion.kernels.cpu.sums import INSIDE, OPTIONS
from cfusion.kernels.numpy import association as definition
from cfusion.kernels.numpy.association import Indices
from cfusion.kernels.threads import in_bands

Ints = NDArray[np.int32]
ROOTS = np.sqrt(np.arange(1 << 10)).astype(np.int64)
# Contiguous and writable: another layout would be compiled separately.
COMPILED_FOR: tuple[Literal["C"], Literal["W"]] = ("C", "W")


def splat_nearest(
    u: Floats, v: Floats, z: Floats, values: Floats | None, shape: tuple[int, int]
) -> tuple[Floats, Floats | None]:
    """Forward z-buffer: points (N,) go to pixel floor(u + 1/2), floor(v + 1/2); the smallest z wins."""
    u, v, z = (np.require(each, np.float64, COMPILED_FOR) for each in (u, v, z))
    winner = np.full(shape, -1, np.int64)
    _winners(u, v, z, winner)
    depth = np.full(shape, np.nan, np.float32)
    _gather(z, winner, depth)
    if values is None:
        return depth, None
    carried = np.full(shape, np.nan, np.float32)
    _gather(np.require(values, np.float64, COMPILED_FOR), winner, carried)  # exactly, and of the compiled type
    return depth, carried


def close_mask(mask: Mask, radius: int) -> Mask:
    """Morphological closing of (H, W) with the disc dx^2 + dy^2 <= radius^2, its centre in the image."""
    closed: Mask = ~_dilate(~_dilate(np.require(mask, np.bool_, COMPILED_FOR), radius), radius)
    return closed


def _fill_padded(depth: Floats, known: Mask, wanted: Mask) -> None:
    """The same as the definition."""
    rows, columns = depth.shape
    rise, fall, to_wanted = (np.empty(depth.shape, np.int32) for _ in range(3))
    _rise_and_fall(wanted, to_wanted, fall)
    np.minimum(to_wanted, fall, out=to_wanted)
    _rise_and_fall(known, rise, fall)
    steps = np.zeros((rows, columns + 1, 2))
    _lend(depth, known, wanted, rise, fall, to_wanted, np.empty((4, columns), np.int64), steps)
    _fill(wanted, steps, depth)


fill_natural = definition.with_margin(_fill_padded)


def local_depth_range(depth: Floats, radius: int) -> Floats:
    """As `Backend.local_depth_range`: the definition on bands of rows with a halo."""
    out = np.empty(depth.shape, depth.dtype)

    def of_band(start: int, stop: int) -> None:
        first = max(start - radius, 0)
        ranges = definition.local_depth_range(depth[first : stop + radius], radius)
        out[start:stop] = ranges[start - first : stop - first]

    in_bands(out.shape, (of_band,))
    return out


@njit(**OPTIONS)
def _winners(u: Floats, v: Floats, z: Floats, winner: Indices) -> None:
    """Write the index of the point that each pixel shows; initially -1, for none."""
    height, width = winner.shape
    for point in range(len(z)):
        column, row = np.floor(u[point] + 0.5), np.floor(v[point] + 0.5)
        if not (0 <= column < width and 0 <= row < height and np.isfinite(z[point])):
            continue
        shown = winner[int(row), int(column)]
        if shown < 0 or z[point] < z[shown]:
            winner[int(row), int(column)] = point


@njit(**OPTIONS)
def _gather(of_points: Floats, winner: Indices, out: Floats) -> None:
    """Write the value of each pixel's winner; without one the initial NaN stays."""
    height, width = winner.shape
    for y in range(height):
        for x in range(width):
            if winner[y, x] >= 0:
                out[y, x] = of_points[winner[y, x]]


@njit(**OPTIONS)
def _dilate(mask: Mask, radius: int) -> Mask:
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


@njit(**OPTIONS)
def _lend(
    depth: Floats, known: Mask, wanted: Mask, rise: Ints, fall: Ints, to_wanted: Ints, envelope: Indices, steps: Floats
) -> None:
    """Add what every unknown cell lends to its disc, and its share, as differences: each row of a disc is a run.

    A cell lends if the nearest of all known and wanted pixels is a wanted one.
    """
    height, width = depth.shape
    square, key, apex, start = envelope[0], envelope[1], envelope[2], envelope[3]
    for y in range(height):
        beyond = False  # whether a cell is neither known nor wanted
        for x in range(width):
            square[x] = np.int64(min(rise[y, x], fall[y, x])) ** 2
            key[x] = min(2 * square[x], 2 * np.int64(to_wanted[y, x]) ** 2 - 1)
            beyond |= key[x] > 0
        last = _envelope(key, apex, start) if beyond else 0
        at = 0
        for x in range(width):
            if known[y, x]:
                continue
            if not wanted[y, x]:
                while at < last and start[at + 1] <= x:
                    at += 1
                if not key[apex[at]] & 1:
                    continue
            reach, step = square[x], 1
            while step * step < reach:
                reach = min(reach, square[max(x - step, 0)] + step * step)
                reach = min(reach, square[min(x + step, width - 1)] + step * step)
                step += 1
            if reach == 1:  # the most frequent case: a neighbour is known
                _lend_beside(depth, known, y, x, steps)
            else:
                _spread(y, x, reach, _mean_of_nearest(depth, rise, fall, square, y, x, reach), steps)


@njit(**INSIDE)
def _lend_beside(depth: Floats, known: Mask, y: int, x: int, steps: Floats) -> None:
    """As `_spread` of `_mean_of_nearest` at distance one, without branches: noise is unpredictable."""
    left, up, down, right = known[y, x - 1], known[y - 1, x], known[y + 1, x], known[y, x + 1]
    total = np.float64(depth[y, x - 1]) if left else 0.0
    total += np.float64(depth[y - 1, x]) if up else 0.0
    total += np.float64(depth[y + 1, x]) if down else 0.0
    total += np.float64(depth[y, x + 1]) if right else 0.0
    lent = total / (np.int64(left) + up + down + right)
    _step(steps, y - 1, x, x + 1, lent)
    _step(steps, y, x - 1, x + 2, lent)
    _step(steps, y, x, x + 1, lent)
    _step(steps, y + 1, x, x + 1, lent)


@njit(**INSIDE)
def _envelope(key: Indices, apex: Indices, start: Indices) -> int:
    """The lower envelope of the parabolas key + 2 dx^2 along a row (Meijster, 2000); returns its last index.

    A key is twice a squared distance in the column, minus one if to a wanted pixel. `apex`: the columns of parabolas
    that are lowest somewhere; `start`: where that begins. A pixel between two that are known or wanted, itself known or
    wanted, is the nearest of no other cell, and is skipped.
    """
    width, last = len(key), -1
    for x in range(width):
        if 0 < x < width - 1 and key[x - 1] <= 0 and key[x] <= 0 and key[x + 1] <= 0:
            continue
        while last >= 0:
            at, left = start[last], apex[last]
            if 2 * (at - left) ** 2 + key[left] <= 2 * (at - x) ** 2 + key[x]:
                break
            last -= 1
        if last < 0:
            last, apex[0], start[0] = 0, x, 0
            continue
        left = apex[last]
        crossing = 1 + (2 * (x * x - left * left) + key[x] - key[left]) // (4 * (x - left))
        if crossing < width:
            last += 1
            apex[last], start[last] = x, crossing
    return last


@njit(**INSIDE)
def _mean_of_nearest(depth: Floats, rise: Ints, fall: Ints, square: Indices, y: int, x: int, reach: int) -> float:
    """Mean value of the known pixels at squared distance exactly `reach` from the cell (y, x)."""
    total, count = 0.0, 0
    radius = _integer_root(reach)
    for column in range(max(0, x - radius), min(depth.shape[1], x + radius + 1)):
        left = reach - (column - x) ** 2
        if square[column] != left:
            continue
        up, down = np.int64(rise[y, column]), np.int64(fall[y, column])
        if up * up == left:
            total += depth[y - up, column]
            count += 1
        if down != 0 and down * down == left:
            total += depth[y + down, column]
            count += 1
    return total / count


@njit(**INSIDE)
def _spread(y: int, x: int, reach: int, lent: float, steps: Floats) -> None:
    """Add a share for |p - q| <= r(q), and one for < that excludes ties."""
    height, width = steps.shape[0], steps.shape[1] - 1
    radius = _integer_root(reach)
    for row in range(max(0, y - radius), min(height, y + radius + 1)):
        left = reach - (row - y) ** 2
        _step(steps, row, max(0, x - _integer_root(left)), min(width, x + _integer_root(left) + 1), lent)
        if left > 0:
            _step(steps, row, max(0, x - _integer_root(left - 1)), min(width, x + _integer_root(left - 1) + 1), lent)


@njit(**INSIDE)
def _step(steps: Floats, row: int, first: int, after: int, lent: float) -> None:
    steps[row, first, 0] += lent
    steps[row, first, 1] += 1.0
    steps[row, after, 0] -= lent
    steps[row, after, 1] -= 1.0


@njit(**OPTIONS)
def _fill(wanted: Mask, steps: Floats, filled: Floats) -> None:
    """Write the mean of the lent values where wanted, by summing the differences."""
    height, width = wanted.shape
    for y in range(height):
        value, share = 0.0, 0.0
        for x in range(width):
            value += steps[y, x, 0]
            share += steps[y, x, 1]
            if wanted[y, x]:
                filled[y, x] = value / share


@njit(**OPTIONS)
def _rise_and_fall(mask: Mask, rise: Ints, fall: Ints) -> None:
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


@njit(**INSIDE)
def _integer_root(square: int) -> int:
    """floor(sqrt(square)), exact below 2^52; small ones from a table."""
    return ROOTS[square] if square < len(ROOTS) else int(math.sqrt(square))
