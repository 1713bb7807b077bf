"""Beside the edges of a surface: whose outlines are right, what the next fit would lose, how much other views count.

Another view is read a fraction of a pixel beside the right place, so that beside an edge it may show the other side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto import noise
from cfusion.auto.misreading import nearest, reliefs_of, weigh_near_edges
from cfusion.auto.outlines import Outlines, measured_alike, put_in_place, tallied, thin_parts, wide_parts
from cfusion.auto.residuals import Residuals
from cfusion.auto.settings import NO_NOISE
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass
from cfusion.source import Source

MOST_SHARED = 0.5  # independence: with less, errors that neighbouring pixels share displace outlines
MAJORITY = 0.7  # of the views that see a point of the surface or past it: fewer say that it is not there
VOTERS = 10  # other views, and those equally near


@dataclass(frozen=True, eq=False)
class AtEdges:
    """What is decided beside edges."""

    surface: DepthMap  # with the reference's outlines, if they are exact
    wrong: Mask  # (H, W) where the reference measured something else, and may be denied
    support: Floats  # (H, W) weight of the other views that support the surface there
    well_placed: float  # from one (the reference's edges are better placed than those of others) to zero
    outlines: Outlines
    placed: Mask | None = None  # (H, W) where the reference alone decides
    held: Mask | None = None  # (H, W) where it makes up for what others weigh less


def at_edges(
    source: Source,
    seen: Residuals,
    surface: DepthMap,
    smooth: DepthMap | None,
    wrong: Mask,
    surely: Mask,
    misread: Floats,
    outlines: Outlines,
    backend: Backend,
) -> AtEdges:
    """Decide, and weigh the observations of `seen` in place: other views count less beside edges.

    `wrong` (H, W) is where the reference measured something else, `surely` where its front end is sure of it, `misread`
    the error of the surface. `smooth` is the surface before small parts were put back.
    """
    reference, (depths, weights) = source.reference, (seen.reading.depths, seen.reading.weights)
    size, shared = seen.size, seen.independent <= MOST_SHARED
    held = _lost_to_smoothing(surface, surface if smooth is None else smooth, seen.unit, size, outlines.held)
    reliefs = reliefs_of(surface, seen.unit, backend)
    contested = _contested(surface, seen, weights, reference)
    own_unit = seen.growth.unit(_further_one(surface, depths[reference]))  # noise at its own depth, if that is further
    alike = measured_alike(surely, depths[reference], surface, own_unit, size)
    told = tallied(alike, wrong, surely, contested, weights, reference, reliefs, size, backend)
    jagged = told.jagged and not outlines.exact
    if told.in_place and not shared:
        others = (np.arange(source.n_views) != reference)[:, None, None]
        wide = wide_parts(alike, backend)
        lost, held = _lost(alike, wide, seen.away, weights, others, seen.far, held, contested)
        reliefs = reliefs_of(_either(lost, depths[reference], surface), seen.unit, backend)
    # beside an edge all others may show the other side: they count as little as they weigh, unless it is jagged
    support = support_of(weights, reference)
    noise.weigh_edges(weights, surface, seen.growth, seen.scales, reference, backend, seen.independent)
    noises = [max(scale, NO_NOISE) if np.isfinite(scale) else seen.usual for scale in seen.scales]
    weigh_near_edges(weights, reliefs, seen.parallax, misread, noises, backend)
    if not jagged:
        support, wrong = _uncontested(weights, reference, wrong, contested)
    undecided = outlines.exact is None and not shared  # the reading that tells of outlines
    outlines = outlines.read(told, jagged or (shared and told.doubtful), held, shared=shared)
    placed = None
    if outlines.exact and not shared:
        placed, surface = put_in_place(alike, reliefs[1], size, surface, depths, reference, backend)
        wrong, outlines = wrong & ~placed, replace(outlines, held=held | placed)
    well_placed = 0.0 if jagged and not undecided else seen.independent
    if outlines.exact is False:  # what most see past is a pixel of a displaced outline
        held = held & ~contested
    kept = None if not told.clean or shared else held  # of blobs, and of errors that neighbours share, nothing is held
    return AtEdges(surface, wrong, support, well_placed, outlines, placed, kept)


@one_pass
def support_of(weights: Floats, reference: int) -> Floats:
    """The weight (H, W) of the other views that support the surface."""
    out: Floats = weights.sum(axis=0) - weights[reference]
    return out


@one_pass
def _uncontested(weights: Floats, reference: int, wrong: Mask, contested: Mask) -> tuple[Floats, Mask]:
    """`support_of`, and where the reference may be denied (H, W): not where the surface is contested."""
    return support_of(weights, reference), wrong & ~contested


@one_pass
def _lost_to_smoothing(surface: DepthMap, smooth: DepthMap, unit: Floats, size: np.float32, held: Mask | None) -> Mask:
    """Pixels (H, W) that the next fit would smooth away: thin parts, what was put back, and what was held so far."""
    out: Mask = (surface != smooth) | thin_parts(surface, unit, size)
    return out if held is None else out | held


def _contested(surface: DepthMap, seen: Residuals, weights: Floats, reference: int) -> Mask:
    """Pixels (H, W) of the surface that too many of the nearest views see past, of those that see it or past it."""
    voters = nearest(seen.moved, reference, VOTERS)
    if not voters:
        none: Mask = surface < surface
        return none
    of_voters = np.array([view in voters for view in range(len(weights))])[:, None, None]
    return _seen_past(seen.away, weights, of_voters, seen.far)


@one_pass
def _seen_past(away: Floats, weights: Floats, voters: Mask, limit: np.float32) -> Mask:
    support = (voters & (weights > 0)).astype(np.float32).sum(axis=0)
    past = (voters & (away > limit)).astype(np.float32).sum(axis=0)
    out: Mask = support < np.float32(MAJORITY) * (support + past)
    return out


@one_pass
def _further_one(surface: DepthMap, own: DepthMap) -> DepthMap:
    """The larger of two depths (H, W), the surface where the other is unknown."""
    return np.where(own > surface, own, surface)


@one_pass
def _lost(
    alike: Mask,
    wide: Floats,
    away: Floats,
    weights: Floats,
    others: Mask,
    limit: np.float32,
    held: Mask,
    contested: Mask,
) -> tuple[Mask, Mask]:
    """Strips (H, W) of a mask, where no majority of the other views confirms the surface: its errors are none.

    And what is held, with the contested pixels of these.
    """
    confirm = (others & (weights > 0)).astype(np.float32).sum(axis=0)
    deny = (others & (np.abs(away) > limit)).astype(np.float32).sum(axis=0)
    lost: Mask = alike & (wide < 0.5) & (confirm <= deny)
    return lost, held | (lost & contested)


@one_pass
def _either(where: Mask, one: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(where, one, other)
