"""A stack made ready for a backend: centred, cropped to its domain, sorted, with a start and a noise scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.energy import Energy
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import (
    Backend,
    Box,
    Observations,
    Problem,
    State,
)

Floats = NDArray[Any]
Mask = NDArray[np.bool_]
FLAT_PIECES = 0.2  # of the map's spread; measured on boxes, 0.1 to 0.3 are alike and 1e-4 never ends
BOX_MARGIN = 1.0  # of the data's range, on both sides


@dataclass(frozen=True, eq=False)
class Task:
    """Everything about one problem that does not change while it is solved."""

    backend: Backend
    energy: Energy
    domain: Mask  # (H, W) of the whole image
    window: tuple[slice, slice]  # the part of the image that holds the domain
    centre: float  # subtracted from every depth, so that float32 spends its digits on differences
    observations: Observations
    links: Any
    noise: float  # how far the start is off, per pixel, in the unit of depth
    trust: Floats | None  # mean weight of a pixel's observations, if the prior asks for it
    edge: Floats | None
    tensor: Floats | None
    box: Box
    stack: Stack
    fill_radius: int

    def problem(self, confidence: Floats, anchor: Floats | None = None, pull: float = 0.0) -> Problem:
        """The convex problem at this confidence."""
        regulariser = self.energy.regulariser
        return Problem(
            self.energy.fidelity.kind,
            self.energy.fidelity.corner,
            self.observations,
            self.backend.arrays.ascontiguousarray(confidence),
            self.links,
            regulariser.alpha if regulariser else (1.0,),
            self.edge,
            self.tensor,
            anchor,
            pull,
        )

    @property
    def dtype(self) -> Any:
        """The floating type everything is computed in."""
        return self.observations.total.dtype

    @property
    def start(self) -> Floats:
        """The weighted median (for L2 the mean), carried into unobserved pixels; made anew, so as to hold no image."""
        median, observed = self.backend.middle(self.observations), self.observations.total > 0
        return _start(self.backend, median, observed, self.inside(), self.fill_radius)

    def initial_state(self) -> State:
        order = self.energy.regulariser.order if self.energy.regulariser else 1
        return self.backend.begin(self.start, self.links, order)

    def depth(self, x: Floats) -> Floats:
        """x as depth: the centre added back, and inverted where x is inverse depth."""
        depth = x + x.dtype.type(self.centre)
        if not self.energy.inverse:
            return depth
        with np.errstate(divide="ignore"):
            return np.where(depth > 0, 1 / depth, np.nan).astype(x.dtype)

    def inside(self) -> Mask:
        """The domain within the window."""
        return self.domain[self.window]

    def whole(self, part: Floats, outside: float) -> Floats:
        """A map of the window put back into the whole image."""
        out = self.backend.arrays.full(self.domain.shape, outside, np.float32)
        out[self.window] = np.where(self.inside(), part, outside)
        return out

    def given_back(self, array: Floats) -> Floats:
        """An array of the backend's where the stack lies: on the host, or where the backend has it."""
        back: Floats = self.backend.to_host(array) if self.stack.on_host else array
        return back

    def with_energy(self, energy: Energy) -> Task:
        """The same data under other weights of the regulariser."""
        return replace(self, energy=energy)


def prepare(energy: Energy, stack: Stack, backend: Backend, fill_radius: int = 0, dtype: Any = np.float32) -> Task:
    """Sort, crop and centre a stack; pixels within `fill_radius` of closing a gap join the domain."""
    count = counts_of(stack, backend)
    observed = count > 0
    domain = backend.close_mask(observed, fill_radius) if fill_radius else observed
    window = backend.window_of(domain)
    if window is None:
        raise InputError("no observation has a positive weight; nothing can be fused")
    crop = (slice(None), *window)
    depths = backend.to_device(stack.depths[crop], dtype)  # copies, which the backend may sort in place
    if energy.inverse:
        depths = _inverse(depths)
    weights = None if stack.weights is None else backend.to_device(stack.weights[crop], dtype)
    (centre,), (known,) = backend.medians(depths[depths.shape[0] // 2][None])  # 0 if that map knows nothing
    centre = centre if known else 0.0
    depths -= dtype(centre)
    box = _box(*backend.range_of(depths, weights))
    seen, median = backend.order_observations(depths, weights, energy.fidelity.kind)
    del depths, weights
    count = backend.to_device(count[window], np.int32)
    domain = backend.to_device(domain, np.bool_)
    start = _start(backend, median, count > 0, domain[window], fill_radius)
    links = backend.links_of(domain[window])
    edge, tensor = _edges(energy, stack, window, backend, dtype)
    return Task(
        backend=backend,
        energy=energy,
        domain=domain,
        window=window,
        centre=centre,
        observations=seen,
        links=links,
        noise=_noise(backend, seen, start, median, count),
        trust=_trust(energy, seen, count),
        edge=edge,
        tensor=tensor,
        box=box,
        stack=stack,
        fill_radius=fill_radius,
    )


def counts_of(stack: Stack, backend: Backend) -> Floats:
    """(H, W) how many observations of positive weight each pixel has, where the stack lies."""
    return stack.count if stack.on_host else backend.counts(stack.depths, stack.weights)


def _inverse(depths: Floats) -> Floats:
    """1 / depth, in which a plane is affine under a pinhole camera and stereo noise is uniform."""
    if np.any(depths <= 0):
        raise InputError("inverse depth needs positive depths; this stack has others, so solve for depth itself")
    return (1 / depths).astype(depths.dtype)


def _box(low: float, high: float) -> Box:
    """The range of what was observed, and a margin."""
    margin = BOX_MARGIN * (high - low)
    return Box(low - margin, high + margin)


def _trust(energy: Energy, seen: Observations, count: Floats) -> Floats | None:
    if energy.prior is None or not energy.prior.trusting:
        return None
    return np.where(seen.total > 0, seen.total / np.maximum(count, 1), 1).astype(seen.total.dtype)


def _start(backend: Backend, median: Floats, observed: Mask, inside: Mask, fill_radius: int) -> Floats:
    """The median where there is one, carried into the rest of the domain; zero elsewhere."""
    if fill_radius:
        return backend.carry(median, observed, inside)
    return np.where(observed, median, 0).astype(median.dtype)


def _noise(backend: Backend, seen: Observations, start: Floats, median: Floats, count: Floats) -> float:
    """How far the start is off: the spread of the observations over sqrt(K), or of neighbours where K = 1."""
    pixels, seen_together, square, first, second = backend.survey(seen, start, median, count)
    noise = float(np.sqrt(square / pixels) / np.sqrt(seen_together / pixels))
    mean = first / pixels
    scale = float(np.sqrt(max(second / pixels - mean * mean, 0.0))) + abs(mean) * 1e-6
    if noise <= 1e-6 * scale:
        noise = _roughness(start, count > 0)
    if noise <= 1e-6 * scale:  # flat pieces: what moves is whole pieces, by a part of their contrast
        noise = FLAT_PIECES * scale
    return max(noise, 1e-4 * scale, float(np.finfo(start.dtype).tiny) ** 0.5)


def _roughness(start: Floats, observed: Mask) -> float:
    """Noise of a single map: the median size of its second differences, which a smooth surface does not have."""
    sizes = []
    for axis in (0, 1):
        if start.shape[axis] < 3:
            continue
        inner = np.diff(start.astype(np.float64), n=2, axis=axis)
        size = start.shape[axis]
        cuts = [(slice(None),) * axis + (slice(k, size - 2 + k),) for k in range(3)]
        known = [observed[cut] for cut in cuts]
        sizes.append(np.abs(inner[known[0] & known[1] & known[2]]))
    values = np.concatenate(sizes) if sizes else np.zeros(1)
    return float(np.median(values) / 0.6745 / np.sqrt(6)) if values.size else 0.0


def _edges(
    energy: Energy, stack: Stack, window: tuple[slice, slice], backend: Backend, dtype: Any
) -> tuple[Floats | None, Floats | None]:
    """The edge rule's weights, or its tensor, within the window."""
    rule = energy.regulariser.edge if energy.regulariser else None
    if rule is None:
        return None, None
    if stack.image is None:
        raise InputError("the method weighs edges of the reference image, and there is none; give View(image=...)")
    weights = rule(stack.image)
    if weights.ndim == 2:
        return backend.to_device(weights[window], dtype), None
    return None, backend.to_device(np.moveaxis(weights, -1, 0)[(slice(None), *window)], dtype)
