"""Consistency of the two disparity maps of a pair: which pixels agree.

Disparity maps are (H, W) float32, >= 0, NaN = unknown: left pixel u matches right pixel u - d.
"""

import numpy as np
from numpy.typing import NDArray

from cfusion.frontends.opencv import opencv
from cfusion.geometry.disparity import fill_from_background

Disparity = NDArray[np.float32]
STEPS = 16  # per pixel of disparity, for OpenCV's 16-bit speck filter
ONE_SURFACE = 3.0  # pixels of disparity: the two ends of a hole


def disagreement(disparity: Disparity, other: Disparity) -> Disparity:
    """|d - d'| (H, W) in pixels, with d' read from the other image's map at u - d; NaN where either is unknown."""
    width = disparity.shape[1]
    there = np.arange(width)[None, :] - np.nan_to_num(disparity)
    column = np.clip(np.floor(there).astype(np.int64), 0, max(width - 2, 0))
    before = np.take_along_axis(other, column, axis=1)
    after = np.take_along_axis(other, np.where(there > column, np.minimum(column + 1, width - 1), column), axis=1)
    between = before + (there - column) * (after - before)
    nearer = np.fmin(np.abs(before - disparity), np.abs(after - disparity))
    apart = np.fmin(np.abs(between - disparity), nearer)  # at an edge either side may match
    return np.where(there >= 0, apart, np.nan).astype(np.float32)


def agreeing(disparity: Disparity, apart: Disparity, tolerance: float) -> Disparity:
    """The disparities that the other image's map confirms, by their disagreement; occluded pixels are dropped."""
    return np.where(apart <= tolerance, disparity, np.float32(np.nan))


def without_specks(disparity: Disparity, size: int, step: float) -> Disparity:
    """The map without connected segments of at most `size` pixels; neighbours within `step` are connected."""
    if size <= 0:
        return disparity
    coarse = np.where(np.isnan(disparity), -STEPS, np.rint(disparity * STEPS)).astype(np.int16)
    opencv().filterSpeckles(coarse, -STEPS, size, round(STEPS * step))
    return np.where(coarse < 0, np.float32(np.nan), disparity)


def bridged(disparity: Disparity, widest: int) -> Disparity:
    """Close holes of at most `widest` pixels along rows, then columns: linearly between ends of one surface (they
    differ by at most `ONE_SURFACE`), else with the farther end."""
    return disparity if widest <= 0 else _bridged_rows(_bridged_rows(disparity, widest).T, widest).T


def without_holes(disparity: Disparity) -> Disparity:
    """Every unknown pixel takes the farther of its known neighbours in the row, then in the column; 0 without any."""
    return np.nan_to_num(fill_from_background(disparity))


def _bridged_rows(disparity: Disparity, widest: int) -> Disparity:
    width = disparity.shape[1]
    known, column = ~np.isnan(disparity), np.arange(width)
    before = np.maximum.accumulate(np.where(known, column, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, column, width)[:, ::-1], axis=1)[:, ::-1]
    closable = ~known & (before >= 0) & (after < width) & (after - before - 1 <= widest)
    start = np.take_along_axis(disparity, np.maximum(before, 0), axis=1)
    end = np.take_along_axis(disparity, np.minimum(after, width - 1), axis=1)
    share = (column - before) / np.maximum(after - before, 1)
    with np.errstate(invalid="ignore"):
        between = np.where(np.abs(end - start) <= ONE_SURFACE, start + share * (end - start), np.fmin(start, end))
    return np.where(closable, between, disparity).astype(np.float32)
