"""Preparation of a solve, compiled; formulas in `cfusion.kernels.numpy.preparing` and `ordering`."""

from __future__ import annotations

import numpy as np
from numba import njit

from cfusion.kernels.contract import Coverage, Floats, Observations, window_of
from cfusion.kernels.cpu.selecting import medians
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.host import nothing
from cfusion.kernels.numpy.preparing import RADIUS, RANGE, shape_of
from cfusion.kernels.threads import in_bands, with_lines

NONE = nothing(3, np.float32)
NONE.setflags(write=False)  # like the weights of a stack: else the kernel is compiled twice


def count_observations(depths: Floats, weights: Floats | None) -> Coverage:
    """As `Backend.count_observations`."""
    shape = depths.shape[1:]
    count, sums = np.empty(shape, np.int32), np.empty((shape[0], 2))
    in_bands(shape, (_count, depths, NONE if weights is None else weights, count, sums))
    observed = count > 0
    mass, least = float(sums[:, 0].sum()), float(sums[:, 1].min(initial=np.inf))
    (middle,), _ = medians(depths[len(depths) // 2][None])
    return Coverage(count, observed, window_of(observed), float(observed.sum()), mass, least, int(count.max()), middle)


@njit(**OPTIONS)
def _count(start: int, stop: int, depths: Floats, weights: Floats, count: Floats, sums: Floats) -> None:
    views, _, width = depths.shape
    weighted = weights.size > 0
    for i in range(start, stop):
        mass, least = 0.0, np.inf
        for j in range(width):
            count[i, j] = 0
        for k in range(views):
            for j in range(width):
                d = depths[k, i, j]
                if weights[k, i, j] > 0 if weighted else d == d:
                    count[i, j] += 1
                    mass += weights[k, i, j] if weighted else 1.0
                    if d < least:
                        least = d
        sums[i, 0], sums[i, 1] = mass, least


def weighted_median(seen: Observations) -> Floats:
    """As `Backend.weighted_median`."""
    if seen.scatter is not None:
        return seen.values[0]
    out = np.empty_like(seen.total)
    weights = nothing(3, seen.total.dtype) if seen.weights is None else seen.weights
    in_bands(out.shape, (_weighted_median, seen.values, weights, seen.total, out))
    return out


@njit(**OPTIONS)
def _weighted_median(start: int, stop: int, values: Floats, weights: Floats, total: Floats, out: Floats) -> None:
    views, _, width = values.shape
    weighted = weights.size > 0
    for i in range(start, stop):
        for j in range(width):
            half = np.float64(total[i, j]) / 2
            heaped = 0.0
            first = last = out.dtype.type(0)
            for k in range(views):
                value = values[k, i, j]
                if not value < np.inf:
                    break
                before = heaped
                heaped += weights[k, i, j] if weighted else 1.0
                if before < half and heaped >= half:
                    first = value
                if before <= half and heaped > half:
                    last = value
                    break
            out[i, j] = first + (last - first) / 2


def local_noise_weights(depths: Floats, weights: Floats | None, depth: Floats) -> Floats:
    """As `Backend.local_noise_weights`: sums around each pixel first, then the weights."""
    views, height, width = depths.shape
    given = NONE if weights is None else weights
    out, amounts = np.empty(depths.shape, np.float32), np.empty(depths.shape, np.uint8)
    sums = np.empty((views, height, 5))  # per line: number, sizes, scales, squared scales, 1 / amounts
    pool = with_lines(_pool, 2, width + 2 * RADIUS)
    in_bands((views * height, width), (pool, depths, given, depth, out, amounts, sums))
    totals = sums.sum(axis=1)
    overall = float(totals[:, 1].sum()) / max(float(totals[:, 0].sum()), 1.0)
    shapes = np.array([_shape(*each) for each in totals])
    in_bands((views * height, width), (_trust, depths, given, depth, amounts, overall, shapes, *RANGE, out))
    return out


def _shape(count: float, _: float, scale: float, square: float, over: float) -> float:
    """a of the inverse Gamma, from a map's sums."""
    if count == 0:
        return 1.0
    mean = scale / count
    return shape_of(mean, square / count - mean * mean, over / count)


@njit(**OPTIONS)
def _pool(
    start: int,
    stop: int,
    depths: Floats,
    weights: Floats,
    depth: Floats,
    pooled: Floats,
    amounts: Floats,
    sums: Floats,
    sizes: Floats,
    seen: Floats,
) -> None:
    """Window sums of sizes and numbers around each pixel, on the lines [start, stop) of all maps.

    `sizes` and `seen` are for sums of columns, padded with zeros.
    """
    _, height, width = depths.shape
    weighted = weights.size > 0
    for at in range(start, stop):
        k, i = at // height, at % height
        for j in range(width + 2 * RADIUS):
            sizes[j] = seen[j] = 0.0
        for t in range(max(i - RADIUS, 0), min(i + RADIUS + 1, height)):
            for j in range(width):
                size = abs(depths[k, t, j] - depth[t, j])
                known = size < np.inf and (not weighted or weights[k, t, j] > 0)
                sizes[RADIUS + j] += size if known else 0.0
                seen[RADIUS + j] += 1.0 if known else 0.0
        count = errors = scales = squares = over = 0.0
        for j in range(width):
            total = amount = 0.0
            for t in range(2 * RADIUS + 1):
                total += sizes[t + j]
                amount += seen[t + j]
            pooled[k, i, j] = total
            amounts[k, i, j] = amount
            size = abs(depths[k, i, j] - depth[i, j])
            if size < np.inf and (not weighted or weights[k, i, j] > 0):
                scale = total / amount
                count += 1
                errors += size
                scales += scale
                squares += scale * scale
                over += 1 / amount
        sums[k, i, 0], sums[k, i, 1], sums[k, i, 2], sums[k, i, 3], sums[k, i, 4] = count, errors, scales, squares, over


@njit(**OPTIONS)
def _trust(
    start: int,
    stop: int,
    depths: Floats,
    weights: Floats,
    depth: Floats,
    amounts: Floats,
    overall: float,
    shapes: Floats,
    low: float,
    high: float,
    out: Floats,
) -> None:
    """lam = b0 (n + a) / (m + a b0), times the given weight; `out` initially holds the sums m."""
    _, height, width = depths.shape
    weighted = weights.size > 0
    for at in range(start, stop):
        k, i = at // height, at % height
        shape = shapes[k]
        for j in range(width):
            d = depths[k, i, j]
            given = weights[k, i, j] if weighted else np.float32(1)
            lam = 1.0
            if overall > 0 and abs(d - depth[i, j]) < np.inf and given > 0:
                lam = overall * (amounts[k, i, j] + shape) / (out[k, i, j] + shape * overall)
                lam = min(max(lam, low), high)
            out[k, i, j] = lam * given if d == d else 0.0
