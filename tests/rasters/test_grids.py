"""Grids: what is on the lattice is taken as it is, the rest is resampled, nothing is moved by accident."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rasterio.transform import from_origin
from tests.rasters.conftest import CORNER, write_tif

from cfusion.errors import InputError
from cfusion.rasters.align import Aligned
from cfusion.rasters.grids import target_grid
from cfusion.rasters.raster import open_raster

ALL = (slice(0, 8), slice(0, 9))


def plane(rows: int, columns: int, corner: tuple[float, float], pixel: float) -> np.ndarray:
    """0.1 x + 0.2 y, at pixel centres, from CORNER."""
    x = corner[0] - CORNER[0] + pixel * (np.arange(columns) + 0.5)
    y = corner[1] - CORNER[1] - pixel * (np.arange(rows) + 0.5)
    return (50 + 0.1 * x + 0.2 * y[:, None]).astype(np.float32)


def test_whole_pixel_shifts_are_exact(tmp_path: Path) -> None:
    one = open_raster(write_tif(tmp_path / "a.tif", plane(8, 9, CORNER, 0.5)))
    moved = (CORNER[0] + 1.5, CORNER[1] - 1.0)
    values = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    other = open_raster(write_tif(tmp_path / "b.tif", values, moved))
    grid = target_grid([one.grid, other.grid])
    assert grid.shape == (8, 9)
    aligned = Aligned(other, grid)
    assert aligned.place == (3, 2)
    found = aligned.read(*ALL)
    assert np.array_equal(found[2:7, 3:8], values)
    assert np.isnan(found).sum() == 72 - 25


def test_the_union_grows_to_all_sides(tmp_path: Path) -> None:
    one = open_raster(write_tif(tmp_path / "a.tif", plane(4, 4, CORNER, 0.5)))
    other = open_raster(write_tif(tmp_path / "b.tif", plane(4, 4, CORNER, 0.5), (CORNER[0] - 1.0, CORNER[1] + 0.5)))
    grid = target_grid([one.grid, other.grid])
    assert grid.shape == (5, 6)
    assert grid.bounds == (CORNER[0] - 1.0, CORNER[1] - 2.0, CORNER[0] + 2.0, CORNER[1] + 0.5)
    assert Aligned(one, grid).place == (2, 1)


def test_a_plane_survives_half_a_pixel_and_another_resolution(tmp_path: Path) -> None:
    one = open_raster(write_tif(tmp_path / "a.tif", plane(8, 9, CORNER, 0.5)))
    for pixel, off in ((0.5, 0.25), (0.2, 0.1), (1.3, -0.4)):
        corner = (CORNER[0] - off - 2, CORNER[1] + off + 2)
        other = open_raster(write_tif(tmp_path / f"b{pixel}.tif", plane(40, 40, corner, pixel), corner, pixel))
        found = Aligned(other, one.grid).read(*ALL)
        assert np.allclose(found, plane(8, 9, CORNER, 0.5), atol=5e-3), (
            pixel
        )  # averages of whole pixels lie off by a part of one


def test_a_window_is_warped_as_the_whole_is(tmp_path: Path) -> None:
    one = open_raster(write_tif(tmp_path / "a.tif", plane(40, 60, CORNER, 0.5)))
    values = np.random.default_rng(0).normal(size=(70, 90)).astype(np.float32)
    values[10:20, 30:50] = -9999
    other = open_raster(write_tif(tmp_path / "b.tif", values, (CORNER[0] - 3.13, CORNER[1] + 2.7), 0.45))
    aligned = Aligned(other, one.grid)
    whole = aligned.read(slice(0, 40), slice(0, 60))
    part = aligned.read(slice(7, 31), slice(11, 52))
    assert np.array_equal(np.isnan(part), np.isnan(whole[7:31, 11:52]))
    assert np.allclose(part, whole[7:31, 11:52], atol=1e-5, equal_nan=True)


def test_pixel_is_point_means_half_a_pixel(tmp_path: Path) -> None:
    """The same ground, its corner or its centre written into the file."""
    area = open_raster(write_tif(tmp_path / "a.tif", plane(8, 9, CORNER, 0.5)))
    point = open_raster(write_tif(tmp_path / "p.tif", plane(8, 9, CORNER, 0.5), tags={"AREA_OR_POINT": "Point"}))
    assert point.grid.area_or_point == "Point"
    assert Aligned(point, area.grid).place == (0, 0)


def test_zero_is_a_height_and_nodata_is_not(tmp_path: Path) -> None:
    values = np.zeros((8, 9), np.float32)
    values[2, 3], values[4, 5], values[6, 7] = -9999, np.nan, np.inf
    found = Aligned(raster := open_raster(write_tif(tmp_path / "a.tif", values)), raster.grid).read(*ALL)
    assert np.isnan(found).sum() == 3
    assert (found == 0).sum() == 69


def test_another_coordinate_system_is_reprojected_and_heights_are_not(tmp_path: Path) -> None:
    """A plane in UTM, sampled on a grid in degrees; its compound CRS says metres up."""
    from rasterio.warp import transform

    one = open_raster(write_tif(tmp_path / "a.tif", plane(30, 40, CORNER, 0.5)))
    lon, lat = transform("EPSG:32631", "EPSG:4326", [CORNER[0] - 5], [CORNER[1] + 5])
    step = 4e-6
    columns, rows = np.meshgrid(lon[0] + step * (np.arange(120) + 0.5), lat[0] - step * (np.arange(90) + 0.5))
    x, y = transform("EPSG:4326", "EPSG:32631", columns.ravel().tolist(), rows.ravel().tolist())
    heights = 50 + 0.1 * (np.array(x) - CORNER[0]) + 0.2 * (np.array(y) - CORNER[1])
    file = write_tif(
        tmp_path / "b.tif", heights.reshape(90, 120).astype(np.float32), crs="EPSG:9707",
        transform=from_origin(lon[0], lat[0], step, step),
    )  # fmt: skip
    aligned = Aligned(open_raster(file), one.grid)
    assert "from WGS 84 + EGM96 height to WGS 84 / UTM zone 31N" in aligned.sentence
    found = aligned.read(slice(0, 30), slice(0, 40))
    assert np.nanmax(np.abs(found - plane(30, 40, CORNER, 0.5))) < 0.01
    assert np.isnan(found).mean() < 0.2


def test_the_grid_may_be_named(tmp_path: Path) -> None:
    one = open_raster(write_tif(tmp_path / "a.tif", plane(8, 9, CORNER, 0.5)))
    square = target_grid([one.grid], resolution=1.0)
    assert (square.pixel, square.shape) == ((1.0, 1.0), (4, 5))
    cut = target_grid([one.grid], bounds=(CORNER[0] + 1, CORNER[1] - 3, CORNER[0] + 2.1, CORNER[1] - 1))
    assert cut.shape == (4, 3)
    assert cut.bounds[:1] == (CORNER[0] + 1,)
    for wrong in ({"resolution": -1.0}, {"bounds": (1.0, 1.0, 0.0, 2.0)}):
        with pytest.raises(InputError):
            target_grid([one.grid], **wrong)


def test_a_raster_that_was_moved_along_one_axis_says_so(tmp_path: Path) -> None:
    one = open_raster(write_tif(tmp_path / "a.tif", plane(8, 9, CORNER, 0.5)))
    part = open_raster(write_tif(tmp_path / "b.tif", plane(4, 4, CORNER, 0.5)))
    assert "moved" not in Aligned(part, one.grid).sentence
    for shift, said in (((1.0, 0.0), "+1 right, +0 up"), ((0.0, -0.5), "+0 right, -0.5 up")):
        assert f"moved by {said}" in Aligned(part, one.grid, shift=shift).sentence


def test_pixels_of_a_turned_grid_are_found_again(tmp_path: Path) -> None:
    grid = open_raster(write_tif(tmp_path / "a.tif", plane(8, 9, CORNER, 0.5))).grid
    turned = replace(grid, transform=(0.4, 0.3, CORNER[0], 0.3, -0.4, CORNER[1]))
    columns, rows = np.array([0.0, 9, 2.5]), np.array([0.0, 8, 7.25])
    np.testing.assert_allclose(turned.to_pixels(*turned.at(columns, rows)), [columns, rows], atol=1e-6)
