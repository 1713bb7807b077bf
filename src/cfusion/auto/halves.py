"""The same fit on halves of the observations: how far two of them are apart tells how sure the whole one is.

Two splits: every view halved by blocks of the image (one half has the even views here, the odd ones in the next block),
and whole views, those that differ least in one half. The first sees noise, the second also what a view has in common
with itself and with views beside it: its scale, a pose that drifts. Of a single view, pixels drawn at random are the
halves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfusion.auto.fit import Fit, mass_of
from cfusion.auto.folds import in_groups, most_alike
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.numpy.trials import parted
from cfusion.kernels.one_pass import added_up, one_pass
from cfusion.solvers import PDHG
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.task import Task, prepare

BLOCK = 32  # pixels: noise of a view is alike over fewer
REFIT = PDHG(tolerance=2e-4, iterations=120, certify=False, fixed_steps=True)  # from the answer: what moves moves early
FEW = 0.01  # of the observed pixels: two more refits for fewer would cost more than they tell
REACH = 2  # pixels: what a half of the pixels of one view leaves out is bridged


@dataclass(frozen=True, eq=False)
class Halves:
    """Two surfaces in the variable of the solve, (H, W), NaN where a half has no observation; and n of each."""

    one: Floats
    other: Floats
    n_one: Floats
    n_other: Floats

    def parts(self) -> tuple[Floats, Floats, Floats, Floats]:
        """As `middle` takes them."""
        return self.one, self.other, self.n_one, self.n_other


def middle(one: Floats, other: Floats, n_one: Floats, n_other: Floats) -> Floats:
    """(H, W) the mean of two halves by what they hold; NaN where one of them does not know."""
    out: Floats = (n_one * one + n_other * other) / np.maximum(n_one + n_other, 1)
    return out


def refit_halves(found: Fit) -> list[Halves]:
    """The surfaces of both halves of every split of the views."""
    stack, backend = found.task.stack.in_memory_of(found.task.backend), found.task.backend
    return [
        Halves(refit(found, one), refit(found, other), _count(one), _count(other))
        for one, other in _splits(stack, backend)
    ]


def refit_pixels(found: Fit, untold: Mask) -> Halves | None:
    """What one view measured alone is halved by pixels; None where hardly a pixel that is untold asks for it."""
    stack, backend = found.task.stack.in_memory_of(found.task.backend), found.task.backend
    count = _count(stack)
    asking, observed = (int(each) for each in _asking(count, untold))
    if asking <= FEW * observed:
        return None
    drawn = np.random.default_rng(0).random(stack.shape) < 0.5
    held = drawn if stack.on_host else backend.to_device(drawn, np.bool_)
    one, other, known = parted(stack.depths, stack.weights, held)
    if not min(known):
        return None
    first, second = (refit(found, stack.with_depths(*half), REACH) for half in (one, other))
    return Halves(first, second, count / 2, count / 2)


def _splits(stack: Stack, backend: Backend) -> Iterator[tuple[Stack, Stack]]:
    groups, distances = in_groups(stack, backend)
    if len(groups) < 2:
        return
    even = np.zeros(stack.views, np.bool_)
    for place, group in enumerate(groups):
        even[group] = place % 2 == 0
    alike = most_alike(groups, distances)
    for turns in (np.stack([even, ~even], axis=1), np.stack([alike, alike], axis=1)):
        one, other, known = backend.split_folds(stack.depths, stack.weights, turns, BLOCK)
        if min(known):
            yield stack.with_depths(*one), stack.with_depths(*other)


def refit(found: Fit, half: Stack, reach: int = 0) -> Floats:
    """x of one half, the regulariser times the root of its share, so that as little of its noise gets through."""
    whole = found.task
    task = prepare(whole.energy, half, whole.backend, reach)
    share = float(mass_of(task.observations.total)) / max(found.mass, 1e-300)
    regulariser = whole.energy.regulariser
    assert regulariser is not None
    alpha = tuple(np.sqrt(share) * each for each in regulariser.alpha)
    task = task.with_energy(replace(whole.energy, regulariser=replace(regulariser, alpha=alpha)))
    state = found.end.transfer(task)
    start = replace(task, step_scale=found.outcome.step_scale / max(share, 1e-3))
    REFIT.advance(start, task.problem(fixed_confidence(task)), state)
    return _coordinate(task, state.primal[0])


def _coordinate(task: Task, x: Floats) -> Floats:
    """x with its centre, on the whole image."""
    return task.backend.to_image(x, task.domain, task.window, float("nan"), task.centre, False)


def _count(stack: Stack) -> Floats:
    """(H, W) how many observations a pixel has."""
    known = added_up(_known, stack.depths) if stack.weights is None else added_up(_weighed, stack.weights)
    count: Floats = known[0]
    return count


def _known(depths: Floats) -> tuple[Floats]:
    return ((~np.isnan(depths)).astype(np.float32),)


def _weighed(weights: Floats) -> tuple[Floats]:
    return ((weights > 0).astype(np.float32),)


@one_pass
def _asking(count: Floats, untold: Mask) -> tuple[Any, Any]:
    """How many pixels were observed and are untold of, and how many were observed."""
    observed = count > 0
    return (observed & untold).sum(), observed.sum()
