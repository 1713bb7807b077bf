"""What `auto` counts with, on maps small enough to reckon by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Orthographic, Pinhole, Pose, Stack, View, fuse_stack, kernels
from cfusion.auto import evidence
from cfusion.auto import first_surface as first
from cfusion.auto import votes as votes_of
from cfusion.auto.assess import _unsure
from cfusion.auto.belief import confidence, out_of_line
from cfusion.auto.edges import edge_weights
from cfusion.auto.misreading import (
    _weight,
    _within,
    independence,
    nearest,
    reliefs_of,
    surface_doubt,
    usual_parallax,
    weigh_near_edges,
)
from cfusion.auto.noise import middle_of, not_too_loud, residual_scales
from cfusion.auto.settings import Settings
from cfusion.auto.surface import alike_around, local_slope, steps
from cfusion.geometry.pose import turned_by
from cfusion.kernels.depth_noise import CONSTANT, DepthNoise
from cfusion.solvers import PDHG, task
from cfusion.source import Posed
from cfusion.source.upload import in_view_order

NUMPY = kernels.load("numpy")
NAN = np.nan


def test_no_view_is_more_than_twenty_times_as_noisy_as_usual() -> None:
    """One with residuals of metres looks at another surface; where its limits grew with them, it was believed."""
    rng = np.random.default_rng(0)
    away = rng.laplace(0, np.array([0.01, 0.1, 0.01, 3.0, 0.01])[:, None, None], (5, 30, 40)).astype(np.float32)
    scales, _ = residual_scales(away, NUMPY)
    np.testing.assert_allclose(scales[:3], [0.01, 0.1, 0.01], rtol=0.15)
    assert scales[3] == pytest.approx(20 * middle_of(scales))
    assert not_too_loud([0.0, 0.0, 1.0]) == [0.0, 0.0, 1.0]  # exact views tell nothing about the noise of others
    assert not_too_loud([NAN, NAN, 1.0]) == pytest.approx([NAN, NAN, 1.0], nan_ok=True)


class TestSlopes:
    SURFACE = np.array([[1.0, 2.0, 4.0], [1.5, NAN, 9.0], [1.0, 1.0, 8.0]], np.float32)

    def test_steps_go_down_and_to_the_right(self) -> None:
        down, right = steps(self.SURFACE)
        np.testing.assert_array_equal(down, [[0.5, NAN, 5], [-0.5, NAN, -1], [NAN, NAN, NAN]])
        np.testing.assert_array_equal(right, [[1, 2, NAN], [NAN, NAN, NAN], [0, 7, NAN]])

    def test_the_slope_is_the_largest_step_to_any_of_four(self) -> None:
        expected = np.array([[1, 2, 5], [0.5, NAN, 5], [0.5, 7, 7]])
        np.testing.assert_array_equal(local_slope(self.SURFACE, CONSTANT), expected)
        grown = local_slope(self.SURFACE, DepthNoise(2.0, 2))
        np.testing.assert_allclose(grown, expected / (self.SURFACE / 2) ** 2, rtol=1e-5)


class TestEdges:
    """Weight 1 / (1 + (e / noise)^2), e what a step is higher than the slope beside it."""

    def weights(self, row: np.ndarray, noise: float = 0.5) -> np.ndarray:
        surface = np.tile(row, (7, 1)).astype(np.float32)
        across, down = (
            edge_weights(np.ascontiguousarray(each), np.full_like(each, noise)) for each in (surface, surface.T)
        )
        np.testing.assert_allclose(across, down.T, rtol=1e-6)
        return across[3]

    def test_a_step_of_one_noise_counts_half(self) -> None:
        found = self.weights(np.where(np.arange(40) < 20, 3.0, 3.5))
        assert found[19] == pytest.approx(0.5)
        np.testing.assert_array_equal(np.delete(found, 19), 1)

    def test_a_high_one_hardly_at_all(self) -> None:
        assert self.weights(np.where(np.arange(40) < 20, 3.0, 4.0))[19] == pytest.approx(0.2)
        assert self.weights(np.where(np.arange(40) < 20, 3.0, 99.0))[19] == pytest.approx(0.02)

    def test_neither_a_slope_nor_a_ridge_is_an_edge(self) -> None:
        x = np.arange(40.0)
        for row in (0.7 * x, -np.abs(x - 20), np.abs(x - 20)):
            assert self.weights(row).min() == pytest.approx(1, abs=0.02)

    def test_a_step_on_a_slope_is_what_it_is_higher_by(self) -> None:
        x = np.arange(40.0)
        found = self.weights(0.7 * x + 0.5 * (x >= 20))
        assert found[19] == pytest.approx(0.5, abs=0.01)

    def test_what_is_unknown_is_no_edge(self) -> None:
        row = np.full(40, 3.0)
        row[20] = NAN
        assert (self.weights(row) == 1).all()


class TestMisreading:
    """A step of height 2 between columns 31 and 32."""

    SURFACE = np.where(np.arange(64) < 32, 4.0, 6.0) * np.ones((40, 1))
    RELIEFS = reliefs_of(SURFACE.astype(np.float32), np.full((40, 64), 0.5, np.float32), NUMPY)

    @pytest.mark.parametrize(("pixels", "column", "expected"), [
        (1, 31, 4.0), (1, 32, 4.0), (1, 30, 0.0), (2, 30, 4.0), (1.5, 30, 2.0), (4, 28, 4.0), (3, 28, 2.0),
        (2, 28, 0.0), (8, 24, 4.0), (16, 16, 4.0), (12, 16, 2.0), (99, 16, 4.0), (99, 15, 0.0),
        (0.5, 31, 2.0), (0, 31, 0.0),
    ])  # fmt: skip
    def test_the_relief_within_so_many_pixels(self, pixels: float, column: int, expected: float) -> None:
        """In the unit of the noise; linear between 0, 1, 2, 4, 8 and 16 pixels, and no further."""
        found = _within(np.full((40, 64), pixels, np.float32), *self.RELIEFS)
        assert found[20, column] == pytest.approx(expected)

    def test_weights_are_shares_of_the_variance_and_a_thousandth_at_least(self) -> None:
        one = np.ones((40, 64), np.float32)
        found = _weight(one, one, 4.0, *self.RELIEFS)
        assert found[20, 31] == pytest.approx(4 / (4 + 16))
        assert found[20, 5] == 1
        assert _weight(one, one, 1e-6, *self.RELIEFS)[20, 31] == pytest.approx(1e-3)
        assert (_weight(NAN * one, one, 4.0, *self.RELIEFS) == 1).all()  # looked at from nowhere

    def test_far_views_count_less_and_what_is_lost_is_given_back_in_part(self) -> None:
        """Misread by 4 pixels a view counts half; a pixel that lost a factor f has the root of it back, f at most 4."""
        plain = reliefs_of(np.full((20, 30), 5.0, np.float32), np.ones((20, 30), np.float32), NUMPY)
        weights = np.ones((2, 20, 30), np.float32)
        parallax = np.stack([np.zeros((20, 30)), np.full((20, 30), 8.0)]).astype(np.float32)
        weigh_near_edges(weights, plain, parallax, np.full((20, 30), 0.5, np.float32), [1.0, 1.0], NUMPY)
        np.testing.assert_allclose(weights[1] / weights[0], 0.5, rtol=1e-5)
        np.testing.assert_allclose(weights[0], np.sqrt(2 / 1.5), rtol=1e-5)
        weights = np.ones((2, 20, 30), np.float32)
        far = np.full((2, 20, 30), 400.0, np.float32)
        weigh_near_edges(weights, plain, far, np.full((20, 30), 0.5, np.float32), [1.0, 1.0], NUMPY)
        np.testing.assert_allclose(weights, 2 / (1 + 50.0**2), rtol=1e-4)


def _independence(residuals: np.ndarray, usual: float, least: float) -> float:
    return independence(residuals, residual_scales(residuals, NUMPY)[1], usual, least)


class TestNearest:
    def test_as_many_as_wanted_and_those_as_near(self) -> None:
        moved = [0.0, 3.0, 1.0, 1.005, 2.0, NAN]
        parallax = np.stack([np.full((4, 5), each, np.float32) for each in moved])
        np.testing.assert_array_equal(usual_parallax(parallax, NUMPY), np.array(moved, np.float32))
        assert nearest(moved, 0, 1) == [2, 3]
        assert nearest(moved, 0, 3) == [2, 3, 4]
        assert nearest(moved, 0, 9) == [1, 2, 3, 4]
        assert nearest(moved, 2, 1) == [0]
        assert nearest([0.0, NAN], 0, 2) == []

    def test_errors_are_independent_or_shared(self) -> None:
        noise = np.random.default_rng(0).normal(size=(3, 60, 80)).astype(np.float32)
        assert _independence(noise, 1.0, 0.0) == 1
        smooth = sum(np.roll(noise, (i, j), (1, 2)) for i in range(9) for j in range(9)) / 9
        assert _independence(smooth, 1.0, 0.0) == 0
        assert _independence(smooth, 1.0, 0.9) == 0
        assert _independence(np.concatenate([noise, smooth[:1] + 9]), 1.0, 0.0) == 1  # off as a whole
        assert _independence(np.concatenate([smooth, noise[:1] + 9]), 1.0, 0.0) == 0
        assert _independence(smooth + 9, 1.0, 0.0) == 1

    def test_what_a_reading_cannot_tell_is_no_shared_error(self) -> None:
        """Exact views differ from a smooth surface alike, though none of them errs."""
        smooth = np.tile(np.sin(np.arange(80.0, dtype=np.float32) / 9), (3, 60, 1))
        assert _independence(smooth, 0.7, 0.1) == 0
        assert _independence(smooth, 0.7, 0.8) == 1


class TestDoubt:
    """Three times the usual mean residual around a pixel, in noise scales of a normal law; one at most."""

    def test_no_doubt_where_residuals_are_none_and_all_where_nobody_tells(self) -> None:
        still = np.zeros((2, 20, 30), np.float32)
        assert surface_doubt(still, [1.0, 1.0], [0, 1], NUMPY) == 0
        assert surface_doubt(still, [1.0, 1.0], [], NUMPY) == 1
        assert surface_doubt(np.full_like(still, NAN), [1.0, 1.0], [0, 1], NUMPY) == 1

    def test_a_common_offset_is_doubt(self) -> None:
        off = np.full((2, 30, 40), 0.1, np.float32)
        assert surface_doubt(off, [1.0, 1.0], [0, 1], NUMPY) == pytest.approx(3 * 0.1 / 0.6745, rel=0.02)
        assert surface_doubt(off, [2.0, 2.0], [0, 1], NUMPY) == pytest.approx(3 * 0.05 / 0.6745, rel=0.02)
        assert surface_doubt(9 * off, [1.0, 1.0], [0, 1], NUMPY) == 1

    def test_only_near_views_tell_and_what_is_far_off_does_not(self) -> None:
        off = np.stack([np.full((30, 40), each, np.float32) for each in (0.1, 3.0, 5.0)])
        assert surface_doubt(off, [1.0] * 3, [0], NUMPY) == surface_doubt(off, [1.0] * 3, [0, 2], NUMPY) < 0.5
        assert surface_doubt(off, [1.0] * 3, [0, 1], NUMPY) == 1

    @pytest.mark.parametrize(("known", "tells"), [(19, False), (21, True)])
    def test_twenty_pixels_of_the_square_of_seven_have_to_tell(self, known: int, tells: bool) -> None:
        off = np.full((1, 7, 7), NAN, np.float32)
        off.reshape(-1)[:known] = 0.1
        assert (surface_doubt(off, [1.0], [0], NUMPY) < 1) == tells


class TestFirstSurface:
    def test_a_misfit_is_in_noise_scales_and_four_at_most(self) -> None:
        residuals = np.array([[[0.0, -0.3, 0.9, NAN]]], np.float32)
        cost, seen = votes_of._misfit(residuals, np.array([[[0.1]]], np.float32))
        np.testing.assert_allclose(cost, [[[0, 3, 4, 0]]], rtol=1e-6)
        np.testing.assert_array_equal(seen, [[[1, 1, 1, 0]]])

    def test_more_than_chance_speaks_against_a_surface_or_it_stays(self) -> None:
        own, other = np.array([[1.0, 1.0, 1.0, NAN, NAN]]), np.array([[2.0, 2.0, NAN, 2.0, NAN]])
        worse, votes = np.array([[3.1, 2.9, 9.0, 0.0, 0.0]]), np.full((1, 5), 9.0)
        np.testing.assert_array_equal(first._outvoted(own, other, worse, votes), [[1, 0, 0, 1, 1]])
        np.testing.assert_array_equal(first._outvoted(own, other, worse / 3, votes / 100), [[1, 0, 0, 1, 1]])

    def test_votes_are_those_of_views_that_saw_both(self) -> None:
        cost, count = np.array([[5.0, 5.0, 5.0]]), np.array([[2.0, 0.0, 3.0]])
        (worse, votes), total = votes_of._excess(cost, count, np.array([[1.0, 1.0, 1.0]]), np.array([[3.0, 1.0, 1.0]]))
        np.testing.assert_array_equal(worse, [[4, 0, 4]])
        np.testing.assert_array_equal(votes, [[2, 0, 1]])
        assert total == 8

    @pytest.mark.parametrize("side", [9, 15])
    def test_a_wrong_corner_is_given_up_where_views_say_so(self, side: int) -> None:
        """In a part of the image: there and around it, but not everywhere."""
        rng = np.random.default_rng(0)
        own, other = np.full((40, 50), 4.0, np.float32), np.full((40, 50), 4.0, np.float32)
        own[:side, :side] = 5.0
        other[20:, 20:] = 4.4
        truth = 4 + rng.normal(0, 0.1, (4, 40, 50)).astype(np.float32)
        found = first._refuted(own, other, truth - own, truth - other, [1, 2, 3], NUMPY)
        assert found[: side - 2, : side - 2].all()
        assert not found[:, side + 4 :].any()
        assert not found[side + 4 :].any()

    def test_where_the_other_explains_all_better_it_is_taken_where_it_is_known(self) -> None:
        own, other = np.full((20, 30), 4.5, np.float32), np.full((20, 30), 4.0, np.float32)
        other[3, 4] = NAN
        truth = 4 + np.random.default_rng(0).normal(0, 0.1, (4, 20, 30)).astype(np.float32)
        found = first._refuted(own, other, truth - own, truth - other, [1, 2, 3], NUMPY)
        np.testing.assert_array_equal(found, ~np.isnan(other))

    def test_a_wrong_surface_of_the_reference_gives_way_to_that_of_the_views_nearby(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where that is known; also where the reference knows nothing."""
        own, near = np.full((20, 30), 4.5, np.float32), np.full((20, 30), 4.0, np.float32)
        own[2, 3] = near[5, 6] = NAN
        truth = 4 + np.random.default_rng(0).normal(0, 0.1, (4, 20, 30)).astype(np.float32)
        part = SimpleNamespace(first=lambda splat, backend: Stack(truth), reference=0, n_views=4)
        source: Any = SimpleNamespace(reference=0, part=lambda views: part, frame=SimpleNamespace(camera=None))
        fits = iter([own, near])
        monkeypatch.setattr(first, "_fitted", lambda *given: next(fits))
        monkeypatch.setattr(first, "inverse_is_better", lambda *given: False)
        monkeypatch.setattr(first, "nearest_views", lambda *given: [0, 1])
        monkeypatch.setattr(first, "registered", lambda source, *given, **choices: (source, None))
        monkeypatch.setattr(first, "residuals_of", lambda source, surface, backend, read=None: truth - surface)
        monkeypatch.setattr(first, "independence", lambda away, usual, least, backend: 1.0)
        monkeypatch.setattr(first, "_completed", lambda surface, *given: surface)
        monkeypatch.setattr(first, "restore", lambda source, surface, backend: surface)
        monkeypatch.setattr(first, "with_rivals", lambda source, surface, backend: surface)
        found, inverse = first.first_surface(source, [None] * 4, Settings(), PDHG(), NUMPY)
        np.testing.assert_array_equal(found, np.where(np.isnan(near), own, near))
        assert not inverse

    def test_what_neither_the_reference_nor_those_nearby_measured_all_views_complete(self) -> None:
        maps = np.full((3, 20, 30), 4, np.float32)
        surface = np.full((20, 30), 4.5, np.float32)
        maps[:2, 5:9] = surface[5:9] = NAN
        camera = Pinhole(30.0, 30.0, 14.5, 9.5, 30, 20)
        source = Posed.of([View(each, camera, Pose.identity()) for each in maps], 0, NUMPY)
        found = first._completed(surface, source, Settings().splat, NUMPY)
        np.testing.assert_array_equal(found, np.where(np.isnan(surface), np.float32(4), surface))
        whole = np.full((20, 30), 4.5, np.float32)
        assert first._completed(whole, source, Settings().splat, NUMPY) is whole

    def test_what_is_better_on_the_whole_still_gives_way_where_it_is_wrong(self) -> None:
        """A thin part that only the own surface has, while misplaced views prefer the other elsewhere."""
        own, other = np.full((40, 60), 4.0, np.float32), np.full((40, 60), 4.05, np.float32)
        own[:, 28:33] = 3.0
        measured = np.stack([own, own + 0.1, own + 0.1]) + np.random.default_rng(1).normal(0, 0.05, (3, 40, 60))
        found = first._refuted(own, other, measured - own, measured - other, [1, 2], NUMPY)
        assert not found[:, 28:33].any()
        assert found[:, :20].all()
        assert found[:, 41:].all()

    def test_the_reference_alone_does_not_keep_its_own_surface(self) -> None:
        """A blob that only the reference has gives way, where the other surface is better on the whole."""
        own, other = np.full((40, 60), 4.3, np.float32), np.full((40, 60), 4.0, np.float32)
        own[10:30, 20:40] = 3.0
        measured = np.stack([own, other, other]) + np.random.default_rng(1).normal(0, 0.05, (3, 40, 60))
        assert first._refuted(own, other, measured - own, measured - other, [1, 2], NUMPY).all()


class TestBelief:
    """The calibrated odds: what views say of a pixel, and of those around it."""

    DEPTH = np.full((16, 20), 3.0, np.float32)

    def believed(self, support: int, contradiction: int, views: int = 8, depth: np.ndarray = DEPTH) -> np.ndarray:
        says = np.arange(views)[:, None, None] * np.ones(depth.shape)
        evidence = SimpleNamespace(
            weights=(says < support + contradiction).astype(np.float32),
            support=says < support,
            contradiction=(says >= support) & (says < support + contradiction),
        )
        unknown = np.full_like(depth, NAN)
        return confidence(evidence, depth, np.full_like(depth, 0.05), unknown, NUMPY)  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("support", "contradiction", "expected"),
        [(5, 0, 0.99924), (2, 0, 0.99709), (1, 1, 0.95689), (0, 0, 0.95689), (0, 3, 0.44817), (3, 1, 0.98944)],
    )
    def test_who_supports_and_who_contradicts(self, support: int, contradiction: int, expected: float) -> None:
        np.testing.assert_allclose(self.believed(support, contradiction), expected, atol=2e-4)

    def test_beside_an_edge_less_and_half_at_most_alone(self) -> None:
        """Two pixels on either side of a step of six noises, from two views on; of two, one may be alone."""
        step = np.where(np.arange(20) < 10, 3.0, 3.5).astype(np.float32) * np.ones((16, 1), np.float32)
        beside = [8, 9, 10, 11]
        for support, views, there, bent in ((5, 8, 0.99747, 0.98615), (1, 8, 0.5, 0.5), (1, 1, 0.99309, 0.99309)):
            found = self.believed(support, 0, views, step)[8]
            assert found[8] == pytest.approx(there, abs=2e-4)
            assert found[9] == pytest.approx(bent, abs=2e-4)
            assert found[3] == pytest.approx(self.believed(support, 0, views)[0, 0], abs=2e-4)
        low = self.believed(1, 0, 8, step)[8] < 0.6
        assert low[beside].all()
        assert not low[:6].any()
        assert not low[14:].any()

    def test_what_is_out_of_line_is_less_sure_and_no_slope_is(self) -> None:
        """By noise scales from one to twenty; of one view nobody asks."""
        slope = (self.DEPTH + 0.02 * np.mgrid[:16, :20][0]).astype(np.float32)
        np.testing.assert_allclose(self.believed(5, 0, depth=slope), 0.99924, atol=1e-5)
        for off, expected in ((0.01, 0.99924), (0.05, 0.99825), (0.08, 0.99769)):  # 4 x off / 0.05 noise scales
            point = self.DEPTH.copy()
            point[8, 10] += off
            assert self.believed(5, 0, depth=point)[8, 10] == pytest.approx(expected, abs=5e-5)
            assert self.believed(1, 0, 1, point)[8, 10] == pytest.approx(0.99309, abs=5e-5)
        far = [out_of_line(self.DEPTH + np.pad([[off]], ((8, 7), (10, 9))), 0.05)[8, 10] for off in (0.1, -0.1)]
        np.testing.assert_allclose(far, 8.0)
        point[8, 10] = 1000.0  # no further than twenty, and beside an edge
        assert self.believed(5, 0, depth=point)[8, 10] == pytest.approx(0.98492, abs=2e-4)

    def test_the_end_of_what_is_known_is_an_edge_and_the_border_of_the_image_is_none(self) -> None:
        ends = self.DEPTH.copy()
        ends[:, 12:] = NAN
        found = self.believed(1, 0, depth=ends)
        np.testing.assert_allclose(found[:, :10], 0.99309, atol=1e-4)
        np.testing.assert_allclose(found[:, 10:12], 0.97742, atol=1e-4)  # one view alone is believed there
        np.testing.assert_allclose(self.believed(1, 0, 1, ends)[:, :12], 0.99309, atol=1e-4)

    def test_an_error_bar_counts_by_its_ratio_to_the_usual_one(self) -> None:
        """Odds less 1.2 log v, of the usual one, twice that, one below 0.3 of it and one above 4 times that."""
        says = np.ones((5, *self.DEPTH.shape), np.bool_)
        evidence = SimpleNamespace(weights=says.astype(np.float32), support=says, contradiction=~says)
        unsure = np.full_like(self.DEPTH, 0.2)
        unsure[3, 4:8] = 0.4, 0.01, 9.0, NAN
        noise = np.full_like(self.DEPTH, 0.05)
        found = confidence(evidence, self.DEPTH, noise, unsure, NUMPY)  # type: ignore[arg-type]
        odds = np.log(found / (1 - found)) - (3.1 + 1.7 * np.log(11))
        np.testing.assert_allclose(odds[3, 3:9], -1.2 * np.log([1, 2, 0.3, 4, 1, 1]), atol=1e-2)

    def test_an_error_bar_is_relative_to_the_depth_of_a_perspective_camera(self) -> None:
        """0.6 at depth 3: 20 %; by a unit of the noise of 0.3, 2."""
        sigma, unit = np.full((2, 2), 0.6, np.float32), np.full((2, 2), 0.3, np.float32)
        depth = np.array([[3.0, 6.0], [NAN, 1.5]], np.float32)
        found = [_unsure(sigma, unit, depth, relative=each) for each in (True, False)]
        np.testing.assert_allclose(found, [[[0.2, 0.1], [NAN, 0.4]], [[2, 2], [2, 2]]], rtol=1e-6)

    def test_a_measurement_that_is_wrong_or_missing_makes_no_pixel_surer(self) -> None:
        """A patch that one of four views saw, and one of its pixels: right, off by 11 or 60 noise scales, missing."""
        rng = np.random.default_rng(1)
        maps = (5 + 0.01 * np.mgrid[:60, :60][1] + 0.05 * rng.laplace(size=(4, 60, 60))).astype(np.float32)
        maps[1:, 20:40, 20:40] = NAN
        believed = []
        for off in (0.0, 11.0, 60.0, NAN):
            maps[0, 30, 30] = 5.3 + 0.05 * off
            believed.append(float(fuse_stack(Stack(maps), min_confidence=0.0, backend="numpy").confidence[30, 30]))
        assert max(believed[1:]) < believed[0], believed

    def test_what_is_unknown_is_not_believed(self) -> None:
        holes = self.DEPTH.copy()
        holes[4, 5] = NAN
        found = self.believed(3, 0, depth=holes)
        assert found[4, 5] == 0
        assert np.delete(found.ravel(), 4 * 20 + 5).min() > 0.9


def test_views_of_several_shapes_come_back_in_their_order() -> None:
    uploads = [SimpleNamespace(indices=[0, 3]), SimpleNamespace(indices=[2, 1])]
    parts = [np.array([10, 13]), np.array([12, 11])]
    np.testing.assert_array_equal(in_view_order(uploads, parts), [10, 11, 12, 13])
    np.testing.assert_array_equal(in_view_order(uploads[:1], parts[:1]), [10, 13])


def floats_by_objects(surface, unit, camera, view_from_reference, along_rays, row, column, residual, limit):
    """Step by step with cameras and poses: where the point lies that a view measured, and what is behind it there."""

    def point(depth):
        x, y = column - camera.cx, row - camera.cy
        if isinstance(camera, Pinhole):
            return np.array([[x / camera.fx * depth, y / camera.fy * depth, depth]])
        return np.array([[x * camera.pixel_size, y * camera.pixel_size, depth]])

    depth = float(surface[row, column])
    seen, further = (view_from_reference.apply(point(each))[0] for each in (depth, depth + 1))
    measured = seen[2] + residual * (further[2] - seen[2])
    seen = seen * (measured / seen[2]) if along_rays else np.array([seen[0], seen[1], measured])
    back = view_from_reference.inverse().apply(seen[None])
    u, v, z = (float(each[0]) for each in camera.project(back))
    if not np.isfinite(u) or not (-0.5 <= u < camera.width - 0.5 and -0.5 <= v < camera.height - 0.5):
        return False
    at = int(np.floor(v + 0.5)), int(np.floor(u + 0.5))
    return z < surface[at] - limit * unit[at]


@pytest.mark.parametrize("along_rays", [True, False])
@pytest.mark.parametrize("camera", [Pinhole(20.0, 22.0, 9.0, 7.0, 20, 16), Orthographic(0.2, 9.0, 7.0, 20, 16)])
def test_what_floats_is_before_the_surface_also_where_the_reference_sees_it(camera, along_rays):
    rng = np.random.default_rng(0)
    surface = (4 + 0.5 * rng.random((16, 20))).astype(np.float32)
    unit = (0.5 + rng.random((16, 20))).astype(np.float32)
    pose = Pose(turned_by(np.array([0.1, -0.25, 0.05])), np.array([0.6, -0.3, 0.4]))
    row, column = (each.ravel() for each in np.indices((16, 20)))
    residual, limit = -2.0 * rng.random(320), 0.3 * rng.random(320)
    numbers = [np.full(320, each) for each in pose.matrix()[:3].ravel()]
    found = evidence._floats(
        surface, unit, surface[row, column], residual, row, column, limit, np.full(320, along_rays), *numbers,
        *camera.numbers.tolist(), perspective=isinstance(camera, Pinhole), bent=False,
    )  # fmt: skip
    places = zip(row, column, residual, limit, strict=True)
    expected = [floats_by_objects(surface, unit, camera, pose, along_rays, *each) for each in places]
    np.testing.assert_array_equal(found, expected)
    assert 0.1 < np.mean(expected) < 0.95


def test_second_differences_along_both_axes_and_the_noise_that_they_tell():
    x = np.array([[1.0, 2.0, 4.0], [1.0, 5.0, 3.0], [0.0, 0.0, 9.0]], np.float32)
    down, right = task._second_differences(x, np.ones_like(x))
    np.testing.assert_array_equal(down, [[NAN] * 3, [1, 8, 7], [NAN] * 3])
    np.testing.assert_array_equal(right, [[NAN, 1, NAN], [NAN, 6, NAN], [NAN, 9, NAN]])
    seen = np.ones_like(x)
    seen[0, 1] = 0
    assert np.isnan(task._second_differences(x, seen)[1][0, 1])
    rows, columns = np.indices((60, 80))
    noisy = 0.3 * rows - 0.2 * columns + np.random.default_rng(0).normal(0, 0.05, (60, 80))
    assert task._roughness(noisy, np.ones_like(noisy), NUMPY) == pytest.approx(0.05, rel=0.05)
    assert task._roughness(noisy, np.zeros_like(noisy), NUMPY) == 0


def test_eight_neighbours_are_those_of_the_square_around() -> None:
    """One after the other the only one that is alike; beyond the border there is none, and one's own depth is none."""
    for row in range(5):
        for column in range(6):
            depth = np.full((5, 6), np.nan, np.float32)
            depth[row, column] = depth[2, 3] = 1.0
            near = max(abs(row - 2), abs(column - 3)) == 1
            assert alike_around(depth, np.float32(0.1))[2, 3] == near  # type: ignore[arg-type]
    counts = alike_around(np.ones((5, 6), np.float32), np.float32(0.1))  # type: ignore[arg-type]
    assert (counts[0, 0], counts[0, 1], counts[1, 1], counts[4, 5]) == (3, 5, 8, 3)
