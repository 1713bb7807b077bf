"""Which observations are of the surface: read the views at it, leave out what is another surface, weigh the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto import noise
from cfusion.auto.misreading import TELLING, Misreading, independence, nearest, surface_doubt
from cfusion.auto.settings import Settings
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.source import Reading, Source

HIDDEN = 2.0  # times what the surface may be off by: a point that it hides by more is hidden
CONFIRMED = 3.0  # other views, by their weights, that confirm the surface where the reference measured something else;
LESS_EXACT = 0.5  # of those, where its edges are no more in place than theirs


@dataclass(frozen=True, eq=False)
class Observed:
    """A stack, and the noise of one of its observations."""

    stack: Stack
    noise: Floats  # (H, W) Laplace scale in the unit of depth, of the usual view


def observe(source: Source, surface: DepthMap, settings: Settings, backend: Backend) -> Observed:
    """The stack (K, H, W) of what every view measured of the surface, weighed by the noise model.

    An observation further than `gate` times its view's noise scale from the surface is another surface (occlusion),
    and is left out; so is one of a point that the surface itself hides from the view. The reference is left out where
    it measured something else and others confirm the surface. A pixel that the reference did not measure is kept only
    if others confirm it.
    """
    reference, gate, count = source.reference, settings.gate, source.n_views
    reading = source.at(surface, [0.0] * count, backend)
    growth = noise.depth_noise(reading.depths, surface, backend)
    unit = growth.unit(surface)
    slope = noise.usual_slope(surface, growth, backend)
    scales, known = noise.residual_scales((reading.depths - surface) / unit, backend)
    if np.nanmedian(scales) < slope:  # finer than the surface changes from pixel to pixel: read between pixels
        agreements = [gate * max(scale, slope) for scale in scales]
        reading = source.at(surface, agreements, backend)
        scales, known = noise.residual_scales((reading.depths - surface) / unit, backend)
    depths, weights, usual = reading.depths, reading.weights, float(np.nanmedian(scales))
    usual = usual if usual > 0 else 1e-12
    limits = [gate * max(scale, slope, 1e-12) for scale in scales]
    # nothing stands between the reference and what it measured
    thresholds = [np.inf if k == reference else limit for k, limit in enumerate(limits)]
    parallax = source.parallax(surface, backend)
    away = (depths - surface) / unit
    off = surface_doubt(away, scales, nearest(parallax, reference, TELLING, backend), backend)
    doubt = np.float32(off * usual) * unit  # (H, W) how far the surface may be off
    behind = source.hidden(surface, np.float32(HIDDEN) * doubt, backend)
    behind[reference] = False
    _leave_out(reading, slice(None), behind)
    # where the reference measured most of what it looks at, the rest are holes; else the rest is background
    trusted = source.weighed
    typical = float(weights.sum(dtype=np.float64)) / max(int((weights > 0).sum()), 1) if trusted else 1.0
    measured = int((weights[reference] > 0).sum()) if trusted else known[reference]
    holes = 2 * measured > surface.size
    wrong = np.abs(depths[reference] - surface) > np.float32(gate * max(usual, slope)) * unit
    backend.reject_occluded(depths, weights, surface, growth, thresholds, reading.seen, reference, holes)
    weighed = trusted | noise.weigh_views(weights, depths, surface, growth, backend)
    exact = independence(away) if count > 1 else 1.0  # how far the reference's edges are in place
    if count > 1:
        weighed |= noise.weigh_edges(weights, surface, growth, scales, reference, backend, exact)
        noises = [max(scale, 1e-12) if np.isfinite(scale) else usual for scale in scales]
        misread = np.float32(exact) * doubt
        Misreading(surface, unit, backend).weigh(weights, parallax, misread, noises, backend)
        weighed = True
    enough = CONFIRMED * (LESS_EXACT + (1 - LESS_EXACT) * exact)
    wrong &= weights.sum(axis=0) - weights[reference] >= enough * typical
    _leave_out(reading, reference, wrong)
    frame = source.frame
    stack = Stack.unchecked(depths, weights if weighed else None, frame.camera, frame.image)
    return Observed(stack, np.float32(usual) * unit)


def _leave_out(reading: Reading, view: int | slice, where: Mask) -> None:
    """In place: no observation, and not seen."""
    reading.depths[view][where] = np.nan
    reading.weights[view][where] = 0
    reading.seen[view][where] = False
