"""The first surface: that of the reference, or of the nearest views as well, decided by their measurements.

A splat displaces the noise of a view across depth edges, in proportion to the baseline: by delta f tan(theta) / z
pixels for noise delta. A surface that starts there may be in another basin, which it never leaves. The reference's own
map has its edges in place; the nearest views complete or correct it. Where neighbouring pixels share their errors,
nobody's edges are in place: splats of the nearest and of all views are compared instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.cross_validation import inverse_is_better, usual_choices
from cfusion.auto.fit import energy_of, fit
from cfusion.auto.misreading import independence
from cfusion.auto.noise import depth_noise, middle_of, reading_error, residual_scales
from cfusion.auto.pooling import window_sums
from cfusion.auto.registration import registered
from cfusion.auto.rivals import with_rivals
from cfusion.auto.rounding import Rounding, spread_over_steps
from cfusion.auto.settings import PAPERS, Settings
from cfusion.auto.small_parts import restore
from cfusion.auto.surface import count_known, or_else
from cfusion.auto.variable import Weighing, is_wide
from cfusion.auto.votes import WINDOW, by_more_than_chance, excess_misfit, nearest_views, residuals_of, scales_of
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass, some_views
from cfusion.solvers import PDHG
from cfusion.solvers.task import prepare
from cfusion.source import Source, Splat


def first_surface(
    source: Source, roundings: Sequence[Rounding | None], settings: Settings, solver: PDHG, backend: Backend
) -> tuple[DepthMap, bool]:
    """A surface (H, W) at which all views can be read, and whether it was fitted in inverse depth."""
    splat, fitted = settings.splat, partial(_fitted, settings, replace(solver, certify=False), backend)
    try:
        alone = source.part([source.reference]).first(Splat(fill=False), backend)
    except InputError:  # the reference has no measurement
        return fitted(source.first(splat, backend), roundings), False
    if not backend.count_observations(alone.depths, alone.weights).pixels:
        return fitted(source.first(splat, backend), roundings), False
    own_rounding = [roundings[source.reference]]
    own, depth = fitted(alone, own_rounding), None
    chosen = nearest_views(source, own, backend)
    near, near_roundings, read = source.part(chosen), [roundings[view] for view in chosen], None
    if settings.refine_poses:  # misplaced views would refute it
        near, read = registered(near, own, backend, to_reference=True)
    away = residuals_of(near, own, backend, read)
    (middle,), _ = backend.medians(own[None])
    scales, sides = residual_scales(away, backend)
    if not independence(
        away, sides, middle_of(scales), reading_error(source.frame.camera, middle)
    ):  # its edges are no better placed than those of the others
        surface = fitted(near.first(splat, backend), near_roundings)
        if near.n_views < source.n_views:  # wide baselines blur edges, more views average errors
            surface = _agreed(source, surface, fitted(source.first(splat, backend), roundings), backend)
        return with_rivals(source, restore(source, surface, backend), backend), False
    if _in_inverse(settings, alone, own, backend):
        depth, own = own, fitted(alone, own_rounding, own)
        away = residuals_of(near, own, backend)
    surface = _agreed(near, own, fitted(near.first(splat, backend), near_roundings, depth), backend, away)
    surface = restore(source, _completed(surface, source, splat, backend), backend)
    return with_rivals(source, surface, backend), depth is not None


def _in_inverse(settings: Settings, alone: Stack, own: DepthMap, backend: Backend) -> bool:
    """Whether to fit in inverse depth: as chosen before, or as the reference's own pixels are predicted."""
    if settings.choices is not None:
        return settings.choices.inverse and settings.choices.noise_growth is not None
    if settings.inverse is not None or not is_wide(own, alone.camera, backend):
        return False
    task = prepare(energy_of(PAPERS, 1.0), alone, backend)
    return inverse_is_better(task, Weighing(own, depth_noise(alone.depths, own, backend)))


def _fitted(
    settings: Settings,
    solver: PDHG,
    backend: Backend,
    stack: Stack,
    roundings: Sequence[Rounding | None],
    depth: DepthMap | None = None,
) -> DepthMap:
    """A surface at the usual weights; in inverse depth, given the depth of the pixels."""
    stack = spread_over_steps(stack, roundings, backend)
    task = prepare(energy_of(settings.choices or PAPERS, settings.lam), stack, backend)
    weighing, chosen = None, settings.choices
    if task.least > 0 and (depth is not None or (chosen is not None and chosen.noise_growth is not None)):
        median = task.given_back(task.whole_depth(task.start))
        depth = median if depth is None else or_else(depth, median)
        weighing = Weighing(depth, depth_noise(stack.depths, depth, backend))
    guess = chosen or usual_choices(task, weighing)
    return fit(task, guess, solver, settings.fill_radius, weighing=weighing).depth


def _completed(surface: DepthMap, source: Source, splat: Splat, backend: Backend) -> DepthMap:
    """The surface, completed with the median of all views."""
    if int(count_known(surface)) == surface.size:
        return surface
    stack = source.first(splat, backend)
    task = prepare(energy_of(PAPERS, 1.0), stack, backend)
    median = task.given_back(task.whole_depth(task.start))
    return or_else(surface, median)


def _agreed(
    source: Source, surface: DepthMap, other: DepthMap, backend: Backend, away: Floats | None = None
) -> DepthMap:
    """The surface (H, W), or the other where measurements refute it; `away` are their residuals, if computed before."""
    away = residuals_of(source, surface, backend) if away is None else away
    others = [view for view in range(source.n_views) if view != source.reference]
    refuted = _refuted(surface, other, away, residuals_of(source, other, backend), others, backend)
    return _either(refuted, other, surface)


def _refuted(
    own: DepthMap, other: DepthMap, away: Floats, other_away: Floats, others: list[int], backend: Backend
) -> Mask:
    """Pixels (H, W) where a surface is replaced by another one, which explains the measurements better.

    On the whole, or around a pixel by more than chance. If it is better on the whole, the own surface remains where it
    is better by more than chance, and not only in the eyes of the reference. `away` (K, H, W) are the residuals at the
    own surface.
    """
    scales = scales_of(other_away, backend)
    worse, in_all = excess_misfit(away, other_away, scales)
    around = window_sums(worse, WINDOW, backend)
    if not float(in_all) > 0:
        return _outvoted(own, other, *around)
    worse, _ = excess_misfit(*(some_views(each, others) for each in (away, other_away, scales)))
    return _not_outvoted(own, other, *around, *window_sums(worse, WINDOW, backend))


@one_pass
def _outvoted(own: DepthMap, other: DepthMap, worse: Floats, votes: Floats) -> Mask:
    """Pixels (H, W) where the own surface is unknown, or its excess misfit exceeds chance."""
    out: Mask = np.isnan(own) | (by_more_than_chance(worse, votes) & ~np.isnan(other))
    return out


@one_pass
def _not_outvoted(
    own: DepthMap, other: DepthMap, worse: Floats, votes: Floats, others_worse: Floats, others_votes: Floats
) -> Mask:
    """Pixels (H, W) where the own surface is unknown, or no better: by chance, or for the other views."""
    better = by_more_than_chance(-worse, votes) & by_more_than_chance(-2 * others_worse, others_votes)
    out: Mask = ~np.isnan(other) & ~(better & ~np.isnan(own))
    return out


@one_pass
def _either(where: Mask, one: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(where, one, other)
