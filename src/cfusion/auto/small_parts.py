"""Small parts of a scene that smoothing removes: the background in a gap, a pole.

A small part costs more as an edge than as an error of the few views that see it. Where it is missing, views are read at
the wrong surface and see something else, so that no later fit brings it back. But the reference measured it: where the
nearest views, read at its measurements, see them rather than the surface, the surface takes them over. A part in front
of the surface only has to be seen: a view may see both, past each other, but the reference sees the first on its ray.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.misreading import independence
from cfusion.auto.noise import depth_noise, middle_of, reading_error
from cfusion.auto.pooling import window_sums
from cfusion.auto.uncertainty import autocorrelation
from cfusion.auto.votes import (
    WINDOW,
    excess_misfit,
    in_units,
    measured,
    nearest_views,
    scales_of,
    seen,
)
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.one_pass import one_pass
from cfusion.source import Source

THIN, MOST = 1, 6.5  # radius of a square, and pixels of its nine: thinner parts may be mixed pixels of an edge,
FEWER, ALIKE = 5.5, 0.15  # unless errors of neighbouring pixels are hardly alike (autocorrelation): thin rods have six
APART = 1.0  # pixels: a view that reads both at one pixel measures the same again, also what is wrong,
NEARER = 0.25  # unless errors are hardly alike: a copy of the reference still does not count
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
    elsewhere = _elsewhere(away[0], np.float32(OTHER * scales_of(away, backend)[0, 0, 0]))
    least, far = (FEWER, NEARER) if autocorrelation(away, lag=1) < ALIKE else (MOST, APART)
    (around,) = window_sums(elsewhere, THIN, backend)
    core, some = _most_of(around, np.float32(least))
    near = source.part(nearest_views(source, surface, backend)) if some else source
    others = [view for view in range(near.n_views) if view != near.reference]
    if not some or not others:
        return surface
    away = in_units(measured(near, surface, backend), surface, unit)
    scales = scales_of(away, backend)
    usual, blind = middle_of(scales.ravel().tolist()), reading_error(source.frame.camera, growth.middle)
    if not independence(away, usual, blind, backend):  # small parts are no better placed than those of the others
        return surface
    part = _or_around(surface, own[0], elsewhere[0], *window_sums(core, THIN, backend))
    at_part = in_units(measured(near, part, backend), part, unit)
    apart = near.parallax(surface, backend)[others], surface, part
    here, there = (_if_apart(each[others], *apart, np.float32(far)) for each in (away, at_part))
    scales = scales[others]
    worse, _ = excess_misfit(_or_unknown(here, surface, part, np.float32(UNKNOWN) * scales), there, scales)
    return seen(surface, part, *window_sums(_where_differs(surface, part, *worse), WINDOW, backend))


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
def _or_around(surface: DepthMap, own: DepthMap, elsewhere: Floats, core: Floats) -> DepthMap:
    """The measurement (H, W) where it is elsewhere, in and beside the core of a part; else the surface."""
    return np.where((elsewhere > 0) & (core > 0.5), own, surface)


@one_pass
def _if_apart(residuals: Floats, parallax: Floats, surface: DepthMap, part: DepthMap, far: np.float32) -> Floats:
    """Residuals (K, H, W) of views in whose images part and surface are so many pixels apart; NaN of the others."""
    return np.where(parallax * np.abs(part - surface) >= far, residuals, np.float32(np.nan))


@one_pass
def _or_unknown(residuals: Floats, surface: DepthMap, part: DepthMap, least: Floats) -> Floats:
    """Sizes (K, H, W) of residuals at a surface; at least this where the part is in front of it."""
    size = np.abs(residuals)
    return np.where(part < surface, np.maximum(size, least), size)


@one_pass
def _where_differs(surface: DepthMap, part: DepthMap, worse: Floats, votes: Floats) -> Floats:
    out: Floats = np.stack([np.where(part != surface, each, 0) for each in (worse, votes)])
    return out
