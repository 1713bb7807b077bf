"""Extrapolate a grid of signed distances linearly by one voxel beyond its known region."""

import numpy as np
from numpy.typing import NDArray

REACH = 2  # voxels on each side that an extrapolated value depends on
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def extrapolated(distance: Floats, known: Bools, truncation: float) -> tuple[Floats, Bools]:
    """Extrapolate d to unknown voxels x next to known ones: the mean over known neighbours y of 2 d(y) - d(2 y - x).

    Where 2 y - x is unknown (a region one voxel thin) the neighbour contributes d(y). Marching cubes needs all eight
    corners of a cube: without this step a mesh ends half a pixel to a pixel before the last measured pixel.
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


def spread_colours(colour: Floats, painted: Bools) -> Floats:
    """Colours (..., 3); a voxel without a colour takes the mean of its painted neighbours."""
    summed, count = np.zeros(colour.shape, np.float32), np.zeros((*painted.shape, 1), np.float32)
    for axis in range(3):
        for step in (1, -1):
            beside = _moved(painted, axis, step)[..., None]
            summed += np.where(beside, _moved(colour, axis, step), 0)
            count += beside
    return np.where(painted[..., None], colour, summed / np.maximum(count, 1)).astype(np.float32)


def _moved(grid: NDArray, axis: int, step: int) -> NDArray:  # type: ignore[type-arg]
    """grid[i + step] along an axis; 0 outside the grid."""
    out = np.zeros_like(grid)
    here, there = [slice(None)] * grid.ndim, [slice(None)] * grid.ndim
    here[axis], there[axis] = (
        (slice(None, -step), slice(step, None)) if step > 0 else (slice(-step, None), slice(None, step))
    )
    out[tuple(here)] = grid[tuple(there)]
    return out
