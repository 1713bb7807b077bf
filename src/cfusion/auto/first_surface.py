"""The first surface: that of the reference, or of the nearest views as well, decided by their measurements.

A splat displaces the noise of a view across depth edges, in proportion to the baseline: by delta f tan(theta) / z
pixels for noise delta. A surface that starts there may be in another basin, which it never leaves. The reference's own
map has its edges in place; the nearest views complete or correct it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.fit import energy_of
from cfusion.auto.misreading import independence
from cfusion.auto.pooling import window_sums
from cfusion.auto.settings import Choices
from cfusion.auto.small_parts import restore
from cfusion.auto.votes import WINDOW, by_more_than_chance, excess_misfit, nearest_views, residuals_of, scales_of
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass
from cfusion.solvers.task import prepare
from cfusion.source import Source, Splat

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
    near = source.part(nearest_views(source, own, backend))
    away = residuals_of(near, own, backend)
    if not independence(away):  # the reference's edges are no better placed than those of the others
        return fitted(source.first(splat, backend))
    from_near = fitted(near.first(splat, backend))
    refuted = _refuted(own, from_near, away, residuals_of(near, from_near, backend), backend)
    surface = _either(refuted, from_near, own)
    return restore(source, _completed(surface, source, splat, backend), backend)


def _completed(surface: DepthMap, source: Source, splat: Splat, backend: Backend) -> DepthMap:
    """The surface, completed with the median of all views."""
    stack = source.first(splat, backend)
    task = prepare(energy_of(Choices((1.0, 2.0)), 1.0), stack, backend)
    median = task.given_back(task.whole_depth(task.start))
    return _or_else(surface, median)


def _refuted(own: DepthMap, other: DepthMap, away: Floats, other_away: Floats, backend: Backend) -> Mask:
    """Pixels (H, W) where the reference's own surface is replaced by the other, which explains the measurements better.

    All pixels, if it does so on the whole; else those around which it does so by more than chance. `away` (K, H, W) are
    the residuals at the own surface.
    """
    worse, in_all = excess_misfit(away, other_away, scales_of(other_away, backend))
    if float(in_all) > 0:
        return _known(other)
    return _outvoted(own, other, *window_sums(worse, WINDOW, backend))


@one_pass
def _known(depth: DepthMap) -> Mask:
    return ~np.isnan(depth)


@one_pass
def _outvoted(own: DepthMap, other: DepthMap, worse: Floats, votes: Floats) -> Mask:
    """Pixels (H, W) where the own surface is unknown, or its excess misfit exceeds chance."""
    out: Mask = np.isnan(own) | (by_more_than_chance(worse, votes) & ~np.isnan(other))
    return out


@one_pass
def _either(where: Mask, one: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(where, one, other)


@one_pass
def _or_else(surface: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(np.isnan(surface), other, surface)
