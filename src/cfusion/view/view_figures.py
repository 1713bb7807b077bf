"""Figures that reveal a wrong view: noise, bias, kept share, shift and influence of each, and a verdict on odd ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import MEDIAN_SIZE, SMALL, DepthMap, stride_for
from cfusion.view.readings import Residuals

if TYPE_CHECKING:
    from cfusion.solvers import ViewEvidence

GATE = 6.0  # median noises beyond which an observation is of another surface
NOISY, BIASED, FEW_KEPT, SHIFTED = 2.0, 0.5, 0.5, 0.75  # thresholds: times the median noise, in noises, share, pixels
SURE, EXPLAINED = 4.0, 0.02  # for a shift: standard errors; share of the residuals' variance
SAMPLE = 20_000  # pixels from which a shift is estimated
FEWEST = 50
BLOCK, MIXED = 12, 0.08  # pixels; share of readings of other surfaces from which a block is dropped
LEAST_OURS = 0.3  # share of readings of this surface below which all of the view is odd
OF_VIEWS = {"more": "far", "less": "near", "elsewhere": "another place, or a wrong pose", "shifted": "check its pose"}
OF_RASTERS = {"more": "high", "less": "low", "elsewhere": "another place, or time", "shifted": "pass --coregister"}


@dataclass(frozen=True)
class ViewFigures:
    """Comparison of one view with the fused surface."""

    name: str
    noise: float  # robust standard deviation of its residuals
    bias: float  # their median; positive if the view measures too far
    kept: float  # share of its readings within GATE median noises of the surface
    shift: float  # pixels by which its readings, moved over the surface, fit best
    effect: float  # rms change of the mean of all views without it
    verdict: str = ""  # empty if nothing is odd


def recorded(evidence: ViewEvidence, name: str) -> ViewFigures:
    """The figures that a method recorded for a view, in the form of this table."""
    words = evidence.sentence.removeprefix(f"{name}: ")
    return ViewFigures(
        name, evidence.noise, evidence.bias, evidence.share_kept, evidence.registration, evidence.effect, words
    )


def view_figures(
    names: Sequence[str], residuals: Callable[[int], Residuals], surface: DepthMap
) -> tuple[ViewFigures, ...]:
    """The figures of every view; `residuals(k)` is computed twice, so that memory holds one map at a time."""
    first = [_spread(residuals(k))[0] for k in range(len(names))]
    usual = float(np.nanmedian(first)) if any(isfinite(noise) for noise in first) else nan
    total, count = np.zeros(surface.shape), np.zeros(surface.shape, np.int32)
    spreads, shares, shifts = [], [], []
    for k in range(len(names)):
        found = residuals(k)
        within = np.abs(found) <= GATE * usual if usual > 0 else np.isfinite(found)
        known = int(np.isfinite(found).sum())
        shares.append(float(within.sum() / known) if known else nan)
        total[within] += found[within]
        count += within
        ours = _of_this_surface(found, within)
        spreads.append(_spread(ours))
        shifts.append(_shift(ours, surface))
    rows = []
    for k, name in enumerate(names):
        effect = _effect(residuals(k), total, count, GATE * usual)
        rows.append(ViewFigures(name, *spreads[k], shares[k], shifts[k], effect))
    return judged(rows)


def judged(rows: Sequence[ViewFigures], words: Mapping[str, str] = OF_VIEWS) -> tuple[ViewFigures, ...]:
    """The rows with their verdicts."""
    return tuple(_judged(row, rows, words) for row in rows)


def _of_this_surface(residuals: Residuals, within: NDArray[np.bool_]) -> Residuals:
    """The residuals without blocks that contain readings of another, occluding surface.

    Beside an occlusion readings err to one side only, which would look like a bias or a shift.
    """
    known = np.isfinite(residuals)
    outside, all_known = (_block_sums(each) for each in (known & ~within, known))
    mixed = np.kron(outside > MIXED * all_known, np.ones((BLOCK, BLOCK), np.bool_))
    rows, columns = residuals.shape
    ours = np.where(within & ~mixed[:rows, :columns], residuals, np.float32(np.nan))
    return ours if np.isfinite(ours).sum() >= LEAST_OURS * known.sum() else residuals


def _block_sums(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    rows, columns = mask.shape
    whole = np.pad(mask, ((0, -rows % BLOCK), (0, -columns % BLOCK)))
    blocks = whole.reshape(whole.shape[0] // BLOCK, BLOCK, whole.shape[1] // BLOCK, BLOCK)
    found: NDArray[np.int64] = blocks.sum(axis=(1, 3), dtype=np.int64)
    return found


def _spread(residuals: Residuals) -> tuple[float, float]:
    """Robust standard deviation, and median."""
    known = residuals[np.isfinite(residuals)]
    if known.size < FEWEST:
        return nan, nan
    bias = float(np.median(known))
    return float(np.median(np.abs(known - bias))) / MEDIAN_SIZE, bias


def _effect(residuals: Residuals, total: NDArray[np.float64], count: NDArray[np.int32], limit: float) -> float:
    """Rms over its pixels of (r - mean) / (n - 1): the change of the mean of n observations without this one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        moved: NDArray[np.float64] = np.asarray((residuals - total / count) / (count - 1), np.float64)
    use = (np.abs(residuals) <= limit) & (count > 1)
    return float(np.sqrt(np.mean(np.square(moved[use], dtype=np.float64)))) if use.any() else nan


def _shift(residuals: Residuals, surface: DepthMap) -> float:
    """Length in pixels of the best shift in r = gx du + gy dv + b; 0 if not significant, NaN if nothing tells."""
    if min(surface.shape) < 2:
        return nan
    gy, gx = np.gradient(np.asarray(surface, np.float64))
    every = stride_for(surface.size, SAMPLE)
    r, a, b = (np.asarray(each)[::every, ::every].ravel() for each in (residuals, gx, gy))
    use = np.isfinite(r) & np.isfinite(a) & np.isfinite(b)
    if use.sum() < FEWEST:
        return nan
    steep = np.hypot(a, b)
    use &= steep <= np.quantile(steep[use], 0.95)  # edges of objects are no evidence of a shift
    design = np.stack([a[use], b[use], np.ones(int(use.sum()))], axis=1)
    values = r[use].astype(np.float64)
    normal = design.T @ design
    if np.linalg.cond(normal) > 1e12:
        return nan
    found = np.linalg.solve(normal, design.T @ values)
    spread = float(np.std(values - design @ found))
    errors = spread * np.sqrt(np.diag(np.linalg.inv(normal)))
    sure = bool((np.abs(found[:2]) > SURE * errors[:2]).any())
    explains = 1 - (spread / max(float(np.std(values)), SMALL)) ** 2
    return float(np.hypot(*found[:2])) if sure and explains > EXPLAINED else 0.0


def _judged(row: ViewFigures, rows: Sequence[ViewFigures], phrases: Mapping[str, str]) -> ViewFigures:
    others = [each for each in rows if each is not row and isfinite(each.noise)]
    if not isfinite(row.noise):
        return replace(row, verdict="sees next to nothing of this surface")
    if len(others) < 2:
        return row
    noise, kept = (float(np.median([getattr(each, key) for each in others])) for key in ("noise", "kept"))
    words = []
    if row.noise > NOISY * noise > 0:
        words.append(f"{row.noise / noise:.1f} times as noisy as the others")
    if noise > 0 and abs(row.bias) > BIASED * noise:
        words.append(f"measures {abs(row.bias):.3g} too {phrases['more'] if row.bias > 0 else phrases['less']}")
    if row.kept < FEW_KEPT * kept:
        words.append(f"only {100 * row.kept:.0f} % of it agrees with the surface: {phrases['elsewhere']}")
    if row.shift > SHIFTED:
        words.append(f"looks shifted by {row.shift:.1f} pixels: {phrases['shifted']}")
    return replace(row, verdict="; ".join(words))
