"""Re-association: given a surface, ask every view what it measured there.

The noise stays where it was measured, nothing is invented, and the splat's bias towards whatever is in front
disappears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap
from cfusion.association.splat import Rasteriser, Splat, reference_index
from cfusion.errors import InputError
from cfusion.geometry import Camera, Pinhole, Stack, View

LAPLACE_MEDIAN = float(np.log(2.0))  # median of |t| over the scale of a Laplace distribution
VIEW_RATIO = 1.25  # views whose noise differs by less are weighed alike
SMALLEST_WEIGHT = 0.05
SAMPLE, FEWEST = 5_000, 50  # pixels that tell how noisy a view is, and how many must
PAIR_ROUNDS = 30
GROWTH_SAMPLE, GROWTH_BINS, LEAST_RANGE = 10_000, 8, 1.3
PIXEL_ERROR = 0.3  # pixels: the standard deviation of rounding to the nearest one


class Puller(Rasteriser, Protocol):
    """What re-association asks of a backend."""

    def pull(
        self,
        x: NDArray[Any],
        reference_camera: NDArray[Any],
        view_camera: NDArray[Any],
        view_from_reference: NDArray[Any],
        depth: NDArray[Any],
        confidence: NDArray[Any],
        agreement: float,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...


@dataclass(frozen=True)
class Pull:
    """Views to a stack through the surface found so far; the first stack, with none yet, is the splat.

    An observation further than `gate` times its view's noise scale from the surface is another surface (occlusion),
    and is left out. A pixel that the reference did not measure is kept only if others confirm it.
    """

    rounds: int = 3
    gate: float = 6.0
    damping: float = 0.5  # of the surface's change between rounds: undamped, steep slopes swing
    start: Splat = field(default_factory=Splat)

    def __post_init__(self) -> None:
        if self.rounds != int(self.rounds) or self.rounds < 1 or not self.gate > 0 or not 0 < self.damping <= 1:
            raise InputError(
                f"rounds = {self.rounds}, gate = {self.gate}, damping = {self.damping}: "
                "a whole number from 1, positive, in (0, 1]"
            )

    def __call__(self, views: Sequence[View], onto: int | None = None, *, backend: Puller) -> Stack:
        """The stack to start from."""
        return self.start(views, onto, backend=backend)

    def again(self, views: Sequence[View], onto: int | None, surface: DepthMap, *, backend: Puller) -> Stack:
        """The stack (K, H, W) of what every view measured at the surface."""
        index = reference_index(views, onto)
        reference = views[index]
        pulled = [_pull_view(reference, view, surface, agreement=0.0, backend=backend) for view in views]
        growth = _growth(surface, [observed - surface for observed, _, _ in pulled])
        slope = _slope(surface, growth)
        scales = [_noise_scale((observed - surface) / growth) for observed, _, _ in pulled]
        if np.nanmedian(scales) < slope:  # finer than the surface changes from pixel to pixel: read between pixels
            pulled = [
                _pull_view(reference, view, surface, agreement=self.gate * max(scale, slope), backend=backend)
                for view, scale in zip(views, scales, strict=True)
            ]
            scales = [_noise_scale((observed - surface) / growth) for observed, _, _ in pulled]
        depths = np.stack([observed for observed, _, _ in pulled])
        weights = np.stack([weight for _, weight, _ in pulled])
        looking = np.stack([seen for _, _, seen in pulled]).sum(axis=0, dtype=np.int32)
        for k, scale in enumerate(scales):
            if k == index:
                continue  # nothing stands between the reference and what it measured
            with np.errstate(invalid="ignore"):
                weights[k][~(np.abs(depths[k] - surface) <= self.gate * max(scale, slope, 1e-12) * growth)] = 0
        weights[:, _unconfirmed(depths, weights, looking, index)] = 0
        weighed = any(view.confidence is not None for view in views)
        weighed |= _weigh_views(weights, depths / growth)
        weighed |= _weigh_edges(weights, surface, growth, scales, index)
        depths[weights == 0] = np.nan
        return Stack(depths, weights if weighed else None, camera=reference.camera, image=reference.image)


def _unconfirmed(depths: NDArray[Any], weights: NDArray[Any], looking: NDArray[Any], index: int) -> NDArray[np.bool_]:
    """Pixels the reference did not measure, and too few others confirm.

    Where it measured most of what it looks at, the rest are holes: more views have to confirm than measure something
    else, and one that has a hole there too says nothing. Where it measured an object before nothing, what it did not
    measure is the nothing: half of the views that look there have to confirm that there is something.
    """
    measured, confirmed = weights[index] > 0, (weights > 0).sum(axis=0)
    denied = (np.isfinite(depths) & (weights == 0)).sum(axis=0)
    enough = confirmed > denied if 2 * int(measured.sum()) > measured.size else 2 * confirmed >= looking
    unconfirmed: NDArray[np.bool_] = ~measured & ~enough
    return unconfirmed


def _weigh_views(weights: NDArray[Any], depths: NDArray[Any]) -> bool:
    """Weigh views by 1 / their noise scale; nothing to do where they are alike."""
    scales = _view_scales(np.where(weights > 0, depths, np.nan))
    if scales is None or scales.max() <= VIEW_RATIO * scales.min():
        return False
    factors = np.clip(np.median(scales) / scales, SMALLEST_WEIGHT, 1 / SMALLEST_WEIGHT).astype(np.float32)
    weights *= factors[:, None, None]
    return True


def _view_scales(depths: NDArray[Any]) -> NDArray[np.float64] | None:
    """(K,) the noise of each view, from how much the views differ from one another: s_j^2 + s_k^2 for every pair.

    The surface does not come into it: a view it follows closely would look quieter than it is.
    """
    views = len(depths)
    every = max(1, int(np.sqrt(depths[0].size / SAMPLE)))
    sample = depths[:, ::every, ::every].reshape(views, -1)
    pairs = np.full((views, views), np.nan)
    for j in range(views):
        for k in range(j):
            apart = np.abs(sample[j] - sample[k])
            apart = apart[np.isfinite(apart)]
            if apart.size >= FEWEST:
                pairs[j, k] = pairs[k, j] = float(np.median(apart)) ** 2
    if views < 3 or np.isfinite(pairs).sum() < views * (views - 1):
        return None
    np.fill_diagonal(pairs, 0)
    squares = np.median(pairs + np.diag(np.full(views, np.inf)), axis=1) / 2
    if not squares.min() > 0:
        return None
    for _ in range(PAIR_ROUNDS):  # each from the others, near pairs counting most: a pair is known to a part of itself
        trust = 1 / (squares[:, None] + squares[None, :]) ** 2
        np.fill_diagonal(trust, 0)
        found = np.sum(trust * (pairs - squares[None, :]), axis=1) / np.sum(trust, axis=1)
        squares = np.sqrt(squares * np.clip(found, 0.1 * squares, 10 * squares))
    scales: NDArray[np.float64] = np.sqrt(squares)
    return scales


def _weigh_edges(
    weights: NDArray[Any], surface: DepthMap, growth: NDArray[Any], scales: Sequence[float], index: int
) -> bool:
    """Trust other views less where the surface changes by more than the noise within a pixel.

    Reading another view is off by a fraction of a pixel, so its error there is noise and slope together; the
    reference's own reading is not off at all. w = noise / sqrt(noise^2 + (0.3 slope)^2), less what of the slope the
    noise of the quietest view could make.
    """
    others = [max(scale, 1e-12) for k, scale in enumerate(scales) if k != index and np.isfinite(scale)]
    known = np.isfinite(surface)
    if not others or not known.any():
        return False
    steep = np.maximum(PIXEL_ERROR * _local_slope(surface) / growth - min(others), 0)
    if np.quantile(steep[known], 0.98) <= np.median(others):
        return False
    for k, scale in enumerate(scales):
        if k != index and np.isfinite(scale):
            noise = max(scale, 1e-12)
            weights[k] *= np.maximum(noise / np.hypot(noise, steep), SMALLEST_WEIGHT).astype(np.float32)
    return True


def _local_slope(surface: DepthMap) -> NDArray[Any]:
    """(H, W) the largest change to a known neighbour."""
    out = np.zeros(surface.shape)
    for axis in (0, 1):
        step = np.nan_to_num(np.abs(np.diff(surface, axis=axis)))
        ahead = (slice(None, -1), slice(None)) if axis == 0 else (slice(None), slice(None, -1))
        behind = (slice(1, None), slice(None)) if axis == 0 else (slice(None), slice(1, None))
        out[ahead] = np.maximum(out[ahead], step)
        out[behind] = np.maximum(out[behind], step)
    return out


def _pull_view(
    reference: View, view: View, surface: DepthMap, agreement: float, backend: Puller
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    view_from_reference = (view.pose.inverse() @ reference.pose).matrix()[:3]
    confidence = np.empty((0, 0), np.float32) if view.confidence is None else view.confidence
    return backend.pull(
        np.ascontiguousarray(surface, np.float32),
        camera_numbers(reference.camera),
        camera_numbers(view.camera),
        np.ascontiguousarray(view_from_reference),
        view.depth,
        confidence,
        agreement,
    )


def camera_numbers(camera: Camera) -> NDArray[np.float64]:
    """The five numbers by which kernels know a camera."""
    if isinstance(camera, Pinhole):
        return np.array([0.0, camera.fx, camera.fy, camera.cx, camera.cy])
    return np.array([1.0, 1 / camera.pixel_size, 1 / camera.pixel_size, camera.cx, camera.cy])


def _noise_scale(residual: NDArray[Any]) -> float:
    """The Laplace scale of a view's residuals, by their median size: a tenth of wrong surfaces does not matter."""
    known = np.abs(residual[np.isfinite(residual)])
    return float(np.median(known)) / LAPLACE_MEDIAN if known.size else float("nan")


def _slope(surface: DepthMap, growth: NDArray[Any]) -> float:
    """How much the surface changes from pixel to pixel, typically, where noise is what it is at the middle depth."""
    steps = np.concatenate(
        [(np.abs(np.diff(surface, axis=axis)) / np.delete(growth, 0, axis)).ravel() for axis in (0, 1)]
    )
    steps = steps[np.isfinite(steps)]
    return float(np.median(steps)) if steps.size else 0.0


def _growth(surface: DepthMap, residuals: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """(H, W) how noise grows with depth: (depth / middle)^p, p = 0, 1 or 2 (stereo's), as the residuals have it."""
    flat = np.ones(surface.shape, np.float32)
    every = max(1, int(np.sqrt(surface.size / GROWTH_SAMPLE)))
    depth = surface[::every, ::every]
    sizes = np.abs(np.stack([residual[::every, ::every] for residual in residuals]))
    usable = np.isfinite(sizes) & (sizes > 0) & (depth > 0)[None]
    place = np.broadcast_to(depth, sizes.shape)[usable].astype(np.float64)
    if place.size < GROWTH_BINS * FEWEST:
        return flat
    edges = np.quantile(place, np.linspace(0, 1, GROWTH_BINS + 1))
    if edges[-2] < LEAST_RANGE * edges[1]:  # too little depth to tell, and then it does not matter
        return flat
    bins = np.clip(np.searchsorted(edges, place) - 1, 0, GROWTH_BINS - 1)
    middle = np.array([np.median(place[bins == k]) for k in range(GROWTH_BINS)])
    level = np.array([np.median(sizes[usable][bins == k]) for k in range(GROWTH_BINS)])
    power = int(np.clip(np.rint(np.polyfit(np.log(middle), np.log(level), 1)[0]), 0, 2))
    if power == 0:
        return flat
    with np.errstate(invalid="ignore"):
        grown = (surface / np.float32(np.nanmedian(surface))) ** power
    return np.where(np.isfinite(grown), grown, 1).astype(np.float32)
