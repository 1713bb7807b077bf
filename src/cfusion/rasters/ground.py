"""Whether rasters are heights of the same ground, judged by their numbers.

Looked at are block medians, in which noise is small and the ground is not: heights of one ground rise and fall
together, weights and heights of elsewhere do not. An offset far beyond the spread of the differences is another vertical
datum. A value that many pixels have exactly, far away from all others, was written by a filling step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError

FEWEST = 200  # common pixels that tell anything
BLOCK = 8  # pixels
FEWEST_BLOCKS = 12
ALIKE = 0.3  # correlation of block medians, above which two rasters see one ground
OTHER_KIND = 10.0  # times the spread of the other's block medians: another quantity
OTHER_DATUM = 5.0  # spreads of the differences: an offset, and not noise
FILLING_SHARE, FILLING_COUNT = 1e-3, 16  # of the pixels have exactly one value
NMAD = 1.4826

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Comparison:
    """How one raster differs from the ground of the others."""

    pixels: int
    offset: float  # median difference
    spread: float  # NMAD of the differences
    correlation: float  # of block medians; nan where there are too few
    reliefs: tuple[float, float]  # NMAD of the block medians, of it and of the others


def nmad(values: Floats) -> float:
    """1.4826 times the median distance from the median: the standard deviation, if errors are normal."""
    return float(NMAD * np.median(np.abs(values - np.median(values)))) if values.size else float("nan")


def compare(heights: Floats, others: Floats) -> Comparison:
    """A raster (H, W) against others (K, H, W)."""
    with np.errstate(all="ignore"):
        ground = median_of(others)
    difference = (heights - ground).astype(np.float64)
    common = difference[np.isfinite(difference)]
    if common.size < FEWEST:
        return Comparison(int(common.size), float("nan"), float("nan"), float("nan"), (float("nan"), float("nan")))
    shared = np.isfinite(difference)
    one, other = _blocks(np.where(shared, heights, np.nan)), _blocks(np.where(shared, ground, np.nan))
    both = np.isfinite(one) & np.isfinite(other)
    one, other = one[both], other[both]
    correlation = _correlation(one, other) if both.sum() >= FEWEST_BLOCKS else float("nan")
    return Comparison(common.size, float(np.median(common)), nmad(common), correlation, (nmad(one), nmad(other)))


def require_one_ground(names: Sequence[str], heights: Floats, *, keep_offsets: bool) -> None:
    """Refuse rasters (K, H, W) of which one is not heights, not of this ground, or not of this datum."""
    if len(names) < 2:
        return
    for k, name in enumerate(names):
        found = compare(heights[k], np.delete(heights, k, axis=0))
        against = names[1 - k] if len(names) == 2 else "the others"
        if found.pixels < FEWEST:
            continue
        own, theirs = found.reliefs
        other_kind = max(own, theirs) > OTHER_KIND * min(own, theirs)
        far = abs(found.offset) > found.spread
        if found.correlation < ALIKE and (other_kind or far):
            raise InputError(
                f"{name} does not look like heights of the same ground as {against}: median difference "
                f"{found.offset:.4g}, spread {found.spread:.3g}, correlation {found.correlation:.2f}; state weights with "
                f"--weights or --sigma, or leave it out"
            )
        if not keep_offsets and abs(found.offset) > OTHER_DATUM * found.spread and k > 0:
            raise InputError(
                f"{name} lies {found.offset:+.4g} from {against}, with a spread of only {found.spread:.2g}: another "
                f"vertical datum (ellipsoidal heights?) or an offset; pass --coregister to take it out, --keep-offsets "
                f"to fuse all the same, or convert it first"
            )


def require_no_filling(name: str, heights: Floats) -> None:
    """Refuse heights of which many have exactly one value, far away from all others."""
    known = heights[np.isfinite(heights)]
    if known.size < FEWEST:
        return
    for extreme in (known.min(), known.max()):
        rest = known[known != extreme]
        count = known.size - rest.size
        if count < max(FILLING_COUNT, FILLING_SHARE * known.size) or rest.size < FEWEST:
            continue
        low, high = np.percentile(rest, [1, 99])
        away = float(np.abs(rest - extreme).min())
        if away > max(high - low, 1e-6 * abs(extreme)):
            raise InputError(
                f"{name} has {count / known.size:.2%} of its pixels at exactly {extreme:g} and nothing else within "
                f"{away:.4g}: a filling value, not heights; pass --nodata {extreme:g} to treat it as unknown"
            )


def median_of(stack: Floats) -> Floats:
    """(H, W) of what is known along the first axis; NaN where nothing is."""
    if len(stack) == 1:
        return stack[0]
    with np.errstate(all="ignore"):
        ordered = np.sort(stack, axis=0)  # NaN last
    count = np.isfinite(stack).sum(axis=0)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(stack) - 1)
    one = np.take_along_axis(ordered, low[None], 0)[0]
    two = np.take_along_axis(ordered, high[None], 0)[0]
    out: Floats = np.where(count > 0, (one + two) / 2, np.nan)
    return out


def _blocks(heights: Floats) -> Floats:
    """Medians of blocks that are known at least by half."""
    rows, columns = (size // BLOCK for size in heights.shape)
    cut = heights[: rows * BLOCK, : columns * BLOCK].reshape(rows, BLOCK, columns, BLOCK)
    flat = np.sort(cut.transpose(0, 2, 1, 3).reshape(rows * columns, BLOCK * BLOCK), axis=1)
    count = np.isfinite(flat).sum(axis=1)
    middle = np.take_along_axis(flat, np.maximum(count // 2, 0)[:, None].clip(0, BLOCK * BLOCK - 1), 1)[:, 0]
    out: Floats = np.where(count >= BLOCK * BLOCK // 2, middle, np.nan)
    return out


def _correlation(one: Floats, other: Floats) -> float:
    """Of ranks, which blunders do not pull."""
    ranks = [np.argsort(np.argsort(values)).astype(np.float64) for values in (one, other)]
    first, second = (each - each.mean() for each in ranks)
    return float((first * second).sum() / max(np.sqrt((first**2).sum() * (second**2).sum()), 1e-12))
