"""What can be seen in a matched pair that tells right disparities from wrong ones, each cue in [0, 1], 0 = good.

Three of them are systematic: `front` and `behind` (at a jump of the disparity, on its near and on its far side:
surfaces in front grow over their edges by half a window) and `flat` (without texture the regulariser decides). Such
errors come out alike in every frame, so that comparing frames cannot find them.
"""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.frontends.opencv import opencv

Floats = NDArray[np.float32]
NAMES = ("apart", "lonely", "rough", "front", "behind", "flat")
SYSTEMATIC = ("front", "behind", "flat")
SUPPORT_WINDOW = 15  # pixels in which the share of unconfirmed ones is taken
ROUGHNESS_WINDOW = 5  # pixels in which second differences are averaged
JUMP_WINDOW = 9  # pixels in which the disparity's range is taken
JUMP = 3.0  # pixels of disparity: a jump of this size counts one half
FAR = 1e6  # pixels: beyond every disparity
TEXTURE_WINDOW = 11  # pixels
TEXTURE = 0.02  # mean |dI/du| of an image in [0, 1] that counts one half


def pair_cues(disparity: Floats, apart: Floats, image: Image) -> Floats:
    """(6, H, W) cues of a checked map; `apart` is its disagreement with the other image's map, pixels."""
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
    """(H, W) mean absolute second difference in a window, pixels; where unknown, of what is known around."""
    bends, amount = np.zeros(disparity.shape, np.float32), np.zeros(disparity.shape, np.float32)
    for axis in (0, 1):
        bend = np.full(disparity.shape, np.nan, np.float32)
        inner = (slice(1, -1), slice(None)) if axis == 0 else (slice(None), slice(1, -1))
        bend[inner] = np.abs(np.diff(disparity, n=2, axis=axis))
        bends += np.nan_to_num(bend)
        amount += ~np.isnan(bend)
    return (2 * mean(bends, ROUGHNESS_WINDOW) / np.maximum(mean(amount, ROUGHNESS_WINDOW), 1e-3)).astype(np.float32)


def mean(values: Floats, window: int) -> Floats:
    """(H, W) means over square windows."""
    cv2 = opencv()
    found: Floats = cv2.boxFilter(values, cv2.CV_32F, (window, window), borderType=cv2.BORDER_REFLECT_101)
    return found


def _extreme(values: NDArray[np.floating], which: str) -> Floats:
    cv2 = opencv()
    found: Floats = getattr(cv2, which)(values.astype(np.float32), np.ones((JUMP_WINDOW, JUMP_WINDOW), np.uint8))
    return found
