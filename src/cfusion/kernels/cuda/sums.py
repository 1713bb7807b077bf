"""Misfit and energy: one pass over the pixels each; every block sums in double precision, in a fixed order."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Energies, Floats, Problem, State
from cfusion.kernels.cuda.device import blocks_of, kernel, or_nothing, real_define

SOURCES = ("prox.cuh", "reduce.cuh", "sums.cu")
BLOCKS, THREADS = 512, 256  # the same on every device, so that sums have the same bits
TERMS = 5


def problem_defines(problem: Problem, real: Any) -> tuple[str, ...]:
    """The macros that say what kind of problem a kernel is compiled for."""
    return (
        real_define(real),
        f"ORDER={problem.order}",
        f"FIDELITY={int(problem.fidelity)}",
        f"WEIGHTED={problem.observations.weights is not None:d}",
        f"EDGE={problem.edge is not None:d}",
        f"TENSOR={problem.tensor is not None:d}",
        f"ANCHOR={problem.anchor is not None:d}",
    )


def misfit(problem: Problem, x: Floats) -> Floats:
    """As `Backend.misfit`."""
    seen = problem.observations
    out = cupy.empty_like(x)
    # what the regulariser is does not matter here: one compilation serves every order
    weighted = seen.weights is not None
    defines = (
        real_define(x),
        "ORDER=1",
        f"FIDELITY={int(problem.fidelity)}",
        f"WEIGHTED={weighted:d}",
        "EDGE=0",
        "TENSOR=0",
        "ANCHOR=0",
    )
    kernel(SOURCES, "misfit", defines)(
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
    seen, real = problem.observations, state.primal.dtype.type
    height, width = problem.links.shape
    parts, sums = cupy.empty((BLOCKS, TERMS)), cupy.empty(TERMS)
    defines = problem_defines(problem, state.primal)
    kernel(SOURCES, "energy", defines)(
        (BLOCKS,),
        (THREADS,),
        (
            state.primal,
            seen.values,
            or_nothing(seen.weights),
            seen.total,
            or_nothing(seen.scatter),
            problem.confidence,
            problem.links,
            or_nothing(problem.edge),
            or_nothing(problem.tensor),
            or_nothing(problem.anchor),
            real(problem.delta),
            np.int32(seen.values.shape[0]),
            np.int32(height),
            np.int32(width),
            parts,
        ),
    )
    kernel(SOURCES, "add_parts", defines)((1,), (THREADS,), (parts, np.int32(BLOCKS), np.int32(TERMS), sums))
    on_host = cupy.asnumpy(sums)
    regulariser = tuple(weight * float(part) for weight, part in zip(problem.alpha, on_host[:3], strict=False))
    return Energies(regulariser, float(on_host[3]), problem.pull / 2 * float(on_host[4]))
