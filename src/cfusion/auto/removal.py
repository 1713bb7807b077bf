"""Motions of views that remove their residuals on a surface, by trimmed least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.kernels.contract import Floats, Mask

STEPS = 3  # trimmed solves
OUTLIER = 6.0  # median sizes of a view's residuals
LARGEST = 0.02  # radians, units of the median depth, and ratio: larger motions are no small misplacement
PIECE = 512  # places that BLAS sums in one thread: the same bits for any number of threads


@dataclass(frozen=True, eq=False)
class Removal:
    """Numbers m (K, M) that remove residuals of K views by trimmed least squares, and the sums of its last step."""

    found: Floats  # (K, M)
    normals: Floats  # (K, M, M) of m' N m, with a small multiple of the identity
    sizes: Floats  # (K,) median sizes of the residuals; 1 where nothing is told
    told: Mask  # (K,) whether there are enough residuals, of any size
    count: Floats  # (K,) number of known residuals
    scores: tuple[Floats, Floats]  # (K, M, M) each: sums of the squares of scores of blocks, and of wider ones
    squares: Floats  # (K, M, M) of the effects at all known places


def removal(
    residuals: Floats, effects: Floats, about: Floats, blocks: tuple[Floats, Floats], fewest: float, least: float
) -> Removal:
    """Numbers m of each view by which residuals (K, n) + m' T effects (M, n) are small, T of `about` (K, M, M).

    Residuals beyond OUTLIER median sizes, which are at least `least`, do not count; unknown ones are NaN. `blocks`
    (n,): the block of a place, and a wider one. Views with fewer than `fewest` residuals tell nothing.
    """
    known, size = np.isfinite(residuals), len(effects)
    count = known.sum(axis=1)
    residuals, upper = np.where(known, residuals, 0.0), np.triu_indices(size)
    products = np.concatenate([effect * effects[number:] for number, effect in enumerate(effects)])

    def squares_of(weights: Floats) -> Floats:
        out = np.empty((len(weights), size, size))
        out[:, upper[0], upper[1]] = out[:, upper[1], upper[0]] = _sums(weights, products)
        squares: Floats = about @ out @ about.swapaxes(1, 2)
        return squares

    steps, left, told = np.zeros((len(residuals), size)), residuals, count >= fewest
    for _ in range(STEPS):
        away = np.where(known, np.abs(left), np.inf)
        sizes = np.maximum(_medians(away, count), least)
        told &= sizes > 0
        sizes = np.where(told, sizes, 1.0)
        kept = (away <= OUTLIER * sizes[:, None]).astype(np.float64)
        normals = squares_of(kept) + np.eye(size) * ((sizes / LARGEST) ** 2)[:, None, None]
        steps = np.linalg.solve(normals, -about @ _sums(kept * residuals, effects)[..., None])[..., 0]
        left = residuals + np.einsum("ki,in->kn", (steps[:, None] @ about)[:, 0], effects)
    chance, wide = (_squares_of_blocks(about, kept * left, effects, block) for block in blocks)
    return Removal(steps, normals, sizes, told, count, (chance, wide), squares_of(known.astype(np.float64)))


def _medians(sizes: Floats, count: Floats) -> Floats:
    """The medians (K,) of the first so many of the sizes (K, n) in order; infinite if there are none."""
    ordered = np.sort(sizes, axis=1)
    low, high = (
        np.take_along_axis(ordered, place[:, None], axis=1) for place in (np.maximum(count - 1, 0) // 2, count // 2)
    )
    out: Floats = ((low + high) / 2)[:, 0]
    return out


def _squares_of_blocks(about: Floats, values: Floats, effects: Floats, block: Floats) -> Floats:
    """Sums (K, m, m) over blocks of the squares of their scores, T times values times effects.

    One effect at a time, in memory that is used again: to get pages for all at once takes longer than the sums.
    """
    order = np.argsort(block, kind="stable")
    first = np.flatnonzero(np.diff(block[order], prepend=-1))  # where each block begins
    values, effects = values.take(order, axis=1), effects.take(order, axis=1)
    sums, product = np.empty((len(values), len(effects), len(first))), np.empty_like(values)
    for number, effect in enumerate(effects):
        np.add.reduceat(np.multiply(values, effect, out=product), first, axis=1, out=sums[:, number])
    scores = about @ sums
    squares: Floats = scores @ scores.swapaxes(1, 2)
    return squares


def _sums(values: Floats, effects: Floats) -> Floats:
    """Sums (K, m) over n of products of (K, n) and (m, n), in pieces that BLAS computes in one thread."""
    pieces = [slice(first, first + PIECE) for first in range(0, values.shape[1], PIECE)]
    nothing = np.zeros((len(values), len(effects)))
    return sum((values[:, piece] @ effects[:, piece].T for piece in pieces), nothing)
