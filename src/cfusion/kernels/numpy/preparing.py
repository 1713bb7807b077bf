"""Preparation of a solve: counts, values extrapolated into holes, and weights by local noise.

The weights are by empirical Bayes: with noise scales of mean b0, distributed as an inverse Gamma of shape a, the n_i
observations of one map around pixel i with sum of errors m_i give the weight b0 (n_i + a) / (m_i + a b0). The variance
beyond that of sampling gives a: uniform noise gives a large a and a weight of one everywhere.
"""

import numpy as np

from cfusion.arrays import stride_for
from cfusion.kernels.contract import Coverage, Floats, State, dual_planes, primal_planes, window_of
from cfusion.kernels.host import medians
from cfusion.kernels.numpy.pooling import window_sum
from cfusion.kernels.tracing import neighbour

SLOPE_SAMPLE = 20_000  # pixels from which the median slope is estimated
RADIUS = 4  # pixels around the centre that share a noise scale
RANGE = (0.05, 20.0)


def count_observations(depths: Floats, weights: Floats | None) -> Coverage:
    """As `Backend.count_observations`."""
    count, mass, least = np.zeros(depths.shape[1:], np.int32), 0.0, np.inf
    for k, depth in enumerate(depths):
        seen = ~np.isnan(depth) if weights is None else weights[k] > 0
        count += seen
        mass += float(seen.sum() if weights is None else weights[k].sum(dtype=np.float64))
        least = min(least, float(np.min(np.where(seen, depth, np.inf))))
    observed = count > 0
    (middle,), _ = medians(depths[len(depths) // 2][None])
    return Coverage(count, observed, window_of(observed), float(observed.sum()), mass, least, int(count.max()), middle)


def initial_state(start: Floats, links: Floats, order: int) -> State:
    """As `Backend.initial_state`: on a tilted plane v starts at its optimum."""
    real, shape = start.dtype, start.shape
    state = State(np.zeros((primal_planes(order), *shape), real), np.zeros((dual_planes(order), *shape), real))
    state.primal[0] = start
    if order > 1:
        for plane, axis in ((0, 1), (1, 0)):
            linked = (links & (1 << plane)) > 0
            state.primal[1 + plane] = np.where(linked, _usual_slope(start, linked, axis), 0)
    return state


def _usual_slope(start: Floats, linked: Floats, axis: int) -> Floats:
    """The median difference between neighbours, from a sample."""
    every = slope_stride(start.size)
    step = neighbour(start, *((0, 1) if axis else (1, 0)), 0) - start
    sample = step[::every, ::every][linked[::every, ::every]]
    return np.median(sample).astype(start.dtype) if sample.size else start.dtype.type(0)


def slope_stride(pixels: int) -> int:
    """Distance in pixels between samples, in both directions."""
    return stride_for(pixels, SLOPE_SAMPLE)


def extrapolate(median: Floats, observed: Floats, inside: Floats) -> Floats:
    """As `Backend.extrapolate`: neighbour by neighbour."""
    start, known = np.where(observed, median, 0).astype(median.dtype), observed.copy()
    while not known[inside].all():
        total, count = np.zeros_like(start), np.zeros_like(start, np.int32)
        for place in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            there = neighbour(known, *place, False)
            total += np.where(there, neighbour(start, *place, 0), 0)
            count += there
        reached = inside & ~known & (count > 0)
        if not reached.any():
            break
        start[reached] = total[reached] / count[reached]
        known |= reached
    return start


def local_noise_weights(depths: Floats, weights: Floats | None, depth: Floats) -> Floats:
    """As `Backend.local_noise_weights`."""
    out = np.zeros(depths.shape, np.float32)
    sizes = [np.abs(observed - depth) for observed in depths]
    known = [np.isfinite(size) & (True if weights is None else weights[k] > 0) for k, size in enumerate(sizes)]
    count = sum(int(each.sum()) for each in known)
    overall = sum(float(np.sum(size[each], dtype=np.float64)) for size, each in zip(sizes, known, strict=True)) / max(
        count, 1
    )
    for k, (size, each) in enumerate(zip(sizes, known, strict=True)):
        given = 1.0 if weights is None else weights[k]
        out[k] = np.where(each, _trust(np.where(each, size, 0), each, overall), 1.0) * given
        out[k][np.isnan(depths[k])] = 0
    return out


def _trust(size: Floats, known: Floats, overall: float) -> Floats:
    """lam_i = b0 (n_i + a) / (m_i + a b0) over the window around each pixel of one map."""
    if overall <= 0 or not known.any():
        return np.ones_like(size)
    pooled, amount = (np.maximum(window_sum(window_sum(each, RADIUS, 0), RADIUS, 1), 0) for each in (size, known))
    shape = _shape(pooled[known] / np.maximum(amount[known], 1e-12), amount[known])
    return np.clip(overall * (amount + shape) / (pooled + shape * overall), *RANGE)


def _shape(scales: Floats, amounts: Floats) -> float:
    """a of the inverse Gamma, from the scales' variance beyond that of a mean of `amounts` exponentials."""
    return shape_of(float(np.mean(scales)), float(np.var(scales)), float(np.mean(1 / np.maximum(amounts, 1.0))))


def shape_of(mean: float, variance: float, sampled: float) -> float:
    """The same from mean and variance of the scales and the mean of 1 / amounts."""
    if mean <= 0:
        return 1e4
    excess = (variance / mean**2 - sampled) / (1 + sampled)
    return 2 + 1 / max(excess, 1e-4)
