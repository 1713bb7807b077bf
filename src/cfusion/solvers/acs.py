"""Alternate convex search: the confidence in closed form, then the depth by a warm-started convex solve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from cfusion.kernels.contract import Displacement, Energies, Floats, State
from cfusion.solvers.joint import ConfidenceUpdate
from cfusion.solvers.outcome import Outer, Progress, Report, Solution, Status
from cfusion.solvers.pdhg import PDHG, Convex, check_limits, to_solution
from cfusion.solvers.steps import BLOCK, StepBalancer
from cfusion.solvers.task import Task

ROUGH_STEPS = 40  # at most, before a depth step that is certified
FAR = 10.0  # tolerances: where rough steps pay
GAP_PER_CHANGE = 20.0  # about what the certified gap is after a rough step, in units of the part that it lowered


@dataclass(frozen=True)
class ACS:
    """lam <- argmin E(x, .), x <- argmin E(., lam), until a pair of steps lowers the energy by less than the tolerance.

    On the way there the depth takes a few iterations only before lam follows; each outer step then ends with a depth
    that is certified. The energy never rises: a step that would raise it is rejected, and when that is a certified one
    nothing is left to gain.
    """

    inner: PDHG = field(default_factory=PDHG)
    outer: int = 20
    tolerance: float = 1e-4  # of the data term and regulariser

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.outer, "outer")

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        at = _Iterate.start(task)
        pace = StepBalancer(task.backend, task.step_scale, self.inner.relaxation)
        history: list[Outer] = []
        gap, lowered, status = float("inf"), float("inf"), Status.iteration_limit
        for step in range(self.outer):
            if lowered > FAR * self.tolerance * at.energies.total:
                at, gap = self._approach(at, gap, pace, history)
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
            else:  # the bound holds for every depth at this confidence, also for the one that is kept
                gap = convex.gap_of(at.energies)
            history.append(Outer(at.energy, gap, iterations))
            if lowered <= least:
                status = Status.partial_optimum
                break
        known = status, tuple(history), gap, at.energies, at.prior
        return to_solution(task, at.state, at.lam, *known, floor=convex.floor)

    def _approach(self, at: _Iterate, gap: float, pace: StepBalancer, history: list[Outer]) -> tuple[_Iterate, float]:
        """Short depth steps as long as they pay; and about what the certified gap will be then."""
        for _ in range(ROUGH_STEPS):
            moved = at.rough(pace)
            if moved.energy > at.energy:
                break
            lowered, at = at.energy - moved.energy, moved
            history.append(Outer(at.energy, float("nan"), BLOCK))
            gap = GAP_PER_CHANGE * lowered / max(at.energies.total, 1e-300)
            if lowered <= self.tolerance * at.energies.total:
                break
        return at, gap


@dataclass(frozen=True, eq=False)
class _Iterate:
    """A depth and the confidence that is best for it, with the energy there."""

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
        """Where the confidence follows the depth of a state."""
        (lam, prior, energies), _ = _follow(task, side, state, None, 1)
        return _Iterate(task, side, state, lam, energies, prior)

    def rough(self, pace: StepBalancer) -> _Iterate:
        """After one block of iterations at this confidence."""
        state = self.state.branch()
        lam, prior, energies = pace.run_and(
            self.task.problem(self.lam), state, BLOCK, partial(_follow, self.task, self.side, state)
        )
        return _Iterate(self.task, self.side, state, lam, energies, prior)

    def certified(
        self, inner: PDHG, gap: float, report: Report | None, start: State | None = None
    ) -> tuple[_Iterate, Convex]:
        """After the convex solve at this confidence, from this depth (or another) whose gap is about that."""
        start = start or self.state
        state = start.branch()
        energy = self.energies.total if start is self.state else None
        convex = inner.minimise(
            self.task, self.task.problem(self.lam), state, report, initial_energy=energy, expected_gap=gap
        )
        return _Iterate.of(self.task, self.side, state), convex


def _follow(
    task: Task, side: ConfidenceUpdate, state: State, kept: Floats | None, every: int
) -> tuple[tuple[Floats, float, Energies], Displacement]:
    """The confidence that is best at a state's depth, the prior's value there, the energies, and the ways come."""
    return task.backend.follow(task.problem(state.primal[0]), state, side.rate, side.strength, kept, every)


def nested(report: Report | None, step: int, steps: int) -> Report | None:
    """Progress of one convex solve as a part of the whole."""
    if report is None:
        return None
    outer = report

    def inner(progress: Progress) -> None:
        outer(replace(progress, stage=f"depth and confidence {step + 1}", done=(step + progress.done) / steps))

    return inner
