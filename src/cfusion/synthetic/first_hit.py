"""The first face that each ray hits, in NumPy alone, for when Embree is not installed."""

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Points
from cfusion.errors import MissingDependency
from cfusion.geometry import BrownConrady, Camera, Pose

PAIRS = 1_000_000  # (face, pixel) pairs tested together
BORDER = 1e-9  # barycentric tolerance: a ray through an edge hits both adjacent faces
Faces = NDArray[np.int64]


def first_faces(corners: Points, camera: Camera, pose: Pose, origins: Points, rays: Points) -> Faces:
    """The face (H W,) that each pixel's ray hits first, of faces with corners (F, 3, 3) in the world; -1 for none.

    Faces are tested in the pixels of their bounding box; those partly behind the camera in all pixels.
    """
    if isinstance(camera, BrownConrady):
        raise MissingDependency("lenses with distortion need trimesh and embreex: pip install 'cfusion[synthetic]'")
    left, width, top, height = _boxes(corners, camera, pose)
    counts = width * height
    nearest, face_of = np.full(len(rays), np.inf), np.full(len(rays), -1, np.int64)
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + PAIRS, side="right")))
        some = np.arange(start, stop)
        face = np.repeat(some, counts[some])
        place = np.arange(len(face)) - np.repeat(ends[some] - counts[some] - done, counts[some])
        pixel = (top[face] + place // width[face]) * camera.width + left[face] + place % width[face]
        distance = _distances(corners, face, origins[pixel], rays[pixel])
        _keep_nearest(nearest, face_of, pixel, face, distance)
        start = stop
    return face_of


def _boxes(corners: Points, camera: Camera, pose: Pose) -> tuple[Faces, Faces, Faces, Faces]:
    """First column, columns, first row and rows of each projected face; all where one is partly behind the camera."""
    u, v, _ = camera.project(pose.inverse().apply(corners.reshape(-1, 3)))
    u, v = u.reshape(-1, 3), v.reshape(-1, 3)
    whole = ~(np.isfinite(u) & np.isfinite(v)).all(axis=1)
    found = []
    for values, size in ((u, camera.width), (v, camera.height)):
        low = np.where(whole, 0, np.ceil(values.min(axis=1) - BORDER))
        end = np.where(whole, size, np.floor(values.max(axis=1) + BORDER) + 1)
        first, after = (np.clip(each, 0, size).astype(np.int64) for each in (low, end))
        found += [first, after - first]
    return found[0], found[1], found[2], found[3]


def _distances(corners: Points, face: Faces, origins: Points, rays: Points) -> NDArray[np.float64]:
    """Distance (N,) along each ray to its face's plane; infinite if it misses the face."""
    a, edge_b, edge_c = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    across = np.cross(rays, edge_c[face])
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1 / np.einsum("nx,nx->n", edge_b[face], across)
        offset = origins - a[face]
        b = np.einsum("nx,nx->n", offset, across) * scale
        turned = np.cross(offset, edge_b[face])
        c = np.einsum("nx,nx->n", rays, turned) * scale
        distance = np.einsum("nx,nx->n", edge_c[face], turned) * scale
        meets = (b >= -BORDER) & (c >= -BORDER) & (b + c <= 1 + BORDER) & (distance > 0)
    return np.where(meets, distance, np.inf)


def _keep_nearest(
    nearest: NDArray[np.float64], face_of: Faces, pixel: Faces, face: Faces, distance: NDArray[np.float64]
) -> None:
    """Keep the nearest face of each pixel, in place."""
    hit = np.isfinite(distance)
    pixel, face, distance = pixel[hit], face[hit], distance[hit]
    order = np.lexsort((face, distance, pixel))
    pixel, face, distance = pixel[order], face[order], distance[order]
    first = np.ones(len(pixel), np.bool_)
    first[1:] = pixel[1:] != pixel[:-1]
    pixel, face, distance = pixel[first], face[first], distance[first]
    closer = distance < nearest[pixel]
    nearest[pixel[closer]], face_of[pixel[closer]] = distance[closer], face[closer]
