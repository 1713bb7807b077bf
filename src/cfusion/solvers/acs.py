"""Alternate convex search: the confidence in closed form, then the depth by a warm-started convex solve."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cfusion.kernels.contract import State
from cfusion.solvers.joint import ConfidenceSide
from cfusion.solvers.outcome import Outer, Progress, Report, Solution, Status
from cfusion.solvers.pdhg import PDHG, check_limits, finish
from cfusion.solvers.task import Task


@dataclass(frozen=True)
class ACS:
    """lam <- argmin E(x, .), x <- argmin E(., lam), until a pair of steps lowers the energy by less than the tolerance.

    The energy never rises: a depth step that would raise it is rejected, and then nothing is left to gain.
    """

    inner: PDHG = field(default_factory=PDHG)
    outer: int = 20
    tolerance: float = 1e-4  # of the data term and regulariser

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.outer, "outer")

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        side = ConfidenceSide.of(task)
        state = task.initial_state()
        backend = task.backend
        lam = side.best(backend.misfit(task.problem(state.primal[0]), state.primal[0]))
        energies = backend.energy(task.problem(lam), state)
        energy = energies.total + side.value(lam)
        history: list[Outer] = []
        gap, status = float("nan"), Status.iteration_limit
        for step in range(self.outer):
            kept = State(state.primal.copy(), state.dual.copy())
            problem = task.problem(lam)
            convex = self.inner.minimise(task, problem, state, nested(report, step, self.outer))
            iterations = convex.iterations
            if convex.energies.total > energies.total:  # more precise, before giving the step up
                finer = replace(self.inner, tolerance=self.inner.tolerance / 10)
                convex = finer.minimise(task, problem, state)
                iterations += convex.iterations
            gap = convex.gap
            if convex.energies.total > energies.total:
                state = kept
                history.append(Outer(energy, gap, iterations))
                status = Status.partial_optimum
                break
            lam = side.best(backend.misfit(problem, state.primal[0]))
            energies = backend.energy(task.problem(lam), state)
            lowered, energy = energy, energies.total + side.value(lam)
            history.append(Outer(energy, gap, iterations))
            if lowered - energy <= self.tolerance * energies.total:
                status = Status.partial_optimum
                break
        return finish(task, state, lam, status, tuple(history), gap, energies, side.value(lam))


def nested(report: Report | None, step: int, steps: int) -> Report | None:
    """Progress of one convex solve as a part of the whole."""
    if report is None:
        return None
    outer = report

    def inner(progress: Progress) -> None:
        outer(replace(progress, stage=f"depth and confidence {step + 1}", done=(step + progress.done) / steps))

    return inner
