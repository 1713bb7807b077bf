"""A view reduced to a few hundred cells: enough to see what two views share, small enough to keep for all views."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import OVER_MEDIAN, DepthMap, Points, lower_median, share_of
from cfusion.geometry import Camera, Pinhole, Pose, View, normals

CELLS = 16  # along the shorter side
PER_SIDE = 4  # pixels sampled per cell, along each side
MEDIAN_ERROR = 1.25  # standard error of a median over that of a mean, normal noise
KNOWN = 0.5  # smallest share of known pixels in a cell


@dataclass(frozen=True, eq=False)
class Sketch:
    """The median depth of each cell as a small view, and its known cells as points in the world."""

    depth: DepthMap  # (h, w), NaN where less than half of a cell's pixels are known
    camera: Camera  # whose pixels are the cells
    pose: Pose  # world_from_camera
    noise: float  # standard error of a cell's depth
    points: Points  # (n, 3) in the world
    depths: NDArray[np.float64]  # (n,) depths of the points
    normals: Points  # (n, 3) in the world, facing the camera; NaN where unknown
    pixel_at_1: float  # width of a pixel of the full view: at depth 1 (perspective), at any depth (orthographic)

    def pixel_at(self, depth: NDArray[np.float64]) -> NDArray[np.float64]:
        """Width of a pixel of the full view at the given depths, in the unit of depth."""
        return self.pixel_at_1 * (depth if isinstance(self.camera, Pinhole) else np.ones_like(depth))


def towards_camera(camera: Camera, pose: Pose, points: Points) -> Points:
    """Unit directions (n, 3) from points in the world to the camera."""
    if not isinstance(camera, Pinhole):
        return np.broadcast_to(-pose.rotation[:, 2], points.shape)
    away = pose.translation - points
    return np.asarray(away / np.maximum(np.linalg.norm(away, axis=-1, keepdims=True), np.finfo(np.float64).tiny))


def sketch(view: View) -> Sketch:
    """The sketch of a view."""
    block = share_of(min(view.shape), CELLS)
    height, width = (length // block for length in view.shape)
    inside = np.unique(np.linspace(0, block - 1, min(block, PER_SIDE)).round().astype(np.int64))
    rows = (np.arange(height)[:, None] * block + inside).ravel()
    columns = (np.arange(width)[:, None] * block + inside).ravel()
    looked = view.depth[rows[:, None], columns[None, :]].astype(np.float64)
    cells = looked.reshape(height, len(inside), width, len(inside)).transpose(0, 2, 1, 3).reshape(height, width, -1)
    known = np.isfinite(cells).sum(axis=-1)
    depth = lower_median(cells)
    depth[known < KNOWN * cells.shape[-1]] = np.nan
    spread = lower_median(np.abs(cells - depth[..., None]))
    usual = spread[np.isfinite(spread)]
    noise = OVER_MEDIAN * MEDIAN_ERROR / len(inside) * float(np.median(usual)) if usual.size else 0.0
    camera = replace(view.camera.scaled(1 / block), width=width, height=height)
    small = depth.astype(np.float32)
    seen = np.isfinite(depth)
    pixel = 1 / view.camera.fx if isinstance(view.camera, Pinhole) else view.camera.pixel_size
    return Sketch(
        depth=small,
        camera=camera,
        pose=view.pose,
        noise=noise,
        points=view.pose.apply(camera.back_project(small)[seen]),
        depths=depth[seen],
        normals=view.pose.turn(normals(small, camera)[seen]),
        pixel_at_1=pixel,
    )
