"""What is chosen for a mosaic, by hand: its sample, its weights, its shifts; and what is taken on trust."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rasterio
from tests.rasters import conftest

from cfusion import fuse_rasters
from cfusion.errors import CFusionError, FileError, InputError
from cfusion.rasters import choose, coregister, ground, mosaic, sample, solve_tile, units, write
from cfusion.rasters.align import Aligned
from cfusion.rasters.coordinates import Coordinates
from cfusion.rasters.grids import Grid
from cfusion.rasters.journal import FACTS, STEPS, Journal, alone_at_work
from cfusion.rasters.runner import MOST_DEATHS, Crew


class TestWindows:
    """Large mosaics: where rasters have most in common, and a window for every pair that meets."""

    GRID: Any = SimpleNamespace(width=3000, height=2000)

    @staticmethod
    def raster(left: int, top: int, right: int, bottom: int, share: float = 1.0) -> Any:
        def read(rows: slice, columns: slice) -> Any:
            v, u = np.mgrid[rows, columns]
            known = (u >= left) & (u < right) & (v >= top) & (v < bottom) & ((7 * u + 3 * v) % 100 < 100 * share)
            return np.where(known, 1.0, np.nan).astype(np.float32)

        return SimpleNamespace(footprint=lambda: (left, top, right, bottom), read=read)

    def test_a_small_mosaic_is_its_own_sample(self) -> None:
        grid: Any = SimpleNamespace(width=600, height=600)
        assert sample.windows_of([self.raster(0, 0, 600, 600)], grid) == ((slice(0, 600), slice(0, 600)),)

    def test_inside_and_spread_where_all_know_it(self) -> None:
        both = [self.raster(0, 0, 3000, 2000), self.raster(0, 0, 3000, 2000)]
        windows = sample.windows_of(both, self.GRID)
        assert len(windows) == sample.MOST
        for rows, columns in windows:
            assert rows.stop - rows.start == columns.stop - columns.start == sample.SIDE
            assert 0 <= rows.start <= rows.stop <= 2000
            assert 0 <= columns.start <= columns.stop <= 3000
        assert windows[0][0].start < 300
        assert windows[-1][0].start > 1400

    def test_every_pair_that_meets_has_its_window(self) -> None:
        """Three large rasters with much in common, and a fourth that meets the second in a corner alone."""
        large = [self.raster(0, 0, 2000, 2000), self.raster(0, 0, 2600, 2000), self.raster(0, 0, 2000, 2000)]
        four = [*large, self.raster(2400, 1700, 3000, 2000)]
        windows = sample.windows_of(four, self.GRID)
        met = [w for w in windows if all(sample._known(four[k], w) > 0 for k in (1, 3))]
        assert len(met) == 1
        assert len(windows) == sample.MOST + 1
        assert all(sample._known(four[0], w) > 0.5 for w in windows if w not in met)
        assert sample.windows_of(four[::-1], self.GRID) == windows

    def test_windows_of_a_strip_are_as_wide_as_it_is(self) -> None:
        everywhere = self.raster(0, 0, 40000, 40000)
        for down, right in ((40000, 200), (200, 40000)):
            windows = sample.windows_of([everywhere], SimpleNamespace(width=right, height=down))  # type: ignore[arg-type]
            assert all(slice(0, 200) in window for window in windows)

    def test_rasters_that_do_not_meet_are_looked_at_where_they_are(self) -> None:
        apart = [self.raster(0, 0, 900, 900), self.raster(2000, 1000, 3000, 2000)]
        windows = sample.windows_of(apart, self.GRID)
        assert windows
        assert all(max(sample._known(each, w) for each in apart) >= 0.5 for w in windows)

    def test_known_is_the_share_of_the_inner_half(self) -> None:
        window = (slice(100, 356), slice(200, 456))
        assert sample._known(self.raster(0, 0, 3000, 2000), window) == 1
        assert sample._known(self.raster(0, 0, 3000, 2000, share=0.25), window) == pytest.approx(0.25, abs=0.01)
        assert sample._known(self.raster(328, 0, 3000, 2000), window) == pytest.approx(0.5)
        assert sample._known(self.raster(0, 228, 3000, 2000), window) == pytest.approx(0.5)
        assert sample._known(self.raster(0, 0, 3000, 292), window) == 1  # the inner part, and no more of it
        assert sample._known(self.raster(0, 0, 392, 2000), window) == 1
        assert sample._known(self.raster(264, 164, 3000, 2000), window) == 1
        assert sample._known(self.raster(0, 0, 264, 2000), window) == 0  # its rim alone
        assert sample._known(self.raster(0, 0, 3000, 164), window) == 0
        for beside in ((456, 0, 3000, 2000), (0, 356, 3000, 2000), (0, 0, 200, 2000), (0, 0, 3000, 100)):
            blind = self.raster(*beside)
            blind.read = None  # is not read
            assert sample._known(blind, window) == 0.0

    def test_a_sample_is_read_window_by_window(self) -> None:
        both = [self.raster(0, 0, 3000, 2000), self.raster(0, 0, 1500, 2000)]
        found = sample.take(both, self.GRID)
        assert [part.shape for part in found.parts] == [(2, sample.SIDE, sample.SIDE)] * len(found.windows)
        assert (found.parts[0][0] == 1).all()


class TestSearch:
    """The walk over ladder, corner, ratio and a finer step, where one candidate is known to be best."""

    @pytest.mark.parametrize("corner", choose.CORNERS)
    @pytest.mark.parametrize("ratio", choose.RATIOS)
    @pytest.mark.parametrize("best", [*choose.LADDER, 1.6 * 2**0.5])
    def test_it_ends_at_the_best(self, corner: float, ratio: float, best: float) -> None:
        trial = object.__new__(choose._Trial)
        trial.kept_views, trial.judges = 4.0, np.ones(choose.FEWEST_JUDGES, bool)

        def losses(candidate: tuple[float, float, float]) -> Any:
            first, tried_ratio, tried = candidate
            apart = abs(np.log(first / (2 * best))) + abs(np.log(tried_ratio / ratio)) + abs(np.log(tried / corner))
            return np.full(4, apart)

        trial._losses = losses  # type: ignore[method-assign]
        (first, second), chosen = trial.search()
        assert chosen == corner
        assert first * corner == pytest.approx(2 * best)
        assert second == pytest.approx(ratio * first)

    def test_chance_between_blocks_does_not_count(self) -> None:
        trial = object.__new__(choose._Trial)
        spread = np.array([3.0, -1.0, 3.0, -1.0])  # sum 4, deviation 2, four of them: two standard errors of 4
        trial._losses = lambda candidate: spread if candidate[0] == 1 else np.zeros(4)  # type: ignore[method-assign]
        assert not trial._clearly_better((0.0, 1.0, 1.0), (1.0, 1.0, 1.0))
        spread += 2.0
        assert trial._clearly_better((0.0, 1.0, 1.0), (1.0, 1.0, 1.0))

    def test_what_lies_five_spreads_beside_the_rest_does_not_judge(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A spread is 1.4826 times the median distance from the median of the rest, here 1."""
        heights = np.zeros((2, 3, 4), np.float32)
        heights[0] = [[1, -1, 1, -1], [0.5, -1, 7.4, -7.4], [1, 1, 7.43, -7.43]]
        held = np.array([True, False])[:, None, None] & np.ones((3, 4), bool)
        monkeypatch.setattr(choose, "left_out", lambda given: held)
        trial = choose._Trial(heights, None, 1.0, "numpy", lambda fits: None)
        assert (trial.judges[0] == (np.abs(heights[0]) < 7.41)).all()
        assert not trial.judges[1].any()
        assert (trial.views, trial.kept_views) == (2.0, 1.0)  # observations of a pixel, all and without those held out

    def test_fits_are_made_once_and_counted(self) -> None:
        made: list[Any] = []
        trial = object.__new__(choose._Trial)
        told: list[int] = []
        trial.fits, trial.weights, trial.fitted = {}, None, told.append
        trial._fit = lambda *given: made.append(given) or np.zeros(1)  # type: ignore[method-assign]
        for candidate in ((1.0, 2.0, 4.0), (1.0, 2.0, 4.0), (3.0, 2.0, 1.5)):
            trial._losses(candidate)
        assert made == [((0.25, 0.5), 4.0, None), ((2.0, 4.0), 1.5, None)]
        assert told == [1, 2]


class TestGain:
    """From how far two fits of half the rasters differ."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        heard: list[Any] = []

        def solve(part: Any, weights: Any, alpha: Any, delta: float, backend: str) -> Any:
            heard.append((part[:, 0, 0].tolist(), None if weights is None else weights[:, 0, 0].tolist(), alpha))
            assert (delta, backend) == (3.0, "numpy")
            return SimpleNamespace(heights=np.full(part.shape[1:], 0.5 if len(heard) % 2 else 1.5))

        monkeypatch.setattr(solve_tile, "solve_sample", solve)
        return heard

    def test_by_hand(self, asked: list[Any]) -> None:
        heights = np.arange(3.0, dtype=np.float32)[:, None, None] + np.zeros((3, 30, 30), np.float32)
        found = choose._gain(heights, 10 * heights, (1.0, 2.0), 3.0, "numpy", 4.0)
        half = np.sqrt(0.5)
        assert [each[:2] for each in asked] == [([0, 2], [0, 20]), ([1], [10])]
        assert all(each[2] == pytest.approx((half, 2 * half)) for each in asked)
        assert found == pytest.approx(1 / (4 * np.sqrt(1 / 2 + 1)))
        assert choose._gain(heights, None, (1.0, 2.0), 3.0, "numpy", 1e-6) == choose.GAIN_RANGE[1]
        assert choose._gain(heights, None, (1.0, 2.0), 3.0, "numpy", 1e6) == choose.GAIN_RANGE[0]

    @pytest.mark.parametrize("alone", [0, 1])
    def test_only_where_both_halves_know_the_ground(self, asked: list[Any], alone: int) -> None:
        """Elsewhere a fit is only filled: it tells nothing of the noise."""
        heights = np.zeros((2, 40, 40), np.float32)
        heights[1 - alone, :, 20:] = np.nan
        found = choose._gain(heights, None, (1.0, 2.0), 3.0, "numpy", 4.0)
        assert found == pytest.approx(1 / (4 * np.sqrt(2)))

    def test_what_cannot_be_told_is_one(self, asked: list[Any]) -> None:
        assert choose._gain(np.zeros((1, 30, 30), np.float32), None, (1.0, 2.0), 3.0, "numpy", 4.0) == 1.0
        assert asked == []
        assert choose._gain(np.zeros((2, 20, 20), np.float32), None, (1.0, 2.0), 3.0, "numpy", 4.0) == 1.0


class TestShifts:
    HOUSES = ground.median_of(np.random.default_rng(2).normal(0, 1, (1, 64, 80)).cumsum(axis=1).cumsum(axis=2))

    @pytest.mark.parametrize(("right", "down"), [(0, 0), (3, -2), (-5, 7), (19, 15)])
    def test_whole_pixels_are_found(self, right: int, down: int) -> None:
        moved = np.roll(self.HOUSES, (down, right), (0, 1))
        assert coregister.phase_shift([self.HOUSES], [moved]) == (right, down)

    def test_within_a_quarter_of_the_window(self) -> None:
        for right, down in ((30, 0), (0, 25), (-30, -25)):
            u, v = coregister.phase_shift([self.HOUSES], [np.roll(self.HOUSES, (down, right), (0, 1))])
            assert abs(u) <= 20
            assert abs(v) <= 16

    def test_by_the_window_that_knows_most(self) -> None:
        moved = np.roll(self.HOUSES, 4, 1)
        hidden = np.full((99, 99), np.nan)
        assert coregister.phase_shift([hidden, self.HOUSES], [hidden, moved]) == (4, 0)
        for known in ([hidden, np.zeros((99, 99))], [np.zeros((99, 99)), hidden]):  # one of the two alone
            grounds, heights = zip(known, (self.HOUSES, moved), strict=True)
            assert coregister.phase_shift(grounds, heights) == (4, 0)
        assert coregister.phase_shift([self.HOUSES[:15]], [moved[:15]]) == (0.0, 0.0)

    def test_too_few_pixels_tell_nothing(self) -> None:
        small = np.zeros((2, 300))
        raster: Any = SimpleNamespace(read=lambda rows, columns: small)
        step, error = coregister._gauss_newton(raster, [small], [(slice(0, 2), slice(0, 300))])
        assert step == (0.0, 0.0)
        assert error == (np.inf, np.inf)

    @pytest.mark.parametrize(("columns", "tells"), [(66, False), (67, True)])
    def test_two_hundred_pixels_in_common_tell(self, columns: int, tells: bool) -> None:
        ground = np.random.default_rng(0).normal(0.0, 1.0, (3, columns))
        raster: Any = SimpleNamespace(read=lambda rows, columns: ground + 0.5)
        _, error = coregister._gauss_newton(raster, [ground], [(slice(0, 3), slice(0, columns))])
        assert np.isfinite(error).all() == tells

    def test_the_one_with_most_in_common_is_next(self) -> None:
        read = np.full((4, 10, 10), np.nan)
        read[0, :, :5] = read[1, :2] = read[2, :, 4:] = read[3, 0] = 1.0
        assert coregister._next([read], {0: None}) == 1  # type: ignore[dict-item]
        assert coregister._next([read], {0: None, 1: None}) == 2  # type: ignore[dict-item]
        read[2] = np.nan
        read[2, 0] = 1.0
        assert coregister._next([read], {0: None, 1: None}) == 2  # type: ignore[dict-item]


class TestTaken:
    """What rasters do not say is taken on trust, in a sentence each."""

    @staticmethod
    def raster(name: str, vertical: str = "", wkt: str = "x", kind: str = "Area", **more: Any) -> Any:
        coordinates = SimpleNamespace(wkt=wkt, vertical=vertical, horizontal_unit="metre")
        grid = SimpleNamespace(coordinates=coordinates, area_or_point=kind)
        return SimpleNamespace(**({"name": name, "grid": grid, "unit": "", "scale": 1.0, "offset": 0.0} | more))

    def told(self, *rasters: Any) -> tuple[str, ...]:
        return units.require_one_system(rasters)

    def test_datums(self) -> None:
        silent, stated = self.raster("a"), self.raster("b", "EGM96")
        expected = ("a: states no vertical datum, assumed to be 'EGM96' like the others",)
        assert self.told(silent, stated) == expected
        assert self.told(stated, silent) == expected
        assert self.told(stated, stated) == self.told(silent, silent) == ()
        with pytest.raises(InputError, match="one vertical datum"):
            self.told(stated, self.raster("c", "NAVD88"))

    def test_systems_scales_and_points(self) -> None:
        bare = self.raster("a", wkt="")
        assert self.told(bare, bare)[0].startswith("no raster has a CRS")
        with pytest.raises(InputError, match="a has no CRS"):
            self.told(bare, self.raster("b"))
        (line,) = self.told(self.raster("a"), self.raster("b", kind="Point"))
        assert line.startswith("AREA_OR_POINT differs")
        (line,) = self.told(self.raster("a", dtype="int16", scale=0.1, offset=5.0), self.raster("b"))
        assert line == "a: int16 x 0.1 + 5 = height, from its tags"


@pytest.mark.parametrize("turn", [0.0, 0.5, 2.0, 3.5, 5.5])
def test_the_bounds_of_a_turned_grid_hold_its_corners(turn: float) -> None:
    cos, sin = np.cos(turn), np.sin(turn)
    grid = Grid((cos, -sin, 7.0, sin, cos, 9.0), 30, 20, Coordinates(""))
    corners = np.array([(0, 0), (30, 0), (0, 20), (30, 20)]) @ np.array([[cos, sin], [-sin, cos]]) + (7, 9)
    assert grid.bounds == pytest.approx((*corners.min(axis=0), *corners.max(axis=0)))


def test_a_compound_system_is_taken_apart() -> None:
    flat, height = 'PROJCS["a [b]",UNIT["metre",1]]', 'VERT_CS["EGM96",UNIT["ft",0.3]]'
    whole = Coordinates(f'COMPD_CS["both",{flat},{height}]')
    assert (whole.horizontal, whole.vertical, whole.vertical_unit) == (flat, "EGM96", "foot")
    cut = Coordinates('COMPD_CS["both",PROJCS["a",UNIT["metre",1]')  # as damaged files have it
    assert (cut.horizontal, cut.vertical) == ('PROJCS["a",UNIT["metre",1]', "")


def test_the_line_that_was_being_written_is_done_again(tmp_path: Path) -> None:
    place = tmp_path / "work"
    Journal(place, "k")
    (place / STEPS).write_text('["lay", 0, 5]\n["lay", 1, 6]\n["lay", 2, ')
    again = Journal(place, "k")
    assert again.resumed
    assert again._done == {"lay": {0: 5, 1: 6}}
    assert json.loads((place / FACTS).read_text())["key"] == "k"
    other = Journal(place, "another")
    assert not other.resumed
    assert other._done == {}


def test_a_run_keeps_its_work_folder_from_others(tmp_path: Path) -> None:
    """Of two runs with other options, the second removed the images of the first; of equal ones, both wrote to them."""
    surveyed = conftest.surveys(tmp_path, conftest.ground(32, 32), 2)
    out, work = tmp_path / "out.tif", tmp_path / ".out.tif.work"
    with alone_at_work(work):
        kept = Journal(work, "k")
        kept.put("goal", 64)
        for options in ({}, {"tolerance": 0.1}):
            with pytest.raises(FileError, match=r"another command is working in .*\.out\.tif\.work; wait for it"):
                fuse_rasters(surveyed, out, backend="numpy", **options)
        Journal(work, "another")  # begins anew in the same folder, whose lock it keeps
        with pytest.raises(FileError, match="another command"), alone_at_work(work):
            pass
    made = fuse_rasters(surveyed, out, backend="numpy")
    size, gap = "2 rasters, 32 x 32", f"gap {made.gap:.1e}, {made.iterations} iterations"
    assert repr(made) == f"Mosaic({size}, {gap}, written to {out})"
    assert out.exists()
    assert not work.exists()


def test_a_work_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(FileError, match="choose another place with --scratch"), alone_at_work(tmp_path / "work"):
        pass


def test_what_a_worker_raises_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that dies is replaced, a few times."""
    from concurrent.futures.process import BrokenProcessPool
    from queue import SimpleQueue

    crew, made = Crew(2), []
    ended: list[bool] = []

    def pool(error: BaseException) -> Any:
        def submit(*job: Any) -> Any:
            raise error

        return SimpleNamespace(submit=submit, shutdown=lambda wait: ended.append(wait))

    crew._free = SimpleQueue()
    crew._free.put(pool(ValueError("odd")))
    with pytest.raises(ValueError, match="odd"):
        crew._one(print, ())
    crew._free.get()
    crew._free.put(pool(BrokenProcessPool()))
    monkeypatch.setattr(crew, "_pool", lambda: made.append(1) or pool(BrokenProcessPool()), raising=False)
    with pytest.raises(CFusionError, match=f"killed {MOST_DEATHS} times"):
        crew._one(print, ())
    assert len(made) == MOST_DEATHS == len(ended)


class TestAligned:
    @staticmethod
    def aligned(heights: Any, place: tuple[int, int]) -> Aligned:
        def part(left: int, top: int, width: int, height: int) -> Any:
            return heights[top : top + height, left : left + width]

        raster: Any = SimpleNamespace(
            grid=SimpleNamespace(width=heights.shape[1], height=heights.shape[0]), heights=part
        )
        return Aligned(raster, SimpleNamespace(width=10, height=8))  # type: ignore[arg-type]

    @pytest.mark.parametrize("place", [(0, 0), (3, 2), (-2, -1), (7, 6), (10, 0), (0, -5)])
    def test_what_lies_on_the_lattice_is_copied(self, place: tuple[int, int]) -> None:
        heights = np.arange(20.0, dtype=np.float32).reshape(5, 4)
        whole = np.full((40, 40), np.nan, np.float32)
        whole[20 + place[1] : 25 + place[1], 20 + place[0] : 24 + place[0]] = heights
        found = self.aligned(heights, place)._copied(place, slice(1, 8), slice(2, 10))
        np.testing.assert_array_equal(found, whole[21:28, 22:30])


def test_heights_without_any_are_not_judged() -> None:
    ground.require_no_filling("a", np.full((20, 20), np.nan, np.float32))
    few: Sequence[float] = [0.0] * (ground.FEWEST - 1)
    ground.require_no_filling("a", np.array(few, np.float32))


class TestPasses:
    """How a mosaic goes on until its certificate is as asked."""

    def run(self, gaps: list[float], side: int, monkeypatch: pytest.MonkeyPatch, **known: Any) -> Any:
        told: list[Any] = []
        stages: list[Any] = []
        facts: dict[str, Any] = dict(known)

        def stage(name: str, function: Any, jobs: Any, crew: Any, share: Any) -> None:
            stages.append((name, len(jobs)))

        def put(name: str, value: Any) -> Any:
            facts[name] = value
            return value

        effort = SimpleNamespace(iterating=lambda *given: told.append(given) or 0.5)
        left = iter(gaps)
        monkeypatch.setattr(mosaic, "certify", lambda *given: (given[-1](0.5), SimpleNamespace(gap=next(left)))[1])
        options = SimpleNamespace(tile=100, iterations=500, tolerance=1e-3)
        making: Any = SimpleNamespace(options=options, crew=None, _effort=lambda: effort, _share=lambda _, far: far)
        journal: Any = SimpleNamespace(get=facts.get, put=put, stage=stage)
        work: Any = SimpleNamespace(height=side, width=side)
        found = mosaic._MosaicRun._iterated(making, journal, work, None, 100)  # type: ignore[arg-type]
        return found, told, stages, facts, making

    def test_goals_grow_and_certificates_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (number, done, certificate), told, stages, facts, making = self.run([0.5, 0.1, 1e-4], 80, monkeypatch)
        assert (number, done, certificate.gap, making.gap) == (3, 128 + 128 + 64 * 2, 1e-4, 1e-4)
        assert told == [(128, 128, 0.5), (256, 256, 1.5), (384, 384, 2.5)]
        assert [name for name, _ in stages] == [
            "begin, tiles of 100",
            *(f"pass {at} of 128, tiles of 100" for at in range(3)),
        ]
        assert facts == {"begun": True, "passes": [128, 128, 128], "goal": 384}

    def test_tiles_take_turns_and_all_iterations_are_an_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (number, done, _), _, stages, facts, _ = self.run([0.5] * 9, 180, monkeypatch)
        assert done == 500
        assert facts["passes"] == [64] * 7 + [52]
        assert number == 8
        assert {count for _, count in stages} == {4}

    def test_what_is_done_is_not_done_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = {"begun": True, "passes": [128], "goal": 256}
        (number, done, _), _, stages, _, _ = self.run([1e-4], 80, monkeypatch, **known)
        assert (number, done) == (2, 256)
        assert [name for name, _ in stages] == ["pass 1 of 128, tiles of 100"]


@pytest.mark.parametrize(("most", "shape"), [(1600, (40, 60)), (30, (20, 30))])
def test_a_picture_is_as_large_as_the_grid_up_to_its_longest_side(
    most: int, shape: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "PICTURE", most)
    conftest.write_tif(tmp_path / "height.tif", np.ones((40, 60), np.float32))
    grid = SimpleNamespace(pixel=(0.5, 0.5), coordinates=SimpleNamespace(degrees=False))
    write.Writer._picture(SimpleNamespace(draft=tmp_path, grid=grid))  # type: ignore[arg-type]
    with rasterio.open(tmp_path / "hillshade.png") as picture:
        assert picture.shape == shape
