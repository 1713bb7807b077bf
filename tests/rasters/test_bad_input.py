"""Bad input ends in one line that says what was given and what to do."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine
from tests.rasters.conftest import CORNER, ground, surveys, write_tif

from cfusion import fuse_rasters
from cfusion.cli.main import main
from cfusion.errors import CFusionError, FileError, InputError
from cfusion.io.codecs.geotiff import read_heights
from cfusion.rasters import inspect_raster
from cfusion.rasters.begin import plan_mosaic
from cfusion.rasters.options import Options, in_keywords
from cfusion.rasters.raster import open_raster

TRUTH = ground(64, 64)


def refused(files: list[Path], match: str, **options: Any) -> str:
    with pytest.raises(CFusionError, match=match) as caught:
        plan_mosaic(files, Options(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return surveys(tmp_path, TRUTH, 1, noise=0.1)[0]


def other(folder: Path, **said: Any) -> Path:
    return write_tif(folder / "other.tif", said.pop("values", TRUTH), **said)


def test_metres_and_feet_by_the_vertical_crs(first: Path, tmp_path: Path) -> None:
    metres = write_tif(tmp_path / "m.tif", TRUTH, crs="EPSG:32631+5773")
    feet = other(tmp_path, crs="EPSG:32631+6360")
    refused([metres, feet], "US survey foot")


def test_metres_and_feet_by_the_band(first: Path, tmp_path: Path) -> None:
    metres = write_tif(tmp_path / "m.tif", TRUTH, units="metre")
    refused([metres, other(tmp_path, units="ft")], "in foot")


def test_metres_and_feet_by_the_horizontal_crs(tmp_path: Path, first: Path) -> None:
    refused([first, other(tmp_path, crs="EPSG:2263")], "US survey foot")


def test_two_vertical_datums(tmp_path: Path) -> None:
    one = write_tif(tmp_path / "a.tif", TRUTH, crs="EPSG:32631+5773")
    refused([one, other(tmp_path, crs="EPSG:32631+3855")], "vertical datum")


def test_an_offset_that_is_a_datum(first: Path, tmp_path: Path) -> None:
    shifted = other(tmp_path, values=TRUTH + np.float32(50.8))
    assert "+50.8" in refused([first, shifted], "--coregister")
    assert plan_mosaic([first, shifted], Options(keep_offsets=True)).rasters[1].plane == (0, 0, 0)
    plan = plan_mosaic([first, shifted], Options(coregister="offset"))
    assert plan.placements[1].offset == pytest.approx(50.8, abs=0.05)


def test_a_raster_without_a_crs_among_others(first: Path, tmp_path: Path) -> None:
    refused([first, other(tmp_path, crs=None)], r"other.tif has no CRS")


def test_rasters_without_any_crs_lie_in_one_plane(tmp_path: Path) -> None:
    one = write_tif(tmp_path / "a.tif", TRUTH, crs=None)
    plan = plan_mosaic(
        [one, other(tmp_path, crs=None, corner=(CORNER[0] + 2.1, CORNER[1]))], Options(keep_offsets=True)
    )
    assert "no raster has a CRS" in plan.sentences[0]
    assert plan.rasters[1].place is None


def test_nothing_overlaps(first: Path, tmp_path: Path) -> None:
    """The later one is named, and the first if none of the others meets it."""
    far = other(tmp_path, corner=(CORNER[0] + 1e5, CORNER[1]))
    refused([first, far], rf"{far.name} does not overlap {first.name};")
    refused([far, first], rf"{first.name} does not overlap {far.name};")
    third = write_tif(tmp_path / "third.tif", TRUTH)
    refused([first, far, third], rf"{far.name} does not overlap {first.name} or a raster that does;")
    refused([far, first, third], rf"{far.name} does not overlap the others;")


def test_a_turned_grid_is_resampled_and_cannot_be_the_target(first: Path, tmp_path: Path) -> None:
    turned = other(tmp_path, transform=Affine.translation(*CORNER) * Affine.rotation(-10) * Affine.scale(0.5, -0.5))
    refused([turned, first], "rotated or mirrored")
    plan = plan_mosaic([first, turned], Options(keep_offsets=True))
    assert "from a rotated grid" in " ".join(plan.sentences)


def test_whole_numbers_with_scale_and_offset(first: Path, tmp_path: Path) -> None:
    counts = np.round((TRUTH - 50) / 0.01).astype(np.int16)
    scaled = other(tmp_path, values=counts, nodata=-32768, scales=0.01, offsets=50.0)
    plan = plan_mosaic([first, scaled], Options())
    assert "int16 x 0.01 + 50 = height" in " ".join(plan.sentences)
    assert np.nanmax(np.abs(plan.rasters[1].read(slice(0, 64), slice(0, 64)) - TRUTH)) < 0.006


def test_heights_over_degrees_say_so(tmp_path: Path) -> None:
    said = {"crs": "EPSG:4326", "corner": (5.0, 44.0), "pixel": 1e-4}
    plan = plan_mosaic([write_tif(tmp_path / "a.tif", TRUTH, **said), other(tmp_path, **said)], Options())
    assert any("in degrees (WGS 84): a pixel is about 8.0" in each for each in plan.sentences)


def test_a_filling_value(first: Path, tmp_path: Path) -> None:
    filled = TRUTH.copy()
    filled[10:30, 10:30] = 0
    refused([first, other(tmp_path, values=filled)], "--nodata 0")
    plan = plan_mosaic([first, tmp_path / "other.tif"], Options(nodata=(0.0,)))
    assert np.isnan(plan.rasters[1].read(slice(0, 64), slice(0, 64))).sum() == 400


def test_a_filling_value_of_scaled_counts_is_named_as_it_is_stored(first: Path, tmp_path: Path) -> None:
    counts = np.round((TRUTH - 50) / 0.01).astype(np.int16)
    counts[10:30, 10:30] = -9999
    scaled = other(tmp_path, values=counts, nodata=-32768, scales=0.01, offsets=50.0)
    refused([first, scaled], "--nodata -9999")
    plan = plan_mosaic([first, scaled], Options(nodata=(-9999.0,)))
    assert np.isnan(plan.rasters[1].read(slice(0, 64), slice(0, 64))).sum() == 400


def test_a_filling_value_beside_the_sample_of_a_large_raster(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_raster, "SIDE", 16)
    monkeypatch.setattr(inspect_raster, "ACROSS", 1)
    filled = TRUTH.copy()
    filled[40, 50] = -32768
    rasters = [first, other(tmp_path, values=filled)]
    plan_mosaic(rasters, Options(keep_offsets=True))
    with pytest.raises(InputError, match=r"other.tif has 0.02% of its pixels at exactly -32768 .* nodata -32768"):
        fuse_rasters(rasters, tmp_path / "out.tif", keep_offsets=True, backend="numpy")
    assert not (tmp_path / "out.tif").exists()


def test_sea_level_is_no_filling_value(tmp_path: Path) -> None:
    coast = np.maximum(TRUTH - 101, 0)
    assert (coast == 0).mean() > 0.1
    plan_mosaic([write_tif(tmp_path / "a.tif", coast), other(tmp_path, values=coast)], Options())


def test_a_raster_that_knows_nothing(first: Path, tmp_path: Path) -> None:
    refused([first, other(tmp_path, values=np.full((64, 64), -9999, np.float32))], "every pixel is nodata")


def test_a_horizontal_shift_that_fusing_does_not_survive(first: Path, tmp_path: Path) -> None:
    moved = other(tmp_path, values=np.roll(TRUTH, (4, 3), (0, 1)))
    assert "+3.0 columns, +4.0 rows" in refused([first, moved], "--coregister")
    plan = plan_mosaic([first, moved], Options(coregister="shift"))
    assert plan.placements[1].shift == (3.0, 4.0)
    assert plan.rasters[1].place == (-3, -4)  # whole pixels: nothing is interpolated


def test_a_broken_block_names_its_rows(first: Path, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(100, 1, (256, 256)).astype(np.float32)
    file = write_tif(tmp_path / "t.tif", values, tiled=True, blockxsize=128, blockysize=128, compress="deflate")
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = bytes(2000)
    file.write_bytes(bytes(content))
    refused([file], r"t.tif: rows .* cannot be read")


def test_what_is_no_geotiff(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(b"II*\0 and nothing else")
    refused([tmp_path / "a.tif"], "a.tif")
    refused([tmp_path / "missing.tif"], "does not exist")
    (tmp_path / "empty").mkdir()
    refused([tmp_path / "empty"], "holds no GeoTIFF")


def test_an_output_that_exists(first: Path, tmp_path: Path) -> None:
    (tmp_path / "out_sigma.tif").write_text("mine")
    with pytest.raises(InputError, match=r"out_sigma.tif exists already"):
        fuse_rasters([first], tmp_path / "out.tif")
    assert (tmp_path / "out_sigma.tif").read_text() == "mine"
    with pytest.raises(InputError, match="GeoTIFF"):
        fuse_rasters([first], tmp_path / "out.png")
    with pytest.raises(InputError, match="does not exist"):
        fuse_rasters([first], tmp_path / "no" / "out.tif")


def test_an_output_that_is_an_input(first: Path) -> None:
    with pytest.raises(InputError, match="is one of the input rasters"):
        fuse_rasters([first], first, overwrite=True)


def test_a_disk_that_is_too_small(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(FileError, match=r"is full: .* GB are needed") as caught:
        fuse_rasters([first], tmp_path / "out.tif", alpha=(1, 2))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.tif").exists()


def test_a_disk_that_fills_up_while_writing(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cfusion.rasters import write

    def fails(self: object, *rest: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(write.Writer, "_picture", fails)
    with pytest.raises(FileError, match="computed tiles are kept"):
        fuse_rasters([first], tmp_path / "out.tif", alpha=(1, 2))
    assert [file.name for file in tmp_path.glob("out*")] == []
    monkeypatch.undo()
    said: list[str] = []
    assert fuse_rasters([first], tmp_path / "out.tif", alpha=(1, 2), say=said.append).files["height"].exists()
    assert any("continuing with" in each for each in said)
    with rasterio.open(tmp_path / "out.tif") as raster:
        assert raster.shape == (64, 64)


def test_a_misspelt_option(first: Path) -> None:
    with pytest.raises(InputError, match="'tiles' is not an option"):
        fuse_rasters([first], tiles=64)
    for wrong in ({"tile": 3}, {"workers": 0}, {"coregister": "all"}, {"alpha": (1,)}, {"tolerance": 0}, {"band": 7}):
        with pytest.raises(InputError):
            fuse_rasters([first], **wrong)


def test_a_scratch_folder_that_does_not_exist(first: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^scratch is"):
        fuse_rasters([first], tmp_path / "out.tif", scratch=tmp_path / "nowhere")


def test_python_is_told_keywords_and_the_command_line_options(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"^tile is 3; give"):
        fuse_rasters([first], tile=3)
    moved = other(tmp_path, values=np.roll(TRUTH, (4, 3), (0, 1)))
    with pytest.raises(InputError, match="pass coregister to remove it, or keep_offsets to"):
        fuse_rasters([first, moved])
    assert fuse_rasters([first, moved], coregister=True, alpha=(0.5, 1.0)).gap < 1e-3
    with pytest.raises(InputError, match="pass coregister"):
        fuse_rasters([first, moved], coregister=False)
    assert main(["mosaic", str(first), str(moved), "-o", str(tmp_path / "out.tif")]) == 2
    assert "pass --coregister to remove it, or --keep-offsets to fuse as it is\n" in capsys.readouterr().err
    folder = tmp_path / "tifs"
    folder.mkdir()
    for file in (first, moved):
        file.rename(folder / file.name)
    assert main(["fuse", str(folder), "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert (
        f"pass --coregister to remove it, or --keep-offsets to fuse as it is (options of `cfusion mosaic {folder}"
        in said
    )


def test_only_options_become_keywords() -> None:
    told = in_keywords("a--tile.tif: pass --keep-offsets, --tile 3 or a smaller --tile; --force, --tiles stay")
    assert told == "a--tile.tif: pass keep_offsets, tile 3 or a smaller tile; --force, --tiles stay"


def test_ground_without_noise_is_certified_by_rounding(tmp_path: Path) -> None:
    """The energy of a plane is zero: its gap is measured against what float32 can tell apart."""
    plane = np.add.outer(np.arange(40.0), np.arange(50.0)).astype(np.float32)
    made = fuse_rasters([write_tif(tmp_path / "a.tif", plane), other(tmp_path, values=plane)])
    assert made.gap <= 1e-3
    assert np.abs(made.maps["height"] - plane).max() < 1e-3


def test_an_unusable_backend_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(CFusionError, match="no backend 'nonsense'"):
        fuse_rasters([write_tif(tmp_path / "a.tif", ground(30, 40))], tmp_path / "out.tif", backend="nonsense")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.tif"]


@pytest.mark.parametrize(("factor", "unit"), [(1 / 0.3048, "feet"), (100.0, "centimetres")])
@pytest.mark.parametrize("coregister", [None, "offset"])
def test_metres_and_feet_that_no_file_states(
    first: Path, tmp_path: Path, factor: float, unit: str, coregister: str | None
) -> None:
    """They were taken for another datum; `--coregister`, as advised, gave a map that was off by 14 m."""
    others = other(tmp_path, values=(TRUTH * factor).astype(np.float32))
    said = refused([first, others], f"other.tif shows the ground .* {unit} beside metres", coregister=coregister)
    assert f"gdal_edit.py -scale {1 / factor:.4g} other.tif" in said
    refused([others, first], f"metres beside {unit}", coregister=coregister)
    scaled = write_tif(tmp_path / "scaled.tif", (TRUTH * factor).astype(np.float32), scales=1 / factor)
    plan_mosaic([first, scaled], Options(coregister=coregister))
    plan_mosaic([first, others], Options(keep_offsets=True))


def test_rasters_that_hardly_overlap_are_not_compared_and_that_is_said(first: Path, tmp_path: Path) -> None:
    """`--coregister` said `offset +0 removed`."""
    beside = other(tmp_path, values=TRUTH + 50, corner=(CORNER[0] + 0.5 * 62, CORNER[1]))
    assert (said := plan_mosaic([first, beside], Options()).sentences[-1]).startswith(
        "other.tif: 128 pixels in common with the others (where it lies +"
    ), said
    assert "too few to see another datum" in said
    refused([first, beside], r"other.tif has 128 pixels in common .* too few for --coregister", coregister="offset")
    third = write_tif(tmp_path / "third.tif", TRUTH)
    three = plan_mosaic([beside, third, first], Options()).sentences[-1]
    assert three.startswith("other.tif: 128 pixels")
    assert not any("in common" in each for each in plan_mosaic([first, third], Options()).sentences)


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint16"])
def test_where_an_alpha_band_is_zero_nothing_is_known(first: Path, tmp_path: Path, dtype: str) -> None:
    """GDAL takes an alpha band for a mask if it holds bytes or uint16 only."""
    file, known = tmp_path / "low.tif", np.ones((64, 64))
    known[10:14, 20:25] = 0
    profile = {"driver": "GTiff", "height": 64, "width": 64, "count": 2, "dtype": dtype, "crs": "EPSG:32631"}
    with rasterio.open(
        file, "w", alpha="yes", transform=Affine(0.5, 0, CORNER[0], 0, -0.5, CORNER[1]), **profile
    ) as raster:
        raster.write((known * np.maximum(np.round(TRUTH) - 100, 0)).astype(dtype), 1)
        raster.write((known * 255).astype(dtype), 2)
    heights = open_raster(file).heights(0, 0, 64, 64)
    np.testing.assert_array_equal(np.isnan(heights), known == 0)
    np.testing.assert_array_equal(np.isnan(read_heights(file)), known == 0)


def test_sigmas_in_another_order_than_the_rasters(tmp_path: Path) -> None:
    """Most heights were left out: where their sigma is unknown they are, too."""
    west, east = CORNER, (CORNER[0] + 0.5 * 44, CORNER[1])
    files = [write_tif(tmp_path / f"{name}.tif", TRUTH, corner) for name, corner in (("a", west), ("b", east))]
    ones = np.ones((64, 64), np.float32)
    sigmas = tuple(write_tif(tmp_path / f"{name}_s.tif", ones, place) for name, place in (("a", west), ("b", east)))
    assert plan_mosaic(files, Options(sigma=sigmas, keep_offsets=True)).beliefs is not None
    refused(
        files, r"b_s\.tif covers 31% of a\.tif, .* in the order of the rasters", sigma=sigmas[::-1], keep_offsets=True
    )


def test_a_coarser_raster_is_said_to_smooth(first: Path, tmp_path: Path) -> None:
    def said(step: int) -> str:
        coarse = other(tmp_path, values=TRUTH[::step, ::step], pixel=0.5 * step, corner=(CORNER[0] + 0.1, CORNER[1]))
        return " ".join(plan_mosaic([first, coarse], Options(keep_offsets=True)).sentences)

    assert "resampled bilinear, one of its pixels to 4 x 4 of the mosaic: it smooths finer detail" in said(4)
    assert "smooths" not in said(1)
