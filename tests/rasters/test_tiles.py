"""Tiles: the same bits for any size of tiles and number of workers, one true certificate, and no work done twice."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rasterio
from tests.rasters.conftest import ground, surveys, write_tif

from cfusion import fuse_rasters, kernels
from cfusion.errors import CFusionError, FileError
from cfusion.kernels.contract import Box, State
from cfusion.rasters import certificate, mosaic, solve_tile
from cfusion.rasters.certificate import certify
from cfusion.rasters.coordinates import Coordinates
from cfusion.rasters.effort import Effort
from cfusion.rasters.grids import Grid
from cfusion.rasters.runner import Crew
from cfusion.rasters.scratch import Image
from cfusion.rasters.solve_tile import DUAL, PRIMAL, Settings
from cfusion.rasters.tiles import blocks, tiles
from cfusion.rasters.work import Work, advance_tile, begin_tile
from cfusion.rasters.write import Writer, _require_whole

ROWS, COLUMNS = 96, 110


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    truth = ground(ROWS, COLUMNS)
    folder = tmp_path_factory.mktemp("surveys")
    made = surveys(folder, truth, 3)
    return made


def fused(files: list[Path], **options: Any) -> Any:
    return fuse_rasters(files, alpha=(0.9, 1.8), **options)


@pytest.fixture(scope="module")
def whole(files: list[Path]) -> Any:
    """The mosaic in one tile, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mosaic, "PASS", 32)
        return fused(files)


@pytest.fixture(autouse=True)
def short_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mosaic, "PASS", 32)  # more of them than one


def require_same(one: Any, other: Any) -> None:
    assert one.iterations == other.iterations
    assert one.certificate == other.certificate
    for name, values in one.maps.items():
        assert np.array_equal(other.maps[name], values, equal_nan=True), name


@pytest.mark.parametrize("tile", [33, 60])
def test_any_tile_size_gives_the_same_bits(files: list[Path], whole: Any, tile: int) -> None:
    assert whole.iterations >= 64
    require_same(whole, fused(files, tile=tile))


def test_any_number_of_workers_gives_the_same_bits(files: list[Path], whole: Any) -> None:
    require_same(whole, fused(files, tile=60, workers=2))


def test_a_dask_cluster_gives_the_same_bits(files: list[Path], whole: Any) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        require_same(whole, fused(files, tile=60, scheduler=cluster.scheduler_address))


def made(folder: Path, heights: Any, weights: Any, count: int, side: int) -> tuple[Work, Settings]:
    """A mosaic in work after so many iterations, cut into tiles."""
    folder.mkdir()
    work = Work(folder, *heights.shape, weighted=weights is not None)
    settings = Settings((0.8, 1.6), 0.7, 100.0, 0.3, (0.03, 0.0), -300.0, 300.0, "cpu")
    for image in work.images:
        image.create()
    work.heights.write(heights, 0, 0)
    if weights is not None:
        work.weights.write(weights, 0, 0)
    for tile in tiles(work.height, work.width, side):
        begin_tile(work, settings, tile)
    for tile in tiles(work.height, work.width, side):
        advance_tile(work, settings, 0, count, tile)
    return work, settings


@pytest.mark.parametrize("weighted", [False, True])
def test_the_streamed_certificate_is_that_of_the_whole(
    tmp_path: Path, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    heights = (ground(96, 110) + rng.normal(0, 0.5, (3, 96, 110))).astype(np.float32)
    heights[:, 40:50, 20:30] = np.nan
    heights[rng.random(heights.shape) < 0.1] = np.nan
    weights = (
        np.where(np.isnan(heights), 0, rng.uniform(0.5, 2, heights.shape)).astype(np.float32) if weighted else None
    )
    work, settings = made(tmp_path / "w", heights, weights, 60, 40)
    problem = solve_tile.problem_of(heights, weights, settings)
    state = solve_tile.begin(problem, settings)
    solve_tile.iterate(problem, state, settings, 60)
    planes = work.state(1).read(slice(0, 96), slice(0, 110))
    assert np.array_equal(planes, np.concatenate([state.primal, state.dual]))
    monkeypatch.setattr(certificate, "BLOCK", 48)
    monkeypatch.setattr(certificate, "MOST_TURNS", 1)
    found = certify(work, settings, 1)
    backend = kernels.load("numpy")
    whole = State(planes[:PRIMAL].copy(), planes[PRIMAL:].copy())
    assert len(planes) == PRIMAL + DUAL
    assert found.energy == pytest.approx(backend.energy(problem, whole).total, rel=1e-6)
    bound = backend.bound(problem, whole, Box(settings.low, settings.high), 40)
    assert found.bound == pytest.approx(bound, rel=1e-4)
    solve_tile.iterate(problem, state, settings, 1500)
    assert found.bound <= backend.energy(problem, state).total <= found.energy


class Stopped(Exception):
    """What an interruption is in these tests."""


def test_an_interrupted_mosaic_goes_on(
    files: list[Path], whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"alpha": (0.9, 1.8), "tile": 60}
    steps = 0

    def stop(step: Any) -> None:
        nonlocal steps
        steps += step.stage == "iterating"
        if steps == 10:
            raise Stopped

    with pytest.raises(Stopped):
        fuse_rasters(files, tmp_path / "out.tif", progress=stop, **options)
    facts = json.loads((tmp_path / ".out.tif.work" / "facts.json").read_text())
    done = len((tmp_path / ".out.tif.work" / "steps.jsonl").read_text().splitlines())
    assert facts["passes"]
    again = [0]
    monkeypatch.setattr(
        mosaic, "advance_tile", lambda *job: (again.__setitem__(0, again[0] + 1), advance_tile(*job))[1]
    )
    said: list[str] = []
    resumed = fuse_rasters(files, tmp_path / "out.tif", say=said.append, **options)
    assert any("continuing with" in each for each in said)
    assert again[0] < whole.iterations // 32 * 4  # not all tiles of all passes
    assert done > 4
    from tests.rasters.conftest import read_tif

    assert np.array_equal(read_tif(resumed.files["height"]), whole.maps["height"], equal_nan=True)
    assert not (tmp_path / ".out.tif.work").exists()


@pytest.mark.parametrize("most", [1, 64])
def test_no_more_iterations_are_foreseen_than_are_allowed(files: list[Path], most: int) -> None:
    """Though the sample needed more. Of one tile: a pass iterates the pixels of the mosaic."""
    heard: list[Any] = []
    fused(files, iterations=most, progress=heard.append)
    ahead = next(dict(step.ahead) for step in heard if step.stage == "reading")
    allowed = dict(Effort(3, 1.0, 1.0, 1.0).ahead(most))
    iterating, reading = ("iterating", "certifying"), ("reading",)
    assert ahead[iterating] / ahead[reading] == pytest.approx(allowed[iterating] / allowed[reading])


def test_the_share_of_a_stage_grows_from_nothing_towards_all_of_it(files: list[Path], tmp_path: Path) -> None:
    heard: list[Any] = []
    fuse_rasters(files, tmp_path / "out.tif", progress=heard.append, alpha=(0.9, 1.8), tile=128)
    writing = ("writing", "comparing the rasters with the ground")  # one part of the work
    for stages in [writing, *{(step.stage,) for step in heard if step.stage not in writing}]:
        shares = [step.done for step in heard if step.stage in stages]
        assert all(0 <= share <= 1 for share in shares), stages
        assert stages == ("iterating",) or shares == sorted(shares), stages  # there, a goal may move
    for stage in ("iterating", "writing"):
        assert next(step.done for step in heard if step.stage == stage) == 0
    compared = [step.done for step in heard if step.stage == writing[1]]
    assert len(compared) == len(files)
    assert (np.diff(compared) > 0).all()
    assert compared[0] == pytest.approx(max(step.done for step in heard if step.stage == writing[0]))  # goes on there


def test_a_ground_below_zero_is_certified_as_one_above(tmp_path: Path) -> None:
    made = []
    for height in (0, -400):
        (tmp_path / str(height)).mkdir()
        files = surveys(tmp_path / str(height), ground(48, 60) + height, 3)
        made.append(fused(files).certificate)
    above, below = made
    assert 0 < below.bound < below.energy
    assert (below.gap, below.bound) == (pytest.approx(above.gap, rel=0.01), pytest.approx(above.bound, rel=1e-3))


def test_other_settings_do_not_go_on(files: list[Path], tmp_path: Path) -> None:
    def stop(step: Any) -> None:
        if step.stage == "iterating":
            raise Stopped

    with pytest.raises(Stopped):
        fuse_rasters(files, tmp_path / "out.tif", progress=stop, alpha=(0.9, 1.8))
    said: list[str] = []
    fuse_rasters(files[:2], tmp_path / "out.tif", say=said.append, alpha=(0.9, 1.8))
    assert not any("continuing with" in each for each in said)


def dies_once(flag: Path, number: int) -> int:
    """Kill the worker at tile 2, the first time."""
    if number == 2 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    (flag.parent / f"{number}.{os.urandom(4).hex()}").touch()
    return number * number


def test_a_killed_worker_costs_one_tile(tmp_path: Path) -> None:
    found: dict[int, int] = {}
    with Crew(2) as crew:
        crew.run(dies_once, [(tmp_path / "flag", number) for number in range(5)], found.__setitem__)
    assert found == {number: number * number for number in range(5)}
    times = [len(list(tmp_path.glob(f"{number}.*"))) for number in range(5)]
    assert times == [1, 1, 1, 1, 1]  # the others were not done twice


def always_dies(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_tile_that_kills_every_worker_is_an_error() -> None:
    with pytest.raises(CFusionError, match="killed 3 times"), Crew(2) as crew:
        crew.run(always_dies, [(0,)], lambda number, result: None)


@pytest.mark.parametrize("cut", [tiles, blocks])
def test_tiles_are_the_image_and_no_two_meet(cut: Any) -> None:
    count = np.zeros((301, 205), int)
    for tile in cut(301, 205, 64):
        count[tile.core] += 1
        window = tile.with_halo(9)
        assert np.zeros((301, 205))[window][tile.core_in(window)].shape == count[tile.core].shape
    assert (count == 1).all()


def test_an_image_on_disk_holds_what_was_written(tmp_path: Path) -> None:
    image = Image(tmp_path / "x", 2, 7, 9).create()
    values = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    image.write(values, 2, 5)
    assert np.array_equal(image.read(slice(2, 5), slice(5, 9)), values)
    assert np.count_nonzero(image.read(slice(0, 7), slice(0, 9))) == 24
    (tmp_path / "x").write_bytes(b"short")
    with pytest.raises(FileError, match="is too short"):
        image.read(slice(0, 7), slice(0, 9))


def test_a_line_written_in_part_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image(tmp_path / "x", 1, 4, 4).create()
    monkeypatch.setattr(os, "pwrite", lambda descriptor, line, place: len(line) - 1)
    with pytest.raises(FileError, match="is full"):
        image.write(np.ones((1, 2, 2)), 0, 0)


def test_a_mosaic_begins_near_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the median of the rasters: a few iterations are far from the minimum only by noise."""
    monkeypatch.setattr(mosaic, "PASS", 4)
    files = surveys(tmp_path, ground(48, 60), 3)
    few, done = (fused(files, iterations=count) for count in (4, 1000))
    assert few.iterations == 4 < done.iterations
    assert few.certificate.energy < 1.5 * done.certificate.energy


@pytest.mark.parametrize("fails", [False, True])
def test_a_writer_leaves_nothing_of_its_draft(tmp_path: Path, fails: bool) -> None:
    """Even while somebody still holds it."""
    writer = Writer(tmp_path / "m.tif", Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 5, 4, Coordinates("")), "metre")
    with suppress(Stopped), writer:
        assert list(tmp_path.iterdir()) == [writer.draft]
        if fails:
            raise Stopped
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("fails", "told"), [(False, OSError), (True, Stopped)])
def test_a_file_that_cannot_be_closed_is_told_unless_something_else_went_wrong_before(
    tmp_path: Path, fails: bool, told: type[Exception]
) -> None:
    def full() -> None:
        raise OSError("the disk is full")

    writer = Writer(tmp_path / "m.tif", Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 5, 4, Coordinates("")), "metre")
    with pytest.raises(told), writer:
        first = next(iter(writer.open))
        writer.open[first].close()
        writer.open[first] = SimpleNamespace(close=full)
        if fails:
            raise Stopped
    assert list(tmp_path.iterdir()) == []


def test_a_map_that_lacks_its_last_pixel_is_not_published(tmp_path: Path) -> None:
    file, grid = tmp_path / "m.tif", Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 40, 30, Coordinates(""))
    write_tif(file, np.ones(grid.shape, np.float32), compress="none")
    _require_whole(file, grid)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(rasterio.errors.RasterioError):
        _require_whole(file, grid)
