"""The observations of a surface: read the views at it, reject those of other surfaces, weigh the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap, some_columns
from cfusion.auto import noise
from cfusion.auto.holes import unmeasured_are_holes
from cfusion.auto.misreading import TELLING, independence, nearest, reliefs_of, surface_doubt, weigh_near_edges
from cfusion.auto.outlines import (
    SAME,
    STEP,
    UNTOLD,
    Outlines,
    held_by_reference,
    measured_alike,
    of_reference,
    put_in_place,
    tallied,
    thin_parts,
    wide_parts,
)
from cfusion.auto.reading import Read
from cfusion.auto.settings import Settings
from cfusion.auto.specks import specks
from cfusion.auto.surface import alike_around
from cfusion.auto.uncertainty import autocorrelation
from cfusion.auto.votes import BELIEVED, in_units
from cfusion.geometry import Pinhole, Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass, rewrite
from cfusion.source import Reading, Source

HIDDEN = 2.0  # times the error of the surface: a point behind it by more is hidden
CONFIRMED = 3.0  # weight of other views that must confirm the surface where the reference measured something else;
LESS_EXACT = 0.5  # times that, if the reference's edges are no better placed than theirs
FEWEST_FOR_EDGES = 3  # views: with fewer, errors that neighbouring pixels share have edges too
INDEPENDENT, ALIKE = 0.05, 0.15  # autocorrelation of neighbours: errors of a matcher have 0.5 to 0.9
MOST_SHARED = 0.5  # independence: with less, errors that neighbouring pixels share displace outlines
MAJORITY = 0.7  # of the views that see a point of the surface or past it: fewer say that it is not there
VOTERS = 10  # other views, and those equally near
MOST_LONE = 0.005  # of its pixels: more specks that no other view sees are outliers or noise; rods have 0.4 % or less
APART = 0.5  # pixels: median parallax of the surface, from which two views measure different points of it
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
    reference, gate, count = source.reference, settings.gate, source.n_views
    seen = _readings(source, surface, gate, read, backend)
    reading, growth, unit, away = seen.reading, seen.growth, seen.unit, seen.away
    depths, weights, scales, usual = reading.depths, reading.weights, seen.scales, seen.usual
    # nothing hides the reference's own measurements
    limits = [gate * max(scale, seen.slope, 1e-12) for scale in scales]
    thresholds = [np.inf if k == reference else limit for k, limit in enumerate(limits)]
    size = np.float32(max(usual, seen.slope))  # of the differences that a point of the surface has
    parallax = source.parallax(surface, backend)
    off = surface_doubt(away, scales, nearest(parallax, reference, TELLING, backend), backend)
    blind = noise.reading_error(source.frame.camera, growth.middle)
    exact = independence(away, usual, blind, backend) if count > 1 else 1.0  # how well the reference's edges are placed
    numbers = (np.float32(each) for each in (off * usual, HIDDEN, exact, usual))  # the first: error of the surface
    tolerance, misread, own_noise = _times(unit, *numbers)
    behind = source.hidden(surface, tolerance, backend)
    if isinstance(source.frame.camera, Pinhole):
        behind = behind | (depths <= 0)  # behind the reference
    others = (np.arange(count) != reference)[:, None, None]
    rewrite(_without, (depths, weights, reading.seen), depths, weights, reading.seen, behind, others)
    trusted = source.weighed
    typical = float(weights.sum(dtype=np.float64)) / max(int((weights > 0).sum()), 1) if trusted else 1.0
    holes = unmeasured_are_holes(weights[reference], backend)
    trustworthy = weights[reference] >= np.float32(BELIEVED * typical)  # in the eyes of its front end
    wrong = _further(depths[reference], surface, unit, np.float32(gate) * size)
    backend.reject_occluded(depths, weights, surface, growth, thresholds, reading.seen, reference, holes)
    weighed = trusted | noise.weigh_views(weights, depths, surface, growth, backend)
    support = _support(weights, reference)
    placed, held, edges_exact, without_noise = None, None, exact, False
    if count > 1:
        held = (surface != (surface if smooth is None else smooth)) | thin_parts(surface, unit, size)
        held = held if outlines.held is None else held | outlines.held
        without_noise = _without_noise(seen, parallax, surface, reference, size, blind, backend)
        reliefs, surely = reliefs_of(surface, unit, backend), wrong & trustworthy
        contested = _contested(surface, away, weights, parallax, reference, np.float32(gate) * size, backend)
        own_unit = growth.unit(_further_one(surface, depths[reference]))  # noise at its own depth, if that is further
        alike = measured_alike(surely, depths[reference], surface, own_unit, size)
        told = tallied(alike, wrong, surely, contested, weights, reference, reliefs, size, backend)
        shared = exact <= MOST_SHARED
        jagged = told.jagged and not outlines.exact
        if told.in_place and not shared:
            thin = _lost(alike, wide_parts(alike, backend), away, weights, others, np.float32(gate) * size)
            reliefs = reliefs_of(_either(thin, depths[reference], surface), unit, backend)
            held = held | (thin & contested)
        noise.weigh_edges(weights, surface, growth, scales, reference, backend, exact)
        noises = [max(scale, 1e-12) if np.isfinite(scale) else usual for scale in scales]
        weigh_near_edges(weights, reliefs, parallax, misread, noises, backend)
        weighed = True
        first = outlines.exact is None and not shared  # reading that tells of outlines
        outlines = outlines.read(told, jagged or (shared and told.doubtful), held, shared=shared)
        if outlines.exact and not shared:
            placed, surface = put_in_place(alike, reliefs[1], size, surface, depths, reference, backend)
            wrong, outlines = wrong & ~placed, replace(outlines, held=held | placed)
        if not told.clean or shared:  # of blobs, and of errors that neighbours share, nothing is held
            held = None
        if not jagged:
            # beside an edge all others may show the other side: they count as little as they weigh
            support = _support(weights, reference)
            wrong = wrong & ~contested
        elif not first:
            edges_exact = 0.0
    enough = CONFIRMED * (LESS_EXACT + (1 - LESS_EXACT) * edges_exact)
    wrong = _denied(wrong, support, enough * typical)
    own = [each[reference : reference + 1] for each in (depths, weights, reading.seen)]
    rewrite(_without, own, *own, wrong[None], np.ones((1, 1, 1), np.bool_))
    lone = specks(weights, reference, backend)
    rewrite(_without, (depths, weights, reading.seen), depths, weights, reading.seen, lone, others)
    frame = source.frame
    judging = stack = Stack.unchecked(depths, weights if weighed else None, frame.camera, frame.image)
    if held is not None:
        weights = held_by_reference(weights, held & trustworthy, reference)
        stack = stack.with_depths(depths, weights)
    if placed is not None:
        stack = stack.with_depths(*of_reference(depths, weights, placed, reference))
    quiet = usual < blind
    edges = count >= FEWEST_FOR_EDGES or quiet or _alone(away[reference], scales[reference], surface, unit, backend)
    return Observed(stack, judging, surface, own_noise, growth, quiet, without_noise, edges, outlines)


@dataclass(frozen=True, eq=False)
class _Readings:
    """A reading of the surface, and the noise that it shows."""

    reading: Reading
    growth: DepthNoise
    unit: Floats  # (H, W) of the noise
    slope: float  # usual change of the surface between pixels, in that unit, as the rest
    away: Floats  # (K, H, W) residuals
    scales: list[float]  # (K,) noise of the views
    usual: float  # noise of the median view
    least: float  # that of exact maps


def _readings(source: Source, surface: DepthMap, gate: float, read: Read | None, backend: Backend) -> _Readings:
    """The views read at the surface, between pixels if their noise is below its change from pixel to pixel."""
    reading = source.at(surface, [0.0] * source.n_views, backend) if read is None else read.reading
    growth = noise.depth_noise(reading.depths, surface, backend) if read is None else read.growth
    unit = growth.unit(surface)
    slope = noise.usual_slope(surface, growth, backend) if read is None else read.slope
    least = noise.least_scale(growth.middle, perspective=isinstance(source.frame.camera, Pinhole))
    away = in_units(reading.depths, surface, unit)
    scales, _ = noise.residual_scales(away, backend, least)
    if noise.middle_of(scales) < slope:
        agreements = [gate * max(scale, slope) for scale in scales]
        reading = source.at(surface, agreements, backend)
        away = in_units(reading.depths, surface, unit)
        scales, _ = noise.residual_scales(away, backend, least)
    usual = noise.middle_of(scales)
    return _Readings(reading, growth, unit, slope, away, scales, usual if usual > 0 else 1e-12, least)


def _alone(away: Floats, scale: float, surface: DepthMap, unit: Floats, backend: Backend) -> bool:
    """Whether the errors (H, W) of a view, in the unit of the noise, are those of single pixels.

    If they are hardly correlated, errors that are far off beside edges of the surface are outlines that smoothing
    displaced; elsewhere they are blobs of outliers.
    """
    alike = autocorrelation(away[None], lag=1)
    if alike < INDEPENDENT or alike >= ALIKE:
        return alike < INDEPENDENT
    around = backend.local_depth_range(backend.arrays.ascontiguousarray(surface), BESIDE)
    limits = np.float32(FAR_OFF * max(scale, 1e-12)), np.float32(STEP * scale)
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
def _further(depth: DepthMap, surface: DepthMap, unit: Floats, limit: np.float32) -> Mask:
    """|depth - surface| > limit * unit, (H, W)."""
    out: Mask = np.abs(depth - surface) > limit * unit
    return out


def _without_noise(
    seen: _Readings,
    parallax: Floats,
    surface: DepthMap,
    reference: int,
    size: np.float32,
    blind: float,
    backend: Backend,
) -> bool:
    """Whether the maps are exact: the reference and most others, which are no copies seen from the same place.

    A median tells nothing of outliers, nor of noise in less than half of the image: both are specks that nobody sees.
    """
    if seen.least <= 0 or max(seen.usual, seen.scales[reference]) > seen.least:
        return False
    limits = np.float32(SAME * max(float(size), blind)), np.float32(blind)
    lone, known = _lone_specks(seen.away, surface, seen.unit, reference, *limits)
    if lone > MOST_LONE * known:
        return False
    apart, counts = backend.medians(some_columns(parallax * surface, noise.SCALE_SAMPLE))
    return any(count > 0 and pixels >= APART for pixels, count in zip(apart, counts, strict=True))


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


def _contested(
    surface: DepthMap,
    away: Floats,
    weights: Floats,
    parallax: Floats,
    reference: int,
    limit: np.float32,
    backend: Backend,
) -> Mask:
    """Pixels (H, W) of the surface that too many of the nearest views see past, of those that see it or past it."""
    voters = nearest(parallax, reference, VOTERS, backend)
    if not voters:
        none: Mask = surface < surface
        return none
    return _seen_past(away[voters], weights[voters], limit)


@one_pass
def _seen_past(away: Floats, weights: Floats, limit: np.float32) -> Mask:
    support = (weights > 0).astype(np.float32).sum(axis=0)
    past = (away > limit).astype(np.float32).sum(axis=0)
    out: Mask = support < np.float32(MAJORITY) * (support + past)
    return out


@one_pass
def _further_one(surface: DepthMap, own: DepthMap) -> DepthMap:
    """The larger of two depths (H, W), the surface where the other is unknown."""
    return np.where(own > surface, own, surface)


@one_pass
def _lost(alike: Mask, wide: Floats, away: Floats, weights: Floats, others: Mask, limit: np.float32) -> Mask:
    """Strips (H, W) of a mask, where no majority of the other views confirms the surface: its errors are none."""
    confirm = (others & (weights > 0)).astype(np.float32).sum(axis=0)
    deny = (others & (np.abs(away) > limit)).astype(np.float32).sum(axis=0)
    out: Mask = alike & (wide < 0.5) & (confirm <= deny)
    return out


@one_pass
def _either(where: Mask, one: DepthMap, other: DepthMap) -> DepthMap:
    return np.where(where, one, other)


@one_pass
def _support(weights: Floats, reference: int) -> Floats:
    """The weight (H, W) of the other views that support the surface."""
    out: Floats = weights.sum(axis=0) - weights[reference]
    return out


@one_pass
def _denied(wrong: Mask, support: Floats, enough: float) -> Mask:
    """Pixels (H, W) where the reference is wrong and the other views have enough weight."""
    out: Mask = wrong & (support >= enough)
    return out


@one_pass
def _without(depths: Floats, weights: Floats, seen: Mask, where: Mask, there: Mask) -> tuple[Floats, Floats, Mask]:
    """Set depth, weight and visibility to none at pixels `where`, in views `there` (K, 1, 1)."""
    gone = where & there
    return np.where(gone, np.float32(np.nan), depths), np.where(gone, np.float32(0), weights), seen & ~gone
