"""What the backends that compute on the host share: NumPy's arrays, where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from cfusion.kernels.contract import INSIDE, Energies, Fidelity, Floats, Observations, Problem, State, Ways

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


def gain(x: Floats, other: Floats, held: Floats, weights: Floats) -> tuple[float, float]:
    """As `Backend.gain`."""
    nearer = np.abs(other - held) - np.abs(x - held)
    total = max(float(np.sum(weights)), 1e-300)
    mean = float(np.sum(weights * nearer)) / total
    return mean, float(np.sqrt(np.sum((weights * (nearer - mean)) ** 2))) / total


def medians(rows: Floats) -> tuple[list[float], list[int]]:
    """As `Backend.medians`."""
    known = [row[np.isfinite(row)] for row in rows]
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


def weight_of_data(problem: Problem) -> tuple[float, float]:
    """As `Backend.weight_of_data`."""
    mass = (problem.confidence * problem.observations.total).sum(dtype=np.float64)
    return float(mass), float(((problem.links & INSIDE) > 0).sum())


def surveying(misfit: Callable[[Problem, Floats], Floats]) -> Callable[..., list[float]]:
    """`Backend.survey` by a backend's misfit."""

    def survey(seen: Observations, start: Floats, median: Floats, count: Floats) -> list[float]:
        observed = count > 0
        total = np.where(observed, seen.total, 1).astype(np.float64)
        if seen.scatter is not None:
            squares = 2 * seen.scatter / total
        else:
            ones, no_links = np.ones_like(seen.total), np.zeros(start.shape, np.uint16)
            absolute = Problem(Fidelity.L1, 1.0, seen, ones, no_links, (1.0,))
            squares = (misfit(absolute, median) / total) ** 2
        known = np.where(observed, start, 0).astype(np.float64)
        return [float(np.sum(each)) for each in (observed, count, squares * observed, known, known * known)]

    return survey


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
