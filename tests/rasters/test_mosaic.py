"""The whole way: files in, files out, nearer to the truth than what is fused."""

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from tests.rasters.conftest import CORNER, ground, read_tif, surveys, write_tif

import cfusion
from cfusion.cli.main import main
from cfusion.rasters.write import hillshade


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """`cfusion fuse` of a folder: three surveys, one shifted by whole pixels, a hole in all of them."""
    folder = tmp_path_factory.mktemp("mosaic")
    truth = ground(140, 150)
    (folder / "in").mkdir()
    rng = np.random.default_rng(4)
    for k, (rows, columns) in enumerate(
        ((slice(0, 140), slice(0, 150)), (slice(0, 140), slice(0, 150)), (slice(10, 130), slice(20, 150)))
    ):
        part = truth[rows, columns] + rng.normal(0, 0.5, truth[rows, columns].shape)
        part[60 - rows.start : 75 - rows.start, 70 - columns.start : 90 - columns.start] = -9999
        corner = (CORNER[0] + 0.5 * columns.start, CORNER[1] - 0.5 * rows.start)
        write_tif(folder / "in" / f"s{k}.tif", part.astype(np.float32), corner)
    assert main(["fuse", str(folder / "in"), "-o", str(folder / "out")]) == 0
    return folder / "out", truth


def test_heights_come_out_as_heights_on_their_grid(made: tuple[Path, np.ndarray]) -> None:
    folder, truth = made
    with rasterio.open(folder / "height.tif") as raster:
        assert raster.crs.to_epsg() == 32631
        assert tuple(raster.transform)[:6] == (0.5, 0.0, CORNER[0], 0.0, -0.5, CORNER[1])
        assert np.isnan(raster.nodata)
        assert raster.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        tags = raster.tags()
        assert tags["CFUSION_VERSION"] == cfusion.__version__
        assert float(tags["CFUSION_GAP"]) <= 1e-3
        assert float(tags["CFUSION_BOUND"]) <= float(tags["CFUSION_ENERGY"])
        assert (tags["CFUSION_METHOD"], tags["CFUSION_RASTER_3"]) == ("auto", "s2.tif")
        report = json.loads(tags["CFUSION_REPORT"])
        heights = raster.read(1)
    assert [row["raster"] for row in report] == ["s0.tif", "s1.tif", "s2.tif"]
    assert all(abs(row["offset"]) < 0.05 and abs(row["noise"] - 0.5) < 0.05 and row["kept"] > 0.98 for row in report)
    assert abs(np.nanmedian(heights - truth)) < 0.05


def surveyed(folder: Path, shape: tuple[int, int]) -> np.ndarray:
    """The three surveys on the grid of the mosaic, NaN where unknown."""
    stack = np.full((3, *shape), np.nan)
    for k, (top, left) in enumerate(((0, 0), (0, 0), (10, 20))):
        part = read_tif(folder.parent / "in" / f"s{k}.tif")
        stack[k, top : top + part.shape[0], left : left + part.shape[1]] = np.where(part == -9999, np.nan, part)
    return stack


def test_the_fused_ground_is_nearer_than_the_best_of_mean_and_median(made: tuple[Path, np.ndarray]) -> None:
    folder, truth = made
    stack = surveyed(folder, truth.shape)
    errors = [np.sqrt(np.nanmean((each(stack, axis=0) - truth) ** 2)) for each in (np.nanmean, np.nanmedian)]
    error = np.sqrt(np.nanmean((read_tif(folder / "height.tif") - truth) ** 2))
    assert error < 0.7 * min(errors)
    sigma = read_tif(folder / "height_sigma.tif")
    inside = np.nanmean(np.abs(read_tif(folder / "height.tif") - truth) <= 2 * sigma)
    assert 0.85 < inside <= 1


def test_the_source_of_a_pixel_is_the_nearest_survey(made: tuple[Path, np.ndarray]) -> None:
    folder, truth = made
    source, height = read_tif(folder / "height_source.tif"), read_tif(folder / "height.tif")
    apart = np.abs(surveyed(folder, truth.shape).astype(np.float32) - height)
    chosen = np.take_along_axis(apart, np.maximum(source.astype(int) - 1, 0)[None], axis=0)[0]
    known = np.isfinite(height)
    np.testing.assert_array_equal(chosen[known], np.nanmin(apart[:, known], axis=0))
    assert sorted(np.unique(source[known])) == [1, 2, 3]


def test_nothing_is_invented(made: tuple[Path, np.ndarray]) -> None:
    folder, _ = made
    hole = (slice(60, 75), slice(70, 90))
    height, provenance = read_tif(folder / "height.tif"), read_tif(folder / "height_provenance.tif")
    count, source = read_tif(folder / "height_count.tif"), read_tif(folder / "height_source.tif")
    assert np.isnan(height[hole]).all()
    assert np.isnan(height).sum() == 15 * 20
    assert (provenance[hole] == -1).all()
    assert (source[hole] == 0).all()
    assert count[0, 0] == provenance[0, 0] == 2
    assert count[20, 40] == provenance[20, 40] == 3
    assert source[0, 0] in (1, 2)
    assert np.isnan(read_tif(folder / "height_nmad.tif")[hole]).all()


def test_the_picture_is_lit_from_the_north_west(made: tuple[Path, np.ndarray]) -> None:
    v, u = np.mgrid[:40, :40]
    cone = 20 - np.hypot(v - 20.0, u - 20.0)
    shade = hillshade(cone, 1.0, 1.0)
    assert shade[8, 8] > shade[8, 32] > shade[32, 32]
    assert hillshade(np.full((4, 4), np.nan), 1.0, 1.0).max() == 0
    assert (made[0] / "height_hillshade.png").stat().st_size > 1000


def test_stated_sigmas_are_believed(tmp_path: Path) -> None:
    truth = ground(80, 90)
    rng = np.random.default_rng(0)
    files, sigmas = [], []
    for k, noise in enumerate((0.2, 0.2)):
        bad = np.zeros(truth.shape, bool)
        bad[:, 45 * k : 45 * (k + 1)] = True  # each has a bad half, and says so
        sigma = np.where(bad, 8 * noise, noise).astype(np.float32)
        files.append(
            write_tif(tmp_path / f"s{k}.tif", (truth + sigma * rng.normal(size=truth.shape)).astype(np.float32))
        )
        sigmas.append(write_tif(tmp_path / f"s{k}_sigma.tif", sigma))
    options = {"alpha": (0.4, 0.8), "tile": 64}
    plain = cfusion.fuse_rasters(files, **options).maps["height"]
    told = cfusion.fuse_rasters(files, sigma=sigmas, **options).maps["height"]
    assert np.sqrt(np.mean((told - truth) ** 2)) < 0.75 * np.sqrt(np.mean((plain - truth) ** 2))


def test_coregistered_rasters_fuse_as_if_they_had_been_in_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = ground(90, 100)
    first = surveys(tmp_path, truth, 1, noise=0.2)[0]
    moved = np.roll(truth, (2, -3), (0, 1)) + np.random.default_rng(5).normal(0, 0.2, truth.shape) + 7.5
    second = write_tif(tmp_path / "t.tif", moved.astype(np.float32))
    out = tmp_path / "o.tif"
    command = ["mosaic", str(first), str(second), "-o", str(out), "--alpha", "0.5", "1"]
    assert main(command) == 2
    assert "--coregister" in capsys.readouterr().err
    assert main([*command, "--coregister"]) == 0
    said = capsys.readouterr().out
    assert "offset +7.5" in said
    heading, *rows = said[said.index("raster  ") :].splitlines()
    assert heading.split()[:2] == ["raster", "offset"]
    assert [row.split()[0] for row in rows[:2]] == [first.name, second.name]
    assert "shift -3.00 columns +2.00 rows" in said
    error = read_tif(out)[4:-4, 4:-4] - truth[4:-4, 4:-4] if read_tif(out).shape == truth.shape else None
    if error is None:
        with rasterio.open(out) as raster:
            left, top = round((CORNER[0] - raster.transform.c) / 0.5), round((raster.transform.f - CORNER[1]) / 0.5)
            error = (raster.read(1)[top : top + 90, left : left + 100] - truth)[4:-4, 4:-4]
    assert np.sqrt(np.nanmean(error**2)) < 0.15


def test_one_raster_is_smoothed_and_keeps_its_walls(tmp_path: Path) -> None:
    truth = ground(90, 100)
    file = surveys(tmp_path, truth, 1, noise=0.3)
    found = cfusion.fuse_rasters(file).maps["height"]
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.6 * 0.3
