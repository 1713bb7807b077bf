"""A grid of distances continued by one voxel over its border, as a plane would go on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

REACH = 2  # voxels around a place that its value depends on
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def continued(distance: Floats, known: Bools, truncation: float) -> tuple[Floats, Bools]:
    """Unknown voxels next to known ones: the mean over these, y, of 2 d(y) - d(y + y - x), or of d(y) at thin places.

    The last pixel of a surface is seen by its centre, and a cube needs all its corners: without this a mesh ends half
    a pixel to a pixel before what was measured does.
    """
    summed, count = np.zeros(distance.shape, np.float32), np.zeros(distance.shape, np.float32)
    for axis in range(3):
        for step in (1, -1):
            beside, beyond = _moved(known, axis, step), _moved(known, axis, 2 * step)
            next_to = _moved(distance, axis, step)
            after = _moved(distance, axis, 2 * step)
            summed += np.where(beside, np.where(beyond, 2 * next_to - after, next_to), 0)
            count += beside
    new = ~known & (count > 0)
    filled = np.where(new, np.clip(summed / np.maximum(count, 1), -truncation, truncation), distance)
    return filled.astype(np.float32), known | new


def spread(colour: Floats, painted: Bools) -> Floats:
    """(..., 3) colours, of voxels without one those of their neighbours."""
    summed, count = np.zeros(colour.shape, np.float32), np.zeros((*painted.shape, 1), np.float32)
    for axis in range(3):
        for step in (1, -1):
            beside = _moved(painted, axis, step)[..., None]
            summed += np.where(beside, _moved(colour, axis, step), 0)
            count += beside
    return np.where(painted[..., None], colour, summed / np.maximum(count, 1)).astype(np.float32)


def _moved(grid: NDArray, axis: int, step: int) -> NDArray:  # type: ignore[type-arg]
    """The value `step` places further along an axis; 0 beyond the grid."""
    out = np.zeros_like(grid)
    here, there = [slice(None)] * grid.ndim, [slice(None)] * grid.ndim
    here[axis], there[axis] = (
        (slice(None, -step), slice(step, None)) if step > 0 else (slice(-step, None), slice(None, step))
    )
    out[tuple(here)] = grid[tuple(there)]
    return out
