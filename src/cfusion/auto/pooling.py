"""Means over the neighbourhood of each pixel, for arrays on the host and on a GPU alike."""

from __future__ import annotations

import numpy as np

from cfusion.kernels.contract import Floats, Mask

PASSES = 3  # means over a square, one after the other: nearly a Gaussian of deviation sqrt(r (r + 1)) pixels


def pooled_sum(values: Floats, radius: int) -> Floats:
    """(H, W) the sum around each pixel, of weight one at most over any square of side 2 radius + 1, cut at borders."""
    out: Floats = values.astype(np.float64)
    for _ in range(PASSES):
        for axis in (0, 1):
            out = _window_mean(out, radius, axis)
    return out


def window_sum(values: Floats, radius: int) -> Floats:
    """(H, W) the sum over the square of side 2 radius + 1 around each pixel, cut at borders."""
    out: Floats = values.astype(np.float64)
    for axis in (0, 1):
        out = _window_mean(out, radius, axis) * (2 * radius + 1)
    return out


def pooled_mean(values: Floats, weights: Floats | Mask, radius: int) -> Floats:
    """(H, W) the weighted mean around each pixel; zero where nothing around has a weight."""
    mass = pooled_sum(weights, radius)
    heaped = pooled_sum(np.where(weights > 0, values, 0) * weights, radius)
    out: Floats = np.maximum(heaped, 0) / np.maximum(mass, 1e-9)
    return out


def _window_mean(values: Floats, radius: int, axis: int) -> Floats:
    """Over 2 radius + 1 pixels along one axis; what lies outside counts as zero."""
    size = values.shape[axis]
    heaped = np.concatenate([np.zeros_like(np.take(values, [0], axis)), np.cumsum(values, axis)], axis)
    places = np.arange(size)
    low, high = np.clip(places - radius, 0, size), np.clip(places + radius + 1, 0, size)
    out: Floats = (np.take(heaped, high, axis) - np.take(heaped, low, axis)) / (2 * radius + 1)
    return out


def relief(depth: Floats, radius: int) -> Floats:
    """(H, W) how far apart what is known lies within `radius` pixels; zero where nothing is."""
    known = ~np.isnan(depth)
    low, high = np.where(known, depth, np.inf), np.where(known, depth, -np.inf)
    for axis in (0, 1):
        low, high = -_window_max(-low, radius, axis), _window_max(high, radius, axis)
    out: Floats = np.where(high >= low, high - low, 0)
    return out


def _window_max(values: Floats, radius: int, axis: int) -> Floats:
    """By doubling: the largest over 2 radius + 1 pixels along one axis."""
    size, out = values.shape[axis], values
    done = 0
    while done < radius:
        step = min(done + 1, radius - done, size - 1)
        if step == 0:
            break
        ahead, behind = (np.take(out, np.clip(np.arange(size) + way * step, 0, size - 1), axis) for way in (1, -1))
        out = np.maximum(out, np.maximum(ahead, behind))
        done += step
    return out
