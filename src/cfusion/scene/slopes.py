"""Normals of a fused map that are not tilted by its depth edges, the planes of its pixels, and the mean of planes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Normals, Points
from cfusion.geometry import Camera, Pinhole
from cfusion.geometry.camera import pixel_size
from cfusion.geometry.normals import normals_of_steps

if TYPE_CHECKING:
    from cfusion.scene.fused_view import FusedView

ONE_SURFACE = 0.7  # smallest cosine between the normals of pixels of one surface
SHALLOW = 0.1  # |n . ray| below which a plane is not read
BENT = (0.5, 2.0)  # limits of a pixel's plane, times its depth: half a pixel away the surface is within them
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


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


def on_plane(view: FusedView, u: Floats, v: Floats, row: Indices, column: Indices) -> Floats:
    """Depth at (u, v) of the plane through a pixel's point: n . x = n . p."""
    depth, normal, camera = view.depth[row, column].astype(np.float64), view.normals[row, column], view.camera
    across, down = (u - column) * normal[:, 0], (v - row) * normal[:, 1]
    if not isinstance(camera, Pinhole):
        return np.asarray(depth - camera.pixel_size * (across + down) / normal[:, 2])
    x, y = (column - camera.cx) / camera.fx, (row - camera.cy) / camera.fy
    here = normal[:, 0] * x + normal[:, 1] * y + normal[:, 2]
    there = here + across / camera.fx + down / camera.fy
    return np.asarray(depth * np.clip(here / there, *BENT))


def mean_of_planes(view: FusedView) -> DepthMap:
    """Depth (H, W) moved along each ray r to the mean of the planes of the 3 x 3 pixels q around p:

        t = sum_q w_q n_q . (q - p) / (n_q . r) / sum_q w_q,   w_q = exp(-|q - p|^2 / 2 s^2) / sigma_q^2

    where all nine are of one surface; s is the size of a pixel. The mean of depths, which sensors and solvers take,
    lies within a curved surface; the mean of planes lies outside by as much, and takes that back.
    """
    depth, normal = view.depth.astype(np.float64), view.normals.astype(np.float64)
    sigma = np.maximum(view.sigma.astype(np.float64), 1e-9 * np.abs(depth))
    points, middle = view.camera.back_project(depth), (slice(1, -1), slice(1, -1))
    here, ray, facing = points[middle], view.camera.rays()[middle].astype(np.float64), normal[middle]
    summed, weights, whole = np.zeros(here.shape[:2]), np.zeros(here.shape[:2]), np.ones(here.shape[:2], bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.square(pixel_size(view.camera, depth[middle]))
        for down, across in np.ndindex(3, 3):
            beside = (slice(down, down + here.shape[0]), slice(across, across + here.shape[1]))
            between, theirs = points[beside] - here, normal[beside]
            slope = np.einsum("hwx,hwx->hw", theirs, ray)
            whole &= (np.einsum("hwx,hwx->hw", theirs, facing) > ONE_SURFACE) & (np.abs(slope) > SHALLOW)
            weight = np.exp(-0.5 * np.einsum("hwx,hwx->hw", between, between) / size) / np.square(sigma[beside])
            summed += weight * np.einsum("hwx,hwx->hw", theirs, between) / slope
            weights += weight
        moved = summed / weights
    found = view.depth.copy()
    found[middle] += np.where(whole & np.isfinite(moved), moved * ray[..., 2], 0).astype(found.dtype)
    return found
