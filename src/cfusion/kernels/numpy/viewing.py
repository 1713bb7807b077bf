"""Depth maps as seen by cameras: points in another camera, and viewing angles.

A camera is ten numbers, as in `cameras`.
"""

import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.numpy.cameras import pixels, slopes


def reproject(depth: Floats, camera: Floats, onto: Floats, onto_from_view: Floats) -> tuple[Floats, Floats, Floats]:
    """As `Backend.reproject`."""
    z = depth.astype(np.float64)
    x, y = _across_and_down(z, camera)
    u, v, along = (row[0] * x + row[1] * y + row[2] * z + row[3] for row in onto_from_view)
    if onto[0] == 0:
        with np.errstate(divide="ignore", invalid="ignore"):
            in_front = np.where(along > 0, along, np.nan)
            u, v = u / in_front, v / in_front
    u, v = pixels(onto, u, v)
    return u.ravel(), v.ravel(), along.ravel()


def cosines(depths: Floats, camera: Floats) -> Floats:
    """As `Backend.cosines`."""
    return np.stack([_cosines(depth, camera) for depth in depths])


def _cosines(depth: Floats, camera: Floats) -> Floats:
    z = depth.astype(np.float64)
    points = (*_across_and_down(z, camera), z)
    a, b = ([difference(part, axis) for part in points] for axis in (1, 0))
    normal = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    one = np.ones_like(z)
    ray = (*_across_and_down(one, camera), one) if camera[0] == 0 else (0.0, 0.0, one)
    length = np.sqrt(sum(part * part for part in normal) * sum(part * part for part in ray))
    with np.errstate(divide="ignore", invalid="ignore"):
        return (np.abs(sum(n * r for n, r in zip(normal, ray, strict=True))) / length).astype(np.float32)


def _across_and_down(z: Floats, camera: Floats) -> tuple[Floats, Floats]:
    """x and y of the points of a map; NaN where z is NaN."""
    reach = z if camera[0] == 0 else z * 0 + 1
    across, down = slopes(camera, np.arange(z.shape[1])[None, :], np.arange(z.shape[0])[:, None])
    return across * reach, down * reach


def difference(values: Floats, axis: int) -> Floats:
    """The difference to the next value along an axis, or from the previous one if the next is unknown."""
    values = np.moveaxis(values, axis, 0)
    step, out = values[1:] - values[:-1], np.empty_like(values)
    out[:-1], out[-1] = step, np.nan
    np.copyto(out[1:], step, where=np.isnan(out[1:]))
    return np.moveaxis(out, 0, axis)
