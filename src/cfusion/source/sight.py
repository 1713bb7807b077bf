"""How a view sees a surface of the reference: where, how deep, and how far a point moves there with its depth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cfusion.arrays import DepthMap, Matrix
from cfusion.geometry import Camera
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.numpy import cameras

PERSPECTIVE = 0


@dataclass(frozen=True, eq=False)
class Sight:
    """One view's sight of a surface, by pixel of the reference; NaN where the surface is unknown or behind the view."""

    shape: tuple[int, int]  # of the view
    u: Floats  # (H, W) column in the view, in pixels
    v: Floats  # (H, W) row
    depth: Floats  # (H, W) in the view
    parallax: Floats  # (H, W) pixels that the point moves by in the view, per unit of depth in the reference


def sight(
    surface: DepthMap, reference_camera: Camera, view_camera: Camera, view_from_reference: Matrix, backend: Backend
) -> Sight:
    """A point of a ray is o + x r in the reference and p = o' + x r' in the view; parallax = |d(u, v) / dx|.

    How a lens bends counts for where a point is seen, not for how fast it moves.
    """
    origins, rays = _moved_rays(reference_camera, view_from_reference, backend)
    x, y, depth = (origin + ray * surface for origin, ray in zip(origins, rays, strict=True))
    across, down = rays[0], rays[1]
    numbers = view_camera.numbers.astype(np.float32)
    if numbers[0] == PERSPECTIVE:
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(depth > 0, 1 / depth, np.float32(np.nan))
        x, y = x * inverse, y * inverse
        across, down = (across - x * rays[2]) * inverse, (down - y * rays[2]) * inverse
    u, v = cameras.pixels(numbers, x, y)
    return Sight(view_camera.shape, u, v, depth, np.hypot(numbers[1] * across, numbers[2] * down) + 0 * depth)


def _moved_rays(camera: Camera, motion: Matrix, backend: Backend) -> tuple[list[Any], list[Any]]:
    """Origins and directions of the reference's rays in the view, three components each, in the backend's memory."""
    height, width = camera.shape
    slopes = cameras.slopes(camera.numbers, np.arange(width)[None, :], np.arange(height)[:, None])
    column, row = (backend.to_device(each, np.float32) for each in slopes)
    turn, shift = np.asarray(motion[:, :3], np.float32), np.asarray(motion[:, 3], np.float32)
    tilted = [turn[axis, 0] * column + turn[axis, 1] * row for axis in range(3)]
    if camera.numbers[0] == PERSPECTIVE:
        return [shift[axis] for axis in range(3)], [tilted[axis] + turn[axis, 2] for axis in range(3)]
    return [tilted[axis] + shift[axis] for axis in range(3)], [turn[axis, 2] for axis in range(3)]
