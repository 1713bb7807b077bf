"""The terms of sigma and of the confidence, each by its own formula on maps that isolate it."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Stack, fuse_stack, kernels
from cfusion.auto import cross_validation, halves, uncertainty, view_report
from cfusion.auto.auto import Auto
from cfusion.auto.belief import _counts
from cfusion.auto.edges import edge_weights
from cfusion.auto.fit import energy_of, fit
from cfusion.auto.halves import Half, refit
from cfusion.auto.settings import Choices, Settings
from cfusion.auto.surface import add_plane, blend
from cfusion.auto.uncertainty import (
    autocorrelation,
    registration_error,
    rounded,
    shared_with_neighbours,
    spread,
    usual_share,
    variance_of_halves,
)
from cfusion.confidence import edge_weight, nagel_enkelmann
from cfusion.solvers import PDHG, ViewEvidence
from cfusion.solvers.task import prepare

BACKEND = kernels.load("numpy")
SHAPE = (40, 50)
NAN = np.float32(np.nan)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def sigma_of(
    residuals: np.ndarray, depth: np.ndarray, slope: np.ndarray, unit: np.ndarray, v: np.ndarray, wrong: np.ndarray
) -> np.ndarray:
    sure, n = uncertainty.deviation(residuals, depth, unit, slope, unit, v, 0 * unit, BACKEND)
    return uncertainty.or_of_another_surface(sure, n, depth, wrong, BACKEND)


def variance(halves: list[Half], unit: np.ndarray, whole: float = 3.0) -> np.ndarray:
    return variance_of_halves(halves, np.full_like(unit, whole), lambda untold: None, unit, BACKEND)


def half(y: np.ndarray, n: float = 1.0, m: float = 1.0) -> Half:
    return Half(y, np.full(y.shape, n, np.float32), np.full(y.shape, m, np.float32))


def test_a_half_that_is_d_from_the_whole_gives_its_variance() -> None:
    """n observations, without m: V = (1.2533 d)^2 n / m for a constant d, in units."""
    flat, unit = np.full(SHAPE, 3.0, np.float32), np.full(SHAPE, 0.5, np.float32)
    found = variance([half(flat + np.float32(0.2), 3, 1)], unit)
    np.testing.assert_allclose(found, (1.2533 * 0.2 / 0.5 * np.sqrt(3)) ** 2, rtol=1e-3)
    twice = variance([half(flat + np.float32(0.2), 3, 1), half(flat, 3, 1)], unit)
    np.testing.assert_allclose(twice, found / 4, rtol=1e-3)  # the mean distance of both kinds


def test_a_half_that_knows_nothing_does_not_count() -> None:
    """The mean is that of the estimates that there are."""
    flat, unit = np.full(SHAPE, 3.0, np.float32), np.full(SHAPE, 0.5, np.float32)
    some, none = half(flat + np.float32(0.2)), half(np.full(SHAPE, NAN))
    alone = variance([some], unit)
    for pairs in ([some, none], [none, some, none]):
        np.testing.assert_allclose(variance(pairs, unit), alone, rtol=1e-6)
    assert np.isnan(variance([none], unit)).all()
    assert np.isnan(variance([], unit)).all()


def test_a_half_that_hardly_counts_does_not_tell() -> None:
    flat, unit = np.full(SHAPE, 3.0, np.float32), np.full(SHAPE, 0.5, np.float32)
    assert np.isnan(variance([half(flat + np.float32(0.2), 10, 1)], unit)).all()
    assert (variance([half(flat + np.float32(0.2), 8, 1)], unit) > 0).all()


@pytest.mark.parametrize("light", [1e-2, 1e-4, 1e-8])
def test_views_of_little_weight_leave_sigma_that_of_the_others(light: float) -> None:
    """Their half has the surface of the regulariser."""
    depths = (4 + 0.05 * normal(5, 36, 48)).astype(np.float32)
    weights = np.ones_like(depths)
    weights[3:] = light
    few, all_of = (fuse_stack(Stack(depths[:k], weights[:k]), backend="cpu", min_confidence=0) for k in (3, 5))
    assert 0.4 < np.median(all_of.sigma) / np.median(few.sigma) < 2.5


def test_the_unit_of_the_weights_does_not_matter_to_one_map() -> None:
    depths = (4 + 0.05 * normal(1, 36, 48)).astype(np.float32)
    sigmas = [
        fuse_stack(Stack(depths, np.full_like(depths, unit)), backend="cpu", min_confidence=0).sigma
        for unit in (1.0, 1e-10)
    ]
    assert np.median(sigmas[1]) == pytest.approx(np.median(sigmas[0]), rel=0.05)


def test_halves_of_noise_have_the_variance_of_the_mean_also_beside_an_edge() -> None:
    """Two halves, each off by N(0, 2), are N(0, 1) from their mean, which is off as much. Twelve pixels from an edge
    it still is."""
    shape = (60, 80)
    one = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for jump in (0, 40):
        one[:, 38:42] += jump
        found = variance([half(one)], np.ones(shape, np.float32), 0.0)
        assert np.median(found[:, :26]) == pytest.approx(1.0, abs=0.15)
    assert found[:, 40].min() > 100


def test_a_slope_is_no_edge_and_an_edge_on_a_slope_is() -> None:
    """wrong . relief^2 / 3 is the square of the way to another surface: a plane, however steep, has no other."""
    rows, columns = np.indices((30, 40)).astype(np.float32)
    plane, ones = 2 + 0.03 * rows + 0.02 * columns, np.ones((30, 40), np.float32)
    stepped = plane + np.float32(1) * (columns > 20)
    residuals = np.full((3, 30, 40), 0.001, np.float32)
    for depth, most in ((plane, 1e-6), (stepped, 1.0)):
        given = (depth, 0 * ones, ones, 0 * ones, np.float32(0.25) * ones)
        sigma = sigma_of(residuals, *given)
        assert sigma[5:-5, 5:-5].max() <= most + 0.01
    assert sigma[15, 20] == pytest.approx(0.5 / np.sqrt(3), abs=0.1)
    alone = sigma_of(residuals[:1], *given)  # nobody confirms which surface it is
    assert alone[15, 20] == pytest.approx(0.5, abs=0.12)
    assert sigma[15, 8] < 0.01


def test_pixels_that_no_split_tells_about_ask_for_another() -> None:
    flat, ones = np.full(SHAPE, 3.0, np.float32), np.ones(SHAPE, np.float32)
    unknown = np.full(SHAPE, NAN)
    asked: list[int] = []

    def by_pixels(untold: np.ndarray) -> Half:
        asked.append(int(untold.sum()))
        return Half(flat + np.float32(0.4), ones, ones)

    found = variance_of_halves([half(unknown)], flat, by_pixels, ones, BACKEND)
    assert asked == [flat.size]
    np.testing.assert_allclose(found, (1.2533 * 0.4) ** 2, rtol=1e-3)


def test_the_deviation_of_one_observation_counts_what_the_surface_took() -> None:
    residuals = np.stack([np.full(SHAPE, 0.3, np.float32), np.full(SHAPE, -0.3, np.float32), np.full(SHAPE, NAN)])
    s, n = spread(residuals, BACKEND)
    assert (n == 2).all()
    np.testing.assert_allclose(s, 1.2533 * 0.6 / np.sqrt(2), rtol=1e-4)


class TestAutocorrelation:
    def test_white_noise_has_none_and_blocks_have_much(self) -> None:
        assert autocorrelation(normal(4, 200, 200)) < 0.03
        blocks = np.kron(normal(3, 50, 50), np.ones((1, 4, 4), np.float32))
        assert autocorrelation(blocks) == pytest.approx(np.sin(np.pi / 2 * 0.5), abs=0.05)  # half of pairs two apart
        assert autocorrelation(blocks, 8) < 0.05
        assert autocorrelation(-np.abs(blocks)) == 1.0
        assert autocorrelation(np.full((1, 9, 9), NAN)) == 0.0

    def test_alternating_errors_are_not_shared(self) -> None:
        checks = np.tile([1.0, 1.0, -1.0, -1.0], (1, 8, 8)).astype(np.float32)
        assert autocorrelation(checks.repeat(4, axis=0)) == 0.0

    @pytest.mark.parametrize(
        ("near", "far", "rho"),
        [(0.12, 0.0, 0.0), (0.17, 0.0, 0.55), (0.22, 0.0, 1.1), (0.6, 0.3, 1.1), (0.6, 0.47, 0.66), (0.6, 0.5, 0.0)],
    )
    def test_what_neighbours_share_but_whole_views_do_not(
        self, near: float, far: float, rho: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            uncertainty, "autocorrelation", lambda residuals, lag=2, where=None: near if lag == 2 else far
        )
        assert shared_with_neighbours(normal(1, 3, 3)) == pytest.approx(rho)
        assert shared_with_neighbours(normal(1, 3, 3), 0.5) == pytest.approx(rho / 4)  # half the size is shared

    def test_what_is_misread_on_a_slope_is_not_shared(self) -> None:
        noise = normal(4, 60, 80)
        flat = np.broadcast_to(np.arange(80) < 60, (60, 80))
        alike = np.where(flat, noise, np.abs(noise) * np.sign(noise[:, :, :1]))
        assert autocorrelation(alike) > 0.1
        assert autocorrelation(alike, where=flat) < 0.03
        assert shared_with_neighbours(alike, 1.0, flat) == 0.0

    def test_maps_in_coarse_steps_are_off_by_a_part_of_a_pixel(self) -> None:
        """Most errors are zero then: halves agree, and rounding is all that is wrong."""
        rng = np.random.default_rng(0)
        rows, columns = np.indices((50, 70))
        truth = 5 + 0.01 * columns + 0.03 * np.sin(rows / 9)
        maps = np.round((truth + 0.002 * rng.standard_normal((5, 50, 70))) / 0.01) * 0.01
        result = fuse_stack(Stack(maps.astype(np.float32)), backend="cpu", min_confidence=0)
        error = np.abs(result.depth - truth)
        assert np.mean(error <= result.sigma) > 0.6
        assert np.mean(error <= 1.96 * result.sigma) > 0.88
        assert [rounded(each) for each in (0.0, 0.2, 0.3, 0.4, 1.0)] == pytest.approx([1, 1, 0.5, 0, 0])

    def test_copies_of_a_map_are_as_sure_as_one(self) -> None:
        ramp = (5 + 0.01 * np.indices((40, 50))[1]).astype(np.float32)
        maps = np.stack([ramp] * 3)
        maps[1, 20, 20] += 0.001
        sigma = fuse_stack(Stack(maps), backend="cpu", min_confidence=0).sigma
        assert sigma.min() > 0.001
        assert sigma.max() < 0.01

    def test_gross_errors_are_not_the_usual_ones(self) -> None:
        """c: 1 of Gaussian noise; a tenth that is twenty times as large adds to the mean size and not to the usual."""
        noise = normal(3, 60, 80)
        assert usual_share(noise, BACKEND) == pytest.approx(1.0, abs=0.02)
        gross = np.where(np.arange(80) % 10 == 0, 20 * noise, noise)
        usual = np.quantile(np.abs(gross), 0.5) / 0.6745
        assert usual_share(gross, BACKEND) == pytest.approx(usual / (0.9 + 2), rel=0.05)
        assert usual_share(np.full((1, 9, 9), NAN), BACKEND) == 1.0
        assert usual_share(np.sign(noise), BACKEND) == 1.0  # all alike: no more than 1

    @pytest.mark.parametrize("at_once", [1, 2, 4])
    def test_views_are_counted_however_many_are_looked_at_together(
        self, at_once: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Map by map on the host, all of them on a GPU."""
        residuals = normal(4, 9, 9)
        residuals[2] = NAN
        parts = [residuals[k : k + at_once] for k in range(0, 4, at_once)]
        monkeypatch.setattr(uncertainty, "chunks", lambda given: parts)
        assert uncertainty._share_and_views(residuals, BACKEND)[1] == 3


class TestDeviation:
    """sigma of constant maps, part by part: residuals of size 1 of which two of three views know everything."""

    @staticmethod
    def sigma(slope: float, variance: float, wrong: float = 0.0, views: int = 3, unit: float = 1.0) -> float:
        signs = np.where(np.indices(SHAPE).sum(axis=0) % 2, 1.0, -1.0)  # neighbours alternate: nothing is shared
        residuals = np.stack([signs * (-1) ** k for k in range(views)]).astype(np.float32)
        flat = np.ones(SHAPE, np.float32)
        maps = (np.float32(each) * flat for each in (slope, unit, variance, wrong))
        return float(sigma_of(residuals, 5 * flat, *maps)[20, 25])

    def test_halves_of_a_plane_tell_its_error(self) -> None:
        """F = 0.8 V, in the unit of the noise."""
        assert self.sigma(0.0, 0.04) == pytest.approx(np.sqrt(0.8) * 0.2, rel=1e-3)
        assert self.sigma(0.0, 0.01, unit=3.0) == pytest.approx(3 * self.sigma(0.0, 0.01), rel=1e-3)

    def test_a_single_map_is_less_sure_than_its_halves_say(self) -> None:
        alone = np.sqrt(1.7) * 0.2
        assert self.sigma(0.0, 0.04, views=1) == pytest.approx(alone, rel=1e-3)
        assert self.sigma(0.5, 0.04, views=1) == pytest.approx(np.hypot(alone, 0.3 * 0.5), rel=1e-3)

    def test_halves_that_tell_nothing_are_as_sure_as_one_observation(self) -> None:
        s = 1.2533 * 3 / np.sqrt(6)
        assert self.sigma(0.0, np.nan) == pytest.approx(s, rel=1e-3)


class TestSmoothing:
    """F = (1 + 3.7 rim)^2 (0.8 V + 0.03 bend^2): what both halves share is the flattening of curved surfaces."""

    @staticmethod
    def sigma(depth: np.ndarray, variance: float, s: float = 1.0) -> np.ndarray:
        residuals = s * np.sqrt(0.75) * normal(4, *depth.shape)  # what a mean of four leaves of a deviation s
        ones = np.ones(depth.shape, np.float32)
        return uncertainty.deviation(residuals, depth, ones, 0 * ones, ones, variance * ones, 0 * ones, BACKEND)[0]

    @pytest.mark.parametrize("step", [0.5, 1, 2, 4, 8, 16, 30])
    def test_a_surface_is_bent_over_the_distance_that_it_is_smoothed_over(self, step: float) -> None:
        """s / sqrt(4 n V) pixels, from 1 to 16; of x = a u^2 the second difference over h is 2 a h^2."""
        columns = np.arange(120, dtype=np.float32) * np.ones((80, 1), np.float32)
        variance = 1 / (16 * step**2)
        bend = np.sqrt(variance) * 4
        curved = bend / (2 * np.clip(step, 1, 16) ** 2) * np.square(columns - 60)
        found = self.sigma(curved, variance)
        assert np.median(found) == pytest.approx(np.sqrt(0.8 * variance + 0.03 * bend**2), rel=0.05)
        turned = self.sigma(np.ascontiguousarray(curved.T), variance)
        assert np.median(turned) == pytest.approx(np.median(found), rel=0.05)
        sloped = self.sigma(0.3 * columns, variance)
        assert np.median(sloped) == pytest.approx(np.sqrt(0.8 * variance), rel=0.02)
        beyond = self.sigma(1000 * curved, variance)
        assert np.median(beyond) == pytest.approx(np.sqrt((0.8 + 0.03 * 100) * variance), rel=0.02)

    def test_beside_unknown_pixels_the_bend_is_that_of_the_known_side(self) -> None:
        columns = np.arange(60, dtype=np.float32) * np.ones((40, 1), np.float32)
        curved = 0.4 / 2 * np.square(columns - 30)
        curved[:, :20] = NAN
        rim = 1 - 5 / 9  # of the square of 9 pixels beside it
        at_rim = np.sqrt(0.8 * 0.1 + 0.03 * 0.4**2) * (1 + 3.7 * rim)
        assert np.median(self.sigma(curved, 0.1)[10:-10, 20]) == pytest.approx(at_rim, rel=0.02)

    def test_a_rim_is_smoothed_from_one_side_only(self) -> None:
        depth = np.full(SHAPE, 3.0, np.float32)
        depth[:, 30:] = NAN
        found = self.sigma(depth, 0.01)[20]
        np.testing.assert_allclose(found[[29, 27, 25]] / found[15], [1 + 3.7 * k / 9 for k in (4, 2, 0)], rtol=1e-3)


class TestRegistration:
    def test_errors_that_grow_with_the_slope_are_pixels(self) -> None:
        slope = np.linspace(2, 10, 40 * 50).reshape(SHAPE).astype(np.float32)
        residuals = np.sqrt(1 + (0.5 * slope) ** 2) * normal(6, *SHAPE)
        ones = np.ones(SHAPE, np.float32)
        assert registration_error(residuals, slope, ones) == pytest.approx(0.5, abs=0.08)
        assert registration_error(normal(6, *SHAPE), slope, ones) < 0.1
        assert registration_error(residuals, 0.5 * ones, ones) == 0.0  # flat ground tells nothing
        assert registration_error(residuals, 20 * ones, ones) == 0.0  # an edge neither
        for delta, told in ((2.5, pytest.approx(2.5, rel=0.1)), (4.0, 3.0), (100.0, 3.0)):  # three pixels at most
            assert registration_error(delta * slope * normal(6, *SHAPE), slope, ones) == told
        assert registration_error(1000 * residuals, slope, ones) == 3.0  # at most
        flat = np.arange(50) < 25  # of half of the columns nothing is told, whatever was measured there
        part = np.where(flat, np.float32(0), slope)
        nowhere = np.where(flat, NAN, residuals)
        told = registration_error(nowhere, slope, ones)
        assert registration_error(residuals, part, ones) == registration_error(nowhere, part, ones) == told > 0.3


def test_views_count_by_what_their_front_end_trusts_them() -> None:
    support = np.array([[[True]], [[False]], [[True]]])
    against = ~support
    weights = np.array([2.0, 0.5, 0.25], np.float32).reshape(3, 1, 1)
    for_it, against_it, measured = _counts(weights, support, against)
    assert (float(for_it.sum()), float(against_it.sum()), float(measured.sum())) == (2.25, 0.5, 3.0)


def test_surfaces_are_blended_where_both_are_known() -> None:
    one, other = np.array([[1.0, np.nan, 3.0]]), np.array([[2.0, 5.0, np.nan]])
    np.testing.assert_array_equal(blend(one, other, 0.25), [[1.25, 5.0, np.nan]])


def test_a_plane_is_added_by_rows_and_columns() -> None:
    assert add_plane(np.zeros((2, 3)), 10.0, 1.0).tolist() == [[0, 1, 2], [10, 11, 12]]


class TestViewReport:
    """What is odd about a view among usual ones: each sentence by its own limit."""

    @staticmethod
    def said(**odd: float) -> str:
        usual = {"noise": 1.0, "bias": 0.0, "scale_factor": 1.0, "registration": 0.1, "share_kept": 0.9, "effect": 0.0}
        mask = np.ones((1, 1), bool)
        records = [
            ViewEvidence(mask, ~mask, np.zeros((1, 1), np.float32), **(usual | (odd if k == 3 else {})))  # type: ignore[arg-type]
            for k in range(5)
        ]
        told = view_report._sentences(records, [f"v{k}" for k in range(5)])
        assert [each for k, each in enumerate(told) if k != 3] == [""] * 4
        assert view_report._sentences(records[2:4], ["a", "b"]) == ["", ""]  # two cannot tell
        return told[3]

    @pytest.mark.parametrize(
        ("odd", "words"),
        [
            ({"noise": 2.0}, ""),
            ({"noise": 2.5}, "v3: it is 2.5 times as noisy as the others"),
            ({"scale_factor": 1.009}, ""),
            ({"scale_factor": 1.02}, "v3: its depths are 2.0 % too large"),
            ({"scale_factor": 0.9}, "v3: its depths are 10.0 % too small"),
            ({"registration": 1.0}, ""),
            ({"registration": 1.5}, "v3: it lies about 1.5 pixels beside them, so check its pose"),
            ({"share_kept": 0.45}, ""),
            ({"share_kept": 0.4}, "v3: only 40 % of it supports the surface"),
        ],
        ids=str,
    )
    def test_limits(self, odd: dict[str, float], words: str) -> None:
        assert self.said(**odd) == words

    def test_outlying_is_four_usual_distances(self) -> None:
        assert view_report._outlying(np.array([0.0, 1.0, 2.0, 3.0, 6.0])) == [False] * 5  # 4 from the median of 2
        assert view_report._outlying(np.array([0.0, 1.0, 2.0, 3.0, 6.1])) == [False] * 4 + [True]
        assert view_report._usual([1.0, np.nan, 3.0]) == 2.0
        assert view_report._usual([np.nan]) == np.inf


class TestTurns:
    """What `auto` does in every round, by how often the views may be read."""

    @pytest.mark.parametrize(
        ("rounds", "turns"),
        [(1, "guess final"), (2, "guess choose final"), (3, "guess guess choose final")],
    )
    def test_with_views(self, rounds: int, turns: str) -> None:
        told = Auto(settings=Settings(rounds=rounds))._turns(SimpleNamespace(rereads=True))  # type: ignore[arg-type]
        assert " ".join(turn.name for turn in told) == turns

    def test_registered_maps_are_solved_once(self) -> None:
        told = Auto()._turns(SimpleNamespace(rereads=False))  # type: ignore[arg-type]
        assert [turn.name for turn in told] == ["final"]


class TestImageEdges:
    """D^(1/2) of a ramp: weaker across it, one along it; the identity where the image is flat."""

    RAMP = np.tile(np.linspace(0, 1, 21), (15, 1)).astype(np.float32)  # 0.05 a pixel

    def test_the_scalar_weight(self) -> None:
        expected = np.exp(-2 * 0.05**1.5)
        np.testing.assert_allclose(edge_weight(self.RAMP)[5:-5, 5:-5], expected, rtol=1e-4)
        assert (edge_weight(np.full((9, 9), 0.5, np.float32)) == 1).all()

    def test_the_tensor_along_both_axes(self) -> None:
        root = np.sqrt(np.exp(-2 * 0.05**1.5))
        inner = nagel_enkelmann(self.RAMP)[5:-5, 5:-5]
        np.testing.assert_allclose(inner, np.broadcast_to([root, 0, 1], inner.shape), atol=1e-4)
        turned = nagel_enkelmann(np.ascontiguousarray(self.RAMP.T))[5:-5, 5:-5]
        np.testing.assert_allclose(turned, np.broadcast_to([1, 0, root], turned.shape), atol=1e-4)
        flat = nagel_enkelmann(np.full((9, 9), 0.5, np.float32))
        np.testing.assert_array_equal(flat, np.broadcast_to(np.float32([1, 0, 1]), flat.shape))

    def test_the_tensor_of_a_diagonal(self) -> None:
        v, u = np.mgrid[:21, :21]
        diagonal = ((u + v) / 40).astype(np.float32)  # 0.025 along each
        root = np.sqrt(np.exp(-2 * (0.025 * np.sqrt(2)) ** 1.5))
        inner = nagel_enkelmann(diagonal)[7:-7, 7:-7]
        half = (1 - root) / 2
        np.testing.assert_allclose(inner, np.broadcast_to([1 - half, -half, 1 - half], inner.shape), atol=1e-4)


class TestSearch:
    """The walk of the weights over a ladder, where held-out views would be predicted best at a known one."""

    @staticmethod
    def trial(best: float, ratio: float = 2.0) -> cross_validation._Trial:
        made = object.__new__(cross_validation._Trial)
        made.ratio = 2.0

        def cost(alpha: tuple[float, float]) -> float:
            return abs(np.log(alpha[0] / best)) + abs(np.log(alpha[1] / alpha[0] / ratio))

        made.better = lambda alpha, than: cost(alpha) < cost(than) - 1e-9  # type: ignore[method-assign]
        return made

    @pytest.mark.parametrize(
        ("best", "found"),
        [(1.0, 1.0), (4.0, 4.0), (0.25, 0.25), (1000.0, 64.0), (1e-3, 1 / 64), (1.3, 1.0), (1.5, 2.0)],
    )
    def test_as_long_as_it_helps_and_six_steps_at_most(self, best: float, found: float) -> None:
        assert self.trial(best)._walk(1.0, 2.0) == pytest.approx(found)

    def test_ratio_and_a_finer_step(self) -> None:
        assert self.trial(4.0).search(1.0) == pytest.approx((4.0, 8.0))
        assert self.trial(4.0, 1.0).search(1.0) == pytest.approx((4.0, 4.0))
        assert self.trial(4.0, 4.0).search(1.0) == pytest.approx((4.0, 16.0))
        assert self.trial(3.0).search(1.0)[0] == pytest.approx(2 * np.sqrt(2))


@pytest.mark.parametrize("spared", [True, False])
def test_a_refit_on_all_observations_stays_at_the_fit(spared: bool) -> None:
    """Halves are fitted as the whole is: a fit that spares edges has halves that spare the same edges."""
    surface = np.where(np.arange(SHAPE[1]) < 25, 3.0, 4.0).astype(np.float32) * np.ones(SHAPE, np.float32)
    stack = Stack(surface + 0.05 * normal(5, *SHAPE))
    choices = Choices((6.0, 12.0), edges=spared)
    task = prepare(energy_of(choices, 1.0), stack, BACKEND)
    edges = edge_weights(surface, np.full(SHAPE, 0.05, np.float32))
    found = fit(task, choices, PDHG(tolerance=1e-6, iterations=2000, certify=False), 0, edges=edges)
    again = refit(found, stack)
    assert np.abs(again - found.depth).max() < 2e-3


def test_halves_are_converged_however_long_the_steps_of_the_whole_became() -> None:
    """Steps for a certificate are long: with them, walls of a half would be off by more than its noise."""
    rows, columns = np.indices((60, 80))
    walls = np.where(columns < 40, 3.0, 4 + 0.004 * rows + 0.003 * columns).astype(np.float32)
    stack = Stack(walls + 0.01 * normal(6, 60, 80))
    choices = Choices((3.0, 6.0), edges=True)
    task = prepare(energy_of(choices, 1.0), stack, BACKEND)
    edges = edge_weights(walls, np.full(walls.shape, 0.01, np.float32))
    found = fit(task, choices, PDHG(tolerance=1e-3), 0, edges=edges)
    half = stack.with_depths(np.where(np.arange(6)[:, None, None] < 3, stack.depths, NAN), None)
    soon = refit(found, half)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(halves, "REFIT", replace(halves.REFIT, iterations=3000, tolerance=0.0))
        late = refit(found, half)
    assert np.median(np.abs(soon - late)) < 0.4 * np.median(np.abs(late - found.depth))


@pytest.mark.parametrize("own", [0.5, 3.0])
def test_without_halves_sigma_is_that_of_one_observation_and_at_least_the_usual_one(own: float) -> None:
    """However quiet a pixel seems by itself: nothing compares it."""
    one, none = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    unknown, usual, unit = np.full((2, 3), np.nan, np.float32), 2.0, 10.0
    maps = (unknown, own * one, one, none, one, none, none, unit * one)
    sigma = uncertainty._deviation(*maps, usual, 0.0, 0.0, 1.0, compared=False)
    np.testing.assert_allclose(sigma, unit * max(own, usual), rtol=1e-6)
