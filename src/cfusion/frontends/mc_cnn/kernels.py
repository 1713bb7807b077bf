"""Compiled loops after the network: cost volume, cross-based aggregation, semi-global matching, best disparities.

A cost volume is (H, W, D) float32 for the left image: entry (v, u, d) compares left pixel u with right pixel u - d, and
is OUTSIDE where u < d. The right image's volume is that of the mirrored pair.
Results are the same for any number of threads.
"""

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "parallel": True,
    "error_model": "numpy",
    "fastmath": {"contract", "nsz", "reassoc"},
}
OUTSIDE = np.float32(1.0)  # cost of a match outside the other image: that of opposite features


@njit(**OPTIONS)
def cost_volume(left: Floats, right: Floats, disparities: int) -> Floats:
    """(1 - <f, f'>) / 2, (H, W, D), of unit features (C, H, W)."""
    channels, height, width = left.shape
    out = np.empty((height, width, disparities), np.float32)
    for v in prange(height):
        mirrored = np.empty((channels, width), np.float32)
        for c in range(channels):
            for u in range(width):
                mirrored[c, width - 1 - u] = right[c, v, u]
        for u in range(width):
            end = min(disparities, u + 1)
            start = width - 1 - u
            row = out[v, u]
            for d in range(disparities):
                row[d] = np.float32(0.0)
            for c in range(channels):
                weight = left[c, v, u]
                other = mirrored[c, start : start + end]
                for d in range(end):
                    row[d] += weight * other[d]
            for d in range(end):
                row[d] = np.float32(0.5) - np.float32(0.5) * row[d]
            for d in range(end, disparities):
                row[d] = OUTSIDE
    return out


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"}, inline="always")
def _step(cost: Any, before: Any, now: Any, total: Any, same: Any, p: Any, edge: int, rise: Any, fall: Any) -> None:
    """One step of one path; `cost`, `before`, `now` and `total` run over d, `before` and `now` with sentinels.

    `same` is 1 where the right image has no edge between the two pixels, else 0; P1 is multiplied by `rise` where the
    disparity grows along the path, by `fall` where it shrinks. The last entry of `now` is its minimum.
    """
    count = len(cost)
    p1, p2, p1_edge, p2_edge = p[edge, 0], p[edge, 1], p[edge + 1, 0], p[edge + 1, 1]
    floor = before[count + 2]
    least = np.float32(np.inf)
    for d in range(count):
        small = p1_edge + same[d] * (p1 - p1_edge)
        large = floor + p2_edge + same[d] * (p2 - p2_edge)
        best = min(min(before[d + 1], min(before[d] + small * rise, before[d + 2] + small * fall)), large)
        here = cost[d] + best - floor
        now[d + 1] = here
        total[d] += here
        least = min(least, here)
    now[count + 2] = least


@njit(**OPTIONS)
def along_rows(cost: Floats, total: Floats, same_left: Floats, same_right: Floats, p: Floats) -> None:
    """Add the two horizontal paths to the total; p holds P1, P2 by the number of edges (3, 2).

    same_left (H, W) is 1 if there is no edge between columns u - 1 and u of the left image; same_right is mirrored:
    entry (v, W - 1 - u) is for columns u - 1 and u of the right image, with D more behind.
    """
    height, width, count = cost.shape
    one = np.float32(1.0)
    for v in prange(height):
        before, now = np.empty(count + 3, np.float32), np.empty(count + 3, np.float32)
        for backwards in range(2):
            before[:] = np.float32(0.0)
            before[0] = before[count + 1] = np.float32(1e6)
            now[0] = now[count + 1] = np.float32(1e6)
            for k in range(width):
                u = width - 1 - k if backwards else k
                gate = min(u + 1, width - 1) if backwards else u
                edge = 0 if same_left[v, gate] > 0 else 1
                start = width - 1 - gate
                same = same_right[v, start : start + count]
                _step(cost[v, u], before, now, total[v, u], same, p, edge, one, one)
                before, now = now, before


@njit(**OPTIONS)
def along_columns(cost: Floats, total: Floats, same_left: Floats, same_right: Floats, p: Floats, down: float) -> None:
    """Add the two vertical paths to the total; `down` multiplies P1 where the disparity grows from row to row.

    same_left (H, W) is 1 if there is no edge between rows v - 1 and v of the left image, same_right (mirrored) of
    the right one.
    """
    height, width, count = cost.shape
    one, cheap = np.float32(1.0), np.float32(down)
    for u in prange(width):
        before, now = np.empty(count + 3, np.float32), np.empty(count + 3, np.float32)
        start = width - 1 - u
        for backwards in range(2):
            before[:] = np.float32(0.0)
            before[0] = before[count + 1] = np.float32(1e6)
            now[0] = now[count + 1] = np.float32(1e6)
            rise, fall = (one, cheap) if backwards else (cheap, one)
            for k in range(height):
                v = height - 1 - k if backwards else k
                gate = min(v + 1, height - 1) if backwards else v
                edge = 0 if same_left[gate, u] > 0 else 1
                same = same_right[gate, start : start + count]
                _step(cost[v, u], before, now, total[v, u], same, p, edge, rise, fall)
                before, now = now, before


@njit(**OPTIONS)
def winners(cost: Floats) -> tuple[Floats, Floats, Floats]:
    """(H, W) each: disparity of least cost, to a fraction of a pixel; its cost; the least cost elsewhere.

    "Elsewhere" is more than one pixel away. The fraction is that of the vertex of the parabola through the least cost
    and its two neighbours.
    """
    height, width, count = cost.shape
    disparity = np.empty((height, width), np.float32)
    best = np.empty((height, width), np.float32)
    second = np.empty((height, width), np.float32)
    for v in prange(height):
        for u in range(width):
            row = cost[v, u]
            end = min(count, u + 1)
            at = 0
            for d in range(end):
                if row[d] < row[at]:
                    at = d
            other = np.float32(np.inf)
            for d in range(end):
                if abs(d - at) > 1:
                    other = min(other, row[d])
            disparity[v, u], best[v, u], second[v, u] = at, row[at], other
            if at > 0 and at + 1 < end:
                curve = row[at - 1] - 2 * row[at] + row[at + 1]
                if curve > 0:
                    shift = np.float32(0.5) * (row[at - 1] - row[at + 1]) / curve
                    disparity[v, u] += min(max(shift, np.float32(-0.5)), np.float32(0.5))
    return disparity, best, second


@njit(**OPTIONS)
def arms(image: Floats, longest: int, tolerance: float) -> Ints:
    """Lengths (4, H, W) of a pixel's cross to the left, right, up and down, where grey values stay near its own."""
    height, width = image.shape
    out = np.zeros((4, height, width), np.int32)
    for v in prange(height):
        for u in range(width):
            for side in range(4):
                dv = -1 if side == 2 else (1 if side == 3 else 0)
                du = -1 if side == 0 else (1 if side == 1 else 0)
                length = 0
                while length < longest:
                    row, column = v + (length + 1) * dv, u + (length + 1) * du
                    if row < 0 or row >= height or column < 0 or column >= width:
                        break
                    if abs(image[row, column] - image[v, u]) >= tolerance:
                        break
                    length += 1
                out[side, v, u] = length
    return out


@njit(**OPTIONS)
def aggregate(cost: Floats, half: Floats, ours: Ints, theirs: Ints) -> None:
    """Replace the cost by its mean over the common region of both pixels, in place.

    A region is the row arms of all pixels on the column arms; `half` holds the sums along rows.
    """
    height, width, count = cost.shape
    for v in prange(height):
        sums = np.zeros((width + 1, count), np.float32)
        for u in range(width):
            for d in range(count):
                sums[u + 1, d] = sums[u, d] + cost[v, u, d]
        for u in range(width):
            for d in range(min(count, u + 1)):
                left = min(ours[0, v, u], theirs[0, v, u - d])
                right = min(ours[1, v, u], theirs[1, v, u - d])
                half[v, u, d] = sums[u + right + 1, d] - sums[u - left, d]
    for u in prange(width):
        end = min(count, u + 1)
        sums = np.zeros((height + 1, end), np.float32)
        pixels = np.zeros((height + 1, end), np.float32)
        for v in range(height):
            for d in range(end):
                wide = min(ours[0, v, u], theirs[0, v, u - d]) + min(ours[1, v, u], theirs[1, v, u - d]) + 1
                sums[v + 1, d] = sums[v, d] + half[v, u, d]
                pixels[v + 1, d] = pixels[v, d] + np.float32(wide)
        for v in range(height):
            for d in range(end):
                up = v - min(ours[2, v, u], theirs[2, v, u - d])
                down = v + min(ours[3, v, u], theirs[3, v, u - d]) + 1
                cost[v, u, d] = (sums[down, d] - sums[up, d]) / (pixels[down, d] - pixels[up, d])


@njit(**OPTIONS)
def mirror(cost: Floats, out: Floats) -> None:
    """The volume of the mirrored pair, right image first: its pixel W - 1 - x at d is left pixel x + d at d."""
    height, width, count = cost.shape
    for v in prange(height):
        for x in range(width):
            end = min(count, width - x)
            for d in range(end):
                out[v, width - 1 - x, d] = cost[v, x + d, d]
            for d in range(end, count):
                out[v, width - 1 - x, d] = OUTSIDE
