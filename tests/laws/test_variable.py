"""The variable of the solve: planes stay planes over a wide range of depths, and noise is divided out in either one."""

from dataclasses import replace

import numpy as np
import pytest
from tests.noise_laws import LAWS

from cfusion import Pinhole, Pose, Stack, View, fuse, kernels
from cfusion.auto import Auto, holes
from cfusion.auto.fit import energy_of
from cfusion.auto.noise import depth_noise
from cfusion.auto.settings import PAPERS, Settings
from cfusion.auto.variable import Weighing
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.solvers.task import prepare
from cfusion.tiles import crop_view

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(fx=90.0, fy=90.0, cx=59.5, cy=39.5, width=120, height=80)


def corridor(sideways: float) -> np.ndarray:
    """Depths (H, W) seen by a camera in a corridor 2.4 wide and 2.2 high that ends at 14."""
    x = (np.arange(CAMERA.width) - CAMERA.cx) / CAMERA.fx
    y = (np.arange(CAMERA.height) - CAMERA.cy)[:, None] / CAMERA.fy
    with np.errstate(divide="ignore"):
        walls = np.where(x > 0, (1.2 - sideways) / x, (-1.2 - sideways) / x)
        floor = np.where(y > 0, 1.1 / y, -1.1 / y)
    return np.minimum(np.minimum(walls, floor), 14.0)


def views(count: int, noise: float = 0.03) -> tuple[list[View], np.ndarray]:
    rng = np.random.default_rng(0)
    out = []
    for k in range(count):
        sideways = 0.06 * (k - count // 2)
        depth = corridor(sideways) + rng.normal(0, noise, (CAMERA.height, CAMERA.width))
        out.append(View(depth.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([sideways, 0.0, 0.0]))))
    return out, corridor(0.0)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_walls_seen_at_a_grazing_angle_stay_plane(count: int) -> None:
    """Smoothing of depth bends their hyperbola: inverse depth predicts left-out observations better."""
    given, truth = views(count)
    result = fuse(given, min_confidence=0.0)
    assert result.parameters["inverse"]
    off = np.abs(result.depth - truth)
    assert np.nanmean(off) < 0.3 / np.sqrt(count) * np.abs(given[count // 2].depth - truth).mean()


def test_over_a_narrow_range_of_depths_nothing_is_decided() -> None:
    """Neither variable is tried, and no growth of the noise is weighed by."""
    rng = np.random.default_rng(0)
    maps = [(3 + rng.normal(0, 0.03, (40, 50))).astype(np.float32) for _ in range(3)]
    camera = Pinhole(fx=50.0, fy=50.0, cx=24.5, cy=19.5, width=50, height=40)
    result = fuse([View(each, camera, Pose.identity()) for each in maps], min_confidence=0.0)
    assert "noise_growth" not in result.parameters
    assert not result.parameters["inverse"]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("inverse", [False, True])
def test_an_error_of_one_noise_costs_the_same_at_any_depth(law: DepthNoise, inverse: bool) -> None:
    """w |x - x'| of two depths a noise apart, to first order: (z / m)^-p in depth, (z / m)^(2 - p) in inverse depth."""
    depth = np.array([[1.5, 3.0, 6.0]], np.float32)
    noise = 1e-3 * law.unit(depth)
    stack = Weighing(depth, law)(Stack(depth[None].copy()), inverse=inverse)
    weights = np.ones_like(depth) if stack.weights is None else stack.weights[0]
    apart = np.abs(1 / depth - 1 / (depth + noise)) if inverse else noise
    cost = weights * apart
    np.testing.assert_allclose(cost, cost[0, 1], rtol=2e-3)


def test_given_weights_are_multiplied_and_an_unknown_surface_changes_none() -> None:
    depth, given = np.array([[1.5, np.nan, 6.0]], np.float32), np.array([[[2.0, 3.0, 0.0]]], np.float32)
    stack = Stack(np.full((1, 1, 3), 3.0, np.float32), given)
    weighed = Weighing(depth, DepthNoise(3.0, 0))(stack, inverse=True)
    np.testing.assert_allclose(weighed.weights, [[[0.5, 3.0, 0.0]]])


def test_weights_differ_by_fifty_at_most_from_the_middle() -> None:
    depth = np.array([[1e-3, 3.0, 1e4]], np.float32)
    weighed = Weighing(depth, DepthNoise(3.0, 0))(Stack(np.full((1, 1, 3), 3.0, np.float32)), inverse=True)
    np.testing.assert_allclose(weighed.weights, [[[1 / 50, 1.0, 50.0]]], rtol=1e-6)


def test_a_hole_between_two_distant_surfaces_stays_open_though_their_inverse_depths_are_alike() -> None:
    """Metres apart, noise of centimetres: in inverse depth the step is small beside those nearby."""
    depth = np.where(np.arange(60) < 50, 40.0, 60.0) * np.ones((40, 1))
    depth[:, :40] = 2.0 + 0.1 * np.arange(40)
    depth[18:22, 48:52] = np.nan
    stack = Stack((depth + np.random.default_rng(0).normal(0, 0.02, depth.shape)).astype(np.float32)[None])
    task = prepare(energy_of(replace(PAPERS, inverse=True), 1.0), stack, NUMPY)
    state = task.initial_state()
    bridged = holes.fill_within_surfaces(task, state, 3)
    apart = holes.fill_within_surfaces(task, state, 3, DepthNoise(40.0, 0))
    assert np.isfinite(bridged[18:22, 48:52]).all()
    assert np.isnan(apart[19:21, 49:51]).all()


def filled(depth: np.ndarray, radius: int = 5) -> np.ndarray:
    task = prepare(energy_of(PAPERS, 1.0), Stack(depth.astype(np.float32)[None]), NUMPY)
    return holes.fill_within_surfaces(task, task.initial_state(), radius)


def test_a_hole_between_two_surfaces_stays_open_however_many_edges_there_are() -> None:
    """Slats 12 pixels wide: next to most pixels is an edge, which makes it no slope."""
    depth = np.where(np.arange(120) // 12 % 2, 3.0, 4.0) + np.random.default_rng(0).normal(0, 0.005, (60, 120))
    depth[20:24, 46:50] = depth[40:42, 53:55] = np.nan
    found = filled(depth)
    assert np.isnan(found[20:24, 46:50]).all()
    np.testing.assert_allclose(found[40:42, 53:55], 4.0, atol=0.02)


def test_readings_behind_the_reference_are_left_out() -> None:
    """Views behind the reference, noise as large as the distance: z - baseline is negative for some measurements."""
    rng = np.random.default_rng(0)
    given = []
    for k in range(5):
        depth = corridor(0.0) + 0.3 * k
        noisy = np.maximum(depth + rng.normal(0, 0.5, depth.shape), 0.05)
        given.append(View(noisy.astype(np.float32), CAMERA, Pose(np.eye(3), np.array([0.0, 0.0, -0.3 * k]))))
    result = fuse(given, reference=0, min_confidence=0.0)
    assert np.nanmin(result.depth) > 0


def test_a_surface_with_an_odd_pixel_keeps_its_middle_depth() -> None:
    """Weights would depend on the unit of length otherwise."""
    depth = np.full((60, 80), 3000.0, np.float32)
    depth[3, 4] = -5.0
    found = depth_noise(depth[None] + 1.0, depth, NUMPY)
    assert found == DepthNoise(3000.0, 0)


def test_tiles_weigh_as_the_first_one() -> None:
    """Choices of a result, with the middle depth of its growth, are those of a fusion of a part."""
    given, truth = views(3)
    whole = fuse(given, min_confidence=0.0)
    settings = Settings(min_confidence=0.0).decided(whole.parameters)
    assert settings.noise_growth == whole.parameters["noise_growth"]
    there = (slice(0, 80), slice(20, 80))  # the end of the corridor, far from the middle depth
    part = fuse([crop_view(view, there) for view in given], Auto(settings=settings))
    inner = (slice(10, 70), slice(10, 50))
    apart = np.abs(part.depth[inner] - whole.depth[there][inner])
    assert np.nanmedian(apart) < 0.2 * np.abs(given[1].depth - truth).mean()
