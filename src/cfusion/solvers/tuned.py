"""Nothing to tune: the weights of the regulariser, the variable and the confidence, chosen by leaving views out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from cfusion.energy import TGV, Energy
from cfusion.geometry import Pinhole, Stack
from cfusion.kernels.contract import State
from cfusion.solvers.local_noise import local_weights, mean_weight
from cfusion.solvers.outcome import Progress, Report, Solution
from cfusion.solvers.pdhg import PDHG, finish, fixed_confidence
from cfusion.solvers.steps import Pace
from cfusion.solvers.task import Floats, Task, prepare

ALPHA_PER_ROOT_VIEW = 1.2  # where the search starts: alpha_1 = 1.2 sqrt(K)
LADDER = 2.0  # alpha changes by this factor while searching, by its root at the end
RATIOS = (1.0, 2.0, 4.0)  # alpha_2 / alpha_1
SMALLEST, LARGEST = 2.0**-6, 2.0**6  # of the start
LOCAL_FACTORS = (1.0, 1.5, 2.25)  # alpha grows with the confidence of the quiet pixels
FIRST_ITERATIONS, MORE_ITERATIONS = 144, 96
HELD_OUT = 0.2  # of the views; of the pixels where there are fewer than three views
STEREO_SLOPE = 1.0  # noise growing faster than depth^1 is nearer to stereo's (2) than to a constant (0)


@dataclass(frozen=True)
class Tuned:
    """PDHG with everything else chosen from the data: alpha, its ratio, depth or inverse depth, local confidence.

    Each candidate is fitted without some of the views and scored on them. `alpha`, once settled, is kept.
    """

    inner: PDHG = field(default_factory=PDHG)
    alpha: tuple[float, ...] | None = None
    inverse: bool | None = None
    local: bool | None = None

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        settled = self if self.alpha is not None else self.settle(task, report)
        assert settled.alpha is not None
        energy = _energy(task.energy, settled.alpha, bool(settled.inverse))
        ready = prepare(energy, task.stack, task.backend, task.fill_radius)
        state = ready.initial_state()
        confidence = fixed_confidence(ready)
        if settled.local:
            _advance(ready, confidence, state, MORE_ITERATIONS)
            weighed = local_weights(task.stack, whole_depth(ready, state))
            ready = prepare(energy, weighed, task.backend, task.fill_radius)
        outcome = self.inner.minimise(ready, ready.problem(confidence), state, report)
        solution = finish(
            ready, state, confidence, outcome.status, (outcome.outer(),), outcome.gap, outcome.energies, None
        )
        # the depth was found at lam = 1; what the observations turned out to be worth is what to believe
        believed = mean_weight(ready.stack if settled.local else local_weights(task.stack, solution.depth))
        solution = replace(solution, confidence=np.where(solution.domain, believed, 0).astype(np.float32))
        chosen = {"alpha": settled.alpha, "inverse": bool(settled.inverse), "local": bool(settled.local)}
        return replace(solution, chosen=chosen)

    def guess(self, views: int) -> Tuned:
        """A quick first answer, at the weights the search would start from."""
        alpha_1 = ALPHA_PER_ROOT_VIEW * float(np.sqrt(views))
        return replace(self.rough(), alpha=(alpha_1, RATIOS[1] * alpha_1), inverse=False, local=False)

    def rough(self) -> Tuned:
        """The same choices without a certificate, for answers that are only a step on the way."""
        return replace(self, inner=replace(self.inner, certify=False))

    def settle(self, task: Task, report: Report | None = None) -> Tuned:
        """The same solver with its choices made on this task."""
        inverse = _stereo_like(task) if self.inverse is None else self.inverse
        kept, held = _leave_out(task.stack)
        energy = _energy(task.energy, (1.0, 2.0), inverse)
        train = prepare(energy, kept, task.backend, task.fill_radius)
        trial = _Trial(train, held, inverse)
        start = ALPHA_PER_ROOT_VIEW * float(np.sqrt(task.stack.views))
        if report:
            report(Progress("choosing weights", 0.0, float("nan"), float("nan")))
        alpha_1 = _descend(lambda a: trial.error((a, RATIOS[1] * a)), start)
        ratio = min(RATIOS, key=lambda r: trial.error((alpha_1, r * alpha_1)))
        trial.forget()  # later fits start closer to their minimum: compare only what was fitted from alike starts
        around = [(a, ratio * a) for a in (alpha_1 * LADDER**step for step in (-0.5, 0.0, 0.5))]
        best = min(around, key=trial.error)
        # the smoothest answer that the held-out views cannot tell from the best one
        alpha = max(each for each in around if trial.as_good(each, best))
        grown = float(np.sqrt(task.stack.count.sum() / max(kept.count.sum(), 1)))  # the fit had fewer observations
        alpha = (alpha[0] * grown, alpha[1] * grown)
        alpha, local = (alpha, bool(self.local)) if self.local is not None else trial.with_local(alpha)
        return replace(self, alpha=alpha, inverse=inverse, local=local)


class _Trial:
    """Fits without the held-out observations, warm-started from one candidate to the next, each scored once."""

    def __init__(self, task: Task, held: Stack, inverse: bool) -> None:
        self.task = task
        self.stack = held
        depths = held.depths[(slice(None), *task.window)].astype(np.float64)
        self.held = (1 / depths if inverse else depths) - task.centre
        self.weights = _cut(held, task)
        self.held = np.where(self.weights > 0, self.held, 0)
        self.state: State | None = None
        self.scores: dict[tuple[float, float], float] = {}
        self.fits: dict[tuple[float, float], Floats] = {}

    def error(self, alpha: tuple[float, float]) -> float:
        """Mean absolute error on what was held out."""
        if alpha not in self.scores:
            x = self._fit(alpha)
            self.scores[alpha], self.fits[alpha] = self._score(x), x
        return self.scores[alpha]

    def forget(self) -> None:
        """Score again what is asked again."""
        self.scores.clear()
        self.fits.clear()

    def as_good(self, alpha: tuple[float, float], best: tuple[float, float]) -> bool:
        """Whether the mean error exceeds the best one's by less than the standard error of their difference."""
        weights = self.weights * self._inside()
        total = max(float(np.sum(weights)), 1e-300)
        worse = np.abs(self.fits[alpha] - self.held) - np.abs(self.fits[best] - self.held)
        mean = float(np.sum(weights * worse)) / total
        return mean <= float(np.sqrt(np.sum((weights * (worse - mean)) ** 2))) / total

    def with_local(self, alpha: tuple[float, float]) -> tuple[tuple[float, float], bool]:
        """Whether weights that follow the local noise predict better what was held out, and at which alpha."""
        task = self.task
        plain = self._fit(alpha)
        assert self.state is not None
        depth = whole_depth(task, self.state)
        self.weights = _cut(local_weights(self.stack, depth), task)
        best, best_alpha, local = self._score(plain), alpha, False
        self.task = prepare(task.energy, local_weights(task.stack, depth), task.backend, task.fill_radius)
        for factor in LOCAL_FACTORS:
            candidate = (factor * alpha[0], factor * alpha[1])
            score = self._score(self._fit(candidate))
            if score < best:
                best, best_alpha, local = score, candidate, True
        return best_alpha, local

    def _fit(self, alpha: tuple[float, float]) -> Floats:
        """x at this alpha, on the host; the state goes on from there."""
        task = self.task.with_energy(_energy(self.task.energy, alpha, self.task.energy.inverse))
        first = self.state is None
        state = task.initial_state() if self.state is None else self.state
        _advance(task, fixed_confidence(task), state, FIRST_ITERATIONS if first else MORE_ITERATIONS)
        self.state = state
        return np.array(task.backend.to_host(state.primal[0]))

    def _inside(self) -> Floats:
        inside: Floats = self.task.backend.to_host(self.task.inside())
        return inside

    def _score(self, x: Floats) -> float:
        weights = self.weights * self._inside()
        return float(np.sum(weights * np.abs(x - self.held)) / max(float(np.sum(weights)), 1e-300))


def _cut(stack: Stack, task: Task) -> Floats:
    """The stack's weights within the task's window."""
    if stack.weights is None:
        return np.isfinite(stack.depths[(slice(None), *task.window)]).astype(np.float64)
    return stack.weights[(slice(None), *task.window)].astype(np.float64)


def whole_depth(task: Task, state: State) -> Floats:
    """The state's depth on the whole image, NaN outside the domain."""
    depth: Floats = task.backend.to_host(task.whole(task.depth(state.primal[0]), float("nan")))
    return depth


def _advance(task: Task, confidence: Floats, state: State, count: int) -> None:
    problem = task.problem(confidence)
    Pace(task.backend, task.noise).run(problem, state, count)


def _descend(error: Callable[[float], float], start: float) -> float:
    """Walk down the ladder of alpha from the start, in the direction that helps."""
    best = start
    for factor in (LADDER, 1 / LADDER):
        moved = False
        while SMALLEST <= best * factor / start <= LARGEST and error(best * factor) < error(best):
            best, moved = best * factor, True
        if moved:
            break
    return best


def _leave_out(stack: Stack) -> tuple[Stack, Stack]:
    """The stack without every fifth view (or, below three views, a fifth of the pixels), and what was taken out."""
    held = np.zeros(stack.depths.shape, np.bool_)
    if stack.views >= 3:
        many = max(1, round(HELD_OUT * stack.views))
        held[np.linspace(0, stack.views - 1, many + 2)[1:-1].round().astype(int)] = True
    else:
        held |= np.random.default_rng(0).random(stack.shape) < HELD_OUT
    kept = np.where(held, np.float32(np.nan), stack.depths)
    if np.isnan(kept).all():
        return stack, stack
    return (
        Stack(kept, stack.weights, stack.camera, stack.image),
        Stack(np.where(held, stack.depths, np.float32(np.nan)), stack.weights, stack.camera, stack.image)
        if np.isfinite(stack.depths[held]).any()
        else stack,
    )


def _stereo_like(task: Task) -> bool:
    """Whether the noise grows with depth as stereo's does, so that it is uniform in inverse depth."""
    stack = task.stack
    if not isinstance(stack.camera, Pinhole) or np.nanmin(stack.depths) <= 0 or stack.views < 2:
        return False
    start, to_host = task.start, task.backend.to_host
    depth = to_host(start) + task.centre
    total = to_host(task.observations.total)
    misfit = to_host(task.backend.misfit(task.problem(fixed_confidence(task)), start))
    spread = misfit / np.maximum(total, 1e-12)
    known = (total > 1) & (depth > 0) & (spread > 0)
    if known.sum() < 100:
        return False
    log_depth = np.log(depth[known].astype(np.float64))
    edges = np.quantile(log_depth, np.linspace(0, 1, 9))
    if edges[-2] - edges[1] < np.log(1.3):  # too little depth to tell, and then it does not matter
        return False
    bins = np.clip(np.searchsorted(edges, log_depth) - 1, 0, 7)
    level = np.array([np.median(np.log(spread[known][bins == k])) for k in range(8) if (bins == k).any()])
    place = np.array([np.median(log_depth[bins == k]) for k in range(8) if (bins == k).any()])
    return bool(np.polyfit(place, level, 1)[0] > STEREO_SLOPE)


def _energy(energy: Energy, alpha: tuple[float, ...], inverse: bool) -> Energy:
    edge = energy.regulariser.edge if energy.regulariser else None
    return replace(energy, regulariser=TGV(len(alpha), alpha, edge), inverse=inverse, prior=None)
