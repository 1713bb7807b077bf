"""Observations in ascending order, or their mean, and the weighted median."""

import numpy as np

from cfusion.kernels.contract import Fidelity, Floats, Observations
from cfusion.kernels.numpy.prox import known_weights


def order_observations(depths: Floats, weights: Floats | None, fidelity: Fidelity) -> tuple[Observations, Floats]:
    """Sorted observations (for L2 their mean) and the median, as part of `Backend.sort_observations`."""
    known = np.isfinite(depths) if weights is None else np.isfinite(depths) & (weights > 0)
    values = np.where(known, depths, np.inf).astype(depths.dtype)
    order = np.argsort(values, axis=0, kind="stable")
    values = np.take_along_axis(values, order, axis=0)
    carried = None
    if weights is not None:
        carried = np.take_along_axis(np.where(known, weights, 0).astype(depths.dtype), order, axis=0)
    seen = Observations(values, carried, np.empty(0), None)
    heaped = np.cumsum(known_weights(seen), axis=0, dtype=np.float64)
    total = heaped[-1].astype(depths.dtype)
    median = _median(values, heaped).astype(depths.dtype)
    if fidelity is not Fidelity.L2:
        return Observations(values, carried, total, None), median
    finite = np.where(np.isinf(values), 0, values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(total > 0, np.sum(known_weights(seen) * finite, axis=0, dtype=np.float64) / total, 0)
    scatter = np.sum(known_weights(seen) * (finite - mean) ** 2, axis=0) / 2
    return Observations(mean[None].astype(depths.dtype), None, total, scatter.astype(depths.dtype)), median


def weighted_median(seen: Observations) -> Floats:
    """As `Backend.weighted_median`, one observation after the other, to save memory."""
    if seen.scatter is not None:
        return seen.values[0]
    first, last = np.zeros_like(seen.total), np.zeros_like(seen.total)
    heaped = np.zeros_like(seen.total, np.float64)
    half = seen.total.astype(np.float64) / 2
    for k, value in enumerate(seen.values):
        before = heaped.copy()
        heaped += np.isfinite(value) if seen.weights is None else seen.weights[k]
        known = np.isfinite(value)
        first = np.where(known & (before < half) & (heaped >= half), value, first)
        last = np.where(known & (before <= half) & (heaped > half), value, last)
    return first + (last - first) / 2


def _median(values: Floats, heaped: Floats) -> Floats:
    """The observation at which the cumulative weight passes one half; the middle of two where it equals one half."""
    half = heaped[-1] / 2
    reach = np.argmax(heaped >= half, axis=0)[None]
    beyond = np.argmax(heaped > half, axis=0)[None]
    first = np.take_along_axis(values, reach, axis=0)[0]
    last = np.take_along_axis(values, beyond, axis=0)[0]
    with np.errstate(invalid="ignore"):
        return np.where(half > 0, first + (last - first) / 2, 0)
