"""Errors that reach far across the image, as those of a depth network or a bent sensor: an image holds only a few.

With few errors, two views may be alike by chance, and the fused surface is off by what the views are off on average
across a tile of the image, which refits of a few iterations do not reach.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import OVER_MEDIAN, median_of, stride_for
from cfusion.kernels.contract import Backend, Floats

TILES, FEWEST = 8, 8  # along each side of the image, and pixels of a sample in one
FEWEST_TILES = 16  # of 64: the median of fewer is chance
COUNTS = 0.5  # of the largest weight of a view: others hardly move the median
SAMPLE = 5_000  # pixels
OF_MEDIAN = np.pi / 2  # variance of a median of views over that of a mean


def share_of_far(sample: NDArray[Any]) -> float:
    """The share of the errors (K, h, w) that reaches across a tile: 0 of white noise, 1 if they are one per tile.

    The root of: the square of a tile's mean error, less what independent pixels give it, over that of an error. Errors
    are about the median view.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no view knows a pixel
        means, squares, numbers = _tiles(sample - median_of(sample))
        shares = np.nanmean(np.square(means) - squares / numbers, axis=1) / np.nanmean(squares, axis=1)
        share = np.nanmedian(shares)
    return float(np.sqrt(np.clip(np.nan_to_num(share), 0, 1)))


def variance_of_far(residuals: Floats, weights: Floats | None, backend: Backend) -> float:
    """The variance of the fused error across a tile, from how the views' mean residuals (K, H, W) differ there.

    That of the median of the n views that count, by a spread s that a biased view does not move: pi/2 s^2 / n, or
    (a - b)^2 / 4 for two. Weights (K, H, W) are those of the fit.
    """
    every = stride_for(residuals[0].size, SAMPLE)
    errors = backend.to_host(residuals[:, ::every, ::every])
    if weights is not None:
        usual = backend.to_host(weights[:, ::every, ::every]).mean(axis=(1, 2))
        errors = errors[usual >= COUNTS * usual.max()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one view, or none, knows a tile
        means, squares, numbers = _tiles(errors)
        n, chance = np.isfinite(means).sum(axis=0), np.nanmean((squares - np.square(means)) / numbers, axis=0)
        spread = OVER_MEDIAN * median_of(np.abs(means - median_of(means)))
        of_median = OF_MEDIAN * (np.square(spread) - chance) / n
        of_two = np.nanvar(means, axis=0) - chance / 2
        fused = np.where(n > 2, of_median, np.where(n == 2, of_two, np.nan))
        told = np.isfinite(fused)
    return max(float(np.median(fused[told])), 0.0) if told.sum() >= FEWEST_TILES else 0.0  # some tiles have edges


def _tiles(errors: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean, mean square and number (K, tiles) of errors (K, h, w) in every tile; NaN where these are few."""
    rows, columns = (np.arange(size) * TILES // size for size in errors.shape[1:])
    tile = (rows[:, None] * TILES + columns).ravel()
    values = errors.reshape(len(errors), -1).astype(np.float64)
    known = np.isfinite(values)
    sums = [[np.bincount(tile, each, TILES**2) for each in part] for part in (known, *(_powers(values, known)))]
    number, total, square = np.array(sums)
    number = np.where(number < FEWEST, np.nan, number)
    return total / number, square / number, number


def _powers(values: NDArray[np.float64], known: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and their squares, zero where unknown."""
    each = np.where(known, values, 0)
    return each, np.square(each)
