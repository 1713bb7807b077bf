"""Depths in steps: the size of the steps from the values of a map, and an error bar that contains them."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Stack, View, fuse, fuse_stack, kernels
from cfusion.auto.rounding import Rounding, at_least_rounded, rounding_of
from cfusion.kernels.depth_noise import DepthNoise

BACKEND = kernels.load("numpy")
NAN = np.float32(np.nan)


def floor(shape: tuple[int, int] = (90, 120), seed: int = 0) -> np.ndarray:
    """A floor from depth 1 to 4, with noise of 0.3 %."""
    rows, columns = np.indices(shape)
    depth = 1 + 3 * rows / shape[0] + 0.1 * columns / shape[1]
    return (depth * (1 + 0.003 * np.random.default_rng(seed).standard_normal(shape))).astype(np.float32)


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_rounded_depths_have_equal_steps(unit: float) -> None:
    found = rounding_of((unit * np.round(floor() / 0.05) * 0.05).astype(np.float32), BACKEND)
    assert found is not None
    assert found.growth.power == 0
    assert found.step == pytest.approx(0.05 * unit, rel=1e-3)


def test_rounded_disparities_have_steps_that_grow_with_the_square() -> None:
    found = rounding_of((60 / np.round(60 / floor())).astype(np.float32), BACKEND)
    assert found is not None
    assert found.growth.power == 2
    assert found.step == pytest.approx(found.growth.middle**2 / 60, rel=0.1)


@pytest.mark.parametrize("height", [30, 0, -30])
def test_heights_in_steps_may_be_negative(height: int) -> None:
    found = rounding_of(np.round(floor() * 10).astype(np.float32) - 25 + height, BACKEND)
    assert found is not None
    assert found.step == pytest.approx(1.0)
    depth = np.float32([[-3.0, 0.0, 4.0]])
    sigma = at_least_rounded(np.zeros_like(depth), np.ones_like(depth), depth, found)
    np.testing.assert_allclose(sigma, 12**-0.5 if found.growth.power == 0 else sigma, rtol=1e-5)


def test_levels_that_no_pixel_has_do_not_make_the_steps_larger() -> None:
    steps = np.round(floor() / 0.02) * 0.02
    steps[(steps > 1.5) & (steps < 3.5)] = np.nan
    found = rounding_of(steps.astype(np.float32), BACKEND)
    assert found is not None
    assert found.step == pytest.approx(0.02, rel=1e-3)


def test_depths_that_are_not_rounded_have_no_steps() -> None:
    walls = np.where(np.arange(120) < 60, 2.0, 3.0) * np.ones((90, 1))
    for depth in (floor(), walls.astype(np.float32), np.full((9, 9), NAN), np.zeros((9, 9), np.float32)):
        assert rounding_of(depth, BACKEND) is None


def test_some_repeated_values_among_others_are_chance() -> None:
    depth = floor()
    depth[:20] = np.round(depth[:20] / 0.01) * 0.01
    assert rounding_of(depth, BACKEND) is None


def test_sigma_is_at_least_that_of_n_rounded_depths() -> None:
    """step (z / middle)^p / sqrt(12 n)."""
    depth, n = np.float32([[1.0, 2.0, 4.0, 4.0]]), np.float32([[1, 1, 4, 0]])
    sigma = np.float32([[0.001, 0.001, 0.001, 0.9]])
    found = at_least_rounded(sigma, n, depth, Rounding(0.1, DepthNoise(2.0, 2)))
    np.testing.assert_allclose(found, [[0.025 / 12**0.5, 0.1 / 12**0.5, 0.2 / 12**0.5, 0.9]], rtol=1e-5)
    assert at_least_rounded(sigma, n, depth, None) is sigma


@pytest.mark.parametrize("posed", [True, False])
def test_a_wall_within_a_step_is_no_surer_than_the_step(posed: bool) -> None:
    """One map of a wall behind a floor, rounded to 0.05: all its pixels are off alike."""
    truth = floor()
    truth[:30] = 3.98 + 0.01 * np.arange(120) / 120
    rounded = (np.round(truth / 0.05) * 0.05).astype(np.float32)
    if posed:
        camera = Pinhole(100.0, 100.0, 59.5, 44.5, 120, 90)
        result = fuse([View(rounded, camera, Pose.identity())], backend="cpu", min_confidence=0)
    else:
        result = fuse_stack(Stack(rounded[None]), backend="cpu", min_confidence=0)
    error = np.abs(result.depth - truth)[3:25, 3:-3]
    assert np.median(result.sigma[3:25, 3:-3]) == pytest.approx(0.05 / 12**0.5, rel=0.2)
    assert (error <= 1.96 * result.sigma[3:25, 3:-3]).mean() > 0.95
