"""Compiled loops of ELAS (Geiger, Roser and Urtasun, 2010): support points, planes of triangles, MAP disparities.

Descriptors are (H, W, D) uint8, compared by the sum of absolute differences. `sign` is the direction of the other
image's pixel: left pixel u matches right pixel u - d (sign = -1), right pixel u matches left pixel u + d (sign = +1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "parallel": True, "error_model": "numpy"}
INLINE: dict[str, Any] = {"cache": True, "nogil": True, "inline": "always", "error_model": "numpy"}
NOTHING = -1
RADIUS = 2  # of the window of a descriptor
DIMENSIONS = 48
TABLE_STEPS = 8  # entries of the prior's table per pixel of disparity
MARGIN = 3  # pixels from the border within which descriptors are incomplete
CORNERS = 2  # a support point is compared by the four descriptors at (+-2, +-2): 9 x 9 pixels of Sobel responses


@njit(**OPTIONS)
def descriptors(along: Bytes, down: Bytes) -> tuple[Bytes, Ints]:
    """The two Sobel responses (128 = zero) of the 5 x 5 pixels without the middle one, (H, W, 48).

    Also the texture (H, W): the sum of |response - 128|.
    """
    height, width = along.shape
    out = np.full((height, width, DIMENSIONS), np.uint8(128))
    texture = np.zeros((height, width), np.int32)
    for v in prange(RADIUS, height - RADIUS):
        for u in range(RADIUS, width - RADIUS):
            k = 0
            for dv in range(-RADIUS, RADIUS + 1):
                for du in range(-RADIUS, RADIUS + 1):
                    if dv != 0 or du != 0:
                        out[v, u, k] = along[v + dv, u + du]
                        out[v, u, k + 1] = down[v + dv, u + du]
                        texture[v, u] += abs(np.int32(out[v, u, k]) - 128) + abs(np.int32(out[v, u, k + 1]) - 128)
                        k += 2
    return out, texture


@njit(**INLINE)
def _distance(ours: Bytes, theirs: Bytes, v: int, u: int, w: int) -> Any:
    total = np.int32(0)
    for k in range(DIMENSIONS):
        total += abs(np.int32(ours[v, u, k]) - np.int32(theirs[v, w, k]))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _support_disparity(
    ours: Bytes, theirs: Bytes, texture: Ints, v: int, u: int, sign: int, least: int, ratio: float, costs: Ints
) -> int:
    """The disparity of one support point; NOTHING without sufficient texture, space or uniqueness."""
    far = MARGIN + CORNERS
    room = u - far if sign < 0 else ours.shape[1] - far - 1 - u
    end = min(len(costs), room + 1)
    if texture[v, u] < least or end < 4:
        return NOTHING
    at = 0
    for d in range(end):
        w = u + sign * d
        costs[d] = 0
        for dv in (-CORNERS, CORNERS):
            for du in (-CORNERS, CORNERS):
                costs[d] += _distance(ours, theirs, v + dv, u + du, w + du)
        if costs[d] < costs[at]:
            at = d
    for d in range(end):
        if abs(d - at) > 1 and costs[at] >= ratio * costs[d]:
            return NOTHING
    return at


@njit(**OPTIONS)
def support_points(
    left: Bytes, right: Bytes, texture_left: Ints, texture_right: Ints, step: int, most: int, least: int, ratio: float
) -> Ints:
    """The grid (rows, columns): disparity of the support point at (v, u) = step (row, column), or NOTHING."""
    height, width = texture_left.shape
    rows, columns = height // step, width // step
    found = np.full((rows, columns), NOTHING, np.int32)
    far = MARGIN + CORNERS
    for row in prange(rows):
        v = row * step
        if v < far or v >= height - far:
            continue
        costs = np.empty(most, np.int32)
        for column in range(columns):
            u = column * step
            if u < far or u >= width - far:
                continue
            d = _support_disparity(left, right, texture_left, v, u, -1, least, ratio, costs)
            if d == NOTHING:
                continue
            back = _support_disparity(right, left, texture_right, v, u - d, 1, least, ratio, costs)
            if back != NOTHING and abs(back - d) <= 1:
                found[row, column] = d
    return found


@njit(cache=True, nogil=True)
def without_strays(found: Ints, reach: int, tolerance: int, needed: int) -> Ints:
    """Support points with at least `needed` similar ones within `reach` grid cells."""
    rows, columns = found.shape
    kept = found.copy()
    for row in range(rows):
        for column in range(columns):
            d = found[row, column]
            if d == NOTHING:
                continue
            friends = -1  # itself
            for r in range(max(0, row - reach), min(rows, row + reach + 1)):
                for c in range(max(0, column - reach), min(columns, column + reach + 1)):
                    friends += found[r, c] != NOTHING and abs(found[r, c] - d) <= tolerance
            if friends < needed:
                kept[row, column] = NOTHING
    return kept


@njit(cache=True, nogil=True)
def planes(triangles: Ints, points: Floats, height: int, width: int) -> Floats:
    """mu = a u + b v + c (H, W) of the triangle at each pixel, NaN outside all; points are (N, 3): u, v, d."""
    prior = np.full((height, width), np.nan, np.float32)
    for index in range(len(triangles)):
        p, q, r = points[triangles[index, 0]], points[triangles[index, 1]], points[triangles[index, 2]]
        area = (q[0] - p[0]) * (r[1] - p[1]) - (r[0] - p[0]) * (q[1] - p[1])
        if area == 0:
            continue
        a = ((q[2] - p[2]) * (r[1] - p[1]) - (r[2] - p[2]) * (q[1] - p[1])) / area
        b = ((q[0] - p[0]) * (r[2] - p[2]) - (r[0] - p[0]) * (q[2] - p[2])) / area
        c = p[2] - a * p[0] - b * p[1]
        top = max(0, int(np.ceil(min(p[1], q[1], r[1]))))
        bottom = min(height - 1, int(np.floor(max(p[1], q[1], r[1]))))
        for v in range(top, bottom + 1):
            first, last = np.inf, -np.inf
            for edge in range(3):
                start, end = (p, q) if edge == 0 else ((q, r) if edge == 1 else (r, p))
                low, high = min(start[1], end[1]), max(start[1], end[1])
                if v < low or v > high:
                    continue
                if low == high:
                    first, last = min(first, start[0], end[0]), max(last, start[0], end[0])
                    continue
                crossing = start[0] + (v - start[1]) / (end[1] - start[1]) * (end[0] - start[0])
                first, last = min(first, crossing), max(last, crossing)
            for u in range(max(0, int(np.ceil(first - 1e-4))), min(width - 1, int(np.floor(last + 1e-4))) + 1):
                prior[v, u] = a * u + b * v + c
    return prior


@njit(cache=True, nogil=True)
def nearby(points: Floats, rows: int, columns: int, cell: int, most: int) -> tuple[Ints, Ints]:
    """Number and list of the disparities (+- 1) of support points in each cell or beside it."""
    there = np.zeros((rows, columns, most), np.bool_)
    for index in range(len(points)):
        row, column, d = int(points[index, 1]) // cell, int(points[index, 0]) // cell, int(points[index, 2])
        for r in range(max(0, row - 1), min(rows, row + 2)):
            for c in range(max(0, column - 1), min(columns, column + 2)):
                for each in range(max(0, d - 1), min(most, d + 2)):
                    there[r, c, each] = True
    counts, listed = np.zeros((rows, columns), np.int32), np.zeros((rows, columns, most), np.int32)
    for row in range(rows):
        for column in range(columns):
            for d in range(most):
                if there[row, column, d]:
                    listed[row, column, counts[row, column]] = d
                    counts[row, column] += 1
    return counts, listed


@njit(**OPTIONS)
def map_disparities(
    ours: Bytes,
    theirs: Bytes,
    prior: Floats,
    counts: Ints,
    listed: Ints,
    cell: int,
    sign: int,
    beta: float,
    penalty: Floats,
    free: float,
) -> Floats:
    """The disparity (H, W) of least energy, NaN if there is none.

    E(d) = beta |f - f'(d)|_1 - log(gamma + exp(-(d - mu)^2 / (2 sigma^2))) over the disparities within the table
    `penalty` of the plane (entry k: |d - mu| = k / 8) and those listed for the cell (`free`, if far from the plane);
    over all of them where there is no plane.
    """
    height, width = prior.shape
    most = listed.shape[2]
    reach = (len(penalty) - 1) // TABLE_STEPS
    out = np.full((height, width), np.float32(np.nan))
    for v in prange(MARGIN, height - MARGIN):
        for u in range(MARGIN, width - MARGIN):
            mu = prior[v, u]
            end = min(most, 1 + (u - MARGIN if sign < 0 else width - MARGIN - 1 - u))
            planar = mu == mu
            first, last = 0, end - 1
            if planar:
                first, last = max(0, int(np.ceil(mu - reach))), min(end - 1, int(np.floor(mu + reach)))
            at, best = NOTHING, np.float32(np.inf)
            for d in range(first, last + 1):
                energy = np.float32(beta * _distance(ours, theirs, v, u, u + sign * d))
                energy += penalty[int(abs(d - mu) * TABLE_STEPS + 0.5)] if planar else np.float32(0)
                if energy < best:
                    at, best = d, energy
            for k in range(counts[v // cell, u // cell]):
                d = listed[v // cell, u // cell, k]
                if d >= end or (d >= first and d <= last):
                    continue
                energy = np.float32(beta * _distance(ours, theirs, v, u, u + sign * d) + free)
                if energy < best:
                    at, best = d, energy
            if at == NOTHING:
                continue
            out[v, u] = at
            if at > 0 and at + 1 < end:  # the vertex of a symmetric V through the three costs
                here = _distance(ours, theirs, v, u, u + sign * at)
                before = _distance(ours, theirs, v, u, u + sign * (at - 1)) - here
                after = _distance(ours, theirs, v, u, u + sign * (at + 1)) - here
                steeper = max(before, after)
                if steeper > 0:
                    out[v, u] += np.float32(min(max(0.5 * (before - after) / steeper, -0.5), 0.5))
    return out
