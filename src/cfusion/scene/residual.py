"""A fused map moved towards the view's own measurements, before maps are merged."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import OVER_MEDIAN, DepthMap

SHARE = 1 / 3  # of the residual that is given back
KERNEL = np.array([1, 4, 6, 4, 1]) / 16  # along each axis: a variance of one square pixel
OUTLIER = 4.0  # standard deviations of the residuals, by their median, beyond which one is a gross error
ENOUGH = 0.3  # least weight of measured pixels under the kernel


def towards_measured(depth: DepthMap, measured: DepthMap) -> DepthMap:
    """Depth (H, W) moved by a share of what the view itself measured there, averaged over a pixel or two:

        d + SHARE . k * (m - d)

    A fused map is as smooth as the noise of its own views asks for. Cloud and mesh average several such maps, and the
    noise of each view's own measurements with them; what smoothing took away is the same in all maps and would stay.
    It is most at the last pixels of a surface that turns away from the camera: fused maps lie before it.
    """
    residual = measured.astype(np.float64) - depth
    known = np.isfinite(residual)
    if not known.any():
        return depth
    limit = OUTLIER * OVER_MEDIAN * float(np.median(np.abs(residual[known])))
    with np.errstate(invalid="ignore"):
        known &= np.abs(residual) <= limit
    weight = _smoothed(known.astype(np.float64))
    mean = _smoothed(np.where(known, residual, 0.0)) / np.maximum(weight, ENOUGH)
    return (depth + np.where(weight > ENOUGH, SHARE * mean, 0.0)).astype(depth.dtype)


def _smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values (H, W) convolved with the kernel along both axes; 0 outside."""
    for _ in range(2):
        padded = np.pad(values, ((len(KERNEL) // 2,) * 2, (0, 0)))
        values = sum(each * padded[start : start + len(values)] for start, each in enumerate(KERNEL)).T
    return values
