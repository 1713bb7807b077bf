"""One fit of `auto`: the convex solve with given choices, from a warm start, and interpolation of holes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cfusion.auto.holes import fill_within_surfaces
from cfusion.auto.noise import local_weights
from cfusion.auto.settings import Choices
from cfusion.auto.variable import Weighing
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.contract import Floats, State
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.solvers import PDHG, Report, Solution, WarmStart
from cfusion.solvers.pdhg import Convex, fixed_confidence, to_solution
from cfusion.solvers.task import Task, prepare

ROUGH = PDHG(tolerance=2e-4, iterations=480, certify=False)  # chooses like 1e-5; 5e-4 not always

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
    state = start.transfer(ready) if start else ready.initial_state()
    confidence = fixed_confidence(ready)
    if choices.local:
        advance(ROUGH, ready, confidence, state)
        weighed = local_weights(stack, depth_of(ready, state), task.backend)
        ready = prepare(energy, weighed, task.backend).with_edges(edges)
    paced = ready if edges is None else replace(ready, step_scale=EDGE_STEPS * ready.step_scale)
    outcome = solver.minimise(paced, paced.problem(confidence), state, report)
    growth = weighing.growth if stack is not task.stack and weighing is not None else None
    return Fit(fill_within_surfaces(ready, state, fill_radius, growth), ready, state, outcome, edges)


def advance(rough: PDHG, task: Task, confidence: Floats, state: State) -> float:
    """Iterate until the energy settles; return the factor by which the balancer lengthened the steps."""
    return rough.minimise(task, task.problem(confidence), state).step_scale / task.step_scale


def depth_of(task: Task, state: State) -> Floats:
    """The state's depth on the whole image, NaN outside the domain, in the memory of the task's stack."""
    return task.given_back(task.whole_depth(state.primal[0]))


def energy_of(choices: Choices, lam: float) -> Energy:
    """TGV with absolute errors and fixed confidence."""
    return Energy(L1(), TGV(len(choices.alpha), choices.alpha), lam=lam, inverse=choices.inverse)
