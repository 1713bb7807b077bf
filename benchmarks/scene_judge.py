"""What was made against the mesh: accuracy, completeness, precision, recall and F."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.scene_sensor import SIZE
from cfusion import Pinhole, Pose
from cfusion.arrays import DepthMap
from cfusion.synthetic.scene import Scene

THRESHOLD, POINTS = 0.01, 200_000
Points = NDArray[np.float64]


class Score(NamedTuple):
    """Mean distances in the unit of depth, and shares within the threshold."""

    accuracy: float
    completeness: float
    precision: float
    recall: float

    @property
    def f(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.precision * self.recall / max(self.precision + self.recall, 1e-12)


def sampled(vertices: Points, faces: NDArray[np.int64]) -> tuple[Points, Points]:
    """Points spread evenly over a mesh, and its normals there."""
    import trimesh

    mesh = trimesh.Trimesh(vertices, faces, process=False)
    points, of = trimesh.sample.sample_surface(mesh, POINTS, seed=0)
    return np.asarray(points), np.asarray(mesh.face_normals)[of]


class Judge:
    """Distances to the truth and back: to the plane of the nearest sample, where that is near enough to be its face."""

    def __init__(self, scene: Scene, camera: Pinhole, poses: list[Pose], exact: list[DepthMap]) -> None:
        seen = [
            pose.apply(camera.back_project(depth)[np.isfinite(depth)]) for pose, depth in zip(poses, exact, strict=True)
        ]
        self.truth = _some(np.concatenate(seen))
        self.surface = sampled(np.asarray(scene.vertices), np.asarray(scene.faces))

    def __call__(self, points: Points, normals_: Points) -> Score:
        accuracy, precision = _distances(_some(points), *self.surface)
        completeness, recall = _distances(self.truth, points, normals_)
        return Score(accuracy, completeness, precision, recall)


def _some(points: Points) -> Points:
    rng = np.random.default_rng(1)
    return points if len(points) <= POINTS else points[rng.choice(len(points), POINTS, replace=False)]


def _distances(points: Points, onto: Points, normals_: Points) -> tuple[float, float]:
    """The mean distance of points from a sampled surface, and the share within the threshold."""
    from scipy.spatial import cKDTree

    apart, nearest = cKDTree(onto).query(points)
    along = np.abs(np.einsum("nx,nx->n", normals_[nearest], points - onto[nearest]))
    return float(np.where(apart < THRESHOLD * SIZE, along, apart).mean()), float((apart < THRESHOLD * SIZE).mean())
