"""Fits to halves of the observations: their distance from the fit to all shows the uncertainty of that fit.

Two kinds of halves: blocks of the image (the even views here, the odd ones in the next block), and whole views, with
similar ones in one half. The first shows noise, the second also errors common to a view and its neighbours: its scale,
a drifting pose. A single view is halved by random pixels. The other half is not fitted: it lies as far away on the
other side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cfusion.arrays import TINY
from cfusion.auto.fit import Fit
from cfusion.auto.folds import REACH, in_groups, most_alike
from cfusion.auto.surface import count_known
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask
from cfusion.kernels.numpy.trials import parted
from cfusion.kernels.one_pass import added_up, one_pass, some_views
from cfusion.solvers import PDHG
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.task import Task, prepare

BLOCK = 32  # pixels: noise of a view is correlated over shorter distances
REFIT = PDHG(tolerance=2e-4, iterations=96, certify=False, fixed_steps=True)  # from the solution: changes happen early
FEW = 0.01  # of the observed pixels: for fewer, another refit is not worth its time


@dataclass(frozen=True, eq=False)
class Half:
    """The surface (H, W) of a half in the variable of the solve, NaN where it has no observation."""

    x: Floats
    n: Floats  # (H, W) weight of its observations
    left_out: Floats  # (H, W) weight of the others


def refit_halves(found: Fit) -> list[Half]:
    """The surface of the half of fewer views, for every kind of halves."""
    stack, backend = found.task.stack.in_memory_of(found.task.backend), found.task.backend
    return [Half(refit(found, fewer), _mass(fewer), _mass(more)) for more, fewer in _splits(stack, backend)]


def refit_pixels(found: Fit, untold: Mask) -> Half | None:
    """A half of the pixels, for areas that one view alone measured; None if hardly any pixel needs it."""
    stack, backend = found.task.stack.in_memory_of(found.task.backend), found.task.backend
    mass = _mass(stack)
    asking, observed = (int(each) for each in _asking(mass, untold))
    if asking <= FEW * observed:
        return None
    drawn = np.random.default_rng(0).random(stack.shape) < 0.5
    held = drawn if stack.on_host else backend.to_device(drawn, np.bool_)
    one, _, known = parted(stack.depths, stack.weights, held)
    if not min(known):
        return None
    return Half(refit(found, stack.with_depths(*one), REACH), mass / 2, mass / 2)


def _splits(stack: Stack, backend: Backend) -> Iterator[tuple[Stack, Stack]]:
    groups, distances = in_groups(stack, backend)
    if len(groups) < 2:
        return
    even = np.zeros(stack.views, np.bool_)
    for place, group in enumerate(groups):
        even[group] = place % 2 == 0
    one, other, known = backend.split_folds(stack.depths, stack.weights, np.stack([even, ~even], axis=1), BLOCK)
    if min(known):
        yield stack.with_depths(*one), stack.with_depths(*other)
    alike = most_alike(groups, distances)
    halves = [_views(stack, np.flatnonzero(each).tolist()) for each in (~alike, alike)]
    if all(int(count_known(half.depths)) for half in halves):
        yield halves[0], halves[1]


def _views(stack: Stack, chosen: list[int]) -> Stack:
    """Some views alone: fewer to sort than with the others as unknown maps."""
    weights = None if stack.weights is None else some_views(stack.weights, chosen)
    return stack.with_depths(some_views(stack.depths, chosen), weights)


def refit(found: Fit, half: Stack, reach: int = 0) -> Floats:
    """x of one half, with the regulariser times the root of its share, so that noise is smoothed as in the whole.

    With the half's own steps: those at the end of the whole's solve are for its certificate, and so long that a few
    iterations leave walls off by more than their noise.
    """
    whole = found.task
    task = prepare(whole.energy, half, whole.backend, reach).with_edges(found.edges)
    share = task.mass / max(whole.mass, TINY)
    regulariser = whole.energy.regulariser
    assert regulariser is not None
    alpha = tuple(np.sqrt(share) * each for each in regulariser.alpha)
    task = task.with_energy(replace(whole.energy, regulariser=replace(regulariser, alpha=alpha)))
    state = found.end.transfer(task)
    REFIT.advance(task, task.problem(fixed_confidence(task)), state)
    return _coordinate(task, state.primal[0])


def _coordinate(task: Task, x: Floats) -> Floats:
    """x plus its centre, on the whole image."""
    return task.backend.to_image(x, task.domain, task.window, float("nan"), task.centre, False)


def _mass(stack: Stack) -> Floats:
    """The weight (H, W) of the observations per pixel; their number if they have no weights."""
    added = added_up(_known, stack.depths) if stack.weights is None else added_up(_weighed, stack.weights)
    mass: Floats = added[0]
    return mass


def _known(depths: Floats) -> tuple[Floats]:
    return ((~np.isnan(depths)).astype(np.float32),)


def _weighed(weights: Floats) -> tuple[Floats]:
    return (weights.astype(np.float32),)


@one_pass
def _asking(mass: Floats, untold: Mask) -> tuple[Any, Any]:
    """The number of observed pixels without an estimate, and of observed pixels."""
    observed = mass > 0
    return (observed & untold).sum(), observed.sum()
