"""Re-association: given a surface, ask every view what it measured there.

The noise stays where it was measured, nothing is invented, and the splat's bias towards whatever is in front
disappears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, on_host, pieces
from cfusion.association.batches import Batch, in_order
from cfusion.association.splat import Splat, reference_index
from cfusion.errors import InputError
from cfusion.geometry import Stack, View
from cfusion.kernels.contract import Backend
from cfusion.kernels.growth import EVEN, Growth, fitted_power

LAPLACE_MEDIAN = float(np.log(2.0))  # median of |t| over the scale of a Laplace distribution
VIEW_RATIO = 1.25  # views whose noise differs by less are weighed alike
SMALLEST_WEIGHT = 0.05
SAMPLE, FEWEST = 5_000, 50  # pixels that tell how noisy a view is, and how many must
PAIR_ROUNDS, PAIRS_AT_ONCE, SETTLED = 10, 1000, 1e-3
QUIETEST = 1e-3  # of the usual noise: what a view may have at least
SHARED = 0.05  # of the usual difference between two views: closer ones have their errors in common
GROWTH_SAMPLE = 10_000  # observations that tell how noise grows with depth
PIXEL_ERROR = 0.3  # pixels: the standard deviation of rounding to the nearest one


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

    def __call__(
        self,
        views: Sequence[View],
        onto: int | None = None,
        *,
        backend: Backend,
        batches: Sequence[Batch] | None = None,
    ) -> Stack:
        """The stack to start from."""
        return self.start(views, onto, backend=backend, batches=batches)

    def again(
        self,
        views: Sequence[View],
        onto: int | None,
        surface: DepthMap,
        *,
        backend: Backend,
        batches: Sequence[Batch] | None = None,
    ) -> Stack:
        """The stack (K, H, W) of what every view measured at the surface, in whose memory the `batches` are."""
        index = reference_index(views, onto)
        reference = views[index]

        pulled = _pull(views, reference, surface, [0.0] * len(views), backend, batches)
        growth = _growth(pulled.depths, surface, backend)
        slope = _slope(surface, growth, backend)
        scales, known = _noise_scales(pulled.depths, surface, growth, backend)
        if np.nanmedian(scales) < slope:  # finer than the surface changes from pixel to pixel: read between pixels
            agreements = [self.gate * max(scale, slope) for scale in scales]
            pulled = _pull(views, reference, surface, agreements, backend, batches)
            scales, known = _noise_scales(pulled.depths, surface, growth, backend)
        depths, weights = pulled.depths, pulled.weights
        # nothing stands between the reference and what it measured
        gates = [np.inf if k == index else self.gate * max(s, slope, 1e-12) for k, s in enumerate(scales)]
        # where the reference measured most of what it looks at, the rest are holes; else the rest is nothing
        trusted = any(view.confidence is not None for view in views)
        measured = int((weights[index] > 0).sum()) if trusted else known[index]
        holes = 2 * measured > surface.size
        backend.gate(depths, weights, surface, growth, gates, pulled.seen, index, holes)
        weighed = trusted | _weigh_views(weights, depths, surface, growth, backend)
        weighed |= _weigh_edges(weights, surface, growth, scales, index, backend)
        return Stack.sound(depths, weights if weighed else None, reference.camera, reference.image)


@dataclass(frozen=True, eq=False)
class _Pulled:
    """What the views measured at a surface."""

    depths: NDArray[Any]  # (K, H, W), NaN where nothing
    weights: NDArray[Any]  # (K, H, W), zero where nothing
    seen: NDArray[Any]  # (K, H, W) which views look there


def _pull(
    views: Sequence[View],
    reference: View,
    surface: DepthMap,
    agreements: list[float],
    backend: Backend,
    batches: Sequence[Batch] | None,
) -> _Pulled:
    """Every view through the surface; one by one on the host, batch by batch elsewhere."""
    camera = reference.camera.numbers
    if batches is None:
        pulled = [
            _pull_view(reference, view, surface, agreement, backend)
            for view, agreement in zip(views, agreements, strict=True)
        ]
        depths, weights, seen = (np.stack(part) for part in zip(*pulled, strict=True))
        return _Pulled(depths, weights, seen)
    pulled = []
    for batch in batches:
        confidences = np.empty((0, 0), np.float32) if batch.confidences is None else batch.confidences
        agreed = np.array([agreements[k] for k in batch.places])
        pulled.append(
            backend.pull(surface, camera, batch.cameras, batch.view_from_reference, batch.depths, confidences, agreed)
        )
    depths, weights, seen = (in_order(batches, parts) for parts in zip(*pulled, strict=True))
    return _Pulled(depths, weights, seen)


def _weigh_views(
    weights: NDArray[Any], depths: NDArray[Any], surface: DepthMap, growth: Growth, backend: Backend
) -> bool:
    """Weigh views by 1 / their noise scale; nothing to do where they are alike."""
    scales = _view_scales(weights, depths, surface, growth, backend)
    if scales is None or scales.max() <= VIEW_RATIO * scales.min():
        return False
    factors = np.clip(np.median(scales) / scales, SMALLEST_WEIGHT, 1 / SMALLEST_WEIGHT)
    each = factors.astype(np.float32)[:, None, None]
    weights *= each if on_host(weights) else backend.to_device(each, np.float32)
    return True


def _view_scales(
    weights: NDArray[Any], depths: NDArray[Any], surface: DepthMap, growth: Growth, backend: Backend
) -> NDArray[np.float64] | None:
    """(K,) the noise of each view, from how much the views differ from one another: s_j^2 + s_k^2 for every pair.

    The surface does not come into it: a view it follows closely would look quieter than it is.
    """
    views = len(depths)
    if views < 3:
        return None
    every = max(1, int(np.sqrt(depths[0].size / SAMPLE)))
    j, k = np.tril_indices(views, -1)
    apart: list[float] = []
    for first in range(0, len(j), PAIRS_AT_ONCE):
        some = range(first, min(first + PAIRS_AT_ONCE, len(j)))
        medians, known = backend.medians(backend.differences(depths, weights, surface, growth, every, some))
        if min(known) < FEWEST:
            return None
        apart += medians
    usual = float(np.median(apart))
    pairs = np.zeros((views, views))
    pairs[j, k] = pairs[k, j] = np.square(apart)
    tell = pairs > (SHARED * usual) ** 2  # others share their errors, as the same map given twice does
    distinct = sum(bool(tell[view, :view].all()) for view in range(views))
    if not usual > 0 or distinct < 3:
        return None
    squares = np.nanmedian(np.where(tell, pairs, np.nan), axis=1) / 2
    least = QUIETEST**2 * float(np.median(squares))
    for _ in range(PAIR_ROUNDS):  # least squares, near pairs counting most: a pair is known to a part of itself
        trust = np.where(tell, 1 / np.square(squares[:, None] + squares[None, :]), 0)
        found = np.linalg.solve(trust + np.diag(trust.sum(axis=1)), (trust * pairs).sum(axis=1))
        before, squares = squares, np.maximum(np.clip(found, 0.1 * squares, 10 * squares), least)
        if np.abs(squares - before).max() < SETTLED * squares.min():
            break
    scales: NDArray[np.float64] = np.sqrt(squares)
    return scales


def _weigh_edges(
    weights: NDArray[Any],
    surface: DepthMap,
    growth: Growth,
    scales: Sequence[float],
    index: int,
    backend: Backend,
) -> bool:
    """Trust other views less where the surface changes by more than the noise within a pixel.

    Reading another view is off by a fraction of a pixel, so its error there is noise and slope together; the
    reference's own reading is not off at all. w = noise / sqrt(noise^2 + (0.3 slope)^2), less what of the slope the
    noise of the quietest view could make.
    """
    others = [max(scale, 1e-12) for k, scale in enumerate(scales) if k != index and np.isfinite(scale)]
    if not others:
        return False
    slope, quietest = backend.local_slope(surface, growth), min(others)
    (steepest,) = backend.quantiles(slope, [0.98])
    if not PIXEL_ERROR * steepest - quietest > np.median(others):
        return False
    noise = [max(scale, 1e-12) if np.isfinite(scale) else 1.0 for scale in scales]  # one without has no observation
    backend.soften(weights, slope, PIXEL_ERROR, quietest, noise, index, SMALLEST_WEIGHT)
    return True


def _pull_view(
    reference: View, view: View, surface: DepthMap, agreement: float, backend: Backend
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    view_from_reference = (view.pose.inverse() @ reference.pose).matrix()[:3]
    confidence = np.empty((0, 0), np.float32) if view.confidence is None else view.confidence
    return backend.pull(
        np.ascontiguousarray(surface, np.float32),
        reference.camera.numbers,
        view.camera.numbers,
        np.ascontiguousarray(view_from_reference),
        view.depth,
        confidence,
        agreement,
    )


def _noise_scales(
    depths: NDArray[Any], surface: DepthMap, growth: Growth, backend: Backend
) -> tuple[list[float], list[int]]:
    """The Laplace scale of each view's residuals, by their median size: a tenth of wrong surfaces does not matter.

    And how many each view has.
    """
    found = [backend.medians(backend.residuals(depth, surface, growth)) for depth in pieces(depths)]
    medians, known = ([each for part in parts for each in part] for parts in zip(*found, strict=True))
    return [median / LAPLACE_MEDIAN for median in medians], known


def _slope(surface: DepthMap, growth: Growth, backend: Backend) -> float:
    """How much the surface changes from pixel to pixel, typically, where noise is what it is at the middle depth."""
    (median,), (known,) = backend.medians(backend.changes(surface, growth)[None])
    return median if known else 0.0


def _growth(depths: NDArray[Any], surface: DepthMap, backend: Backend) -> Growth:
    """How noise grows with depth, from the residuals of a sample."""
    every = max(1, int(np.sqrt(depths.size / GROWTH_SAMPLE)))
    sample = np.concatenate([array[..., ::every, ::every] for array in (surface[None], depths)])
    sample = sample if on_host(surface) else backend.to_host(sample)
    depth, measured = sample[0], sample[1:]
    power = fitted_power(np.broadcast_to(depth, measured.shape), np.abs(measured - depth))
    whole_power = int(np.clip(np.rint(power), 0, 2))
    return Growth(float(np.median(depth[depth > 0])), whole_power) if whole_power else EVEN
