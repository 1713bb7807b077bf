"""Step sizes from the orders and the noise scale of the data.

With columns scaled by 2^-j and rows by 2^j, the operator (E_1 x - v, E_2 v - w, E_3 w) has norm at most L, the norm
of the small matrix with sqrt(8) on the diagonal and 1/2 above it. tau_j = 4^-j s / L and sigma_j = 4^j / (s L) then
satisfy the condition |Sigma^(1/2) K T^(1/2)| <= 1 for every s > 0; s only shifts work between primal and dual, and
has the unit of depth. For noisy data the noise determines s well enough. Otherwise (data without noise, heavy
smoothing) the iterates do: with a good s, the displacements of primal and dual from the start, scaled as above, have
a ratio of 0.5 s to 5 s, measured on smooth and planar scenes with noise from none to heavy; outside that range s
follows the ratio. (x alone is not enough: on a plane without noise only v has to move.)
"""

from collections.abc import Callable
from functools import cache, lru_cache
from math import sqrt
from typing import Any, TypeVar

import numpy as np

from cfusion.kernels.contract import Backend, Displacement, Fidelity, Problem, Settling, State, Steps

Found = TypeVar("Found")

RELAXATION = 1.7
SAMPLED = 32
BLOCK = 24  # iterations between two checks of the balance
SHORTEST, USUAL, LONGEST = 0.5, 2.0, 5.0  # displacement of the primal over that of the dual, in units of s
L2_SHARE, L2_LONGEST = 0.4, 12.0  # for squared errors: factor on s, and longest ratio; a quarter fewer iterations
LARGEST_CORRECTION, MAX_CHECKS = 64.0, 12
STEP_PER_NOISE = (
    0.4  # measured on smooth and planar scenes: 0.16 to 0.64 are within 1.5x of one another; larger helps the bound
)


@cache
def norm_bound(order: int) -> float:
    """L for a TGV of that order."""
    return float(np.linalg.norm(sqrt(8) * np.eye(order) + 0.5 * np.eye(order, k=1), 2))


@lru_cache(maxsize=64)
def choose_steps(alpha: tuple[float, ...], noise: float, relaxation: float = RELAXATION) -> Steps:
    """Steps for a start whose pixels are wrong by about `noise`."""
    order = len(alpha)
    norm = norm_bound(order)
    s = STEP_PER_NOISE * noise / alpha[0]
    return Steps(
        tau=tuple(4.0**-j * s / norm for j in range(order)),
        sigma=tuple(4.0**j / (s * norm) for j in range(order)),
        relaxation=relaxation,
    )


class StepBalancer:
    """Runs iterations with self-correcting steps."""

    def __init__(
        self, backend: Backend, step_scale: float, relaxation: float = RELAXATION, *, fixed_steps: bool = False
    ) -> None:
        self.backend = backend
        self.step_scale = step_scale
        self.relaxation = relaxation
        self.checks = MAX_CHECKS if fixed_steps else 0
        self._start: Any = None

    def plan(self, problem: Problem, state: State, tolerance: float, floor: tuple[float, float, float]) -> Settling:
        """The settings of a solve with the same steps that a backend monitors itself."""
        squared = problem.fidelity is Fidelity.L2
        return Settling(
            tolerance=tolerance,
            block=BLOCK,
            step_scale=self.step_scale,
            per_scale=STEP_PER_NOISE * _share(problem) / problem.alpha[0],
            norm=norm_bound(problem.order),
            ways=(SHORTEST, USUAL, L2_LONGEST if squared else LONGEST),
            correction=LARGEST_CORRECTION,
            checks=MAX_CHECKS - self.checks,
            every=_every(state),
            floor=floor,
        )

    def steps(self, problem: Problem) -> Steps:
        """The current steps."""
        return choose_steps(problem.alpha, _share(problem) * self.step_scale, self.relaxation)

    def run_and(
        self, problem: Problem, state: State, count: int, measure: Callable[[Any, int], tuple[Found, Displacement]]
    ) -> Found:
        """Run `count` iterations in place, in blocks that end with a check of the balance; return what
        `measure(kept, stride)` computes after the last block."""
        done = 0
        while True:
            block = min(BLOCK, count - done)
            watching = self.checks < MAX_CHECKS and block == BLOCK
            if watching and self._start is None:
                self._start = self.backend.snapshot_rows(state, _every(state))
            self.backend.iterate(problem, state, self.steps(problem), block)
            done += block
            kept, every = self._start if watching else None, _every(state)
            if done < count:
                _, ways = self.backend.measure(problem, state, kept, every)
            else:
                found, ways = measure(kept, every)
            if watching:
                self._balance(problem, *ways)
            if done >= count:
                return found

    def _balance(self, problem: Problem, primal: list[float], dual: list[float]) -> None:
        of_primal, of_dual = _plane_scales(problem.order)
        moved, pushed = _length(primal, of_primal), _length(dual, of_dual)
        if moved == 0 and pushed == 0:
            return
        self.checks += 1
        s = STEP_PER_NOISE * _share(problem) * self.step_scale / problem.alpha[0]
        way = moved / pushed / s if pushed > 0 else float("inf")
        if not SHORTEST < way < (L2_LONGEST if problem.fidelity is Fidelity.L2 else LONGEST):
            self.step_scale *= min(max(way / USUAL, 1 / LARGEST_CORRECTION), LARGEST_CORRECTION)


def _share(problem: Problem) -> float:
    return L2_SHARE if problem.fidelity is Fidelity.L2 else 1.0


def _every(state: State) -> int:
    """The row stride of snapshots: SAMPLED rows suffice to measure displacement, and save memory."""
    return SAMPLED if state.primal.shape[1] >= 4 * SAMPLED else 1


@cache
def _plane_scales(order: int) -> tuple[list[float], list[float]]:
    """The squared scales of the planes of primal and dual for which the scaled operator is bounded."""
    primal = [4.0**level for level in range(order) for _ in range(level + 1)]
    return primal, [0.25**level for level in range(order) for _ in range(level + 2)]


def _length(squares: list[float], scales: list[float]) -> float:
    """The norm of planes with these sums of squares."""
    return sqrt(sum(scale * square for scale, square in zip(scales, squares, strict=True)))
