"""The noise model, used by everything that weighs an observation or estimates its error.

The error of view k's measurement at pixel i is Laplace with a scale that is a product: growth with depth
(`depth_noise`), times the noise of the view (`view_scales`), increased at edges by the sub-pixel error of a reading
(`weigh_edges`), and, if that predicts held-out observations better, times the noise of the view's own map around the
pixel (`local_weights`). Views that share their errors count as one (`share_errors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import TINY, DepthMap, chunks, some_columns, stride_for
from cfusion.auto.far import share_of_far
from cfusion.auto.settings import NO_NOISE
from cfusion.auto.surface import local_slope, steps
from cfusion.geometry import Camera, Pinhole, Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.depth_noise import CONSTANT, DepthNoise, binned, exponent, sizes_over_depth, unit_of
from cfusion.kernels.one_pass import one_pass, rewrite, times
from cfusion.kernels.tracing import picked
from cfusion.kernels.weighted_middle import weighted_middle
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.task import Task

LAPLACE_MEDIAN = float(np.log(2.0))  # median of |t| over the scale, Laplace distribution
VIEW_RATIO = 1.25  # ratio of noise below which views have equal weights
SMALLEST_WEIGHT = 0.05
LEAST_SIDE = 0.2  # of a view's residuals: with fewer on one side of the surface, the view is biased
SAMPLE, FEWEST = 5_000, 50  # pixels from which a view's noise is estimated, and the fewest
PAIR_ROUNDS, PAIRS_AT_ONCE, SETTLED = 100, 1000, 1e-3
BIASED = 0.1  # of its least squared distance: a view with a square below -0.1 of it lies between biased views
QUIETEST = 1e-3  # of the median noise: lower limit for a view
SHARED = 0.05  # of the median difference between two views: closer views share their errors
SCALE_SAMPLE = 50_000  # pixels of a view from which medians of its residuals are taken
GROWTH_SAMPLE = 10_000  # observations from which the growth of noise is estimated
WEIGHT_SAMPLE = 100_000  # observations from which the usual weight is taken
STEREO_SLOPE = 1.0  # exponents above it are nearer to stereo's (2) than to a constant (0)
QUANTILE_SAMPLE = 20_000  # pixels from which the quantile of the slope is taken
PIXEL_ERROR = 0.3  # pixels: standard deviation of rounding to the nearest pixel
BETWEEN_PIXELS = 0.1  # pixels: the same between pixels, of views that are quiet enough to be interpolated
Sides = list[tuple[int, int]]  # (K,) numbers of residuals in a sample: behind the surface, and in front of it
MOST_EXACT = 1e-5  # of the median depth: quieter maps are exact, and differ by what a reading is off


def depth_noise(depths: NDArray[Any], surface: DepthMap, backend: Backend) -> DepthNoise:
    """The growth of noise with depth, from the residuals of a sample."""
    middle, bins = sizes_over_depth(surface, depths, stride_for(depths.size, GROWTH_SAMPLE))
    if np.isnan(middle):
        return CONSTANT
    found = DepthNoise.fitted(middle, bins)
    return found if found.even(inverse=False) or not _not_positive(surface) else replace(CONSTANT, middle=middle)


@one_pass
def _not_positive(surface: DepthMap) -> Any:
    """How many depths are zero or negative."""
    return (surface <= 0).sum()


def stereo_like(task: Task) -> bool:
    """Whether the noise grows like stereo's, so that it is uniform in inverse depth."""
    stack, backend = task.stack, task.backend
    if not isinstance(stack.camera, Pinhole) or stack.views < 2 or task.least <= 0:
        return False
    start, total = task.start, task.observations.total
    every = stride_for(start.size, GROWTH_SAMPLE)
    misfit = backend.misfit(task.problem(fixed_confidence(task)), start)
    maps = _together(*(each[::every, ::every] for each in (start, total, misfit)))
    start, total, misfit = backend.to_host(maps).astype(np.float64)
    one = 1.0 if stack.weights is None else usual_weight(stack.weights)
    spread = misfit / np.maximum(total, TINY)
    return exponent(*binned(start + task.centre, np.where(total > one, spread, np.nan))) > STEREO_SLOPE


@one_pass
def _together(*maps: Floats) -> Floats:
    """The maps as a stack, in one launch."""
    return np.stack(maps)


def usual_weight(weights: Floats) -> float:
    """The weight below which half of the total weight lies, from a sample: many tiny weights do not change it."""
    return weighted_middle(weights, stride_for(weights.size, WEIGHT_SAMPLE)) or 1.0  # all weights are zero


def usual_slope(surface: DepthMap, growth: DepthNoise, backend: Backend) -> float:
    """The median change of the surface between neighbouring pixels, in the noise unit of the median depth."""
    changes = _step_sizes(surface, *growth.numbers, law=growth.law)
    (median,), (known,) = backend.medians(changes[None])
    return median if known else 0.0


@one_pass
def _step_sizes(surface: DepthMap, *numbers: np.float32, law: DepthNoise) -> Floats:
    """Sizes (2, H, W) of `steps` in the unit of the noise."""
    unit = unit_of(surface, *numbers, law=law)
    out: Floats = np.stack([np.abs(step) / unit for step in steps(surface)])
    return out


def reading_error(camera: Camera | None, depth: float, pixels: float = BETWEEN_PIXELS) -> float:
    """The error of a reading at this depth, so many pixels off on a surface at 45 degrees; 0 unless perspective.

    Smaller differences say nothing about a surface, however quiet the views.
    """
    return pixels * depth / camera.fx if isinstance(camera, Pinhole) else 0.0


def least_scale(depth: float, *, perspective: bool) -> float:
    """The least noise at this depth; 0 unless perspective, as heights have no zero."""
    return MOST_EXACT * depth if perspective else 0.0


def residual_scales(residuals: NDArray[Any], backend: Backend, least: float = 0.0) -> tuple[list[float], Sides]:
    """The Laplace scale of each view's residuals (K, H, W), by their median size, and how many lie on either side.

    Occluders are always in front of the surface: the scale is that of the quieter side, unless the view is biased.
    No scale is below the least one, or louder than views can be.
    """
    out, each_side = [], []
    for part in chunks(some_columns(residuals, SCALE_SAMPLE)):
        (size, *sides), (count, *counts) = (
            np.reshape(each, (3, -1)).tolist() for each in backend.medians(part, sides=True)
        )
        for all_of, n, above, below, n_above, n_below in zip(size, count, *sides, *counts, strict=True):
            two_sided = min(n_above, n_below) >= LEAST_SIDE * n > 0 and 2 * (n_above + n_below) > n  # else most are 0
            out.append(max((min(above, below) if two_sided else all_of) / LAPLACE_MEDIAN, least))
            each_side.append((n_above, n_below))
    return not_too_loud(out), each_side


def not_too_loud(scales: list[float]) -> list[float]:
    """Scales (K,), at most 20 times their median: a view that looks at another surface is not noisy.

    With a scale of its residuals it would support everything.
    """
    most = middle_of(scales) / SMALLEST_WEIGHT
    return [min(scale, most) if most > 0 else scale for scale in scales]


def middle_of(numbers: Sequence[float]) -> float:
    """The median of the known ones of a few numbers; NaN if there are none."""
    known = sorted(each for each in numbers if each == each)
    half = len(known) // 2
    return float("nan") if not known else known[half] if len(known) % 2 else (known[half - 1] + known[half]) / 2


def weigh_views(
    weights: NDArray[Any], depths: NDArray[Any], surface: DepthMap, growth: DepthNoise, backend: Backend
) -> bool:
    """Weigh views by 1 / noise scale; return False if they are alike.

    Errors that reach far across the image are few: two views may be alike by chance, which is no reason to follow them.
    Then only what is louder than usual counts less.
    """
    scales = view_scales(weights, depths, surface, growth, backend)
    if scales is None or scales.max() <= VIEW_RATIO * scales.min():
        return False
    factors = np.clip(np.median(scales) / scales, SMALLEST_WEIGHT, 1 / SMALLEST_WEIGHT)
    if factors.max() > VIEW_RATIO:
        sample = backend.to_host(_sample_of(weights, depths, surface, growth))
        factors = np.minimum(factors, factors ** (1 - share_of_far(sample)))
    rewrite(times, (weights,), weights, factors.astype(np.float32)[:, None, None])
    return True


def view_scales(
    weights: NDArray[Any], depths: NDArray[Any], surface: DepthMap, growth: DepthNoise, backend: Backend
) -> NDArray[np.float64] | None:
    """The noise (K,) of each view, from the differences between views: s_j^2 + s_k^2 for every pair.

    The surface is not used: a view that it follows closely would seem quieter than it is.
    """
    views = len(depths)
    if views < 3:
        return None
    distances = view_distances(_sample_of(weights, depths, surface, growth), backend)
    if np.isfinite(distances).sum() != views * (views - 1):
        return None
    tell = ~share_errors(distances)
    np.fill_diagonal(tell, False)
    pairs = np.where(tell, distances, 0) ** 2
    distinct = sum(bool(tell[view, :view].all()) for view in range(views))
    if not np.median(distances[_pairs(views)]) > 0 or distinct < 3 or not tell.any(axis=1).all():
        return None
    squares = np.array([middle_of(pair[told].tolist()) for pair, told in zip(pairs, tell, strict=True)]) / 2
    least = QUIETEST**2 * middle_of(squares.tolist())
    # least squares with most weight on similar pairs, whose relative precision is the same; multiplied, squares remain
    # positive where biased views contradict the sum: d_ac = d_ab + d_bc
    for _ in range(PAIR_ROUNDS):
        expected = squares[:, None] + squares
        trust = np.where(tell, 1 / np.square(expected), 0)
        rate = (trust * pairs).sum(axis=1) / (trust * expected).sum(axis=1)
        before, squares = squares, np.maximum(rate * squares, least)
        if np.abs(squares - before).max() < SETTLED * squares.min():
            break
    found = np.linalg.solve(trust + np.diag(trust.sum(axis=1)), (trust * pairs).sum(axis=1))
    nearest = np.where(tell, pairs, np.inf).min(axis=1)
    scales: NDArray[np.float64] = np.sqrt(np.where(found < -BIASED * nearest, nearest / 2, squares))
    return scales


def _sample_of(weights: NDArray[Any], depths: NDArray[Any], surface: DepthMap, growth: DepthNoise) -> Floats:
    """About SAMPLE depths of each view, in the unit of the noise."""
    every = stride_for(depths[0].size, SAMPLE)
    trust, measured, around = (each[..., ::every, ::every] for each in (weights, depths, surface))
    return _known(trust, measured, around, *growth.numbers, law=growth.law)


@one_pass
def _known(weights: Floats, depths: Floats, surface: DepthMap, *numbers: np.float32, law: DepthNoise) -> Floats:
    """Depths (K, H, W) in the unit of the noise, NaN if unobserved."""
    out: Floats = np.where(weights > 0, depths, np.float32(np.nan)) / unit_of(surface, *numbers, law=law)
    return out


def view_distances(sample: Floats, backend: Backend) -> NDArray[np.float64]:
    """Median |d_j - d_k| (K, K) over common pixels of two maps (K, h, w); inf if these are too few, and for j = k."""
    views = len(sample)
    j, k = _pairs(views)
    distances = np.full((views, views), np.inf)
    for first in range(0, len(j), PAIRS_AT_ONCE):
        some, others = (each[first : first + PAIRS_AT_ONCE] for each in (j, k))
        middles, known = backend.medians(_apart(sample, some[:, None, None], others[:, None, None]))
        enough = np.where(np.array(known) < FEWEST, np.inf, middles)
        distances[some, others] = distances[others, some] = enough
    return distances


@lru_cache(maxsize=64)
def _pairs(views: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The indices (n,) of all pairs of views: the later ones, and the earlier ones."""
    later, earlier = (each.astype(np.int32) for each in np.tril_indices(views, -1))
    return later, earlier


@one_pass
def _apart(sample: Floats, some: Floats, others: Floats) -> Floats:
    """Differences (n, H, W) between pairs of views with these indices (n, 1, 1)."""
    out: Floats = np.abs(picked(sample, some) - picked(sample, others))
    return out


def share_errors(distances: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Pairs (K, K) of maps that differ far less than maps usually do, such as duplicates."""
    others = distances[~np.eye(len(distances), dtype=np.bool_)]
    others = others[np.isfinite(others) & (others > 0)]  # without duplicates, which would lower the median
    return distances < SHARED * np.median(others) if others.size else distances == 0


def weigh_edges(
    weights: NDArray[Any],
    surface: DepthMap,
    growth: DepthNoise,
    scales: Sequence[float],
    index: int,
    backend: Backend,
    exact: float,
) -> bool:
    """Reduce the weight of other views where the surface changes by more than the noise within a pixel.

    Reading another view has a sub-pixel error, so its total error there is noise and slope together; the reference's
    own reading is exact. w = noise / sqrt(noise^2 + (0.3 slope)^2), with the slope reduced by what the noise of the
    quietest view could cause. `exact`, from 0 to 1, says how well the reference's own edges are placed.
    """
    others = [max(scale, NO_NOISE) for k, scale in enumerate(scales) if k != index and np.isfinite(scale)]
    if not others:
        return False
    slope, quietest = local_slope(surface, growth), min(others)
    off = exact * PIXEL_ERROR
    if not off * _quantile(slope, 0.98, backend) - quietest > middle_of(others):
        return False
    # a view without a scale has no observations
    noise = np.array([max(scale, NO_NOISE) if np.isfinite(scale) else 1.0 for scale in scales])
    own = np.arange(len(noise)) == index
    steep = _steep(slope, off, quietest)
    rewrite(_beside_edges, (weights,), weights, steep, noise[:, None, None], own[:, None, None])
    return True


@one_pass
def _steep(slope: Floats, off: float, quietest: float) -> Floats:
    """The error (H, W) of a reading displaced by `off` pixels, minus what noise could cause."""
    out: Floats = np.maximum(np.nan_to_num(off * slope.astype(np.float64) - quietest), 0)
    return out


@one_pass
def _beside_edges(weights: Floats, steep: Floats, noise: Floats, own: Mask) -> Floats:
    factor = np.maximum(noise / np.hypot(noise, steep), SMALLEST_WEIGHT).astype(np.float32)
    return np.where(own, weights, weights * factor)


def _quantile(values: Floats, probability: float, backend: Backend) -> float:
    """A quantile of the known values, from a sample; NaN if there are none."""
    every = stride_for(values.size, QUANTILE_SAMPLE)
    return backend.medians(values[None, ::every, ::every], share=probability)[0][0]


def local_weights(stack: Stack, depth: Floats, backend: Backend) -> Stack:
    """The stack with every observation weighed by the quietness of its own map around it, times its given weight."""
    return stack.weighed(backend.local_noise_weights(stack.depths, stack.weights, depth))
