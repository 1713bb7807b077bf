"""Normals of a fused map that are not tilted by its depth edges."""

from __future__ import annotations

import numpy as np

from cfusion.arrays import DepthMap, Normals, Points
from cfusion.geometry import Camera
from cfusion.geometry.normals import normals_of_steps


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
