"""Misreading: where the surface is wrong by delta, a view is read delta x parallax pixels beside the right place.

Far from edges that changes nothing. Near an edge a view with a wide baseline then reads the other surface, and all such
views on the same side do so alike: they would outvote the near views. So the error of an observation has a second part:
the relief of the surface within the pixels by which it may be misread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cfusion.arrays import MEDIAN_SIZE, DepthMap, on_host, some_columns
from cfusion.auto.noise import SCALE_SAMPLE, Sides
from cfusion.auto.settings import NO_NOISE
from cfusion.auto.uncertainty import autocorrelation
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.one_pass import one_pass, rewrite, some_views, times

RADII = (1, 2, 4, 8, 16)  # pixels for which the relief is computed; linear in between
TELLING = 4  # nearest other views, from which the error of the surface is estimated
AS_NEAR = 1.01  # ratio of parallax up to which views count as equally near
WINDOW, FEWEST = 3, 20  # pixels: residuals are averaged over the square of side 7, if it holds this many
SQUARE = (2 * WINDOW + 1) ** 2
OUTLIER = 4.0  # noise scales
SAFETY = 3.0  # times the median error of the surface: near edges, where it matters, it is larger
LEAST_WEIGHT = 1e-3
SHARED = (0.4, 0.6)  # range of the autocorrelation rho: stereo has 0.65, wrong poses 0.33, white noise below 0.12
ONE_SIDED = 0.8  # of a view's residuals, more on one side of the surface than on the other: its scale or pose is off
FAR = 4.0  # pixels: a view that is typically misread by this many has half of its weight
APART = 0.5  # pixels: median parallax of the surface, from which two views measure different points of it
GIVEN_BACK, MOST_LOST = 0.5, 4.0  # power of a pixel's lost weight that is given back, and largest loss that counts


def surface_doubt(residuals: Floats, scales: Sequence[float], near: Sequence[int], backend: Backend) -> float:
    """The error of the surface in noise scales, at most one.

    Three times the median size of the mean residual around a pixel. Residuals (K, H, W) are in the unit of the noise;
    only those of the `near` views, which are misread least, are used.
    """
    if not near:
        return 1.0
    maps, noises = [residuals[view] for view in near], [np.float32(max(scales[view], NO_NOISE)) for view in near]
    around = backend.pooled(_believed(*maps, *noises), WINDOW, 1)
    (usual,), (known,) = backend.medians(_mean_size(*around)[None])
    return min(SAFETY * usual / MEDIAN_SIZE, 1.0) if known else 1.0


@one_pass
def _believed(*maps_and_scales: Any) -> Floats:
    """(2, H, W): sum of the residuals that are no outliers, in noise scales, and their number."""
    half = len(maps_and_scales) // 2
    total: Any = np.float32(0)
    count: Any = np.float32(0)
    for residual, scale in zip(maps_and_scales[:half], maps_and_scales[half:], strict=True):
        away = residual / scale
        believed = np.abs(away) <= OUTLIER
        total, count = total + np.where(believed, away, 0), count + believed.astype(np.float32)
    out: Floats = np.stack([total, count])
    return out


@one_pass
def _mean_size(total: Floats, count: Floats) -> Floats:
    """The size (H, W) of the mean residual, NaN where too few are known; both arguments are means over a window."""
    total, count = total * SQUARE, count * SQUARE
    out: Floats = np.where(count >= FEWEST, np.abs(total) / np.maximum(count, 1), np.nan).astype(np.float32)
    return out


def independence(residuals: Floats, sides: Sides, usual: float, least: float) -> float:
    """From one (errors of neighbouring pixels are independent) to zero (they are shared, as in stereo).

    A view whose neighbouring pixels share their errors has misplaced edges, the reference no less than others: it then
    deserves no more weight than they do. Residuals whose usual size is below the least are no errors of the views; a
    view that is off as a whole tells nothing about those of neighbours: `sides` are those of `residual_scales`.
    """
    if usual < least:
        return 1.0
    telling = [k for k, (above, below) in enumerate(sides) if abs(above - below) <= ONE_SIDED * (above + below)]
    if not telling:
        return 1.0
    most, none = SHARED
    rho = autocorrelation(residuals if len(telling) == len(residuals) else some_views(residuals, telling))
    return float(np.clip((none - rho) / (none - most), 0, 1))


def usual_parallax(parallax: Floats, backend: Backend) -> list[float]:
    """The median (K,) of each view's parallax (K, H, W)."""
    return backend.medians(some_columns(parallax, SCALE_SAMPLE))[0]


def views_apart(parallax: Floats, over: Floats | np.float32, backend: Backend) -> int:
    """How many views measure other points of the surface than the reference: APART in the median.

    `parallax` (K, H, W) counts over a depth, (H, W) or of all pixels.
    """
    depth = some_columns(over, SCALE_SAMPLE) if np.ndim(over) else over
    pixels, counts = backend.medians(some_columns(parallax, SCALE_SAMPLE) * depth)
    return sum(count > 0 and each >= APART for each, count in zip(pixels, counts, strict=True))


def nearest(moved: Sequence[float], reference: int, number: int) -> list[int]:
    """The `number` other views with the smallest parallax, and those equally near; `moved` (K,) is the usual one."""
    others = [view for view in range(len(moved)) if view != reference and np.isfinite(moved[view])]
    if not others:
        return []
    limit = AS_NEAR * sorted(moved[view] for view in others)[min(number, len(others)) - 1]
    return [view for view in others if moved[view] <= limit]


def weigh_near_edges(
    weights: Floats,
    reliefs: Sequence[Floats],
    parallax: Floats,
    doubt: Floats,
    noises: Sequence[float],
    backend: Backend,
) -> None:
    """Multiply weights (K, H, W) in place by a factor against misreading, by the reliefs of the surface.

    The factor is `_weight` / (1 + (p / FAR)^2) for a view that is typically misread by p pixels; the reference is not
    misread and keeps its weight. The weight that a pixel loses is given back in part to its remaining observations:
    otherwise the few correct ones beside an edge would be smoothed away.
    """
    away, known = backend.medians(_pixels(*(some_columns(each, SCALE_SAMPLE) for each in (parallax, doubt))))
    far = [1 + (pixels / FAR) ** 2 if count else 1.0 for pixels, count in zip(away, known, strict=True)]
    squares, further = np.array([np.square(noises), far], np.float32)[..., None, None]
    before = _sum(weights)
    rewrite(_read_rightly, (weights,), weights, parallax, doubt, squares, further, *reliefs)
    rewrite(times, (weights,), weights, _given_back(before, weights))


def reliefs_of(surface: DepthMap, unit: Floats, backend: Backend) -> Sequence[Floats]:
    """The range (H, W) of a surface within each of RADII, in the unit of the noise."""
    whole = backend.arrays.ascontiguousarray(surface)
    ranges = [backend.local_depth_range(whole, radius) for radius in RADII]
    return [_relief(each, unit) for each in ranges] if on_host(unit) else _reliefs(unit, *ranges)


def _relief(found: Floats, unit: Floats) -> Floats:
    """A range (H, W) of depths in the unit of the noise."""
    return np.where(np.isfinite(found), found, 0) / unit


@one_pass
def _reliefs(unit: Floats, *ranges: Floats) -> tuple[Floats, ...]:
    return tuple(_relief(found, unit) for found in ranges)


@one_pass
def _pixels(parallax: Floats, doubt: Floats) -> Floats:
    return doubt * parallax


def _within(pixels: Floats, *reliefs: Floats) -> Floats:
    """The range (..., H, W) of the surface within this many pixels, in the unit of the noise."""
    out = np.minimum(pixels, 1) * reliefs[0]
    for k, (near, far) in enumerate(zip(RADII, RADII[1:], strict=False)):
        share = np.clip((pixels - near) / (far - near), 0, 1)
        out = out + share * (reliefs[k + 1] - reliefs[k])
    return out


def _weight(parallax: Floats, doubt: Floats, noise_square: Floats | float, *reliefs: Floats) -> Floats:
    """noise^2 / (noise^2 + relief^2), (..., H, W), with the relief within doubt (H, W) times parallax pixels.

    Squared, not the root as for independent errors, because misread views err alike.
    """
    square = np.square(_within(np.nan_to_num(doubt * parallax), *reliefs))
    out: Floats = np.maximum(noise_square / (noise_square + square), np.float32(LEAST_WEIGHT)).astype(np.float32)
    return out


@one_pass
def _read_rightly(
    weights: Floats, parallax: Floats, doubt: Floats, squares: Floats, further: Floats, *reliefs: Floats
) -> Floats:
    return weights * (_weight(parallax, doubt, squares, *reliefs) / further)


@one_pass
def _sum(weights: Floats) -> Floats:
    out: Floats = weights.sum(axis=0)
    return out


@one_pass
def _given_back(before: Floats, weights: Floats) -> Floats:
    """The factor (H, W) on the remaining weights."""
    after = np.maximum(weights.sum(axis=0), np.float32(1e-6))
    out: Floats = np.clip(before / after, 1, MOST_LOST) ** np.float32(GIVEN_BACK)
    return out
