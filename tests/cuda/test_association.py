"""Points on a raster and re-association on the device against the definition; host arrays in, host arrays out."""

import numpy as np
import pytest

from cfusion import kernels

pytestmark = pytest.mark.cuda
SHAPES = [(1, 1), (1, 9), (9, 1), (7, 5), (23, 31), (60, 80)]
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)
reference = kernels.load("numpy")


def holes(rng, shape, unknown):
    depth = rng.normal(5, 1, shape).astype(np.float32)
    depth[rng.random(shape) < unknown] = np.nan
    return depth


@EVERY_SHAPE
def test_z_buffer_has_the_bits_of_the_definition(cuda, shape):
    rng = np.random.default_rng([1, *shape])
    count = 5 * shape[0] * shape[1]
    u, v = rng.uniform(-2, shape[1] + 2, count), rng.uniform(-2, shape[0] + 2, count)
    z = rng.choice([1.0, 2.0, -0.0, 0.0, -3.0, np.nan, np.inf], count)
    values = rng.uniform(0, 1, count).astype(np.float32)
    for ours, defined in zip(
        cuda.splat_nearest(u, v, z, values, shape), reference.splat_nearest(u, v, z, values, shape), strict=True
    ):
        assert isinstance(ours, np.ndarray)
        assert np.array_equal(ours, defined, equal_nan=True)


def test_no_points_leave_an_empty_raster(cuda):
    depth, carried = cuda.splat_nearest(*np.zeros((3, 0)), None, (4, 3))
    assert np.isnan(depth).all()
    assert carried is None


@EVERY_SHAPE
@pytest.mark.parametrize("radius", [0, 1, 3, 5])
def test_closing_and_relief_have_the_bits_of_the_definition(cuda, shape, radius):
    rng = np.random.default_rng([2, *shape, radius])
    for share in (0.0, 0.1, 0.5):
        mask = rng.random(shape) < share
        assert np.array_equal(cuda.close_mask(mask, radius), reference.close_mask(mask, radius))
        depth = np.where(mask, rng.normal(0, 1, shape), np.nan).astype(np.float32)
        assert np.array_equal(cuda.local_depth_range(depth, radius), reference.local_depth_range(depth, radius))


@EVERY_SHAPE
@pytest.mark.parametrize("unknown", [0.0, 0.3, 0.9, 1.0])
def test_fill_is_the_definition_s(cuda, shape, unknown):
    rng = np.random.default_rng([3, *shape, int(10 * unknown)])
    depth = holes(rng, shape, unknown)
    for region in (reference.close_mask(~np.isnan(depth), 5), rng.random(shape) < 0.5):
        ours, defined = cuda.fill_natural(depth, region), reference.fill_natural(depth, region)
        np.testing.assert_allclose(ours, defined, rtol=3e-7)
        assert np.array_equal(cuda.fill_natural(depth, region), ours, equal_nan=True)


def test_an_object_before_nothing_is_filled_alike(cuda):
    rng = np.random.default_rng(4)
    depth = holes(rng, (120, 160), 0.4)
    y, x = np.mgrid[:120, :160]
    depth[(x - 80) ** 2 + (y - 60) ** 2 > 45**2] = np.nan
    region = reference.close_mask(~np.isnan(depth), 5)
    np.testing.assert_allclose(cuda.fill_natural(depth, region), reference.fill_natural(depth, region), rtol=3e-7)


def test_a_constant_stays_exactly_that(cuda):
    rng = np.random.default_rng(5)
    depth = np.where(rng.random((60, 80)) < 0.5, np.float32(np.nan), np.float32(0.1))
    assert (cuda.fill_natural(depth, np.ones((60, 80), bool)) == np.float32(0.1)).all()


@pytest.mark.parametrize("kinds", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("agreement", [0.0, 0.5, 10.0])
@pytest.mark.parametrize("trusting", [False, True], ids=["plain", "weighed"])
def test_re_association_is_the_definition_s(cuda, kinds, agreement, trusting):
    rng = np.random.default_rng(6)
    x, depth = holes(rng, (40, 50), 0.1), holes(rng, (30, 45), 0.1)
    confidence = rng.uniform(0, 1, depth.shape).astype(np.float32) if trusting else np.empty((0, 0), np.float32)
    camera, view_camera = (
        np.array([kind, *((40.0, 42.0) if kind == 0 else (8.0, 9.0)), 24.3, 18.6, 0, 0, 0, 0, 0]) for kind in kinds
    )
    angle = 0.1
    motion = np.array(
        [
            [np.cos(angle), 0, np.sin(angle), -0.3],
            [0, 1, 0, 0.1],
            [-np.sin(angle), 0, np.cos(angle), 0.2],
        ]
    )
    arguments = (x, camera, view_camera, motion, depth, confidence, agreement)
    ours, defined = cuda.read_view(*arguments), reference.read_view(*arguments)
    assert np.array_equal(ours[2], defined[2])
    assert np.array_equal(np.isnan(ours[0]), np.isnan(defined[0]))
    np.testing.assert_allclose(ours[0], defined[0], rtol=1e-6, atol=1e-6)
    assert np.array_equal(ours[1], defined[1])


def test_device_arrays_in_device_arrays_out(cuda):
    import cupy

    rng = np.random.default_rng(7)
    depth = holes(rng, (20, 30), 0.3)
    region = cuda.close_mask(cupy.asarray(~np.isnan(depth)), 3)
    filled = cuda.fill_natural(cupy.asarray(depth), region)
    assert isinstance(region, cupy.ndarray)
    assert isinstance(filled, cupy.ndarray)
    assert np.array_equal(filled.get(), cuda.fill_natural(depth, region.get()), equal_nan=True)


def test_sight_and_pooling_are_the_definition(cuda):
    """How other cameras see a surface, what it hides from them, and means over squares."""
    rng = np.random.default_rng(4)
    y, x = np.mgrid[:45, :70]
    surface = (4 + 0.01 * x - (np.hypot(x - 30, y - 20) < 12) + rng.normal(0, 0.01, x.shape)).astype(np.float32)
    surface[rng.random(surface.shape) < 0.1] = np.nan
    camera = np.array([0, 60.0, 62.0, 34.0, 22.0, 0, 0, 0, 0, 0])
    onto = np.stack(
        [camera, camera * np.array([0, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0]), [1, 12.0, 12, 34, 22, 0, 0, 0, 0, 0]]
    )
    motions = np.stack([np.concatenate([np.eye(3), [[shift], [0.1], [0.0]]], axis=1) for shift in (0.0, -0.8, 0.5)])
    places, shapes = (camera, onto, motions), [(45, 70), (23, 35), (45, 70)]
    there = cuda.to_device(surface, np.float32)
    defined = reference.parallax(surface, *places)
    np.testing.assert_allclose(cuda.to_host(cuda.parallax(there, *places)), defined, rtol=1e-5, atol=1e-5)
    limits = np.full_like(surface, 0.05)
    behind = reference.hidden(surface, *places, shapes, limits)
    assert behind.any()
    ours = cuda.to_host(cuda.hidden(there, *places, shapes, cuda.to_device(limits, np.float32)))
    assert (ours != behind).mean() < 1e-4  # a point on the border between two pixels
    maps = np.stack([np.nan_to_num(surface), rng.random(surface.shape).astype(np.float32)])
    for radius, passes in ((1, 1), (3, 3), (8, 3)):
        pooled = cuda.to_host(cuda.pooled(cuda.to_device(maps, np.float32), radius, passes))
        np.testing.assert_allclose(pooled, reference.pooled(maps, radius, passes), rtol=1e-9)
