"""Normals of a depth map, and of a mesh."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cfusion.arrays import Normals, Points
from cfusion.errors import InputError
from cfusion.geometry.camera import Camera
from cfusion.kernels.numpy.viewing import difference


def normals(depth: ArrayLike, camera: Camera) -> Normals:
    """Unit normals (H, W, 3) of the back-projected points, facing the camera; NaN where undefined.

    n ~ dP/du x dP/dv with forward differences (backward if the next pixel is unknown or outside), and the sign that
    makes n . ray <= 0. A pixel without a known neighbour in its row or its column has none.

    Args:
        depth: (H, W), NaN where unknown.
        camera: of the same shape.

    Examples:
        >>> import numpy as np
        >>> from cfusion import Pinhole, normals
        >>> float(normals(np.full((12, 16), 2.0), Pinhole(50, 50, 7.5, 5.5, 16, 12))[6, 8, 2])  # towards the camera
        -1.0
    """
    if not isinstance(camera, Camera):
        raise InputError(f"normals needs the camera, e.g. a Pinhole, not {type(camera).__name__}")
    points = camera.back_project(depth)
    return normals_of_steps(difference(points, 1), difference(points, 0), camera)


def normals_of_steps(across: Points, down: Points, camera: Camera) -> Normals:
    """Unit normals (H, W, 3) of a surface with these steps (H, W, 3) along rows and columns."""
    normal = np.cross(across, down)
    with np.errstate(invalid="ignore", divide="ignore"):
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        away = np.einsum("ijk,ijk->ij", normal, camera.rays()) > 0
    normal[away] *= -1
    return normal.astype(np.float32)


def summed_face_normals(vertices: Points, faces: NDArray[np.int64]) -> Points:
    """Normals (V, 3) of a mesh with faces (F, 3): sums of the adjacent faces' normals, weighted by area."""
    corners = vertices[faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    sums = [np.bincount(faces.ravel(), np.repeat(across[:, axis], 3), len(vertices)) for axis in range(3)]
    return np.stack(sums, axis=-1)
