"""Alternate minimisation: ACS with proximal terms that keep each step short, and a schedule that weakens them."""

from dataclasses import dataclass, field
from math import sqrt

from cfusion.errors import InputError
from cfusion.solvers.acs import nested
from cfusion.solvers.joint import ConfidenceUpdate
from cfusion.solvers.outcome import Outer, Report, Solution, Status
from cfusion.solvers.pdhg import PDHG, check_limits, to_solution
from cfusion.solvers.task import Task


@dataclass(frozen=True)
class AMA:
    """lam <- argmin E(x, .) + |. - lam|^2 / (2 nu), x <- argmin E(., lam) + |. - x|^2 / (2 mu); mu and nu grow.

    mu = None starts at 1 / sqrt(N), where the joint step is convex (the paper's remark, with its inequality corrected);
    `growth` per step then approaches ACS.
    """

    inner: PDHG = field(default_factory=PDHG)
    outer: int = 30
    tolerance: float = 1e-4
    mu: float | None = None
    nu: float = 1.0
    growth: float = 3.0

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.outer, "outer")
        if not (self.nu > 0 and (self.mu is None or self.mu > 0) and self.growth >= 1):
            raise InputError(
                f"mu = {self.mu}, nu = {self.nu}, growth = {self.growth}: give positive values, growth >= 1"
            )

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        side = ConfidenceUpdate.of(task)
        backend = task.backend
        state = task.initial_state()
        mu = self.mu or 1 / sqrt(int(task.inside().sum()))
        nu = self.nu
        lam = side.best(backend.misfit(task.problem(state.primal[0]), state.primal[0]))
        energies = backend.energy(task.problem(lam), state)
        energy = energies.total + side.value(lam)
        history: list[Outer] = []
        gap, status = float("nan"), Status.iteration_limit
        for step in range(self.outer):
            lam = side.near(lam, backend.misfit(task.problem(lam), state.primal[0]), nu)
            problem = task.problem(lam, prox_centre=state.primal[0].copy(), prox_weight=1 / mu)
            convex = self.inner.minimise(task, problem, state, nested(report, step, self.outer))
            gap = convex.gap
            energies = backend.energy(task.problem(lam), state)
            lowered, energy = energy, energies.total + side.value(lam)
            history.append(Outer(energy, gap, convex.iterations))
            mu, nu = mu * self.growth, nu * self.growth
            # the proximal terms keep early steps short, so a small change there proves nothing
            loose = convex.energies.proximal <= self.tolerance * energies.total
            if step and loose and abs(lowered - energy) <= self.tolerance * energies.total:
                status = Status.partial_optimum
                break
        return to_solution(task, state, lam, status, tuple(history), gap, energies, side.value(lam), floor=convex.floor)
