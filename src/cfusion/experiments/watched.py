"""A backend that records energy and certified gap of a solver against iterations and seconds."""

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

from cfusion.kernels.contract import Backend, Problem, State, Steps
from cfusion.solvers.joint import ConfidenceUpdate
from cfusion.solvers.pdhg import REPAIR_ROUNDS, energy_floor, relative_gap
from cfusion.solvers.task import Task

GROWTH = 1.15  # ratio of iteration numbers between consecutive points
FIRST = 12


@dataclass(frozen=True)
class Point:
    """A point of the trace."""

    iterations: int
    seconds: float
    energy: float
    gap: float


@dataclass(eq=False)
class Watched:
    """Forwards everything to a backend; the time spent recording is not counted."""

    backend: Backend
    NAME: str = "watched"
    task: Task | None = None  # set by `watch`
    points: list[Point] = field(default_factory=list)
    _done: int = 0
    _next: float = 0.0
    _began: float = field(default_factory=time.perf_counter)
    _looking: float = 0.0
    _first: float = 0.0

    def __getattr__(self, name: str) -> Any:
        """Everything but iterations is forwarded."""
        return getattr(self.backend, name)

    def watch(self, task: Task) -> Task:
        """The task, solved with recording from now on."""
        self.task = replace(task, backend=cast("Backend", self))
        self._began = time.perf_counter()
        return self.task

    def iterate(self, problem: Problem, state: State, steps: Steps, count: int) -> None:
        if not self.points:
            self.look(problem, state)
        self.backend.iterate(problem, state, steps, count)
        self._done += count
        if self._done >= self._next:
            self.look(problem, state)

    def count(self, iterations: int, problem: Problem, state: State) -> None:
        """Count iterations that were made without this backend."""
        self._done += iterations
        if self._done >= self._next:
            self.look(problem, state)

    def look(self, problem: Problem, state: State) -> None:
        """Add a point: joint energy at this depth and confidence, gap of the convex problem at this confidence."""
        assert self.task is not None
        began = time.perf_counter()
        plain = replace(problem, prox_centre=None, prox_weight=0.0)  # the energy without a proximal term
        energies = self.backend.energy(plain, state)
        convex = energies.total
        self._first = self._first or convex
        bound = self.backend.bound(plain, state, self.task.box, REPAIR_ROUNDS)
        gap = relative_gap(convex, bound, energy_floor(self.task, plain, energies, self._first))
        energy = convex
        if self.task.energy.prior is not None:
            energy += ConfidenceUpdate.of(self.task).value(problem.confidence)
        self.points.append(Point(self._done, began - self._began - self._looking, energy, gap))
        self._next = max(self._done + FIRST, GROWTH * self._done)
        self._looking += time.perf_counter() - began
