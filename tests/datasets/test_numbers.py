"""Exact values of what readers and checks count with."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.datasets import reader_tools
from cfusion.datasets.check.compare import Check, Fit, _best_factor, _champion, _factor_name, _is_new, _votes
from cfusion.datasets.check.reprojection import STATED, Hypothesis, Meaning, Residuals, percent
from cfusion.datasets.check.scales import Scales
from cfusion.datasets.fingerprint import contents, view_fingerprint
from cfusion.datasets.named_neighbours import _digits, _Shared, read_plan
from cfusion.errors import FileError, ShapeError
from cfusion.io import limits
from cfusion.io.text_tables import number, numbered, read_lines, read_matrix, whole

NAN = float("nan")


def fit(residual: float = 0.1, overlap: float = 0.5, votes: float = 0.5, telling: float = 0.5) -> Fit:
    return Fit(STATED, residual, overlap, votes, telling)


class TestCheck:
    @pytest.mark.parametrize(
        ("votes", "telling", "undecided"),
        [
            (0.9, 0.019, True),
            (0.9, 0.02, False),
            (0.55, 0.5, False),
            (0.54, 0.5, True),
            (0.46, 0.5, True),
            (0.44, 0.5, False),
        ],
    )
    def test_what_cannot_be_told_apart(self, votes: float, telling: float, undecided: bool) -> None:
        assert fit(votes=votes, telling=telling).undecided is undecided

    @pytest.mark.parametrize(
        ("best", "sure"),
        [
            (fit(0.049, votes=0.6), True),
            (fit(0.05, votes=0.6), False),
            (fit(0.01, votes=0.59), False),
        ],
    )
    def test_when_the_convention_stated_cannot_be_right(self, best: Fit, sure: bool) -> None:
        assert Check((fit(0.1), best), best).is_sure is sure
        stated = fit(0.1)
        assert not Check((stated, best), stated).is_sure
        assert Check((fit(float("inf"), overlap=0.0), best), best).is_sure is (best.votes >= 0.6)
        assert not Check((fit(0.01), fit(0.001, votes=0.9)), fit(0.001, votes=0.9)).is_sure  # harmless
        assert not Check((fit(0.9), fit(0.1, votes=0.9)), fit(0.1, votes=0.9)).is_sure  # by chance

    def test_factors_that_positions_explain_are_not_sure(self) -> None:
        for factor, axes, sure in (
            *((1.49, "opencv", False), (1.51, "opencv", True), (5.0, "opencv", True), (1 / 1.49, "opencv", False)),
            *((3.0, "opengl", False), (1000.0, "opengl", True), (1.0, "ros", True)),
        ):
            best = Fit(Hypothesis("another", factor=factor, axes=axes), 0.01, 0.5, 0.9, 0.5)
            assert Check((fit(0.1), best), best).is_sure is sure, (factor, axes)

    def test_where_nothing_meets_more_is_asked_of_others(self) -> None:
        apart = fit(float("inf"), overlap=0.0)
        for other, residual, overlap, sure in (
            *((Hypothesis("", inverse=True), 0.09, 0.2, True), (Hypothesis("", inverse=True), 0.09, 0.19, False)),
            *((Hypothesis("", focal=0.5), 0.05, 0.9, False), (Hypothesis("", focal=0.5), 0.04, 0.9, True)),
            *((Hypothesis("", axes="ros"), 0.05, 0.9, False), (Hypothesis("", factor=3.0), 0.01, 0.9, False)),
        ):
            best = Fit(other, residual, overlap, 0.9, 0.5)
            found = Check((apart, best), best, chance=0.9)
            assert (found.is_sure, found.by_chance) == (sure, not sure), (other, residual)

    def test_views_that_are_too_close(self) -> None:
        stated = fit()
        assert Check((stated,), stated, parallax=0.99).too_close
        assert not Check((stated,), stated, parallax=1.0).too_close
        assert not Check((stated, fit()), fit(), parallax=0.1).too_close

    def test_sentences(self) -> None:
        stated, other = fit(0.1, 0.5), Fit(Hypothesis("the other way"), 0.02, 0.25, 0.7, 0.5)
        assert Check((stated, other), other).sentence == (
            "The data fit clearly better with: the other way (2 % median depth residual, 25 % overlap; as stated 10 % "
            "median depth residual, 50 % overlap; 70 % of the deciding pixels)."
        )
        assert "slightly better" in Check((stated, other), Fit(other.hypothesis, 0.02, 0.25, 0.59, 0.5)).sentence
        assert Check((stated, fit()), stated).sentence.endswith("; the data cannot decide: as stated.")
        scales = Scales((0, 1), (0.5, 2.0), 0.1, 0.01)
        assert Check((stated,), stated, scales=scales).sentence.endswith(
            "but the views disagree about scale by factors from 0.5 to 2; with these the residual is 1 % "
            "(pass --align-scales)."
        )
        assert replace(scales, shifts=(0.1, 0.1)).sentence == (
            "the views are known up to a scale and a shift, as relative maps of depth networks are: "
            "depth = a value + b with a = 0.5 to 2, b = 0.1; with these the residual is 1 % (pass --align-scales)"
        )

    def test_votes_are_of_those_that_differ(self) -> None:
        ours, theirs = np.array([1.0, 1.0, 0.5, NAN, 0.2]), np.array([0.5, 0.5, 1.0, 1.0, 0.2])
        assert _votes(ours, theirs, True, True) == (2 / 3, 3 / 4)
        assert _votes(ours, ours, True, True) == (0.5, 0.0)
        assert _votes(ours, theirs, True, False) == (1.0, 1.0)
        assert _votes(ours, theirs, False, True) == (0.0, 1.0)

    def test_the_champion_has_the_benefit_of_the_doubt(self) -> None:
        def left(*residuals: float) -> Residuals:
            values = np.repeat(np.log1p(residuals), 100 // len(residuals))
            return Residuals(values, np.ones(100, dtype=bool))

        poor, good = np.zeros(100), np.ones(100)
        assert _champion([left(0.2), left(0.1)], [poor, good], [True, True]) == 1
        assert _champion([left(0.1), left(0.2)], [poor, good], [True, True]) == 0  # leaves a larger residual
        few = poor.copy()
        few[:1] = 1
        assert _champion([left(0.2), left(0.1)], [poor, few], [True, True]) == 0  # one in a hundred does not tell
        hidden = left(0.01, 0.2, 0.2, 0.2, 0.2)  # a fifth is seen in both views
        assert _champion([hidden, left(0.1)], [poor, good], [True, True]) == 0  # and would no longer agree
        assert _champion([hidden, left(0.01, 0.1, 0.1, 0.1, 0.1)], [poor, good], [True, True]) == 1
        assert _champion([left(0.001, 0.2), left(0.0019, 0.1)], [poor, good], [True, True]) == 1  # exact enough
        none = Residuals(np.full(100, NAN), np.zeros(100, dtype=bool))
        assert _champion([none, left(0.1)], [poor, good], [True, True]) == 1
        few_left = Residuals(np.where(np.arange(100) < 29, 0.1, NAN), np.ones(100, dtype=bool))
        assert _champion([none, few_left], [poor, good], [True, True]) == 0  # too few to tell anything

    def test_factors_by_name(self) -> None:
        assert _factor_name(1000.0) == "depths multiplied by 1000 (millimetres for metres, or the reverse)"
        assert _factor_name(1 / 990.0).startswith("depths divided by 1000 (")
        assert _factor_name(3.0) == "depths multiplied by 3"
        assert _is_new(1.05, []) and not _is_new(1.03, [])  # noqa: PT018
        assert not _is_new(5.1, [Hypothesis("", factor=5.0)])

    @pytest.mark.parametrize("true", [1e-4, 1.3e-4, 0.031, 1.0, 4.999, 8000.0, 1e4])
    @pytest.mark.parametrize(
        ("meaning", "motion", "unit"),
        [(Meaning.z, 0.5, 1.0), (Meaning.disparity, 0.5, 3 * 0.5), (Meaning.disparity, 0.0, 3 * 0.003)],
    )
    def test_a_factor_is_found_to_a_fifth_of_a_percent(
        self, true: float, meaning: Meaning, motion: float, unit: float
    ) -> None:
        """Of z as it is, of disparities in typical depth times motion; where views do not overlap nothing counts."""

        def residuals(tried: Hypothesis, every: int) -> Any:
            assert tried.meaning is meaning
            away = abs(np.log(tried.factor / unit / true))
            return SimpleNamespace(overlap=1.0 if away < 2 else 0.04, cost=away if away < 2 else -1.0)

        found = _best_factor(SimpleNamespace(typical=3.0, motion=motion, residuals=residuals), meaning)  # type: ignore[arg-type]
        assert found.factor == pytest.approx(unit * true, rel=2e-3)
        assert found.meaning is meaning
        assert ("disparity" in found.name) == (meaning is Meaning.disparity)

    def test_shares_in_words(self) -> None:
        assert [percent(each) for each in (NAN, 1e-6, 1e-5, 0.0123, 0.1234)] == [
            *("no", "under 0.001 %", "0.001 %", "1.2 %", "12.3 %"),
        ]


class TestReaders:
    def test_a_camera_of_a_map_of_another_size(self) -> None:
        camera = reader_tools.resized_pinhole((100.0, 200.0, 49.5, 19.5), (40, 100), (20, 25))
        assert (camera.fx, camera.fy, camera.cx, camera.cy) == (25.0, 100.0, 12.0, 9.5)
        assert camera.shape == (20, 25)

    def test_intrinsics_as_a_matrix_or_numbers(self) -> None:
        k = np.array([[1.0, 0, 3, 0], [0, 2, 4, 0], [0, 0, 1, 0]])
        assert reader_tools.pinhole(k, (5, 6), "k") == reader_tools.pinhole((1.0, 2.0, 3.0, 4.0), (5, 6), "k")
        assert reader_tools.pinhole(k, (5, 6), "k") == Pinhole(1.0, 2.0, 3.0, 4.0, 6, 5)

    def test_what_formats_say_for_unknown(self) -> None:
        found = reader_tools.unknown_unless_positive(np.array([0.0, -1.0, np.inf, NAN, 1e300, 2.0]))
        np.testing.assert_array_equal(found, [NAN, NAN, NAN, NAN, NAN, 2.0])

    def test_counts_in_words(self) -> None:
        assert [reader_tools.lost(count) for count in (0, 1, 2)] == [
            "",
            "; 1 lost frame skipped",
            "; 2 lost frames skipped",
        ]
        assert reader_tools.left_out(0, "x") == ""
        assert reader_tools.left_out(1, "without a map") == "; 1 frame without a map left out"
        assert reader_tools.without_images([None, Path("/no/such/file")]) == "; 1 image named but missing"

    def test_lenses_that_bend_nothing(self) -> None:
        camera = Pinhole(50.0, 50.0, 20.0, 15.0, 40, 30)
        assert reader_tools.bent_by(camera, (0.0,) * 5) is camera
        assert reader_tools.bent_by(camera, (0.0, 0.0, 0.0, 0.0, 1e-3)).distortion == (0.0, 0.0, 0.0, 0.0, 1e-3)


class TestNamed:
    def test_a_plan_of_pairs_of_lines(self, tmp_path: Path) -> None:
        (tmp_path / "p.cfg").write_text("# words\na.png\nb.png, c.png\n\nb.png\n__auto__, 20\n")
        assert read_plan(tmp_path / "p.cfg") == {"a.png": ("b.png", "c.png"), "b.png": ("__auto__", "20")}
        assert read_plan(tmp_path / "none.cfg") == {}

    def test_five_points_in_common_make_a_neighbour(self) -> None:
        seen = {
            "a": np.arange(20),
            "b": np.arange(5),
            "c": np.arange(4),
            "d": np.arange(10, 20),
            "e": np.arange(15, 20),
        }
        shared = _Shared.of([*"abcde", "f"], seen)
        assert shared.ranked(0) == (3, 1, 4)
        assert shared.ranked(1) == (0,)
        assert shared.ranked(5) == ()

    def test_numbers_of_files(self) -> None:
        assert [_digits(Path(name)) for name in ("00000012_init.pfm", "7.pfm", "x.pfm")] == [12, 7, -1]


class TestFingerprint:
    VIEW = View(np.full((2, 3), 2.0), Pinhole(3.0, 3.0, 1.0, 1.0, 3, 2), Pose.identity())

    def test_everything_that_is_fused_counts(self) -> None:
        base = view_fingerprint(self.VIEW)
        depth, camera, pose = self.VIEW.depth, self.VIEW.camera, self.VIEW.pose
        others = [
            View(depth * np.float32(1.0001), camera, pose),
            View(depth, Pinhole(3.0, 3.0, 1.0, 1.5, 3, 2), pose),
            View(depth, camera, Pose(np.eye(3), np.array([0.0, 0.0, 1.0]))),
            View(depth, camera, pose, image=np.zeros((2, 3))),
            View(depth, camera, pose, confidence=np.ones((2, 3))),
        ]
        assert len({base, *map(view_fingerprint, others)}) == 6
        assert view_fingerprint(View(depth, camera, pose, name="another")) == base

    def test_the_farthest_depth_and_the_share_that_was_read(self) -> None:
        told: list[float] = []
        unknown = View(np.full((2, 3), NAN), self.VIEW.camera, Pose.identity())
        found = contents([self.VIEW, unknown], told.append)
        assert found.farthest == 2.0
        assert told == [0.5, 1.0]
        assert found.of([0, 1]) != found.of([1, 0])
        assert contents([unknown]).farthest == 0.0


class TestLimits:
    def test_pixels_that_a_file_may_claim(self) -> None:
        file = Path("a.png")
        limits.require_pixels(file, 2**13, 2**12, 0)  # 33 megapixels of anything
        with pytest.raises(FileError, match="claims"):
            limits.require_pixels(file, 2**13, 2**12 + 1, 0)
        limits.require_pixels(file, 2**13, 2**13, 2**20)  # 64 for every byte
        with pytest.raises(FileError, match="claims"):
            limits.require_pixels(file, 2**13, 2**13 + 1, 2**20)
        limits.require_pixels(file, 2**14, 2**14, 2**40)
        with pytest.raises(FileError, match="claims"):
            limits.require_pixels(file, 2**14, 2**14 + 1, 2**40)
        with pytest.raises(FileError, match="claims"):
            limits.require_pixels(file, 2**14, 2**14, 2**40, bytes_each=32)
        for width, height in ((0, 1), (1, 0)):
            with pytest.raises(FileError, match="claims"):
                limits.require_pixels(file, width, height, 9)

    def test_what_an_archive_may_become(self) -> None:
        assert [limits.most_unpacked(packed) for packed in (0, 2**21, 2**22, 2**40)] == [2**27, 2**27, 2**28, 2**32]

    def test_shapes(self) -> None:
        limits.require_shape(Path("a"), (2, 3), None)
        limits.require_shape(Path("a"), (2, 3), (2, 3))
        with pytest.raises(ShapeError, match="a is 3 x 2 pixels, its camera has 2 x 3"):
            limits.require_shape(Path("a"), (2, 3), (3, 2))


class TestTables:
    def test_numbers(self) -> None:
        assert [number(each) for each in ("1e3", "-0.5", "+2")] == [1000.0, -0.5, 2.0]
        assert np.isnan([number(each) for each in ("nan", "-1.#IND", "1.#QNAN")]).all()
        for wrong in ("1_000", "٣", "x", "0x10"):
            with pytest.raises(ValueError, match="is not a number"):
                number(wrong)
        assert [whole(each) for each in ("-7", "+7", "0" * 18)] == [-7, 7, 0]
        for wrong in ("7.0", "", "1" * 19, "0x1"):
            with pytest.raises(ValueError, match="not a whole number"):
                whole(wrong)

    def test_lines_without_comments(self, tmp_path: Path) -> None:
        (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbf1, 2  3\r\n# no\n\n4 x\n")
        first, second = read_lines(tmp_path / "t.txt")
        assert first.words == ("1", "2", "3")
        assert first.numbers(1) == (2.0, 3.0)
        assert first.numbers(1, 1) == (2.0,)
        assert second.where.endswith("line 4")
        with pytest.raises(FileError, match="has 3 words, expected 4"):
            first.numbers(2, 2)
        with pytest.raises(FileError, match="'x' is not a number"):
            second.numbers()

    def test_matrices_of_one_of_some_shapes(self, tmp_path: Path) -> None:
        (tmp_path / "m.txt").write_text("1 2 3\n4 5 6\n")
        assert read_matrix(tmp_path / "m.txt", (2, 2), (3, 2)).tolist() == [[1, 2], [3, 4], [5, 6]]
        with pytest.raises(FileError, match="holds 6 numbers, expected 2 x 2"):
            read_matrix(tmp_path / "m.txt", (2, 2))

    def test_files_by_their_last_number(self) -> None:
        names = [path.name for path in numbered([Path(each) for each in ("a10.png", "a2.png", "b.png", "1_3.png")])]
        assert names == ["b.png", "a2.png", "1_3.png", "a10.png"]
