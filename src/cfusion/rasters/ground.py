"""Whether rasters are heights of the same ground, judged by their values.

Block medians are compared, in which noise is small: heights of one ground are correlated, weights or heights of another
place are not. The same ground with several times the relief is in another unit. An offset far beyond the spread of the
differences means another vertical datum. A value that many pixels share exactly, far from all other values, is a fill
value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import OVER_MEDIAN, median_of
from cfusion.errors import InputError

FEWEST = 200  # common pixels for a comparison
BLOCK = 8  # pixels
FEWEST_BLOCKS = 12
ALIKE = 0.3  # correlation of block medians from which two rasters show one ground
OTHER_KIND = 10.0  # ratio of the spreads of block medians beyond which a raster holds another quantity
SAME_SHAPE = 0.95  # correlation of block medians from which only a factor and an offset tell two rasters apart
OTHER_UNIT = 2.0  # ratio of their reliefs from which that factor is one of units
UNITS = {1 / 0.3048: "feet", 10.0: "decimetres", 100.0: "centimetres", 1000.0: "millimetres"}  # in a metre
NEAR_UNIT = 0.1  # relative distance within which a factor is taken for a known one
OTHER_DATUM = 5.0  # spreads of the differences beyond which an offset is a datum, not noise
MOST_COMPARED = 6  # earlier rasters that each is compared with
FILLING_SHARE, FILLING_COUNT = 1e-3, 16  # pixels with exactly one value
USUAL_FILLINGS = (-99999.0, -32768.0, -32767.0, -9999.0, -999.0, 9999.0, 32767.0, 65535.0)  # one pixel is enough
FILLING_AWAY = 2.0  # times the range of all other heights: further away than any lake or tower

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Comparison:
    """Differences between one raster and the median of others."""

    pixels: int
    offset: float  # median difference
    spread: float  # NMAD of the differences
    correlation: float  # of block medians; nan if there are too few
    reliefs: tuple[float, float]  # NMAD of the block medians: its own, the others'


def nmad(values: Floats) -> float:
    """1.4826 median |x - median x|: the standard deviation of normal errors."""
    return float(OVER_MEDIAN * np.median(np.abs(values - np.median(values)))) if values.size else float("nan")


def compare(heights: Floats, others: Floats) -> Comparison:
    """Compare a raster (H, W) with others (K, H, W)."""
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


def require_one_ground(
    names: Sequence[str], heights: Floats, *, keep_offsets: bool, keep_units: bool | None = None
) -> None:
    """Refuse rasters (K, H, W) of which one does not hold heights, or of another ground, unit or datum.

    Every pair is compared, and the raster that most others contradict is named. Units are kept by default as offsets.
    """
    views = len(names)
    for doubt in (_other_unit, _other_ground, _other_datum):
        keep = {_other_datum: keep_offsets, _other_unit: keep_offsets if keep_units is None else keep_units}
        if keep.get(doubt):
            continue
        doubts = np.zeros((views, views), np.bool_)
        found: dict[tuple[int, int], Comparison] = {}
        for j in range(views):
            for k in range(max(0, j - MOST_COMPARED), j):
                found[j, k] = compare(heights[j], heights[k][None])
                doubts[j, k] = doubts[k, j] = doubt(found[j, k])
        if doubts.any():
            amount = doubts.sum(axis=1)
            wrong = views - 1 - int(np.argmax(amount[::-1]))  # of two, the later
            against = int(np.argmax(doubts[wrong]))
            seen = found[max(wrong, against), min(wrong, against)]
            sign = 1.0 if wrong > against else -1.0
            if doubt is _other_unit:
                own, theirs = seen.reliefs if wrong > against else seen.reliefs[::-1]
                raise InputError(_of_unit(names[wrong], names[against], own / theirs, seen.correlation))
            raise InputError(_sentence(doubt is _other_ground, names[wrong], names[against], seen, sign * seen.offset))


def _other_ground(found: Comparison) -> bool:
    own, theirs = found.reliefs
    other_kind = max(own, theirs) > OTHER_KIND * min(own, theirs)
    return found.correlation < ALIKE and (other_kind or abs(found.offset) > found.spread)


def _other_unit(found: Comparison) -> bool:
    own, theirs = found.reliefs
    return found.correlation > SAME_SHAPE and max(own, theirs) > OTHER_UNIT * min(own, theirs) > 0


def _other_datum(found: Comparison) -> bool:
    return abs(found.offset) > OTHER_DATUM * found.spread


def _of_unit(name: str, against: str, ratio: float, correlation: float) -> str:
    known = next((unit for unit in UNITS if abs(np.log(max(ratio, 1 / ratio) / unit)) < NEAR_UNIT), None)
    factor = 1 / ratio if known is None else known if ratio < 1 else 1 / known
    unit = (
        "" if known is None else f": {UNITS[known]} beside metres" if ratio > 1 else f": metres beside {UNITS[known]}"
    )
    return (
        f"{name} shows the ground of {against} with {ratio:.3g} times its relief, correlation {correlation:.2f}{unit}; "
        f"state the factor in the file (gdal_edit.py -scale {factor:.4g} {name}), or convert it first"
    )


def _sentence(ground: bool, name: str, against: str, found: Comparison, offset: float) -> str:
    if ground:
        return (
            f"{name} does not look like heights of the same ground as {against}: median difference {offset:.4g}, "
            f"spread {found.spread:.3g}, correlation {found.correlation:.2f}; pass weights with --weights or --sigma, "
            "or leave it out"
        )
    return (
        f"{name} lies {offset:+.4g} from {against}, with a spread of only {found.spread:.2g}: another vertical datum "
        "(ellipsoidal heights?) or an offset; pass --coregister to remove it, --keep-offsets to fuse as it is, "
        "or convert it first"
    )


def barely_common(names: Sequence[str], heights: Floats) -> dict[str, str]:
    """Rasters (K, H, W) that share too few pixels with the others to be compared: by name, what is known of them."""
    if len(names) < 2:
        return {}
    known = np.isfinite(heights)
    shared = known & (known.sum(axis=0) > 1)
    found: dict[str, str] = {}
    for k in range(len(names) == 2, len(names)):  # of two, the later
        count = int(shared[k].sum())
        if count < FEWEST:
            here = heights[:, shared[k]]
            away = np.median(here[k] - median_of(np.delete(here, k, axis=0))) if count else 0.0
            there = f" (where it lies {away:+.3g} from them)" if count else ""
            found[names[k]] = f"{count or 'no'} pixels in common with the others{there}"
    return found


def require_no_filling(name: str, heights: Floats, *, usual_only: bool = False) -> None:
    """Refuse stored numbers of which many share one value far from all others, or one is a usual fill value far away.

    `usual_only` is for a part of a raster: in a block with a cliff, the sea is far from all others.
    """
    known = heights[np.isfinite(heights)]
    if known.size < FEWEST:
        return
    for extreme in (known.min(), known.max()):
        usual = float(extreme) in USUAL_FILLINGS
        if usual_only and not usual:
            continue
        rest = known[known != extreme]
        count = known.size - rest.size
        few = count < max(FILLING_COUNT, FILLING_SHARE * known.size)
        if (few and not usual) or rest.size < FEWEST:
            continue
        low, high = np.percentile(rest, [1, 99])
        away = float(np.abs(rest - extreme).min())
        if float(extreme).is_integer() and away > FILLING_AWAY * (high - low):
            raise InputError(
                f"{name} has {_share(count, known.size)} of its pixels at exactly {extreme:g} and nothing else within "
                f"{away:.4g}: a fill value, not heights; pass --nodata {extreme:g} to treat it as unknown"
            )


def _share(count: int, size: int) -> str:
    """A share of the pixels in words; `0.00%` would say that there are none."""
    return f"{count}" if count < 1e-4 * size else f"{count / size:.2%}"


def _blocks(heights: Floats) -> Floats:
    """Medians of blocks of which at least half is known."""
    rows, columns = (size // BLOCK for size in heights.shape)
    cut = heights[: rows * BLOCK, : columns * BLOCK].reshape(rows, BLOCK, columns, BLOCK)
    flat = np.sort(cut.transpose(0, 2, 1, 3).reshape(rows * columns, BLOCK * BLOCK), axis=1)
    count = np.isfinite(flat).sum(axis=1)
    middle = np.take_along_axis(flat, np.maximum(count // 2, 0)[:, None].clip(0, BLOCK * BLOCK - 1), 1)[:, 0]
    return np.where(count >= BLOCK * BLOCK // 2, middle, np.nan)


def _correlation(one: Floats, other: Floats) -> float:
    """Rank correlation, which blunders do not dominate."""
    ranks = [np.argsort(np.argsort(values)).astype(np.float64) for values in (one, other)]
    first, second = (each - each.mean() for each in ranks)
    return float((first * second).sum() / max(np.sqrt((first**2).sum() * (second**2).sum()), 1e-12))
