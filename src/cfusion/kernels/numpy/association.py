"""Projecting points onto a raster, in plain NumPy: the definition for the other backends."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.contract import Floats, Mask

Indices = NDArray[np.int64]
MARGIN = 8  # cells beyond the image that contribute to natural-neighbour interpolation


def splat_nearest(
    u: Floats, v: Floats, z: Floats, values: Floats | None, shape: tuple[int, int]
) -> tuple[Floats, Floats | None]:
    """Forward z-buffer: points (N,) go to pixel floor(u + 1/2), floor(v + 1/2); the smallest z wins.

    For equal z the lower index wins. Returns the depth (H, W) and the winners' values (H, W), or None without values;
    NaN where no point landed. Points that are not finite, or outside the raster, are ignored.
    """
    height, width = shape
    column, row = np.floor(u + 0.5), np.floor(v + 0.5)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & np.isfinite(z)
    point = np.flatnonzero(inside)
    pixel = row[point].astype(np.int64) * width + column[point].astype(np.int64)
    by_pixel_then_depth = np.lexsort((z[point], pixel))  # stable: equal depths stay in index order
    hit, first = np.unique(pixel[by_pixel_then_depth], return_index=True)
    winner = point[by_pixel_then_depth[first]]

    def raster(of_points: Floats) -> Floats:
        out = np.full(height * width, np.nan, dtype=np.float32)
        out[hit] = of_points[winner]
        return out.reshape(shape)

    return raster(z), None if values is None else raster(values)


def close_mask(mask: Mask, radius: int) -> Mask:
    """Morphological closing of (H, W) with the disc dx^2 + dy^2 <= radius^2, its centre in the image.

    It contains the mask; a pixel is added when every such disc that holds it touches the mask.
    """
    return ~_dilate(~_dilate(mask, radius), radius)


def with_margin(fill: Callable[[Floats, Mask, Mask], None]) -> Callable[[Floats, Mask], Floats]:
    """`Backend.fill_natural` by a function of a padded map, and its known and wanted pixels, which it fills in place.

    The raster extends MARGIN cells beyond the image, whose border would otherwise distort the result.
    """

    def fill_natural(depth: Floats, region: Mask) -> Floats:
        known = ~np.isnan(depth)
        wanted = region & ~known
        if not known.any() or not wanted.any():
            return depth.copy()
        filled = np.pad(depth, MARGIN, constant_values=np.nan)
        fill(filled, np.pad(known, MARGIN), np.pad(wanted, MARGIN))
        return filled[MARGIN:-MARGIN, MARGIN:-MARGIN].copy()

    return fill_natural


def _fill(depth: Floats, known: Mask, wanted: Mask) -> None:
    """Natural-neighbour (discrete Sibson) interpolation at the wanted pixels.

    Cell q of the raster, at distance r(q) from its nearest known pixel s(q), lends the value there to every
    pixel p that is nearer, and half of it to every p at the same distance; p takes the mean of the lent values,
        x(p) = sum_q a_pq d(s(q)) / sum_q a_pq,    a_pq = 1, 1/2, 0 for |p - q| <, =, > r(q),
    and every other pixel keeps its value. If several known pixels are nearest, d(s(q)) is their mean, so that a
    flipped image is filled alike. (Park, Linsen, Kreylos, Owens, Hamann: Discrete Sibson interpolation, 2006.)
    """
    squared_reach = _squared_distance(known)
    lends = ~known & (_squared_distance(wanted) <= squared_reach)
    row, column = np.nonzero(lends)
    reach = squared_reach[lends]
    lent = _mean_of_nearest(depth, known, row, column, reach)
    total = _sum_of_shares(depth.shape, row, column, reach, lent)
    shares = _sum_of_shares(depth.shape, row, column, reach, np.ones_like(lent))
    depth[wanted] = total[wanted] / shares[wanted]


fill_natural = with_margin(_fill)


def _disc(radius: int) -> list[tuple[int, int]]:
    """The offsets (dy, dx) with dy^2 + dx^2 <= radius^2, in raster order."""
    span = range(-radius, radius + 1)
    return [(dy, dx) for dy in span for dx in span if dy * dy + dx * dx <= radius * radius]


def _dilate(mask: Mask, radius: int) -> Mask:
    """True within the disc of a True pixel."""
    height, width = mask.shape
    padded = np.pad(mask, radius)
    grown = np.zeros_like(mask)
    for dy, dx in _disc(radius):
        grown |= padded[radius + dy : radius + dy + height, radius + dx : radius + dx + width]
    return grown


def _rise_and_fall(mask: Mask) -> tuple[Indices, Indices]:
    """Rows up and down from each pixel to the nearest True one of its column; >= H + W if there is none."""
    height, width = mask.shape
    far = height + width
    row = np.arange(height)[:, None]
    last = np.maximum.accumulate(np.where(mask, row, -far), axis=0)
    following = np.minimum.accumulate(np.where(mask, row, height + far)[::-1], axis=0)[::-1]
    return row - last, following - row


def _squared_distance(mask: Mask) -> Indices:
    """Squared Euclidean distance from each pixel to the nearest True one; the mask holds at least one."""
    in_column = np.minimum(*_rise_and_fall(mask)) ** 2
    best = in_column.copy()
    for dx in range(1, mask.shape[1]):
        if dx * dx >= best.max():
            break
        np.minimum(best[:, dx:], in_column[:, :-dx] + dx * dx, out=best[:, dx:])
        np.minimum(best[:, :-dx], in_column[:, dx:] + dx * dx, out=best[:, :-dx])
    return best


def _mean_of_nearest(depth: Floats, known: Mask, row: Indices, column: Indices, reach: Indices) -> Floats:
    """Mean value of the known pixels at squared distance exactly `reach` from each cell (row, column)."""
    rise, fall = _rise_and_fall(known)
    total, count = np.zeros(len(row)), np.zeros(len(row))
    radius = math.isqrt(int(reach.max()))
    for dx in range(-radius, radius + 1):
        cell = np.flatnonzero((reach >= dx * dx) & (column + dx >= 0) & (column + dx < known.shape[1]))
        at = row[cell], column[cell] + dx
        up, down = -rise[at], fall[at]
        for step, may_be_level in ((up, True), (down, False)):  # a site in the cell's own row counts once
            nearest = (step * step + dx * dx == reach[cell]) & (may_be_level | (step != 0))
            site = cell[nearest]
            total[site] += depth[row[site] + step[nearest], column[site] + dx]
            count[site] += 1
    mean: Floats = total / count
    return mean


def _sum_of_shares(shape: tuple[int, ...], row: Indices, column: Indices, reach: Indices, value: Floats) -> Floats:
    """(H, W): sum over the cells q = (row, column) of 2 a_pq value(q), one share for <= and one for <.

    Each row of each disc is a run: its value is added at one end and subtracted after the other.
    """
    height, width = shape
    steps = np.zeros(height * (width + 1))
    radius = math.isqrt(int(reach.max()))
    for dy in range(radius, -radius - 1, -1):  # so that the ends of runs are summed in raster order
        crossing = (reach >= dy * dy) & (row + dy >= 0) & (row + dy < height)
        left = reach[crossing] - dy * dy
        near, nearer = np.sqrt(left).astype(np.int64), np.sqrt(np.maximum(left - 1, 0)).astype(np.int64)
        x, once, again = column[crossing], value[crossing], np.where(left > 0, value[crossing], 0.0)
        ends = np.stack([x - near, x + near + 1, x - nearer, x + nearer + 1], axis=1).clip(0, width)
        lines = (row[crossing] + dy)[:, None] * (width + 1)
        np.add.at(steps, (lines + ends).ravel(), np.stack([once, -once, again, -again], axis=1).ravel())
    return np.cumsum(steps.reshape(height, width + 1), axis=1)[:, :width]


def local_depth_range(depth: Floats, radius: int) -> Floats:
    """As `Backend.local_depth_range`."""
    known = ~np.isnan(depth)
    highest = _largest_around(np.where(known, depth, -np.inf), radius)
    with np.errstate(invalid="ignore"):
        out: Floats = (highest + _largest_around(np.where(known, -depth, -np.inf), radius)).astype(depth.dtype)
    return out


def _largest_around(values: Floats, radius: int) -> Floats:
    """The maximum over the square of side 2 radius + 1 around each pixel."""
    out = values
    for axis in (0, 1):
        reach = 0
        while reach < radius:  # the maximum over 2 reach + 1, shifted both ways, covers up to 4 reach + 3
            step = min(reach + 1, radius - reach)
            wider = out.copy()
            ahead = [slice(None), slice(None)]
            behind = [slice(None), slice(None)]
            ahead[axis], behind[axis] = slice(step, None), slice(None, -step)
            one, other = tuple(ahead), tuple(behind)
            wider[other] = np.maximum(wider[other], out[one])
            wider[one] = np.maximum(wider[one], out[other])
            out, reach = wider, reach + step
    return out
