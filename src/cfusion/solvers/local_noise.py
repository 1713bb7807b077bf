"""Weights that follow the local noise: the Laplace scale around each observation, shrunk towards the whole stack's.

Empirical Bayes: with noise scales of mean b0 spread as an inverse Gamma of shape a, the n_i observations of one map
around pixel i with sum of errors m_i give the weight b0 (n_i + a) / (m_i + a b0). The spread beyond what sampling
explains says how large a is: even noise gives a large a and a weight of one everywhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cfusion.geometry import Stack
from cfusion.solvers.task import Floats

RADIUS = 4  # pixels around the centre that share a noise scale
RANGE = (0.05, 20.0)


def local_weights(stack: Stack, depth: Floats) -> Stack:
    """The stack with every observation weighed by how quiet its own map is around it, times the weight it came with."""
    weights = np.zeros(stack.depths.shape, np.float32)
    sizes = [np.abs(observed - depth) for observed in stack.depths]
    known = [
        np.isfinite(size) & (True if stack.weights is None else stack.weights[k] > 0) for k, size in enumerate(sizes)
    ]
    count = sum(int(each.sum()) for each in known)
    overall = sum(float(np.sum(size[each], dtype=np.float64)) for size, each in zip(sizes, known, strict=True)) / max(
        count, 1
    )
    for k, (size, each) in enumerate(zip(sizes, known, strict=True)):
        given = 1.0 if stack.weights is None else stack.weights[k]
        weights[k] = np.where(each, _trust(np.where(each, size, 0), each, overall), 1.0) * given
        weights[k][np.isnan(stack.depths[k])] = 0
    return replace(stack, weights=weights)


def mean_weight(stack: Stack) -> Floats:
    """(H, W) what an observation of the pixel is worth on average; zero where there is none."""
    assert stack.weights is not None
    count = np.maximum((stack.weights > 0).sum(axis=0), 1)
    out: Floats = stack.weights.sum(axis=0) / count
    return out


def _trust(size: Floats, known: Floats, overall: float) -> Floats:
    """lam_i = b0 (n_i + a) / (m_i + a b0) over the window around each pixel of one map."""
    if overall <= 0 or not known.any():
        return np.ones_like(size)
    pooled, amount = window_sum(size), window_sum(known)
    shape = _shape(pooled[known] / np.maximum(amount[known], 1e-12), amount[known])
    return np.clip(overall * (amount + shape) / (pooled + shape * overall), *RANGE)


def _shape(scales: Floats, amounts: Floats) -> float:
    """a of the inverse Gamma, from the scales' variance beyond that of a mean of `amounts` exponentials."""
    mean = float(np.mean(scales))
    if mean <= 0:
        return 1e4
    sampled = float(np.mean(1 / np.maximum(amounts, 1.0)))
    excess = (float(np.var(scales)) / mean**2 - sampled) / (1 + sampled)
    return 2 + 1 / max(excess, 1e-4)


def window_sum(values: Floats) -> Floats:
    """Sum over the square of side 2 RADIUS + 1 around each pixel, cut at the border."""
    out = values.astype(np.float64)
    for axis in (0, 1):
        size = out.shape[axis]
        heaped = np.concatenate([np.zeros_like(np.take(out, [0], axis)), np.cumsum(out, axis)], axis)
        low = np.clip(np.arange(size) - RADIUS, 0, size)
        high = np.clip(np.arange(size) + RADIUS + 1, 0, size)
        out = np.take(heaped, high, axis) - np.take(heaped, low, axis)
    return np.maximum(out, 0)
