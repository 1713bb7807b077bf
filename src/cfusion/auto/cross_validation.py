"""Choices by cross-validation: a candidate is fitted without some observations and scored on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cfusion.arrays import SMALL
from cfusion.auto.fit import EDGE_STEPS, ROUGH, advance, depth_of, energy_of
from cfusion.auto.folds import leave_out
from cfusion.auto.noise import local_weights, stereo_like, usual_weight
from cfusion.auto.sample import sample_of
from cfusion.auto.settings import PAPERS, Choices, Settings
from cfusion.auto.variable import Weighing
from cfusion.geometry import Stack
from cfusion.kernels.contract import Coverage, Floats, HeldOut, State
from cfusion.kernels.one_pass import one_pass
from cfusion.solvers import Progress, Report, WarmStart
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.task import Task, prepare

ALPHA_PER_ROOT_VIEW = 1.2  # initial value of the search: alpha_1 = 1.2 sqrt(K)
LADDER = 2.0  # factor on alpha during the search; its square root at the end
RATIOS = (2.0, 1.0, 4.0)  # alpha_2 / alpha_1, the usual one first
LONGEST_WALK = 6  # steps of the search
CHANCE, LEAST_GAIN = 2.0, 0.003  # standard errors; least relative gain of a much smoother answer
VARIABLE_CHANCE = 1.0  # standard errors, for depth or inverse depth: a few distant pixels make them large
LOCAL_CHANCE = 3.0  # standard errors, for local weights: with two, rounding could decide
EVEN = 0.05  # mean size of the logarithm of local weights: more even ones gain less than LEAST_GAIN
LOCAL_FACTORS = (1.0, 1.5, 2.25)  # factors on alpha tried with local weights
EDGE_CHANCE = 1.5  # standard errors, for edge weights: few observations are near edges
OUTLINED_CHANCE = 0.0  # the same where the reference's outlines are exact
FEW_VIEWS_CHANCE = 3.0  # the same where pixels of one view are held out: its jagged outlines are near them too
CLEAR_GAIN = 0.1  # relative, at which edges of quiet observations are not spared
EDGE_LADDER, MOST_EDGE_STEPS = 2.0, 2  # factor on alpha, and its number, with edge weights: these spare edges instead
OF_EXACT = 1e-3  # of the usual alpha: exact maps need no smoothing, and follow small parts and edges as they are
NEARBY = 0.2  # of the first fit's final steps; longer ones choose another alpha on some scenes


def usual_choices(task: Task, weighing: Weighing | None = None, exact: bool = False) -> Choices:
    """The weights from which the search starts, next to none for exact maps; in inverse depth if weights are given."""
    alpha_1 = (OF_EXACT if exact else 1.0) * _usual_alpha(task.stack.in_memory_of(task.backend), task)
    alpha = (alpha_1, RATIOS[0] * alpha_1)
    return Choices(alpha) if weighing is None else Choices(alpha, inverse=True, noise_growth=weighing.growth.stated)


def choose(
    task: Task,
    settings: Settings,
    edges: Floats | None = None,
    weighing: Weighing | None = None,
    inverse: bool = False,
    quiet: bool = False,
    outlined: bool = False,
    exact: bool = False,
    report: Report | None = None,
) -> Choices:
    """The choices that best predict the held-out observations of a task; `inverse` if that was the guess so far.

    Edges of `quiet` observations are spared unless that predicts clearly worse.
    """
    backend = task.backend
    weighing = weighing if weighing is not None and weighing.matters(task) else None
    if exact:
        told = inverse if settings.inverse is None else settings.inverse
        chosen = usual_choices(task, weighing if told else None, exact)
        inverse = chosen.inverse if settings.inverse is None else settings.inverse
        return replace(chosen, inverse=inverse, local=bool(settings.local), edges=bool(settings.edges))
    parts = _Parts(task, weighing)
    start = _usual_alpha(parts.stack, task)
    if report:
        report(Progress("choosing weights", 0.0, float("nan"), float("nan")))
    if settings.inverse is not None:
        inverse, trial = settings.inverse, parts.trial(settings.inverse)
    elif weighing is None:
        inverse = stereo_like(task)
        trial = parts.trial(inverse)
    else:
        inverse, trial = parts.in_better_variable(inverse or stereo_like(task), start)
    alpha = trial.search(start, start if parts.reach else 0.0)
    plain, margins = alpha, trial.margins(alpha)
    spared = None if edges is None or settings.edges is False else parts.sample.plane(edges)
    chance = FEW_VIEWS_CHANCE if parts.reach else OUTLINED_CHANCE if outlined else EDGE_CHANCE
    alpha, sharp = trial.with_edges(alpha, start, spared, chance, quiet=quiet)
    margins = margins if alpha == plain else ()  # they are of fits without edge weights
    alpha, local = (alpha, settings.local) if settings.local is not None else trial.with_local(alpha)
    fewer = backend.count_observations(parts.kept.depths, parts.kept.weights)  # those that the fit used
    grown = start / _usual_alpha(parts.kept, fewer)
    alpha = (alpha[0] * grown, alpha[1] * grown)
    return Choices(alpha, inverse, local, sharp, None if weighing is None else weighing.growth.stated, margins)


def inverse_is_better(task: Task, weighing: Weighing) -> bool:
    """Whether a fit in inverse depth predicts held-out observations better than one in depth, at the usual weights."""
    if task.least <= 0:
        return False
    parts = _Parts(task, weighing)
    return parts.in_better_variable(False, _usual_alpha(parts.stack, task))[0]


class _Parts:
    """The observations of a task that are fitted, and those held out, on a sample of the image."""

    def __init__(self, task: Task, weighing: Weighing | None) -> None:
        self.task, self.weighing = task, weighing
        self.stack = task.stack.in_memory_of(task.backend)
        self.kept, held, self.reach = leave_out(self.stack, task.backend)
        self.sample = sample_of(task.domain, task.backend, 2 * self.reach + 1)
        self.sampled = self.sample.stack(self.kept), self.sample.stack(held)

    def trial(self, inverse: bool) -> _Trial:
        """Fits in depth, or in inverse depth."""
        kept, held = self.sampled
        if self.weighing is not None:
            weighing = replace(self.weighing, surface=self.sample.plane(self.weighing.surface))
            kept, held = weighing(kept, inverse=inverse), weighing(held, inverse=inverse)
        energy = energy_of(replace(PAPERS, inverse=inverse), self.task.energy.lam)
        return _Trial(prepare(energy, kept, self.task.backend, self.reach), held)

    def in_better_variable(self, inverse: bool, alpha_1: float) -> tuple[bool, _Trial]:
        """Whether to solve in inverse depth, and fits in that variable; `inverse` unless the other predicts better."""
        trials = {False: self.trial(False), True: self.trial(True)}
        if trials[True].predicts_better(trials[not inverse], trials[inverse], alpha_1):
            inverse = not inverse
        return inverse, trials[inverse]


class _Trial:
    """Fits without the held-out observations, all from the same start, each computed once."""

    def __init__(self, task: Task, held: Stack) -> None:
        self.stack = held
        self._fit_on(task, held)
        self.start: State | None = None
        self.step_scale = task.step_scale
        self.ratio = RATIOS[0]
        self.least = 0.0  # of alpha
        self.edges: Floats | None = None
        self.fits: dict[tuple[float, float], State] = {}

    def _fit_on(self, task: Task, held: Stack) -> None:
        """Fit on this task from now on, and score on the observations held out of it."""
        self.task = task
        self.confidence = fixed_confidence(task)
        inside, centre, inverse = task.inside(), task.centre, task.energy.inverse
        self.held = HeldOut(held.depths, held.weights, task.window, inside, centre, inverse)

    def predicts_better(self, one: _Trial, other: _Trial, alpha_1: float) -> bool:
        """Whether fits of one predict the held-out observations of these trials better than fits of the other."""
        mine, theirs = (self._seen_from_here(each, alpha_1) for each in (one, other))
        return self._predicts_better(mine, theirs, chance=VARIABLE_CHANCE)

    def _seen_from_here(self, trial: _Trial, alpha_1: float) -> Floats:
        """The fit of trials of the same observations at this alpha, in the variable of these."""
        task = trial.task
        x: Floats = trial._fitted((alpha_1, trial.ratio * alpha_1)).primal[0]
        if task is self.task:
            return x
        depth = task.whole_depth(x)[self.task.window]
        there = (1 / depth if self.task.energy.inverse else depth) - self.task.centre
        seen: Floats = np.where(self.task.inside(), there, 0).astype(self.task.dtype)
        return seen

    def search(self, start: float, least: float = 0.0) -> tuple[float, float]:
        """The alpha and ratio that predict the held-out observations best, starting from the usual ones.

        A `least` alpha is for single pixels held out of one view: errors that neighbours share look like surface.
        """
        self.least = 0.99 * least
        alpha_1 = self._walk(start, LADDER)
        ratio = RATIOS[0]
        for other in RATIOS[1:]:
            if self.better((alpha_1, other * alpha_1), (alpha_1, ratio * alpha_1)):
                ratio = other
                break
        finer = self._towards_better(alpha_1)
        self.ratio = ratio
        if finer != alpha_1 and self.better((finer, ratio * finer), (alpha_1, ratio * alpha_1)):
            alpha_1 = finer
        return alpha_1, ratio * alpha_1

    def margins(self, chosen: tuple[float, float]) -> tuple[tuple[float, float], ...]:
        """(factor, relative increase of the error) of the other alphas at the same ratio."""
        best, found = self._fitted(chosen), []
        for alpha, state in self.fits.items():
            if alpha != chosen and np.isclose(alpha[1] / alpha[0], chosen[1] / chosen[0]):
                gain, _, error = self.task.backend.score_difference(best.primal[0], state.primal[0], self.held)
                found.append((float(alpha[0] / chosen[0]), float(gain / error) if error > 0 else 0.0))
        return tuple(sorted(found))

    def _walk(self, start: float, factor: float, steps: int = LONGEST_WALK) -> float:
        """Multiply or divide alpha by the factor while the prediction improves."""
        for move in (factor, 1 / factor):
            best = start
            for _ in range(steps):
                if not self.better((best * move, self.ratio * best * move), (best, self.ratio * best)):
                    break
                best *= move
            if best != start:
                return best
        return start

    def _towards_better(self, alpha_1: float) -> float:
        """Half a step towards the neighbour on the ladder that predicts better; none if these are alike."""
        more, less = ((step * alpha_1, self.ratio * step * alpha_1) for step in (LADDER, 1 / LADDER))
        if less[0] < self.least or self.better(more, less):
            return alpha_1 * float(np.sqrt(LADDER))
        return alpha_1 / float(np.sqrt(LADDER)) if self.better(less, more) else alpha_1

    def better(self, alpha: tuple[float, float], than: tuple[float, float]) -> bool:
        """Whether this alpha predicts the held-out observations better than that.

        Held-out observations were associated through a surface that is itself too smooth at edges, which favours
        smoothness a little: a much smoother answer has to be better by more than that.
        """
        if min(alpha[0], alpha[1] / RATIOS[0]) < self.least:
            return False
        much = 0.99 * LADDER
        smoother = alpha[0] > much * than[0] or alpha[1] > much * than[1]
        other = self._fitted(than)  # first, so that all fits start from one at the usual alpha
        return self._predicts_better(self._fitted(alpha).primal[0], other.primal[0], LEAST_GAIN if smoother else 0.0)

    def _predicts_better(self, one: Floats, other: Floats, least: float = 0.0, chance: float = CHANCE) -> bool:
        """Whether the mean error of one is smaller by more than chance and by the least relative gain."""
        gain, by_chance, error = self.task.backend.score_difference(one, other, self.held)
        return gain > chance * by_chance and gain >= least * error

    def _fitted(self, alpha: tuple[float, float]) -> State:
        if alpha not in self.fits:
            self.fits[alpha] = self._fit(alpha)
        return self.fits[alpha]

    def with_edges(
        self,
        alpha: tuple[float, float],
        usual: float,
        edges: Floats | None,
        chance: float = EDGE_CHANCE,
        *,
        quiet: bool = False,
    ) -> tuple[tuple[float, float], bool]:
        """The alpha, and whether less smoothing across edges predicts held-out observations better by more than chance.

        A small alpha or another ratio may have been chosen for the edges: the usual ones are tried as well. Of quiet
        observations nearly all energy is that of edges, and no trial comes near its minimum: edges are spared unless
        that is clearly worse.
        """
        if edges is None:
            return alpha, False
        smooth = self._fitted(alpha)
        plain, self.task = self.task, self.task.with_edges(edges)
        best, chosen = self._fit(alpha), alpha
        tried = [alpha[0]]
        for first in (EDGE_LADDER * alpha[0], usual) if alpha[0] < usual else (EDGE_LADDER * alpha[0],):
            for step in range(MOST_EDGE_STEPS):
                alpha_1 = first * EDGE_LADDER**step
                if np.isclose(alpha_1, tried).any():
                    continue
                tried.append(alpha_1)
                candidate = (alpha_1, self.ratio * alpha_1)
                state = self._fit(candidate)
                if not self._predicts_better(state.primal[0], best.primal[0], chance=EDGE_CHANCE):
                    break
                best, chosen = state, candidate
        best, chosen = self._at_usual_ratio(best, chosen)
        spared, plain_fit = best.primal[0], smooth.primal[0]
        sharp = (
            not self._predicts_better(plain_fit, spared, CLEAR_GAIN, chance)
            if quiet
            else self._predicts_better(spared, plain_fit, chance=chance)
        )
        self.edges = edges if sharp else None
        self.task, self.fits = (self.task, {chosen: best}) if sharp else (plain, self.fits)
        return chosen if sharp else alpha, sharp

    def _at_usual_ratio(self, found: State, alpha: tuple[float, float]) -> tuple[State, tuple[float, float]]:
        """The fit at the usual ratio and its alpha, unless the one found predicts better by more than chance."""
        usual = alpha[0], RATIOS[0] * alpha[0]
        if np.isclose(alpha[1], usual[1]):
            return found, alpha
        state = self._fit(usual)
        if self._predicts_better(found.primal[0], state.primal[0], chance=EDGE_CHANCE):
            return found, alpha
        return state, usual

    def with_local(self, alpha: tuple[float, float]) -> tuple[tuple[float, float], bool]:
        """The alpha, and whether weights by local noise predict the held-out observations better."""
        task = self.task
        reached = self._fitted(alpha)
        depth = depth_of(task, reached)
        weighed = local_weights(task.stack, depth, task.backend)
        assert weighed.weights is not None
        changed, observed = _changed(task.stack.depths, task.stack.weights, weighed.weights)
        if not float(changed) > EVEN * float(observed):
            return alpha, False
        self.start = reached  # a common start, so that compared fits are equally converged
        best, chosen, local = self._fit(alpha), alpha, False
        held = local_weights(self.stack, depth, task.backend)
        weighed_task = prepare(task.energy, weighed, task.backend, task.fill_radius)
        self._fit_on(weighed_task.with_edges(self.edges), held)
        self.start = WarmStart.of(task, reached).transfer(self.task)
        for factor in LOCAL_FACTORS:
            candidate = (factor * alpha[0], factor * alpha[1])
            state = self._fit(candidate)
            if not self._predicts_better(state.primal[0], best.primal[0], chance=LOCAL_CHANCE):
                break
            best, chosen, local = state, candidate, True
        return chosen, local

    def _fit(self, alpha: tuple[float, float]) -> State:
        """The fit at this alpha, from the state of the first fit."""
        energy = self.task.energy
        task = self.task.with_energy(energy_of(Choices(alpha, energy.inverse), energy.lam))
        if self.start is None:
            self.start = task.initial_state()
            self.step_scale *= NEARBY * advance(ROUGH, task, self.confidence, self.start)
        state = self.start.branch()
        paced = replace(task, step_scale=self.step_scale * (1.0 if task.edge is None else EDGE_STEPS))
        replace(ROUGH, fixed_steps=True).advance(paced, paced.problem(self.confidence), state)
        return state


@one_pass
def _changed(depths: Floats, before: Floats | None, weights: Floats) -> tuple[Any, Any]:
    """By how much weights (K, H, W) were changed: the sum of the sizes of the logarithms, and their number."""
    observed = ~np.isnan(depths) if before is None else before > 0
    ratio = weights if before is None else weights / np.where(observed, before, np.float32(1))
    sizes = np.where(observed, np.abs(np.log(np.maximum(ratio, np.float32(SMALL)))), 0)
    return sizes.sum(dtype=np.float64), observed.sum()


def _usual_alpha(stack: Stack, held: Task | Coverage) -> float:
    """1.2 sqrt(K) for K observations per pixel of weight one; proportional to the weights otherwise.

    `held` has the number of pixels and the sum of the weights of the stack, which is in the backend's memory.
    """
    usual = 1.0 if stack.weights is None else usual_weight(stack.weights)
    return ALPHA_PER_ROOT_VIEW * float(np.sqrt(usual * held.mass / max(held.pixels, 1)))
