"""A surface as seen by other cameras: the displacement of its points with their depth, and which it hides itself.

A point of a ray is o + x r in the surface's camera, o' + x r' in the other; cameras are ten numbers, as in `cameras`.
"""

from collections.abc import Sequence

import numpy as np

from cfusion.kernels.contract import Floats, Mask
from cfusion.kernels.numpy.association import splat_nearest
from cfusion.kernels.numpy.cameras import slopes
from cfusion.kernels.numpy.viewing import reproject

RELATIVE = 0.01  # of the depth: points hidden by less may be of the same surface
SLOPES = 2.0  # times the change between pixels, within which points of one surface share a pixel of the view


def parallax(surface: Floats, camera: Floats, onto: Floats, onto_from_camera: Floats) -> Floats:
    """As `Backend.parallax`: |d(u, v) / dx|."""
    return np.stack([_parallax(surface, camera, *other) for other in zip(onto, onto_from_camera, strict=True)])


def _parallax(surface: Floats, camera: Floats, onto: Floats, onto_from_camera: Floats) -> Floats:
    height, width = surface.shape
    column, row = slopes(camera, np.arange(width)[None, :], np.arange(height)[:, None])
    turn, shift = onto_from_camera[:, :3], onto_from_camera[:, 3]
    tilted = [turn[axis, 0] * column + turn[axis, 1] * row for axis in range(3)]
    if camera[0] == 0:
        origins, rays = list(shift), [tilted[axis] + turn[axis, 2] for axis in range(3)]
    else:
        origins, rays = [tilted[axis] + shift[axis] for axis in range(3)], list(turn[:, 2])
    x, y, z = (origin + ray * surface.astype(np.float64) for origin, ray in zip(origins, rays, strict=True))
    across, down = rays[0], rays[1]
    if onto[0] == 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = np.where(z > 0, 1 / z, np.nan)
        across, down = (across - x * inverse * rays[2]) * inverse, (down - y * inverse * rays[2]) * inverse
    out: Floats = (np.hypot(onto[1] * across, onto[2] * down) + 0 * z).astype(np.float32)
    return out


def hidden(
    surface: Floats,
    camera: Floats,
    onto: Floats,
    onto_from_camera: Floats,
    shapes: Sequence[tuple[int, int]],
    tolerance: Floats,
) -> Mask:
    """As `Backend.hidden`, with the surface itself as a z-buffer in each camera."""
    views = zip(onto, onto_from_camera, shapes, strict=True)
    return np.stack([_hidden(surface, camera, other, motion, shape, tolerance) for other, motion, shape in views])


def _hidden(
    surface: Floats, camera: Floats, onto: Floats, motion: Floats, shape: tuple[int, int], tolerance: Floats
) -> Mask:
    (height, width), (u, v, z) = shape, reproject(surface, camera, onto, motion)
    z = np.where(z > 0, z, np.nan)
    nearest, _ = splat_nearest(u, v, z, None, shape)
    with np.errstate(invalid="ignore"):
        column, row = np.floor(u + 0.5), np.floor(v + 0.5)
        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (z > 0)
        at = np.where(inside, row * width + column, 0).astype(np.int64)
        before = nearest.ravel()[at].reshape(surface.shape)
        depth = z.astype(np.float32).reshape(surface.shape)
        least = np.maximum(np.maximum(np.float32(RELATIVE) * depth, tolerance), np.float32(SLOPES) * even_slope(depth))
        out: Mask = inside.reshape(surface.shape) & (depth > before + least)
    return out


def even_slope(depth: Floats) -> Floats:
    """The change of a surface to the next pixel: the smaller one of both sides, so that edges do not count."""
    out = np.zeros_like(depth)
    for axis in (0, 1):
        step = np.abs(np.diff(depth, axis=axis))
        step = np.where(np.isnan(step), np.float32(np.inf), step)
        edge = np.full_like(depth.take([0], axis=axis), np.inf)
        least = np.minimum(np.concatenate([step, edge], axis), np.concatenate([edge, step], axis))
        out = np.maximum(out, np.where(np.isinf(least), np.float32(0), least))
    return out
