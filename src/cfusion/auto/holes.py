"""Holes of `auto`: those within one surface are interpolated after the solve, those between two stay unknown.

Three mechanisms fill holes, each in its place. (1) The splat closes its own pinholes, per view, by natural neighbours
(`source/splat.py`). (2) `fill_radius` of a method of the paper lets the regulariser bridge holes: their pixels join the
domain of the solve (`solvers/task.py`). (3) `auto`, here: TGV would bridge the hole between a car and the road behind
it by a slope, so holes stay out of its domain, and natural neighbours fill those around which one surface lies.
"""

from __future__ import annotations

import numpy as np

from cfusion.auto.surface import add_plane, steps
from cfusion.kernels.contract import Backend, Floats, Mask, State
from cfusion.solvers.task import Task

STEEP = 4.0  # times the usual change over such a distance is an edge
NOISE = 6.0  # times what the start is off by does not count


def fill_within_surfaces(task: Task, state: State, radius: int) -> Floats:
    """The state's depth on the whole image, holes up to `radius` pixels within one surface interpolated."""
    backend, observed = task.backend, task.domain
    holes = backend.close_mask(observed, radius) & ~observed if radius else None
    if holes is None or not holes.any():
        return task.given_back(task.whole_depth(state.primal[0]))
    known = task.whole(state.primal[0], float("nan"))
    holes &= same_surface(known, observed, radius, task.step_scale, backend)
    # a plane is taken out and put back: the interpolant of one is not quite a plane
    slopes, amounts = backend.medians(steps(known))
    down, right = (step if amount else 0.0 for step, amount in zip(slopes, amounts, strict=True))
    filled = add_plane(backend.fill_natural(add_plane(known, -down, -right), holes), down, right)
    return task.given_back(task.depth(np.where(observed, known, filled)))


def same_surface(x: Floats, observed: Mask, radius: int, noise: float, backend: Backend) -> Mask:
    """Pixels around which what was observed lies, within the radius, at about the same depth; x is NaN elsewhere."""
    change = backend.local_depth_range(x, radius)
    (usual,), _ = backend.medians(np.where(observed, change, np.nan)[None])
    near: Mask = change <= STEEP * usual + NOISE * noise
    return near
