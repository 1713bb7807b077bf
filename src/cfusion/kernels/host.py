"""What the backends that compute on the host share: NumPy's arrays, where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.kernels.contract import (
    INSIDE,
    Arranged,
    Energies,
    Fidelity,
    Floats,
    Held,
    Links,
    Mask,
    Observations,
    Problem,
    State,
    Ways,
    Window,
)

arrays = np


def to_device(array: Any, dtype: Any) -> Any:
    """A copy of that type, for the backend to keep and to overwrite."""
    return np.array(array, dtype)


def to_host(array: Any) -> Any:
    """The array itself."""
    return array


def foresee(shape: tuple[int, int], order: int, fidelity: Fidelity) -> None:
    """Nothing to get ready."""


def lane() -> AbstractContextManager[Any]:
    """Nothing to arrange."""
    return nullcontext()


def stacked(maps: Sequence[Any]) -> Any:
    """A copy of all."""
    return np.stack(maps)


def gain(x: Floats, other: Floats, held: Held) -> tuple[float, float, float]:
    """As `Backend.gain`, one map after the other."""
    sums = np.zeros(6)
    for k, depths in enumerate(held.depths):
        depth = depths[held.window].astype(np.float64)
        weight = np.isfinite(depth) if held.weights is None else held.weights[k][held.window]
        weight = np.where(held.inside, weight, 0).astype(np.float64)
        seen = weight > 0
        depth = np.where(seen, depth, 1)
        away = (1 / depth if held.inverse else depth) - held.centre
        off = weight * np.abs(other - away)
        nearer = off - weight * np.abs(x - away)
        parts = (weight, nearer, weight * weight, weight * nearer, nearer * nearer, off)
        sums += [np.sum(part) for part in parts]
    return gain_of(*sums.tolist())


def gain_of(
    total: float, first: float, of_weights: float, mixed: float, second: float, off: float
) -> tuple[float, float, float]:
    """Mean, standard error and the other's error, from sums of w, w g, w^2, w^2 g, w^2 g^2 and w times the distance."""
    total = max(total, 1e-300)
    mean = first / total
    variance = max(second - 2 * mean * mixed + mean * mean * of_weights, 0.0)
    return mean, sqrt(variance) / total, off / total


def compare(depths: Floats, every: int) -> tuple[list[tuple[float, float]], NDArray[np.float64]]:
    """As `Backend.compare`."""
    contents = [(float(np.isfinite(depth).sum()), float(np.nansum(depth, dtype=np.float64))) for depth in depths]
    sample = depths[:, ::every, ::every].reshape(len(depths), -1).astype(np.float64)
    apart = np.empty((len(depths), len(depths)))
    for k, one in enumerate(sample):
        away = np.abs(sample - one)
        known = np.isfinite(away)
        count = known.sum(axis=-1)
        means = np.where(known, away, 0).sum(axis=-1) / np.maximum(count, 1)
        apart[k] = np.where(count > 0, means, np.inf)
    return contents, apart


def split(
    depths: Floats, weights: Floats | None, turns: Mask, block: int
) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None], tuple[int, int]]:
    """As `Backend.split`."""
    row, column = (np.abs(2 * np.arange(size) - (size - 1)) // 2 // block for size in depths.shape[1:])
    held = turns[:, (row[:, None] + column[None, :]) % turns.shape[1]]
    kept, out = np.where(held, np.float32(np.nan), depths), np.where(held, depths, np.float32(np.nan))
    known = int((~np.isnan(kept)).sum()), int((~np.isnan(out)).sum())
    if weights is None:
        return (kept, None), (out, None), known
    nothing = np.float32(0)
    return (kept, np.where(held, nothing, weights)), (out, np.where(held, weights, nothing)), known


def whole(part: Floats, domain: Mask, window: Window, outside: float, centre: float, inverse: bool) -> Floats:
    """As `Backend.whole`."""
    out = np.full(domain.shape, outside, np.float32)
    depth = part + part.dtype.type(centre)
    if inverse:
        with np.errstate(divide="ignore"):
            depth = np.where(depth > 0, 1 / depth, np.nan)
    out[window] = np.where(domain[window], depth, outside)
    return out


def resume(state: State, links: Links, other: State, inside: Mask, offset: tuple[int, int], shift: float) -> None:
    """As `Backend.resume`."""
    cuts = [_overlap(*each) for each in zip(links.shape, inside.shape, offset, strict=True)]
    here, there = zip(*cuts, strict=True)
    both = ((links[here] & INSIDE) > 0) & inside[there]
    planes, others = (slice(None), *here), (slice(None), *there)
    state.primal[planes] = np.where(both, other.primal[others], state.primal[planes])
    state.primal[0][here] += np.where(both, shift, 0).astype(state.primal.dtype)
    bits = 1 << np.arange(len(state.dual))[:, None, None]
    state.dual[planes] = np.where(both & (links[here] & bits > 0), other.dual[others], state.dual[planes])


def _overlap(size: int, other: int, offset: int) -> tuple[slice, slice]:
    """What two ranges have in common, counted from the start of each; nothing if they are apart."""
    first = max(0, -offset)
    end = max(min(size, other - offset), first)
    return slice(first, end), slice(first + offset, end + offset)


def blend(surface: Floats, found: Floats, share: float) -> Floats:
    """As `Backend.blend`."""
    both = ~np.isnan(surface) & ~np.isnan(found)
    blended: Floats = np.where(both, surface + np.float32(share) * (found - surface), found)
    return blended


def account(
    depths: Floats, weights: Floats | None, filled: Mask | None, depth: Floats
) -> tuple[NDArray[np.int16], Floats]:
    """As `Backend.account`, one map after the other."""
    measured, known = np.zeros((2, *depth.shape), np.int32)
    spread = np.zeros(depth.shape)
    for k, observed in enumerate(depths):
        seen = ~np.isnan(observed) if weights is None else weights[k] > 0
        measured += seen if filled is None else seen & ~filled[k]
        away = np.abs(observed - depth)
        there = ~np.isnan(away)
        spread += np.where(there, away, 0)
        known += there
    most = np.iinfo(np.int16).max
    provenance = np.where(np.isnan(depth), -1, np.minimum(measured, most)).astype(np.int16)
    with np.errstate(divide="ignore", invalid="ignore"):
        return provenance, np.where(known > 0, np.sqrt(2) * spread / known**1.5, np.nan).astype(np.float32)


def tilted(depth: Floats, down: float, right: float) -> Floats:
    """As `Backend.tilted`."""
    rows, columns = (np.arange(size, dtype=np.float32) for size in depth.shape)
    plane = rows[:, None] * np.float32(down) + columns[None, :] * np.float32(right)
    out: Floats = depth + plane
    return out


def medians(rows: Floats, above: float = -np.inf) -> tuple[list[float], list[int]]:
    """As `Backend.medians`."""
    known = [row[np.isfinite(row) & (row > above)] for row in rows]
    return [float(np.median(each)) if each.size else float("nan") for each in known], [each.size for each in known]


def quantiles(values: Floats, probabilities: Sequence[float]) -> list[float]:
    """As `Backend.quantiles`."""
    known = values[np.isfinite(values)]
    out: list[float] = np.quantile(known, probabilities).tolist() if known.size else [float("nan")] * len(probabilities)
    return out


def adapted(misfit: Floats, problem: Problem, rate: Floats, strength: Floats) -> tuple[Floats, float]:
    """What `Backend.adapt` gives at this misfit."""
    inside = (problem.links & INSIDE) > 0
    lam = np.where(inside, strength / (misfit + rate), 0).astype(misfit.dtype)
    known = lam[inside].astype(np.float64)
    return lam, float(np.sum(rate[inside] * known - strength[inside] * np.log(known)))


def sample(state: State, every: int) -> Floats:
    """As `Backend.sample`: the rows of all planes in one array."""
    return np.concatenate([state.primal[:, ::every], state.dual[:, ::every]])


def travelled(kept: Floats, state: State, every: int) -> Ways:
    """As `Backend.travelled`."""
    change = sample(state, every) - kept
    squares = [float(np.sum(plane * plane, dtype=np.float64)) for plane in change]
    return squares[: len(state.primal)], squares[len(state.primal) :]


def arranging(
    order_observations: Callable[..., tuple[Observations, Floats]], misfit: Callable[[Problem, Floats], Floats]
) -> Callable[..., Arranged]:
    """`Backend.arrange` by a backend's sort and misfit."""

    def arrange(
        depths: Floats,
        weights: Floats | None,
        window: Window,
        centre: float,
        inverse: bool,
        fidelity: Fidelity,
        real: Any,
    ) -> Arranged:
        crop = (slice(None), *window)
        values = np.array(depths[crop], real)  # copies, which may be sorted in place
        if inverse:
            np.divide(1, values, out=values)
        values -= real(centre)
        given = None if weights is None else np.array(weights[crop], real)
        low, high, together = np.inf, -np.inf, 0
        for k, value in enumerate(values):
            known = np.isfinite(value) if given is None else given[k] > 0
            low = min(low, float(np.min(np.where(known, value, np.inf))))
            high = max(high, float(np.max(np.where(known, value, -np.inf))))
            together += int(known.sum())
        seen, median = order_observations(values, given, fidelity)
        observed = seen.total > 0
        total = np.where(observed, seen.total, 1).astype(np.float64)
        if seen.scatter is not None:
            squares = 2 * seen.scatter / total
        else:
            ones, no_links = np.ones_like(seen.total), np.zeros(median.shape, np.uint16)
            absolute = Problem(Fidelity.L1, 1.0, seen, ones, no_links, (1.0,))
            squares = (misfit(absolute, median) / total) ** 2
        middle = median.astype(np.float64)
        pixels, square, first, second = (
            float(np.sum(each)) for each in (observed, squares * observed, middle, middle * middle)
        )
        return Arranged(seen, median, low, high, pixels, float(together), square, first, second)

    return arrange


def closing(close_mask: Callable[[Mask, int], Mask]) -> Callable[[Mask, int], Mask | None]:
    """`Backend.gaps` by a backend's closing."""

    def gaps(mask: Mask, radius: int) -> Mask | None:
        added = close_mask(mask, radius) & ~mask
        return added if added.any() else None

    return gaps


def measuring(
    energy: Callable[[Problem, State], Energies], adapt: Callable[..., tuple[Floats, float]]
) -> tuple[Callable[..., tuple[Energies, Ways]], Callable[..., tuple[tuple[Floats, float, Energies], Ways]]]:
    """`Backend.measure` and `Backend.follow` from their parts: on the host nothing is waited for."""

    def measure(problem: Problem, state: State, kept: Floats | None, every: int) -> tuple[Energies, Ways]:
        return energy(problem, state), ([], []) if kept is None else travelled(kept, state, every)

    def follow(
        problem: Problem, state: State, rate: Floats, strength: Floats, kept: Floats | None, every: int
    ) -> tuple[tuple[Floats, float, Energies], Ways]:
        lam, prior = adapt(problem, state.primal[0], rate, strength)
        energies, ways = measure(replace(problem, confidence=lam), state, kept, every)
        return (lam, prior, energies), ways

    return measure, follow
