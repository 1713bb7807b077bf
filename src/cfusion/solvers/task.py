"""A stack made ready for a backend: centred, cropped to its domain, sorted, with a start and a noise scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfusion.energy import Energy
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import (
    Backend,
    Box,
    Floats,
    Mask,
    Observations,
    Problem,
    SortedStack,
    State,
    Window,
    window_of,
)
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import neighbour

FLAT_PIECES = 0.2  # of the map's spread; measured on boxes, 0.1 to 0.3 are alike and 1e-4 never ends
BOX_MARGIN = 1.0  # of the data's range, on both sides
AFTER_AND_BEFORE = (((1, 0), (-1, 0)), ((0, 1), (0, -1)))  # rows down and columns to the right


@dataclass(frozen=True, eq=False)
class Task:
    """Everything about one problem that does not change while it is solved."""

    backend: Backend
    energy: Energy
    domain: Mask  # (H, W) of the whole image
    window: Window  # the part of the image that holds the domain
    centre: float  # subtracted from every depth, so that float32 spends its digits on differences
    observations: Observations
    links: Any
    step_scale: float  # of the iteration's steps: how far the start is off, per pixel, in the unit of depth
    trust: Floats | None  # mean weight of a pixel's observations, if the prior asks for it
    edge: Floats | None
    tensor: Floats | None
    box: Box
    stack: Stack
    least: float  # depth that the stack knows
    pixels: float  # that were observed, and
    mass: float  # the weights of all observations
    fill_radius: int  # of holes that the domain includes

    def problem(self, confidence: Floats, prox_centre: Floats | None = None, prox_weight: float = 0.0) -> Problem:
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
            prox_centre,
            prox_weight,
        )

    @property
    def dtype(self) -> Any:
        """The floating type everything is computed in."""
        return self.observations.total.dtype

    @property
    def start(self) -> Floats:
        """The weighted median (for L2 the mean), carried into unobserved pixels; made anew, so as to hold no image."""
        median = self.backend.weighted_median(self.observations)
        return _start(self.backend, median, self.observations, self.inside(), self.fill_radius)

    def initial_state(self) -> State:
        order = self.energy.regulariser.order if self.energy.regulariser else 1
        return self.backend.initial_state(self.start, self.links, order)

    def whole_depth(self, x: Floats) -> Floats:
        """x as depth on the whole image, NaN outside the domain."""
        return self.backend.to_image(x, self.domain, self.window, float("nan"), self.centre, self.energy.inverse)

    def inside(self) -> Mask:
        """The domain within the window."""
        return self.domain[self.window]

    def whole(self, part: Floats, outside: float) -> Floats:
        """A map of the window put back into the whole image."""
        return self.backend.to_image(part, self.domain, self.window, outside, 0.0, False)

    def given_back(self, array: Floats) -> Floats:
        """An array of the backend's where the stack lies: on the host, or where the backend has it."""
        back: Floats = self.backend.to_host(array) if self.stack.on_host else array
        return back

    def with_edges(self, weights: Floats | None) -> Task:
        """The same data with the first weight of the regulariser scaled per pixel (H, W); None: not at all."""
        if weights is None:
            return replace(self, edge=None)
        xp = self.backend.arrays
        return replace(self, edge=xp.ascontiguousarray(self.backend.to_device(weights[self.window], self.dtype)))

    def with_energy(self, energy: Energy) -> Task:
        """The same data under other weights of the regulariser."""
        return replace(self, energy=energy)


def prepare(energy: Energy, stack: Stack, backend: Backend, fill_radius: int = 0, dtype: Any = np.float32) -> Task:
    """Sort, crop and centre a stack; pixels within `fill_radius` of closing a gap join the domain."""
    here = stack.in_memory_of(backend)
    held = backend.count_observations(here.depths, here.weights)
    if held.window is None:
        raise InputError("no observation has a positive weight; nothing can be fused")
    if energy.inverse and held.least <= 0:
        raise InputError("inverse depth needs positive depths; this stack has others, so solve for depth itself")
    domain, window = held.observed, held.window
    if fill_radius:
        domain = backend.close_mask(held.observed, fill_radius)
        window = window_of(backend.to_host(domain)) or window
    centre = 0.0 if np.isnan(held.middle) else 1 / held.middle if energy.inverse else held.middle
    kind = energy.fidelity.kind
    links = backend.links_of(domain[window])  # asked for before what a device is waited for
    arranged = backend.sort_observations(here.depths, here.weights, window, centre, energy.inverse, kind, dtype)
    edge, tensor = _edges(energy, stack, window, backend, dtype)
    seen = _without_empty(arranged.observations, held.most)
    return Task(
        backend=backend,
        energy=energy,
        domain=domain,
        window=window,
        centre=centre,
        observations=seen,
        links=links,
        step_scale=_start_error(arranged, backend),
        trust=_trust(energy, seen, held.count[window]),
        edge=edge,
        tensor=tensor,
        box=_box(arranged.low, arranged.high),
        stack=stack,
        least=held.least,
        pixels=held.pixels,
        mass=held.mass,
        fill_radius=fill_radius,
    )


def _without_empty(seen: Observations, most: int) -> Observations:
    """Observations in order without the last planes, which are empty if no pixel has as many."""
    if seen.scatter is not None:
        return seen
    weights = None if seen.weights is None else seen.weights[:most]
    return replace(seen, values=seen.values[:most], weights=weights)


def _box(low: float, high: float) -> Box:
    """The range of what was observed, and a margin."""
    margin = BOX_MARGIN * (high - low)
    return Box(low - margin, high + margin)


def _trust(energy: Energy, seen: Observations, count: Floats) -> Floats | None:
    if energy.prior is None or not energy.prior.trusting:
        return None
    return np.where(seen.total > 0, seen.total / np.maximum(count, 1), 1).astype(seen.total.dtype)


def _start(backend: Backend, median: Floats, seen: Observations, inside: Mask, fill_radius: int) -> Floats:
    """The median where there is one, carried into the rest of the domain; zero elsewhere."""
    return backend.extrapolate(median, seen.total > 0, inside) if fill_radius else median


def _start_error(found: SortedStack, backend: Backend) -> float:
    """How far the start is off: the spread of the observations over sqrt(K), or of neighbours where K = 1."""
    noise = float(np.sqrt(found.sum_sq_error / found.pixels) / np.sqrt(found.n_observations / found.pixels))
    mean = found.sum_median / found.pixels
    scale = float(np.sqrt(max(found.sum_sq_median / found.pixels - mean * mean, 0.0))) + abs(mean) * 1e-6
    if noise <= 1e-6 * scale:
        noise = _roughness(found.median, found.observations.total, backend)
    if noise <= 1e-6 * scale:  # flat pieces: what moves is whole pieces, by a part of their contrast
        noise = FLAT_PIECES * scale
    return max(noise, 1e-4 * scale, float(np.finfo(found.median.dtype).tiny) ** 0.5)


def _roughness(start: Floats, total: Floats, backend: Backend) -> float:
    """Noise of a single map: the median size of its second differences, which a smooth surface does not have."""
    (median,), (known,) = backend.medians(_second_differences(start, total)[None])
    return float(median / 0.6745 / np.sqrt(6)) if known else 0.0


@one_pass
def _second_differences(start: Floats, total: Floats) -> Floats:
    """(2, H, W) their sizes down and across, NaN where a pixel of three was not observed."""
    x = np.where(total > 0, start.astype(np.float64), np.nan)
    sides = [(neighbour(x, *after, np.nan), neighbour(x, *before, np.nan)) for after, before in AFTER_AND_BEFORE]
    out: Floats = np.stack([np.abs((after - x) - (x - before)) for after, before in sides])
    return out


def _edges(
    energy: Energy, stack: Stack, window: Window, backend: Backend, dtype: Any
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
