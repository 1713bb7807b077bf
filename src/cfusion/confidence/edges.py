"""Edges of an image as weights of the regulariser: less smoothing across an outline."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image, WeightMap
from cfusion.errors import InputError, ShapeError

Plane = NDArray[np.float64]  # (H, W)

LUMA = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)
# The 5-tap derivative and its companion across, optimised together so that the gradient rotates with the image
# (Farid and Simoncelli, 2004); normalised so that constants and ramps are exact.
_SMOOTHER = np.array([0.037659, 0.249153, 0.426375, 0.249153, 0.037659])
_DERIVATIVE = np.array([-0.109604, -0.276691, 0.0, 0.276691, 0.109604])
SMOOTHER = _SMOOTHER / _SMOOTHER.sum()
DERIVATIVE = _DERIVATIVE / (_DERIVATIVE @ np.arange(-2, 3))
LEAST_EIGENVALUE = 1e-6  # of the tensor, so that it is invertible in float32


def edge_weight(image: Image, factor: float = 2.0, exponent: float = 1.5) -> WeightMap:
    """g = exp(-factor |grad I|^exponent), (H, W) in (0, 1]; grad I per pixel of an image in [0, 1]."""
    weight: WeightMap = _decay(np.hypot(*gradient(grey(image))), factor, exponent).astype(np.float32)
    return np.maximum(weight, np.finfo(np.float32).tiny)


def nagel_enkelmann(image: Image, factor: float = 2.0, exponent: float = 1.5) -> NDArray[np.float32]:
    """D^(1/2) with D = exp(-factor |grad I|^exponent) n n^T + m m^T, n = grad I / |grad I| and m orthogonal to n.

    (H, W, 3): the components xx, xy, yy of the symmetric root, with eigenvalues in (0, 1]; the identity where the image
    is flat. The regulariser is weaker across an image edge, but not along it.
    """
    along_x, along_y = gradient(grey(image))
    length = np.hypot(along_x, along_y)
    root = np.maximum(np.sqrt(_decay(length, factor, exponent)), LEAST_EIGENVALUE)
    safe = np.where(length > 0, length, 1.0)  # where the gradient vanishes the root is 1, whatever its direction
    nx, ny = along_x / safe, along_y / safe
    missing = 1.0 - root
    return np.stack([1 - missing * nx * nx, -missing * nx * ny, 1 - missing * ny * ny], axis=-1).astype(np.float32)


def grey(image: Image) -> Plane:
    """(H, W) luma of a grey (H, W) or RGB (H, W, 3) image."""
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim == 3 and pixels.shape[-1] == 3:
        pixels = pixels @ np.array(LUMA)
    if pixels.ndim != 2:
        raise ShapeError(f"the image is {pixels.shape}; give (H, W) or (H, W, 3)")
    if not np.isfinite(pixels).all():
        raise InputError("the image holds NaN or infinite values; replace them before taking edges")
    return pixels


def gradient(plane: Plane) -> tuple[Plane, Plane]:
    """dI/dx and dI/dy per pixel by the 5-tap pair; the border is extrapolated linearly."""
    along_x = _filter(_filter(plane, DERIVATIVE, 1, odd=True), SMOOTHER, 0, odd=True)
    along_y = _filter(_filter(plane, DERIVATIVE, 0, odd=True), SMOOTHER, 1, odd=True)
    return along_x, along_y


def blur(plane: Plane, sigma: float) -> Plane:
    """Gaussian blur with a standard deviation of sigma pixels, truncated at 4 sigma; mirrored at the border."""
    if sigma == 0:
        return plane
    reach = ceil(4 * sigma)
    taps = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    taps /= taps.sum()
    return _filter(_filter(plane, taps, 0, odd=False), taps, 1, odd=False)


def _filter(plane: Plane, taps: Plane, axis: int, *, odd: bool) -> Plane:
    """Correlation along one axis; the border continues oddly (keeping the slope) or mirrored (keeping the value)."""
    reach = len(taps) // 2
    width = [(0, 0), (0, 0)]
    width[axis] = (reach, reach)
    mirrored = np.pad(plane, width, mode="symmetric")
    padded = np.pad(plane, width, mode="reflect", reflect_type="odd") if odd else mirrored
    length = plane.shape[axis]
    out = np.zeros_like(plane)
    for start, tap in enumerate(taps):
        window = slice(start, start + length)
        out += tap * (padded[window] if axis == 0 else padded[:, window])
    return out


def _decay(length: Plane, factor: float, exponent: float) -> Plane:
    for name, value in (("factor", factor), ("exponent", exponent)):
        if not 0 < value < np.inf:
            raise InputError(f"{name} is {value}; give a finite number > 0")
    return np.exp(-factor * length**exponent)
