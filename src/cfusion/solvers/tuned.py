"""Nothing to tune: the weights of the regulariser, the variable and the confidence, chosen by leaving views out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cfusion.energy import TGV, Energy
from cfusion.geometry import Pinhole, Stack
from cfusion.kernels.contract import Backend, Floats, Held, State
from cfusion.kernels.growth import fitted_power
from cfusion.solvers.bridges import of_one_surface
from cfusion.solvers.footing import Footing
from cfusion.solvers.held_out import leave_out
from cfusion.solvers.local_noise import local_weights, mean_weight
from cfusion.solvers.outcome import Progress, Report, Solution
from cfusion.solvers.pdhg import PDHG, finish, fixed_confidence
from cfusion.solvers.task import Task, at_work, prepare

ALPHA_PER_ROOT_VIEW = 1.2  # where the search starts: alpha_1 = 1.2 sqrt(K)
LADDER = 2.0  # alpha changes by this factor while searching, by its root at the end
RATIOS = (2.0, 1.0, 4.0)  # alpha_2 / alpha_1, the usual one first
LONGEST_WALK = 6  # steps of the ladder
CHANCE, LEAST_GAIN = 2.0, 0.003  # standard errors; of the error, for a much smoother answer
LOCAL_CHANCE = 3.0  # standard errors, for weights that follow the local noise: two are tipped by rounding
LOCAL_FACTORS = (1.0, 1.5, 2.25)  # alpha grows with the confidence of the quiet pixels
ROUGH = PDHG(tolerance=2e-4, iterations=480, certify=False)  # chooses as 1e-5 does; 5e-4 not always
NEARBY = 0.2  # of the first fit's steps, for fits that start where it ended; 0.1 to 1 choose alike
GROWTH_SAMPLE = 10_000  # pixels that tell how the noise grows with depth
NOTHING = np.empty((0, 0), np.float32)
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
    start: Footing | None = None  # instead of the median

    def __call__(self, task: Task, report: Report | None = None) -> Solution:
        settled = self if self.alpha is not None else self.settle(task, report)
        assert settled.alpha is not None
        energy = _energy(task.energy, settled.alpha, bool(settled.inverse))
        ready = task.with_energy(energy) if _alike(energy, task.energy) else prepare(energy, task.stack, task.backend)
        state = settled.start.onto(ready) if settled.start else ready.initial_state()
        confidence = fixed_confidence(ready)
        if settled.local:
            _advance(ROUGH, ready, confidence, state)
            weighed = local_weights(task.stack, given_depth(ready, state), task.backend)
            ready = prepare(energy, weighed, task.backend)
        outcome = self.inner.minimise(ready, ready.problem(confidence), state, report)
        depth = _filled(ready, state, task.gap_radius)
        chosen = {"alpha": settled.alpha, "inverse": bool(settled.inverse), "local": bool(settled.local)}
        footing = Footing.of(ready, state)
        if not self.inner.certify:
            return Solution(depth, NOTHING, NOTHING, outcome.status, chosen=chosen, footing=footing)
        solution = finish(
            ready, state, confidence, outcome.status, (outcome.outer(),), outcome.gap, outcome.energies, None
        )
        # the depth was found at lam = 1; what the observations turned out to be worth is what to believe
        weighed = ready.stack if settled.local else local_weights(task.stack, depth, task.backend)
        believed = np.where(np.isnan(depth), 0, mean_weight(weighed)).astype(np.float32)
        return replace(solution, depth=depth, confidence=believed, chosen=chosen, footing=footing)

    def guess(self, stack: Stack, backend: Backend) -> Tuned:
        """A quick first answer, at the weights the search would start from."""
        alpha_1 = _usual_alpha(stack, backend)
        return replace(self.rough(), alpha=(alpha_1, RATIOS[0] * alpha_1), inverse=False, local=False)

    def rough(self) -> Tuned:
        """The same choices for answers that are only a step on the way: a depth without certificate or confidence."""
        return replace(self, inner=replace(self.inner, certify=False))

    def settle(self, task: Task, report: Report | None = None) -> Tuned:
        """The same solver with its choices made on this task."""
        inverse = _stereo_like(task) if self.inverse is None else self.inverse
        stack = at_work(task.stack, task.backend)
        kept, held = leave_out(stack, task.backend)
        energy = _energy(task.energy, (1.0, 2.0), inverse)
        train = prepare(energy, kept, task.backend)
        trial = _Trial(train, held)
        start = _usual_alpha(stack, task.backend)
        if report:
            report(Progress("choosing weights", 0.0, float("nan"), float("nan")))
        alpha = trial.search(start)
        grown = start / _usual_alpha(kept, task.backend)  # the fit had fewer observations
        alpha = (alpha[0] * grown, alpha[1] * grown)
        alpha, local = (alpha, bool(self.local)) if self.local is not None else trial.with_local(alpha)
        return replace(self, alpha=alpha, inverse=inverse, local=local)


class _Trial:
    """Fits without the held-out observations, all from the same start, each made once."""

    def __init__(self, task: Task, held: Stack) -> None:
        self.stack = held
        self._fit_on(task, held)
        self.start: State | None = None
        self.state: State | None = None
        self.noise = task.noise
        self.ratio = RATIOS[0]
        self.fits: dict[tuple[float, float], Floats] = {}

    def _fit_on(self, task: Task, held: Stack) -> None:
        """Make the fits on a task, and score them on what was held out of it."""
        self.task = task
        self.confidence = fixed_confidence(task)
        inside, centre, inverse = task.inside(), task.centre, task.energy.inverse
        self.held = Held(held.depths, held.weights, task.window, inside, centre, inverse)

    def search(self, start: float) -> tuple[float, float]:
        """From the usual alpha to one that predicts the held-out observations better, if they can tell."""
        alpha_1 = self._walk(start, LADDER)
        ratio = RATIOS[0]
        for other in RATIOS[1:]:
            if self.better((alpha_1, other * alpha_1), (alpha_1, ratio * alpha_1)):
                ratio = other
        self.ratio = ratio
        alpha_1 = self._walk(alpha_1, float(np.sqrt(LADDER)), 1)
        return alpha_1, ratio * alpha_1

    def _walk(self, start: float, factor: float, steps: int = LONGEST_WALK) -> float:
        """Multiply or divide by the factor as long as that helps."""
        for move in (factor, 1 / factor):
            best = start
            for _ in range(steps):
                if not self.better((best * move, self.ratio * best * move), (best, self.ratio * best)):
                    break
                best *= move
            if best != start:
                return best
        return start

    def better(self, alpha: tuple[float, float], than: tuple[float, float]) -> bool:
        """Whether this alpha predicts what was held out better than that.

        What was held out was associated through a surface that is itself too smooth at edges, and so favours smoothness
        a little: a much smoother answer has to be better by more than that.
        """
        much = 0.99 * LADDER
        smoother = alpha[0] > much * than[0] or alpha[1] > much * than[1]
        other = self._fitted(than)  # first: all fits then start from one at the usual alpha
        return self._predicts_better(self._fitted(alpha), other, LEAST_GAIN if smoother else 0.0)

    def _predicts_better(self, x: Floats, other: Floats, least: float = 0.0, chance: float = CHANCE) -> bool:
        """Whether the mean error of x is smaller, by more than chance would have it and the least part given."""
        gain, by_chance, error = self.task.backend.gain(x, other, self.held)
        return gain > chance * by_chance and gain >= least * error

    def _fitted(self, alpha: tuple[float, float]) -> Floats:
        if alpha not in self.fits:
            self.fits[alpha] = self._fit(alpha)
        return self.fits[alpha]

    def with_local(self, alpha: tuple[float, float]) -> tuple[tuple[float, float], bool]:
        """Whether weights that follow the local noise predict better what was held out, and at which alpha."""
        task = self.task
        self._fit(alpha)
        assert self.state is not None
        reached = self.start = self.state  # from where what is compared goes equally far
        best, chosen, local = self._fit(alpha), alpha, False
        depth = given_depth(task, self.state)
        held = local_weights(self.stack, depth, task.backend)
        weighed = local_weights(task.stack, depth, task.backend)
        self._fit_on(prepare(task.energy, weighed, task.backend), held)
        self.start = Footing.of(task, reached).onto(self.task)
        for factor in LOCAL_FACTORS:
            candidate = (factor * alpha[0], factor * alpha[1])
            x = self._fit(candidate)
            if not self._predicts_better(x, best, chance=LOCAL_CHANCE):
                break
            best, chosen, local = x, candidate, True
        return chosen, local

    def _fit(self, alpha: tuple[float, float]) -> Floats:
        """x at this alpha, from where the first fit came to."""
        task = self.task.with_energy(_energy(self.task.energy, alpha, self.task.energy.inverse))
        if self.start is None:
            self.start = task.initial_state()
            self.noise *= NEARBY * _advance(ROUGH, task, self.confidence, self.start)
        state = self.start.branch()
        _advance(replace(ROUGH, steady=True), replace(task, noise=self.noise), self.confidence, state)
        self.state = state
        return state.primal[0].copy()


def _usual_alpha(stack: Stack, backend: Backend) -> float:
    """1.2 sqrt(K) for K observations a pixel of weight one; in proportion to the weights otherwise."""
    here = at_work(stack, backend)
    held = backend.tally(here.depths, here.weights)
    usual = 1.0
    if here.weights is not None:
        (usual,), _ = backend.medians(here.weights[None], 0.0)
    return ALPHA_PER_ROOT_VIEW * float(np.sqrt(usual * held.mass / max(held.pixels, 1)))


def given_depth(task: Task, state: State) -> Floats:
    """The state's depth on the whole image, NaN outside the domain, where the task's stack lies."""
    return task.given_back(task.whole_depth(state.primal[0]))


def _filled(task: Task, state: State, radius: int) -> Floats:
    """The depth on the whole image, gaps within one surface interpolated, gaps between two left open."""
    backend, observed = task.backend, task.domain
    gaps = backend.gaps(observed, radius) if radius else None
    if gaps is None:
        return given_depth(task, state)
    known = task.whole(state.primal[0], float("nan"))
    gaps &= of_one_surface(known, observed, radius, task.noise, backend)
    # a plane is taken out and put back: the interpolant of one is not quite a plane
    steps, amounts = backend.medians(backend.changes(known))
    down, right = (step if amount else 0.0 for step, amount in zip(steps, amounts, strict=True))
    filled = backend.tilted(backend.fill_natural(backend.tilted(known, -down, -right), gaps), down, right)
    return task.given_back(task.depth(np.where(observed, known, filled)))


def _advance(rough: PDHG, task: Task, confidence: Floats, state: State) -> float:
    """Iterate until the energy settles; by how much steps turned out to have to be longer."""
    return rough.minimise(task, task.problem(confidence), state).noise / task.noise


def _stereo_like(task: Task) -> bool:
    """Whether the noise grows with depth as stereo's does, so that it is uniform in inverse depth."""
    stack, backend = task.stack, task.backend
    if not isinstance(stack.camera, Pinhole) or stack.views < 2 or task.least <= 0:
        return False
    start, total = task.start, task.observations.total
    every = max(1, int(np.sqrt(start.size / GROWTH_SAMPLE)))
    misfit = backend.misfit(task.problem(fixed_confidence(task)), start)
    maps = backend.arrays.stack([each[::every, ::every] for each in (start, total, misfit)])
    start, total, misfit = backend.to_host(maps).astype(np.float64)
    spread = misfit / np.maximum(total, 1e-12)
    return fitted_power(start + task.centre, np.where(total > 1, spread, np.nan)) > STEREO_SLOPE


def _alike(energy: Energy, other: Energy) -> bool:
    """Whether a task of one is a task of the other but for the regulariser's weights."""
    return energy.inverse == other.inverse and other.prior is None and other.regulariser is not None


def _energy(energy: Energy, alpha: tuple[float, ...], inverse: bool) -> Energy:
    edge = energy.regulariser.edge if energy.regulariser else None
    return replace(energy, regulariser=TGV(len(alpha), alpha, edge), inverse=inverse, prior=None)
