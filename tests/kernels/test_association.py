"""Points on a raster: the definition against brute force, the compiled backend against the definition."""

import numpy as np
import pytest

from cfusion.kernels.cpu import association as cpu
from cfusion.kernels.numpy import association as reference

BACKENDS = pytest.mark.parametrize("kernels", [reference, cpu], ids=["numpy", "cpu"])
SHAPES = [(1, 1), (1, 9), (9, 1), (7, 5), (23, 31)]


def points(rng, shape, count=200, depths=None):
    height, width = shape
    u, v = rng.uniform(-2, width + 2, count), rng.uniform(-2, height + 2, count)
    z = rng.uniform(1, 5, count) if depths is None else rng.choice(depths, count)
    return u, v, z, rng.uniform(0, 1, count).astype(np.float32)


def holes(rng, shape, unknown):
    depth = rng.normal(5, 1, shape).astype(np.float32)
    depth[rng.random(shape) < unknown] = np.nan
    return depth


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


@BACKENDS
def test_smallest_depth_wins_in_every_pixel(kernels):
    rng = np.random.default_rng(0)
    u, v, z, values = points(rng, (7, 5))
    depth, carried = kernels.splat_nearest(u, v, z, values, (7, 5))
    for row in range(7):
        for column in range(5):
            here = (abs(u - column) < 0.5) & (abs(v - row) < 0.5)
            if not here.any():
                assert np.isnan(depth[row, column])
                assert np.isnan(carried[row, column])
            else:
                winner = np.flatnonzero(here)[z[here].argmin()]
                assert depth[row, column] == np.float32(z[winner])
                assert carried[row, column] == values[winner]


@BACKENDS
def test_halves_round_up_ties_go_to_the_lower_index_and_strays_are_left_out(kernels):
    u = np.array([0.5, 1.0, -0.5, -0.51, 2.5, np.nan, 0.0, 1e300])
    v = np.zeros(8)
    z = np.array([2.0, 2.0, 3.0, 1.0, 1.0, 1.0, np.inf, 1.0])
    values = np.arange(8, dtype=np.float32)
    depth, carried = kernels.splat_nearest(u, v, z, values, (1, 3))
    assert same(depth, np.array([[3, 2, np.nan]], np.float32))
    assert same(carried, np.array([[2, 0, np.nan]], np.float32))


@BACKENDS
def test_order_of_the_points_does_not_matter(kernels):
    rng = np.random.default_rng(1)
    u, v, z, values = points(rng, (7, 5))
    shuffled = rng.permutation(len(u))
    one = kernels.splat_nearest(u, v, z, values, (7, 5))
    other = kernels.splat_nearest(u[shuffled], v[shuffled], z[shuffled], values[shuffled], (7, 5))
    assert same(one[0], other[0])
    assert same(one[1], other[1])


@BACKENDS
@pytest.mark.parametrize("radius", [0, 1, 2, 3, 5])
def test_closing_is_the_pixels_that_every_disc_holds_with_a_known_one(kernels, radius):
    rng = np.random.default_rng(2)
    mask = rng.random((13, 11)) < 0.1
    y, x = np.mgrid[:13, :11].reshape(2, -1)
    near = (y[:, None] - y) ** 2 + (x[:, None] - x) ** 2 <= radius**2
    touches = (near & mask.ravel()).any(axis=1)  # per centre
    expected = (~near | touches).all(axis=1).reshape(mask.shape)
    closed = kernels.close_mask(mask, radius)
    assert np.array_equal(closed, expected)
    assert (closed >= mask).all()
    assert np.array_equal(kernels.close_mask(closed, radius), closed)


@pytest.mark.parametrize("radius", [1, 2, 5])
def test_relief_is_the_range_of_what_is_known_around(radius):
    rng = np.random.default_rng(radius)
    depth = np.where(rng.random((13, 17)) < 0.3, rng.normal(0, 1, (13, 17)), np.nan).astype(np.float32)
    relief = reference.local_depth_range(depth, radius)
    for i, j in np.ndindex(depth.shape):
        around = depth[max(i - radius, 0) : i + radius + 1, max(j - radius, 0) : j + radius + 1]
        known = around[~np.isnan(around)]
        assert relief[i, j] == (known.max() - known.min() if known.size else -np.inf)


@BACKENDS
def test_closing_heals_gaps_and_nothing_wider(kernels):
    mask = np.zeros((21, 41), dtype=bool)
    mask[:, :8] = mask[:, 16:20] = mask[:, 32:] = True  # gaps of 8 and 12 columns, both up to the border
    closed = kernels.close_mask(mask, 5)
    assert closed[:, :20].all()
    assert not closed[:, 20:32].any()
    assert not kernels.close_mask(np.zeros_like(mask), 5).any()


def sibson_by_force(depth, region):
    """x(p) = sum_q a_pq d(s(q)) / sum_q a_pq over the raster and its margin, one cell at a time."""
    known = np.argwhere(~np.isnan(depth))
    value = depth[~np.isnan(depth)].astype(np.float64)
    grid = np.mgrid[
        -reference.MARGIN : depth.shape[0] + reference.MARGIN,
        -reference.MARGIN : depth.shape[1] + reference.MARGIN,
    ]
    filled = depth.astype(np.float64)
    for p in np.argwhere(region & np.isnan(depth)):
        total = area = 0.0
        for q in grid.reshape(2, -1).T:
            squared = ((known - q) ** 2).sum(axis=1)
            share = {1: 1.0, 0: 0.5, -1: 0.0}[int(np.sign(squared.min() - ((p - q) ** 2).sum()))]
            total += share * value[squared == squared.min()].mean()
            area += share
        filled[tuple(p)] = total / area
    return filled


@BACKENDS
@pytest.mark.parametrize("shape", [(1, 6), (5, 1), (5, 6)])
def test_fill_is_the_discrete_sibson_sum(kernels, shape):
    rng = np.random.default_rng(3)
    for unknown in (0.3, 0.8):
        depth = holes(rng, shape, unknown)
        depth[0, 0] = 4
        region = rng.random(shape) < 0.8
        np.testing.assert_allclose(kernels.fill_natural(depth, region), sibson_by_force(depth, region), rtol=3e-7)


@BACKENDS
def test_fill_touches_only_unknown_pixels_of_the_region(kernels):
    rng = np.random.default_rng(4)
    depth = holes(rng, (23, 31), 0.6)
    region = rng.random((23, 31)) < 0.5
    filled = kernels.fill_natural(depth, region)
    wanted = region & np.isnan(depth)
    assert same(filled[~wanted], depth[~wanted])
    assert np.isfinite(filled[wanted]).all()
    assert np.nanmin(depth) <= filled[wanted].min() <= filled[wanted].max() <= np.nanmax(depth)


@BACKENDS
def test_fill_reproduces_constants_exactly_and_planes_within_a_fraction_of_a_pixel(kernels):
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:60, :80]
    slope_x, slope_y = 0.6, -0.8  # one unit a pixel
    plane = (100 + slope_x * x + slope_y * y).astype(np.float32)
    unknown = rng.random(plane.shape) < 0.5
    everywhere = np.ones_like(unknown)
    constant = np.where(unknown, np.float32(np.nan), np.float32(0.1))
    assert (kernels.fill_natural(constant, everywhere) == np.float32(0.1)).all()
    filled = kernels.fill_natural(np.where(unknown, np.float32(np.nan), plane), everywhere)
    error = (filled - plane)[unknown]
    assert np.sqrt((error**2).mean()) < 0.25
    assert abs(error.mean()) < 0.02


@BACKENDS
def test_one_missing_pixel_is_the_mean_of_its_four_neighbours(kernels):
    depth = np.arange(25, dtype=np.float32).reshape(5, 5) ** 2
    known = depth.copy()
    depth[2, 2] = np.nan
    filled = kernels.fill_natural(depth, np.ones((5, 5), dtype=bool))
    assert filled[2, 2] == np.mean([known[1, 2], known[3, 2], known[2, 1], known[2, 3]])


@BACKENDS
def test_a_missing_pixel_at_the_border_lies_between_its_neighbours_along_it(kernels):
    ramp = np.repeat(np.arange(9, dtype=np.float32)[:, None], 9, axis=1)  # rises inwards
    ramp[0, 4] = np.nan
    filled = kernels.fill_natural(ramp, np.ones((9, 9), dtype=bool))
    assert abs(filled[0, 4]) < 0.05  # the mean of the three neighbours would be 1/3


@BACKENDS
def test_fill_turns_with_the_image(kernels):
    rng = np.random.default_rng(6)
    depth = holes(rng, (23, 31), 0.6)
    region = kernels.close_mask(~np.isnan(depth), 3)
    filled = kernels.fill_natural(depth, region)
    for turn in (np.fliplr, np.flipud, np.transpose):
        turned = kernels.fill_natural(np.ascontiguousarray(turn(depth)), np.ascontiguousarray(turn(region)))
        np.testing.assert_allclose(turned, turn(filled), rtol=3e-7)


@BACKENDS
def test_nothing_known_stays_nothing(kernels):
    nothing = np.full((4, 3), np.nan, np.float32)
    assert np.isnan(kernels.fill_natural(nothing, np.ones((4, 3), dtype=bool))).all()
    depth, carried = kernels.splat_nearest(*np.zeros((3, 0)), None, (4, 3))
    assert np.isnan(depth).all()
    assert carried is None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("unknown", [0.0, 0.3, 0.7, 0.97])
def test_cpu_gives_the_bits_of_the_reference(shape, unknown):
    rng = np.random.default_rng([7, *shape, int(100 * unknown)])
    for _ in range(5):
        scattered = points(rng, shape, depths=[1.0, 2.0, 3.0])
        for ours, defined in zip(
            cpu.splat_nearest(*scattered, shape), reference.splat_nearest(*scattered, shape), strict=True
        ):
            assert same(ours, defined)
        depth = holes(rng, shape, unknown)
        radius = int(rng.integers(0, 7))
        closed = reference.close_mask(~np.isnan(depth), radius)
        assert same(cpu.close_mask(~np.isnan(depth), radius), closed)
        for region in (closed, rng.random(shape) < 0.5):
            assert same(cpu.fill_natural(depth, region), reference.fill_natural(depth, region))


def test_cpu_gives_the_bits_of_the_reference_at_full_size():
    rng = np.random.default_rng(8)
    y, x = np.mgrid[:480, :640]
    depth = holes(rng, (480, 640), 0.4)
    depth[(x - 320) ** 2 + (y - 240) ** 2 > 180**2] = np.nan  # an object before nothing
    region = reference.close_mask(~np.isnan(depth), 5)
    assert same(cpu.close_mask(~np.isnan(depth), 5), region)
    assert same(cpu.fill_natural(depth, region), reference.fill_natural(depth, region))
