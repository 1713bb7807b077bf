"""What two disparity maps of one pair say about each other: which pixels agree, and how far to trust them.

Disparity maps are (H, W) float32, >= 0, NaN = unknown: left pixel u is right pixel u - d.
"""

import numpy as np
from numpy.typing import NDArray

from cfusion.frontends.opencv import opencv

Disparity = NDArray[np.float32]
Floats = NDArray[np.floating]
STEPS = 16  # per pixel of disparity, while OpenCV looks for specks in 16-bit numbers
SUPPORT_WINDOW = 15  # pixels, in which the share of known ones is taken
ROUGHNESS_WINDOW = 5  # pixels, in which second differences are averaged


def disagreement(disparity: Disparity, other: Disparity) -> Disparity:
    """(H, W) |d - d'| in pixels, d' read in the other image's map where d points; NaN where either is unknown."""
    width = disparity.shape[1]
    there = np.arange(width)[None, :] - np.nan_to_num(disparity)
    column = np.clip(np.floor(there).astype(np.int64), 0, max(width - 2, 0))
    before = np.take_along_axis(other, column, axis=1)
    after = np.take_along_axis(other, np.where(there > column, np.minimum(column + 1, width - 1), column), axis=1)
    between = before + (there - column) * (after - before)
    nearer = np.fmin(np.abs(before - disparity), np.abs(after - disparity))
    apart = np.fmin(np.abs(between - disparity), nearer)  # across an edge, either side may be meant
    return np.where(there >= 0, apart, np.nan).astype(np.float32)


def agreeing(disparity: Disparity, other: Disparity, tolerance: float) -> Disparity:
    """The disparities that the other image's map confirms; occluded pixels are not among them."""
    with np.errstate(invalid="ignore"):
        confirmed = disagreement(disparity, other) <= tolerance
    return np.where(confirmed, disparity, np.float32(np.nan))


def without_specks(disparity: Disparity, size: int, step: float) -> Disparity:
    """Without connected segments of at most `size` pixels; neighbours are connected if at most `step` apart."""
    if size <= 0:
        return disparity
    coarse = np.where(np.isnan(disparity), -STEPS, np.rint(disparity * STEPS)).astype(np.int16)
    opencv().filterSpeckles(coarse, -STEPS, size, round(STEPS * step))
    return np.where(coarse < 0, np.float32(np.nan), disparity)


def bridged(disparity: Disparity, gap: int, step: float = 3.0) -> Disparity:
    """Gaps of at most `gap` pixels along the row, then the column, closed: by a line between ends that are at most
    `step` apart, by the farther surface otherwise."""
    return disparity if gap <= 0 else _bridged_rows(_bridged_rows(disparity, gap, step).T, gap, step).T


def confidence(disparity: Disparity, apart: Floats | None = None) -> Disparity:
    """(H, W) in [0, 1], zero where unknown: s^2 exp(-|d - d'|) / (1 + r).

    s is the share of known pixels in a window of 15 pixels: where the check failed all around, what passed it did so by
    chance. r is the mean second difference of d in a window of 5, |d - d'| the disagreement with the other image's map.
    """
    known = ~np.isnan(disparity)
    support = _mean(known.astype(np.float32), SUPPORT_WINDOW)
    bends, amount = np.zeros(disparity.shape, np.float32), np.zeros(disparity.shape, np.float32)
    for axis in (0, 1):
        bend = np.full(disparity.shape, np.nan, np.float32)
        inner = (slice(1, -1), slice(None)) if axis == 0 else (slice(None), slice(1, -1))
        bend[inner] = np.abs(np.diff(disparity, n=2, axis=axis))
        bends += np.nan_to_num(bend)
        amount += ~np.isnan(bend)
    rough = 2 * _mean(bends, ROUGHNESS_WINDOW) / np.maximum(_mean(amount, ROUGHNESS_WINDOW), 1e-3)
    trust = support**2 / (1 + rough)
    if apart is not None:
        trust = trust * np.exp(-np.nan_to_num(apart, nan=1.0))
    return np.where(known, trust, 0).astype(np.float32)


def _mean(values: Disparity, window: int) -> Disparity:
    cv2 = opencv()
    mean: Disparity = cv2.boxFilter(values, cv2.CV_32F, (window, window), borderType=cv2.BORDER_REFLECT_101)
    return mean


def _bridged_rows(disparity: Disparity, gap: int, step: float) -> Disparity:
    width = disparity.shape[1]
    known, column = ~np.isnan(disparity), np.arange(width)
    before = np.maximum.accumulate(np.where(known, column, -1), axis=1)
    after = np.minimum.accumulate(np.where(known, column, width)[:, ::-1], axis=1)[:, ::-1]
    closable = ~known & (before >= 0) & (after < width) & (after - before - 1 <= gap)
    start = np.take_along_axis(disparity, np.maximum(before, 0), axis=1)
    end = np.take_along_axis(disparity, np.minimum(after, width - 1), axis=1)
    share = (column - before) / np.maximum(after - before, 1)
    with np.errstate(invalid="ignore"):
        between = np.where(np.abs(end - start) <= step, start + share * (end - start), np.fmin(start, end))
    return np.where(closable, between, disparity).astype(np.float32)
