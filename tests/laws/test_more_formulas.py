"""Single formulas of `auto`, by hand: steps in the unit of noise, weights beside edges, what is left out and who."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Stack, View, kernels
from cfusion.auto import (
    at_edges,
    cross_validation,
    folds,
    holes,
    noise,
    occlusion,
    surface,
    uncertainty,
    variable,
    view_report,
)
from cfusion.auto.specks import specks
from cfusion.kernels.depth_noise import CONSTANT, DepthNoise, binned, exponent
from cfusion.kernels.numpy.pulling import read_view
from cfusion.rasters import inspect_raster
from cfusion.synthetic import PAPER_CAMERA, sensors

NUMPY = kernels.load("numpy")
NAN = np.nan


def test_the_usual_slope_is_in_the_unit_of_the_noise() -> None:
    """Depth doubles from pixel to pixel: as parts of it all steps are alike."""
    surface = np.tile(2.0 ** np.arange(8), (8, 1)).astype(np.float32)
    growth = DepthNoise(2.0, 1)
    sizes = noise._step_sizes(surface, *growth.numbers, law=growth.law)
    np.testing.assert_allclose(sizes[1, :, :-1], 2.0)  # a step of z where the unit is z / 2
    assert (sizes[0, :-1] == 0).all()
    tilted = surface + 4 * np.arange(8.0, dtype=np.float32)[:, None]
    assert noise.usual_slope(tilted, CONSTANT, NUMPY) == pytest.approx(
        np.median(np.concatenate([np.full(56, 4.0), np.repeat(2.0 ** np.arange(7), 8)]))
    )
    assert noise.usual_slope(np.full((3, 3), NAN, np.float32), CONSTANT, NUMPY) == 0.0


class TestEdges:
    SURFACE = np.where(np.arange(40) < 20, 1.0, 3.0)[None].repeat(30, axis=0).astype(np.float32)

    def weighed(self, scales: list[float], index: int = 1, exact: float = 1.0) -> Any:
        weights = np.ones((3, 30, 40), np.float32)
        done = noise.weigh_edges(weights, self.SURFACE, CONSTANT, scales, index, NUMPY, exact)
        return done, weights

    def test_noise_and_slope_together(self) -> None:
        done, weights = self.weighed([0.1, 0.1, 0.2])
        assert done
        for k, scale in ((0, 0.1), (2, 0.2)):
            expected = scale / np.hypot(scale, 0.3 * 2 - 0.1)
            np.testing.assert_allclose(weights[k, :, 19:21], expected, rtol=1e-5)
            assert (np.delete(weights[k], (19, 20), axis=1) == 1).all()
        assert (weights[1] == 1).all()  # the reference itself

    def test_half_in_place_is_half_the_slope(self) -> None:
        done, weights = self.weighed([0.1, 0.1, NAN], exact=0.5)
        assert done
        np.testing.assert_allclose(weights[0, :, 19], 0.1 / np.hypot(0.1, 0.5 * 0.3 * 2 - 0.1), rtol=1e-5)
        np.testing.assert_allclose(weights[2, :, 19], 1 / np.hypot(1, 0.5 * 0.3 * 2 - 0.1), rtol=1e-5)

    def test_where_noise_is_larger_nothing_is_done(self) -> None:
        for scales, index in (([0.5, 0.1, 0.5], 1), ([NAN, 0.1, NAN], 1)):
            done, weights = self.weighed(scales, index)
            assert not done
            assert (weights == 1).all()


class TestViews:
    def test_views_alike_are_not_weighed(self) -> None:
        rng = np.random.default_rng(3)
        surface = np.full((60, 80), 2.0, np.float32)
        sizes = np.array([0.01, 0.01, 0.01, 0.04])
        depths = (surface + sizes[:, None, None] * rng.laplace(size=(4, 60, 80))).astype(np.float32)
        weights = np.ones_like(depths)
        assert not noise.weigh_views(weights[:3], depths[:3], surface, CONSTANT, NUMPY)
        assert (weights == 1).all()
        assert noise.weigh_views(weights, depths, surface, CONSTANT, NUMPY)
        each = weights[:, 0, 0]
        assert each[3] / each[0] == pytest.approx(0.25, rel=0.25)
        assert noise.view_scales(weights[:2], depths[:2], surface, CONSTANT, NUMPY) is None

    def test_the_median_of_a_few(self) -> None:
        assert noise.middle_of([3.0, NAN, 1.0]) == 2.0
        assert noise.middle_of([3.0, 1.0, 9.0]) == 3.0
        assert np.isnan(noise.middle_of([NAN]))

    def test_copies_are_told_from_maps(self) -> None:
        apart = np.full((4, 4), 1.0)
        apart[0, 1] = apart[1, 0] = 0.01
        np.fill_diagonal(apart, np.inf)
        shared = noise.share_errors(apart)
        assert np.argwhere(shared).tolist() == [[0, 1], [1, 0]]
        assert not noise.share_errors(np.full((2, 2), np.inf)).any()

    def test_what_a_quantile_is_of(self) -> None:
        values = np.arange(101.0, dtype=np.float32).reshape(1, 101)
        values[0, 100] = np.inf
        assert noise._quantile(values, 0.98, NUMPY) == pytest.approx(0.98 * 99)
        assert np.isnan(noise._quantile(np.full((2, 2), NAN, np.float32), 0.5, NUMPY))


class TestLeftOut:
    def test_gone_where_that_is_so_and_in_those_views(self) -> None:
        depths, weights = np.ones((2, 1, 3), np.float32), np.full((2, 1, 3), 0.5, np.float32)
        where = np.array([[[True, False, True]]])
        there = np.array([True, False])[:, None, None]
        found = occlusion._without(depths, weights, np.ones((2, 1, 3), bool), where, there)
        np.testing.assert_array_equal(found[0][0], [[NAN, 1, NAN]])
        np.testing.assert_array_equal(found[1][0], [[0, 0.5, 0]])
        assert found[2].tolist() == [[[False, True, False]], [[True] * 3]]
        assert (found[0][1] == 1).all()

    def test_denied_by_enough_of_the_others(self) -> None:
        weights = np.array([[[5.0, 5.0]], [[1.0, 1.0]], [[1.0, 0.5]]], np.float32)
        wrong = np.array([[True, True]])
        support = at_edges.support_of(weights, 0)
        assert occlusion._denied(wrong, support, 2.0).tolist() == [[True, False]]
        assert not occlusion._denied(~wrong, support, 2.0).any()

    def test_further_than_so_many_units(self) -> None:
        surface, unit = np.full((1, 3), 2.0, np.float32), np.array([[1.0, 1.0, 2.0]], np.float32)
        depth, weights = np.array([[2.5, 1.25, 3.5]], np.float32), np.array([[[9, 9, 9]], [[1, 2, 1]]], np.float32)
        wrong, surely, trustworthy = occlusion._further(
            depth, surface, unit, np.float32(0.5), weights, 1, np.float32(2)
        )
        assert wrong.tolist() == [[False, True, True]]
        assert (surely.tolist(), trustworthy.tolist()) == ([[False, True, False]], [[False, True, False]])
        more, fewer, other = occlusion._times(unit, *np.array([3.0, 2.0, 0.5, 5.0], np.float32))
        assert (more.tolist(), fewer.tolist()) == ([[6, 6, 12]], [[1.5, 1.5, 3]])
        assert other.tolist() == [[5, 5, 10]]

    @pytest.mark.parametrize("known", [(0, 5), (5, 0), (3, 2)])
    def test_a_part_that_would_know_nothing_is_the_whole(self, known: tuple[int, int]) -> None:
        stack = Stack(np.ones((2, 3, 4)))
        maps = np.full((2, 3, 4), 2.0, np.float32), None
        kept, out = folds._parts(stack, maps, maps, known)
        assert (kept is stack) == (known[0] == 0)
        assert (out is stack) == (0 in known)

    def test_holes_within_one_surface_alone(self) -> None:
        hole = np.array([[True, True, False]])
        change = np.array([[1.0, 1.5, 0.0]], np.float32)
        assert holes._within_one(hole, change, 1.0).tolist() == [[True, False, False]]
        found, count = holes._holes(np.array([[True, True, False]]), np.array([[True, False, False]]))
        assert (found.tolist(), int(count)) == ([[False, True, False]], 1)

    def test_what_is_filled_is_depth_again(self) -> None:
        known, filled = np.array([[1.0, NAN, -9.0]], np.float32), np.array([[7.0, 1.0, 0.0]], np.float32)
        observed = np.array([[True, False, True]])
        plain = holes._completed(known, observed, filled, 0.0, 0.5, np.float32(2.0), inverse=False)
        np.testing.assert_allclose(plain, [[3.0, 3.5, -7.0]])
        turned = holes._completed(known, observed, filled, 0.0, 0.5, np.float32(2.0), inverse=True)
        np.testing.assert_allclose(turned, [[1 / 3, 1 / 3.5, NAN]], rtol=1e-6)


class TestEffect:
    """How far the surface moves without a view."""

    @staticmethod
    def found(depths: Any, inverse: bool = False, weights: Any = None) -> Any:
        stack = Stack(np.asarray(depths, np.float32), weights)
        task = SimpleNamespace(stack=stack, backend=NUMPY, energy=SimpleNamespace(inverse=inverse))
        return SimpleNamespace(task=task, depth=np.full((2, 2), 2.0, np.float32))

    def test_root_mean_square_where_it_stays_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[Stack] = []

        def refit(found: Any, stack: Stack) -> Any:
            asked.append(stack)
            return np.array([[5.0, 6.0], [NAN, 2.0]], np.float32)

        monkeypatch.setattr(view_report, "refit", refit)
        weights = np.full((2, 2, 2), 0.5, np.float32)
        assert view_report._effect(self.found(np.ones((2, 2, 2)), weights=weights), 1) == pytest.approx(
            np.sqrt((9 + 16 + 0) / 3)
        )
        assert np.isnan(asked[0].depths[1]).all()
        assert (asked[0].depths[0] == 1).all()
        assert asked[0].weights is not None
        assert asked[0].weights[:, 0, 0].tolist() == [0.5, 0.0]
        expected = np.sqrt(np.mean((1 / np.array([5.0, 6.0, 2.0]) - 2) ** 2))
        assert view_report._effect(self.found(np.ones((2, 2, 2)), inverse=True), 0) == pytest.approx(expected)

    def test_nobody_else_tells_nothing(self) -> None:
        assert np.isnan(view_report._effect(self.found(np.ones((1, 2, 2))), 0))
        alone = np.ones((2, 2, 2))
        alone[1] = NAN
        assert np.isnan(view_report._effect(self.found(alone), 0))


@pytest.mark.parametrize("power", [0, 1, 2])
def test_the_record_of_a_view_is_in_the_unit_of_the_noise(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise grows with depth, one view is 2 % too far: bias in depth, misplacement from residuals over that unit."""
    rng = np.random.default_rng(6)
    growth = DepthNoise(2.0, power)
    depth = (2.0 + 0.02 * np.arange(60.0) + 0.5 * np.sin(np.arange(40.0) / 4)[:, None]).astype(np.float32)
    unit = growth.unit(depth)
    residual = (unit * rng.normal(0, 0.01, (3, 40, 60))).astype(np.float32)
    residual[1] += 0.02 * depth
    residual[2, :10] = NAN
    support = np.isfinite(residual) & (rng.random(residual.shape) < 0.9)
    evidence = SimpleNamespace(residual=residual, support=support, contradiction=~support)
    assessed: Any = SimpleNamespace(evidence=evidence, growth=growth, scales=[0.1, 0.2, 0.3])
    monkeypatch.setattr(view_report, "_effect", lambda found, k: 10.0 + k)
    source: Any = SimpleNamespace(motions=None, names=["a", "b", "c"])
    records = view_report.report(SimpleNamespace(depth=depth), assessed, source, NUMPY)  # type: ignore[arg-type]
    deviation, _ = uncertainty.spread(residual / unit, NUMPY)
    slope = surface.local_slope(depth, growth)
    assert records[1].registration > 0.01
    for k, record in enumerate(records):
        told = np.where(support[k], residual[k] / unit, NAN)[None].astype(np.float32)
        assert record.registration == pytest.approx(uncertainty.registration_error(told, slope, deviation), rel=1e-5)
        assert record.bias == pytest.approx(np.nanmedian(residual[k]), abs=1e-4)
        assert record.scale_factor == pytest.approx(np.nanmedian(1 + residual[k] / depth), abs=1e-4)
        assert record.share_kept == pytest.approx(support[k].sum() / np.isfinite(residual[k]).sum())
        assert (record.noise, record.effect) == (pytest.approx(0.1 * (k + 1)), 10.0 + k)
        assert (record.turned, record.shifted, record.rescaled) == (0.0, 0.0, False)


@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("unit", [1.0, 0.25, 8.0])
def test_specks_have_few_observed_pixels_around_in_any_unit_of_weights(unit: float, share: float) -> None:
    """Fewer than a quarter of the usual number in a square of side 7, fewer than five, and not of the reference."""
    rng = np.random.default_rng(5)
    seen = rng.random((3, 30, 40)) < np.array([0.05, 0.02, 0.02])[:, None, None]
    seen[1, 10:22, 5:20] |= rng.random((12, 15)) < share
    weights = (unit * np.where(seen, rng.uniform(0.5, 1.5, seen.shape), 0)).astype(np.float32)
    observed = np.pad(seen.any(axis=0), 3)
    around = np.lib.stride_tricks.sliding_window_view(observed, (7, 7)).sum(axis=(2, 3))
    usual = np.median(around[seen.any(axis=0) & ~seen[0]])
    assert (0.25 * usual > 5) == (share == 1)
    limit = min(0.25 * usual, 5)
    wanted = (around < limit) & ~seen[0]
    assert (around == limit).any() or share < 1  # sums are rounded, but exactly the limit is no speck
    assert (wanted & seen.any(axis=0)).sum() > 2
    np.testing.assert_array_equal(specks(weights, 0, NUMPY), wanted)


@pytest.mark.parametrize(("ratio", "wide"), [(1.0, False), (0.95, False), (1.05, True)])
def test_depth_and_its_inverse_differ_over_a_wide_range_of_perspective_depths(ratio: float, wide: bool) -> None:
    """Between the first and the last tenth; not for parallel rays, nor where a depth is not positive."""
    camera, parallel = Pinhole(9.0, 9.0, 5.0, 5.0, 10, 10), Orthographic(0.1, 5.0, 5.0, 10, 10)
    surface = np.full((10, 10), 2.0, np.float32)
    surface[:, 5:] = 2.0 * variable.WIDE * ratio if ratio != 1 else 2.0
    assert variable.is_wide(surface, camera, NUMPY) == wide
    surface[0, 0] = NAN
    assert variable.is_wide(surface, camera, NUMPY) == wide
    assert not variable.is_wide(surface, parallel, NUMPY)
    assert not variable.is_wide(surface, None, NUMPY)
    assert not variable.is_wide(surface * NAN, camera, NUMPY)
    surface[0, 0] = 0.0
    assert not variable.is_wide(surface, camera, NUMPY)


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_inverse_depth_is_not_tried_where_a_depth_has_none(least: float) -> None:
    task: Any = SimpleNamespace(least=least)  # nothing else is asked for
    assert cross_validation.inverse_is_better(task, None) is False  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_the_parallax_of_parallel_cameras_is_the_same_at_any_height(name: str) -> None:
    """At 0 too: what lies in the plane of the other camera, or behind it, moves as the rest does."""
    backend = kernels.load(name)
    camera = Orthographic(0.1, 2.0, 1.5, 5, 4).numbers
    turn = np.array([[np.cos(0.1), 0, np.sin(0.1)], [0, 1, 0], [-np.sin(0.1), 0, np.cos(0.1)]])
    motions = np.concatenate([turn, np.zeros((3, 1))], axis=1)[None]
    surface = np.zeros((4, 5), np.float32)
    surface[0], surface[1, 0] = 3.0, -2.0
    surface[3, 2] = NAN
    found = backend.parallax(surface, camera, camera[None], motions)[0]
    wanted = np.where(np.isnan(surface), NAN, np.sin(0.1) / 0.1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    still = np.concatenate([np.eye(3), np.zeros((3, 1))], axis=1)[None]  # z is the height itself
    np.testing.assert_array_equal(
        backend.parallax(surface, camera, camera[None], still)[0], np.where(surface == surface, 0, NAN)
    )


def test_the_power_of_noise_is_that_of_its_sizes() -> None:
    depths = np.linspace(1, 4, 4000)
    rng = np.random.default_rng(5)
    for power in (0, 1, 2):
        sizes = np.abs(rng.laplace(size=depths.size)) * depths**power
        assert exponent(*binned(depths, sizes)) == pytest.approx(power, abs=0.25)
    assert exponent(*binned(depths[:300], depths[:300])) == 0.0  # too few
    assert exponent(*binned(1 + depths / 100, depths)) == 0.0  # at one depth
    unit = DepthNoise(2.0, 2).unit(np.array([1.0, 2.0, 4.0, NAN], np.float32))
    np.testing.assert_allclose(unit, [0.25, 1.0, 4.0, 1.0])


def test_a_kinect_knows_no_infinity() -> None:
    """A disparity of less than half a step is none."""
    sensor = sensors.Kinect()
    depth = np.full((30, 40), 1e6)
    depth[:15] = 1.0
    seen = sensor(depth, np.random.default_rng(0))
    assert not np.isinf(seen).any()
    assert np.isnan(seen[20:]).all()
    assert np.isfinite(seen[:10]).mean() > 0.9
    depth[5, 5] = NAN
    assert np.isnan(sensor(depth, np.random.default_rng(0))[5, 5])


def test_a_kinect_loses_what_its_rays_graze() -> None:
    """Surfaces steeper than 75 degrees, in the paper's camera."""
    for degrees, steep in ((70.0, 0), (78.0, 1)):
        growth = np.tan(np.radians(degrees)) / PAPER_CAMERA.fx  # of depth, from column to column
        wall = np.exp(growth * np.arange(60)) * np.ones((40, 1))
        lost = np.isnan(sensors.Kinect()(wall, np.random.default_rng(0))).mean()
        assert lost == pytest.approx(steep, abs=0.02)


def test_a_raster_without_heights_is_refused_if_all_of_it_was_seen() -> None:
    def raster(side: int) -> Any:
        grid = SimpleNamespace(width=side, height=side)
        return SimpleNamespace(
            **{"grid": grid, "path": "a.tif", "name": "a", "stored": lambda heights: heights},
            heights=lambda left, top, w, h: np.full((1, 1), NAN, np.float32),
        )

    whole = inspect_raster.SIDE * inspect_raster.ACROSS
    with pytest.raises(OSError, match="has no heights"):
        inspect_raster.require_heights(raster(whole))
    inspect_raster.require_heights(raster(whole + 1))


@pytest.mark.parametrize(("width", "height"), [(700, 300), (300, 700), (9000, 400), (400, 9000)])
def test_parts_of_a_raster_lie_in_it_and_not_on_each_other(width: int, height: int) -> None:
    """All of it, if it is no larger than the parts."""
    asked: list[tuple[int, int, int, int]] = []

    def heights(left: int, top: int, across: int, down: int) -> Any:
        asked.append((left, top, left + across, top + down))
        return np.arange(float(across * down)).reshape(down, across)

    grid = SimpleNamespace(width=width, height=height)
    raster: Any = SimpleNamespace(grid=grid, path="a.tif", name="a", stored=lambda values: values, heights=heights)
    inspect_raster.require_heights(raster)
    seen = np.zeros((height, width), np.int8)
    for left, top, right, bottom in asked:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
        seen[top:bottom, left:right] += 1
    assert seen.max() == 1
    assert (seen.min() == 1) == (max(width, height) <= inspect_raster.SIDE * inspect_raster.ACROSS)


def test_a_view_reads_what_lies_before_it_alone() -> None:
    camera = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
    view = View(np.full((4, 5), 3.0), camera, Pose.identity())
    empty = np.empty((0, 0), np.float32)
    for shift, known in ((0.0, True), (-2.0, True), (-3.0, False), (-4.0, False)):
        motion = np.hstack([np.eye(3), [[0.0], [0.0], [shift]]])
        surface = np.full((4, 5), 3.0, np.float32)
        found, weight, seen = read_view(surface, camera.numbers, camera.numbers, motion, view.depth, empty, 0.0)
        assert bool(np.isfinite(found[2, 2])) is known
        assert bool(seen[2, 2]) is known
        assert bool(weight[2, 2] > 0) is known


def test_pixels_with_a_measured_neighbour_are_counted_along_each_side() -> None:
    weights = np.array([[1, 0.5, 0, 2, 0, 1], [0, 1, 0, 0, 0, 1], [0, 0, 0, 3, 3, 3]], np.float32)
    assert [int(each) for each in holes._measured(weights)] == [9, 3, 3]
    assert [int(each) for each in holes._measured(weights.T.copy())] == [9, 3, 3]
    wires = np.zeros((4, 9), np.float32)
    wires[:, ::2] = 1  # every second column: neighbours below, none to the right
    assert [int(each) for each in holes._measured(wires)] == [20, 15, 0]
    assert [int(each) for each in holes._measured(wires.T.copy())] == [20, 0, 15]
