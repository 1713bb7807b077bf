"""The standard deviation of the fused depth's error.

    sigma^2 = F + (r 0.3^2 + delta^2 / 2) slope^2 / n + rho (s^2 - q^2) + 3 few^2 s^2 + (1 - p) relief^2 / 3
    F = (1 + 3.7 rim)^2 (0.8 V + 0.03 bend^2);    few = max(0, 1 - n / min(0.6 K, 5))

V       variance of the fit x to all observations, from its distance to the fit y to half of them, of weight n, without
        those of weight m: (x - y)^2 n / m, pooled near the pixel over both kinds of halves. Without halves F is s^2; of
        maps that cannot be compared (one, or copies of one), V is that of a half of the pixels, F is 1.7 V, and r is 1.
        V is at least what the views' mean residuals in a tile of the image tell (`far`)
rim     share of unknown pixels in the square around the pixel, within the image: beside them one side alone tells
bend    second difference of the surface over the distance that it is smoothed over, s / sqrt(4 n V) pixels, at most
        10 sqrt(V): smoothing flattens curved surfaces, alike in both halves, and leaves planes as they are
slope   of the surface between pixels: a reading is displaced by `delta` pixels by pose errors, and by 0.3 in maps
        rounded so coarsely that most of their errors are zero (r, from c): halves do not show that
rho     share of the error common to views of one sensor: 1.1 c^2 if a view's errors on flat ground are correlated over
        two pixels (rho_2 > 0.22, partly from 0.12 on), and over eight pixels less (by 0.15, partly from 0.1 on). Errors
        equally correlated over eight are of a pose, which halves show, or of a view so wide that many pixels read one
        of its own. c is the size of the median error over that of a Gaussian with the same mean size: the part of s
        that is due to few gross errors is not shared
s       standard deviation of one observation around the pixel; the median one if nothing can be compared
few     n observations of K views: few of them are no average
q^2     step^2 / 12 for depths in steps (`rounding`), over which observations are spread at random: not shared
relief  distance to another surface near an edge, beyond what the own slope explains; the pixel belongs to that surface
        with probability 1 - p, anywhere between the two (on it, not a third, where one view alone saw the pixel)

All but the last are together at least q^2 (0.175 - (s / step)^2) / 0.077 of depths in steps, at most q^2: if all
observations around are on one level, s is that of a uniform distribution, and the surface may be anywhere within the
step; on a slope, and between two levels, s is that of a triangular one, and their shares tell. At least (step / 20)^2
remains, as within a step they are not uniform.
Where views were moved, the depth is that of the reference's own pose. With the other views' poses it would differ: a
quarter of the change from there to the mean of all poses is added to sigma, and so is the standard error of the median
of the views' scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cfusion.arrays import OVER_MEAN, OVER_MEDIAN, SMALL, TINY, chunks
from cfusion.auto.halves import Half
from cfusion.auto.pooling import PASSES, pooled_mean, ratio
from cfusion.auto.surface import where_known
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, by_view, one_pass
from cfusion.kernels.tracing import neighbour, row_and_column
from cfusion.source import Motions

RADIUS, NEAR = 8, 2  # pixels over which residuals and single halves, and pairs of halves, are pooled
OF_HALVES, OF_BEND, MOST_BENT = 0.8, 0.03, 10.0  # parts of F, and the largest bend, in sqrt(V)
AT_RIMS = 3.7  # factor on its root, for a pixel among unknown ones
RIM_RADIUS = 4  # pixels
BENDS = (1, 2, 4, 8, 16)  # pixels: distances of second differences, between which the bend is interpolated
ALONE = 1.7  # times V, for a single map
PIXEL_ERROR = 0.3  # pixels: the deviation of rounding to the nearest one
ENOUGH_VIEWS, ENOUGH = 0.6, 5.0  # of all views; at most this many
FEW = 3.0  # times s^2, if almost no view measured the pixel
BETWEEN = 1 / 3  # of relief^2: mean square distance of a point uniformly distributed between two surfaces
RELIEF_RADIUS = 4  # pixels within which another surface may be mistaken for this one
STEEP = 4.0  # times the median relief is an edge
OWN_SLOPE = 1.3  # times the relief of a plane with the surface's slope: not all slopes are planes
LAG, FAR_LAG = 2, 8  # pixels: neighbours share the pixels they are interpolated from, distant pixels a pose
BY_CHANCE = 0.12, 0.1  # autocorrelation, and difference of two, of independent noise: flat views read a pixel often
CERTAIN = 0.1  # more than that, and views certainly share their errors
SHARED = 1.1  # of the variance of a median error
LEAST_MASS = 0.02  # of a square: with fewer pixels, halves are no evidence for its middle
LEAST_WEIGHT = SMALL  # of the observations of a pixel or a square of a step
LEAST_HALF = 0.1  # of the weight of a pair: a lighter half tells little about the other
ROUNDED = 0.4, 0.2  # c of maps of which some errors are zero by rounding, and of which most are
LARGEST_DELTA = 3.0  # pixels
UNIFORM = 1 / 12  # variance of a uniform distribution, over the square of its width
ONE_LEVEL, TWO_LEVELS = (OVER_MEAN / 4) ** 2, (OVER_MEAN / 3) ** 2  # s^2 of uniform, triangular distributions, step^2
WITHIN_STEP = 1 / 20  # of a step: observations are not uniformly distributed within it
TOWARDS_MEAN = 0.25  # of the distance to the mean pose: the truth may be the reference's own pose, or the mean


def variance_of_halves(
    halves: Sequence[Half],
    whole: Floats,
    by_pixels: Callable[[Mask], Half | None],
    unit: Floats,
    backend: Backend,
) -> Floats:
    """V (H, W) in the unit of the noise, NaN if there is no estimate; `unit` is that of x, and `whole` is x.

    `by_pixels` gives a half for the pixels (H, W) without an estimate, if that is worthwhile.
    """
    apart = _from_whole(unit, whole, *_parts(halves)) if halves else np.zeros_like(unit, shape=(2, *unit.shape))
    variance, untold = _variance_of(*backend.pooled(apart, NEAR, PASSES))
    last = by_pixels(untold)
    if last is None:
        return variance
    apart = _from_whole(unit, whole, *_parts([last]))
    return _or_told(variance, untold, *_variance_of(*backend.pooled(apart, RADIUS, PASSES)))


def _parts(halves: Sequence[Half]) -> list[Floats]:
    return [each for half in halves for each in (half.x, half.n, half.left_out)]


@one_pass
def _from_whole(unit: Floats, whole: Floats, *parts: Floats) -> Floats:
    """(2, H, W): the number of halves that tell, and the sum of their distances |y - x| sqrt(n / m) from the whole x.

    `parts` are y and the weights n and m of the observations with and without which it was fitted, for each half.
    """
    mass: Any = np.float32(0)
    sizes: Any = np.float32(0)
    for y, n, m in zip(*(parts[k::3] for k in range(3)), strict=True):
        apart = np.abs(y - whole) * np.sqrt(n / np.maximum(m, LEAST_WEIGHT)) / unit
        told = ~np.isnan(apart) & (np.minimum(n, m) > LEAST_HALF * (n + m))
        mass, sizes = mass + told.astype(np.float32), sizes + np.where(told, apart, 0).astype(np.float32)
    out: Floats = np.stack([mass, sizes])
    return out


@one_pass
def _variance_of(mass: Floats, sizes: Floats) -> tuple[Floats, Mask]:
    """V (H, W) from the pooled sums near a pixel, NaN where these do not suffice, and where that is."""
    untold = mass <= LEAST_MASS
    mean = np.maximum(sizes, 0) / np.maximum(mass, LEAST_MASS)
    return np.where(untold, np.nan, np.square(OVER_MEAN * mean)), untold


@one_pass
def _or_told(variance: Floats, untold: Mask, other: Floats, neither: Mask) -> Floats:
    return np.where(untold & ~neither, other, variance)


def spread(residuals: Floats, backend: Backend) -> tuple[Floats, Floats]:
    """The local standard deviation (H, W) of one observation, and n; residuals are (K, H, W), NaN if missing."""
    n, size = added_up(_sizes, residuals)
    mean, free = _mean_size(n, size)
    return OVER_MEAN * pooled_mean(mean, free, RADIUS, backend), n


def _sizes(residuals: Floats) -> tuple[Floats, Floats]:
    return (~np.isnan(residuals)).astype(np.float32), np.nan_to_num(np.abs(residuals))


@one_pass
def _mean_size(n: Floats, size: Floats) -> tuple[Floats, Floats]:
    """The mean size (H, W) of n residuals, and their degrees of freedom: a fit leaves sqrt(n (n - 1)) of their size."""
    free = np.sqrt(n * np.maximum(n - 1, 0))
    return size / np.maximum(free, 1), free


def autocorrelation(residuals: Floats, lag: int = LAG, where: Mask | None = None) -> float:
    """rho of views' residuals along rows and columns, at least zero; of those in a mask (H, W), if given.

    By signs, so that a few large errors do not dominate: sin(pi/2 mean) for Gaussian errors.
    """
    products, pairs = np.sum(by_view(lambda part: _products(part, where, lag=lag), residuals), axis=0).tolist()
    return max(0.0, float(np.sin(np.pi / 2 * products / max(pairs, 1.0))))


@one_pass
def _products(residuals: Floats, where: Mask | None, *, lag: int) -> tuple[float, float]:
    """The sum of products of signs `lag` rows or columns apart, and the number of nonzero ones."""
    known = ~np.isnan(residuals) if where is None else ~np.isnan(residuals) & where
    sign = np.where(known, np.sign(residuals), 0)
    down, across = sign * neighbour(sign, lag, 0, 0), sign * neighbour(sign, 0, lag, 0)
    products, pairs = (down + across).sum(dtype=np.float64), (np.abs(down) + np.abs(across)).sum(dtype=np.float64)
    return products, pairs


def shared_with_neighbours(residuals: Floats, usual_share: float = 1.0, flat: Mask | None = None) -> float:
    """rho: the share of the variance of residuals (K, H, W) that neighbours share, but not whole views.

    Computed on flat ground (H, W), if given: on a slope neighbours are misread alike.
    """
    near, far = (autocorrelation(residuals, lag, flat) for lag in (LAG, FAR_LAG))
    alike = min(near - BY_CHANCE[0], 2 * (near - far - BY_CHANCE[1])) / CERTAIN
    return SHARED * min(max(alike, 0.0), 1.0) * usual_share**2


def usual_share(residuals: Floats, backend: Backend) -> float:
    """c: the median size of residuals (K, H, W) over that of a Gaussian with the same mean size, at most 1."""
    return _share_and_views(residuals, backend)[0]


def _share_and_views(residuals: Floats, backend: Backend) -> tuple[float, int]:
    """`usual_share`, and the number of views with any residual."""
    usual, total, views = 0.0, 0.0, 0
    for part in chunks(residuals):
        sizes, added = _sizes_and_sum(part)
        middles, counts = backend.medians(sizes)
        usual += sum(median * count for median, count in zip(middles, counts, strict=True) if count)
        total += float(added)
        views += sum(count > 0 for count in counts)
    return min(1.0, OVER_MEDIAN * usual / (OVER_MEAN * total)) if total > 0 else 1.0, views


@one_pass
def _sizes_and_sum(residuals: Floats) -> tuple[Floats, Any]:
    size = np.abs(residuals)
    return size, np.nan_to_num(size).sum(dtype=np.float64)


def registration_error(residuals: Floats, slope: Floats, deviation: Floats) -> float:
    """delta in pixels: growth of residuals with the slope, residual^2 = s^2 + delta^2 slope^2."""
    excess, ground = _excess(residuals, slope, deviation)
    return float(np.sqrt(np.clip(excess / max(float(ground), SMALL), 0, LARGEST_DELTA**2)))


@one_pass
def _excess(residuals: Floats, slope: Floats, deviation: Floats) -> tuple[Any, Any]:
    """The sums of residual^2 - s^2 and of slope^2 where it is steep, but not too steep."""
    steep = np.isfinite(slope) & (slope > deviation) & (slope < 20 * deviation)
    inside = np.where(np.isnan(residuals), 0, np.abs(residuals)) * steep
    known = ~np.isnan(residuals) & steep
    size = inside.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    weigh = known.any(axis=0)
    excess = np.where(weigh, np.square(OVER_MEAN * size) - np.square(deviation), 0)
    return excess.sum(), np.where(weigh, np.square(slope), 0).sum()


def deviation(
    residuals: Floats,
    x: Floats,
    x_unit: Floats,
    slope: Floats,
    unit: Floats,
    variance_of_fits: Floats,
    step: Floats,
    backend: Backend,
) -> tuple[Floats, Floats]:
    """sigma (H, W) in the unit of depth if the pixel is of this surface, and n.

    residuals (K, H, W), slope, V and the step of rounded depths (or zero) are in the unit of the noise, `unit` is that
    unit in depth, and `x_unit` that unit in the variable of the solve, x.
    """
    s, n = spread(residuals, backend)
    share, views = _share_and_views(residuals, backend)
    rho = shared_with_neighbours(residuals, share, _flat(slope, s))
    delta = registration_error(residuals, slope, s)
    (usual,), (known,) = backend.medians(_where_any(n, s)[None])
    around = ratio(*backend.pooled(_inside_and_known(x), RIM_RADIUS, 1))
    sigma = _deviation(
        variance_of_fits,
        s,
        n,
        _bend(x, x_unit, s, n, variance_of_fits),
        around,
        slope,
        step,
        unit,
        usual if known else 0.0,
        PIXEL_ERROR**2 * rounded(share) + delta**2 / 2,
        rho,
        min(ENOUGH_VIEWS * max(views, 1), ENOUGH),
        compared=bool(known and usual > 0),
    )
    return sigma, n


def relief_beyond_slope(depth: Floats, backend: Backend) -> Floats:
    """The range (H, W) of depths around a pixel, also across a hole, beyond what the own slope explains."""
    out: Floats = _beyond_slope(backend.local_depth_range(depth, RELIEF_RADIUS), depth)
    return out


def or_of_another_surface(sigma: Floats, n: Floats, depth: Floats, wrong: Floats, backend: Backend) -> Floats:
    """sigma (H, W) of a pixel that is of another surface nearby with probability `wrong`; NaN without observation."""
    relief = relief_beyond_slope(depth, backend)
    (rough,), (told,) = backend.medians(where_known(depth, relief)[None])
    return _or_of_another_surface(sigma, n, relief, wrong, STEEP * (rough if told else 0.0))


@one_pass
def _or_of_another_surface(sigma: Floats, n: Floats, relief: Floats, wrong: Floats, edge: float) -> Floats:
    other = np.where(n > 1, BETWEEN, 1) * wrong * np.square(np.where(relief > edge, relief, 0))
    out: Floats = np.where(n > 0, np.sqrt(np.square(sigma) + other), np.nan).astype(np.float32)
    return out


def rounded(share: float) -> float:
    """r: 1 if c shows that most errors are zero, as in coarsely rounded maps, and 0 if few are."""
    some, most = ROUNDED
    return min(max((some - share) / (some - most), 0.0), 1.0)


@one_pass
def _flat(slope: Floats, s: Floats) -> Mask:
    """Pixels (H, W) where the surface changes by less than the noise between pixels."""
    out: Mask = np.abs(slope) < s
    return out


@one_pass
def _beyond_slope(relief: Floats, depth: Floats) -> Floats:
    """Relief (H, W) minus that of a plane with the slope of the surface's flatter side, along rows and columns."""
    slope = np.float32(0)
    for down, right in ((1, 0), (0, 1)):
        one, other = (np.abs(neighbour(depth, sign * down, sign * right, np.nan) - depth) for sign in (1, -1))
        flatter = np.where(np.isnan(one), other, np.where(np.isnan(other), one, np.minimum(one, other)))
        slope = slope + np.nan_to_num(flatter)
    out: Floats = np.maximum(relief - OWN_SLOPE * 2 * RELIEF_RADIUS * slope, 0).astype(np.float32)
    return out


@one_pass
def _inside_and_known(x: Floats) -> Floats:
    """(2, H, W): 1, and 1 where x is known, 0 elsewhere."""
    known = ~np.isnan(x)
    return np.stack([(known | ~known).astype(np.float32), known.astype(np.float32)])


@one_pass
def _bend(x: Floats, unit: Floats, s: Floats, n: Floats, variance_of_fits: Floats) -> Floats:
    """The larger second difference (H, W) of x along rows and columns, in the unit of the noise.

    Over s / sqrt(4 n V) pixels; one-sided beside unknown pixels.
    """
    length = s / np.sqrt(4 * np.maximum(n, 1) * np.maximum(variance_of_fits, TINY))
    out: Any = np.float32(0)
    for step in BENDS:
        largest: Any = np.float32(0)
        for down, right in ((step, 0), (0, step)):
            ahead, behind = (neighbour(x, sign * down, sign * right, np.nan) for sign in (1, -1))
            beyond, before = (neighbour(x, 2 * sign * down, 2 * sign * right, np.nan) for sign in (1, -1))
            one, other = np.abs(beyond - 2 * ahead + x), np.abs(before - 2 * behind + x)
            flatter = np.where(np.isnan(one), other, np.where(np.isnan(other), one, np.minimum(one, other)))
            both = np.abs(ahead - 2 * x + behind)
            largest = np.maximum(largest, np.nan_to_num(np.where(np.isnan(both), flatter, both)))
        out = out + np.clip(2 * length / step - 1, step == BENDS[0], 1) * (largest - out)
    bend: Floats = (out / unit).astype(np.float32)
    return bend


@one_pass
def _where_any(n: Floats, values: Floats) -> Floats:
    return np.where(n > 0, values, np.nan)


@one_pass
def _deviation(
    variance_of_fits: Floats,
    s: Floats,
    n: Floats,
    bend: Floats,
    around: Floats,
    slope: Floats,
    step: Floats,
    unit: Floats,
    usual: float,
    of_slope: float,
    rho: float,
    enough: float,
    *,
    compared: bool,
) -> Floats:
    """sigma (H, W); without halves, that of one observation, and at least the usual one."""
    steep = np.where(np.isfinite(slope), np.abs(slope), 0)
    count, s = np.maximum(n, 1), np.where(s > 0, s, usual)
    few = FEW * np.square(np.maximum(0, 1 - n / enough))
    untold = np.isnan(variance_of_fits)
    fits = np.where(untold, np.square(np.maximum(s, usual)), variance_of_fits)
    bias = OF_BEND * np.minimum(np.square(bend), MOST_BENT**2 * fits)
    of_fits = np.square(1 + AT_RIMS * (1 - around)) * (OF_HALVES * fits + bias) if compared else ALONE * fits
    off = (of_slope if compared else PIXEL_ERROR**2) / count
    square, rounding = np.square(s), UNIFORM * np.square(step)
    shared = (rho + few) * square - rho * np.minimum(rounding, square)
    variance = np.where(untold, fits, of_fits) + off * np.square(steep) + shared
    around_fit, level = square * (count - 1) / count, np.square(step)  # the fit is smooth: it follows none of n
    shown = (around_fit - ONE_LEVEL * level) / np.maximum((TWO_LEVELS - ONE_LEVEL) * level, LEAST_WEIGHT)
    hidden = np.maximum(rounding * (1 - np.clip(shown, 0, 1)), np.square(WITHIN_STEP * step))
    out: Floats = (np.sqrt(np.maximum(variance, hidden)) * unit).astype(np.float32)
    return out


def with_poses(sigma: Floats, depth: Floats, slope: Floats, motions: Motions, camera: Floats) -> Floats:
    """sigma (H, W) with the error of the scale, and a quarter of the surface's change D = w x X + t to the mean pose.

    D counts along z, and sideways over the slope.
    """
    to_mean = (TOWARDS_MEAN * each for each in motions.mean)
    numbers = np.concatenate([*to_mean, [motions.scale_error], camera[1:5]]).astype(np.float32)
    return _with_poses(sigma, depth, slope, *numbers, parallel=bool(camera[0] != 0))


@one_pass
def _with_poses(
    sigma: Floats, depth: Floats, slope: Floats,
    w_x: Any, w_y: Any, w_z: Any, t_x: Any, t_y: Any, t_z: Any, s: Any,
    f_x: Any, f_y: Any, c_x: Any, c_y: Any, *, parallel: bool,
) -> Floats:  # fmt: skip
    rows, columns = row_and_column(depth)
    far = np.float32(1) if parallel else depth
    x, y = (columns - c_x) / f_x * far, (rows - c_y) / f_y * far
    aside = (w_y * depth - w_z * y + t_x) * f_x / far, (w_z * x - w_x * depth + t_y) * f_y / far  # pixels
    away = w_x * y - w_y * x + t_z
    steep = np.square(np.where(np.isfinite(slope), slope, 0))
    squares = (
        np.square(sigma) + np.square(away) + np.square(s * depth) + (np.square(aside[0]) + np.square(aside[1])) * steep
    )
    out: Floats = np.sqrt(squares).astype(np.float32)
    return out
