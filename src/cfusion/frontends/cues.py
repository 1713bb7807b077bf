"""Cues that distinguish right from wrong disparities of a matched pair, each in [0, 1], 0 = good.

Three of them are systematic: `front` and `behind` (at a jump of the disparity, on its near and its far side: surfaces
in front grow over their edges by half a window) and `flat` (without texture the regulariser decides). Such errors are
the same in every frame, so comparing frames cannot find them.
"""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.frontends.opencv import opencv

Floats = NDArray[np.float32]
NAMES = ("apart", "lonely", "rough", "front", "behind", "flat")
SUPPORT_WINDOW = 15  # pixels, window of the share of unconfirmed pixels
ROUGHNESS_WINDOW = 5  # pixels, window over which second differences are averaged
JUMP_WINDOW = 9  # pixels, window of the disparity's range
JUMP = 3.0  # pixels of disparity at which a jump counts one half
FAR = 1e6  # pixels: larger than any disparity
TEXTURE_WINDOW = 11  # pixels
TEXTURE = 0.02  # mean |dI/du| of an image in [0, 1] at which texture counts one half


def pair_cues(disparity: Floats, apart: Floats, image: Image) -> Floats:
    """Cues (6, H, W) of a checked map; `apart` is its disagreement with the other image's map in pixels."""
    known = np.isfinite(disparity)
    rough = roughness(disparity)
    high = _extreme(np.where(known, disparity, -FAR), "dilate")
    low = _extreme(np.where(known, disparity, FAR), "erode")
    front, behind = (np.where(known, each, 0).astype(np.float32) for each in (disparity - low, high - disparity))
    grey = image if image.ndim == 2 else image.mean(axis=2)
    slope = np.abs(np.gradient(grey.astype(np.float32), axis=1))
    texture = mean(slope, TEXTURE_WINDOW)
    cues = (
        np.clip(np.nan_to_num(apart, nan=1.0), 0, 1),
        1 - mean(known.astype(np.float32), SUPPORT_WINDOW),
        rough / (1 + rough),
        front / (front + JUMP),
        behind / (behind + JUMP),
        TEXTURE / (TEXTURE + texture),
    )
    return np.stack([np.clip(each, 0, 1).astype(np.float32) for each in cues])


def roughness(disparity: Floats) -> Floats:
    """Mean absolute second difference (H, W) in a window, in pixels; unknown pixels take that of their surroundings."""
    bends, amount = np.zeros(disparity.shape, np.float32), np.zeros(disparity.shape, np.float32)
    for axis in (0, 1):
        bend = np.full(disparity.shape, np.nan, np.float32)
        inner = (slice(1, -1), slice(None)) if axis == 0 else (slice(None), slice(1, -1))
        bend[inner] = np.abs(np.diff(disparity, n=2, axis=axis))
        bends += np.nan_to_num(bend)
        amount += ~np.isnan(bend)
    return (2 * mean(bends, ROUGHNESS_WINDOW) / np.maximum(mean(amount, ROUGHNESS_WINDOW), 1e-3)).astype(np.float32)


def mean(values: Floats, window: int) -> Floats:
    """Means (H, W) over square windows."""
    cv2 = opencv()
    found: Floats = cv2.boxFilter(values, cv2.CV_32F, (window, window), borderType=cv2.BORDER_REFLECT_101)
    return found


def _extreme(values: NDArray[np.floating], which: str) -> Floats:
    cv2 = opencv()
    found: Floats = getattr(cv2, which)(values.astype(np.float32), np.ones((JUMP_WINDOW, JUMP_WINDOW), np.uint8))
    return found
