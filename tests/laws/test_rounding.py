"""Depths in steps: their size from the values of a map, surfaces between the levels, and error bars for them."""

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Result, Stack, View, fuse, fuse_stack, kernels
from cfusion.auto import rounding, uncertainty
from cfusion.auto.rounding import Rounding, rounding_of, spread_over_steps, steps_of
from cfusion.kernels.depth_noise import DepthNoise

BACKEND = kernels.load("numpy")
NAN = np.float32(np.nan)


def floor(shape: tuple[int, int] = (90, 120), seed: int = 0, noise: float = 0.003) -> np.ndarray:
    """A floor from depth 1 to 4, with noise of 0.3 %."""
    rows, columns = np.indices(shape)
    depth = 1 + 3 * rows / shape[0] + 0.1 * columns / shape[1]
    return (depth * (1 + noise * np.random.default_rng(seed).standard_normal(shape))).astype(np.float32)


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
    if height <= 0:
        assert found.growth.power == 0


def test_a_few_depths_may_be_negative() -> None:
    """Halfway between a depth and its negative, growing steps are zero."""
    depth = (60 / np.round(60 / floor(noise=0.02))).astype(np.float32)
    depth[7, 7], depth[50, 60] = -depth[7, 8], -depth[50, 61]
    with np.errstate(all="raise"):
        found = rounding_of(depth, BACKEND)
    assert found is not None
    assert found.growth.power == 2


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


def test_walls_at_few_exact_depths_are_no_steps() -> None:
    """Twenty walls, 0.1 apart, in an order that makes no two neighbours neighbours in depth."""
    walls = np.repeat(3 + 0.1 * (np.arange(20) * 7 % 20), 6) * np.ones((90, 1))
    assert rounding_of(walls.astype(np.float32), BACKEND) is None
    assert rounding_of(np.sort(walls, axis=1).astype(np.float32), BACKEND) is not None


@pytest.mark.parametrize("axis", [0, 1])
def test_planes_along_an_axis_of_the_image_are_no_steps(axis: int) -> None:
    """Exact floors and walls repeat their depths along rows or columns, in even steps of disparity."""
    away = np.arange(10, 100)[:, None] if axis == 0 else np.arange(10, 130)[None]
    plane = np.minimum(150 / away, 9.0) * np.ones((90, 120))
    plane[20:40, 30:60] = 1.25  # a box before it
    assert rounding_of(plane.astype(np.float32), BACKEND) is None
    noisy = plane * (1 + 0.01 * np.random.default_rng(0).standard_normal(plane.shape))
    assert rounding_of((150 / np.round(150 / noisy)).astype(np.float32), BACKEND) is not None


def test_planes_of_several_kinds_are_no_steps() -> None:
    """An exact corridor: floor and ceiling repeat their depths along rows, both walls along columns."""
    y, x = np.mgrid[-44.5:45, -59.5:60]
    corridor = np.min([120 / np.abs(y - 3.2), 130 / np.abs(x + 5.1), np.full(y.shape, 14.0)], axis=0)
    corridor[10:40, 80:90] = 3.0
    assert rounding_of(corridor.astype(np.float32), BACKEND) is None


def test_steps_grow_with_the_depth() -> None:
    """step (z / middle)^p, and none without rounding."""
    depth = np.float32([[1.0, 2.0, 4.0]])
    np.testing.assert_allclose(steps_of(depth, Rounding(0.1, DepthNoise(2.0, 2))), [[0.025, 0.1, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(steps_of(depth, None), 0)


class TestSpread:
    """Observations are moved by -1/2 to 1/2 of their step, evenly over pixels and views."""

    depth = np.full((5, 40, 60), 2.0, np.float32)
    depth[:, 0, 0] += np.arange(5)  # no copies

    def moved(self, *roundings: Rounding | None) -> np.ndarray:
        maps = self.depth[: len(roundings)].copy()
        maps[:, 3, 4] = NAN
        stack = Stack(maps)
        return spread_over_steps(stack, roundings, BACKEND).depths - stack.depths

    @pytest.mark.parametrize(("power", "step"), [(0, 0.1), (1, 0.2), (2, 0.4)])
    def test_by_half_a_step_at_most(self, power: int, step: float) -> None:
        share = self.moved(Rounding(0.1, DepthNoise(1.0, power)))[0] / step
        assert np.isnan(share[3, 4])
        share = share[~np.isnan(share)]
        assert -0.5 <= share.min() < -0.49
        assert 0.49 < share.max() <= 0.5
        assert abs(share.mean()) < 0.02
        assert share.var() == pytest.approx(1 / 12, rel=0.05)

    def test_neighbours_and_views_are_moved_otherwise(self) -> None:
        share = np.nan_to_num(self.moved(*[Rounding(1.0, DepthNoise(1.0, 0))] * 5))
        for one, other in ((share[:, 2:], share[:, :-2]), (share[..., 2:], share[..., :-2])):  # as far as rho looks
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.05
        assert np.abs(share.mean(axis=0)).max() < 0.15  # by chance some would be 0.3 off

    @pytest.mark.parametrize("count", [2, 3, 5, 11])
    def test_no_view_is_moved_as_another_one(self, count: int) -> None:
        """Else the offsets of held-out views would be predicted, as if they were surface."""
        levels = 2 + np.arange(count, dtype=np.float32)[:, None, None]
        stack = Stack(levels * np.ones((100, 100), np.float32))
        found = spread_over_steps(stack, [Rounding(1.0, DepthNoise(1.0, 0))] * count, BACKEND)
        share = (found.depths - stack.depths).reshape(count, -1)
        alike = np.corrcoef(share)[~np.eye(count, dtype=bool)]
        assert alike.max() < 0.05
        assert alike.min() > -0.55

    def test_a_view_without_steps_stays(self) -> None:
        share = self.moved(None, Rounding(1.0, DepthNoise(1.0, 0)))
        np.testing.assert_array_equal(np.nan_to_num(share[0]), 0)
        assert np.abs(np.nan_to_num(share[1])).max() > 0.4

    def test_without_steps_nothing_is_copied(self) -> None:
        stack = Stack(self.depth)
        assert spread_over_steps(stack, [None] * 5, BACKEND) is stack

    def test_what_is_given_stays(self) -> None:
        stack = Stack(self.depth.copy(), np.ones_like(self.depth))
        found = spread_over_steps(stack, [Rounding(1.0, DepthNoise(1.0, 0))] * 5, BACKEND)
        np.testing.assert_array_equal(stack.depths, self.depth)
        np.testing.assert_array_equal(found.weights, stack.weights)


class TestPlaces:
    """Offsets are those of a place among the observations, which depends on what they are."""

    maps = tuple(np.round(floor(seed=seed) * 20).astype(np.float32) / 20 for seed in range(4))

    def places(self, *maps: np.ndarray) -> list[int]:
        return rounding._places(Stack(np.stack(maps)), range(len(maps)), BACKEND).tolist()

    def test_the_order_of_the_maps_does_not_matter(self) -> None:
        places = self.places(*self.maps)
        assert sorted(places) == [0, 1, 2, 3]
        order = [2, 0, 3, 1]
        assert self.places(*(self.maps[view] for view in order)) == [places[view] for view in order]

    def test_copies_share_theirs_also_with_holes(self) -> None:
        one, other = self.maps[:2]
        holes = one.copy()
        holes[10:20, 30:50] = NAN
        first, second, third, last = self.places(one, other, holes, one)
        assert first == third == last
        assert {first, second} == {0, 1}

    def test_copies_of_a_map_from_other_places_are_none(self) -> None:
        """They are not held out together: with the same offsets, one would predict the other's."""
        assert len(set(self.places(self.maps[0], self.maps[0] + np.float32(0.001)))) == 2


STEP = 0.05


def in_steps(truth: np.ndarray, noise: float, views: int) -> list[np.ndarray]:
    """Measurements with Gaussian noise, in steps of 0.05."""
    rng = np.random.default_rng(1)
    noisy = (truth + noise * rng.standard_normal(truth.shape) for _ in range(views))
    return [(np.round(each / STEP) * STEP).astype(np.float32) for each in noisy]


def fused(maps: list[np.ndarray], posed: bool) -> Result:
    if not posed:
        return fuse_stack(Stack(np.stack(maps)), backend="cpu", min_confidence=0)
    camera = Pinhole(100.0, 100.0, 59.5, 44.5, 120, 90)
    return fuse([View(each, camera, Pose.identity()) for each in maps], backend="cpu", min_confidence=0)


@pytest.mark.parametrize("posed", [True, False])
@pytest.mark.parametrize("views", [1, 3, 9])
def test_a_surface_between_two_levels_does_not_stick_to_one(views: int, posed: bool) -> None:
    """A wall 0.4 steps from a level behind a floor, noise of half a step: the median is a level at every pixel."""
    truth = floor(noise=0)
    truth[:40] = 4.02
    maps = in_steps(truth, 0.5 * STEP, views)
    wall, ground = np.s_[5:35, 5:-5], np.s_[45:-5, 5:-5]
    result = fused(maps, posed)
    off = (result.depth - truth) / STEP
    assert abs(np.median(off[wall])) < 0.12
    assert np.abs(off[ground]).mean() < 0.15
    assert abs(np.median((np.median(maps, axis=0) - truth)[wall])) > 0.35 * STEP


@pytest.mark.parametrize(("views", "noise"), [(1, 0.0), (2, 0.1), (5, 0.3)])
def test_a_slope_has_no_stairs(views: int, noise: float) -> None:
    """Steps as wide as eight rows: a quarter of a step off on average, if every pixel keeps its level."""
    rows, columns = np.indices((90, 120))
    truth = 2 + 0.006 * rows + 0.0011 * columns
    maps = in_steps(truth, noise * STEP, views)
    away = np.abs(fused(maps, posed=False).depth - truth)[8:-8, 8:-8] / STEP
    assert away.mean() < 0.06
    assert np.quantile(away, 0.95) < 0.12
    assert np.abs(np.median(maps, axis=0) - truth).mean() > 0.2 * STEP


@pytest.mark.parametrize("views", [1, 2, 6])
@pytest.mark.parametrize("posed", [True, False])
def test_a_wall_within_a_step_is_no_surer_than_the_step(views: int, posed: bool) -> None:
    """A wall behind a floor without noise, rounded to 0.05: all its pixels are off alike, however many views."""
    truth = floor()
    truth[:30] = 3.98 + 0.01 * np.arange(120) / 120
    result = fused(in_steps(truth, 0.0, views), posed)
    wall = np.s_[3:25, 3:-3]
    error = np.abs(result.depth - truth)[wall]
    assert np.median(result.sigma[wall]) == pytest.approx(STEP / 12**0.5, rel=0.3)
    assert (error <= 1.96 * result.sigma[wall]).mean() > 0.95


@pytest.mark.parametrize("noise", [0.4, 0.7, 1.5])
@pytest.mark.parametrize("views", [3, 9])
def test_sigma_covers_errors_between_the_levels(views: int, noise: float) -> None:
    truth = floor(noise=0)
    truth[:40] = 4.02
    result = fused(in_steps(truth, noise * STEP, views), posed=True)
    inside = np.zeros_like(truth, bool)
    inside[5:33, 5:-5] = inside[47:-5, 5:-5] = True
    ratio = (np.abs(result.depth - truth) / result.sigma)[inside]
    assert (ratio <= 1).mean() > 0.55
    assert (ratio <= 1.96).mean() > 0.85
    assert np.median(result.sigma[inside]) < 0.15 * STEP * max(noise, 1)


def test_what_rounding_adds_to_an_observation_is_not_shared() -> None:
    """rho (s^2 - step^2 / 12), and at least step / 20."""
    shape = (60, 80)
    drawn = np.random.default_rng(2).normal(0, 1, (4, 12, 16)).astype(np.float32)
    residuals = np.repeat(np.repeat(drawn, 5, axis=1), 5, axis=2)  # neighbours share their errors
    ones = np.ones(shape, np.float32)

    def sigma(step: float) -> float:
        found, _ = uncertainty.deviation(residuals, 0 * ones, ones, 0 * ones, ones, 1e-8 * ones, step * ones, BACKEND)
        return float(np.median(found))

    s = float(np.median(uncertainty.spread(residuals, BACKEND)[0]))
    rho = sigma(0.0) ** 2 / s**2
    assert rho > 0.5
    assert sigma(1.0) ** 2 == pytest.approx(rho * (s**2 - 1 / 12), rel=0.02)
    assert sigma(3.0) ** 2 > (3 / 20) ** 2


def behind_a_box(rng: np.random.Generator, truth: np.ndarray, noise: float) -> np.ndarray:
    noisy = truth + noise * STEP * rng.standard_normal(truth.shape)
    return (np.round(noisy / STEP) * STEP).astype(np.float32)


@pytest.mark.parametrize("posed", [True, False])
def test_copies_of_rounded_maps_are_no_evidence_for_their_noise(posed: bool) -> None:
    """Moved by different shares of a step, they would predict one another: noise of two steps would stay."""
    truth = floor(noise=0)
    truth[30:60, 40:80] = 1.6
    one = behind_a_box(np.random.default_rng(0), truth, 2.0)
    alone, copied = (fused([one] * views, posed) for views in (1, 3))
    rms = [np.sqrt(np.mean((each.depth - truth) ** 2)) for each in (alone, copied)]
    assert rms[1] < 2.5 * rms[0]
    assert rms[1] < 0.3 * np.sqrt(np.mean((one - truth) ** 2))
    assert np.mean(np.abs(copied.depth - truth) < copied.sigma) > 0.6


@pytest.mark.parametrize("noise", [0.3, 1.5])
def test_the_order_of_rounded_views_does_not_matter(noise: float) -> None:
    truth, rng = floor(noise=0), np.random.default_rng(3)
    maps = [behind_a_box(rng, truth, noise) for _ in range(5)]
    one, other = (fused([maps[view] for view in order], posed=True) for order in ([0, 1, 2, 3, 4], [3, 0, 2, 4, 1]))
    np.testing.assert_allclose(other.depth, one.depth, atol=1e-3 * STEP)
