"""Held-out observations, compiled; formulas in `cfusion.kernels.numpy.trials`."""

from __future__ import annotations

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats, HeldOut, Mask
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.host import nothing
from cfusion.kernels.numpy.trials import fold_of, gain_of
from cfusion.kernels.threads import in_bands, with_lines

NONE = nothing(3, np.float32)
NONE.setflags(write=False)  # like the weights of a stack: else the kernels are compiled twice
Maps = tuple[Floats, Floats | None]


def score_difference(x: Floats, other: Floats, held: HeldOut) -> tuple[float, float, float]:
    """As `Backend.score_difference`, row by row."""
    rows, columns = held.window
    place = (rows.start, columns.start, held.centre, held.inverse)
    sums = np.empty((len(x), 6))
    weights = NONE if held.weights is None else held.weights
    inside = np.ascontiguousarray(held.inside)
    in_bands(x.shape, (_score, x, other, held.depths, weights, inside, *place, sums))
    return gain_of(*sums.sum(axis=0).tolist())


@njit(**OPTIONS)
def _score(
    start: int,
    stop: int,
    x: Floats,
    other: Floats,
    depths: Floats,
    weights: Floats,
    inside: Mask,
    top: int,
    left: int,
    centre: float,
    inverse: bool,
    sums: Floats,
) -> None:
    weighted = weights.size > 0
    for i in range(start, stop):
        total = first = of_weights = mixed = second = distance = 0.0
        for k in range(len(depths)):
            for j in range(x.shape[1]):
                d = np.float64(depths[k, top + i, left + j])
                weight = np.float64(weights[k, top + i, left + j]) if weighted else 1.0
                if not inside[i, j] or not weight > 0 or not abs(d) < np.inf:
                    continue
                away = (1 / d if inverse else d) - centre
                off = weight * abs(other[i, j] - away)
                nearer = off - weight * abs(x[i, j] - away)
                total += weight
                first += nearer
                of_weights += weight * weight
                mixed += weight * nearer
                second += nearer * nearer
                distance += off
        sums[i, 0], sums[i, 1], sums[i, 2], sums[i, 3] = total, first, of_weights, mixed
        sums[i, 4], sums[i, 5] = second, distance


def split_folds(depths: Floats, weights: Floats | None, turns: Mask, block: int) -> tuple[Maps, Maps, tuple[int, int]]:
    """As `Backend.split_folds`, in one pass."""
    shape = depths.shape[1:]
    fold, known = fold_of(shape, turns.shape[1], block), np.zeros((shape[0], 2), np.int64)
    parts = [np.empty_like(depths) for _ in range(2)]
    given = NONE if weights is None else weights
    shares = [np.empty_like(given) for _ in range(2)]
    split = with_lines(_split, 1, shape[1], np.bool_)
    in_bands(shape, (split, depths, given, turns, fold, *parts, *shares, known))
    kept, out = ((part, None if weights is None else share) for part, share in zip(parts, shares, strict=True))
    return kept, out, (int(known[:, 0].sum()), int(known[:, 1].sum()))


@njit(**OPTIONS)
def _split(
    start: int,
    stop: int,
    depths: Floats,
    weights: Floats,
    turns: Mask,
    fold: Floats,
    kept: Floats,
    out: Floats,
    kept_weights: Floats,
    out_weights: Floats,
    known: Floats,
    held: Mask,
) -> None:
    views, _, width = depths.shape
    for i in range(start, stop):
        n_kept = n_out = 0
        for k in range(views):
            for j in range(width):
                held[j] = turns[k, fold[i, j]]
            for j in range(width):  # without a branch, to vectorise
                d = depths[k, i, j]
                kept[k, i, j] = np.nan if held[j] else d
                out[k, i, j] = d if held[j] else np.nan
                n_kept += (d == d) & (not held[j])
                n_out += (d == d) & held[j]
            if weights.size > 0:
                for j in range(width):
                    w = weights[k, i, j]
                    kept_weights[k, i, j] = 0 if held[j] else w
                    out_weights[k, i, j] = w if held[j] else 0
        known[i, 0], known[i, 1] = n_kept, n_out
