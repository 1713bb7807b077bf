"""One fit of `auto`: the convex solve with given choices, from a warm start, and interpolation of holes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.holes import fill_within_surfaces
from cfusion.auto.noise import local_weights
from cfusion.auto.settings import Choices
from cfusion.auto.surface import AROUND
from cfusion.auto.variable import Weighing
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.contract import Floats, Mask, State
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import neighbour
from cfusion.solvers import PDHG, Report, Solution, WarmStart
from cfusion.solvers.pdhg import Convex, fixed_confidence, to_solution
from cfusion.solvers.task import Task, prepare

ROUGH = PDHG(tolerance=2e-4, iterations=480, certify=False)  # chooses like 1e-5; 5e-4 not always
FAR = 10.0  # noise scales: a pixel that is further from all around it and from the surface is an outlier

EDGE_STEPS = 10.0  # factor on the steps with edge weights: 1 and 0.1 do not converge within 3000 iterations on 7-Scenes


@dataclass(frozen=True, eq=False)
class Fit:
    """A surface, and the final state of its solve."""

    depth: Floats  # (H, W) with holes within one surface interpolated
    task: Task
    state: State
    outcome: Convex
    edges: Floats | None = None  # (H, W) as `edge_weights` gives them, where the fit spares edges

    @property
    def end(self) -> WarmStart:
        """A start for the next fit of similar observations."""
        return WarmStart.of(self.task, self.state)

    def solution(self) -> Solution:
        """The certified solution."""
        task, outcome = self.task, self.outcome
        history = (outcome.outer(),)
        return to_solution(
            task,
            self.state,
            fixed_confidence(task),
            outcome.status,
            history,
            outcome.gap,
            outcome.energies,
            None,
            self.depth,
            outcome.floor,
        )


def fit(
    task: Task,
    choices: Choices,
    solver: PDHG,
    fill_radius: int,
    start: WarmStart | None = None,
    report: Report | None = None,
    edges: Floats | None = None,
    weighing: Weighing | None = None,
) -> Fit:
    """Solve a task of the same observations with these choices; `edges` (H, W) as from `edge_weights`."""
    energy, stack = energy_of(choices, task.energy.lam), task.stack
    if weighing is not None and choices.noise_growth is not None:
        weighing = replace(weighing, growth=DepthNoise.of(choices.noise_growth))
        stack = weighing(stack.in_memory_of(task.backend), inverse=choices.inverse)
    same = stack is task.stack and energy.inverse == task.energy.inverse
    ready = task.with_energy(energy) if same else prepare(energy, stack, task.backend)
    edges = edges if choices.edges else None
    ready = ready.with_edges(edges)
    state = start.transfer(ready) if start else ready.initial_state(_without_specks(ready, weighing))
    confidence = fixed_confidence(ready)
    if choices.local:
        advance(ROUGH, ready, confidence, state)
        weighed = local_weights(stack, depth_of(ready, state), task.backend)
        ready = prepare(energy, weighed, task.backend).with_edges(edges)
    paced = ready if edges is None else replace(ready, step_scale=EDGE_STEPS * ready.step_scale)
    outcome = solver.minimise(paced, paced.problem(confidence), state, report)
    growth = weighing.growth if stack is not task.stack and weighing is not None else None
    return Fit(fill_within_surfaces(ready, state, fill_radius, growth), ready, state, outcome, edges)


def _without_specks(task: Task, weighing: Weighing | None) -> Floats | None:
    """The median of the observations, but for single pixels far from all around them and from the surface: there, that.

    A solve moves a pixel by a noise scale or so in each iteration, and ends before an outlier is where it belongs.
    """
    if weighing is None or weighing.noise is None or task.stack.views == 1:  # whose noise nobody tells
        return None
    near = weighing.surface[task.window], weighing.noise[task.window]
    centre = np.float32(task.centre)
    moved: Floats = _specks_moved(task.start, *near, task.inside(), centre, inverse=task.energy.inverse)
    return moved


@one_pass
def _specks_moved(
    start: Floats, surface: DepthMap, noise: Floats, inside: Mask, centre: np.float32, *, inverse: bool
) -> Floats:
    """A start (H, W) in the variable of a solve, less `centre`."""
    with np.errstate(divide="ignore"):
        there = (1 / surface if inverse else surface) - centre
        depth = 1 / (start + centre) if inverse else start + centre
    known, limit = np.where(inside, depth, np.float32(np.nan)), np.float32(FAR) * noise
    alike: Any = np.float32(0)
    for down, right in AROUND:
        alike = alike + (np.abs(neighbour(known, down, right, np.nan) - known) <= limit)
    speck = (alike < 0.5) & (np.abs(surface - depth) > limit) & (np.abs(there) < np.float32(np.inf))
    return np.where(speck, there, start)


def advance(rough: PDHG, task: Task, confidence: Floats, state: State) -> float:
    """Iterate until the energy settles; return the factor by which the balancer lengthened the steps."""
    return rough.minimise(task, task.problem(confidence), state).step_scale / task.step_scale


def depth_of(task: Task, state: State) -> Floats:
    """The state's depth on the whole image, NaN outside the domain, in the memory of the task's stack."""
    return task.given_back(task.whole_depth(state.primal[0]))


def energy_of(choices: Choices, lam: float) -> Energy:
    """TGV with absolute errors and fixed confidence."""
    return Energy(L1(), TGV(len(choices.alpha), choices.alpha), lam=lam, inverse=choices.inverse)
