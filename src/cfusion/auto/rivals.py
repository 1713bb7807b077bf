"""Rivals of a surface: depths on which other views agree, where the reference has a hole or most views contradict it.

A surface follows the reference, also across its holes, where it is interpolated from both sides of an edge, and where
the reference is wrong. Views read there see something else and are rejected, so that no later fit mends it. But they
agree with one another: their points, projected onto the reference, propose a depth, which is taken if the views, read
at it, see it rather than the surface.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.holes import unmeasured_are_holes
from cfusion.auto.noise import depth_noise, middle_of, reading_error, usual_slope
from cfusion.auto.pooling import window_sums
from cfusion.auto.surface import shown
from cfusion.auto.votes import WORST, believed, in_units, measured, nearest_views, scales_of, seen
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.kernels.tracing import neighbour
from cfusion.source import Source, Splat

FEWEST, VOTERS = 3, 10  # views; the nearest other ones, which have a vote
AGREE = 4.0  # noise scales: two measurements within it are of one surface
SILENT = 2.0  # noise scales: misfit of a view that sees nothing here, or something in front: no evidence
PAIR = 2.0  # views that must agree on a rival; one in a hole that the surface bridges without the support of a view
SHARE = 0.5  # of the largest number of views that agree: fewer are outliers, or see past what is in front
CORE, MOST = 2, 20  # radius of a square, and pixels of its 25: in thinner parts an edge is a pixel beside its place
STEP, CONFIRMED = 3.0, 3  # times AGREE: an edge; views that confirm a surface which the reference did not measure
JAGGED = 0.05  # of the reference's pixels at edges: with more refuted, its outlines are inexact (exact ones: 0 to 3 %)
VOTING = 1  # pixels: radius of the square whose pixels vote


def with_rivals(source: Source, surface: DepthMap, backend: Backend, *, within: int = 0) -> DepthMap:
    """The surface, with depths on which other views agree where they see these rather than the surface.

    A measurement contradicts the surface if it differs from all its depths within so many pixels; zero for a surface
    of few views, whose edges may be ramps.
    """
    if not source.rereads or source.n_views < FEWEST:
        return surface
    if source.n_views > VOTERS + 1:  # wide views see edges from their other side
        source = source.part(nearest_views(source, surface, backend, VOTERS))
    read = measured(source, surface, backend)
    growth = depth_noise(read, surface, backend)
    unit = growth.unit(surface)
    away = in_units(read, surface, unit)
    blind = max(usual_slope(surface, growth, backend), reading_error(source.frame.camera, growth.middle))
    scales = np.maximum(scales_of(away, backend), np.float32(blind))
    limit = np.float32(AGREE * middle_of(scales.ravel().tolist()))
    own = away[source.reference]
    holes = unmeasured_are_holes(shown(own), backend)
    around = _range(surface, unit, within=1)
    said = added_up(_said, away, scales, *(around if within == 1 else _range(surface, unit, within=within)))
    contested, fewest = _contested(surface, own, *said, holes=holes)
    refuted, at_edges = _refuted(own, said[0], *around, limit)
    jagged = bool(refuted > JAGGED * at_edges)
    cores = _most_of(*window_sums(contested, CORE, backend))
    near = _near(own, contested[1], *window_sums(cores, CORE, backend), jagged=jagged)
    rows, columns = backend.arrays.nonzero(near)
    if not len(rows):
        return surface
    splat = source.first(Splat(fill=False), backend)
    points = believed(splat.depths, splat.weights)[:, rows, columns]
    own_share = 1.0 if jagged else SHARE
    proposed = _proposed(points, source.reference, own_share, growth, limit, fewest[rows, columns], backend)
    rival, before = surface.copy(), surface[rows, columns]
    same = np.isnan(proposed) | (abs(proposed - before) <= limit * growth.unit(before))
    rival[rows, columns] = backend.arrays.where(same, before, proposed)
    there = in_units(measured(source, rival, backend), rival, growth.unit(rival))
    of_surface = added_up(_misfit, away, scales, _least(surface, rival))
    of_rival = added_up(_misfit, there, scales, _least(rival, surface))
    votes = window_sums(_where_differs(surface, rival, *of_surface, *of_rival), VOTING, backend)
    return seen(surface, rival, *votes)


def _proposed(
    points: Floats,
    reference: int,
    own_share: float,
    growth: DepthNoise,
    limit: np.float32,
    fewest: Floats,
    backend: Backend,
) -> Floats:
    """The nearest depth (n,) on which enough of the views' depths (K, n) agree, NaN without one.

    Or that of the reference, if a pair is near it, and this share of the largest number that agree.
    """
    arrays, own = backend.arrays, points[reference]
    with_own = (abs(points - own) <= limit * growth.unit(own)).sum(axis=0)
    points = arrays.sort(points, axis=0)  # NaN last
    limits = limit * growth.unit(points)
    agree = arrays.isfinite(points).astype(np.float32)  # with this one, of those behind it
    for step in range(1, len(points)):
        agree[:-step] += points[step:] - points[:-step] <= limits[:-step]
    most = agree.max(axis=0)
    enough = agree >= arrays.maximum(fewest, SHARE * most)
    first, place = enough.argmax(axis=0), arrays.arange(points.shape[1])
    middle = first + (arrays.maximum(agree[first, place], 1).astype(np.int64) - 1) // 2
    found = arrays.where(enough[first, place], points[middle, place], np.float32(np.nan))
    out: Floats = arrays.where(with_own >= arrays.maximum(PAIR, own_share * most), own, found)
    return out


@one_pass
def _range(surface: DepthMap, unit: Floats, *, within: int) -> tuple[Floats, Floats]:
    """Least and largest difference (H, W) of the surface around a pixel from that at it, in the unit of the noise."""
    low, high = surface, surface
    for down in range(-within, within + 1):
        for right in range(-within, within + 1):
            other = neighbour(surface, down, right, np.nan)
            other = np.where(np.isnan(other), surface, other)
            low, high = np.minimum(low, other), np.maximum(high, other)
    return (low - surface) / unit, (high - surface) / unit


def _said(away: Floats, scales: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """(K, H, W) each: which views support the surface, and which contradict it."""
    limit = np.float32(AGREE) * scales
    contradict = (away < low - limit) | (away > high + limit)
    return (np.abs(away) <= limit).astype(np.float32), contradict.astype(np.float32)


@one_pass
def _refuted(own: Floats, support: Floats, low: Floats, high: Floats, limit: np.float32) -> tuple[Any, Any]:
    """How many pixels at edges the reference measured elsewhere than others confirm, and how many it measured there."""
    edge = (high - low > np.float32(STEP) * limit) & ~np.isnan(own)
    return (edge & (np.abs(own) > limit) & (support >= CONFIRMED)).sum(), edge.sum()


@one_pass
def _contested(
    surface: DepthMap, own: Floats, support: Floats, contradiction: Floats, *, holes: bool
) -> tuple[Floats, Floats]:
    """(2, H, W): 1 where more views contradict than support what the reference measured, and in its holes as well.

    The first without what others confirm: that is no error of the reference, but what moved, or was missed. And the
    number (H, W) of views that must agree on a rival.
    """
    unmeasured, outvoted = np.isnan(own), contradiction > support
    wrong = ~unmeasured & outvoted
    parts = wrong & (support < CONFIRMED), wrong | unmeasured if holes else wrong
    lone = unmeasured & ~np.isnan(surface) & (support < 1)
    return np.stack([each.astype(np.float32) for each in parts]), np.where(lone, np.float32(1), np.float32(PAIR))


@one_pass
def _most_of(wrong: Floats, contested: Floats) -> Floats:
    """1 where MOST of the square around a pixel are counted, (2, H, W)."""
    out: Floats = np.stack([(each >= MOST - 0.5).astype(np.float32) for each in (wrong, contested)])
    return out


@one_pass
def _near(own: Floats, contested: Floats, of_wrong: Floats, of_any: Floats, *, jagged: bool) -> Mask:
    """Contested pixels (H, W) in and beside the core of a part; what was measured is no part of a hole beside it.

    Where the reference's outlines are jagged, all pixels that it measured.
    """
    core = np.where(np.isnan(own), of_any, np.float32(1) if jagged else of_wrong)
    out: Mask = (contested > 0) & (core > 0.5)
    return out


@one_pass
def _least(surface: DepthMap, other: DepthMap) -> Floats:
    """The least misfit (H, W) at a surface: a view that sees it past another one in front says nothing against that."""
    return np.where(other < surface, np.float32(SILENT), np.float32(0))


def _misfit(away: Floats, scales: Floats, least: Floats | np.float32) -> tuple[Floats, Floats]:
    """Misfit (K, H, W) in noise scales, and which views have a vote: those that measured the surface, or behind it."""
    size = away / scales
    votes = size >= -AGREE
    misfit = np.where(votes, np.minimum(np.abs(size), np.float32(WORST)), np.float32(SILENT))
    return np.maximum(misfit, least), votes.astype(np.float32)


@one_pass
def _where_differs(
    surface: DepthMap, rival: DepthMap, misfit: Floats, votes: Floats, rival_misfit: Floats, rival_votes: Floats
) -> Floats:
    """(2, H, W): excess misfit of the surface, and number of votes; zero where the rival is the same or unknown."""
    differs = (surface != rival) & ~np.isnan(rival)
    each = misfit - rival_misfit, np.maximum(votes, rival_votes)
    out: Floats = np.stack([np.where(differs, one, np.float32(0)) for one in each])
    return out
