"""Run iterations tile by tile, T at a time."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from cfusion.kernels.contract import (
    Floats,
    Mask,
    Problem,
    Settled,
    Settling,
    State,
    Steps,
    Window,
    dual_planes,
    primal_planes,
    window_of,
)
from cfusion.kernels.cpu.prox import PAD
from cfusion.kernels.cpu.tiles import sweep_for
from cfusion.kernels.host import aligned, nothing
from cfusion.kernels.threads import cuts, in_parallel, threads

LEVELS = 12  # iterations per visit of a tile: half of those between two checks
TILE_ROWS, TILE_COLUMNS = 480, 960  # approximate; the bits do not depend on them
LEAST_ROWS = 60  # of a tile: its halo is computed as well


def iterate(
    problem: Problem, state: State, steps: Steps, count: int, plan: Settling | None = None, levels: int = LEVELS
) -> Settled | None:
    """As `Backend.iterate`; `levels` iterations share one pass over memory."""
    if plan is not None:
        return None
    if state.workspace is None or state.workspace[0] is not problem.links:
        domain = problem.links > 0
        state.workspace = problem.links, _tiles(domain), _extent(domain)
    _, (tiles, idle), extent = state.workspace
    done, holding = 0, tuple[Floats, ...]()
    while done < count:
        now = min(levels, count - done)
        target = state.spare()
        if not any(target.primal is each for each in holding):
            for rows, columns in idle:
                target.primal[:, rows, columns] = state.primal[:, rows, columns]
                target.dual[:, rows, columns] = state.dual[:, rows, columns]
        holding = (state.primal, target.primal)  # both hold the pixels outside the tiles, which do not change
        _advance(problem, state, steps, now, tiles, extent)
        done += now
    return None


def _advance(problem: Problem, state: State, steps: Steps, levels: int, tiles: Any, extent: Any) -> None:
    real = state.primal.dtype
    width = problem.links.shape[1]
    crew = min(len(tiles), threads())
    widest = int((tiles[:, 3] - tiles[:, 2]).max(initial=0))
    padded = -(-min(width, widest + 4 * levels) // PAD) * PAD + 2 * PAD
    order = problem.order
    empty = nothing(2, real)
    none = nothing(3, real)
    seen = problem.observations
    target = state.spare()
    sweep = sweep_for(order, int(problem.fidelity), problem.tensor is not None, problem.prox_centre is not None)
    given = (
        _scalars(problem, steps, real),
        state.primal,
        state.dual,
        target.primal,
        target.dual,
        seen.values,
        none if seen.weights is None else seen.weights,
        seen.total,
        problem.confidence,
        problem.links,
        np.ones((1, width), real) if problem.edge is None else problem.edge,
        none if problem.tensor is None else problem.tensor,
        empty if problem.prox_centre is None else problem.prox_centre,
    )
    ring = 2 * levels + 3
    in_parallel(
        [
            (
                sweep,
                levels,
                tiles[hand::crew].copy(),
                extent,
                *given,
                _zeros((primal_planes(order), ring, padded), real),
                _zeros((dual_planes(order), ring, padded), real),
                _zeros((levels, primal_planes(order), 3, padded), real),
                _zeros((10, padded), real),
            )
            for hand in range(crew)
        ]
    )
    state.swap()


def _zeros(shape: tuple[int, ...], real: Any) -> Floats:
    made = aligned(shape, real)
    made.fill(0)
    return made


def _scalars(problem: Problem, steps: Steps, real: Any) -> tuple[Any, ...]:
    """The scalars in the order in which `tiles` names them."""
    pad = (1.0,) * (3 - problem.order)
    weight = steps.tau[0] * problem.prox_weight if problem.prox_centre is not None else 0.0
    scalars = [
        *steps.tau, *pad, *steps.sigma, *pad, *problem.alpha, *pad,
        steps.relaxation, steps.tau[0] / (1 + weight), 1 / (1 + weight), weight / (1 + weight), problem.delta,
        1.0, 2.0, sqrt(1 / 2), sqrt(1 / 3), sqrt(2 / 3), np.finfo(real).tiny,
    ]  # fmt: skip
    return tuple(real.type(each) for each in scalars)


def _extent(domain: Mask) -> Any:
    """First and end column (H, 2) of each row of a domain (H, W); 0 and 0 of an empty one."""
    first, last = domain.argmax(axis=1), domain.shape[1] - domain[:, ::-1].argmax(axis=1)
    return np.stack([first, last], axis=1) * domain.any(axis=1, keepdims=True)


def _tiles(domain: Mask) -> tuple[Any, list[Window]]:
    """First row, end row, first column, end column (n, 4) of the domain (H, W) per tile; and windows outside it.

    Pixels outside the domain are not changed.
    """
    width, tiles, idle = domain.shape[1], [], []
    for top, bottom in _bands(domain):
        for left, right in cuts(width, max(1, round(width / TILE_COLUMNS))):
            part = window_of(domain[top:bottom, left:right])
            rows, columns = part or (slice(0, 0), slice(0, 0))
            r0, r1, c0, c1 = top + rows.start, top + rows.stop, left + columns.start, left + columns.stop
            if part is not None:
                tiles.append((r0, r1, c0, c1))
            around = ((top, r0, left, right), (r1, bottom, left, right), (r0, r1, left, c0), (r0, r1, c1, right))
            idle += [(slice(a, b), slice(c, d)) for a, b, c, d in around if a < b and c < d]
    return np.array(tiles, np.int64).reshape(-1, 4), idle


def _bands(domain: Mask) -> list[tuple[int, int]]:
    """Start and stop of each row of tiles, with similar work in each and the same number for every thread.

    The work of a row is the distance from the first to the last pixel of the domain, plus a constant that avoids tiles
    that consist mostly of halo.
    """
    (height, width), extent = domain.shape, _extent(domain)
    rounds = max(1, round(height / (TILE_ROWS * threads())))
    many = max(1, min(rounds * threads(), height // LEAST_ROWS))
    work = np.cumsum(extent[:, 1] - extent[:, 0] + width // 4 + 1)
    ends = np.searchsorted(work, [work[-1] * band // many for band in range(1, many)])
    return list(pairwise([0, *ends.tolist(), height]))
