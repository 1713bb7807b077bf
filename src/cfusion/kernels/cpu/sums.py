"""Energy, misfit and sorting of observations: one pass over the pixels each, bands of rows in parallel.

Every row is summed separately in double precision, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels.contract import Energies, Fidelity, Floats, Observations, Problem, State
from cfusion.kernels.cpu.prox import inlines, penalty
from cfusion.kernels.host import nothing
from cfusion.kernels.threads import in_bands

# no_cfunc_wrapper: nothing calls kernels from C, and each compiles in a seventh less time
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# of functions that only kernels call, never Python: nothing converts their arguments, which takes time to compile
INSIDE: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True}
# for sums of a row, so that they vectorise
REORDERED = {"contract", "nsz", "reassoc"}
HALF_ROOT, THIRD_ROOT, TWO_THIRDS_ROOT = sqrt(1 / 2), sqrt(1 / 3), sqrt(2 / 3)


def order_observations(depths: Floats, weights: Floats | None, fidelity: Fidelity) -> tuple[Observations, Floats]:
    """Sorted observations and median by an odd-even transposition sort per row of pixels, in place."""
    values = depths
    carried = nothing(3, depths.dtype) if weights is None else weights
    total = np.empty(depths.shape[1:], depths.dtype)
    median = np.empty_like(total)
    in_bands(total.shape, (_sort, values, carried, total, median))
    if fidelity is Fidelity.L2:
        mean = np.empty_like(total)
        scatter = np.empty_like(total)
        in_bands(total.shape, (_average, values, carried, total, mean, scatter))
        return Observations(mean[None], None, total, scatter), median
    return Observations(values, None if weights is None else carried, total, None), median


@njit(**OPTIONS)
def _sort(start: int, stop: int, values: Floats, carried: Floats, total: Floats, median: Floats) -> None:
    views, _, width = values.shape
    weighted = carried.size > 0
    for i in range(start, stop):
        for k in range(views):
            for j in range(width):
                d = values[k, i, j]
                known = d == d and (not weighted or carried[k, i, j] > 0)
                values[k, i, j] = d if known else np.inf
                if weighted and not known:
                    carried[k, i, j] = 0
        for swap in range(views):
            for k in range(swap % 2, views - 1, 2):
                if weighted:
                    for j in range(width):
                        if values[k, i, j] > values[k + 1, i, j]:
                            values[k, i, j], values[k + 1, i, j] = values[k + 1, i, j], values[k, i, j]
                            carried[k, i, j], carried[k + 1, i, j] = carried[k + 1, i, j], carried[k, i, j]
                else:
                    for j in range(width):
                        low = min(values[k, i, j], values[k + 1, i, j])
                        high = max(values[k, i, j], values[k + 1, i, j])
                        values[k, i, j] = low
                        values[k + 1, i, j] = high
        for j in range(width):
            amount = 0.0
            for k in range(views):
                if values[k, i, j] < np.inf:
                    amount += carried[k, i, j] if weighted else 1.0
            total[i, j] = amount
            median[i, j] = 0
            heaped = 0.0
            lower = -1
            for k in range(views):
                if values[k, i, j] < np.inf:
                    heaped += carried[k, i, j] if weighted else 1.0
                    # at exactly half the weight every point up to the next observation is a median: take the middle
                    if heaped == amount / 2 and lower < 0:
                        lower = k
                    elif heaped > amount / 2:
                        first = values[lower, i, j] if lower >= 0 else values[k, i, j]
                        median[i, j] = first + (values[k, i, j] - first) / 2
                        break


@njit(**OPTIONS)
def _average(
    start: int, stop: int, values: Floats, weights: Floats, total: Floats, mean: Floats, scatter: Floats
) -> None:
    views, _, width = values.shape
    weighted = weights.size > 0
    for i in range(start, stop):
        for j in range(width):
            heaped = 0.0
            for k in range(views):
                if values[k, i, j] < np.inf:
                    heaped += (weights[k, i, j] if weighted else 1.0) * values[k, i, j]
            centre = heaped / total[i, j] if total[i, j] > 0 else 0.0
            mean[i, j] = centre
            spread = 0.0
            for k in range(views):
                if values[k, i, j] < np.inf:
                    spread += (weights[k, i, j] if weighted else 1.0) * (values[k, i, j] - centre) ** 2 / 2
            scatter[i, j] = spread


def misfit(problem: Problem, x: Floats) -> Floats:
    """As `Backend.misfit`."""
    seen = problem.observations
    out = np.empty_like(x)
    weights = nothing(3, x.dtype) if seen.weights is None else seen.weights
    scatter = nothing(2, x.dtype) if seen.scatter is None else seen.scatter
    data = (seen.values, weights, seen.total, scatter)
    in_bands(x.shape, (_misfit, x, *data, int(problem.fidelity), problem.delta, out))
    return out


@njit(fastmath={"contract"}, **OPTIONS)
@partial(inlines, penalty)
def _misfit(
    start: int, stop: int, x: Floats, values: Floats, weights: Floats, total: Floats, scatter: Floats,
    fidelity: int, delta: float, out: Floats,
) -> None:  # fmt: skip
    views, _, width = values.shape
    weighted = weights.size > 0
    for i in range(start, stop):
        if fidelity == 1:
            for j in range(width):
                out[i, j] = total[i, j] * (x[i, j] - values[0, i, j]) ** 2 / 2 + scatter[i, j]
        else:
            for j in range(width):
                out[i, j] = 0
            for k in range(views):
                for j in range(width):
                    d = values[k, i, j]
                    t = penalty(x[i, j] - d, fidelity, delta)
                    w = weights[k, i, j] if weighted else 1.0
                    out[i, j] += w * t if d < np.inf else 0.0


def energy(problem: Problem, state: State) -> Energies:
    """As `Backend.energy`."""
    height = problem.links.shape[0]
    real = state.primal.dtype
    sums = np.zeros((height, 7))
    none = nothing(2, real)
    edge = none if problem.edge is None else problem.edge
    tensor = nothing(3, real) if problem.tensor is None else problem.tensor
    anchor = none if problem.prox_centre is None else problem.prox_centre
    data = (problem.confidence, misfit(problem, state.primal[0]), problem.observations.total)
    links = problem.links
    in_bands(links.shape, (_energy, problem.order, state.primal, links, edge, tensor, *data, anchor, sums))
    if problem.order >= 3:
        in_bands(links.shape, (_third_order, state.primal, links, sums))
    parts = sums.sum(axis=0)
    regulariser = tuple(weight * float(part) for weight, part in zip(problem.alpha, parts[:3], strict=False))
    fidelity, proximal, mass, pixels = (float(part) for part in parts[3:])
    return Energies(regulariser, fidelity, problem.prox_weight / 2 * proximal, mass, pixels)


@njit(fastmath=REORDERED, **OPTIONS)
def _energy(
    start: int, stop: int, order: int, primal: Floats, links: Any, edge: Floats, tensor: Floats,
    confidence: Floats, fit: Floats, total: Floats, anchor: Floats, sums: Floats,
) -> None:  # fmt: skip
    height, width = links.shape
    half, zero = primal.dtype.type(HALF_ROOT), primal.dtype.type(0)
    for i in range(start, stop):
        first = second = data = proximal = mass = pixels = 0.0
        below, above = min(i + 1, height - 1), max(i - 1, 0)
        for j in range(width):
            inside = links[i, j] & 512
            data += confidence[i, j] * fit[i, j] if inside else zero
            mass += confidence[i, j] * total[i, j] if inside else zero
            pixels += 1.0 if inside else 0.0
        if anchor.size > 0:
            for j in range(width):
                proximal += (primal[0, i, j] - anchor[i, j]) ** 2 if links[i, j] & 512 else zero
        for j in range(width):
            right = j + 1 if links[i, j] & 1 else j
            d1 = primal[0, i, right] - primal[0, i, j]
            d2 = primal[0, below, j] - primal[0, i, j] if links[i, j] & 2 else zero
            if order >= 2:
                d1 -= primal[1, i, j] if links[i, j] & 1 else zero
                d2 -= primal[2, i, j] if links[i, j] & 2 else zero
            if tensor.size > 0:
                t = tensor[0, i, j] * d1 + tensor[1, i, j] * d2
                d2 = tensor[1, i, j] * d1 + tensor[2, i, j] * d2
                d1 = t
            length = np.sqrt(d1 * d1 + d2 * d2)
            first += edge[i, j] * length if edge.size > 0 else length
        for j in range(width if order >= 2 else 0):
            bits, left = links[i, j], max(j - 1, 0)
            v1, v2 = primal[1, i, j], primal[2, i, j]
            d1 = v1 - primal[1, i, left]
            d2 = half * (v2 - primal[2, i, left] + v1 - primal[1, above, j])
            d3 = v2 - primal[2, above, j]
            if order >= 3:
                d1 -= primal[3, i, j]
                d2 -= primal[4, i, j]
                d3 -= primal[5, i, j]
            d1 = d1 if bits & 4 else zero
            d2 = d2 if bits & 8 else zero
            d3 = d3 if bits & 16 else zero
            second += np.sqrt(d1 * d1 + d2 * d2 + d3 * d3)
        sums[i, 0], sums[i, 1] = first, second
        sums[i, 3], sums[i, 4], sums[i, 5], sums[i, 6] = data, proximal, mass, pixels


@njit(fastmath=REORDERED, **OPTIONS)
def _third_order(start: int, stop: int, primal: Floats, links: Any, sums: Floats) -> None:
    height, width = links.shape
    third_root, two_thirds_root = primal.dtype.type(THIRD_ROOT), primal.dtype.type(TWO_THIRDS_ROOT)
    zero = primal.dtype.type(0)
    for i in range(start, stop):
        third, below = 0.0, min(i + 1, height - 1)
        for j in range(width):
            bits, right = links[i, j], min(j + 1, width - 1)
            w0, w1, w2 = primal[3, i, j], primal[4, i, j], primal[5, i, j]
            d1 = primal[3, i, right] - w0
            d2 = two_thirds_root * (primal[4, i, right] - w1) + third_root * (primal[3, below, j] - w0)
            d3 = third_root * (primal[5, i, right] - w2) + two_thirds_root * (primal[4, below, j] - w1)
            d4 = primal[5, below, j] - w2
            d1 = d1 if bits & 32 else zero
            d2 = d2 if bits & 64 else zero
            d3 = d3 if bits & 128 else zero
            d4 = d4 if bits & 256 else zero
            third += np.sqrt(d1 * d1 + d2 * d2 + d3 * d3 + d4 * d4)
        sums[i, 2] = third
