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
    and is left out. A pixel that the reference did not measure is kept only if half of the views that look there
    confirm it.
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
        slope = _slope(surface)
        pulled = [_pull_view(reference, view, surface, agreement=0.0, backend=backend) for view in views]
        scales = [_noise_scale(observed - surface) for observed, _, _ in pulled]
        if np.nanmedian(scales) < slope:  # finer than the surface changes from pixel to pixel: read between pixels
            pulled = [
                _pull_view(reference, view, surface, agreement=self.gate * max(scale, slope), backend=backend)
                for view, scale in zip(views, scales, strict=True)
            ]
            scales = [_noise_scale(observed - surface) for observed, _, _ in pulled]
        depths = np.stack([observed for observed, _, _ in pulled])
        weights = np.stack([weight for _, weight, _ in pulled])
        looking = sum(seen.astype(np.int32) for _, _, seen in pulled)
        for k, scale in enumerate(scales):
            if k == index:
                continue  # nothing stands between the reference and what it measured
            with np.errstate(invalid="ignore"):
                weights[k][~(np.abs(depths[k] - surface) <= self.gate * max(scale, slope, 1e-12))] = 0
        unconfirmed = (weights[index] == 0) & (2 * (weights > 0).sum(axis=0) < looking)
        weights[:, unconfirmed] = 0
        weighed = any(view.confidence is not None for view in views)
        weighed |= _weigh_views(weights, depths)
        weighed |= _weigh_edges(weights, surface, scales, index)
        depths[weights == 0] = np.nan
        return Stack(depths, weights if weighed else None, camera=reference.camera, image=reference.image)


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


def _weigh_edges(weights: NDArray[Any], surface: DepthMap, scales: Sequence[float], index: int) -> bool:
    """Trust other views less where the surface changes by more than the noise within a pixel.

    Reading another view is off by a fraction of a pixel, so its error there is noise and slope together; the
    reference's own reading is not off at all. w = noise / sqrt(noise^2 + (0.3 slope)^2), less what of the slope the
    noise of the quietest view could make.
    """
    others = [max(scale, 1e-12) for k, scale in enumerate(scales) if k != index and np.isfinite(scale)]
    known = np.isfinite(surface)
    if not others or not known.any():
        return False
    steep = np.maximum(PIXEL_ERROR * _local_slope(surface) - min(others), 0)
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


def _slope(surface: DepthMap) -> float:
    """How much the surface changes from pixel to pixel, typically."""
    steps = np.concatenate([np.abs(np.diff(surface, axis=axis)).ravel() for axis in (0, 1)])
    steps = steps[np.isfinite(steps)]
    return float(np.median(steps)) if steps.size else 0.0
