"""The paper's single-loop PDHG for the biconvex problem: one confidence step and one primal-dual iteration in turn."""

from dataclasses import dataclass

import numpy as np

from cfusion.solvers.joint import ConfidenceUpdate, mean_of
from cfusion.solvers.outcome import Outer, Progress, Report, Solution, Status
from cfusion.solvers.pdhg import REPAIR_ROUNDS, check_limits, energy_floor, relative_gap, to_solution
from cfusion.solvers.steps import choose_steps
from cfusion.solvers.task import Task


@dataclass(frozen=True)
class Biconvex:
    """Confidence and depth are updated together; convergence is not proved, so the result is tested.

    The confidence step tau_lam = (mean lam)^2 / mean b is updated with lam; the data term's prox is exact for any lam,
    so the depth's steps need no bound on it. The iteration is plain PDHG (no over-relaxation), as in the paper.
    """

    tolerance: float = 1e-4
    iterations: int = 1000
    block: int = 25  # iterations between two entries of the history

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.iterations, "iterations")
        check_limits(self.tolerance, self.block, "block")

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        side = ConfidenceUpdate.of(task)
        backend, inside = task.backend, task.inside()
        state = task.initial_state()
        lam = side.best(backend.misfit(task.problem(state.primal[0]), state.primal[0]))
        problem = task.problem(lam)
        steps = choose_steps(problem.alpha, task.step_scale, relaxation=1.0)
        history: list[Outer] = []
        status, done, before = Status.iteration_limit, 0, np.inf
        energies = backend.energy(problem, state)
        first = energies.total
        while done < self.iterations:
            count = min(self.block, self.iterations - done)
            for _ in range(count):
                nu = mean_of(lam, inside) ** 2 / mean_of(side.strength, inside)
                lam = side.near(lam, backend.misfit(problem, state.primal[0]), nu)
                problem = task.problem(lam)
                backend.iterate(problem, state, steps, 1)
            done += count
            energies = backend.energy(problem, state)
            energy = energies.total + side.value(lam)
            history.append(Outer(energy, float("nan"), count))
            if report:
                report(Progress("depth and confidence together", done / self.iterations, float("nan"), energy))
            if abs(before - energy) <= self.tolerance * energies.total:
                status = Status.partial_optimum
                break
            before = energy
        bound = backend.bound(problem, state, task.box, REPAIR_ROUNDS)
        floor = energy_floor(task, problem, energies, first)
        gap = relative_gap(energies.total, bound, floor)
        return to_solution(task, state, lam, status, tuple(history), gap, energies, side.value(lam), floor=floor)
