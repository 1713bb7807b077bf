"""The noise of each raster, estimated from the differences between rasters.

    NMAD(d_j - d_k)^2 = s_j^2 + s_k^2        for every pair that overlaps, offsets removed

solved by least squares. Two rasters get equal shares; a single one is judged by its second differences.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import SMALL
from cfusion.rasters.ground import FEWEST, nmad

LEAST_SHARE = 0.1  # of the median scale: no raster is taken to be better than that
APART = 1.25  # ratio of scales below which rasters have equal weights
ROUGHNESS = float(np.sqrt(6))  # standard deviation of a second difference of unit noise

Floats = NDArray[np.floating]


def noise_scales(heights: Floats) -> tuple[float, ...]:
    """The robust standard deviation of the errors of each of K maps (K, H, W)."""
    views = len(heights)
    pairs, squares = [], []
    for j in range(views):
        for k in range(j):
            difference = (heights[j] - heights[k]).ravel()
            difference = difference[np.isfinite(difference)]
            if difference.size >= FEWEST:
                pairs.append((j, k))
                squares.append(nmad(difference) ** 2)
    rough = [_roughness(each) for each in heights]
    if not pairs:
        return tuple(rough)
    design = np.zeros((len(pairs) + views, views))
    wanted = np.zeros(len(pairs) + views)
    for row, ((j, k), square) in enumerate(zip(pairs, squares, strict=True)):
        design[row, [j, k]] = 1
        wanted[row] = square
    shared = float(np.mean(squares)) / 2
    tie = 1e-3 if views > 2 else 1.0  # ties scales to each other where pairs do not determine them
    for k in range(views):
        design[len(pairs) + k, k], wanted[len(pairs) + k] = tie, tie * shared
    variances = np.linalg.lstsq(design, wanted, rcond=None)[0]
    least = (LEAST_SHARE**2) * max(float(np.median(np.maximum(variances, 0))), SMALL)
    return tuple(float(np.sqrt(max(value, least))) for value in variances)


def raster_weights(scales: Sequence[float]) -> tuple[float, ...]:
    """Weights (K,): 1 / variance, scaled to 1 for the median raster; all 1 if they hardly differ."""
    known = np.asarray(scales, np.float64)
    usual = float(np.median(known))
    if usual <= 0 or known.max() <= APART * known.min():
        return (1.0,) * len(known)
    return tuple(float((usual / value) ** 2) for value in np.maximum(known, LEAST_SHARE * usual))


def _roughness(heights: Floats) -> float:
    second = np.diff(heights.astype(np.float64), n=2, axis=1).ravel()
    second = second[np.isfinite(second)]
    return nmad(second) / ROUGHNESS if second.size else 0.0
