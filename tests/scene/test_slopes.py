"""Normals of a fused map: those of the plane, and at an edge those of the pixel's own side; the mean of planes."""

import numpy as np
from walls import CAMERA, NORMAL, pose_at, wall_depth

from cfusion import Orthographic, Pinhole, Pose, normals
from cfusion.geometry import Camera
from cfusion.scene.cloud import merged
from cfusion.scene.fused_view import FusedView
from cfusion.scene.slopes import mean_of_planes, one_sided_normals


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


def view_of(depth: np.ndarray, camera: Camera = CAMERA) -> FusedView:
    return FusedView(depth, np.full(depth.shape, 0.01, np.float32), camera, Pose.identity())


def test_the_mean_of_planes_keeps_a_plane_its_edges_and_its_holes() -> None:
    depth = wall_depth(pose_at(0.0, 0.4))
    depth[7, 7] = np.nan
    np.testing.assert_allclose(mean_of_planes(view_of(depth)), depth, atol=2e-6)
    depth[:, 16:] *= 1.5  # another plane
    np.testing.assert_allclose(mean_of_planes(view_of(depth)), depth, rtol=0.01 / CAMERA.fx)  # 0.01 pixels
    camera = Orthographic(0.1, 15.5, 11.5, 32, 24)
    slope = np.broadcast_to(5 + 0.1 * np.arange(32), (24, 32)).astype(np.float32)
    np.testing.assert_allclose(mean_of_planes(view_of(slope, camera)), slope, atol=2e-6)


def test_the_mean_of_planes_moves_no_pixel_whose_neighbours_are_not_all_of_its_surface() -> None:
    rng = np.random.default_rng(0)
    depth = (wall_depth(pose_at(0.0)) + rng.normal(0, 1e-3, CAMERA.shape)).astype(np.float32)
    depth[:, 16:] += 1.0
    depth[7, 7] = np.nan
    same = mean_of_planes(view_of(depth)) == depth
    assert same[[0, -1]].all()
    assert same[:, [0, -1]].all()
    assert same[6:9, [6, 8]].all()
    assert not same[1:-1, 1:6].any()


def test_a_point_moves_along_its_ray_to_the_mean_of_the_planes_around() -> None:
    """The formula term by term, far from the axis of a wide camera."""
    camera, rng = Pinhole(20.0, 20.0, 15.5, 11.5, 32, 24), np.random.default_rng(1)
    view = view_of((3 + rng.normal(0, 2e-3, camera.shape)).astype(np.float32), camera)
    points, rays, normal = camera.back_project(view.depth), camera.rays(), view.normals.astype(float)
    found = camera.back_project(mean_of_planes(view))
    for i, j in ((1, 1), (22, 30), (12, 16)):
        ways, weights = [], []
        for row, column in ((i + down, j + across) for down in (-1, 0, 1) for across in (-1, 0, 1)):
            between = points[row, column] - points[i, j]
            ways.append(normal[row, column] @ between / (normal[row, column] @ rays[i, j]))
            weights.append(np.exp(-0.5 * between @ between / (view.depth[i, j] / 20) ** 2))
        moved = np.average(ways, weights=weights)
        assert abs(moved) > 1e-4
        np.testing.assert_allclose(found[i, j] - points[i, j], moved * rays[i, j], atol=1e-6)


BALL, CENTRE, RADIUS = Pinhole(160.0, 160.0, 15.5, 11.5, 32, 24), 2.0, 0.25


def ball(row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Exact depth of a ball on the axis."""
    x, y = (column - BALL.cx) / BALL.fx, (row - BALL.cy) / BALL.fy
    a = 1 + x**2 + y**2
    return (CENTRE - np.sqrt(np.maximum(CENTRE**2 - a * (CENTRE**2 - RADIUS**2), 0))) / a


def blurred_ball() -> np.ndarray:
    """Each pixel the mean of depths a Gaussian of 0.8 pixels around it, as lateral jitter of a sensor makes."""
    rows, columns = np.mgrid[:24, :32]
    steps = np.linspace(-2.4, 2.4, 25)
    weights = np.exp(-0.5 * (steps / 0.8) ** 2) / np.exp(-0.5 * (steps / 0.8) ** 2).sum()
    summed = np.zeros(BALL.shape)
    for i, v in zip(steps, weights, strict=True):
        for k, w in zip(steps, weights, strict=True):
            summed += v * w * ball(rows + i, columns + k)
    return summed.astype(np.float32)


def test_the_mean_of_planes_takes_back_what_a_mean_of_depths_cuts_off() -> None:
    inner, exact, blurred = (slice(6, -6), slice(8, -8)), ball(*np.mgrid[:24, :32]), blurred_ball()
    found = mean_of_planes(view_of(blurred, BALL))
    assert np.abs(found - exact)[inner].mean() < 0.5 * np.abs(blurred - exact)[inner].mean()


def test_the_cloud_is_made_of_it() -> None:
    view = view_of(blurred_ball(), BALL)
    found = merged([view].__getitem__, 0, [])
    row, column = np.divmod(found.pixels, BALL.width)
    inner = (np.abs(row - BALL.cy) < 6) & (np.abs(column - BALL.cx) < 8)
    given = BALL.back_project(view.depth).reshape(-1, 3)[found.pixels]
    off, before = (
        np.abs(np.linalg.norm(each - [0.0, 0.0, CENTRE], axis=-1) - RADIUS)[inner].mean()
        for each in (found.points, given)
    )
    assert off < 0.5 * before
