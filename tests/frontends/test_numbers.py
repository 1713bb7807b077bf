"""Exact values of what front ends count with, on maps of a few pixels."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose
from cfusion.errors import InputError
from cfusion.frontends import consistency, cues, pair_check
from cfusion.frontends.elas import _sobel
from cfusion.frontends.motion import exponential, halfway
from cfusion.frontends.refine import bilateral_filtered
from cfusion.frontends.rig import Rig
from cfusion.frontends.stereo import MOST_DISPARITIES
from cfusion.frontends.trust import ELAS_TRUST, MAP_TRUST, MC_CNN_TRUST, SGM_TRUST, Trust

NAN = float("nan")
SIMPLE = Trust(1.0, (2.0, 0.0, 0.0, 0.0, 0.0, 1.0), 0.5, (1.0, 0.0, 0.0, 0.0, 0.0, 0.0), wrong=4.0, systematic=0.25)


def pixel(apart: float = 0.0, flat: float = 0.0) -> np.ndarray:
    return np.array([apart, 0, 0, 0, 0, flat], np.float32).reshape(6, 1, 1)


class TestTrust:
    KNOWN = np.ones((1, 1), bool)

    def test_cues_lower_the_logit(self) -> None:
        for apart, flat in ((0.0, 0.0), (0.5, 0.0), (1.0, 0.5)):
            found = SIMPLE.confidence(pixel(apart, flat), self.KNOWN)[0, 0]
            assert found == pytest.approx(1 / (1 + np.exp(-(1 - 2 * apart - flat))), rel=1e-5)
        assert SIMPLE.confidence(pixel(), ~self.KNOWN)[0, 0] == 0

    def test_without_any_texture_nothing_speaks_for_a_disparity(self) -> None:
        half = SIMPLE.confidence(pixel(flat=0.975), self.KNOWN)[0, 0]  # half of the blank share
        assert half == pytest.approx(0.5 / (1 + np.exp(-0.025)), rel=1e-3)
        assert SIMPLE.confidence(pixel(flat=1.0), self.KNOWN)[0, 0] == pytest.approx(1e-3)

    def test_sigma_of_right_and_wrong_ones(self) -> None:
        confidence = np.array([[0.75]], np.float32)
        assert SIMPLE.spread(pixel(0.5))[0, 0] == 1.0
        assert SIMPLE.sigma(pixel(0.5), confidence)[0, 0] == pytest.approx(np.sqrt(0.75 * 1 + 0.25 * 16))
        assert SIMPLE.weight(pixel(0.5), confidence)[0, 0] == pytest.approx(0.75 * 0.5 / 1.0)
        assert np.isnan(SIMPLE.sigma(pixel(), np.zeros((1, 1), np.float32)))

    @pytest.mark.parametrize(
        "wrong",
        [{"weights": (-1.0,) * 6}, {"blur": (-1.0,) * 6}, {"good": 0.0}, {"good": 4.0}, {"systematic": 1.1}],
        ids=str,
    )
    def test_what_is_no_calibration(self, wrong: dict[str, object]) -> None:
        usual: dict[str, object] = {"offset": 1.0, "weights": (1.0,) * 6, "good": 0.5, "blur": (1.0,) * 6}
        with pytest.raises(InputError, match="give weights >= 0"):
            Trust(**(usual | {"wrong": 4.0, "systematic": 0.5} | wrong))  # type: ignore[arg-type]
        Trust(**(usual | {"wrong": 4.0, "systematic": 1.0}))  # type: ignore[arg-type]

    def test_calibrations_are_those_that_were_measured(self) -> None:
        """By a figure that every number has a part in: `benchmarks.stereo calibrate` finds them."""

        def mixed(trust: Trust) -> float:
            values = (trust.offset, *trust.weights, trust.good, *trust.blur, trust.wrong, trust.systematic)
            return float(sum((k + 1) * value for k, value in enumerate(values)))

        found = [mixed(each) for each in (SGM_TRUST, ELAS_TRUST, MC_CNN_TRUST, MAP_TRUST)]
        assert found == pytest.approx([188.14, 184.66, 247.46, 183.46], abs=1e-6)


class TestCues:
    def setup_method(self) -> None:
        pytest.importorskip("cv2")

    def test_a_smooth_map_with_texture_has_hardly_any(self) -> None:
        image = np.tile(np.linspace(0, 1, 40), (30, 1)).astype(np.float32)
        found = cues.pair_cues(np.full((30, 40), 7.0, np.float32), np.zeros((30, 40), np.float32), image)[:, 15, 20]
        assert found[:5] == pytest.approx(0.0, abs=1e-6)
        assert found[5] == pytest.approx(0.02 / (0.02 + 1 / 39), rel=1e-3)

    def test_a_jump_has_a_front_and_a_back(self) -> None:
        disparity = np.full((30, 40), 10.0, np.float32)
        disparity[:, 20:] = 4.0  # six pixels further behind
        flat = np.zeros((30, 40), np.float32)
        found = cues.pair_cues(disparity, flat, flat)
        front, behind = found[3, 15], found[4, 15]
        assert front[[15, 16, 19, 20]] == pytest.approx([0, 6 / 9, 6 / 9, 0])  # within four pixels
        assert behind[[19, 20, 23, 24]] == pytest.approx([0, 6 / 9, 6 / 9, 0])
        assert (found[5] == 1).all()  # no texture

    def test_a_slope_is_no_jump_and_hides_none(self) -> None:
        """A plane, steeper than any road, and the same plane with a step of six pixels."""
        row, column = np.mgrid[:40, :50].astype(np.float32)
        plane = 5 + np.float32(0.75) * row - np.float32(0.25) * column + 20
        flat = np.zeros((40, 50), np.float32)
        assert cues.slope(plane, 0)[20, 20] == pytest.approx(0.75)
        assert cues.slope(plane, 1)[20, 20] == pytest.approx(-0.25)
        found = cues.pair_cues(plane, flat, flat)
        assert found[3:5, 13:-13, 13:-13].max() < 1e-5
        plane[:, 25:] -= 6
        front, behind = cues.pair_cues(plane, flat, flat)[3:5, 20]
        assert front[[20, 21, 24, 25]] == pytest.approx([0, 6 / 9, 6 / 9, 0], abs=1e-5)
        assert behind[[24, 25, 28, 29]] == pytest.approx([0, 6 / 9, 6 / 9, 0], abs=1e-5)

    def test_a_surface_is_not_steeper_than_a_pixel_a_pixel(self) -> None:
        disparity = np.tile(np.arange(40, dtype=np.float32), (30, 1))
        assert cues.slope(disparity, 1)[15, 20] == 0
        assert cues.slope(np.float32(0.99) * disparity, 1)[15, 20] == pytest.approx(0.99, rel=1e-5)

    @pytest.mark.parametrize(("grey", "unlike"), [(0.0, 0.5), (1.0, 0.25), (3.0, 0.05), (30.0, 0.0)])
    def test_a_pattern_counts_from_a_grey_value_of_contrast(self, grey: float, unlike: float) -> None:
        """Of 255: images alike to the last bit correlate by s^2 / (s^2 + 1) at a standard deviation of s."""
        stripes = np.where(np.arange(60) % 2, 0.5 + grey / 255, 0.5 - grey / 255) * np.ones((30, 1))
        image = stripes.astype(np.float32)
        found = cues.unlikeness(np.zeros((30, 60), np.float32), image, image)
        assert found[10:20, 10:50] == pytest.approx(unlike, abs=0.005)

    def test_likeness_is_the_correlation_of_matched_windows(self) -> None:
        rng = np.random.default_rng(5)
        right = rng.random((30, 60)).astype(np.float32)
        left = np.roll(right, 4, axis=1)
        disparity = np.full((30, 60), 4.0, np.float32)
        inner = (slice(6, -6), slice(10, -6))
        assert cues.unlikeness(disparity, left, right)[inner].max() < 1e-3
        assert cues.unlikeness(disparity, 0.5 * left + 0.2, right)[inner].max() < 1e-3  # gain and offset do not count
        assert cues.unlikeness(disparity, 1 - left, right)[inner].min() > 0.999
        assert cues.unlikeness(disparity - 1, left, right)[inner].mean() == pytest.approx(0.5, abs=0.05)
        assert cues.unlikeness(disparity, 0 * left, right)[inner] == pytest.approx(0.5)
        disparity[:, 30:] = np.nan  # unknown pixels do not enter the windows of known ones
        found = cues.unlikeness(disparity, left, np.where(np.arange(60) < 26, right, np.float32(0)))
        assert found[6:-6, 10:30].max() < 1e-3
        assert (found[:, 30:] == 0.5).all()
        one, other = left[11:20, 16:25].ravel(), rng.random((30, 60)).astype(np.float32)
        again = cues.unlikeness(np.full((30, 60), 4.0, np.float32), left, other)[15, 20]
        assert again == pytest.approx((1 - np.corrcoef(one, other[11:20, 12:21].ravel())[0, 1]) / 2, abs=1e-4)

    def test_holes_and_disagreement(self) -> None:
        disparity = np.full((31, 31), 5.0, np.float32)
        disparity[:, 16:] = np.nan
        apart = np.full((31, 31), 0.25, np.float32)
        apart[0, 0], apart[0, 1] = np.nan, 7.0
        found = cues.pair_cues(disparity, apart, np.zeros((31, 31, 3), np.float32))
        assert found[0, 0, :3].tolist() == [1.0, 1.0, 0.25]
        assert found[1, 15, 15] == pytest.approx(7 / 15)  # of fifteen columns around
        assert found[1, 15, 0] == 0

    def test_roughness_is_the_mean_second_difference(self) -> None:
        zigzag = np.tile([0.0, 1.0], (20, 10)).astype(np.float32)
        assert cues.roughness(zigzag)[10, 10] == pytest.approx(2 * 2 / 2)  # across 2, along 0
        assert cues.roughness(np.tile(np.arange(20.0), (20, 1)).astype(np.float32))[10, 10] == 0


class TestMotion:
    def test_a_quarter_turn(self) -> None:
        moved = exponential(np.array([1.0, 2.0, 3.0, 0.0, 0.0, np.pi / 2]))
        np.testing.assert_allclose(moved, [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]], atol=1e-12)
        about_x = exponential(np.array([0, 0, 0, np.pi / 2, 0, 0.0]))
        np.testing.assert_allclose(about_x[:3, :3], [[1, 0, 0], [0, 0, -1], [0, 1, 0]], atol=1e-12)
        about_y = exponential(np.array([0, 0, 0, 0, np.pi / 2, 0.0]))
        np.testing.assert_allclose(about_y[:3, :3], [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], atol=1e-12)

    def test_tiny_turns_are_as_smooth_as_larger_ones(self) -> None:
        for angle in (0.0, 5e-8, 2e-7, 1e-3):
            turned = exponential(np.array([0, 0, 0, 0, 0, angle]))[:3, :3]
            np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-12)
            assert turned[1, 0] == pytest.approx(np.sin(angle), abs=1e-15)

    def test_halfway(self) -> None:
        turn = exponential(np.array([0.0, 0, 0, 0, 0, 0.4]))[:3, :3]
        middle = halfway(Pose.identity(), Pose(turn, np.array([2.0, 0.0, 4.0])))
        np.testing.assert_allclose(middle.rotation, exponential(np.array([0.0, 0, 0, 0, 0, 0.2]))[:3, :3], atol=1e-12)
        assert middle.translation.tolist() == [1.0, 0.0, 2.0]


def test_the_bilateral_mean_stops_at_a_step() -> None:
    disparity = np.array([[1.0, 1.2, 5.0, 5.2, NAN]], np.float32)
    found = bilateral_filtered(disparity, 1, 1.5, 0.5)[0]
    near = np.exp(-1 / 4.5)
    means = [(one + near * other) / (1 + near) for one, other in ((1, 1.2), (1.2, 1), (5, 5.2), (5.2, 5))]
    assert found[:4] == pytest.approx(means)
    assert np.isnan(found[4])
    assert bilateral_filtered(np.array([[1.0, 1.5]], np.float32), 1, 1.5, 0.5)[0].tolist() == [1.0, 1.5]  # not within


def test_slopes_of_an_image_are_bytes_around_128() -> None:
    pytest.importorskip("cv2")
    ramp = np.tile(np.array([0, 2, 4, 100, 200, 100, 0], np.uint8), (5, 1))
    along, down = _sobel(ramp)
    assert along[2, 1:6].tolist() == [128 + 4 * 4, 255, 255, 128, 0]  # cut off where steep
    assert (down == 128).all()
    assert _sobel(np.ascontiguousarray(ramp.T))[1][1, 2] == 144


class TestConsistency:
    def test_maps_that_point_at_each_other(self) -> None:
        left = np.array([[NAN, NAN, 2.0, 2.0, 1.0, 3.0]], np.float32)
        right = np.array([[2.0, 2.5, NAN, 1.0, 2.0, 2.0]], np.float32)
        apart = consistency.disagreement(left, right)
        found = apart[0]
        assert found[2:4].tolist() == [0.0, 0.5]
        assert found[4] == 0.0
        assert np.isnan(found[[0, 1, 5]]).all()
        assert consistency.agreeing(left, apart, 0.4)[0, 2:].tolist()[:1] == [2.0]
        assert np.isnan(consistency.agreeing(left, apart, 0.4)[0, 3])
        assert consistency.agreeing(left, apart, 0.5)[0, 3] == 2.0

    def test_a_disparity_that_points_outside_is_not_confirmed(self) -> None:
        assert np.isnan(consistency.disagreement(np.array([[1.0, 1.0]], np.float32), np.ones((1, 2), np.float32))[0, 0])

    def test_gaps_are_bridged_by_a_line_or_the_farther_surface(self) -> None:
        row = np.array([[4.0, NAN, NAN, 1.0, NAN, 9.0, NAN, NAN, NAN, 9.0, NAN]], np.float32)
        found = consistency._bridged_rows(row, 2)[0]
        assert found[:6].tolist() == [4.0, 3.0, 2.0, 1.0, 1.0, 9.0]  # 8 apart: the smaller disparity is farther
        assert np.isnan(found[6:9]).all()  # three wide
        assert np.isnan(found[10])  # open at the end
        assert consistency.bridged(row, 0) is row

    def test_holes_take_the_farther_neighbour(self) -> None:
        holes = np.array([[NAN, 3.0, NAN, 5.0], [NAN] * 4], np.float32)
        assert consistency.without_holes(holes).tolist() == [[3.0, 3.0, 3.0, 5.0], [3.0, 3.0, 3.0, 5.0]]
        assert consistency.without_holes(np.full((2, 2), NAN, np.float32)).tolist() == [[0.0, 0.0]] * 2

    def test_specks_of_so_many_pixels_go(self) -> None:
        pytest.importorskip("cv2")
        disparity = np.full((9, 9), NAN, np.float32)
        disparity[1, 1:4] = 5.0
        disparity[5, 1:6] = 5.0
        kept = consistency.without_specks(disparity, 3, 1.0)
        assert np.isnan(kept[1]).all()
        assert (kept[5, 1:6] == 5).all()
        assert consistency.without_specks(disparity, 0, 1.0) is disparity

    def test_the_largest_disparities_that_are_searched_are_no_specks(self) -> None:
        """Sixteenths of them fit into the filter's sixteen bits."""
        pytest.importorskip("cv2")
        disparity = np.full((9, 9), MOST_DISPARITIES - 1, np.float32)
        disparity[2:4, 2:4] = 0.0
        kept = consistency.without_specks(disparity, 10, 1.0)
        np.testing.assert_array_equal(np.isnan(kept), disparity == 0)


class TestPairs:
    @staticmethod
    def points(disparities: list[float], rows: float = 0.0) -> pair_check.Points:
        left = np.array([[100.0 + d, 10.0 + rows] for d in disparities]).reshape(-1, 2)
        return pair_check.Points(left, np.array([[100.0, 10.0]] * len(disparities)).reshape(-1, 2))

    def test_a_range_that_is_too_short_is_said(self) -> None:
        matched = np.full((10, 10), 20.0, np.float32)
        enough = self.points([20.0] * 97 + [80.0] * 2)
        assert pair_check.range_warning(enough, matched, 64) is None
        said = pair_check.range_warning(self.points([20.0] * 90 + [80.0] * 10), matched, 64)
        assert said is not None
        assert said.startswith("10 % of the points found in both images have disparities of 64 or more: ")
        assert said.endswith("try --disparities 96")
        assert pair_check.range_warning(self.points([80.0] * 100, rows=2.1), matched, 64) is None  # in other rows
        assert pair_check.range_warning(self.points([80.0] * 11), matched, 64) is None  # too few

    def test_disparities_that_pile_up_at_the_end(self) -> None:
        matched = np.full((10, 10), 20.0, np.float32)
        matched[0, :2] = 62.0
        said = pair_check.range_warning(self.points([]), matched, 64)
        assert said is not None
        assert said.startswith("2 % of the matched pixels lie at the end of the range of 64")
        assert said.endswith("try --disparities 128")
        matched[0, 1] = 61.9
        assert pair_check.range_warning(self.points([]), matched, 64) is None

    def test_points_of_a_rig(self) -> None:
        rig = Rig(Pinhole(100.0, 50.0, 10.0, 20.0, 40, 40), 0.5, doffs=2.0)
        found = rig.points(np.array([30.0]), np.array([10.0]), np.array([8.0]))
        assert found.tolist() == [[0.2 * 5, -0.2 * 5, 5.0]]
        for wrong in (0.0, -1.0, np.inf):
            with pytest.raises(InputError, match="positive length"):
                Rig(rig.camera, wrong)


class TestRequirePair:
    """Points that are given: what is said of them, with a texture that has something to be found."""

    TEXTURE = (np.indices((20, 20)).sum(axis=0) % 2 * 255).astype(np.uint8)

    def judged(self, points: pair_check.Points, fitting: int, monkeypatch: pytest.MonkeyPatch) -> pair_check.Points:
        monkeypatch.setattr(pair_check, "find_points", lambda left, right: points)
        monkeypatch.setattr(pair_check, "_of_one_scene", lambda points: fitting)
        return pair_check.require_pair(self.TEXTURE, self.TEXTURE)

    def test_a_rectified_pair_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points = TestPairs.points([5.0] * 12)
        assert self.judged(points, 0, monkeypatch) is points

    def test_an_unrelated_one_does_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        elsewhere = TestPairs.points([5.0] * 100, rows=9.0)
        for fitting, words in ((49, "unrelated"), (50, "not rectified")):
            with pytest.raises(InputError, match=words):
                self.judged(elsewhere, fitting, monkeypatch)
        few = TestPairs.points([5.0] * 30, rows=9.0)
        for fitting, words in ((23, "unrelated"), (24, "not rectified")):
            with pytest.raises(InputError, match=words):
                self.judged(few, fitting, monkeypatch)

    def test_half_of_the_points_have_to_lie_in_one_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        left = np.array([[105.0, 10.0]] * 50 + [[105.0, 19.0]] * 50)
        right = np.array([[100.0, 10.0]] * 100)
        self.judged(pair_check.Points(left, right), 0, monkeypatch)
        left[0, 1] = 19.0
        with pytest.raises(InputError, match="unrelated"):
            self.judged(pair_check.Points(left, right), 0, monkeypatch)

    def test_a_swapped_one_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.judged(TestPairs.points([-5.0] * 70 + [5.0] * 30), 0, monkeypatch)
        with pytest.raises(InputError, match=r"71 % of 100 points .* swapped"):
            self.judged(TestPairs.points([-5.0] * 71 + [5.0] * 29), 0, monkeypatch)
        self.judged(TestPairs.points([-2.0] * 100), 0, monkeypatch)  # a hair's breadth is no swap

    def test_smooth_images_say_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        none = TestPairs.points([])
        monkeypatch.setattr(pair_check, "find_points", lambda left, right: none)
        flat = np.zeros((9, 9), np.uint8)
        assert pair_check.require_pair(flat, flat) is none
        with pytest.raises(InputError, match="unrelated"):
            self.judged(none, 0, monkeypatch)


class TestMatchedPoints:
    """Descriptors by hand: a point is matched if its best partner is clearly better than the second best."""

    @staticmethod
    def found(left: list[int], right: list[int], monkeypatch: pytest.MonkeyPatch) -> pair_check.Points:
        """Points at (10 k, 5) and (10 k, 6), whose descriptors have so many bits set."""
        cv2 = pytest.importorskip("cv2")

        def described(image: np.ndarray, mask: None) -> tuple[Any, Any]:
            bits = [left, right][image[0, 0]]
            rows = [np.packbits(np.arange(256) < each) for each in bits]
            points = [SimpleNamespace(pt=(10.0 * k, 5.0 + image[0, 0])) for k in range(len(bits))]
            return points, np.array(rows, np.uint8) if rows else None

        stand_in = SimpleNamespace(
            ORB_create=lambda count: SimpleNamespace(detectAndCompute=described),
            BFMatcher=cv2.BFMatcher,
            NORM_HAMMING=cv2.NORM_HAMMING,
        )
        monkeypatch.setattr(pair_check, "opencv", lambda: stand_in)
        return pair_check.find_points(np.zeros((2, 2), np.uint8), np.ones((2, 2), np.uint8))

    def test_two_points_suffice_and_one_has_no_second_best(self, monkeypatch: pytest.MonkeyPatch) -> None:
        points = self.found([0, 256], [256, 0], monkeypatch)
        assert sorted(map(tuple, np.hstack([points.left, points.right]))) == [(0, 5, 10, 6), (10, 5, 0, 6)]
        for left, right in (([0], [0, 256]), ([0, 256], [0]), ([], [0, 256]), ([0, 256], [])):
            assert len(self.found(left, right, monkeypatch).left) == 0

    def test_clearly_better_and_each_others_best(self, monkeypatch: pytest.MonkeyPatch) -> None:
        limit = int(pair_check.RATIO * 100)
        for first, matched in ((limit - 1, 1), (limit + 1, 0)):  # beside a second best of 100 bits
            points = self.found([0, 256], [first, 100], monkeypatch)
            assert (points.left[:, 0] == 0).sum() == matched
        points = self.found([100, 110], [112, 256], monkeypatch)  # the second is nearer to what the first likes best
        assert 0 not in points.left[:, 0]
