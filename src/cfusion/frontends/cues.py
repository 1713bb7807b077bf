"""Cues that distinguish right from wrong disparities of a matched pair, each in [0, 1], 0 = good.

Three of them are systematic: `front` and `behind` (at a jump of the disparity, on its near and its far side: surfaces
in front grow over their edges by half a window) and `flat` (without texture the regulariser decides). Such errors are
the same in every frame, so comparing frames cannot find them. A jump is a departure from the slope of the surface: a
road changes its disparity by a pixel every few rows, and has no edge there.
"""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image
from cfusion.frontends.opencv import opencv

Floats = NDArray[np.float32]
NAMES = ("apart", "lonely", "rough", "front", "behind", "flat")
SUPPORT_WINDOW = 15  # pixels, window of the share of unconfirmed pixels
ROUGHNESS_WINDOW = 5  # pixels, window over which second differences are averaged
JUMP_WINDOW = 9  # pixels, window in which a jump is looked for
JUMP = 3.0  # pixels of disparity at which a jump counts one half
SLOPE_WINDOW = 25  # pixels, window over which the slope of the surface is averaged
STEEPEST = 1.0  # pixels of disparity between neighbours of one surface: the gradient limit of stereo
LIKENESS_WINDOW = 9  # pixels, window in which the two images are compared
LEAST_CONTRAST = 1 / 255  # standard deviation of an image in [0, 1] below which a window has no pattern
AWAY = 10.0  # pixels from the nearest support point at which its absence counts one half
TEXTURE_WINDOW = 11  # pixels
TEXTURE = 0.02  # mean |dI/du| of an image in [0, 1] at which texture counts one half


def pair_cues(disparity: Floats, apart: Floats, image: Image) -> Floats:
    """Cues (6, H, W) of a checked map; `apart` is its disagreement with the other image's map in pixels."""
    known = np.isfinite(disparity)
    rough = roughness(disparity)
    front, behind = jumps(disparity)
    grey = image if image.ndim == 2 else image.mean(axis=2)
    texture = mean(np.abs(np.gradient(grey.astype(np.float32), axis=1)), TEXTURE_WINDOW)
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


def jumps(disparity: Floats) -> tuple[Floats, Floats]:
    """How far the surface around lies behind and before a pixel, (H, W) each in pixels: |d(q) - d(p) - g (q - p)|.

    The largest in a window; g is the slope of the surface. Zero where the pixel is unknown.
    """
    down, across = (slope(disparity, axis) for axis in (0, 1))
    reach = JUMP_WINDOW // 2
    height, width = disparity.shape
    padded = np.pad(disparity, reach, constant_values=np.nan)
    front, behind = np.zeros(disparity.shape, np.float32), np.zeros(disparity.shape, np.float32)
    for i in range(-reach, reach + 1):
        for j in range(-reach, reach + 1):
            there = padded[reach + i : reach + i + height, reach + j : reach + j + width]
            off = (there - disparity) - (i * down + j * across)
            np.fmax(behind, off, out=behind)
            np.fmax(front, -off, out=front)
    return front, behind


def slope(disparity: Floats, axis: int) -> Floats:
    """The mean change (H, W) from pixel to pixel along an axis in a window, without steps of STEEPEST and more."""
    change, amount = np.zeros(disparity.shape, np.float32), np.zeros(disparity.shape, np.float32)
    step = np.diff(disparity, axis=axis)
    with np.errstate(invalid="ignore"):
        same = np.abs(step) < STEEPEST
    before, after = ((slice(None),) * axis + (part,) for part in (slice(None, -1), slice(1, None)))
    for side in (before, after):
        change[side] += np.where(same, step, 0)
        amount[side] += same
    return (mean(change, SLOPE_WINDOW) / np.maximum(mean(amount, SLOPE_WINDOW), 1e-3)).astype(np.float32)


def unlikeness(disparity: Floats, left: Image, right: Image) -> Floats:
    """(1 - correlation) / 2 of windows (H, W) of both images where the map matches them, over its known pixels.

    1/2 without a pattern, and where the pixel is unknown.
    """
    cv2 = opencv()
    ours, theirs = (np.asarray(each if each.ndim == 2 else each.mean(axis=2), np.float32) for each in (left, right))
    height, width = disparity.shape
    known = np.isfinite(disparity)
    column = np.arange(width, dtype=np.float32)[None, :] - np.where(known, disparity, 0)
    row = np.repeat(np.arange(height, dtype=np.float32)[:, None], width, axis=1)
    there = cv2.remap(theirs, column.astype(np.float32), row, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
    one, other = (np.where(known, each, 0).astype(np.float32) for each in (ours, there))
    amount = np.maximum(mean(known.astype(np.float32), LIKENESS_WINDOW), 1e-3)
    first, second, squares, others, both = (
        mean(each, LIKENESS_WINDOW) / amount for each in (one, other, one * one, other * other, one * other)
    )
    least = np.float32(LEAST_CONTRAST**2)
    contrast = (np.maximum(squares - first**2, 0) + least) * (np.maximum(others - second**2, 0) + least)
    alike = np.where(known, (both - first * second) / np.sqrt(contrast), 0)
    found: Floats = np.clip((1 - alike) / 2, 0, 1).astype(np.float32)
    return found


def unsupported(away: Floats) -> Floats:
    """How little a plane between support points is worth (H, W), by the distance from the nearest one in pixels."""
    found: Floats = (1 - AWAY / (AWAY + away)).astype(np.float32)
    return found


def mean(values: Floats, window: int) -> Floats:
    """Means (H, W) over square windows."""
    cv2 = opencv()
    found: Floats = cv2.boxFilter(values, cv2.CV_32F, (window, window), borderType=cv2.BORDER_REFLECT_101)
    return found
