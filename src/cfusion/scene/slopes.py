"""Normals of a fused map that are not tilted by its depth edges, and the planes of its pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Normals, Points
from cfusion.geometry import Camera, Pinhole
from cfusion.geometry.normals import normals_of_steps

if TYPE_CHECKING:
    from cfusion.scene.fused_view import FusedView

BENT = (0.5, 2.0)  # limits of a pixel's plane, times its depth: half a pixel away the surface is within them


def one_sided_normals(depth: DepthMap, camera: Camera) -> Normals:
    """Unit normals (H, W, 3) facing the camera; NaN where undefined.

    Along each axis, with steps f to the next and b from the previous point, whose depth changes are df and db:

        d = (f db^2 + b df^2) / (df^2 + db^2)

    the mean on a plane, the flatter step at an edge, the known one if the other is unknown. (A forward difference
    crosses every edge: the last pixels of a surface would appear seen at a grazing angle, and be dropped.)
    """
    points = camera.back_project(depth)
    return normals_of_steps(_step(points, 1), _step(points, 0), camera)


def _step(points: Points, axis: int) -> Points:
    """The step (H, W, 3) to the next point along an axis, weighted towards the side of smaller depth change."""
    points = np.moveaxis(points.astype(np.float64), axis, 0)
    forward, backward = np.full_like(points, np.nan), np.full_like(points, np.nan)
    forward[:-1] = backward[1:] = points[1:] - points[:-1]
    tiny = 1e-12 * np.square(points[..., 2:])
    weight_forward, weight_backward = np.square(backward[..., 2:]) + tiny, np.square(forward[..., 2:]) + tiny
    with np.errstate(invalid="ignore"):
        both = (weight_forward * forward + weight_backward * backward) / (weight_forward + weight_backward)
    step = np.where(np.isnan(both), np.where(np.isnan(forward), backward, forward), both)
    return np.moveaxis(step, 0, axis)


def on_plane(
    view: FusedView,
    u: NDArray[np.float64],
    v: NDArray[np.float64],
    row: NDArray[np.int64],
    column: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Depth at (u, v) of the plane through a pixel's point: n . x = n . p."""
    depth, normal, camera = view.depth[row, column].astype(np.float64), view.normals[row, column], view.camera
    across, down = (u - column) * normal[:, 0], (v - row) * normal[:, 1]
    if not isinstance(camera, Pinhole):
        return np.asarray(depth - camera.pixel_size * (across + down) / normal[:, 2])
    x, y = (column - camera.cx) / camera.fx, (row - camera.cy) / camera.fy
    here = normal[:, 0] * x + normal[:, 1] * y + normal[:, 2]
    there = here + across / camera.fx + down / camera.fy
    return np.asarray(depth * np.clip(here / there, *BENT))
