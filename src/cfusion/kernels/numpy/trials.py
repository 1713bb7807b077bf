"""Held-out observations: their selection, and how well they are predicted."""

from math import sqrt

import numpy as np

from cfusion.arrays import TINY
from cfusion.kernels.contract import Floats, HeldOut, Mask


def score_difference(x: Floats, other: Floats, held: HeldOut) -> tuple[float, float, float]:
    """As `Backend.score_difference`, one map after the other."""
    sums = np.zeros(6)
    for k, depths in enumerate(held.depths):
        depth = depths[held.window].astype(np.float64)
        weight = np.isfinite(depth) if held.weights is None else held.weights[k][held.window]
        weight = np.where(held.inside, weight, 0).astype(np.float64)
        seen = weight > 0
        depth = np.where(seen, depth, 1)
        away = (1 / depth if held.inverse else depth) - held.centre
        off = weight * np.abs(other - away)
        nearer = off - weight * np.abs(x - away)
        parts = (weight, nearer, weight * weight, weight * nearer, nearer * nearer, off)
        sums += [np.sum(part) for part in parts]
    return gain_of(*sums.tolist())


def gain_of(
    total: float, first: float, of_weights: float, mixed: float, second: float, off: float
) -> tuple[float, float, float]:
    """Mean, standard error and the other's error, from the sums of w, w g, w^2, w^2 g, w^2 g^2 and w |other - d|."""
    total = max(total, TINY)
    mean = first / total
    variance = max(second - 2 * mean * mixed + mean * mean * of_weights, 0.0)
    return mean, sqrt(variance) / total, off / total


def split_folds(
    depths: Floats, weights: Floats | None, turns: Mask, block: int
) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
    """As `Backend.split_folds`."""
    return parted(depths, weights, turns[:, fold_of(depths.shape[1:], turns.shape[1], block)])


def fold_of(shape: tuple[int, ...], folds: int, block: int) -> Floats:
    """The fold (H, W) of each pixel's block, counted from the image's middle."""
    row, column = (np.abs(2 * np.arange(size) - (size - 1)) // 2 // block for size in shape)
    out: Floats = (row[:, None] + column[None, :]) % folds
    return out


def parted(
    depths: Floats, weights: Floats | None, held: Mask
) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
    """The result of `Backend.split_folds` for a mask of held-out pixels, common or per map, in any memory."""
    kept, out = np.where(held, np.float32(np.nan), depths), np.where(held, depths, np.float32(np.nan))
    known = int((~np.isnan(kept)).sum()), int((~np.isnan(out)).sum())
    if weights is None:
        return (kept, None), (out, None), known
    nothing = np.float32(0)
    return (kept, np.where(held, nothing, weights)), (out, np.where(held, weights, nothing)), known
