"""Normals of a fused map: those of the plane, and at an edge those of the pixel's own side."""

import numpy as np
from walls import CAMERA, NORMAL, pose_at, wall_depth

from cfusion import Orthographic, normals
from cfusion.scene.slopes import one_sided_normals


def test_the_normals_of_a_plane() -> None:
    pose = pose_at(0.0, 0.4)
    found = one_sided_normals(wall_depth(pose), CAMERA)
    towards = pose.inverse().turn(NORMAL / np.linalg.norm(NORMAL))
    np.testing.assert_allclose(np.abs(found @ towards), 1.0, atol=1e-5)
    assert (np.einsum("hwx,hwx->hw", found, CAMERA.rays()) < 0).all()


def test_an_edge_does_not_tilt_the_pixels_beside_it() -> None:
    depth = np.full(CAMERA.shape, 2.0, np.float32)
    depth[:, 16:] = 3.0
    found = one_sided_normals(depth, CAMERA)
    np.testing.assert_allclose(found[..., 2], -1.0, atol=1e-5)
    assert np.abs(normals(depth, CAMERA)[:, 15, 2]).max() < 0.1  # a forward difference leans over it


def test_the_side_that_is_known_counts() -> None:
    depth = wall_depth(pose_at(0.0))
    whole = one_sided_normals(depth, CAMERA)
    depth[:, 10] = np.nan
    depth[5, :] = np.nan
    found = one_sided_normals(depth, CAMERA)
    known = np.isfinite(depth)
    np.testing.assert_allclose(found[known], whole[known], atol=1e-4)
    assert np.isnan(found[~known]).all()
    alone = np.full(CAMERA.shape, np.nan, np.float32)
    alone[3, 3] = 2.0
    assert np.isnan(one_sided_normals(alone, CAMERA)).all()


def test_in_parallel_projection_too() -> None:
    camera = Orthographic(0.1, 15.5, 11.5, 32, 24)
    depth = np.broadcast_to(5 + 0.1 * np.arange(32), (24, 32)).astype(np.float32)
    np.testing.assert_allclose(one_sided_normals(depth, camera)[4, 7], [np.sqrt(0.5), 0, -np.sqrt(0.5)], atol=1e-5)
