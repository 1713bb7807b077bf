"""The first surface: that of the reference, or of the nearest views as well, decided by their measurements.

A splat displaces the noise of a view across depth edges, in proportion to the baseline: by delta f tan(theta) / z
pixels for noise delta. A surface that starts there may be in another basin, which it never leaves. The reference's own
map has its edges in place; the nearest views complete or correct it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.fit import energy_of
from cfusion.auto.misreading import independence, nearest
from cfusion.auto.noise import middle_of, residual_scales
from cfusion.auto.pooling import window_sums
from cfusion.auto.settings import Choices
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.solvers.task import prepare
from cfusion.source import Source, Splat

NEAREST = 2  # other views, and those equally near
WORST = 4.0  # noise scales at which the misfit of an observation is clipped
WINDOW = 3  # pixels: radius of the square, of side 7, whose pixels vote
CHANCE = 1.0  # times the root of the number of votes: smaller majorities may be noise

Fitter = Callable[[Stack], DepthMap]


def first_surface(source: Source, splat: Splat, fitted: Fitter, backend: Backend) -> DepthMap:
    """A surface (H, W) at which all views can be read."""
    try:
        alone = source.part([source.reference]).first(Splat(fill=False), backend)
    except InputError:  # the reference has no measurement
        return fitted(source.first(splat, backend))
    if not backend.count_observations(alone.depths, alone.weights).pixels:
        return fitted(source.first(splat, backend))
    own = fitted(alone)
    near = source.part(_nearest_views(source, own, backend))
    away = _residuals(near, own, backend)
    if not independence(away):  # the reference's edges are no better placed than those of the others
        return fitted(source.first(splat, backend))
    from_near = fitted(near.first(splat, backend))
    refuted = _refuted(own, from_near, away, _residuals(near, from_near, backend), backend)
    surface = _either(refuted, from_near, own)
    return _completed(surface, source, splat, backend)


def _nearest_views(source: Source, own: DepthMap, backend: Backend) -> list[int]:
    """The reference, and the views with the smallest parallax."""
    others = nearest(source.parallax(own, backend), source.reference, NEAREST, backend)
    return sorted([source.reference, *others])


def _completed(surface: DepthMap, source: Source, splat: Splat, backend: Backend) -> DepthMap:
    """The surface, completed with the median of all views."""
    stack = source.first(splat, backend)
    task = prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, backend)
    median = task.given_back(task.whole_depth(task.start))
    return _or_else(surface, median)


def _scales(residuals: Floats, backend: Backend) -> Floats:
    """The noise (K, 1, 1) of each view, given this surface."""
    scales, _ = residual_scales(residuals, backend)
    usual = max(middle_of(scales), 1e-12)
    return np.array([scale if scale > 0 else usual for scale in scales], np.float32)[:, None, None]


def _residuals(source: Source, surface: DepthMap, backend: Backend) -> Floats:
    """Residuals (K, H, W): measurement of each view at a surface, minus the surface."""
    return _less(source.at(surface, [0.0] * source.n_views, backend).depths, surface)


@one_pass
def _less(depths: Floats, surface: DepthMap) -> Floats:
    return depths - surface


def _refuted(own: DepthMap, other: DepthMap, away: Floats, other_away: Floats, backend: Backend) -> Mask:
    """Pixels (H, W) where the reference's own surface is replaced by the other, which explains the measurements better.

    All pixels, if it does so on the whole; else those around which it does so by more than chance. `away` (K, H, W) are
    the residuals at the own surface.
    """
    scales = _scales(other_away, backend)
    misfits = (*added_up(_misfit, away, scales), *added_up(_misfit, other_away, scales))
    worse, in_all = _worse(*misfits)
    if float(in_all) > 0:
        return _known(other)
    return _outvoted(own, other, *window_sums(worse, WINDOW, backend))


@one_pass
def _known(depth: DepthMap) -> Mask:
    return ~np.isnan(depth)


@one_pass
def _worse(cost: Floats, count: Floats, other_cost: Floats, other_count: Floats) -> tuple[Floats, Any]:
    """(2, H, W): excess misfit of the own surface, and number of views that measured; and the total excess."""
    both = (count > 0) & (other_count > 0)
    worse, votes = np.where(both, cost - other_cost, 0), np.where(both, np.minimum(count, other_count), 0)
    return np.stack([worse, votes]), worse.sum(dtype=np.float64)


@one_pass
def _outvoted(own: DepthMap, other: DepthMap, worse: Floats, votes: Floats) -> Mask:
    """Pixels (H, W) where the own surface is unknown, or its excess misfit exceeds chance."""
    out: Mask = np.isnan(own) | ((worse > CHANCE * np.sqrt(np.maximum(votes, 1))) & ~np.isnan(other))
    return out


def _misfit(residuals: Floats, scales: Floats) -> tuple[Floats, Floats]:
    """min(|d - x| / scale, WORST), (K, H, W), and which views measured.

    The true surface has the smallest sum: views that see it deviate by noise, others by WORST; a wrong surface is seen
    by no view.
    """
    away = np.minimum(np.abs(residuals) / scales, np.float32(WORST))
    return np.nan_to_num(away), (~np.isnan(away)).astype(np.float32)


@one_pass
def _either(where: Mask, one: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(where, one, other)


@one_pass
def _or_else(surface: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(np.isnan(surface), other, surface)
