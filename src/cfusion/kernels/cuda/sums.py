"""Misfit, energy and displacement: one pass over the pixels each, sums in double precision and in a fixed order."""

from collections.abc import Callable
from functools import cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Displacement, Energies, Floats, Problem, State, primal_planes
from cfusion.kernels.cuda.device import Desk, blocks_of, desk, kernel, or_nothing, real_define

SOURCES, TRAVEL = ("prox.cuh", "reduce.cuh", "sums.cu"), ("reduce.cuh", "travel.cu")
THREADS = 256
TERMS = 7


def kind_of(problem: Problem, real: Any) -> tuple[Any, ...]:
    """The properties for which a kernel is compiled."""
    seen = problem.observations
    return (
        real_define(real),
        problem.order,
        int(problem.fidelity),
        seen.weights is not None,
        problem.edge is not None,
        problem.tensor is not None,
        problem.prox_centre is not None,
    )


@cache
def defines_of(kind: tuple[Any, ...]) -> tuple[str, ...]:
    """The same as macros."""
    names = ("ORDER", "FIDELITY", "WEIGHTED", "EDGE", "TENSOR", "ANCHOR")
    return (kind[0], *(f"{name}={int(value)}" for name, value in zip(names, kind[1:], strict=True)))


def misfit(problem: Problem, x: Floats) -> Floats:
    """As `Backend.misfit`."""
    seen = problem.observations
    out = cupy.empty_like(x)
    # the regulariser does not matter here: one compilation serves every order
    kind = (real_define(x), 1, int(problem.fidelity), seen.weights is not None, False, False, False)
    kernel(SOURCES, "misfit", defines_of(kind))(
        (blocks_of(x.size, THREADS),),
        (THREADS,),
        (
            cupy.ascontiguousarray(x),
            seen.values,
            or_nothing(seen.weights),
            seen.total,
            or_nothing(seen.scatter),
            x.dtype.type(problem.delta),
            np.int32(seen.values.shape[0]),
            np.uint64(x.size),
            out,
        ),
    )
    return out


def energy(problem: Problem, state: State) -> Energies:
    """As `Backend.energy`."""
    return measure(problem, state, None, 1)[0]


def measure(
    problem: Problem, state: State, kept: Floats | None, every: int, meanwhile: Callable[[], None] | None = None
) -> tuple[Energies, Displacement]:
    """As `Backend.measure`; `meanwhile` submits more work to the device."""
    _, *found = _measured(problem, state, None, None, None, kept, every, meanwhile)
    return _energies(problem, found[:TERMS]), _ways(state, found[TERMS:])


def follow(
    problem: Problem,
    state: State,
    rate: Floats,
    strength: Floats,
    kept: Floats | None,
    every: int,
    meanwhile: Callable[[Floats], None],
) -> tuple[tuple[Floats, float, Energies], Displacement]:
    """As `Backend.follow`; `meanwhile` submits more work, at the new confidence, to the device."""
    lam: Floats = cupy.empty_like(rate)
    prior, *found = _measured(problem, state, rate, strength, lam, kept, every, lambda: meanwhile(lam))
    return (lam, prior, _energies(problem, found[:TERMS])), _ways(state, found[TERMS:])


def _measured(
    problem: Problem,
    state: State,
    rate: Floats | None,
    strength: Floats | None,
    made: Floats | None,
    kept: Floats | None,
    every: int,
    meanwhile: Callable[[], None] | None = None,
) -> list[float]:
    """The sums of one pass: the prior, the terms of the energy, the displacement of planes."""
    seen, real, sums = problem.observations, state.primal.dtype.type, desk()
    height, width = problem.links.shape
    kernel(SOURCES, "measure", defines_of(kind_of(problem, state.primal)))(
        (Desk.BLOCKS,),
        (Desk.THREADS,),
        (
            state.primal,
            state.dual,
            seen.values,
            or_nothing(seen.weights),
            seen.total,
            or_nothing(seen.scatter),
            problem.confidence,
            or_nothing(rate),
            or_nothing(strength),
            or_nothing(made),
            or_nothing(kept),
            np.int32(every),
            problem.links,
            or_nothing(problem.edge),
            or_nothing(problem.tensor),
            or_nothing(problem.prox_centre),
            real(problem.delta),
            np.int32(seen.values.shape[0]),
            np.int32(height),
            np.int32(width),
            sums.argument,
        ),
    )
    return sums.read(1 + TERMS + (0 if kept is None else len(state.primal) + len(state.dual)), meanwhile)


def _energies(problem: Problem, sums: list[float]) -> Energies:
    *orders, fidelity, proximal, mass, pixels = sums
    regulariser = tuple(weight * part for weight, part in zip(problem.alpha, orders, strict=False))
    return Energies(regulariser, fidelity, problem.prox_weight / 2 * proximal, mass, pixels)


def snapshot_rows(state: State, every: int) -> Floats:
    """As `Backend.snapshot_rows`: the rows of all planes in one array."""
    planes, (height, width) = len(state.primal) + len(state.dual), state.primal.shape[1:]
    rows = blocks_of(height, every)
    kept: Floats = cupy.empty((planes, rows, width), state.primal.dtype)
    order = next(order for order in (1, 2, 3) if primal_planes(order) == len(state.primal))
    kernel(TRAVEL, "sample", (real_define(state.primal), f"ORDER={order}"))(
        (blocks_of(width, THREADS), rows, planes),
        (THREADS,),
        (state.primal, state.dual, kept, np.int32(every), np.int32(height), np.int32(width)),
    )
    return kept


def _ways(state: State, squares: list[float]) -> Displacement:
    return squares[: len(state.primal)], squares[len(state.primal) :]
