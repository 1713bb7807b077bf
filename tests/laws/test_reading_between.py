"""Views are read between pixels where noise is smaller than what the surface does there, and across steps never."""

import numpy as np
import pytest

from cfusion import Orthographic, Pose, View, kernels
from cfusion.auto.reading import read_surface, residual_sizes
from cfusion.kernels.depth_noise import CONSTANT, DepthNoise
from cfusion.source import Posed, Reading

NUMPY = kernels.load("numpy")
CAMERA = Orthographic(0.1, 31.5, 23.5, 64, 48)
ROWS, COLUMNS = np.indices(CAMERA.shape)
SLOPE = 0.04  # of the ground, per pixel


def beside(noise: float, step: float = 0.0) -> tuple[Posed, np.ndarray]:
    """A slope seen by a reference and by two views half a pixel to the right, with steps in every eighth."""
    rng = np.random.default_rng(0)
    ground = 5 + SLOPE * COLUMNS
    there = ground + SLOPE / 2 + step * (COLUMNS % 8 == 4)
    seen = [(depth + noise * rng.laplace(size=depth.shape)).astype(np.float32) for depth in (ground, there, there)]
    views = [View(depth, CAMERA, Pose(np.eye(3), [x, 0, 0])) for depth, x in zip(seen, (0.0, 0.05, 0.05), strict=True)]
    return Posed.of(views, 0, NUMPY), ground.astype(np.float32)


@pytest.mark.parametrize(("noise", "between"), [(0.25, True), (4.0, False)])
def test_a_slope_that_is_steeper_than_noise_is_read_between_its_pixels(noise, between):
    """The mean of two pixels has less noise; the nearest alone has all of it."""
    source, ground = beside(noise * SLOPE)
    read = read_surface(source, ground, NUMPY)
    assert read.slope == pytest.approx(SLOPE, rel=0.5)
    own, *others = (read.reading.depths - ground)[:, 4:-4, 4:-4]
    ratio = np.mean([np.abs(each).mean() for each in others]) / np.abs(own).mean()
    assert (ratio < 0.85) == between
    np.testing.assert_allclose(read.scales, residual_sizes(read.reading, ground, read.growth, NUMPY), rtol=1e-9)


@pytest.mark.parametrize(("steps", "joined"), [(3, True), (9, False)])
def test_neighbours_within_six_sizes_are_of_one_surface(steps, joined):
    """Of the noise or of the slope, whichever is larger: between such pixels values are joined, else one is taken."""
    source, ground = beside(1e-4, steps * SLOPE)
    read = read_surface(source, ground, NUMPY)
    at_step = (COLUMNS % 8 == 4) & (ROWS < 47)  # rows between two others
    off = (read.reading.depths[1] - ground)[at_step] / (steps * SLOPE)
    half = np.abs(off - 0.5).max() < 0.2
    assert half == joined
    assert (np.minimum(np.abs(off), np.abs(off - 1)).max() < 0.2) != joined


def test_the_size_of_residuals_is_the_scale_of_their_laplace_law():
    """Of each view on its own, in the unit of the noise."""
    rng = np.random.default_rng(1)
    surface = np.full((100, 120), 3.0, np.float32)
    scales = [0.1, 0.02]
    depths = np.stack([surface + scale * rng.laplace(size=surface.shape) for scale in scales])
    depths[0, :10] = np.nan
    reading = Reading(depths, np.ones_like(depths), np.ones_like(depths, bool))
    np.testing.assert_allclose(residual_sizes(reading, surface, CONSTANT, NUMPY), scales, rtol=0.05)
    growing = DepthNoise(1.5, 2)
    sizes = residual_sizes(reading, surface, growing, NUMPY)
    np.testing.assert_allclose(sizes, np.array(scales) / growing.unit(3.0), rtol=0.05)
