"""Alternate convex search: the confidence in closed form, the depth by a warm-started convex solve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from cfusion.arrays import TINY
from cfusion.kernels.contract import Displacement, Energies, Floats, State
from cfusion.solvers.joint import ConfidenceUpdate
from cfusion.solvers.outcome import Outer, Progress, Report, Solution, Status
from cfusion.solvers.pdhg import PDHG, Convex, check_limits, to_solution
from cfusion.solvers.steps import BLOCK, StepBalancer
from cfusion.solvers.task import Task

ROUGH_STEPS = 40  # at most, before a certified depth step
ROUGH_ABOVE = 10.0  # tolerances: larger changes are made by rough steps
GAP_PER_CHANGE = 20.0  # estimated certified gap after a rough step, over the relative decrease of the energy


@dataclass(frozen=True)
class ACS:
    """lam <- argmin E(x, .), x <- argmin E(., lam), until both steps lower the energy by less than the tolerance.

    At first the depth takes a few iterations between updates of lam; each outer step then ends with a certified depth.
    The energy never rises: a step that would raise it is rejected, and a rejected certified step ends the search.
    """

    inner: PDHG = field(default_factory=PDHG)
    outer: int = 20
    tolerance: float = 1e-4  # of the data term and regulariser

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.outer, "outer")

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        at = _Iterate.start(task)
        balancer = StepBalancer(task.backend, task.step_scale, self.inner.relaxation)
        history: list[Outer] = []
        gap, lowered, status = float("inf"), float("inf"), Status.iteration_limit
        for step in range(self.outer):
            if lowered > ROUGH_ABOVE * self.tolerance * at.energies.total:
                at, gap = self._approach(at, gap, balancer, history)
            here = nested(report, step, self.outer)
            moved, convex = at.certified(self.inner, gap, here)
            iterations, least = convex.iterations, self.tolerance * at.energies.total
            if moved.energy > at.energy + least:  # more precise, before giving the step up
                finer = replace(self.inner, tolerance=self.inner.tolerance / 10)
                moved, convex = at.certified(finer, convex.gap, None, moved.state)
                iterations += convex.iterations
            lowered = at.energy - moved.energy
            gap = convex.gap
            if lowered >= 0:
                at = moved
            else:  # the bound holds for every depth at this confidence, so also for the one that is kept
                gap = convex.gap_of(at.energies)
            history.append(Outer(at.energy, gap, iterations))
            if lowered <= least:
                status = Status.partial_optimum
                break
        known = status, tuple(history), gap, at.energies, at.prior
        return to_solution(task, at.state, at.lam, *known, floor=convex.floor)

    def _approach(
        self, at: _Iterate, gap: float, balancer: StepBalancer, history: list[Outer]
    ) -> tuple[_Iterate, float]:
        """Short depth steps while they pay; and an estimate of the certified gap after them."""
        for _ in range(ROUGH_STEPS):
            moved = at.rough(balancer)
            if moved.energy > at.energy:
                break
            lowered, at = at.energy - moved.energy, moved
            history.append(Outer(at.energy, float("nan"), BLOCK))
            gap = GAP_PER_CHANGE * lowered / max(at.energies.total, TINY)
            if lowered <= self.tolerance * at.energies.total:
                break
        return at, gap


@dataclass(frozen=True, eq=False)
class _Iterate:
    """A depth, the optimal confidence for it, and their energy."""

    task: Task
    side: ConfidenceUpdate
    state: State
    lam: Floats
    energies: Energies
    prior: float

    @property
    def energy(self) -> float:
        return self.energies.total + self.prior

    @staticmethod
    def start(task: Task) -> _Iterate:
        return _Iterate.of(task, ConfidenceUpdate.of(task), task.initial_state())

    @staticmethod
    def of(task: Task, side: ConfidenceUpdate, state: State) -> _Iterate:
        """The iterate of a state, with the optimal confidence for its depth."""
        (lam, prior, energies), _ = _update_confidence(task, side, state, None, 1)
        return _Iterate(task, side, state, lam, energies, prior)

    def rough(self, balancer: StepBalancer) -> _Iterate:
        """The iterate after one block of iterations at this confidence."""
        state = self.state.branch()
        lam, prior, energies = balancer.run_and(
            self.task.problem(self.lam), state, BLOCK, partial(_update_confidence, self.task, self.side, state)
        )
        return _Iterate(self.task, self.side, state, lam, energies, prior)

    def certified(
        self, inner: PDHG, gap: float, report: Report | None, start: State | None = None
    ) -> tuple[_Iterate, Convex]:
        """The iterate after a certified solve at this confidence, from `start` or this depth; `gap` is an estimate."""
        start = start or self.state
        state = start.branch()
        energy = self.energies.total if start is self.state else None
        convex = inner.minimise(
            self.task, self.task.problem(self.lam), state, report, initial_energy=energy, expected_gap=gap
        )
        return _Iterate.of(self.task, self.side, state), convex


def _update_confidence(
    task: Task, side: ConfidenceUpdate, state: State, kept: Floats | None, every: int
) -> tuple[tuple[Floats, float, Energies], Displacement]:
    """The optimal confidence at a state's depth, the prior's value, the energies, and the displacement since `kept`."""
    return task.backend.follow(task.problem(state.primal[0]), state, side.rate, side.strength, kept, every)


def nested(report: Report | None, step: int, steps: int) -> Report | None:
    """A callback that reports one convex solve as a part of the whole."""
    if report is None:
        return None
    outer = report

    def inner(progress: Progress) -> None:
        outer(replace(progress, stage=f"depth and confidence {step + 1}", done=(step + progress.done) / steps))

    return inner
