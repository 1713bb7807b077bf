"""Disparity maps without holes, by the best evidence there is for each: the image, the surface around, the background.

A hole of at most WIDEST pixels in its row is filled from both of its ends. If their disparities are alike, one surface
lies there, and a line joins them. If they are not, the image says where the nearer surface ends: pixels that look like
the near end belong to it, and all others to the farther surface, as KITTI's rule has it for every hole. What is wider
follows that rule.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.errors import ShapeError
from cfusion.frontends.consistency import Disparity, without_holes

WIDEST = 12  # pixels: across more, what the ends look like tells little
SAME = 1.0  # pixels of disparity between ends of one surface
BESIDE = 5  # columns, and three rows, that tell what an end looks like
LEAST_VARIANCE = 1e-4  # of grey values in [0, 1]: two and a half of 255
UNLIKE = 9.0  # variances: a pixel further off is as unlike as can be
BACKGROUND = 1.0  # what a pixel of the nearer surface costs more than one behind, in units of the logarithm


class Gaps(NamedTuple):
    """Narrow holes, one a row of each array."""

    row: NDArray[np.intp]
    start: NDArray[np.intp]  # their first column
    width: NDArray[np.intp]


def filled(disparity: Disparity, image: Image) -> Disparity:
    """(H, W) without holes; what was known stays as it is, and `isnan(disparity)` tells what was filled."""
    return without_holes(by_image(disparity, image))


def by_image(disparity: Disparity, image: Image) -> Disparity:
    """(H, W) narrow holes filled, wider ones and those at the image's border left."""
    grey = image if image.ndim == 2 else image.mean(axis=2)
    if grey.shape != disparity.shape:
        raise ShapeError(f"the map is {disparity.shape}, its image {grey.shape}; they have to be of one size")
    gaps = narrow(disparity)
    place = gaps.start[:, None] + np.arange(WIDEST)[None, :]
    inside = np.arange(WIDEST)[None, :] < gaps.width[:, None]
    left, right = disparity[gaps.row, gaps.start - 1], disparity[gaps.row, gaps.start + gaps.width]
    share = (np.arange(WIDEST)[None, :] + 1) / (gaps.width[:, None] + 1)
    line = left[:, None] + share * (right - left)[:, None]
    near_left = _belongs_left(disparity, grey.astype(np.float64), gaps, left, right)
    split = np.where(near_left, left[:, None], right[:, None])
    value = np.where((np.abs(left - right) <= SAME)[:, None], line, split)
    out = disparity.copy()
    rows = np.broadcast_to(gaps.row[:, None], place.shape)
    out[rows[inside], place[inside]] = value[inside]
    return out


def narrow(disparity: Disparity) -> Gaps:
    """The holes of at most WIDEST pixels with a known pixel at both ends."""
    edge = np.zeros((len(disparity), 1), np.int8)
    change = np.diff(np.isnan(disparity).astype(np.int8), axis=1, prepend=edge, append=edge)
    row, start = np.nonzero(change == 1)
    width = np.nonzero(change == -1)[1] - start
    kept = (width <= WIDEST) & (start > 0) & (start + width < disparity.shape[1])
    return Gaps(row[kept], start[kept], width[kept])


def _belongs_left(
    disparity: Disparity, grey: NDArray[np.float64], gaps: Gaps, left: Disparity, right: Disparity
) -> NDArray[np.bool_]:
    """(N, WIDEST) whether a pixel belongs to the left end: the split of each gap that explains its grey values best."""
    place = np.minimum(gaps.start[:, None] + np.arange(WIDEST)[None, :], grey.shape[1] - 1)
    seen = grey[gaps.row[:, None], place]
    costs = [
        _unlike(seen, *_looks(disparity, grey, gaps.row, first, end))
        for first, end in ((gaps.start - BESIDE, left), (gaps.start + gaps.width, right))
    ]
    costs[0] += np.where(left > right, BACKGROUND, 0.0)[:, None]
    costs[1] += np.where(right > left, BACKGROUND, 0.0)[:, None]
    inside = np.arange(WIDEST)[None, :] < gaps.width[:, None]
    gain = np.cumsum(np.where(inside, costs[0] - costs[1], 0.0), axis=1)  # of giving the first pixels to the left end
    with_none = np.concatenate([np.zeros((len(gain), 1)), gain], axis=1)
    taken: NDArray[np.bool_] = np.arange(WIDEST)[None, :] < with_none.argmin(axis=1)[:, None]
    return taken


def _looks(
    disparity: Disparity, grey: NDArray[np.float64], row: NDArray[np.intp], first: NDArray[np.intp], end: Disparity
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(N, 1) mean and variance of the grey values of an end's surface, in three rows from column `first` on."""
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
    """(N, WIDEST) minus twice the logarithm of how likely grey values are on a surface that looks like this."""
    cost: NDArray[np.float64] = np.minimum((seen - mean) ** 2 / variance, UNLIKE) + np.log(variance)
    return cost
