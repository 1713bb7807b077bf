"""A stack prepared for a backend: centred, cropped to its domain, sorted, with a start and a noise scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfusion.arrays import MEDIAN_SIZE
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

FLAT_PIECES = 0.2  # of the map's spread; on boxes 0.1 to 0.3 are equally good, and 1e-4 never ends
BOX_MARGIN = 1.0  # of the data's range, on both sides
AFTER_AND_BEFORE = (((1, 0), (-1, 0)), ((0, 1), (0, -1)))  # offsets (down, right) of the next and previous pixel


@dataclass(frozen=True, eq=False)
class Task:
    """Everything about one problem that is constant during a solve."""

    backend: Backend
    energy: Energy
    domain: Mask  # (H, W) of the whole image
    window: Window  # bounding box of the domain
    centre: float  # subtracted from every depth, to keep float32's digits for differences
    observations: Observations
    links: Any
    step_scale: float  # of the iteration's steps: error of the start per pixel, in the unit of depth
    mean_weight: Floats | None  # mean weight of a pixel's observations, if the prior uses it
    edge: Floats | None
    tensor: Floats | None
    box: Box
    stack: Stack
    least: float  # smallest depth of the stack
    pixels: float  # number of observed pixels
    mass: float  # sum of the weights
    fill_radius: int  # of holes that belong to the domain

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
        """The floating type of all computations."""
        return self.observations.total.dtype

    @property
    def start(self) -> Floats:
        """The weighted median (for L2 the mean), extrapolated to unobserved pixels; not cached, to save memory."""
        median = self.backend.weighted_median(self.observations)
        return _start(self.backend, median, self.observations, self.inside(), self.fill_radius)

    def initial_state(self, start: Floats | None = None) -> State:
        """The state from which a solve begins, at `start` or the median."""
        order = self.energy.regulariser.order if self.energy.regulariser else 1
        return self.backend.initial_state(self.start if start is None else start, self.links, order)

    def whole_depth(self, x: Floats) -> Floats:
        """x as depth on the whole image, NaN outside the domain."""
        return self.backend.to_image(x, self.domain, self.window, float("nan"), self.centre, self.energy.inverse)

    def inside(self) -> Mask:
        """The domain within the window."""
        return self.domain[self.window]

    def whole(self, part: Floats, outside: float) -> Floats:
        """A map of the window placed in the whole image."""
        return self.backend.to_image(part, self.domain, self.window, outside, 0.0, False)

    def given_back(self, array: Floats) -> Floats:
        """An array of the backend in the memory of the stack: on the host, or where it is."""
        back: Floats = self.backend.to_host(array) if self.stack.on_host else array
        return back

    def with_edges(self, weights: Floats | None) -> Task:
        """The same data with the first weight of the regulariser scaled per pixel (H, W); None: unscaled."""
        if weights is None:
            return self if self.edge is None else replace(self, edge=None)
        xp = self.backend.arrays
        return replace(self, edge=xp.ascontiguousarray(self.backend.to_device(weights[self.window], self.dtype)))

    def with_energy(self, energy: Energy) -> Task:
        """The same data with other weights of the regulariser."""
        return replace(self, energy=energy)


def prepare(energy: Energy, stack: Stack, backend: Backend, fill_radius: int = 0, dtype: Any = np.float32) -> Task:
    """Sort, crop and centre a stack; holes that a closing by `fill_radius` closes join the domain."""
    here = stack.in_memory_of(backend)
    held = backend.count_observations(here.depths, here.weights)
    if held.window is None:
        raise InputError("no observation has a positive weight; give weights > 0 where depths are known")
    if energy.inverse and held.least <= 0:
        raise InputError("inverse depth needs positive depths, but this stack has others; solve for depth")
    domain, window = held.observed, held.window
    if fill_radius:
        domain = backend.close_mask(held.observed, fill_radius)
        window = window_of(backend.to_host(domain)) or window
    centre = 0.0 if np.isnan(held.middle) else 1 / held.middle if energy.inverse else held.middle
    kind = energy.fidelity.kind
    links = backend.links_of(domain[window])  # before the wait for the sorted stack
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
        mean_weight=_mean_weight(energy, seen, held.count[window]),
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
    """Sorted observations without the last planes, which are empty if no pixel has so many."""
    if seen.scatter is not None:
        return seen
    weights = None if seen.weights is None else seen.weights[:most]
    return replace(seen, values=seen.values[:most], weights=weights)


def _box(low: float, high: float) -> Box:
    """The range of the observations, with a margin."""
    margin = BOX_MARGIN * (high - low)
    return Box(low - margin, high + margin)


def _mean_weight(energy: Energy, seen: Observations, count: Floats) -> Floats | None:
    if energy.prior is None or not energy.prior.trusting:
        return None
    return np.where(seen.total > 0, seen.total / np.maximum(count, 1), 1).astype(seen.total.dtype)


def _start(backend: Backend, median: Floats, seen: Observations, inside: Mask, fill_radius: int) -> Floats:
    """The median where observed, extrapolated to the rest of the domain; zero elsewhere."""
    return backend.extrapolate(median, seen.total > 0, inside) if fill_radius else median


def _start_error(found: SortedStack, backend: Backend) -> float:
    """The error of the start: the spread of the observations over sqrt(K), or between neighbours if K = 1."""
    noise = float(np.sqrt(found.sum_sq_error / found.pixels) / np.sqrt(found.n_observations / found.pixels))
    mean = found.sum_median / found.pixels
    scale = float(np.sqrt(max(found.sum_sq_median / found.pixels - mean * mean, 0.0))) + abs(mean) * 1e-6
    if noise <= 1e-6 * scale:
        noise = _roughness(found.median, found.observations.total, backend)
    if noise <= 1e-6 * scale:  # flat pieces move as a whole, by a part of their contrast
        noise = FLAT_PIECES * scale
    return max(noise, 1e-4 * scale, float(np.finfo(found.median.dtype).tiny) ** 0.5)


def _roughness(start: Floats, total: Floats, backend: Backend) -> float:
    """The noise of a single map: the median size of its second differences, which vanish on a smooth surface."""
    (median,), (known,) = backend.medians(_second_differences(start, total)[None])
    return float(median / MEDIAN_SIZE / np.sqrt(6)) if known else 0.0


@one_pass
def _second_differences(start: Floats, total: Floats) -> Floats:
    """Sizes (2, H, W) of the second differences down and across; NaN where one of the three pixels is unobserved."""
    x = np.where(total > 0, start.astype(np.float64), np.nan)
    sides = [(neighbour(x, *after, np.nan), neighbour(x, *before, np.nan)) for after, before in AFTER_AND_BEFORE]
    out: Floats = np.stack([np.abs((after - x) - (x - before)) for after, before in sides])
    return out


def _edges(
    energy: Energy, stack: Stack, window: Window, backend: Backend, dtype: Any
) -> tuple[Floats | None, Floats | None]:
    """The weights, or the tensor, of the edge rule within the window."""
    rule = energy.regulariser.edge if energy.regulariser else None
    if rule is None:
        return None, None
    if stack.image is None:
        raise InputError("the method needs the edges of a reference image; give View(image=...)")
    weights = rule(stack.image)
    if weights.ndim == 2:
        return backend.to_device(weights[window], dtype), None
    return None, backend.to_device(np.moveaxis(weights, -1, 0)[(slice(None), *window)], dtype)
