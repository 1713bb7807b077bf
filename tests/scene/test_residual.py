"""What a view measured is given back to its fused map in part, before maps are merged."""

from pathlib import Path

import numpy as np
import pytest
from walls import CAMERA, QUICK, pose_at, run, wall_depth, wall_view

from cfusion.scene.cloud import merged
from cfusion.scene.fused_view import FusedView, read_to_merge
from cfusion.scene.job import Job, code_version
from cfusion.scene.mesh import to_integrate, volume_for
from cfusion.scene.residual import SHARE, towards_measured

WALL = wall_depth(pose_at(0.0))


def view(depth: np.ndarray, measured: np.ndarray | None, sigma: float = 0.005) -> FusedView:
    return FusedView(depth, np.full(CAMERA.shape, sigma, np.float32), CAMERA, pose_at(0.0), measured=measured)


def test_what_agrees_with_the_measurements_stays() -> None:
    np.testing.assert_array_equal(towards_measured(WALL, WALL), WALL)
    nothing = np.full_like(WALL, np.nan)
    np.testing.assert_array_equal(towards_measured(WALL, nothing), WALL)
    np.testing.assert_array_equal(towards_measured(nothing, WALL), nothing)


def test_a_share_of_a_common_difference_is_given_back() -> None:
    found = towards_measured(WALL, WALL + np.float32(0.03))
    np.testing.assert_allclose(found - WALL, 0.03 * SHARE, atol=1e-6)  # borders of the image as well
    holed = (WALL + 0.03).astype(np.float32)
    holed[8:20, 10:30] = np.nan
    found = towards_measured(WALL, holed) - WALL
    assert not found[11:17, 13:27].any()  # nobody measured around
    np.testing.assert_allclose(found[holed == holed], 0.03 * SHARE, atol=1e-6)


def test_independent_noise_shrinks_by_the_kernel() -> None:
    """k * n has a quarter of the noise's deviation, k a binomial of variance 1: sum k^2 = (70 / 256)^2."""
    noise = np.random.default_rng(0).normal(0, 0.01, CAMERA.shape)
    moved = (towards_measured(WALL, (WALL + noise).astype(np.float32)) - WALL)[2:-2, 2:-2]
    assert moved.std() == pytest.approx(SHARE * 0.01 * 70 / 256, rel=0.1)


def test_a_gross_error_is_not_given_back() -> None:
    rng = np.random.default_rng(1)
    measured = (WALL + rng.normal(0, 0.01, CAMERA.shape)).astype(np.float32)
    clean = towards_measured(WALL, measured)
    measured[12, 16] += 1.0
    assert np.abs(towards_measured(WALL, measured) - clean).max() < 0.005


def test_a_noisy_map_keeps_its_own_surface_and_has_no_part_in_the_mesh() -> None:
    measured = (WALL + 0.03).astype(np.float32)
    pixel = 2.0 / CAMERA.fx
    quiet, noisy = view(WALL, measured, 0.1 * pixel), view(WALL, measured, 2 * pixel)
    np.testing.assert_allclose(noisy.levelled.depth, view(WALL, None).levelled.depth)
    np.testing.assert_allclose(quiet.levelled.depth - view(WALL, None).levelled.depth, 0.03 * SHARE, atol=1e-5)
    assert to_integrate(volume_for([noisy]), noisy) is noisy
    assert to_integrate(volume_for([quiet]), quiet) is quiet.levelled


def test_normals_are_those_of_the_smooth_map() -> None:
    noise = np.random.default_rng(2).normal(0, 0.02, CAMERA.shape)
    given = view(WALL, (WALL + noise).astype(np.float32))
    np.testing.assert_array_equal(given.levelled.normals, view(WALL, None).levelled.normals)


def test_the_cloud_lies_nearer_to_what_all_views_measured() -> None:
    """Three maps too near by 0.02, as smoothing makes them; their views measured the wall with noise."""
    poses = [pose_at(0.02 * k) for k in range(3)]
    rng = np.random.default_rng(3)
    maps = []
    for pose in poses:
        true = wall_depth(pose)
        measured = (true + rng.normal(0, 0.01, CAMERA.shape)).astype(np.float32)
        sigma = np.full(CAMERA.shape, 0.01, np.float32)
        maps.append(FusedView((true - 0.02).astype(np.float32), sigma, CAMERA, pose, measured=measured))
    points = merged(maps.__getitem__, 0, [1, 2]).points
    off = -2.0 - points @ [0.1, 0.05, -1.0]  # before the wall
    assert np.abs(off).mean() == pytest.approx((1 - SHARE) * 0.02, rel=0.1)


def test_a_scene_gives_back_and_does_without_a_map_that_is_gone(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(bundle, "-o", out, *QUICK) == 0
    job = Job(str(bundle), "bundle", str(out), code_version())
    np.testing.assert_array_equal(read_to_merge(job, 1).measured, wall_view(1).depth)
    other = Job(str(bundle), "bundle", str(out), code_version(), cache_bytes=1)
    (bundle / "depth" / "003.npy").unlink()
    assert read_to_merge(other, 3).measured is None
