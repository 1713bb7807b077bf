"""Small parts of a scene that smoothing removes: the background in a gap, a pole.

A small part costs more as an edge than as an error of the few views that see it. Where it is missing, views are read at
the wrong surface and see something else, so that no later fit brings it back. But the reference measured it: where the
nearest views, read at its measurements, see them rather than the surface, the surface takes them over. A part in front
of the surface only has to be seen: a view may see both, past each other, but the reference sees the first on its ray.
A rod is a part in front of all surfaces beside it, down to a width of one pixel; views may be read just past it. Of a
single view whose errors are those of single pixels, rods stay: an outlier has no neighbours like it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.misreading import independence
from cfusion.auto.noise import depth_noise, middle_of, reading_error, residual_scales
from cfusion.auto.outlines import wide_parts
from cfusion.auto.pooling import window_sums
from cfusion.auto.surface import AROUND, alike_around, nearest_around
from cfusion.auto.uncertainty import autocorrelation
from cfusion.auto.votes import (
    NEAREST,
    WINDOW,
    believed,
    excess_misfit,
    in_units,
    known_scales,
    measured,
    nearest_views,
    scales_of,
    seen,
)
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.one_pass import one_pass, some_views
from cfusion.kernels.tracing import neighbour
from cfusion.source import Source

THIN, MOST = 1, 6.5  # radius of a square, and pixels of its nine: thinner parts may be mixed pixels of an edge,
FEWER, ALIKE = 5.5, 0.15  # unless errors of neighbouring pixels are hardly alike (autocorrelation): thin rods have six
APART = 1.0  # pixels: a view that reads both at one pixel measures the same again, also what is wrong,
NEARER = 0.25  # unless errors are hardly alike: a copy of the reference still does not count
SAME = 4.0  # noise scales: pixels of one rod
FEWEST_OF_A_ROD = 2  # of a pixel's eight neighbours
VOTERS = 4  # other views, if they hardly err: a rod is hidden from some, and others miss it between their pixels
UNKNOWN = 2.0  # noise scales: misfit of a surface behind the part, which may be seen past it: no evidence against it
OTHER = 6.0  # noise scales: a measurement further from the surface is of another one


def restore(source: Source, surface: DepthMap, backend: Backend) -> DepthMap:
    """The surface with small parts as the reference measured them, where the nearest views see them."""
    if not source.rereads:
        return surface
    own = measured(source.part([source.reference]), surface, backend)
    growth = depth_noise(own, surface, backend)
    unit = growth.unit(surface)
    away = in_units(own, surface, unit)
    own_scale, blind = scales_of(away, backend)[0, 0, 0], reading_error(source.frame.camera, growth.middle)
    elsewhere = _elsewhere(away[0], np.float32(OTHER * own_scale))
    quiet = own_scale < blind
    alone = quiet or autocorrelation(away, lag=1, where=elsewhere[0] < 0.5) < ALIKE  # errors of single pixels
    if source.n_views == 1:
        return _with_rods(surface, own[0], unit, max(own_scale, blind), backend) if alone else surface
    (around,) = window_sums(elsewhere, THIN, backend)
    core, some = _most_of(around, np.float32(FEWER if alone else MOST))
    thick = core
    if alone:
        core, some = _or_rods(core, surface, own[0], unit, np.float32(max(own_scale, blind)))
    near = source.part(nearest_views(source, surface, backend, VOTERS if quiet else NEAREST)) if some else source
    others = [view for view in range(near.n_views) if view != near.reference]
    if not some or not others:
        return surface
    away = in_units(measured(near, surface, backend), surface, unit)
    told, sides = residual_scales(away, backend)
    scales = known_scales(told)
    usual = middle_of(scales.ravel().tolist())
    if not independence(away, sides, usual, blind):  # small parts are no better placed than those of the others
        return surface
    part = _or_around(surface, own[0], elsewhere[0], *window_sums(core, THIN, backend))
    wide = _widened(surface, part) if alone else part
    read = near.at(wide, [0.0] * near.n_views, backend)
    at_part = in_units(believed(read.depths, read.weights if near.weighed else None), wide, unit)
    if alone:
        at_part = _or_beside(at_part, surface, wide, *window_sums(thick, THIN, backend))
    moved = (near.parallax(each, backend) for each in (surface, part))
    here, there, *apart = (some_views(each, others) for each in (away, at_part, *moved))
    least = np.float32(NEARER if alone else APART)
    here, there = (_if_apart(each, apart[0], apart[1], surface, part, least) for each in (here, there))
    scales = np.maximum(scales[others], np.float32(blind))
    worse, _ = excess_misfit(_or_unknown(here, surface, part, np.float32(UNKNOWN) * scales), there, scales)
    found = seen(surface, part, *window_sums(_where_differs(surface, part, *worse), WINDOW, backend))
    if not alone:
        return found
    return _or_unseen(found, part, wide_parts(part != surface, backend), some_views(read.seen, others))


def _with_rods(surface: DepthMap, own: DepthMap, unit: Floats, scale: float, backend: Backend) -> DepthMap:
    """The surface (H, W) with rods as one view measured them; what is wider may be blobs of outliers."""
    rods = _rods(surface, own, unit, np.float32(OTHER * scale), np.float32(SAME * scale))
    found: DepthMap = _where_thin(rods, wide_parts(rods, backend), own, surface)
    return found


@one_pass
def _elsewhere(away: Floats, limit: np.float32) -> Floats:
    """1 where the measurement is further than the limit from the surface, (1, H, W)."""
    out: Floats = np.stack([(np.abs(away) > limit).astype(np.float32)])
    return out


@one_pass
def _most_of(around: Floats, least: np.float32) -> tuple[Floats, Any]:
    """1 where so many of the square around a pixel are counted, (1, H, W), and the number of such pixels."""
    most = around >= least
    return np.stack([most.astype(np.float32)]), most.sum()


@one_pass
def _or_rods(core: Floats, surface: DepthMap, own: DepthMap, unit: Floats, scale: np.float32) -> tuple[Floats, Any]:
    """The core (1, H, W) of parts, with what is in front of all surfaces around it and alike in two neighbours.

    A pixel of a jagged outline is beside a surface of its own depth; a rod is not, however thin. And their number.
    """
    in_front = (nearest_around(surface) - own) / unit > np.float32(OTHER) * scale
    rod = in_front & (alike_around(own, np.float32(SAME) * scale * unit) >= FEWEST_OF_A_ROD)
    both = (core[0] > 0) | rod
    return np.stack([both.astype(np.float32)]), both.sum()


@one_pass
def _rods(surface: DepthMap, own: DepthMap, unit: Floats, limit: np.float32, same: np.float32) -> Mask:
    return in_front_of_all(surface, own, limit * unit, same * unit)


def in_front_of_all(surface: DepthMap, own: DepthMap, limit: Floats, same: Floats) -> Mask:
    """Pixels (H, W) measured in front of all surfaces within one, as two neighbours at the same depth are."""
    front = np.where(nearest_around(surface) - own > limit, own, np.float32(np.nan))
    out: Mask = alike_around(front, same) >= FEWEST_OF_A_ROD
    return out


@one_pass
def _where_thin(rods: Mask, wide: Floats, own: DepthMap, surface: DepthMap) -> DepthMap:
    return np.where(rods & (wide < 0.5), own, surface)


@one_pass
def _or_around(surface: DepthMap, own: DepthMap, elsewhere: Floats, core: Floats) -> DepthMap:
    """The measurement (H, W) where it is elsewhere, in and beside the core of a part; else the surface."""
    return np.where((elsewhere > 0) & (core > 0.5), own, surface)


@one_pass
def _widened(surface: DepthMap, part: DepthMap) -> DepthMap:
    """The part (H, W), continued by a pixel on all sides with its nearest depth."""
    nearest = part
    for down, right in AROUND:
        beside = neighbour(part, down, right, np.nan)
        other = beside != neighbour(surface, down, right, np.nan)
        nearest = np.where(other & (beside < nearest), beside, nearest)
    return np.where(part != surface, part, nearest)


@one_pass
def _or_beside(residuals: Floats, surface: DepthMap, wide: DepthMap, thick: Floats) -> Floats:
    """Sizes (K, H, W) of residuals at a widened part; at a rod the second least of it and those beside, if it is less.

    Views are read past a rod, but see two pixels of it in a square, even at its end. One of nine may fit by chance.
    """
    size = np.abs(residuals)
    of_part = np.where(wide != surface, size, np.float32(np.nan))
    least: Any = np.where(np.isnan(size), np.float32(np.inf), size)
    second: Any = np.float32(np.inf)
    for down, right in AROUND:
        beside = neighbour(of_part, down, right, np.nan)
        beside = np.where(np.isnan(beside), np.float32(np.inf), beside)
        second = np.minimum(second, np.maximum(least, beside))
        least = np.minimum(least, beside)
    return np.where((second < size) & (thick <= 0.5), second, size)


@one_pass
def _or_unseen(found: DepthMap, part: DepthMap, wide: Floats, seen: Mask) -> DepthMap:
    """The thin part (H, W) where it lies outside the images of all other views: none denies it; a hole may hide it."""
    looks = seen.astype(np.float32).sum(axis=0)
    return np.where((looks > 0) | (wide > 0.5), found, part)


@one_pass
def _if_apart(
    residuals: Floats, parallax: Floats, of_part: Floats, surface: DepthMap, part: DepthMap, far: np.float32
) -> Floats:
    """Residuals (K, H, W) of views in whose images part and surface are so many pixels apart; NaN of the others.

    Parallax falls with the square of the depth: between two depths it is the geometric mean.
    """
    pixels = np.sqrt(parallax * of_part) * np.abs(part - surface)
    return np.where(pixels >= far, residuals, np.float32(np.nan))


@one_pass
def _or_unknown(residuals: Floats, surface: DepthMap, part: DepthMap, least: Floats) -> Floats:
    """Sizes (K, H, W) of residuals at a surface; at least this where the part is in front of it."""
    size = np.abs(residuals)
    return np.where(part < surface, np.maximum(size, least), size)


@one_pass
def _where_differs(surface: DepthMap, part: DepthMap, worse: Floats, votes: Floats) -> Floats:
    out: Floats = np.stack([np.where(part != surface, each, 0) for each in (worse, votes)])
    return out
