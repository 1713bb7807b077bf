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
    Fidelity,
    Observations,
    Problem,
    State,
    dual_planes,
    links_of,
    primal_planes,
)

Floats = NDArray[Any]
Mask = NDArray[np.bool_]
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
    start: Floats  # weighted median, diffused into the pixels nobody observed
    links: Any
    noise: float  # how far the start is off, per pixel, in the unit of depth
    trust: Floats  # mean weight of a pixel's observations
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
            np.ascontiguousarray(confidence),
            self.links,
            regulariser.alpha if regulariser else (1.0,),
            self.edge,
            self.tensor,
            anchor,
            pull,
        )

    def initial_state(self) -> State:
        order = self.energy.regulariser.order if self.energy.regulariser else 1
        real, shape = self.start.dtype, self.start.shape
        state = State(np.zeros((primal_planes(order), *shape), real), np.zeros((dual_planes(order), *shape), real))
        state.primal[0] = self.start
        return state

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
        out = np.full(self.domain.shape, outside, np.float32)
        out[self.window] = np.where(self.inside(), part, outside)
        return out

    def with_energy(self, energy: Energy) -> Task:
        """The same data under other weights of the regulariser."""
        return replace(self, energy=energy)


def prepare(energy: Energy, stack: Stack, backend: Backend, fill_radius: int = 0, dtype: Any = np.float32) -> Task:
    """Sort, crop and centre a stack; pixels within `fill_radius` of closing a gap join the domain."""
    observed = stack.count > 0
    if not observed.any():
        raise InputError("no observation has a positive weight; nothing can be fused")
    domain = backend.close_mask(observed, fill_radius) if fill_radius else observed
    window = _window(domain)
    crop = (slice(None), *window)
    depths = np.ascontiguousarray(stack.depths[crop], dtype)
    if energy.inverse:
        depths = _inverse(depths)
    weights = None if stack.weights is None else np.ascontiguousarray(stack.weights[crop], dtype)
    centre = (
        float(np.nanmedian(depths[depths.shape[0] // 2])) if np.isfinite(depths[depths.shape[0] // 2]).any() else 0.0
    )
    depths = depths - dtype(centre)
    known = np.isfinite(depths) if weights is None else weights > 0
    box = _box(depths, known)
    seen, median = backend.order_observations(depths, weights, energy.fidelity.kind)
    count = np.maximum(known.sum(axis=0), 1)
    del depths, weights
    inside = domain[window]
    start = _diffuse(median, observed[window], inside)
    links = links_of(inside)
    edge, tensor = _edges(energy, stack, window, dtype)
    return Task(
        backend=backend,
        energy=energy,
        domain=domain,
        window=window,
        centre=centre,
        observations=seen,
        start=start,
        links=links,
        noise=_noise(backend, seen, start, median, links, energy, observed[window]),
        trust=np.where(seen.total > 0, seen.total / count, 1).astype(dtype),
        edge=edge,
        tensor=tensor,
        box=box,
        stack=stack,
        fill_radius=fill_radius,
    )


def _inverse(depths: Floats) -> Floats:
    """1 / depth, in which a plane is affine under a pinhole camera and stereo noise is uniform."""
    if np.any(depths <= 0):
        raise InputError("inverse depth needs positive depths; this stack has others, so solve for depth itself")
    return (1 / depths).astype(depths.dtype)


def _window(domain: Mask) -> tuple[slice, slice]:
    rows, columns = np.flatnonzero(domain.any(axis=1)), np.flatnonzero(domain.any(axis=0))
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _box(depths: Floats, known: Mask) -> Box:
    low = float(np.min(depths, where=known, initial=np.inf))
    high = float(np.max(depths, where=known, initial=-np.inf))
    margin = BOX_MARGIN * (high - low)
    return Box(low - margin, high + margin)


def _diffuse(median: Floats, observed: Mask, inside: Mask) -> Floats:
    """The median where there is one, carried into the rest of the domain neighbour by neighbour."""
    start, known = np.where(observed, median, 0).astype(median.dtype), observed.copy()
    while not known[inside].all():
        total, count = np.zeros_like(start), np.zeros(start.shape, np.int32)
        for axis in (0, 1):
            for shift in (1, -1):
                there = np.roll(known, shift, axis)
                edge = [slice(None), slice(None)]
                edge[axis] = slice(0, 1) if shift == 1 else slice(-1, None)
                there[tuple(edge)] = False
                total += np.where(there, np.roll(start, shift, axis), 0)
                count += there
        reached = inside & ~known & (count > 0)
        if not reached.any():
            break
        start[reached] = total[reached] / count[reached]
        known |= reached
    return start


def _noise(
    backend: Backend, seen: Observations, start: Floats, median: Floats, links: Any, energy: Energy, observed: Mask
) -> float:
    """How far the start is off: the spread of the observations over sqrt(K), or of neighbours where K = 1."""
    total = seen.total[observed].astype(np.float64)
    if seen.scatter is not None:
        spread = np.sqrt(2 * seen.scatter[observed] / total)
    else:
        ones = np.ones_like(seen.total)
        absolute = Problem(Fidelity.L1, 1.0, seen, ones, links, (1.0,))
        spread = backend.misfit(absolute, median)[observed] / total
    views = np.mean(np.isfinite(seen.values[:, observed]).sum(axis=0)) if seen.scatter is None else total.mean()
    noise = float(np.sqrt(np.mean(spread**2)) / np.sqrt(max(views, 1.0)))
    scale = float(np.std(start[observed])) + abs(float(start[observed].mean())) * 1e-6
    if noise <= 1e-6 * scale:
        noise = _roughness(start, observed)
    return max(noise, 1e-4 * scale, float(np.finfo(start.dtype).tiny) ** 0.5)


def _roughness(start: Floats, observed: Mask) -> float:
    """Noise of a single map: the median size of its second differences, which a smooth surface does not have."""
    sizes = []
    for axis in (0, 1):
        if start.shape[axis] < 3:
            continue
        inner = np.diff(start.astype(np.float64), n=2, axis=axis)
        size = start.shape[axis]
        known = [np.take(observed, range(k, size - 2 + k), axis=axis) for k in range(3)]
        sizes.append(np.abs(inner[known[0] & known[1] & known[2]]))
    values = np.concatenate(sizes) if sizes else np.zeros(1)
    return float(np.median(values) / 0.6745 / np.sqrt(6)) if values.size else 0.0


def _edges(
    energy: Energy, stack: Stack, window: tuple[slice, slice], dtype: Any
) -> tuple[Floats | None, Floats | None]:
    """The edge rule's weights, or its tensor, within the window."""
    rule = energy.regulariser.edge if energy.regulariser else None
    if rule is None:
        return None, None
    if stack.image is None:
        raise InputError("the method weighs edges of the reference image, and there is none; give View(image=...)")
    weights = rule(stack.image)
    if weights.ndim == 2:
        return np.ascontiguousarray(weights[window], dtype), None
    return None, np.ascontiguousarray(np.moveaxis(weights, -1, 0)[(slice(None), *window)], dtype)
