"""Iterations: on the chip if a problem fits, else tile by tile, or in two plain passes for rare kinds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import (
    Displacement,
    Energies,
    Fidelity,
    Floats,
    Problem,
    Settled,
    Settling,
    State,
    Steps,
)
from cfusion.kernels.cuda import sums
from cfusion.kernels.cuda.device import (
    Unit,
    blocks_of,
    by_value,
    desk,
    kernel,
    multiprocessors,
    or_nothing,
    shared_memory,
)
from cfusion.kernels.cuda.sums import defines_of, kind_of

COLUMNS = 64  # of a tile with its rim (halo): two per lane of a warp
WARPS = 12  # of a tile, at most: limited by the registers of one multiprocessor
BLOCKS = 1  # tiles at a time on a multiprocessor
LEVELS_ON_CHIP, LEVELS_PER_PASS = 2, 6  # iterations between two exchanges; iterations per launch
LEAST_ROWS = 8  # of a tile that stays on the chip, without its rim
MOST_AHEAD = 1 << 21  # pixels of a state, up to which speculative iterations are worth their memory
MOST_VIEWS = 255  # a byte counts the observations below x
LOOKED = 11  # numbers that a look writes to the host, at most `Desk.MOST`; of look.cuh, as the next three
SETTLED, OTHER_STEPS = 2, 3  # why a launch ended
BOARD_BYTES, MANY_BOARDS = 64, 128  # of `Board`, at least; boards that are made zero at once
PACKET_PARTS, KEPT = {1: 2, 2: 6}, {1: 2, 2: 4}  # by order, of a pair of pixels: packets of three values; quadruples


def iterate(problem: Problem, state: State, steps: Steps, count: int, plan: Settling | None = None) -> Settled | None:
    """As `Backend.iterate`; a plan is followed by one launch, if all tiles are on the chip."""
    if plan is not None:
        return _settled(problem, state, steps, count, plan)
    _iterated(problem, state, steps, count)
    return None


def _iterated(problem: Problem, state: State, steps: Steps, count: int) -> None:
    if count < 1:
        return
    asked, state.workspace = state.workspace, Workspace(problem, steps, count, done=False)
    if asked is not None and asked.done and asked.same(state.workspace):
        state.swap()
        return
    if not _sweepable(problem, state):
        _plain(problem, state, steps, count)
        return
    tiling = _tiling(problem)
    if tiling is None:
        _plain(problem, state, steps, count)
        return
    for done in range(0, count, tiling.per_launch(count)):
        _sweep(problem, state, state.spare(), steps, min(tiling.per_launch(count), count - done), tiling)
        state.swap()


def _tiling(problem: Problem) -> _Tiling | None:
    """Tiles on the chip if they fit, else one after the other; None if not even that fits."""
    return _fastest(problem.links.shape, problem.order, _kind(problem), BLOCKS * multiprocessors())


@dataclass(frozen=True, eq=False)
class Workspace:
    """The last requested iterations of a state, and whether the spare arrays hold as many more, computed in advance."""

    problem: Problem
    steps: Steps
    count: int
    done: bool

    def same(self, other: Workspace) -> bool:
        parts = ("observations", "confidence", "links", "edge", "tensor", "prox_centre")
        mine, its = self.problem, other.problem
        alike = mine is its or (
            all(getattr(mine, part) is getattr(its, part) for part in parts)
            and (mine.alpha, mine.prox_weight) == (its.alpha, its.prox_weight)
        )
        return alike and self.steps == other.steps and self.count == other.count


def measure(problem: Problem, state: State, kept: Floats | None, every: int) -> tuple[Energies, Displacement]:
    """As `Backend.measure`; meanwhile the device iterates on, in case nothing changes."""
    asked = state.workspace
    on = asked is not None and asked.problem is problem
    return sums.measure(problem, state, kept, every, lambda: _go_ahead(problem, state) if on else None)


def follow(
    problem: Problem, state: State, rate: Floats, strength: Floats, kept: Floats | None, every: int
) -> tuple[tuple[Floats, float, Energies], Displacement]:
    """As `Backend.follow`; meanwhile the device iterates on at the new confidence."""

    def go_ahead(confidence: Floats) -> None:
        if state.workspace is not None:
            _go_ahead(replace(problem, confidence=confidence), state)

    return sums.follow(problem, state, rate, strength, kept, every, go_ahead)


def _go_ahead(problem: Problem, state: State) -> None:
    """Compute the next iterations speculatively into the spare arrays.

    If they are not wanted, only a little time of the device is lost.
    """
    tiling = _tiling(problem) if _sweepable(problem, state) else None
    if tiling is None or problem.links.size > MOST_AHEAD or state.ending:
        return
    asked = Workspace(problem, state.workspace.steps, state.workspace.count, done=True)
    spare, each = state.spare(), tiling.per_launch(asked.count)
    passes = blocks_of(asked.count, each)
    beside = State(cupy.empty_like(spare.primal), cupy.empty_like(spare.dual)) if passes > 1 else spare
    source = state
    for k in range(passes):
        target = spare if (passes - k) % 2 else beside
        _sweep(problem, source, target, asked.steps, min(each, asked.count - k * each), tiling)
        source = target
    state.workspace = asked


def _settled(problem: Problem, state: State, steps: Steps, count: int, plan: Settling) -> Settled | None:
    """A whole rough solve that monitors itself (`look.cuh`): one launch, and another whenever its steps change."""
    tiling = _tiling(problem) if _sweepable(problem, state) and problem.prox_centre is None else None
    if tiling is None or not tiling.exchange or count % plan.block or plan.block % tiling.levels:
        return None
    work, source, spare = desk(), state, state.spare()
    target, other = spare, None
    if not plan.asked and plan.checks == 0:  # one launch, whose steps do not change
        numbers = _plan(plan, problem.alpha, float("inf"), 0.0, 0, 0)
        to_look = (numbers, state.primal, state.dual, _board(), work.parts, work.unread)
        _sweep(problem, state, spare, steps, count, tiling, to_look)
        state.workspace = None
        state.swap()
        unknown = float("nan")
        return Settled(Energies((), unknown, unknown), count, plan.step_scale, unknown, settled=False)
    before, floor, done, checked = float("inf"), 0.0, 0.0, 0.0
    while True:
        numbers = _plan(plan, problem.alpha, before, floor, int(done), int(checked))
        to_look = (numbers, state.primal, state.dual, _board(), work.parts, work.page(LOOKED))
        _sweep(problem, source, target, steps, count - int(done), tiling, to_look)
        *orders, fidelity, mass, pixels, scale, floor, done, stop, before, checked = work.turn(LOOKED).tolist()
        if stop != OTHER_STEPS:
            break
        plan = replace(plan, step_scale=scale)
        steps = _steps_of(plan, steps)
        other = other or State(cupy.empty_like(state.primal), cupy.empty_like(state.dual))
        source, target = target, other if target is spare else spare
    if target is not spare:
        spare.primal[...], spare.dual[...] = target.primal, target.dual
    state.workspace = None
    state.swap()
    regulariser = tuple(weight * part for weight, part in zip(problem.alpha, orders, strict=False))
    energies = Energies(regulariser, fidelity, 0.0, mass, pixels)
    return Settled(energies, int(done), scale, floor, stop == SETTLED)


def _board() -> Any:
    """`Board` of look.cuh, zero; many are made at once."""
    boards = desk().boards
    if not boards:
        boards += list(cupy.zeros((MANY_BOARDS, BOARD_BYTES), np.uint8))
    return boards.pop()


def _steps_of(plan: Settling, before: Steps) -> Steps:
    """The steps at the plan's scale."""
    length, orders = plan.per_scale * plan.step_scale, range(len(before.tau))
    tau = tuple(4.0**-j * length / plan.norm for j in orders)
    return replace(before, tau=tau, sigma=tuple(4.0**j / (length * plan.norm) for j in orders))


def _plan(plan: Settling, alpha: tuple[float, ...], before: float, floor: float, done: int, checked: int) -> Any:
    """`Plan` of look.cuh, passed by value; the last four arguments are the end of the previous launch."""
    second = alpha[1] if len(alpha) > 1 else 0.0
    numbers = (plan.tolerance, plan.step_scale, plan.per_scale, plan.norm, *plan.ways, plan.correction, *plan.floor)
    counts = np.array([plan.block, plan.checks, plan.every, 2 * plan.block, done, checked], np.int32)
    return by_value(np.array([*numbers, alpha[0], second, before, floor])) + by_value(counts)


def _kind(problem: Problem) -> tuple[bool, bool, bool]:
    """Whether there are weights, edge weights and an anchor."""
    return problem.observations.weights is not None, problem.edge is not None, problem.prox_centre is not None


def _sweepable(problem: Problem, state: State) -> bool:
    return (
        problem.order <= 2
        and problem.fidelity is Fidelity.L1
        and problem.tensor is None
        and problem.observations.values.shape[0] <= MOST_VIEWS
        and state.primal.dtype == np.float32
    )


@dataclass(frozen=True)
class _Lanes:
    """The pixels of each lane of a tile: two columns of `rows` rows, with r of order 2 in registers or shelved."""

    rows: int
    shelved: bool

    @property
    def height(self) -> int:
        """Rows of a tile with its rim, at most."""
        return self.rows * WARPS


SHORT, TALL = _Lanes(4, shelved=False), _Lanes(6, shelved=True)


@dataclass(frozen=True)
class _Tiling:
    """How an image is divided: tiles of rows x columns without their rim."""

    lanes: _Lanes
    levels: int
    rows: int
    columns: int
    down: int
    across: int
    exchange: bool

    def per_launch(self, count: int) -> int:
        """Iterations per launch, for `count` in all."""
        return count if self.exchange else min(self.levels, count)

    @property
    def rim(self) -> int:
        """Pairs of pixels in a rim, at most: `RIM` of rim.cuh."""
        return self.levels * (COLUMNS + self.lanes.height)

    @property
    def warps(self) -> int:
        return blocks_of(self.rows + 2 * self.levels, self.lanes.rows)


@lru_cache(maxsize=256)
def _fastest(shape: tuple[int, int], order: int, kind: tuple[bool, bool, bool], places: int) -> _Tiling | None:
    """The first tiling for which this device has enough shared memory."""
    every = _tilings(*shape, order, places)
    return next((tiling for tiling in every if _shared_bytes(order, *kind, tiling) <= shared_memory()), None)


def _tilings(height: int, width: int, order: int, places: int) -> list[_Tiling]:
    """The ways to divide an image, fastest first."""
    tall = [TALL] if order == 2 else []
    on_chip = [_on_chip(height, width, places, lanes) for lanes in (SHORT, *tall)]
    return [*(tiling for tiling in on_chip if tiling is not None), _per_pass(height, width)]


def _on_chip(height: int, width: int, places: int, lanes: _Lanes = SHORT) -> _Tiling | None:
    """Tiles that all run at the same time, as low as the chip allows; None if they do not fit."""
    levels = LEVELS_ON_CHIP
    across = blocks_of(width, COLUMNS - 2 * levels)
    highest = lanes.height - 2 * levels
    if across * blocks_of(height, highest) > places:
        return None
    rows = max(blocks_of(height, places // across), min(LEAST_ROWS, height), levels)
    columns = 2 * blocks_of(blocks_of(width, across), 2)
    return _Tiling(lanes, levels, rows, columns, blocks_of(height, rows), blocks_of(width, columns), exchange=True)


def _per_pass(height: int, width: int) -> _Tiling:
    """Tiles that are processed one after the other."""
    rows, columns = SHORT.height - 2 * LEVELS_PER_PASS, COLUMNS - 2 * LEVELS_PER_PASS
    down, across = blocks_of(height, rows), blocks_of(width, columns)
    return _Tiling(SHORT, LEVELS_PER_PASS, blocks_of(height, down), columns, down, across, exchange=False)


def _sweep(
    problem: Problem,
    state: State,
    target: State,
    steps: Steps,
    count: int,
    tiling: _Tiling,
    to_look: tuple[Any, ...] = (),
) -> None:
    """Iterate from one state to another; `to_look` are the arguments with which it monitors itself."""
    seen = problem.observations
    sweep, shared = _sweep_kernel(problem.order, *_kind(problem), tiling, looking=bool(to_look))
    height, width = problem.links.shape
    rounds = count // tiling.levels if tiling.exchange else 0
    mailbox, first_round = _mailbox(tiling.down * tiling.across * PACKET_PARTS[problem.order] * tiling.rim, rounds)
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
            or_nothing(problem.prox_centre),
            or_nothing(mailbox),
            first_round,
            _sweep_scalars(steps, problem.alpha, problem.prox_weight if problem.prox_centre is not None else 0.0),
            _sweep_sizes(len(seen.values), height, width, tiling.rows, tiling.columns, count),
            *to_look,
        ),
        shared_mem=shared,
    )


@cache
def _sweep_kernel(
    order: int, weighted: bool, edged: bool, held: bool, tiling: _Tiling, *, looking: bool
) -> tuple[Any, int]:
    """The kernel for one kind of problem, and its shared memory in bytes."""
    sources, defines, cooperative = _sweep_unit(order, weighted, edged, held, tiling, looking=looking)
    shared = _shared_bytes(order, weighted, edged, held, tiling)
    return kernel(sources, "sweep", defines, cooperative=cooperative), shared


def _sweep_unit(order: int, weighted: bool, edged: bool, held: bool, tiling: _Tiling, *, looking: bool) -> Unit:
    defines = (
        f"ORDER={order}",
        f"ROWS={tiling.lanes.rows}",
        f"SHELVED={tiling.lanes.shelved:d}",
        f"WARPS={WARPS}",
        f"LEVELS={tiling.levels}",
        f"BLOCKS={BLOCKS}",
        f"WEIGHTED={weighted:d}",
        f"EDGE={edged:d}",
        f"ANCHOR={held:d}",
        f"EXCHANGE={tiling.exchange:d}",
        f"PARTS={PACKET_PARTS[order]}",
        f"SETTLE={looking:d}",
    )
    if not looking:
        return ("rim.cuh", "tile.cuh", "sweep.cu"), defines, tiling.exchange
    sources = ("reduce.cuh", "rim.cuh", "tile.cuh", "look.cuh", "sweep.cu")
    return sources, defines, tiling.exchange


def units_for(shape: tuple[int, int], order: int, fidelity: Fidelity) -> list[Unit]:
    """The units to compile for iterations on images of that shape, with and without weights."""
    if order > max(PACKET_PARTS) or fidelity is not Fidelity.L1:
        kinds = [("REAL=float", order, int(fidelity), weighted, False, False, False) for weighted in (False, True)]
        return [(("prox.cuh", "plain.cu"), defines_of(kind), False) for kind in kinds]
    tiling = _tilings(*shape, order, BLOCKS * multiprocessors())[0]
    return [
        _sweep_unit(order, weighted, False, False, tiling, looking=looking)
        for weighted in (False, True)
        for looking in ((False, True) if tiling.exchange else (False,))
    ]


def _shared_bytes(order: int, weighted: bool, edged: bool, held: bool, tiling: _Tiling) -> int:
    """The size of `Shared` in sweep.cu."""
    height, a_row = tiling.lanes.height, COLUMNS // 2 * 8  # bytes of a float2 for every pair of columns
    borders = 4 * (WARPS + 1) * a_row
    borders += 3 * (height + 1) * a_row if tiling.lanes.shelved else 2 * (WARPS + 1) * a_row
    maps = 4 + edged + held + 2 * weighted  # float2 per pair of pixels
    mail = 16 + (4 + 16 * KEPT[order] * (1 if tiling.lanes.shelved else 2)) * tiling.rim
    return borders + height * maps * a_row + (mail if tiling.exchange else 0)


_mailboxes: dict[tuple[int, int], tuple[Any, int]] = {}  # (device, stream) -> packets, rounds so far
_mailboxes_lock = Lock()


def _mailbox(size: int, rounds: int) -> tuple[Any, np.uint32]:
    """A buffer for two rounds of packets, and the number of the first round: no number is used twice."""
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
    """The step, and the shares of centre and anchor, with the anchor's quadratic folded into the prox."""
    weight = step * pull
    return step / (1 + weight), 1 / (1 + weight), weight / (1 + weight)


@lru_cache(maxsize=256)
def _sweep_sizes(*sizes: int) -> Any:
    return by_value(np.array(sizes, np.int32))


@lru_cache(maxsize=256)
def _sweep_scalars(steps: Steps, alpha: tuple[float, ...], pull: float) -> Any:
    """`Scalars` of sweep.cu, passed by value."""
    pairs = [value for each in (steps.tau, steps.sigma, alpha) for value in (each[0], each[-1])]
    return by_value(np.array([*pairs, steps.relaxation, *_held(steps.tau[0], pull)], np.float32))


def _plain(problem: Problem, state: State, steps: Steps, count: int) -> None:
    state.own()
    seen, real = problem.observations, state.primal.dtype
    defines = defines_of(kind_of(problem, state.primal))
    primal_pass, dual_pass = (kernel(("prox.cuh", "plain.cu"), name, defines) for name in ("primal_pass", "dual_pass"))
    pad, pull = (1.0,) * (3 - problem.order), problem.prox_weight if problem.prox_centre is not None else 0.0
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
        or_nothing(problem.prox_centre),
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
