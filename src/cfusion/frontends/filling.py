"""Disparity maps without holes, filled by the best evidence: the image, the surface around, the background.

A hole of at most WIDEST pixels in its row is filled from both ends. If their disparities are similar, one surface lies
there, and a line joins them. Otherwise the image shows where the nearer surface ends: pixels that look like the near
end belong to it, all others to the farther surface, which KITTI's rule takes for every hole. Wider holes follow that
rule.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import ShapeError
from cfusion.frontends.consistency import Disparity, without_holes

WIDEST = 12  # pixels: across more, the looks of the ends tell little
SAME = 1.0  # pixels of disparity between the ends of one surface
BESIDE = 5  # columns, in three rows, that define the looks of an end
LEAST_VARIANCE = 1e-4  # of grey values in [0, 1]: two and a half of 255
UNLIKE = 9.0  # variances at which the difference of a pixel is clipped
BACKGROUND = 1.0  # cost of a pixel of the nearer surface over one behind, on the scale of the logarithm


class Holes(NamedTuple):
    """Narrow holes, one entry each."""

    row: NDArray[np.intp]
    start: NDArray[np.intp]  # first column
    width: NDArray[np.intp]


def filled(disparity: Disparity, image: Image) -> Disparity:
    """The map (H, W) without holes; known pixels are unchanged, so `isnan(disparity)` gives the filled ones."""
    return without_holes(by_image(disparity, image))


def by_image(disparity: Disparity, image: Image) -> Disparity:
    """The map (H, W) with narrow holes filled; wider ones and those at the border stay."""
    grey = image if image.ndim == 2 else image.mean(axis=2)
    if grey.shape != disparity.shape:
        raise ShapeError(f"the map is {disparity.shape}, its image {grey.shape}; give the same size")
    holes = narrow(disparity)
    place = holes.start[:, None] + np.arange(WIDEST)[None, :]
    inside = np.arange(WIDEST)[None, :] < holes.width[:, None]
    left, right = disparity[holes.row, holes.start - 1], disparity[holes.row, holes.start + holes.width]
    share = (np.arange(WIDEST)[None, :] + 1) / (holes.width[:, None] + 1)
    line = left[:, None] + share * (right - left)[:, None]
    near_left = _belongs_left(disparity, grey.astype(np.float64), holes, left, right)
    split = np.where(near_left, left[:, None], right[:, None])
    value = np.where((np.abs(left - right) <= SAME)[:, None], line, split)
    out = disparity.copy()
    rows = np.broadcast_to(holes.row[:, None], place.shape)
    out[rows[inside], place[inside]] = value[inside]
    return out


def narrow(disparity: Disparity) -> Holes:
    """The holes of at most WIDEST pixels with a known pixel at both ends."""
    edge = np.zeros((len(disparity), 1), np.int8)
    change = np.diff(np.isnan(disparity).astype(np.int8), axis=1, prepend=edge, append=edge)
    row, start = np.nonzero(change == 1)
    width = np.nonzero(change == -1)[1] - start
    kept = (width <= WIDEST) & (start > 0) & (start + width < disparity.shape[1])
    return Holes(row[kept], start[kept], width[kept])


def _belongs_left(
    disparity: Disparity, grey: NDArray[np.float64], holes: Holes, left: Disparity, right: Disparity
) -> NDArray[np.bool_]:
    """Whether a pixel belongs to the left end, (N, WIDEST): the split of each hole that fits its grey values best."""
    place = np.minimum(holes.start[:, None] + np.arange(WIDEST)[None, :], grey.shape[1] - 1)
    seen = grey[holes.row[:, None], place]
    costs = [
        _unlike(seen, *_looks(disparity, grey, holes.row, first, end))
        for first, end in ((holes.start - BESIDE, left), (holes.start + holes.width, right))
    ]
    costs[0] += np.where(left > right, BACKGROUND, 0.0)[:, None]
    costs[1] += np.where(right > left, BACKGROUND, 0.0)[:, None]
    inside = np.arange(WIDEST)[None, :] < holes.width[:, None]
    gain = np.cumsum(np.where(inside, costs[0] - costs[1], 0.0), axis=1)  # of giving pixels to the left end
    with_none = np.concatenate([np.zeros((len(gain), 1)), gain], axis=1)
    taken: NDArray[np.bool_] = np.arange(WIDEST)[None, :] < with_none.argmin(axis=1)[:, None]
    return taken


def _looks(
    disparity: Disparity, grey: NDArray[np.float64], row: NDArray[np.intp], first: NDArray[np.intp], end: Disparity
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance (N, 1) of the grey values of an end's surface, in three rows from column `first` on."""
    rows = row[:, None, None] + np.array([-1, 0, 1])[None, :, None]
    columns = first[:, None, None] + np.arange(BESIDE)[None, None, :]
    height, width = grey.shape
    within = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    here = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
    with np.errstate(invalid="ignore"):
        same = within & (np.abs(disparity[here] - end[:, None, None]) <= SAME)
    amount = np.maximum(same.sum(axis=(1, 2)), 1)
    mean = np.where(same, grey[here], 0).sum(axis=(1, 2)) / amount
    square = np.where(same, grey[here] ** 2, 0).sum(axis=(1, 2)) / amount
    return mean[:, None], np.maximum(square - mean**2, 0)[:, None] + LEAST_VARIANCE


def _unlike(seen: NDArray[np.float64], mean: NDArray[np.float64], variance: NDArray[np.float64]) -> NDArray[np.float64]:
    """-2 log likelihood (N, WIDEST) of grey values on a surface with this mean and variance, up to a constant."""
    return np.minimum((seen - mean) ** 2 / variance, UNLIKE) + np.log(variance)
