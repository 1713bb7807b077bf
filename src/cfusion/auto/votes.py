"""Two surfaces compared by the views: which one explains the measurements of a few of them better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.misreading import nearest, usual_parallax
from cfusion.auto.noise import middle_of, residual_scales, usual_weight
from cfusion.auto.reading import Read
from cfusion.auto.settings import NO_NOISE
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.source import Source

NEAREST = 2  # other views, and those equally near
WORST = 4.0  # noise scales at which the misfit of an observation is clipped
WINDOW = 3  # pixels: radius of the square, of side 7, whose pixels vote
BELIEVED = 0.5  # of the usual confidence: measurements with less neither propose anything nor vote
CHANCE = 1.0  # times the root of the number of votes: smaller majorities may be noise


def nearest_views(source: Source, surface: DepthMap, backend: Backend, number: int = NEAREST) -> list[int]:
    """The reference, and so many other views with the smallest parallax."""
    others = nearest(usual_parallax(source.parallax(surface, backend), backend), source.reference, number)
    return sorted([source.reference, *others])


def measured(source: Source, surface: DepthMap, backend: Backend) -> Floats:
    """Measurements (K, H, W) of the views at a surface, without those of little confidence."""
    reading = source.at(surface, [0.0] * source.n_views, backend)
    return believed(reading.depths, reading.weights if source.weighed else None)


def believed(depths: Floats, weights: Floats | None) -> Floats:
    """Depths (K, H, W), NaN where their weight is little."""
    return depths if weights is None else _believed(depths, weights, np.float32(BELIEVED * usual_weight(weights)))


def residuals_of(source: Source, surface: DepthMap, backend: Backend, read: Read | None = None) -> Floats:
    """Residuals (K, H, W): measurement of each view at a surface, minus the surface; `read` if it was read already."""
    reading = source.at(surface, [0.0] * source.n_views, backend) if read is None else read.reading
    return _less(reading.depths, surface)


def scales_of(residuals: Floats, backend: Backend) -> Floats:
    """The noise (K, 1, 1) of each view, given its residuals."""
    return known_scales(residual_scales(residuals, backend)[0])


def known_scales(scales: Sequence[float]) -> Floats:
    """Scales (K, 1, 1), the median one for views without."""
    usual = max(middle_of(scales), NO_NOISE)
    return np.array([scale if scale > 0 else usual for scale in scales], np.float32)[:, None, None]


def excess_misfit(residuals: Floats, others: Floats, scales: Floats) -> tuple[Floats, Any]:
    """(2, H, W): excess misfit over that of other residuals (K, H, W), and number of views with both; and its total."""
    excess: tuple[Floats, Any] = _excess(*added_up(_misfit, residuals, scales), *added_up(_misfit, others, scales))
    return excess


def by_more_than_chance(worse: Floats, votes: Floats) -> Mask:
    """Where an excess misfit (H, W), summed over so many votes, is hardly noise."""
    out: Mask = worse > CHANCE * np.sqrt(np.maximum(votes, 1))
    return out


@one_pass
def seen(surface: DepthMap, other: DepthMap, worse: Floats, votes: Floats) -> DepthMap:
    """The surface (H, W), or the other one where the excess misfit of the surface exceeds chance."""
    return np.where(by_more_than_chance(worse, votes), other, surface)


@one_pass
def _believed(depths: Floats, weights: Floats, least: np.float32) -> Floats:
    return np.where(weights >= least, depths, np.float32(np.nan))


@one_pass
def in_units(depths: Floats, surface: DepthMap, unit: Floats) -> Floats:
    """Residuals (K, H, W): measured minus surface, in a unit (H, W)."""
    return (depths - surface) / unit


@one_pass
def _less(depths: Floats, surface: DepthMap) -> Floats:
    return depths - surface


def _misfit(residuals: Floats, scales: Floats) -> tuple[Floats, Floats]:
    """min(|d - x| / scale, WORST), (K, H, W), and which views measured.

    The true surface has the smallest sum: views that see it deviate by noise, others by WORST; a wrong surface is seen
    by no view.
    """
    away = np.minimum(np.abs(residuals) / scales, np.float32(WORST))
    return np.nan_to_num(away), (~np.isnan(away)).astype(np.float32)


@one_pass
def _excess(cost: Floats, count: Floats, other_cost: Floats, other_count: Floats) -> tuple[Floats, Any]:
    both = (count > 0) & (other_count > 0)
    worse, votes = np.where(both, cost - other_cost, 0), np.where(both, np.minimum(count, other_count), 0)
    return np.stack([worse, votes]), worse.sum(dtype=np.float64)
