"""Disparity and depth of a rectified pair: z = f B / (d + doffs), f in pixels, B in the unit of depth."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap

Floats = NDArray[Any]


def depth_from_disparity(disparity: NDArray[np.floating], focal_baseline: float, offset: float = 0.0) -> DepthMap:
    """Depth (H, W); NaN where the disparity is NaN, or the point at infinity or behind the camera."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shifted = disparity.astype(np.float64) + offset
        depth = (focal_baseline / np.where(shifted > 0, shifted, np.nan)).astype(np.float32)
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan))


def disparity_from_depth(depth: NDArray[np.floating], focal_baseline: float) -> NDArray[np.float32]:
    """Disparity (H, W) of a pair without doffs; NaN where depth is NaN."""
    return (focal_baseline / depth.astype(np.float64)).astype(np.float32)


def fill_from_background(disparity: Floats) -> Floats:
    """Each unknown pixel takes the smaller (farther) of its known neighbours in the row, then in the column; (H, W)."""
    return _fill_rows(_fill_rows(disparity).T).T


def _fill_rows(disparity: Floats) -> Floats:
    both = _last_known(disparity), _last_known(disparity[:, ::-1])[:, ::-1]
    return np.fmin(*both)  # at known pixels both are the pixel's own


def _last_known(disparity: Floats) -> Floats:
    """The last known value up to each pixel in its row; NaN before the first."""
    columns = np.where(np.isnan(disparity), 0, np.arange(disparity.shape[1]))
    return np.take_along_axis(disparity, np.maximum.accumulate(columns, axis=1), axis=1)
