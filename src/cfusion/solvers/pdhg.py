"""The convex solve at fixed confidence: primal-dual iterations that end with a certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from cfusion.arrays import TINY
from cfusion.errors import InputError
from cfusion.kernels.contract import Displacement, Energies, Fidelity, Floats, Problem, State
from cfusion.solvers.outcome import Outer, Progress, Report, Solution, Status
from cfusion.solvers.steps import BLOCK, RELAXATION, StepBalancer
from cfusion.solvers.task import BOX_MARGIN, Task

CHECK = BLOCK  # iterations between two evaluations of the energy
REPAIR_ROUNDS = 40  # of the dual, per attempt at a certificate
FIRST_ROUNDS, MOST_ROUNDS = 20, 640  # rounds at a time, and in total, until the dual is feasible or the bound suffices
SETTLED = 0.36  # tolerances: a relative change of the energy below which a certificate is likely
NEARLY_SETTLED = 3.0  # tolerances: a change that will probably fall below it by the next check
UNCHANGED = 0.01  # tolerances: a change of the energy between two checks that counts as none
STALLED = 0.97  # of the previous attempt's gap: the certificate no longer improves
FLOOR = 1e-6  # of the initial energy
FLOOR_ULPS = 2000  # energies below those of a depth error of this many ulps count as zero, times the tolerance of 1e-3
LEAST_WAIT = BLOCK  # iterations between two attempts
DUAL_BOOST = 3.0  # factor on the steps when only the certificate is missing: its dual then moves faster
LAGGING = 100.0  # ratio of gap to change of the energy from which the dual alone is to blame
MAX_BOOSTS = 2  # at most: later proofs would no longer be about the iterate that had settled
BACKOFF, MAX_BACKOFF = 1.1, 2.0  # factor on the iterations before the next attempt: the gap falls with their square


@dataclass(frozen=True)
class PDHG:
    """Primal-dual hybrid gradient; stops when the certified relative duality gap is below the tolerance."""

    tolerance: float = 1e-3
    iterations: int = 3000
    relaxation: float = RELAXATION
    certify: bool = True  # False: stop when the energy settles, for a rough answer
    fixed_steps: bool = False  # near the optimum the displacement does not tell primal from dual imbalance

    def __post_init__(self) -> None:
        check_limits(self.tolerance, self.iterations, "iterations")
        if not 0 < self.relaxation < 2:
            raise InputError(f"relaxation is {self.relaxation}; the iteration converges for 0 < relaxation < 2")

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        confidence = fixed_confidence(task)
        state = task.initial_state()
        outcome = self.minimise(task, task.problem(confidence), state, report)
        return to_solution(
            *(task, state, confidence, outcome.status, (outcome.outer(),), outcome.gap, outcome.energies, None),
            floor=outcome.floor,
        )

    def minimise(
        self,
        task: Task,
        problem: Problem,
        state: State,
        report: Report | None = None,
        stage: str = "depth",
        initial_energy: float | None = None,
        expected_gap: float = float("inf"),
    ) -> Convex:
        """Iterate the state in place until certified, settled, or out of iterations.

        `initial_energy` and `expected_gap` skip a first evaluation and time the first certificate, where the caller
        knows them.
        """
        balancer = StepBalancer(task.backend, task.step_scale, self.relaxation, fixed_steps=self.fixed_steps)
        backend = task.backend
        if not self.certify and initial_energy is None:
            rough = self._rough(task, problem, state, balancer)
            if rough is not None:
                if report:
                    report(Progress(stage, 1.0, rough.gap, rough.energies.total))
                return rough

        def measure(kept: Floats | None, every: int) -> tuple[Energies, Displacement]:
            return backend.measure(problem, state, kept, every)

        if initial_energy is None and self.certify:
            initial_energy = backend.energy(problem, state).total
        before = float("inf") if initial_energy is None else initial_energy  # not needed for a rough answer
        floor, bound, done = 0.0, float("-inf"), 0
        status, last_gap, tried = Status.iteration_limit, expected_gap, False
        attempt_at, quiet, halfway, boosts = 0, SETTLED * self.tolerance, float("inf"), 0
        if expected_gap < float("inf"):
            quiet = self.tolerance
            attempt_at = self._wait(0, expected_gap)
            balancer.step_scale *= DUAL_BOOST
        while done < self.iterations:
            count = min(CHECK, self.iterations - done)
            state.ending |= done + count >= self.iterations
            energies = balancer.run_and(problem, state, count, measure)
            done += count
            now = energies.total
            if not isfinite(now):
                raise InputError(
                    f"the energy exceeds {task.dtype}: alpha is {problem.alpha}; give weights nearer to one another, "
                    "and to those of the data"
                )
            floor = floor or energy_floor(task, problem, energies, now if initial_energy is None else initial_energy)
            change = abs(before - now) / max(now, floor)
            before = now
            halfway = now if 2 * done <= self.iterations else halfway
            if report:
                report(Progress(stage, done / self.iterations, relative_gap(now, bound, floor), now))
            if not self.certify:
                if change <= self.tolerance and done >= 2 * CHECK:
                    status = Status.settled
                    break
                state.ending = change <= NEARLY_SETTLED * self.tolerance
                continue
            if relative_gap(now, bound, floor) <= self.tolerance:  # by an earlier attempt's bound
                status = Status.converged
                break
            if change > quiet or done < attempt_at:
                continue
            bound = max(bound, self._bound(task, problem, state, now, floor))
            gap = relative_gap(now, bound, floor)
            if gap <= self.tolerance:
                status = Status.converged
                break
            if tried and change < self.tolerance * UNCHANGED and gap > STALLED * last_gap:  # neither side improves
                status = Status.settled
                break
            if boosts < MAX_BOOSTS and (last_gap == float("inf") or gap > LAGGING * change):
                balancer.step_scale *= DUAL_BOOST
                boosts += 1
            last_gap, tried = gap, True
            attempt_at = self._wait(done, gap)
        if self.certify and status is Status.iteration_limit:
            bound = max(bound, self._bound(task, problem, state, now, floor))
        gap = relative_gap(energies.total, bound, floor) if self.certify else float("nan")
        if gap <= self.tolerance:
            small = relative_gap(energies.total, bound, TINY) > self.tolerance
            status = Status.at_rounding if small else Status.converged
        elif self._settled(status, change, abs(halfway - energies.total) / max(energies.total, floor)):
            status = Status.settled
        state.release()
        if report:
            report(Progress(stage, 1.0, gap, energies.total))
        return Convex(status, energies, bound, gap, done, balancer.step_scale, floor)

    def advance(self, task: Task, problem: Problem, state: State) -> None:
        """`minimise` without an outcome, so that a device need not be waited for."""
        balancer = StepBalancer(task.backend, task.step_scale, self.relaxation, fixed_steps=self.fixed_steps)
        if self.certify or self._rough(task, problem, state, balancer, asked=False) is None:
            self.minimise(task, problem, state)

    def _rough(
        self, task: Task, problem: Problem, state: State, balancer: StepBalancer, *, asked: bool = True
    ) -> Convex | None:
        """The rough answer of a backend that monitors a solve itself; None if it does not."""
        plan = balancer.plan(problem, state, self.tolerance, floor_parts(task, problem))
        plan = plan if asked else replace(plan, asked=False)
        found = task.backend.iterate(problem, state, balancer.steps(problem), self.iterations, plan)
        if found is None:
            return None
        state.release()
        status, nan = Status.settled if found.settled else Status.iteration_limit, float("nan")
        return Convex(status, found.energies, float("-inf"), nan, found.iterations, found.step_scale, found.floor)

    def _bound(self, task: Task, problem: Problem, state: State, energy: float, floor: float) -> float:
        """A lower bound of the energy, repaired no further than the tolerance requires."""
        enough = energy - self.tolerance * max(energy, floor)
        return task.backend.bound(problem, state, task.box, FIRST_ROUNDS, MOST_ROUNDS, enough)

    def _settled(self, status: Status, change: float, since_halfway: float) -> bool:
        """Whether the second half of the iterations served the proof only: the energy hardly fell in it."""
        ran_out = self.certify and status is Status.iteration_limit
        return ran_out and since_halfway <= self.tolerance and change <= self.tolerance * SETTLED

    def _wait(self, done: int, gap: float) -> int:
        """The number of iterations before the next attempt, from the gap after `done` iterations."""
        left = gap / max(self.tolerance, TINY)
        if left <= 1:
            return done
        return max(int(done * min(max(left**0.5, BACKOFF), MAX_BACKOFF)), done + LEAST_WAIT)


@dataclass(frozen=True)
class Convex:
    """The outcome of one convex solve."""

    status: Status
    energies: Energies
    bound: float
    gap: float
    iterations: int
    step_scale: float  # at the end
    floor: float  # energies below it count as zero

    def gap_of(self, energies: Energies) -> float:
        """The certified gap of another state of the same problem."""
        return relative_gap(energies.total, self.bound, self.floor)

    def outer(self) -> Outer:
        return Outer(self.energies.total, self.gap, self.iterations)


def check_limits(tolerance: float, count: int, what: str) -> None:
    """Check the settings common to iterative solvers."""
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"tolerance is {tolerance}; give a share of the energy, from 0 to 1, such as 1e-3")
    if count != int(count) or count < 1:
        raise InputError(f"{what} is {count}; give a whole number of at least 1")


def relative_gap(energy: float, bound: float, floor: float) -> float:
    """(energy - bound) / max(energy, floor)."""
    return max(energy - bound, 0.0) / max(energy, floor)


def energy_floor(task: Task, problem: Problem, energies: Energies, first: float) -> float:
    """The energy that counts as zero: the larger of 1e-6 of the initial one and that of a depth error of some ulps.

    On a plane without noise the minimum is zero, and the remaining energy is rounding.
    """
    share, for_mass, for_pixel = floor_parts(task, problem)
    return max(share * first, for_mass * energies.mass + for_pixel * energies.pixels, TINY)


def floor_parts(task: Task, problem: Problem) -> tuple[float, float, float]:
    """The floor per unit of the initial energy, per unit of the data's mass, and per pixel."""
    spread = (task.box.high - task.box.low) / (1 + 2 * BOX_MARGIN)
    off = FLOOR_ULPS * float(np.finfo(task.dtype).eps) * spread
    return FLOOR, off**2 / 2 if problem.fidelity is Fidelity.L2 else off, off * sum(problem.alpha)


def fixed_confidence(task: Task) -> Floats:
    """lam within the domain, zero outside; a product, because on a GPU `where` takes twice as long."""
    confidence: Floats = task.inside() * task.dtype.type(task.energy.lam)
    return confidence


def to_solution(
    task: Task,
    state: State,
    confidence: Floats,
    status: Status,
    history: tuple[Outer, ...],
    gap: float,
    energies: Energies,
    prior_value: float | None,
    depth: Floats | None = None,
    floor: float = 0.0,
) -> Solution:
    """The solution on the whole image from depth (if not given), confidence and misfit.

    The solver's gap is relative to max(energy, floor); the reported one is relative to the energy.
    """
    if energies.total < floor and gap > 0:
        gap *= floor / energies.total if energies.total > 0 else float("inf")
    x = state.primal[0]
    misfit = task.backend.misfit(task.problem(confidence), x)
    named = {f"order_{j + 1}": value for j, value in enumerate(energies.regulariser)}
    named |= {"regulariser": sum(energies.regulariser), "fidelity": energies.fidelity}
    total = energies.total - energies.proximal
    if prior_value is not None:
        named["prior"] = prior_value
        total += prior_value
    named["total"] = total
    return Solution(
        depth=task.given_back(task.whole_depth(x)) if depth is None else depth,
        confidence=task.given_back(task.whole(confidence, 0.0)),
        misfit=task.given_back(task.whole(misfit, 0.0)),
        status=status,
        history=history,
        gap=gap,
        energies=named,
        iterations=sum(outer.iterations for outer in history),
    )
