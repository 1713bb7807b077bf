"""Nothing to tune: the weights of the regulariser, the variable and the confidence, chosen by leaving views out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from cfusion.arrays import pieces
from cfusion.energy import TGV, Energy
from cfusion.geometry import Pinhole, Stack
from cfusion.kernels.contract import Backend, State
from cfusion.solvers.bridges import bridges
from cfusion.solvers.footing import Footing
from cfusion.solvers.held_out import leave_out
from cfusion.solvers.local_noise import local_weights, mean_weight
from cfusion.solvers.outcome import Progress, Report, Solution
from cfusion.solvers.pdhg import PDHG, finish, fixed_confidence
from cfusion.solvers.task import Floats, Task, counts_of, prepare

ALPHA_PER_ROOT_VIEW = 1.2  # where the search starts: alpha_1 = 1.2 sqrt(K)
LADDER = 2.0  # alpha changes by this factor while searching, by its root at the end
RATIOS = (2.0, 1.0, 4.0)  # alpha_2 / alpha_1, the usual one first
LONGEST_WALK = 6  # steps of the ladder
CHANCE, LEAST_GAIN = 2.0, 0.003  # standard errors; of the error, for a much smoother answer
LOCAL_CHANCE = 3.0  # standard errors, for weights that follow the local noise: two are tipped by rounding
LOCAL_FACTORS = (1.0, 1.5, 2.25)  # alpha grows with the confidence of the quiet pixels
ROUGH = PDHG(tolerance=1e-4, iterations=480, certify=False)  # good enough to compare: 2e-4 was not, on real views
BINS = 8  # of depth, to see how the noise grows with it
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
            _advance(ready, confidence, state, ready.noise)
            weighed = local_weights(task.stack, whole_depth(ready, state), task.backend)
            ready = prepare(energy, weighed, task.backend)
        outcome = self.inner.minimise(ready, ready.problem(confidence), state, report)
        depth = _filled(ready, state, task.fill_radius)
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
        kept, held = leave_out(task.stack, task.backend)
        energy = _energy(task.energy, (1.0, 2.0), inverse)
        train = prepare(energy, kept, task.backend)
        trial = _Trial(train, held, inverse)
        start = _usual_alpha(task.stack, task.backend)
        if report:
            report(Progress("choosing weights", 0.0, float("nan"), float("nan")))
        alpha = trial.search(start)
        grown = start / _usual_alpha(kept, task.backend)  # the fit had fewer observations
        alpha = (alpha[0] * grown, alpha[1] * grown)
        alpha, local = (alpha, bool(self.local)) if self.local is not None else trial.with_local(alpha)
        return replace(self, alpha=alpha, inverse=inverse, local=local)


class _Trial:
    """Fits without the held-out observations, all from the same start, each made once."""

    def __init__(self, task: Task, held: Stack, inverse: bool) -> None:
        self.task = task
        self.stack = held
        depths = task.backend.to_device(held.depths[(slice(None), *task.window)], np.float64)
        self.held = (1 / depths if inverse else depths) - task.centre
        self._weigh(held)
        self.held = np.where(self.weights > 0, self.held, 0)
        self.start: State | None = None
        self.state: State | None = None
        self.noise = task.noise
        self.ratio = RATIOS[0]
        self.fits: dict[tuple[float, float], Floats] = {}

    def _weigh(self, held: Stack) -> None:
        """Take the weights of what is held out from a stack."""
        self.weights = _cut(held, self.task)
        self.counted = self.weights * self.task.inside()

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
        return self._predicts_better(self._fitted(alpha), self._fitted(than), LEAST_GAIN if smoother else 0.0)

    def _predicts_better(self, x: Floats, other: Floats, least: float = 0.0, chance: float = CHANCE) -> bool:
        """Whether the mean error of x is smaller, by more than chance would have it and the least part given."""
        gain, by_chance = self.task.backend.gain(x, other, self.held, self.counted)
        if gain <= chance * by_chance:
            return False
        return not least or gain > least * self._error(other)

    def _error(self, x: Floats) -> float:
        """The mean error on what was held out."""
        errors, total = np.stack([(self.counted * np.abs(x - self.held)).sum(), self.counted.sum()]).tolist()
        return float(errors / max(total, 1e-300))

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
        depth = whole_depth(task, self.state)
        self._weigh(local_weights(self.stack, depth, task.backend))
        weighed = local_weights(task.stack, depth, task.backend)
        self.task = prepare(task.energy, weighed, task.backend)
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
            self.noise = _advance(task, fixed_confidence(task), self.start, self.noise)
        state = State(self.start.primal.copy(), self.start.dual.copy())
        self.noise = _advance(task, fixed_confidence(task), state, self.noise)
        self.state = state
        return state.primal[0].copy()


def _usual_alpha(stack: Stack, backend: Backend) -> float:
    """1.2 sqrt(K) for K observations a pixel of weight one; in proportion to the weights otherwise."""
    weights = stack.weights
    count = counts_of(stack, backend)
    mass = count.sum(dtype=np.float64) if weights is None else weights.sum(dtype=np.float64)
    observed, mass = np.stack([(count > 0).sum(dtype=np.float64), mass]).tolist()
    usual = 1.0
    if weights is not None:
        (usual,), _ = backend.medians(np.where(weights > 0, weights, np.float32(np.nan))[None])
    return ALPHA_PER_ROOT_VIEW * float(np.sqrt(usual * mass / max(observed, 1)))


def _cut(stack: Stack, task: Task) -> Floats:
    """The stack's weights within the task's window."""
    crop = (slice(None), *task.window)
    weights = np.isfinite(stack.depths[crop]) if stack.weights is None else stack.weights[crop]
    cut: Floats = task.backend.to_device(weights, np.float64)
    return cut


def whole_depth(task: Task, state: State) -> Floats:
    """The state's depth on the whole image, NaN outside the domain, where the task's stack lies."""
    return task.given_back(task.whole(task.depth(state.primal[0]), float("nan")))


def _filled(task: Task, state: State, radius: int) -> Floats:
    """The depth on the whole image, gaps within one surface interpolated, gaps between two left open."""
    backend = task.backend
    known = task.whole(state.primal[0], float("nan"))
    observed = task.domain
    gaps = backend.close_mask(observed, radius) & ~observed if radius else None
    if gaps is not None and gaps.any():
        gaps &= ~bridges(known, observed, radius, task.noise, backend)
        tilt = _tilt(known, backend)  # taken out and put back: the interpolant of a plane is not quite a plane
        known = np.where(observed, known, backend.fill_natural(known - tilt, gaps) + tilt)
    return task.given_back(task.depth(known))


def _tilt(x: Floats, backend: Backend) -> Floats:
    """(H, W) the plane through zero that rises as x usually does."""
    height, width = x.shape
    corner = x[:-1, :-1]
    steps, known = backend.medians(np.stack([x[1:, :-1] - corner, x[:-1, 1:] - corner]))
    down, right = (np.float32(step if count else 0) for step, count in zip(steps, known, strict=True))
    rows, columns = (backend.arrays.arange(size, dtype=np.float32) for size in (height, width))
    tilt: Floats = rows[:, None] * down + columns[None, :] * right
    return tilt


def _advance(task: Task, confidence: Floats, state: State, noise: float) -> float:
    """Iterate until the energy settles, from a scale of steps; what became of that scale."""
    return ROUGH.minimise(replace(task, noise=noise), task.problem(confidence), state).noise


def _stereo_like(task: Task) -> bool:
    """Whether the noise grows with depth as stereo's does, so that it is uniform in inverse depth."""
    stack = task.stack
    if not isinstance(stack.camera, Pinhole) or np.nanmin(stack.depths) <= 0 or stack.views < 2:
        return False
    backend, total = task.backend, task.observations.total
    start = task.start
    depth = start + task.centre
    spread = backend.misfit(task.problem(fixed_confidence(task)), start) / np.maximum(total, 1e-12)
    known = (total > 1) & (depth > 0) & (spread > 0)
    if known.sum() < 100:
        return False
    log_depth = np.where(known, np.log(np.where(known, depth, 1).astype(np.float64)), np.nan)
    edges = backend.quantiles(log_depth, np.linspace(0, 1, BINS + 1).tolist())
    if edges[-2] - edges[1] < np.log(1.3):  # too little depth to tell, and then it does not matter
        return False
    log_spread = np.log(np.where(known, spread, 1))
    bins = np.clip(np.searchsorted(backend.to_device(edges, np.float64), log_depth) - 1, 0, BINS - 1)
    bins = np.where(known, bins, BINS).ravel()
    level, place = (_medians_of_bins(each.ravel(), bins, backend) for each in (log_spread, log_depth))
    return bool(np.polyfit(place, level, 1)[0] > STEREO_SLOPE)


def _medians_of_bins(values: Floats, bins: Floats, backend: Backend) -> list[float]:
    """The median of what is in each bin; empty bins left out."""
    out = []
    for numbers in pieces(backend.to_device(np.arange(BINS), bins.dtype)):
        medians, counts = backend.medians(np.where(bins == numbers[:, None], values, values.dtype.type(np.nan)))
        out += [median for median, count in zip(medians, counts, strict=True) if count]
    return out


def _alike(energy: Energy, other: Energy) -> bool:
    """Whether a task of one is a task of the other but for the regulariser's weights."""
    return energy.inverse == other.inverse and other.prior is None and other.regulariser is not None


def _energy(energy: Energy, alpha: tuple[float, ...], inverse: bool) -> Energy:
    edge = energy.regulariser.edge if energy.regulariser else None
    return replace(energy, regulariser=TGV(len(alpha), alpha, edge), inverse=inverse, prior=None)
