"""Normals of a depth map."""

import numpy as np
from numpy.typing import ArrayLike

from cfusion.arrays import Normals, Points
from cfusion.geometry.camera import Camera


def normals(depth: ArrayLike, camera: Camera) -> Normals:
    """Unit normals (H, W, 3) of the back-projected points, towards the camera; NaN where undefined.

    n ~ dP/du x dP/dv with forward differences (backward where the next pixel is unknown or outside) and
    the sign that makes n . ray <= 0. A pixel without a known neighbour in its row or its column has none.
    """
    points = camera.back_project(depth)
    normal = np.cross(_difference(points, axis=1), _difference(points, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        away = np.einsum("ijk,ijk->ij", normal, camera.rays()) > 0
    normal[away] *= -1
    return normal.astype(np.float32)


def _difference(points: Points, axis: int) -> Points:
    """Difference to the next point along an axis, or from the previous one where there is no next."""
    step = np.diff(points, axis=axis)
    edge = np.full_like(points.take([0], axis=axis), np.nan)
    forward = np.concatenate([step, edge], axis=axis)
    backward = np.concatenate([edge, step], axis=axis)
    return np.where(np.isnan(forward), backward, forward)
