"""Holes of `auto`: within one surface they are interpolated after the solve, between two they stay unknown.

Three mechanisms fill holes. (1) The splat closes its own pinholes, per view, by natural neighbours (`source/splat.py`).
(2) `fill_radius` of the paper's methods lets the regulariser bridge holes, whose pixels join the domain of the solve
(`solvers/task.py`). (3) `auto`, here: TGV would bridge the hole between a car and the road behind it by a slope, so
holes stay out of its domain, and natural neighbours fill those surrounded by one surface.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.arrays import SMALL
from cfusion.auto.surface import add_plane, steps
from cfusion.kernels.contract import Backend, Floats, Mask, State
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import neighbour
from cfusion.solvers.task import Task

STEEP = 4.0  # times what the median change between neighbours adds up to over this distance is an edge
NOISE = 6.0  # times the error of the start is ignored
CLOSE, SCATTERED = 5, 1.5  # pixels between which maps of few pixels are closed, and the least growth of their number


def unmeasured_are_holes(weights: Floats, backend: Backend) -> bool:
    """Whether pixels without a weight (H, W) of the reference are holes; else they are background, which has no depth.

    They are if the reference measured most of its image, or pixels here and there, as a lidar does: fewer than half of
    their neighbours in a row or column, and others within CLOSE pixels around, unlike a wire before nothing.
    """
    measured, *neighbours = (int(each) for each in _measured(weights))
    if 2 * measured > weights.size or 2 * min(neighbours) >= measured:
        return 2 * measured > weights.size
    return int(backend.close_mask(weights > 0, CLOSE).sum()) > SCATTERED * measured


def fill_within_surfaces(task: Task, state: State, radius: int, growth: DepthNoise | None = None) -> Floats:
    """The state's depth on the whole image, with holes up to `radius` pixels within one surface interpolated.

    A surface is one if it changes little in the variable of the solve; for inverse depth with a `growth` of the noise,
    in that of constant noise.
    """
    backend, observed = task.backend, task.domain
    holes, any_hole = _holes(backend.close_mask(observed, radius), observed) if radius else (observed, 0)
    if not any_hole:
        return task.given_back(task.whole_depth(state.primal[0]))
    known = task.whole(state.primal[0], float("nan"))
    plain, error = known, task.step_scale
    if task.energy.inverse and growth is not None and not growth.even(inverse=True):
        plain = _of_constant_noise(known, known.dtype.type(task.centre), *growth.numbers, law=growth.law)
        error *= growth.middle**2
    change = backend.local_depth_range(plain, radius)
    (usual, *slopes), (_, *amounts) = backend.medians(_changes(known, plain))
    # a plane is subtracted and added back, as the interpolant of a plane is not quite a plane
    down, right = (step if amount else 0.0 for step, amount in zip(slopes, amounts, strict=True))
    within = STEEP * 2 * radius * usual + NOISE * error
    filled = backend.fill_natural(*_to_fill(known, holes, change, within, down, right))
    centre, inverse = known.dtype.type(task.centre), task.energy.inverse
    return task.given_back(_completed(known, observed, filled, down, right, centre, inverse=inverse))


@one_pass
def _measured(weights: Floats) -> tuple[Any, Any, Any]:
    """How many pixels have a weight, and how many of these have a neighbour below, and to the right, that has one."""
    known = (weights > 0).astype(np.float32)
    below, right = known * neighbour(known, 1, 0, 0), known * neighbour(known, 0, 1, 0)
    return known.sum(dtype=np.float64), below.sum(dtype=np.float64), right.sum(dtype=np.float64)


@one_pass
def _holes(closed: Mask, observed: Mask) -> tuple[Mask, Any]:
    """Pixels (H, W) that are closed but not observed, and their number."""
    holes: Mask = closed & ~observed
    return holes, holes.sum()


@one_pass
def _of_constant_noise(x: Floats, centre: np.float32, *numbers: np.float32, law: DepthNoise) -> Floats:
    """The variable of constant noise (H, W) for inverse depths x."""
    out: Floats = law.at(*numbers).of_constant_noise(1 / np.maximum(x + centre, np.float32(SMALL)))
    return out


@one_pass
def _completed(
    known: Floats, observed: Mask, filled: Floats, down: float, right: float, centre: np.float32, *, inverse: bool
) -> Floats:
    """Depth (H, W): known where observed, else the filled value with the plane added back."""
    depth = np.where(observed, known, add_plane(filled, down, right)) + centre
    if not inverse:
        return depth
    with np.errstate(divide="ignore"):
        return np.where(depth > 0, 1 / depth, np.nan).astype(np.float32)


@one_pass
def _changes(known: Floats, plain: Floats) -> Floats:
    """(3, H, W): size of the change from a pixel to the next ones, and the steps to them.

    Of the changes between neighbours few are edges; of those over the width of a hole most may be.
    """
    down, right = steps(plain)
    out: Floats = np.stack([np.abs(down) + np.abs(right), *steps(known)])
    return out


@one_pass
def _to_fill(known: Floats, holes: Mask, change: Floats, most: float, down: float, right: float) -> tuple[Floats, Mask]:
    """The known depths less a plane, and the holes to fill; (H, W) each."""
    return add_plane(known, -down, -right), _within_one(holes, change, most)


@one_pass
def _within_one(holes: Mask, change: Floats, most: float) -> Mask:
    """Holes (H, W) around which the observed depths are similar."""
    out: Mask = holes & (change <= most)
    return out
