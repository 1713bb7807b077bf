"""The face that a ray meets first, against every face tried for every ray by solving for it."""

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose
from cfusion.errors import MissingDependency
from cfusion.geometry import BrownConrady
from cfusion.geometry.pose import turned_by
from cfusion.synthetic import first_hit
from cfusion.synthetic.first_hit import first_faces

POSE = Pose(turned_by(np.array([0.2, -0.3, 0.1])), np.array([0.3, -0.2, 0.5]))
CAMERAS = [Pinhole(14.0, 15.0, 8.5, 6.0, 18, 13), Orthographic(0.3, 8.5, 6.0, 18, 13)]


def rays_of(camera: Pinhole | Orthographic) -> tuple[np.ndarray, np.ndarray]:
    """Origins and directions of all pixels in the world."""
    near, far = (POSE.apply(camera.back_project(np.full(camera.shape, z)).reshape(-1, 3)) for z in (0.0, 1.0))
    return near, far - near


def brute(corners: np.ndarray, origins: np.ndarray, rays: np.ndarray) -> np.ndarray:
    """origin + t ray = a + b (B - a) + c (C - a), face after face."""
    nearest, found = np.full(len(rays), np.inf), np.full(len(rays), -1)
    for number, (a, b, c) in enumerate(corners):
        for ray, (origin, direction) in enumerate(zip(origins, rays, strict=True)):
            matrix = np.stack([b - a, c - a, -direction], axis=1)
            if abs(np.linalg.det(matrix)) > 1e-12:
                s, t, way = np.linalg.solve(matrix, origin - a)
                if min(s, t) >= 0 and s + t <= 1 and 0 < way < nearest[ray]:
                    nearest[ray], found[ray] = way, number
    return found


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("pairs", [7, 1_000_000])
def test_the_nearest_face_in_front(camera, pairs, monkeypatch):
    """Large and small ones, beyond the border, behind the camera, through its plane, one after another in batches."""
    monkeypatch.setattr(first_hit, "PAIRS", pairs)
    rng = np.random.default_rng(0)
    middle = rng.normal(size=(25, 1, 3)) * [2.0, 2.0, 2.0] + [0, 0, 3]
    corners = POSE.apply((middle + rng.normal(size=(25, 3, 3)) * rng.uniform(0.2, 3, (25, 1, 1))).reshape(-1, 3))
    corners = corners.reshape(25, 3, 3)
    origins, rays = rays_of(camera)
    found = first_faces(corners, camera, POSE, origins, rays)
    expected = brute(corners, origins, rays)
    assert len(set(expected)) > 8
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("camera", CAMERAS, ids=lambda each: type(each).__name__)
def test_a_wall_of_two_faces_has_no_seam(camera):
    """Rays through the edge that both share meet one of them; the lower number of two at one distance."""
    flat = np.array([[-9.0, -9, 4], [9, -9, 4], [9, 9, 4], [-9, 9, 4]])
    corners = POSE.apply(flat)[[[0, 1, 2], [0, 2, 3], [0, 1, 2]]]
    found = first_faces(corners, camera, POSE, *rays_of(camera))
    assert set(found.tolist()) == {0, 1}


def test_a_lens_needs_the_library():
    lens = BrownConrady(14.0, 15.0, 8.5, 6.0, 18, 13, 0.1)
    with pytest.raises(MissingDependency, match="embreex"):
        first_faces(np.zeros((1, 3, 3)), lens, POSE, np.zeros((1, 3)), np.zeros((1, 3)))
