"""A triangle mesh of the zero set of a function."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import InputError

Faces: TypeAlias = NDArray[np.int64]  # (F, 3), indices of vertices

PROJECTIONS = 4  # Newton steps; each squares the distance to the surface


def isosurface(
    field: Callable[[Points], NDArray[np.float64]], lower: Points, upper: Points, resolution: int
) -> tuple[Points, Faces]:
    """Vertices (V, 3) and faces (F, 3) of {field = 0}, with field < 0 inside and faces outwards.

    Surface nets: one vertex in each grid cell that the surface crosses, one quadrilateral around each grid edge whose
    ends differ in sign; the vertices are then projected onto the surface.
    The box from lower to upper has `resolution` cells along its longest side and must enclose the surface.
    """
    spacing = float((upper - lower).max()) / resolution
    counts = np.ceil((upper - lower) / spacing).astype(int) + 1
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in counts), indexing="ij"), axis=-1) * spacing + lower
    inside = field(grid) < 0
    if not inside.any() or any(inside.take([0, -1], axis=axis).any() for axis in range(3)):
        raise InputError("the surface crosses the border of the box; widen the box")
    corners = _corner_count(inside)
    crossed = (corners > 0) & (corners < 8)
    vertex_of_cell = np.full(crossed.shape, -1, dtype=np.int64)
    vertex_of_cell[crossed] = np.arange(np.count_nonzero(crossed))
    centres = (np.argwhere(crossed) + 0.5) * spacing + lower
    return _project(field, centres, spacing), _quadrilaterals(inside, vertex_of_cell)


def _corner_count(inside: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of corners of each cell that lie inside."""
    count = inside.astype(np.int64)
    for axis in range(3):
        size = count.shape[axis]
        count = count.take(range(size - 1), axis=axis) + count.take(range(1, size), axis=axis)
    return count


def _quadrilaterals(inside: NDArray[np.bool_], vertex_of_cell: Faces) -> Faces:
    """Two triangles across each grid edge that the surface crosses, joining the four cells around it."""
    faces = []
    for axis in range(3):
        b, c = (axis + 1) % 3, (axis + 2) % 3  # axis, b, c is right-handed
        signs = np.moveaxis(inside, (axis, b, c), (0, 1, 2)).astype(np.int8)
        cells = np.moveaxis(vertex_of_cell, (axis, b, c), (0, 1, 2))
        change = np.diff(signs, axis=0)[:, 1:-1, 1:-1]
        ring = cells[:, :-1, :-1], cells[:, 1:, :-1], cells[:, 1:, 1:], cells[:, :-1, 1:]
        for sign in (-1, 1):  # -1: inside to outside, the outward normal points along the axis
            quad = np.stack([each[change == sign] for each in ring[::-sign]], axis=-1)
            faces += [quad[:, [0, 1, 2]], quad[:, [0, 2, 3]]]
    return np.concatenate(faces)


def _project(field: Callable[[Points], NDArray[np.float64]], points: Points, spacing: float) -> Points:
    """Move points onto {field = 0} along the gradient, by at most one cell per step."""
    h = 1e-4 * spacing
    for _ in range(PROJECTIONS):
        value = field(points)
        gradient = np.stack([(field(points + h * e) - field(points - h * e)) / (2 * h) for e in np.eye(3)], axis=-1)
        length = np.maximum(np.linalg.norm(gradient, axis=-1), 1e-12)
        step = np.clip(value / length, -spacing, spacing)
        points = points - (step / length)[:, None] * gradient
    return points
