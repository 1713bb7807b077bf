"""Errors that reach far across the image, as those of depth networks: views alike by chance are not followed."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Stack, View, fuse, fuse_stack, kernels
from cfusion.auto.far import share_of_far, variance_of_far

NUMPY = kernels.load("numpy")
CAMERA = Pinhole(75.0, 75.0, 39.5, 29.5, 80, 60)
SHAPE, COUNT, DEPTH = (60, 80), 9, 4.0


def wavy(seed: int) -> list[View]:
    """Nine views of a wall with waves of 2 % along rows and columns, of random phases, and noise of 0.1 %."""
    rng, (y, x) = np.random.default_rng(seed), np.mgrid[: SHAPE[0], : SHAPE[1]]
    views = []
    for k in range(COUNT):
        across, down = rng.uniform(0, 2 * np.pi, 2)
        error = 0.02 * (np.sin(x / 12.5 + across) + np.cos(y / 15 + down)) + 0.001 * rng.normal(size=SHAPE)
        views.append(View(DEPTH * (1 + error), CAMERA, Pose(np.eye(3), np.array([0.1 * (k - 4), 0, 0]))))
    return views


@pytest.mark.parametrize("seed", range(4))
def test_two_views_that_are_alike_by_chance_are_not_followed(seed: int) -> None:
    """The median error was 2.2, 0.6, 2.8 and 1.5 times that of the mean of all views."""
    views = wavy(seed)
    fused, mean = fuse(views), fuse(views, "mean")
    off = np.abs(fused.depth - DEPTH)
    assert np.nanmedian(off) < 1.35 * np.nanmedian(np.abs(mean.depth - DEPTH))
    assert np.nanmean(off < fused.sigma) > 0.2


def test_the_share_of_far_errors_is_zero_of_noise_and_one_of_offsets() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(COUNT, *SHAPE))
    assert share_of_far(noise) < 0.05
    offsets = np.broadcast_to(rng.normal(size=(COUNT, 1, 1)), noise.shape)
    assert share_of_far(offsets) == pytest.approx(1, abs=0.02)
    assert share_of_far(np.where(noise > 1, np.nan, offsets)) > 0.7  # the median view differs from pixel to pixel
    assert 0.4 < share_of_far(noise + offsets) < 0.95
    assert share_of_far(np.full_like(noise, np.nan)) == 0


def test_the_fused_error_is_that_of_a_median_of_views() -> None:
    rng = np.random.default_rng(1)
    offsets = rng.normal(size=(501, 1, 1))
    spread = 1.4826 * float(np.median(np.abs(offsets - np.median(offsets))))
    expected = np.pi / 2 * spread**2 / len(offsets)
    noisy = offsets + rng.normal(0, 0.5, (len(offsets), 24, 32))
    assert variance_of_far(noisy.astype(np.float32), None, NUMPY) == pytest.approx(expected, rel=0.15)
    two = variance_of_far((offsets[:2] + rng.normal(0, 0.05, (2, 24, 32))).astype(np.float32), None, NUMPY)
    assert two == pytest.approx(float(np.diff(offsets[:2, 0, 0])[0]) ** 2 / 4, rel=0.1)  # their mean
    assert variance_of_far(rng.normal(size=(COUNT, *SHAPE)).astype(np.float32), None, NUMPY) < 0.003
    assert variance_of_far(np.full((1, *SHAPE), 0.5, np.float32), None, NUMPY) == 0  # one view tells nothing of itself
    assert variance_of_far(np.full((3, *SHAPE), np.nan, np.float32), None, NUMPY) == 0
    assert variance_of_far(offsets[:3] + np.zeros((3, 9, 12), np.float32), None, NUMPY) == 0  # too few pixels
    some = offsets[:9] + np.zeros((9, 24, 32), np.float32)
    assert variance_of_far(some, None, NUMPY) > 0
    some[:, 3:] = np.nan
    assert variance_of_far(some, None, NUMPY) == 0  # eight tiles are chance


@pytest.mark.parametrize(("count", "weight"), [(3, 0.01), (5, 0.01), (5, 1.0), (7, 1.0)])
def test_one_biased_view_does_not_make_the_others_uncertain(count: int, weight: float) -> None:
    """The median does not follow it, however many views there are to tell."""
    maps = 3 + np.random.default_rng(0).normal(0, 0.05, (count, *SHAPE))
    maps[0] += 0.3
    weights = np.ones_like(maps)
    weights[0] = weight
    result = fuse_stack(Stack(maps, weights))
    assert np.nanmedian(result.sigma) < 3 * max(float(np.nanmedian(np.abs(result.depth - 3))), 0.001)
