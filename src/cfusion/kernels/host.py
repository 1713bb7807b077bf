"""Functions shared by the backends that compute in NumPy arrays on the host."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import wraps
from math import prod
from typing import Any

import numpy as np

from cfusion.kernels.contract import (
    INSIDE,
    Displacement,
    Energies,
    Fidelity,
    Floats,
    Links,
    Mask,
    Observations,
    Problem,
    SortedStack,
    State,
    Window,
)
from cfusion.kernels.threads import in_bands

arrays = np
CACHE_LINE = 64  # bytes


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array, not initialised, that begins a cache line: vectors loaded from it seldom span two."""
    size, each = prod(shape), np.dtype(dtype).itemsize
    room = np.empty(size + CACHE_LINE // each, dtype)
    first = -room.ctypes.data % CACHE_LINE // each
    return room[first : first + size].reshape(shape)


def nothing(axes: int, dtype: Any) -> Any:
    """An array without elements, for a kernel that is given none: its arguments have types, and are not optional."""
    return np.empty(axes * (0,), dtype)


def to_device(array: Any, dtype: Any) -> Any:
    """A copy of that type, for the backend to keep and overwrite."""
    return np.array(array, dtype)


def to_host(array: Any) -> Any:
    """The array itself."""
    return array


def precompile(shape: tuple[int, int], order: int, fidelity: Fidelity, posed: bool, adaptive: bool) -> None:
    """Nothing to compile in advance."""


def stream() -> AbstractContextManager[Any]:
    """The host has no streams."""
    return nullcontext()


def of_each(read_view: Callable[..., tuple[Floats, ...]]) -> Callable[..., Any]:
    """`Backend.read_view` by a function of one view."""

    @wraps(read_view)
    def read(x: Floats, camera: Floats, *views: Any) -> Any:
        if isinstance(views[2], np.ndarray):
            return read_view(x, camera, *views)
        parts = [read_view(x, camera, *view) for view in zip(*views, strict=True)]
        return tuple(np.stack(each) for each in zip(*parts, strict=True))

    return read


def transfer_state(
    state: State, links: Links, other: State, inside: Mask, offset: tuple[int, int], shift: float
) -> None:
    """As `Backend.transfer_state`."""
    cuts = [_overlap(*each) for each in zip(links.shape, inside.shape, offset, strict=True)]
    here, there = zip(*cuts, strict=True)
    both = ((links[here] & INSIDE) > 0) & inside[there]
    for plane, others in zip(state.primal, other.primal, strict=True):
        np.copyto(plane[here], others[there], where=both)
    state.primal[0][here] += np.where(both, shift, 0).astype(state.primal.dtype)
    for number, (plane, others) in enumerate(zip(state.dual, other.dual, strict=True)):
        np.copyto(plane[here], others[there], where=both & (links[here] & links.dtype.type(1 << number) > 0))


def _overlap(size: int, other: int, offset: int) -> tuple[slice, slice]:
    """The overlap of two ranges, relative to the start of each; empty if they do not meet."""
    first = max(0, -offset)
    end = max(min(size, other - offset), first)
    return slice(first, end), slice(first + offset, end + offset)


def of_sides(medians: Callable[..., tuple[list[float], list[int]]], rows: Floats) -> tuple[list[float], list[int]]:
    """`Backend.medians` of all sizes, of the positive values, and of the sizes of the negative ones."""
    parts = medians(np.abs(rows)), medians(rows, 0.0), medians(-rows, 0.0)
    return [each for middles, _ in parts for each in middles], [each for _, known in parts for each in known]


def medians(
    rows: Floats, above: float = -np.inf, *, sides: bool = False, share: float = 0.5
) -> tuple[list[float], list[int]]:
    """As `Backend.medians`."""
    if sides:
        return of_sides(medians, rows)
    known = [row[np.isfinite(row) & (row > above)] for row in rows]
    middles = [_median(each) if share == 0.5 or not each.size else float(np.quantile(each, share)) for each in known]
    return middles, [each.size for each in known]


def _median(values: Floats) -> float:
    """The median of finite values, NaN if there are none; NumPy's own takes four times as long for a few thousand."""
    if not values.size:
        return float("nan")
    middle = [(values.size - 1) // 2, values.size // 2]
    one, other = np.partition(values, middle)[middle]
    with np.errstate(over="ignore"):
        return float((one + other) / values.dtype.type(2)) if middle[0] != middle[1] else float(one)


def snapshot_rows(state: State, every: int) -> Floats:
    """As `Backend.snapshot_rows`: the rows of all planes in one array."""
    return np.concatenate([state.primal[:, ::every], state.dual[:, ::every]])


def travelled(kept: Floats, state: State, every: int) -> Displacement:
    """The displacement since a snapshot of rows: sums of squares per plane, for primal and dual."""
    change = snapshot_rows(state, every) - kept
    squares = [float(np.sum(plane * plane, dtype=np.float64)) for plane in change]
    return squares[: len(state.primal)], squares[len(state.primal) :]


def arranging(
    order_observations: Callable[..., tuple[Observations, Floats]], misfit: Callable[[Problem, Floats], Floats]
) -> Callable[..., SortedStack]:
    """`Backend.sort_observations` by a backend's sort and misfit."""

    def sort_observations(
        depths: Floats,
        weights: Floats | None,
        window: Window,
        centre: float,
        inverse: bool,
        fidelity: Fidelity,
        real: Any,
    ) -> SortedStack:
        values, given, low, high, together = _taken(depths, weights, window, (centre, inverse), real)
        seen, median = order_observations(values, given, fidelity)
        spread: Any = seen.scatter
        if seen.scatter is None:
            ones, no_links = np.ones_like(seen.total), np.zeros(median.shape, np.uint16)
            spread = misfit(Problem(Fidelity.L1, 1.0, seen, ones, no_links, (1.0,)), median)
        error, first, second = np.empty((3, *median.shape))

        def square(start: int, stop: int) -> None:
            here = slice(start, stop)
            observed, middle = seen.total[here] > 0, median[here].astype(np.float64)
            total = np.where(observed, seen.total[here], 1).astype(np.float64)
            squares = 2 * spread[here] / total if seen.scatter is not None else (spread[here] / total) ** 2
            error[here], first[here], second[here] = squares * observed, middle, middle * middle

        in_bands(median.shape, (square,))
        sums = (float(np.sum(each)) for each in (seen.total > 0, error, first, second))
        pixels, sum_sq_error, sum_median, sum_sq_median = sums
        found = (low, high, pixels, float(together), sum_sq_error, sum_median, sum_sq_median)
        return SortedStack(seen, median, *found)

    return sort_observations


def _taken(
    depths: Floats, weights: Floats | None, window: Window, variable: tuple[float, bool], real: Any
) -> tuple[Floats, Floats | None, float, float, int]:
    """Centred values and weights of a window, as copies to be sorted in place; minimum, maximum and number of values
    that are known.
    """
    (rows, columns), (centre, inverse), views = window, variable, len(depths)
    values = aligned((views, rows.stop - rows.start, columns.stop - columns.start), real)
    given = None if weights is None else aligned(values.shape, real)
    low, high, together = np.empty(views), np.empty(views), np.empty(views, np.int64)

    def take(start: int, stop: int) -> None:
        for k in range(start, stop):
            value = values[k]
            value[:] = depths[k][window]
            if inverse:
                with np.errstate(divide="ignore"):  # depths of zero weight may be zero
                    np.divide(1, value, out=value)
            value -= real(centre)
            if given is not None and weights is not None:
                given[k] = weights[k][window]
            known = np.isfinite(value) if given is None else given[k] > 0
            low[k], high[k] = np.min(np.where(known, value, np.inf)), np.max(np.where(known, value, -np.inf))
            together[k] = known.sum()

    in_bands((views, values[0].size), (take,))
    return values, given, float(low.min()), float(high.max()), int(together.sum())


def measuring(
    energy: Callable[[Problem, State], Energies], misfit: Callable[[Problem, Floats], Floats]
) -> tuple[Callable[..., tuple[Energies, Displacement]], Callable[..., Any], Callable[..., tuple[Floats, float]]]:
    """`Backend.measure` and `Backend.follow` composed of their parts, and the update of lam inside `follow`.

    The host needs no synchronisation.
    """

    def measure(problem: Problem, state: State, kept: Floats | None, every: int) -> tuple[Energies, Displacement]:
        return energy(problem, state), ([], []) if kept is None else travelled(kept, state, every)

    def adapt(problem: Problem, x: Floats, rate: Floats, strength: Floats) -> tuple[Floats, float]:
        """lam = strength / (misfit + rate) in the domain, and the prior's term of the energy there."""
        inside = (problem.links & INSIDE) > 0
        fit = misfit(problem, x)
        lam = np.where(inside, strength / (fit + rate), 0).astype(fit.dtype)
        known = lam[inside].astype(np.float64)
        return lam, float(np.sum(rate[inside] * known - strength[inside] * np.log(known)))

    def follow(
        problem: Problem, state: State, rate: Floats, strength: Floats, kept: Floats | None, every: int
    ) -> tuple[tuple[Floats, float, Energies], Displacement]:
        lam, prior = adapt(problem, state.primal[0], rate, strength)
        energies, ways = measure(replace(problem, confidence=lam), state, kept, every)
        return (lam, prior, energies), ways

    return measure, follow, adapt
