"""Unit quaternions of files; the caller knows the order of their four numbers."""

import math

import numpy as np

from cfusion.arrays import Matrix
from cfusion.errors import PoseError

SHORTEST = 0.5  # norm of a stored quaternion, at least; it should be 1


def rotation_of(w: float, x: float, y: float, z: float) -> Matrix:
    """The rotation (3, 3) of w + xi + yj + zk after normalisation."""
    length = math.sqrt(w * w + x * x + y * y + z * z)
    if not SHORTEST < length < 1 / SHORTEST:
        raise PoseError(f"a quaternion has norm {length:.2g} instead of 1; check the columns of its file")
    w, x, y, z = w / length, x / length, y / length, z / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_of(rotation: Matrix) -> tuple[float, float, float, float]:
    """w, x, y, z of a rotation (3, 3), w >= 0: the eigenvector of the largest eigenvalue of a 4x4 matrix."""
    r = rotation
    symmetric = np.array(
        [
            [r[0, 0] + r[1, 1] + r[2, 2], 0, 0, 0],
            [r[2, 1] - r[1, 2], r[0, 0] - r[1, 1] - r[2, 2], 0, 0],
            [r[0, 2] - r[2, 0], r[0, 1] + r[1, 0], r[1, 1] - r[0, 0] - r[2, 2], 0],
            [r[1, 0] - r[0, 1], r[0, 2] + r[2, 0], r[1, 2] + r[2, 1], r[2, 2] - r[0, 0] - r[1, 1]],
        ]
    )
    _, vectors = np.linalg.eigh(symmetric)  # reads the lower triangle; ascending eigenvalues
    w, x, y, z = (float(value) for value in vectors[:, -1] * (1 if vectors[0, -1] >= 0 else -1))
    return w, x, y, z
