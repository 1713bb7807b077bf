"""The entry point: minimise an energy of a stack with a solver."""

from __future__ import annotations

from typing import Protocol

from cfusion.energy import Energy
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend
from cfusion.solvers.outcome import Report, Solution
from cfusion.solvers.task import Task, prepare


class Solver(Protocol):
    """Frozen settings, callable on a task."""

    def __call__(self, task: Task, report: Report | None = None) -> Solution: ...


def solve(
    energy: Energy,
    stack: Stack,
    solver: Solver,
    *,
    backend: Backend,
    fill_radius: int = 0,
    report: Report | None = None,
) -> Solution:
    """Minimise the energy of a weighted stack; the regulariser bridges holes up to `fill_radius` pixels."""
    return solver(prepare(energy, stack, backend, fill_radius), report)
