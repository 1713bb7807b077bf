"""The standard deviation of the fused depth's error.

    sigma^2 = V + (0.3^2 + delta^2 / 2) slope^2 / n + (rho + max(0, 1 - n / (0.6 K))^2) s^2 + (1 - p) relief^2

V       what fits on halves of the observations differ by, pooled around the pixel and scaled to all observations, and
        how far their middle is from the fit on all: halves are smoothed more, so that is what smoothing costs
slope   of the surface from pixel to pixel: a reading is off by a fraction of a pixel, and by `delta` where poses are
rho     what views of one sensor share: how alike a view's errors are two pixels apart, 1.7 min(rho_2 - 0.2,
        2 (rho_2 - rho_8 - 0.1)); errors as alike eight pixels apart are of a pose, which the halves show
s       deviation of one observation around the pixel; n observations of K views: few are not an average
relief  how far another surface lies from this one, near an edge; the pixel is of it with probability 1 - p
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cfusion.arrays import chunks
from cfusion.auto.halves import Halves
from cfusion.auto.pooling import pooled_mean, pooled_sums
from cfusion.kernels.contract import Backend, Floats, Mask

GAUSS = 1.2533  # sqrt(pi / 2): deviation over mean size
RADIUS = 8  # pixels over which halves are compared
PIXEL_ERROR = 0.3  # pixels: the deviation of rounding to the nearest one
ENOUGH_VIEWS = 0.6  # of all
RELIEF_RADIUS = 4  # pixels within which another surface may be taken for this one
STEEP = 4.0  # times the usual relief is an edge
LAG, FAR_LAG = 2, 8  # pixels: neighbours share what they are interpolated from, and pixels far apart a pose
BY_CHANCE = 0.2, 0.1  # of an autocorrelation, and of a difference of two: what independent noise may come to
SHARED = 1.7, 2.0  # times an autocorrelation, and a difference of two, is the share of the variance
SMOOTHED, BIAS_RADIUS = 1.5, 3  # times the distance of the middle of two halves from the whole; pixels of its pooling
LEAST_MASS = 0.02  # of a square: with fewer pixels, halves tell nothing about its middle
LARGEST_DELTA = 3.0  # pixels


def variance_of_halves(
    halves: Sequence[Halves], whole: Floats, by_pixels: Callable[[Mask], Halves | None], unit: Floats, backend: Backend
) -> Floats:
    """(H, W) V in the unit of the noise, NaN where nothing tells; `unit` is that of x, which `whole` is.

    `by_pixels` gives halves for the pixels (H, W) that no other tells about, if that is worth it.
    """
    total, told = np.zeros_like(unit, np.float64), np.zeros_like(unit, np.float64)
    moved = np.zeros_like(unit)
    for each in halves:
        moved = moved + np.nan_to_num(each.middle() - whole) / len(halves)
        variance, tells = _variance(each, unit, backend)
        total += variance
        told += tells
    last = by_pixels(told == 0)
    if last is not None:
        variance, tells = _variance(last, unit, backend)
        tells &= told == 0
        total += np.where(tells, variance, 0)
        told += tells
    bias = SMOOTHED * pooled_mean(np.abs(moved / unit), ~np.isnan(unit), BIAS_RADIUS, backend)
    out: Floats = np.where(told > 0, total / np.maximum(told, 1) + np.square(bias), np.nan)
    return out


def _variance(halves: Halves, unit: Floats, backend: Backend) -> tuple[Floats, Mask]:
    """(H, W) V of one split, zero where it tells nothing, and where it does tell."""
    both_count = halves.n_one * halves.n_other
    n = np.maximum(halves.n_one + halves.n_other, 1)
    apart = np.abs(halves.one - halves.other) * np.sqrt(both_count) / n / unit
    both = ~np.isnan(apart) & (both_count > 0)
    mass, heaped = pooled_sums([both, np.where(both, apart, 0)], RADIUS, backend)
    tells = mass > LEAST_MASS
    return np.where(tells, np.square(GAUSS * np.maximum(heaped, 0) / np.maximum(mass, LEAST_MASS)), 0), tells


def spread(residuals: Floats, backend: Backend) -> tuple[Floats, Floats]:
    """(H, W) the local deviation of one observation, and n; residuals are (K, H, W), NaN where there is none."""
    n, size = np.zeros_like(residuals[0]), np.zeros_like(residuals[0])
    for part in chunks(residuals):
        n += (~np.isnan(part)).sum(axis=0, dtype=np.float32)
        size += np.nan_to_num(np.abs(part)).sum(axis=0)
    free = np.sqrt(n * np.maximum(n - 1, 0))  # a surface through n observations leaves that much of their size
    return GAUSS * pooled_mean(size / np.maximum(free, 1), free, RADIUS, backend), n


def autocorrelation(residuals: Floats, lag: int = LAG) -> float:
    """rho of views' residuals along rows and columns, not below zero.

    By signs, so that a few large errors do not count more than others: sin(pi/2 mean) for Gaussian errors.
    """
    sign = np.where(np.isnan(residuals), 0, np.sign(residuals))
    products = pairs = 0.0
    for one, other in ((sign[:, lag:], sign[:, :-lag]), (sign[:, :, lag:], sign[:, :, :-lag])):
        product = one * other
        products += float(product.sum())
        pairs += float((product != 0).sum())
    return max(0.0, float(np.sin(np.pi / 2 * products / max(pairs, 1.0))))


def shared_with_neighbours(residuals: Floats) -> float:
    """rho: the share of the variance of residuals (K, H, W) that neighbours share, but not whole views."""
    near, far = autocorrelation(residuals), autocorrelation(residuals, FAR_LAG)
    return SHARED[0] * max(0.0, min(near - BY_CHANCE[0], SHARED[1] * (near - far - BY_CHANCE[1])))


def registration_error(residuals: Floats, slope: Floats, deviation: Floats) -> float:
    """delta in pixels: by how much residuals grow with the slope, residual^2 = s^2 + delta^2 slope^2."""
    steep = np.isfinite(slope) & (slope > deviation) & (slope < 20 * deviation)
    if not bool(steep.any()):
        return 0.0
    inside = np.where(np.isnan(residuals), 0, np.abs(residuals)) * steep
    known = ~np.isnan(residuals) & steep
    size = inside.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    weigh = known.any(axis=0)
    excess = np.where(weigh, np.square(GAUSS * size) - np.square(deviation), 0)
    ground = np.where(weigh, np.square(slope), 0)
    return float(np.sqrt(np.clip(excess.sum() / max(float(ground.sum()), 1e-30), 0, LARGEST_DELTA**2)))


def deviation(
    residuals: Floats,
    depth: Floats,
    slope: Floats,
    unit: Floats,
    variance_of_fits: Floats,
    wrong: Floats,
    backend: Backend,
) -> Floats:
    """(H, W) sigma in the unit of depth.

    residuals (K, H, W), slope and V are in the unit of the noise, `unit` is that in the unit of depth; `wrong` is the
    probability of another surface. NaN where nothing was observed.
    """
    s, n = spread(residuals, backend)
    rho = shared_with_neighbours(residuals)
    delta = registration_error(residuals, slope, s)
    steep = np.square(np.where(np.isfinite(slope), slope, 0))
    views = max(int((~np.isnan(residuals)).any(axis=(1, 2)).sum()), 1)  # that observed anything
    few = np.square(np.maximum(0, 1 - n / (ENOUGH_VIEWS * views)))
    (usual,), (known,) = backend.medians(np.where(n > 0, s, np.nan)[None])
    untold = np.square(np.maximum(s, usual if known else 0.0))  # as sure as one observation
    variance = (
        np.where(np.isnan(variance_of_fits), untold, variance_of_fits)
        + (PIXEL_ERROR**2 + delta**2 / 2) / np.maximum(n, 1) * steep
        + (rho + few) * np.square(s)
    )
    other = wrong * np.square(_edge_relief(depth, backend))
    out: Floats = np.where(n > 0, np.sqrt(variance * np.square(unit) + other), np.nan).astype(np.float32)
    return out


def _edge_relief(depth: Floats, backend: Backend) -> Floats:
    """(H, W) the relief around each pixel where that is an edge, zero elsewhere."""
    found = backend.local_depth_range(depth, RELIEF_RADIUS)
    (usual,), (known,) = backend.medians(np.where(np.isnan(depth), np.float32(np.nan), found)[None])
    out: Floats = np.where(found > STEEP * (usual if known else 0.0), found, 0)
    return out
