"""Disparity and depth of a rectified pair: z = f B / (d + doffs), f in pixels, B in the unit of depth."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap


def depth_from_disparity(disparity: NDArray[np.floating], focal_baseline: float, offset: float = 0.0) -> DepthMap:
    """Depth (H, W); NaN where the disparity is, or where it puts the point at infinity or behind."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shifted = disparity.astype(np.float64) + offset
        depth = (focal_baseline / np.where(shifted > 0, shifted, np.nan)).astype(np.float32)
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.float32(np.nan))


def disparity_from_depth(
    depth: NDArray[np.floating], focal_baseline: float, offset: float = 0.0
) -> NDArray[np.float32]:
    """Disparity (H, W); NaN where depth is."""
    return (focal_baseline / depth.astype(np.float64) - offset).astype(np.float32)
