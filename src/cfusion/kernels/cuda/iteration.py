"""Run iterations: on the chip where a problem fits, tile by tile where it does not, two plain passes for rare kinds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Fidelity, Problem, State, Steps
from cfusion.kernels.cuda.device import blocks_of, by_value, kernel, multiprocessors, or_nothing, shared_memory
from cfusion.kernels.cuda.sums import defines_of, kind_of

COLUMNS = 64  # of a tile with its rim: two per lane of a warp
ROWS = 4  # of a lane
WARPS = 12  # of a tile, at most: what the registers of one multiprocessor hold
BLOCKS = 1  # tiles at a time on a multiprocessor
LEVELS_ON_CHIP, LEVELS_PER_PASS = 2, 4  # iterations between two exchanges; iterations per launch
LEAST_ROWS = 8  # of a tile that stays on the chip, without its rim
MOST_VIEWS = 255  # a byte counts the observations below x
PACKET_PARTS = {1: 2, 2: 6}  # by order: packets of three values that carry a pair of pixels


def iterate(problem: Problem, state: State, steps: Steps, count: int) -> None:
    """As `Backend.iterate`."""
    if count < 1:
        return
    if not _sweepable(problem, state):
        _plain(problem, state, steps, count)
        return
    tiling = _on_chip(*problem.links.shape, BLOCKS * multiprocessors())
    if tiling is not None and _fits(problem, tiling):
        _sweep(problem, state, steps, count, tiling)
        return
    tiling = _per_pass(*problem.links.shape)
    if not _fits(problem, tiling):
        _plain(problem, state, steps, count)
        return
    for done in range(0, count, LEVELS_PER_PASS):
        _sweep(problem, state, steps, min(LEVELS_PER_PASS, count - done), tiling)


def _fits(problem: Problem, tiling: _Tiling) -> bool:
    """Whether a tile finds the shared memory it needs on this device."""
    return _shared_bytes(problem.order, *_kind(problem), tiling.levels, tiling.exchange) <= shared_memory()


def _kind(problem: Problem) -> tuple[bool, bool, bool]:
    """Whether there are weights, edge weights and an anchor."""
    return problem.observations.weights is not None, problem.edge is not None, problem.anchor is not None


def _sweepable(problem: Problem, state: State) -> bool:
    return (
        problem.order <= 2
        and problem.fidelity is Fidelity.L1
        and problem.tensor is None
        and problem.observations.values.shape[0] <= MOST_VIEWS
        and state.primal.dtype == np.float32
    )


@dataclass(frozen=True)
class _Tiling:
    """How an image is cut: tiles of rows x columns without their rim."""

    levels: int
    rows: int
    columns: int
    down: int
    across: int
    exchange: bool

    @property
    def warps(self) -> int:
        return blocks_of(self.rows + 2 * self.levels, ROWS)


@cache
def _on_chip(height: int, width: int, places: int) -> _Tiling | None:
    """Tiles that all run at the same time, as low as the chip has room for; None if it has not."""
    levels = LEVELS_ON_CHIP
    across = blocks_of(width, COLUMNS - 2 * levels)
    highest = ROWS * WARPS - 2 * levels
    if across * blocks_of(height, highest) > places:
        return None
    rows = max(blocks_of(height, places // across), min(LEAST_ROWS, height), levels)
    columns = 2 * blocks_of(blocks_of(width, across), 2)
    return _Tiling(levels, rows, columns, blocks_of(height, rows), blocks_of(width, columns), exchange=True)


@cache
def _per_pass(height: int, width: int) -> _Tiling:
    """Tiles that are visited one after the other."""
    rows, columns = ROWS * WARPS - 2 * LEVELS_PER_PASS, COLUMNS - 2 * LEVELS_PER_PASS
    down, across = blocks_of(height, rows), blocks_of(width, columns)
    return _Tiling(LEVELS_PER_PASS, blocks_of(height, down), columns, down, across, exchange=False)


def _sweep(problem: Problem, state: State, steps: Steps, count: int, tiling: _Tiling) -> None:
    seen, target = problem.observations, state.spare()
    sweep, shared = _sweep_kernel(problem.order, *_kind(problem), tiling.levels, tiling.exchange)
    height, width = problem.links.shape
    rounds = (count - 1) // tiling.levels if tiling.exchange else 0
    mailbox, first_round = _mailbox(height * blocks_of(width, 2) * PACKET_PARTS[problem.order], rounds)
    sweep(
        (tiling.across, tiling.down),
        (32 * tiling.warps,),
        (
            state.primal,
            state.dual,
            target.primal,
            target.dual,
            seen.values,
            or_nothing(seen.weights),
            seen.total,
            problem.confidence,
            problem.links,
            or_nothing(problem.edge),
            or_nothing(problem.anchor),
            or_nothing(mailbox),
            first_round,
            _sweep_scalars(steps, problem.alpha, problem.pull if problem.anchor is not None else 0.0),
            by_value(np.array([len(seen.values), height, width, tiling.rows, tiling.columns, count], np.int32)),
        ),
        shared_mem=shared,
    )
    state.swap()


@cache
def _sweep_kernel(order: int, weighted: bool, edged: bool, held: bool, levels: int, exchange: bool) -> tuple[Any, int]:
    """The kernel for one kind of problem, and how much shared memory it takes."""
    defines = (
        f"ORDER={order}",
        f"ROWS={ROWS}",
        f"WARPS={WARPS}",
        f"LEVELS={levels}",
        f"BLOCKS={BLOCKS}",
        f"WEIGHTED={weighted:d}",
        f"EDGE={edged:d}",
        f"ANCHOR={held:d}",
        f"EXCHANGE={exchange:d}",
        f"PARTS={PACKET_PARTS[order]}",
    )
    shared = _shared_bytes(order, weighted, edged, held, levels, exchange)
    return kernel(("tile.cuh", "sweep.cu"), "sweep", defines, shared=shared, cooperative=exchange), shared


def _shared_bytes(order: int, weighted: bool, edged: bool, held: bool, levels: int, exchange: bool) -> int:
    """The size of `Shared` in sweep.cu."""
    lanes, height = 32, ROWS * WARPS
    packets = PACKET_PARTS[order] * (2 * levels * lanes + levels * height)
    maps = 32 + 8 * edged + 8 * held + 16 * weighted  # bytes a pair of pixels
    return 6 * (WARPS + 1) * lanes * 8 + lanes * height * maps + (16 + 24 * packets if exchange else 0)


_mailboxes: dict[tuple[int, int], tuple[Any, int]] = {}  # (device, stream) -> packets, rounds so far
_mailboxes_lock = Lock()


def _mailbox(size: int, rounds: int) -> tuple[Any, np.uint32]:
    """Room for two rounds of packets, and the number of the first round: no number is ever used twice."""
    if rounds == 0:
        return None, np.uint32(0)
    key = (cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr)
    with _mailboxes_lock:
        packets, used = _mailboxes.get(key, (None, 0))
        if packets is None or len(packets) < 2 * size or used + rounds >= 1 << 32:
            packets, used = cupy.zeros((2 * size, 4), np.float32), 0
        _mailboxes[key] = packets, used + rounds
    return packets, np.uint32(used + 1)


def _held(step: float, pull: float) -> tuple[float, float, float]:
    """The step, and the shares of centre and anchor, once the anchor's quadratic is folded into the prox."""
    weight = step * pull
    return step / (1 + weight), 1 / (1 + weight), weight / (1 + weight)


@lru_cache(maxsize=256)
def _sweep_scalars(steps: Steps, alpha: tuple[float, ...], pull: float) -> Any:
    """`Scalars` of sweep.cu, passed by value."""
    pairs = [value for each in (steps.tau, steps.sigma, alpha) for value in (each[0], each[-1])]
    return by_value(np.array([*pairs, steps.relaxation, *_held(steps.tau[0], pull)], np.float32))


def _plain(problem: Problem, state: State, steps: Steps, count: int) -> None:
    seen, real = problem.observations, state.primal.dtype
    defines = defines_of(kind_of(problem, state.primal))
    primal_pass, dual_pass = (kernel(("prox.cuh", "plain.cu"), name, defines) for name in ("primal_pass", "dual_pass"))
    pad, pull = (1.0,) * (3 - problem.order), problem.pull if problem.anchor is not None else 0.0
    levels = [*steps.tau, *pad, *steps.sigma, *pad, *problem.alpha, *pad]
    scalars = by_value(np.array([*levels, steps.relaxation, *_held(steps.tau[0], pull), problem.delta], real))
    height, width = (np.int32(size) for size in problem.links.shape)
    grid, block = (blocks_of(int(width), 32), blocks_of(int(height), 8)), (32, 8)
    ahead = state.spare().primal
    primal_arguments = (
        state.primal,
        ahead,
        state.dual,
        seen.values,
        or_nothing(seen.weights),
        seen.total,
        problem.confidence,
        problem.links,
        or_nothing(problem.tensor),
        or_nothing(problem.anchor),
        scalars,
        np.int32(seen.values.shape[0]),
        height,
        width,
    )
    dual_arguments = (
        state.dual,
        ahead,
        problem.links,
        or_nothing(problem.edge),
        or_nothing(problem.tensor),
        scalars,
        height,
        width,
    )
    for _ in range(count):
        primal_pass(grid, block, primal_arguments)
        dual_pass(grid, block, dual_arguments)
