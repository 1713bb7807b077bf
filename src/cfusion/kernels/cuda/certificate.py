"""The lower bound of `cfusion.kernels.numpy.certificate`, on the device."""

from functools import cache
from math import sqrt
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Box, Floats, Problem, State
from cfusion.kernels.cuda.device import Desk, blocks_of, desk, kernel, multiprocessors, or_nothing, shared_memory
from cfusion.kernels.cuda.sums import THREADS, defines_of, kind_of
from cfusion.kernels.numpy.certificate import is_last
from cfusion.kernels.numpy.iteration import level_dual

SOURCES = ("prox.cuh", "reduce.cuh", "certificate.cu")
ROOM_ROWS, ROOM_COLUMNS, REPAIR_THREADS = 64, 64, 1024  # of a tile with its surroundings, at most
MOMENTA = 640  # number of precomputed momenta
STEPS_AT_ONCE = 3  # repair steps between two exchanges, if shared memory allows


def bound(problem: Problem, state: State, box: Box, rounds: int, most: int = 0, enough: float = float("inf")) -> float:
    """As `Backend.bound`."""
    repair, best = _Repair(problem, state), float("-inf")
    while True:
        repair.run(rounds)
        found, factor = _evaluated(problem, repair.top, box)
        best = max(best, found)
        if best >= enough or is_last(factor, repair.done, rounds, most, enough):
            return best


def _evaluated(problem: Problem, top: Floats, box: Box) -> tuple[float, float]:
    """The bound of a top dual, and the factor by which it had to be scaled."""
    slopes, factors = _descended(problem, top)
    seen, pixels = problem.observations, problem.links.size
    sums = desk()
    kernel(SOURCES, "pixel_bounds", _defines(problem, top))(
        (Desk.BLOCKS,),
        (Desk.THREADS,),
        (
            slopes,
            factors,
            np.int32(factors.size),
            seen.values,
            or_nothing(seen.weights),
            seen.total,
            or_nothing(seen.scatter),
            problem.confidence,
            problem.links,
            or_nothing(problem.prox_centre),
            np.float64(problem.prox_weight),
            np.float64(problem.delta),
            np.float64(box.low),
            np.float64(box.high),
            np.int32(seen.values.shape[0]),
            np.uint64(pixels),
            sums.argument,
        ),
    )
    found, factor = sums.read(2)
    return found, factor


class _Repair:
    """The accelerated projected-gradient steps on the top dual, run in batches."""

    def __init__(self, problem: Problem, state: State) -> None:
        top = state.dual[level_dual(problem.order - 1)]
        self.problem = problem
        self.ahead, self.before = cupy.empty((2, 2, *top.shape), top.dtype)
        self.done, self.turn = 0, 0
        kernel(SOURCES, "project", _defines(problem, top))(
            (blocks_of(problem.links.size, THREADS),),
            (THREADS,),
            (
                top,
                self.ahead,
                self.before,
                or_nothing(problem.edge),
                *_limits(problem, top),
                np.uint64(problem.links.size),
            ),
        )

    @property
    def top(self) -> Floats:
        """The current top dual."""
        found: Floats = self.before[self.turn % 2]
        return found

    def run(self, rounds: int) -> None:
        """Run `rounds` more steps."""
        if rounds == 0:
            return
        problem, top = self.problem, self.top
        height, width = problem.links.shape
        rows, at_once, shared = _room(problem.order, top.dtype.itemsize)
        margin, exchanges = problem.order * at_once, blocks_of(rounds, at_once)
        tiles = blocks_of(height, rows - 2 * margin) * blocks_of(width, ROOM_COLUMNS - 2 * margin)
        blocks = min(tiles, multiprocessors())  # all blocks have to run at the same time
        known = MOMENTA * blocks_of(self.done + rounds, MOMENTA)
        kernel(SOURCES, "repair", _defines(problem, top), cooperative=True)(
            (blocks,),
            (REPAIR_THREADS,),
            (
                self.ahead,
                self.before,
                _momenta(known, top.dtype.name, cupy.cuda.runtime.getDevice())[self.done :],
                problem.links,
                problem.confidence,
                problem.observations.total,
                or_nothing(problem.edge),
                or_nothing(problem.tensor),
                *_limits(problem, top),
                np.int32(rounds),
                np.int32(self.turn),
                np.int32(height),
                np.int32(width),
                desk().gate,
                desk().pass_gate(exchanges * blocks),
            ),
            shared_mem=shared,
        )
        self.done += rounds
        self.turn += exchanges


@cache
def _room(order: int, itemsize: int) -> tuple[int, int, int]:
    """Rows of a room, steps at once in it, and its bytes of shared memory."""
    planes = (order + 1) * (order + 2) // 2
    a_row, beyond = ROOM_COLUMNS * planes * itemsize, (planes + 1) * (ROOM_COLUMNS + 1) * itemsize
    rows = min(ROOM_ROWS, (shared_memory() - beyond) // a_row)
    at_once = STEPS_AT_ONCE if rows >= 10 * order * STEPS_AT_ONCE else 1
    return rows, at_once, rows * a_row + beyond


def _descended(problem: Problem, top: Floats) -> tuple[Floats, Floats]:
    """The slope g of every pixel, and the factors that bring the lower duals into their balls, in double precision."""
    height, width = problem.links.shape
    factors = cupy.empty((problem.order, Desk.BLOCKS))
    upper: Any = None
    for order in range(problem.order, 0, -1):
        lower = cupy.empty((order, height, width))
        kernel(SOURCES, "descend", _defines(problem, top))(
            (Desk.BLOCKS,),
            (Desk.THREADS,),
            (
                top,
                or_nothing(upper),
                lower,
                np.int32(order),
                problem.links,
                or_nothing(problem.edge),
                or_nothing(problem.tensor),
                *_limits(problem, top),
                np.int32(height),
                np.int32(width),
                factors[order - 1],
            ),
        )
        upper = lower
    return upper, factors


def _defines(problem: Problem, top: Floats) -> tuple[str, ...]:
    return with_room(kind_of(problem, top), top.dtype.itemsize)


@cache
def with_room(kind: tuple[Any, ...], itemsize: int) -> tuple[str, ...]:
    """The macros for which these kernels are compiled."""
    rows, at_once, _ = _room(kind[1], itemsize)
    room = (f"ROOM_ROWS={rows}", f"ROOM_COLUMNS={ROOM_COLUMNS}", f"THREADS={REPAIR_THREADS}", f"AT_ONCE={at_once}")
    return (*defines_of(kind), *room)


def _limits(problem: Problem, top: Floats) -> list[Any]:
    """alpha of the three orders, as kernel arguments."""
    return [top.dtype.type(alpha) for alpha in (*problem.alpha, 1.0, 1.0)[:3]]


@cache
def _momenta(rounds: int, real: str, device: int) -> Floats:
    """(t - 1) / t' of every step, with t' = (1 + sqrt(1 + 4 t^2)) / 2 the next t."""
    momenta, t = [], 1.0
    for _ in range(rounds):
        following = (1 + sqrt(1 + 4 * t * t)) / 2
        momenta.append((t - 1) / following)
        t = following
    out: Floats = cupy.asarray(momenta, real)
    cupy.cuda.get_current_stream().synchronize()  # other streams will read it too
    return out
