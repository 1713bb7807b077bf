"""The reliability of `auto`'s result: evidence, a probability and a standard deviation per pixel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cfusion.arrays import SMALL
from cfusion.auto import belief, uncertainty
from cfusion.auto.evidence import Evidence, Placed, collect
from cfusion.auto.far import variance_of_far
from cfusion.auto.fit import Fit
from cfusion.auto.halves import refit_halves, refit_pixels
from cfusion.auto.misreading import views_apart
from cfusion.auto.noise import PIXEL_ERROR, depth_noise, reading_error
from cfusion.auto.outlines import Outlines
from cfusion.auto.pooling import pooled_mean
from cfusion.auto.reading import read_surface, residual_sizes
from cfusion.auto.rounding import rounding_of, steps_of
from cfusion.auto.settings import NO_NOISE
from cfusion.auto.surface import local_slope
from cfusion.geometry import Orthographic, Pinhole
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass
from cfusion.source import Reading, Source, Splat

ROUNDING = 2.0**-24  # of a number in single precision, relative to it
FAR_OFF = 10.0  # median noise scales
AROUND = 3  # pixels from which an interpolated pixel takes its error bar


@dataclass(frozen=True, eq=False)
class Assessment:
    """Confidence and sigma of a result, and the evidence for them."""

    confidence: Floats  # (H, W) probability that the depth is right
    sigma: Floats  # (H, W) standard deviation of its error, NaN where nothing was observed
    evidence: Evidence
    growth: DepthNoise
    scales: list[float]  # (K,) noise scale of each view, in the unit of the noise


def assess(source: Source, found: Fit, outlines: Outlines, backend: Backend) -> Assessment:
    """Compare every view with the surface, including observations that were rejected."""
    depth = found.depth
    reading, growth, scales = _read(source, found, backend)
    evidence = collect(reading, depth, scales, growth, source.frame, _places(source), backend)
    unit, usual, inverse = growth.unit(depth), float(np.median(scales)), found.task.energy.inverse
    noise, x, x_unit = _units(unit, depth, np.float32(max(usual, NO_NOISE)), inverse=inverse)
    variance = uncertainty.variance_of_halves(refit_halves(found), x, partial(refit_pixels, found), x_unit, backend)
    slope = local_slope(depth, growth)
    measured_here = source.maps[source.reference]
    step = steps_of(depth, rounding_of(measured_here, backend)) / unit
    residuals = _residuals(found, unit, step, FAR_OFF * usual)
    variance = _at_least(variance, np.float32(variance_of_far(residuals, found.task.stack.weights, backend)))
    sure, n = uncertainty.deviation(residuals, x, x_unit, slope, unit, variance, step, backend)
    perspective = isinstance(source.frame.camera, Pinhole)
    unsure = _unsure(sure, unit, depth, relative=perspective)
    measured = found.task.domain
    unsure = _or_around(unsure, measured, pooled_mean(unsure, measured, AROUND, backend))
    exact = source.reference if outlines.exact else None
    own = backend.arrays.asarray(measured_here) if source.rereads else None  # in the memory of the depth
    confidence = belief.confidence(
        evidence, depth, noise, unsure, backend, exact, misplaced=outlines.misplaced, own=own, perspective=perspective
    )
    if source.rereads and source.n_views >= belief.FEWEST_VIEWS:
        apart = partial(_from_many_places, source, depth, backend)
        confidence = belief.unless_gaps(confidence, evidence.support, measured, apart=apart)
    sigma = uncertainty.or_of_another_surface(sure, n, depth, 1 - confidence, backend)
    if source.motions is not None:
        sigma = uncertainty.with_poses(sigma, depth, slope * unit, source.motions, source.places()[0])
    return Assessment(confidence, _at_least_rounding(sigma, depth), evidence, growth, scales)


def leave_unknown(assessed: Assessment, depth: Floats, least: float) -> tuple[Floats, Floats, Floats]:
    """Depth, confidence and sigma without pixels of a probability below `least`."""
    return _believed(depth, assessed.confidence, assessed.sigma, np.float32(least))


@one_pass
def _believed(depth: Floats, confidence: Floats, sigma: Floats, least: np.float32) -> tuple[Floats, Floats, Floats]:
    keep = confidence >= least
    unknown = np.float32(np.nan)
    return np.where(keep, depth, unknown), np.where(keep, confidence, np.float32(0)), np.where(keep, sigma, unknown)


@one_pass
def _units(unit: Floats, depth: Floats, usual: np.float32, *, inverse: bool) -> tuple[Floats, Floats, Floats]:
    """(H, W) each: noise of an observation of the median view, the variable of the solve, and its unit of the noise."""
    return usual * unit, *((1 / depth, unit / np.square(depth)) if inverse else (depth, unit))


@one_pass
def _at_least(variance: Floats, least: np.float32) -> Floats:
    """The variance (H, W), or the least one; NaN stays."""
    out: Floats = np.where(variance < least, least, variance)
    return out


@one_pass
def _at_least_rounding(sigma: Floats, depth: Floats) -> Floats:
    """Sigma (H, W), at least the rounding of a depth in single precision: nobody divides by zero."""
    return np.maximum(sigma, np.float32(ROUNDING) * np.abs(depth))


@one_pass
def _unsure(sigma: Floats, unit: Floats, depth: Floats, *, relative: bool) -> Floats:
    """The error bar (H, W) as confidence counts it: relative to the depth, or in the unit of the noise."""
    out: Floats = sigma / (np.maximum(depth, np.float32(SMALL)) if relative else unit)
    return out


@one_pass
def _or_around(unsure: Floats, measured: Mask, around: Floats) -> Floats:
    """The error bar (H, W), or that of the measured pixels around where a depth was interpolated; NaN without any."""
    out: Floats = np.where(measured, unsure, np.where(around > 0, around, np.float32(np.nan))).astype(np.float32)
    return out


def _read(source: Source, found: Fit, backend: Backend) -> tuple[Reading, DepthNoise, list[float]]:
    """The views read at the surface, the growth of noise with depth, and the views' noise, at least a pixel's slope."""
    depth = found.depth
    if source.rereads:
        read = read_surface(source, depth, backend)
        reading, growth, scales = read.reading, read.growth, read.scales
        least = max(read.slope, reading_error(source.frame.camera, growth.middle, PIXEL_ERROR))
    else:  # registered maps are never read at a wrong pixel
        stack = source.first(Splat(), backend)
        known = ~np.isnan(stack.depths)
        weights = known.astype(np.float32) if stack.weights is None else stack.weights
        reading, least = Reading(stack.depths, weights, known), 0.0
        growth = depth_noise(reading.depths, depth, backend)
        scales = residual_sizes(reading, depth, growth, backend)
    return reading, growth, [max(scale, least) if np.isfinite(scale) else least for scale in scales]


def _from_many_places(source: Source, depth: Floats, backend: Backend) -> bool:
    """Whether at least half of the other views look from elsewhere than the reference.

    Parallel rays have no zero of depth: their directions are apart if they are over a depth as large as the image.
    """
    camera = source.frame.camera
    over = np.float32(max(depth.shape) * camera.pixel_size) if isinstance(camera, Orthographic) else depth
    apart = views_apart(source.parallax(depth, backend), over, backend)
    return 2 * apart >= source.n_views - 1


def _places(source: Source) -> list[Placed] | None:
    if not source.rereads:
        return None
    _, cameras, motions = source.places()
    return [Placed(camera, motion) for camera, motion in zip(cameras, motions, strict=True)]


def _residuals(found: Fit, unit: Floats, step: Floats, most: float) -> Floats:
    """Residuals (K, H, W) of the fitted observations, in the unit of the noise, up to this size and half a step."""
    stack = found.task.stack
    limit = np.float32(most if most > 0 else np.inf)  # beyond it, a view is no evidence for the noise of the others
    return _fitted(stack.depths, stack.weights, found.depth, unit, step, limit)


@one_pass
def _fitted(
    depths: Floats, weights: Floats | None, depth: Floats, unit: Floats, step: Floats, limit: np.float32
) -> Floats:
    away = (depths - depth) / unit
    known = np.abs(away) <= limit + step / 2
    known = known if weights is None else known & (weights > 0)
    out: Floats = np.where(known, away, np.float32(np.nan))
    return out
