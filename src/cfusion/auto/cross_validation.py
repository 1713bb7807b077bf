"""Choices by cross-validation: a candidate is fitted without some observations and scored on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cfusion.auto.fit import EDGE_STEPS, ROUGH, advance, depth_of, energy_of
from cfusion.auto.folds import leave_out
from cfusion.auto.noise import local_weights, stereo_like, usual_weight
from cfusion.auto.sample import sample_of
from cfusion.auto.settings import Choices, Settings
from cfusion.geometry import Stack
from cfusion.kernels.contract import Coverage, Floats, HeldOut, State
from cfusion.solvers import Progress, Report, WarmStart
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.task import Task, prepare

ALPHA_PER_ROOT_VIEW = 1.2  # initial value of the search: alpha_1 = 1.2 sqrt(K)
LADDER = 2.0  # factor on alpha during the search; its square root at the end
RATIOS = (2.0, 1.0, 4.0)  # alpha_2 / alpha_1, the usual one first
LONGEST_WALK = 6  # steps of the search
CHANCE, LEAST_GAIN = 2.0, 0.003  # standard errors; least relative gain of a much smoother answer
LOCAL_CHANCE = 3.0  # standard errors, for local weights: with two, rounding could decide
LOCAL_FACTORS = (1.0, 1.5, 2.25)  # factors on alpha tried with local weights
EDGE_CHANCE = 1.5  # standard errors, for edge weights: few observations are near edges
EDGE_FACTORS = (2.0, 4.0)  # further factors on alpha tried with edge weights, which spare edges in its place
NEARBY = 0.2  # of the first fit's final steps; longer ones choose another alpha on some scenes


def usual_choices(task: Task) -> Choices:
    """The weights from which the search starts."""
    alpha_1 = _usual_alpha(task.stack.in_memory_of(task.backend), task)
    return Choices((alpha_1, RATIOS[0] * alpha_1))


def choose(task: Task, settings: Settings, edges: Floats | None = None, report: Report | None = None) -> Choices:
    """The choices that best predict the held-out observations of a task."""
    backend, lam = task.backend, task.energy.lam
    inverse = stereo_like(task) if settings.inverse is None else settings.inverse
    stack = task.stack.in_memory_of(backend)
    kept, held = leave_out(stack, backend)
    sample = sample_of(task.domain, backend)
    energy = energy_of(Choices((1.0, 2.0), inverse), lam)
    trial = _Trial(prepare(energy, sample.stack(kept), backend), sample.stack(held))
    start = _usual_alpha(stack, task)
    if report:
        report(Progress("choosing weights", 0.0, float("nan"), float("nan")))
    alpha = trial.search(start)
    margins = trial.margins(alpha)
    alpha, sharp = trial.with_edges(alpha, None if settings.edges is False else sample.plane(edges))
    fewer = backend.count_observations(kept.depths, kept.weights)  # those that the fit used
    grown = start / _usual_alpha(kept, fewer)
    alpha = (alpha[0] * grown, alpha[1] * grown)
    alpha, local = (alpha, settings.local) if settings.local is not None else trial.with_local(alpha)
    return Choices(alpha, inverse, local, sharp, margins)


class _Trial:
    """Fits without the held-out observations, all from the same start, each computed once."""

    def __init__(self, task: Task, held: Stack) -> None:
        self.stack = held
        self._fit_on(task, held)
        self.start: State | None = None
        self.step_scale = task.step_scale
        self.ratio = RATIOS[0]
        self.edges: Floats | None = None
        self.fits: dict[tuple[float, float], State] = {}

    def _fit_on(self, task: Task, held: Stack) -> None:
        """Fit on this task from now on, and score on the observations held out of it."""
        self.task = task
        self.confidence = fixed_confidence(task)
        inside, centre, inverse = task.inside(), task.centre, task.energy.inverse
        self.held = HeldOut(held.depths, held.weights, task.window, inside, centre, inverse)

    def search(self, start: float) -> tuple[float, float]:
        """The alpha and ratio that predict the held-out observations best, starting from the usual ones."""
        alpha_1 = self._walk(start, LADDER)
        ratio = RATIOS[0]
        for other in RATIOS[1:]:
            if self.better((alpha_1, other * alpha_1), (alpha_1, ratio * alpha_1)):
                ratio = other
        self.ratio = ratio
        alpha_1 = self._walk(alpha_1, float(np.sqrt(LADDER)), 1)
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

    def better(self, alpha: tuple[float, float], than: tuple[float, float]) -> bool:
        """Whether this alpha predicts the held-out observations better than that.

        Held-out observations were associated through a surface that is itself too smooth at edges, which favours
        smoothness a little: a much smoother answer has to be better by more than that.
        """
        much = 0.99 * LADDER
        smoother = alpha[0] > much * than[0] or alpha[1] > much * than[1]
        other = self._fitted(than)  # first, so that all fits start from one at the usual alpha
        return self._predicts_better(self._fitted(alpha), other, LEAST_GAIN if smoother else 0.0)

    def _predicts_better(self, one: State, other: State, least: float = 0.0, chance: float = CHANCE) -> bool:
        """Whether the mean error of one is smaller by more than chance and by the least relative gain."""
        gain, by_chance, error = self.task.backend.score_difference(one.primal[0], other.primal[0], self.held)
        return gain > chance * by_chance and gain >= least * error

    def _fitted(self, alpha: tuple[float, float]) -> State:
        if alpha not in self.fits:
            self.fits[alpha] = self._fit(alpha)
        return self.fits[alpha]

    def with_edges(self, alpha: tuple[float, float], edges: Floats | None) -> tuple[tuple[float, float], bool]:
        """The alpha, and whether less smoothing across edges predicts the held-out observations better."""
        if edges is None:
            return alpha, False
        smooth = self._fitted(alpha)
        plain, self.task = self.task, self.task.with_edges(edges)
        best, chosen = self._fit(alpha), alpha
        for factor in EDGE_FACTORS:
            candidate = (factor * alpha[0], factor * alpha[1])
            state = self._fit(candidate)
            if not self._predicts_better(state, best, chance=EDGE_CHANCE):
                break
            best, chosen = state, candidate
        sharp = self._predicts_better(best, smooth, chance=EDGE_CHANCE)
        self.edges = edges if sharp else None
        self.task = self.task if sharp else plain
        return chosen if sharp else alpha, sharp

    def with_local(self, alpha: tuple[float, float]) -> tuple[tuple[float, float], bool]:
        """The alpha, and whether weights by local noise predict the held-out observations better."""
        task = self.task
        reached = self.start = self._fit(alpha)  # a common start, so that compared fits are equally converged
        best, chosen, local = self._fit(alpha), alpha, False
        depth = depth_of(task, best)
        held = local_weights(self.stack, depth, task.backend)
        weighed = local_weights(task.stack, depth, task.backend)
        self._fit_on(prepare(task.energy, weighed, task.backend).with_edges(self.edges), held)
        self.start = WarmStart.of(task, reached).transfer(self.task)
        for factor in LOCAL_FACTORS:
            candidate = (factor * alpha[0], factor * alpha[1])
            state = self._fit(candidate)
            if not self._predicts_better(state, best, chance=LOCAL_CHANCE):
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


def _usual_alpha(stack: Stack, held: Task | Coverage) -> float:
    """1.2 sqrt(K) for K observations per pixel of weight one; proportional to the weights otherwise.

    `held` has the number of pixels and the sum of the weights of the stack, which is in the backend's memory.
    """
    usual = 1.0 if stack.weights is None else usual_weight(stack.weights)
    return ALPHA_PER_ROOT_VIEW * float(np.sqrt(usual * held.mass / max(held.pixels, 1)))
