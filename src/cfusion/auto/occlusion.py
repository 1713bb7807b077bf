"""The observations of a surface: read the views at it, reject those of other surfaces, weigh the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto import noise
from cfusion.auto.at_edges import AtEdges, at_edges, support_of
from cfusion.auto.holes import unmeasured_are_holes
from cfusion.auto.misreading import TELLING, nearest, surface_doubt, views_apart
from cfusion.auto.outlines import SAME, STEP, UNTOLD, Outlines, held_by_reference, of_reference
from cfusion.auto.reading import Read
from cfusion.auto.residuals import Residuals, residuals_at
from cfusion.auto.settings import NO_NOISE, Settings
from cfusion.auto.specks import specks
from cfusion.auto.surface import alike_around
from cfusion.auto.uncertainty import autocorrelation
from cfusion.auto.votes import BELIEVED
from cfusion.geometry import Pinhole, Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass, rewrite
from cfusion.source import Source

HIDDEN = 2.0  # times the error of the surface: a point behind it by more is hidden
CONFIRMED = 3.0  # weight of other views that must confirm the surface where the reference measured something else;
LESS_EXACT = 0.5  # times that, if the reference's edges are no better placed than theirs
FEWEST_FOR_EDGES = 3  # views: with fewer, errors that neighbouring pixels share have edges too
INDEPENDENT, ALIKE = 0.05, 0.15  # autocorrelation of neighbours: errors of a matcher have 0.5 to 0.9
MOST_LONE = 0.005  # of its pixels: more specks that no other view sees are outliers or noise; rods have 0.4 % or less
FAR_OFF, MOST_FAR_OFF = 10.0, 0.02  # noise scales, and share of the pixels: more are blobs of outliers,
BESIDE = 4  # pixels: unless the surface has an edge that near


@dataclass(frozen=True, eq=False)
class Observed:
    """A stack, the surface that it observes, and the noise of one of its observations."""

    stack: Stack
    judging: Stack  # the same, with what other views measured beside exact outlines: choices without it smooth too much
    surface: DepthMap  # with the reference's outlines, if they are exact
    noise: Floats  # (H, W) Laplace scale in the unit of depth, of the median view
    growth: DepthNoise
    quiet: bool  # whether noise is below the error of a reading: the edges of the surface are no noise
    exact: bool  # whether there is none: then nothing is to be smoothed
    edges: bool  # whether edges of the surface may be spared
    outlines: Outlines  # of the reference


def observe(
    source: Source,
    surface: DepthMap,
    settings: Settings,
    backend: Backend,
    read: Read | None = None,
    outlines: Outlines = UNTOLD,
    smooth: DepthMap | None = None,
) -> Observed:
    """The observations (K, H, W) of the surface, weighed by the noise model.

    An observation further than `gate` times its view's noise scale from the surface is of another surface (occlusion)
    and is rejected; so is one of a point that the surface hides from the view. The reference is rejected where it
    measured something else and others confirm the surface. A pixel without a measurement of the reference is kept only
    if others confirm it and it is no speck.

    `read` is a reading of the same surface at the nearest pixels, if there is one already; it is overwritten.
    `outlines` are those of the reference as found in the last reading; `smooth` is the surface before small parts were
    put back, which the next fit would smooth away again.
    """
    reference, count, frame = source.reference, source.n_views, source.frame
    seen = residuals_at(source, surface, settings.gate, read, backend)
    reading, growth = seen.reading, seen.growth
    depths, weights = reading.depths, reading.weights
    others = (np.arange(count) != reference)[:, None, None]
    tolerance, misread, own_noise = _errors(source, seen, backend)
    behind = source.hidden(surface, tolerance, backend)
    ahead = isinstance(frame.camera, Pinhole)  # what is not is behind the reference
    rewrite(_without, (depths, weights, reading.seen), depths, weights, reading.seen, behind, others, ahead=ahead)
    trusted = source.weighed
    typical = float(weights.sum(dtype=np.float64)) / max(int((weights > 0).sum()), 1) if trusted else 1.0
    holes = unmeasured_are_holes(weights[reference], backend)
    least = np.float32(BELIEVED * typical)  # weight of what is trustworthy in the eyes of its front end
    wrong, surely, trustworthy = _further(depths[reference], surface, seen.unit, seen.far, weights, reference, least)
    # nothing hides the reference's own measurements
    thresholds = [np.inf if k == reference else limit for k, limit in enumerate(seen.limits)]
    backend.reject_occluded(depths, weights, surface, growth, thresholds, reading.seen, reference, holes)
    weighed = trusted | noise.weigh_views(weights, depths, surface, growth, backend) | (count > 1)
    found = AtEdges(surface, wrong, support_of(weights, reference), seen.independent, outlines)
    if count > 1:
        found = at_edges(source, seen, surface, smooth, wrong, surely, misread, outlines, backend)
    enough = CONFIRMED * (LESS_EXACT + (1 - LESS_EXACT) * found.well_placed)
    wrong = _denied(found.wrong, found.support, enough * typical)
    own = [each[reference : reference + 1] for each in (depths, weights, reading.seen)]
    rewrite(_without, own, *own, wrong[None], np.ones((1, 1, 1), np.bool_))
    lone = specks(weights, reference, backend)
    rewrite(_without, (depths, weights, reading.seen), depths, weights, reading.seen, lone, others)
    judging = stack = Stack.unchecked(depths, weights if weighed else None, frame.camera, frame.image)
    if found.held is not None:
        weights = held_by_reference(weights, found.held, trustworthy, reference)
        stack = stack.with_depths(depths, weights)
    if found.placed is not None:
        stack = stack.with_depths(*of_reference(depths, weights, found.placed, reference))
    quiet, exact = seen.usual < seen.blind, count > 1 and _without_noise(seen, surface, reference, backend)
    ours = seen.away[reference], seen.scales[reference]
    edges = count >= FEWEST_FOR_EDGES or quiet or _alone(*ours, found.surface, seen.unit, backend)
    return Observed(stack, judging, found.surface, own_noise, growth, quiet, exact, edges, found.outlines)


def _errors(source: Source, seen: Residuals, backend: Backend) -> tuple[Floats, Floats, Floats]:
    """(H, W) each: what is hidden if it is further behind, the error of the surface, the noise of an observation."""
    near = nearest(seen.moved, source.reference, TELLING)
    off = surface_doubt(seen.away, seen.scales, near, backend)
    numbers = (np.float32(each) for each in (off * seen.usual, HIDDEN, seen.independent, seen.usual))
    found: tuple[Floats, Floats, Floats] = _times(seen.unit, *numbers)
    return found


def _alone(away: Floats, scale: float, surface: DepthMap, unit: Floats, backend: Backend) -> bool:
    """Whether the errors (H, W) of a view, in the unit of the noise, are those of single pixels.

    If they are hardly correlated, errors that are far off beside edges of the surface are outlines that smoothing
    displaced; elsewhere they are blobs of outliers.
    """
    alike = autocorrelation(away[None], lag=1)
    if alike < INDEPENDENT or alike >= ALIKE:
        return alike < INDEPENDENT
    around = backend.local_depth_range(backend.arrays.ascontiguousarray(surface), BESIDE)
    limits = np.float32(FAR_OFF * max(scale, NO_NOISE)), np.float32(STEP * scale)
    far_off, known = _far_off(away, around, unit, *limits)
    return bool(far_off <= MOST_FAR_OFF * known)


@one_pass
def _far_off(away: Floats, around: Floats, unit: Floats, limit: np.float32, step: np.float32) -> tuple[Any, Any]:
    """How many errors (H, W) far from steps of the surface exceed the limit, and how many are known anywhere."""
    beside = around > step * unit
    return ((np.abs(away) > limit) & ~beside).sum(), (~np.isnan(away)).sum()


@one_pass
def _times(
    unit: Floats, number: np.float32, more: np.float32, fewer: np.float32, other: np.float32
) -> tuple[Floats, Floats, Floats]:
    """unit * number times `more`, the same times `fewer`, and unit * other; (H, W) each."""
    some = number * unit
    return more * some, fewer * some, other * unit


@one_pass
def _further(
    depth: DepthMap,
    surface: DepthMap,
    unit: Floats,
    limit: np.float32,
    weights: Floats,
    reference: int,
    least: np.float32,
) -> tuple[Mask, Mask, Mask]:
    """|depth - surface| > limit * unit, (H, W); where that is of at least this weight; where the weight is enough."""
    wrong, trustworthy = np.abs(depth - surface) > limit * unit, weights[reference] >= least
    return wrong, wrong & trustworthy, trustworthy


def _without_noise(seen: Residuals, surface: DepthMap, reference: int, backend: Backend) -> bool:
    """Whether the maps are exact: the reference and most others, which are no copies seen from the same place.

    A median tells nothing of outliers, nor of noise in less than half of the image: both are specks that nobody sees.
    """
    if seen.least <= 0 or max(seen.usual, seen.scales[reference]) > seen.least:
        return False
    limits = np.float32(SAME * max(float(seen.size), seen.blind)), np.float32(seen.blind)
    lone, known = _lone_specks(seen.away, surface, seen.unit, reference, *limits)
    if lone > MOST_LONE * known:
        return False
    return views_apart(seen.parallax, surface, backend) > 0


@one_pass
def _lone_specks(
    away: Floats, surface: DepthMap, unit: Floats, reference: int, same: np.float32, limit: np.float32
) -> tuple[Any, Any]:
    """How many pixels of the reference are unlike all beside them and denied, or not confirmed; and how many it has."""
    own = away[reference]
    off, lone = np.abs(own) > limit, alike_around(surface + own * unit, same * unit) < 0.5
    looked = (~np.isnan(away)).astype(np.float32).sum(axis=0) - (~np.isnan(own)).astype(np.float32)
    agreed = (np.abs(away) <= limit).astype(np.float32).sum(axis=0) - (~np.isnan(own) & ~off).astype(np.float32)
    speck = lone & ~np.isnan(own) & (looked > 0.5) & (off | (agreed < 0.5))
    return speck.sum(), (~np.isnan(own)).sum()


@one_pass
def _denied(wrong: Mask, support: Floats, enough: float) -> Mask:
    """Pixels (H, W) where the reference is wrong and the other views have enough weight."""
    out: Mask = wrong & (support >= enough)
    return out


@one_pass
def _without(
    depths: Floats, weights: Floats, seen: Mask, where: Mask, there: Mask, *, ahead: bool = False
) -> tuple[Floats, Floats, Mask]:
    """Set depth, weight and visibility to none at pixels `where`, or not `ahead`, in views `there` (K, 1, 1)."""
    gone = (where | (depths <= 0) if ahead else where) & there
    return np.where(gone, np.float32(np.nan), depths), np.where(gone, np.float32(0), weights), seen & ~gone
