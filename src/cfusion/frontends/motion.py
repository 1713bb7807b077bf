"""Small motions as six numbers, translation and rotation vector; and the mean of two motions."""

import numpy as np
from numpy.typing import NDArray

from cfusion.geometry import Pose

Floats = NDArray[np.float64]


def exponential(twists: Floats) -> Floats:
    """Rigid motions (..., 4, 4) of twists (..., 6): translation, then rotation vector in radians.

    The translation is used directly (not integrated along the rotation): to first order the step is the same.
    """
    rotation = twists[..., 3:]
    angle = np.linalg.norm(rotation, axis=-1)[..., None, None]
    cross = cross_matrices(rotation)
    small = angle < 1e-7
    safe = np.where(small, 1.0, angle)
    sine = np.where(small, 1.0, np.sin(safe) / safe)
    cosine = np.where(small, 0.5, (1 - np.cos(safe)) / safe**2)
    out = np.zeros((*twists.shape[:-1], 4, 4))
    out[..., :3, :3] = np.eye(3) + sine * cross + cosine * (cross @ cross)
    out[..., :3, 3] = twists[..., :3]
    out[..., 3, 3] = 1
    return out


def cross_matrices(vectors: Floats) -> Floats:
    """Matrices (..., 3, 3) whose product with w is the cross product of vectors (..., 3) with w."""
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    zero = np.zeros_like(x)
    return np.stack([np.stack([zero, -z, y], -1), np.stack([z, zero, -x], -1), np.stack([-y, x, zero], -1)], axis=-2)


def halfway(one: Pose, other: Pose) -> Pose:
    """The mean of two similar motions: mean translation, and the rotation nearest to the mean of both."""
    left, _, right = np.linalg.svd(one.rotation + other.rotation)
    return Pose(left @ right, (one.translation + other.translation) / 2)
