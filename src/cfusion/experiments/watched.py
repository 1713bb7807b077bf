"""A backend that keeps a record of where a solver is: energy and certified gap against iterations and seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from cfusion.kernels.contract import (
    Backend,
    Box,
    Energies,
    Fidelity,
    Floats,
    Observations,
    Problem,
    State,
    Steps,
    Ways,
)
from cfusion.solvers.joint import ConfidenceSide
from cfusion.solvers.pdhg import REPAIR_ROUNDS, least_told_apart, relative_gap
from cfusion.solvers.task import Task

GROWTH = 1.15  # iterations between two points of the trace grow with their number
FIRST = 12


@dataclass(frozen=True)
class Point:
    """Where the solver was."""

    iterations: int
    seconds: float
    energy: float
    gap: float


@dataclass(eq=False)
class Watched:
    """Passes everything on to a backend; the time spent looking is not counted."""

    backend: Backend
    NAME: str = "watched"
    task: Task | None = None  # known once prepared
    points: list[Point] = field(default_factory=list)
    _done: int = 0
    _next: float = 0.0
    _began: float = field(default_factory=time.perf_counter)
    _looking: float = 0.0
    _first: float = 0.0

    def watch(self, task: Task) -> Task:
        """The task as solved under observation; the clock starts now."""
        self.task = replace(task, backend=self)
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
        """Take note of iterations that were not made through this backend."""
        self._done += iterations
        if self._done >= self._next:
            self.look(problem, state)

    def look(self, problem: Problem, state: State) -> None:
        """Add a point: the joint energy at this depth and confidence, the gap of the convex problem at the latter."""
        assert self.task is not None
        began = time.perf_counter()
        plain = replace(problem, anchor=None, pull=0.0)  # the energy itself, without a proximal term
        convex = self.backend.energy(plain, state).total
        self._first = self._first or convex
        bound = self.backend.bound(plain, state, self.task.box, REPAIR_ROUNDS)
        gap = relative_gap(convex, bound, least_told_apart(self.task, plain, self._first))
        energy = convex
        if self.task.energy.prior is not None:
            energy += ConfidenceSide.of(self.task).value(problem.confidence)
        self.points.append(Point(self._done, began - self._began - self._looking, energy, gap))
        self._next = max(self._done + FIRST, GROWTH * self._done)
        self._looking += time.perf_counter() - began

    @property
    def arrays(self) -> Any:
        return self.backend.arrays

    def to_device(self, array: Any, dtype: Any) -> Any:
        return self.backend.to_device(array, dtype)

    def to_host(self, array: Any) -> Any:
        return self.backend.to_host(array)

    def stacked(self, maps: Sequence[Any]) -> Any:
        return self.backend.stacked(maps)

    def links_of(self, domain: Any, /) -> Any:
        return self.backend.links_of(domain)

    def counts(self, depths: Floats, weights: Floats | None, /) -> Any:
        return self.backend.counts(depths, weights)

    def window_of(self, domain: Any, /) -> tuple[slice, slice] | None:
        return self.backend.window_of(domain)

    def range_of(self, depths: Floats, weights: Floats | None, /) -> tuple[float, float]:
        return self.backend.range_of(depths, weights)

    def survey(self, seen: Observations, start: Floats, median: Floats, count: Any, /) -> list[float]:
        return self.backend.survey(seen, start, median, count)

    def weight_of_data(self, problem: Problem, /) -> tuple[float, float]:
        return self.backend.weight_of_data(problem)

    def begin(self, start: Floats, links: Any, order: int, /) -> State:
        return self.backend.begin(start, links, order)

    def carry(self, median: Floats, observed: Any, inside: Any, /) -> Floats:
        return self.backend.carry(median, observed, inside)

    def trust_locally(self, depths: Floats, weights: Floats | None, depth: Floats, /) -> Floats:
        return self.backend.trust_locally(depths, weights, depth)

    def gain(self, x: Floats, other: Floats, held: Floats, weights: Floats, /) -> tuple[float, float]:
        return self.backend.gain(x, other, held, weights)

    def medians(self, rows: Floats, /) -> tuple[list[float], list[int]]:
        return self.backend.medians(rows)

    def quantiles(self, values: Floats, probabilities: Sequence[float], /) -> list[float]:
        return self.backend.quantiles(values, probabilities)

    def foresee(self, shape: tuple[int, int], order: int, fidelity: Fidelity) -> None:
        self.backend.foresee(shape, order, fidelity)

    def lane(self) -> AbstractContextManager[Any]:
        return self.backend.lane()

    def order_observations(
        self, depths: Floats, weights: Floats | None, fidelity: Fidelity
    ) -> tuple[Observations, Floats]:
        return self.backend.order_observations(depths, weights, fidelity)

    def energy(self, problem: Problem, state: State) -> Energies:
        return self.backend.energy(problem, state)

    def bound(self, problem: Problem, state: State, box: Box, rounds: int) -> float:
        return self.backend.bound(problem, state, box, rounds)

    def sample(self, state: State, every: int) -> Floats:
        return self.backend.sample(state, every)

    def travelled(self, kept: Floats, state: State, every: int) -> Ways:
        return self.backend.travelled(kept, state, every)

    def measure(self, problem: Problem, state: State, kept: Floats | None, every: int) -> tuple[Energies, Ways]:
        return self.backend.measure(problem, state, kept, every)

    def follow(
        self, problem: Problem, state: State, rate: Floats, strength: Floats, kept: Floats | None, every: int
    ) -> tuple[tuple[Floats, float, Energies], Ways]:
        return self.backend.follow(problem, state, rate, strength, kept, every)

    def misfit(self, problem: Problem, x: Floats) -> Floats:
        return self.backend.misfit(problem, x)

    def middle(self, observations: Observations) -> Floats:
        return self.backend.middle(observations)

    def reproject(
        self, depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats
    ) -> tuple[Floats, Floats, Floats]:
        return self.backend.reproject(depth, camera, onto, onto_from_view)

    def cosines(self, depths: Floats, camera: Floats) -> Floats:
        return self.backend.cosines(depths, camera)

    def adapt(self, problem: Problem, x: Floats, rate: Floats, strength: Floats) -> tuple[Floats, float]:
        return self.backend.adapt(problem, x, rate, strength)

    def splat_nearest(self, u: Any, v: Any, z: Any, values: Any, shape: tuple[int, int], /) -> tuple[Any, Any]:
        return self.backend.splat_nearest(u, v, z, values, shape)

    def close_mask(self, mask: Any, radius: int, /) -> Any:
        return self.backend.close_mask(mask, radius)

    def fill_natural(self, depth: Any, region: Any, /) -> Any:
        return self.backend.fill_natural(depth, region)

    def pull(
        self,
        x: Floats,
        reference_camera: Floats,
        view_camera: Floats,
        view_from_reference: Floats,
        depth: Floats,
        confidence: Floats,
        agreement: Any,
    ) -> tuple[Floats, Floats, Floats]:
        return self.backend.pull(x, reference_camera, view_camera, view_from_reference, depth, confidence, agreement)

    def gate(
        self,
        depths: Any,
        weights: Any,
        surface: Any,
        limits: Sequence[float],
        seen: Any,
        reference: int,
        holes: bool,
        /,
    ) -> None:
        self.backend.gate(depths, weights, surface, limits, seen, reference, holes)

    def local_slope(self, surface: Floats, /) -> Floats:
        return self.backend.local_slope(surface)

    def soften(self, weights: Any, steep: Any, noise: Sequence[float], reference: int, least: float, /) -> None:
        self.backend.soften(weights, steep, noise, reference, least)
