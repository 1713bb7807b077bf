"""Exact values of what a mosaic counts with, on grids and stacks of a few pixels."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.rasters.conftest import write_tif

from cfusion.errors import InputError
from cfusion.kernels.contract import links_of
from cfusion.kernels.numpy.operators import adjoint
from cfusion.rasters import (
    certificate,
    choose,
    coregister,
    ground,
    inspect_raster,
    mosaic,
    noise,
    sample,
    solve_tile,
)
from cfusion.rasters import work as work_module
from cfusion.rasters.begin import Plan
from cfusion.rasters.coordinates import Coordinates, unit_name
from cfusion.rasters.effort import Effort
from cfusion.rasters.grids import Grid, target_grid
from cfusion.rasters.report import RasterReport, as_json, table
from cfusion.rasters.solve_tile import INSIDE, Settings, host_backend, problem_of
from cfusion.rasters.tiles import Tile, blocks, tiles
from cfusion.rasters.units import degree_sentence
from cfusion.rasters.work import RasterWeights, _around, _nmad, _sigma
from cfusion.rasters.write import hillshade

PLANE = Grid((2.0, 0.0, 100.0, 0.0, -4.0, 50.0), 10, 5, Coordinates(""))
NAN = float("nan")


class TestGrid:
    """Ten columns of 2, five rows of 4, from (100, 50)."""

    def test_corners_bounds_and_size(self) -> None:
        assert (PLANE.shape, PLANE.pixel, PLANE.bounds) == ((5, 10), (2.0, 4.0), (100.0, 30.0, 120.0, 50.0))
        x, y = PLANE.at(np.array([3.0]), np.array([2.0]))
        assert (x[0], y[0]) == (106.0, 42.0)

    def test_a_turned_pixel_has_the_lengths_of_its_sides(self) -> None:
        assert replace(PLANE, transform=(3.0, 5.0, 0.0, 4.0, -12.0, 0.0)).pixel == (5.0, 13.0)

    @pytest.mark.parametrize(
        ("transform", "up"),
        [
            ((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), True),
            ((-1.0, 0.0, 0.0, 0.0, -1.0, 0.0), False),
            ((1.0, 0.0, 0.0, 0.0, 1.0, 0.0), False),
            ((1.0, 1e-3, 0.0, 0.0, -1.0, 0.0), False),
            ((1.0, 0.0, 0.0, -1e-3, -1.0, 0.0), False),
            ((1.0, 1e-10, 0.0, 1e-10, -1.0, 0.0), True),
        ],
    )
    def test_north_is_up(self, transform: tuple[float, ...], up: bool) -> None:
        assert replace(PLANE, transform=transform).north_up is up

    def test_a_window_and_a_move_keep_the_pixels(self) -> None:
        part = PLANE.window(3, 1, 4, 2)
        assert part.transform == (2.0, 0.0, 106.0, 0.0, -4.0, 46.0)
        assert part.shape == (2, 4)
        assert PLANE.moved(1.0, 7.0).transform == (2.0, 0.0, 101.0, 0.0, -4.0, 57.0)

    def test_on_another_lattice_by_whole_pixels_or_not(self) -> None:
        assert PLANE.window(3, 1, 4, 2).whole_pixels_from(PLANE) == (3, 1)
        assert PLANE.window(-2, -1, 4, 2).whole_pixels_from(PLANE) == (-2, -1)
        assert PLANE.moved(1.0, 0.0).whole_pixels_from(PLANE) is None
        assert PLANE.moved(0.0, 1e-5).whole_pixels_from(PLANE) == (0, 0)
        stretched = replace(PLANE, transform=(2.0001, 0.0, 100.0, 0.0, -4.0, 50.0))
        assert stretched.whole_pixels_from(PLANE) is None  # at its far end

    def test_the_footprint_on_another_lattice(self) -> None:
        assert PLANE.window(3, 1, 4, 2).footprint_on(PLANE) == (3.0, 1.0, 7.0, 3.0)

    @pytest.mark.parametrize(("width", "height"), [(0, 5), (5, 0), (-2, -2), (2**21, 2**20)])
    def test_sizes_that_make_no_sense(self, width: int, height: int) -> None:
        with pytest.raises(InputError, match="is impossible"):
            replace(PLANE, width=width, height=height)
        assert replace(PLANE, width=2**20, height=2**20).width == 2**20

    def test_a_transform_without_an_inverse(self) -> None:
        for transform in ((2.0, 4.0, 0.0, 1.0, 2.0, 0.0), (NAN, 0.0, 0.0, 0.0, 1.0, 0.0)):
            with pytest.raises(InputError, match="no inverse"):
                replace(PLANE, transform=transform)

    def test_a_resolution_makes_whole_multiples(self) -> None:
        square = target_grid([PLANE.moved(0.5, -0.5)], resolution=3.0)
        assert square.transform == (3.0, 0.0, 99.0, 0.0, -3.0, 51.0)
        assert square.shape == (8, 8)  # 99 to 123 holds 100.5 to 120.5; 51 to 27 holds 49.5 to 29.5

    def test_bounds_are_filled_with_whole_pixels(self) -> None:
        cut = target_grid([PLANE], bounds=(103.0, 33.0, 107.0, 41.0))
        assert cut.bounds == (102.0, 30.0, 108.0, 42.0)
        exact = target_grid([PLANE], bounds=(102.0, 34.0, 108.0, 42.0))
        assert exact.bounds == (102.0, 34.0, 108.0, 42.0)
        for wrong in ((1.0, 0.0, 1.0, 2.0), (0.0, 2.0, 1.0, 2.0), (0.0, 0.0, NAN, 2.0)):
            with pytest.raises(InputError, match="--bounds"):
                target_grid([PLANE], bounds=wrong)

    def test_the_grid_of_another_is_taken_as_it_is(self) -> None:
        like = PLANE.window(1, 1, 3, 3)
        assert target_grid([PLANE], like=like) == like
        mirrored = replace(PLANE, transform=(2.0, 0.0, 0.0, 0.0, 4.0, 0.0))
        with pytest.raises(InputError, match="rotated or mirrored"):
            target_grid([mirrored])


class TestCoordinates:
    COMPOUND = (
        'COMPD_CS["here [and] there",PROJCS["flat",UNIT["metre",1]],VERT_CS["EGM96 height",UNIT["US survey foot",0.3]]]'
    )

    def test_a_compound_system_comes_apart(self) -> None:
        both = Coordinates(self.COMPOUND)
        assert both.horizontal == 'PROJCS["flat",UNIT["metre",1]]'
        assert (both.vertical, both.vertical_unit) == ("EGM96 height", "US survey foot")
        assert both.name == "here [and] there"

    def test_three_dimensions_have_heights_over_the_ellipsoid(self) -> None:
        solid = Coordinates('GEOGCRS["x",CS[ellipsoidal, 3]]')
        assert (solid.vertical, solid.vertical_unit) == ("ellipsoidal height", "metre")
        flat = Coordinates('PROJCS["y"]')
        assert (flat.horizontal, flat.vertical, flat.vertical_unit) == ('PROJCS["y"]', "", "")

    def test_nothing_is_said_without_one(self) -> None:
        none = Coordinates("")
        assert (none.name, none.degrees, none.horizontal_unit) == ("no CRS", False, "")
        assert none.same_place(Coordinates(""))
        assert not none.same_place(Coordinates("GEOGCS"))

    def test_units_have_one_name(self) -> None:
        assert [unit_name(each) for each in (" Meters ", "ft", "us-ft", "furlong", None)] == [
            *("metre", "foot", "US survey foot", "furlong", ""),
        ]


class TestTiles:
    def test_a_halo_is_cut_at_the_border(self) -> None:
        tile = Tile(10, 20, 30, 50, 32, 64)
        assert tile.core == (slice(10, 30), slice(20, 50))
        window = tile.with_halo(12)
        assert window == (slice(0, 32), slice(8, 62))
        assert tile.core_in(window) == (slice(10, 30), slice(12, 42))

    def test_tiles_are_of_equal_size_and_blocks_of_a_fixed_one(self) -> None:
        assert [(each.left, each.right) for each in tiles(40, 100, 40)] == [(0, 50), (50, 100)]
        assert [(each.top, each.bottom, each.left, each.right) for each in blocks(50, 70, 40)] == [
            *((0, 40, 0, 40), (0, 40, 40, 70), (40, 50, 0, 40), (40, 50, 40, 70)),
        ]
        assert len(tiles(32, 32, 32)) == 1
        for wrong in (31, 40.5):
            with pytest.raises(InputError, match="--tile"):
                tiles(64, 64, wrong)  # type: ignore[arg-type]


class TestGround:
    def test_the_median_of_what_is_known(self) -> None:
        stack = np.array([[[1.0, 5.0, NAN]], [[2.0, NAN, NAN]], [[9.0, 7.0, NAN]], [[4.0, NAN, NAN]]])
        np.testing.assert_array_equal(ground.median_of(stack), [[3.0, 6.0, NAN]])
        np.testing.assert_array_equal(ground.median_of(stack[:1]), stack[0])
        np.testing.assert_array_equal(ground.median_of(stack[:2]), [[1.5, 5.0, NAN]])
        np.testing.assert_array_equal(ground.median_of(stack[:3]), [[2.0, 6.0, NAN]])

    def test_the_spread_of_normal_errors(self) -> None:
        assert ground.nmad(np.array([1.0, 2.0, 3.0, 4.0, 105.0])) == pytest.approx(1.4826)
        assert np.isnan(ground.nmad(np.array([])))

    def test_block_medians_need_half_a_block(self) -> None:
        heights = np.full((8, 17), NAN)
        heights[:4, :8] = np.arange(32.0).reshape(4, 8)
        heights[:4, 8:15] = 1.0
        np.testing.assert_array_equal(ground._blocks(heights), [16.0, NAN])

    def test_ranks_correlate_whatever_the_heights(self) -> None:
        rising = np.arange(9.0)
        assert ground._correlation(rising, np.exp(rising)) == pytest.approx(1)
        assert ground._correlation(rising, -(rising**3)) == pytest.approx(-1)
        assert ground._correlation(np.array([0.0, 1, 2, 3]), np.array([1.0, 0, 3, 2])) == pytest.approx(0.6)

    @pytest.mark.parametrize(("blocks", "tells"), [(11, False), (12, True)])
    def test_twelve_blocks_in_common_tell_whether_they_show_one_ground(self, blocks: int, tells: bool) -> None:
        heights = np.random.default_rng(0).normal(0, 1, (8, 8 * blocks))
        found = ground.compare(heights, heights[None]).correlation
        assert found == pytest.approx(1) if tells else np.isnan(found)

    def test_few_common_pixels_tell_nothing(self) -> None:
        heights = np.zeros((10, 20))
        assert ground.compare(heights, heights[None]).pixels == 200
        assert ground.compare(heights, heights[None]).spread == 0
        heights[0, 0] = NAN
        fewer = ground.compare(heights, np.zeros((1, 10, 20)))
        assert fewer.pixels == 199
        assert np.isnan([fewer.offset, fewer.spread, fewer.correlation, *fewer.reliefs]).all()

    @pytest.mark.parametrize(
        ("offset", "correlation", "reliefs", "doubted"),
        [
            (2.0, 0.2, (1.0, 1.0), True),
            (-2.0, 0.2, (1.0, 1.0), True),
            (1.0, 0.2, (1.0, 1.0), False),
            (1.0, 0.2, (11.0, 1.0), True),
            (1.0, 0.2, (10.0, 1.0), False),
            (1.0, 0.2, (1.0, 11.0), True),
            (2.0, 0.3, (11.0, 1.0), False),
        ],
    )
    def test_other_ground(self, offset: float, correlation: float, reliefs: tuple[float, float], doubted: bool) -> None:
        assert ground._other_ground(ground.Comparison(900, offset, 1.0, correlation, reliefs)) is doubted

    def test_another_datum_is_an_offset_of_five_spreads(self) -> None:
        for offset, doubted in ((5.0, False), (5.1, True), (-5.1, True)):
            found = ground.Comparison(900, offset, 1.0, 0.9, (1.0, 1.0))
            assert ground._other_datum(found) is doubted

    @pytest.mark.parametrize(
        ("value", "count", "refused"), [(0, 16, True), (0, 15, False), (0.5, 16, False), (3, 16, False)]
    )
    def test_a_filling_value_is_far_whole_and_often(self, value: float, count: int, refused: bool) -> None:
        heights = np.linspace(10, 14, 1000).reshape(20, 50)
        heights.ravel()[:count] = value
        if refused:
            with pytest.raises(InputError, match=r"1\.60% of its pixels at exactly 0 .* --nodata 0"):
                ground.require_no_filling("a.tif", heights)
        else:
            ground.require_no_filling("a.tif", heights)

    @pytest.mark.parametrize(("value", "refused"), [(-9999, True), (-32768, True), (-9998, False), (-9999.5, False)])
    def test_one_pixel_of_a_usual_fill_value_is_enough(self, value: float, refused: bool) -> None:
        heights = np.linspace(10, 14, 20_000).reshape(100, 200)
        heights[3, 5] = value
        for usual_only in (False, True):
            if refused:
                with pytest.raises(InputError, match=f"has 1 of its pixels at exactly {value:g} .* --nodata {value:g}"):
                    ground.require_no_filling("a.tif", heights, usual_only=usual_only)
            else:
                ground.require_no_filling("a.tif", heights, usual_only=usual_only)
        ground.require_no_filling("deep.tif", np.linspace(-10_010, -9_990, 21).repeat(20))

    def test_of_a_part_only_usual_fill_values_are_judged(self) -> None:
        cliff = np.linspace(10, 14, 1000).reshape(20, 50)
        cliff[:5] = 0
        ground.require_no_filling("a.tif", cliff, usual_only=True)

    def test_so_is_one_above_all_others(self) -> None:
        heights = np.linspace(10, 14, 1000).reshape(20, 50)
        heights.ravel()[:16] = 9999
        with pytest.raises(InputError, match="--nodata 9999"):
            ground.require_no_filling("a.tif", heights)


class TestNoise:
    def test_three_rasters_tell_their_own_noise(self) -> None:
        rng = np.random.default_rng(0)
        truth = rng.normal(0, 30, (150, 150))
        heights = np.stack([truth + rng.normal(0, scale, truth.shape) for scale in (0.5, 1.0, 2.0)])
        assert noise.noise_scales(heights) == pytest.approx((0.5, 1.0, 2.0), rel=0.1)
        assert noise.noise_scales(heights[:2]) == pytest.approx((0.79, 0.79), rel=0.03)  # two share the blame

    def test_one_raster_is_judged_by_its_roughness(self) -> None:
        rng = np.random.default_rng(1)
        slope = np.tile(3.0 * np.arange(200), (200, 1))
        alone = (slope + rng.normal(0, 0.7, slope.shape))[None]
        assert noise.noise_scales(alone) == pytest.approx((0.7,), rel=0.03)
        assert noise.noise_scales(np.zeros((1, 4, 1))) == (0.0,)

    def test_none_is_believed_to_be_ten_times_better_than_the_usual_one(self) -> None:
        rng = np.random.default_rng(3)
        others = rng.normal(0, 1, (4, 60, 70))
        heights = np.stack([others.mean(axis=0), *others])  # nearer to each than they are to one another
        scales = noise.noise_scales(heights)
        assert scales[0] == pytest.approx(0.1 * float(np.median(scales)), rel=0.02)

    def test_weights_are_one_over_the_variance_of_the_usual_one(self) -> None:
        assert noise.raster_weights((1.0, 2.0, 4.0)) == (4.0, 1.0, 0.25)
        assert noise.raster_weights((1.0, 1.25)) == (1.0, 1.0)
        assert noise.raster_weights((1.0, 1.26)) != (1.0, 1.0)
        assert noise.raster_weights((0.0, 2.0, 2.0)) == pytest.approx((100.0, 1.0, 1.0))
        assert noise.raster_weights((0.0, 0.0)) == (1.0, 1.0)


class TestWork:
    def test_sums_around_a_pixel_are_cut_at_the_border(self) -> None:
        sums = _around(np.ones((12, 12)))
        assert (sums[0, 0], sums[0, 6], sums[6, 6], sums[11, 11], sums[4, 4], sums[3, 3]) == (25, 45, 81, 25, 81, 64)

    def test_the_nmad_of_a_pixel(self) -> None:
        heights = np.array([1.0, 2.0, 4.0], np.float32).reshape(3, 1, 1)
        assert _nmad(heights)[0, 0] == pytest.approx(1.4826)
        assert np.isnan(_nmad(np.array([1.0, NAN], np.float32).reshape(2, 1, 1)))

    def test_sigma_is_the_noise_over_the_root_of_the_observations(self) -> None:
        known = np.ones((2, 9, 9), bool)
        quiet = np.zeros((2, 9, 9), np.float32)
        count = known.sum(axis=0)
        found = _sigma(quiet, known, count, (3.0, 4.0), 0.5)
        assert found[4, 4] == pytest.approx(0.5 * np.sqrt((9 + 16) / 2) / np.sqrt(2))

    def test_sigma_counts_a_blunder_as_six_scales_and_a_dispute_as_what_it_is(self) -> None:
        """Two rasters that are 100 apart: sigma was that of a blunder, and the fused height off by 100 or 0."""
        loud = np.zeros((3, 9, 9), np.float32)
        loud[2] = 100.0
        known = np.ones(loud.shape, np.bool_)
        one_of_three = _sigma(loud, known, known.sum(axis=0), (3.0, 4.0, 5.0), 0.5)
        assert one_of_three == pytest.approx(0.5 * 1.2533 * 6 * 5 / 3 / np.sqrt(3))
        one_of_two = _sigma(loud[1:], known[1:], known[1:].sum(axis=0), (4.0, 5.0), 0.5)
        assert one_of_two == pytest.approx(1.2533 * 100 / 2)
        loud[2, 4:] = 0.0  # where fewer than half of the observations nearby are loud, they are blunders
        mixed = _sigma(loud[1:], known[1:], known[1:].sum(axis=0), (4.0, 5.0), 0.5)
        assert mixed[8, 4] == pytest.approx(0.5 * np.sqrt((16 + 25) / 2) / np.sqrt(2))
        assert mixed[0, 4] == pytest.approx(0.5 * 1.2533 * 6 * 5 * 4 / 10 / np.sqrt(2))

    def test_weights_of_a_window(self) -> None:
        heights = np.array([[1.0, NAN]], np.float32)
        assert RasterWeights(None, factor=0.25).weights(slice(0, 1), slice(0, 2), heights).tolist() == [[0.25, 0.0]]

        class Stated:
            def read(self, rows: slice, columns: slice) -> np.ndarray:
                return np.array([[2.0, 4.0, 0.0, -1.0, NAN, 1e-9]], np.float32)

        all_known = np.ones((1, 6), np.float32)
        sigmas = RasterWeights(Stated(), True, scale=4.0, factor=3.0).weights(slice(0, 1), slice(0, 6), all_known)  # type: ignore[arg-type]
        assert sigmas.tolist() == [[12.0, 3.0, 0.0, 0.0, 0.0, 3e4]]
        weights = RasterWeights(Stated(), False, scale=4.0).weights(slice(0, 1), slice(0, 6), all_known)  # type: ignore[arg-type]
        assert weights[0] == pytest.approx([0.5, 1.0, 0.0, 0.0, 0.0, 1e-4])


class TestChoose:
    def test_of_every_block_another_raster_is_left_out(self) -> None:
        out = choose.left_out(np.zeros((3, 32, 64), np.float32))
        assert (out.sum(axis=0) == 1).all()  # a fifth of three, at least one
        assert [int(np.argmax(out[:, 0, column])) for column in (0, 3, 4, 8, 12)] == [0, 0, 1, 2, 0]
        assert int(np.argmax(out[:, 4, 0])) == 1
        many = choose.left_out(np.zeros((10, 200, 200), np.float32))
        assert (many.sum(axis=0) == 2).all()
        assert np.argmax(many[:, 0, 24]) != np.argmax(many[:, 0, 23])

    def test_a_raster_alone_is_never_left_out(self) -> None:
        heights = np.full((2, 32, 32), NAN, np.float32)
        heights[0] = 1
        assert not choose.left_out(heights).any()

    def test_weights_of_a_sample(self) -> None:
        heights = np.array([[[1.0, NAN]], [[2.0, 3.0]]], np.float32)
        assert choose.weighed(heights, (1.0, 1.0)) is None
        assert choose.weighed(heights, (0.5, 2.0)).tolist() == [[[0.5, 0.0]], [[2.0, 2.0]]]  # type: ignore[union-attr]

    def test_sums_by_block(self) -> None:
        assert choose._by_block(np.ones((50, 100))).tolist() == [48 * 48, 48 * 48, 48 * 4, 2 * 48, 2 * 48, 2 * 4]


class TestPicture:
    def test_flat_ground_and_unknown_ground(self) -> None:
        flat = np.zeros((4, 5))
        assert np.unique(hillshade(flat, 1.0, 1.0)).tolist() == [int(1 + 254 * np.sin(np.radians(45)))]
        flat[0, 0] = NAN
        assert hillshade(flat, 1.0, 1.0)[0, 0] == 0
        assert hillshade(np.zeros((1, 5)), 1.0, 1.0).tolist() == [[128] * 5]
        assert (hillshade(np.zeros((2, 5)), 1.0, 1.0) == hillshade(np.zeros((4, 5)), 1.0, 1.0)[:2]).all()

    def test_slopes_towards_the_light_are_bright(self) -> None:
        """From the north-west: ground that falls that way by the sun's altitude is as bright as can be."""
        v, u = np.mgrid[:6, :6].astype(float)
        towards = (u + v) / np.sqrt(2)  # rises to the south-east
        assert hillshade(towards, 1.0, 1.0)[3, 3] == 255
        assert hillshade(-towards, 1.0, 1.0)[3, 3] == 1
        assert hillshade(2 * u + v, 2.0, 1.0)[3, 3] == hillshade(u + v, 1.0, 1.0)[3, 3]  # slopes, not steps
        assert hillshade(u, 1.0, 1.0)[3, 3] == hillshade(v, 1.0, 1.0)[3, 3] > hillshade(u - v, 1.0, 1.0)[3, 3]


def test_the_report_of_a_raster() -> None:
    from cfusion.rasters.coregister import Placement

    row = RasterReport("a.tif", Placement(1.25, (0.5, -0.5), (2.0, NAN)), Placement(), 0.1234567, 300, 0.875)
    assert as_json([row]) == (
        '[{"raster": "a.tif", "offset": 1.25, "tilt": [0.5, -0.5], "shift": [2.0, null], "noise": 0.123457, '
        '"pixels": 300, "kept": 0.875}]'
    )
    head, line = table([row]).splitlines()
    assert head.split()[::2] == ["raster", "tilt", "tilt", "shift", "shift", "noise", "kept"]
    assert line.split() == ["a.tif", "+1.25", "+0.5", "-0.5", "+2", "+nan", "0.123", "300", "87.5%"]
    assert len(head) == len(line)


def test_degrees_are_told_as_metres() -> None:
    assert degree_sentence(PLANE) == ""
    rasterio = pytest.importorskip("rasterio")
    world = Coordinates(rasterio.crs.CRS.from_epsg(4326).to_wkt())
    said = degree_sentence(Grid((0.001, 0.0, 10.0, 0.0, -0.001, 60.05), 100, 100, world))
    assert "a pixel is about 55.7 x 111 m" in said  # at 60 degrees north half as wide as high


class Wavy:
    """Ground that is known everywhere, as a raster that lies off: h(u, v) = g(u - c, v - r) + offset + tilt."""

    target = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 80, 70, Coordinates(""))

    def __init__(self, off=(0.0, 0.0), offset=0.0, tilt=(0.0, 0.0), noise=0.0, plane=(0.0, 0.0, 0.0), moved=(0.0, 0.0)):  # type: ignore[no-untyped-def]
        self.off, self.offset, self.tilt, self.noise, self.plane, self.moved = off, offset, tilt, noise, plane, moved

    def footprint(self) -> tuple[int, int, int, int]:
        return 0, 0, 80, 70

    @staticmethod
    def ground(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 4 * np.sin(u / 7) * np.cos(v / 6) + 2 * np.sin(v / 4 + u / 11)

    def read(self, rows: slice, columns: slice) -> np.ndarray:
        v, u = np.mgrid[rows, columns].astype(float)
        u_here, v_here = u - self.moved[0], v + self.moved[1]  # moved: right and up
        heights = self.ground(u_here - self.off[0], v_here - self.off[1])
        heights += self.offset + self.tilt[0] * u_here + self.tilt[1] * v_here
        heights += np.random.default_rng(5).normal(0, self.noise, heights.shape) if self.noise else 0
        return heights - (self.plane[0] + self.plane[1] * u + self.plane[2] * v)

    def corrected(self, plane: tuple[float, float, float], shift: tuple[float, float]) -> "Wavy":
        return Wavy(self.off, self.offset, self.tilt, self.noise, plane, shift)


class TestCoregister:
    WINDOWS = ((slice(0, 70), slice(0, 80)),)

    def placed(self, raster: Wavy, upto: str) -> coregister.Placement:
        grounds = [Wavy().read(*window) for window in self.WINDOWS]
        return coregister.place(raster, grounds, self.WINDOWS, upto)  # type: ignore[arg-type]

    def test_an_offset_is_the_median_difference(self) -> None:
        found = self.placed(Wavy(offset=2.5, noise=0.1), "offset")
        assert found.offset == pytest.approx(2.5, abs=0.01)
        assert (found.shift, found.tilt, found.pixels) == ((0.0, 0.0), (0.0, 0.0), 5600)
        assert found.spread == pytest.approx(0.1, rel=0.05)
        assert found.spread == found.spread_before

    @pytest.mark.parametrize("off", [(0.4, 0.0), (0.0, -0.6), (3.3, -2.2), (-5.0, 4.0)])
    def test_a_shift_is_found_with_its_sign(self, off: tuple[float, float]) -> None:
        found = self.placed(Wavy(off, offset=-1.0, noise=0.02), "shift")
        assert found.shift == pytest.approx(off, abs=0.02)
        assert found.offset == pytest.approx(-1.0, abs=0.02)
        assert found.spread < 0.05 < found.spread_before

    def test_a_shift_near_whole_pixels_is_whole(self) -> None:
        assert self.placed(Wavy((2.01, -1.0), noise=0.02), "shift").shift == (2.0, -1.0)
        assert self.placed(Wavy((2.2, -1.0), noise=0.02), "shift").shift[0] == pytest.approx(2.2, abs=0.02)

    def test_what_gains_nothing_is_not_moved(self) -> None:
        assert self.placed(Wavy((0.03, 0.0), noise=0.02), "shift").shift == (0.0, 0.0)  # too small
        assert self.placed(Wavy((0.3, 0.0), noise=6.0), "shift").shift == (0.0, 0.0)  # lost in noise
        assert self.placed(Wavy((0.3, 0.0), offset=1.0), "offset").shift == (0.0, 0.0)  # not asked for

    def test_a_tilt_is_per_column_and_per_row(self) -> None:
        found = self.placed(Wavy(offset=1.0, tilt=(0.02, -0.05), noise=0.05), "tilt")
        assert found.tilt == pytest.approx((0.02, -0.05), abs=5e-4)
        assert found.offset == pytest.approx(1.0, abs=0.03)
        assert self.placed(Wavy(tilt=(0.02, -0.05)), "shift").tilt == (0.0, 0.0)

    def test_a_tilt_that_a_narrow_overlap_does_not_tell_is_left_out(self) -> None:
        """Of 70 x 5 pixels only the tilt along rows: across 80 columns the other one would be off by many noises."""
        raster, narrow = Wavy(offset=1.0, tilt=(0.0, -0.05), noise=0.05), np.full((70, 80), NAN)
        narrow[:, 70:75] = Wavy().read(*self.WINDOWS[0])[:, 70:75]
        found = coregister.place(raster, [narrow], self.WINDOWS, "tilt")  # type: ignore[arg-type]
        assert found.tilt[0] == 0.0
        assert found.tilt[1] == pytest.approx(-0.05, abs=5e-4)
        assert found.offset == pytest.approx(1.0, abs=0.03)

    def test_what_was_found_is_taken_out(self) -> None:
        raster = Wavy((1.4, -2.0), offset=3.0, tilt=(0.01, 0.02))
        placed = coregister.corrected(raster, coregister.Placement(3.0, (0.01, 0.02), (1.4, -2.0)))  # type: ignore[arg-type]
        window = self.WINDOWS[0]
        left = placed.read(*window) - Wavy().read(*window)
        np.testing.assert_allclose(left, left[0, 0], atol=1e-9)  # but for the tilt over the shift, a constant
        assert left[0, 0] == pytest.approx(0.01 * 1.4 - 0.02 * 2.0)

    def test_few_pixels_are_left_where_they_are_and_two_hundred_are_placed(self) -> None:
        enough = ((slice(0, 10), slice(0, 20)),)
        found = coregister.place(Wavy((0.4, 0.0)), [Wavy().read(*enough[0])], enough, "shift")  # type: ignore[arg-type]
        assert (found.pixels, *found.shift) == pytest.approx((200, 0.4, 0.0), abs=0.05)
        window = ((slice(0, 10), slice(0, 19)),)
        found = coregister.place(Wavy(offset=1.0), [Wavy().read(*window[0])], window, "shift")  # type: ignore[arg-type]
        assert (found.pixels, found.offset, found.tilt, found.shift) == (190, 0.0, (0.0, 0.0), (0.0, 0.0))

    def test_each_is_laid_against_those_before_and_the_first_stays(self) -> None:
        rasters = [Wavy(), Wavy((0.0, 0.0), offset=1.0), Wavy((2.0, 0.0), offset=-1.0)]
        moved, placements = coregister.coregister(rasters, self.WINDOWS, "shift")  # type: ignore[arg-type]
        assert placements[0] == coregister.Placement()
        assert [each.offset for each in placements[1:]] == pytest.approx([1.0, -1.0], abs=1e-6)
        assert placements[2].shift == (2.0, 0.0)
        for each in moved:
            inner = (slice(10, 60), slice(10, 60))
            np.testing.assert_allclose(each.read(*inner), Wavy().read(*inner), atol=1e-6)

    def test_the_one_with_most_in_common_is_next(self) -> None:
        stack = np.full((4, 4, 4), NAN)
        stack[0], stack[1, :1], stack[2, :3], stack[3, :3] = 1, 1, 1, 1
        assert coregister._next([stack], {0: None}) == 2  # type: ignore[dict-item]
        assert coregister._next([stack], {0: None, 2: None}) == 3  # type: ignore[dict-item]

    def test_lines_through_blunders(self) -> None:
        x = np.linspace(0, 1, 400)
        design = np.stack([np.ones(400), x], axis=1)
        values = 2 + 3 * x + np.random.default_rng(0).normal(0, 0.01, 400)
        values[::10] += 50
        beta, errors = coregister._robust(design, values)
        assert beta == pytest.approx([2, 3], abs=0.01)
        expected = 0.01 * np.sqrt(25 * np.diag(np.linalg.inv(design.T @ design)))
        assert errors == pytest.approx(expected, rel=0.35)  # errors of neighbours are alike: five times as unsure


class TestSample:
    def test_candidates_are_a_lattice_over_the_mosaic(self) -> None:
        square = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 2560, 2560, Coordinates(""))
        found = sample._candidates([], square)
        assert len(found) == 100
        assert found[:2] == [(slice(0, 256), slice(0, 256)), (slice(0, 256), slice(256, 512))]
        assert found[-1] == (slice(2304, 2560), slice(2304, 2560))
        narrow = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 100, 5000, Coordinates(""))
        assert all(columns == slice(0, 100) for _, columns in sample._candidates([], narrow))

    def test_and_the_middles_of_where_two_rasters_meet(self) -> None:
        square = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 2560, 2560, Coordinates(""))
        boxes = [(0, 0, 1000, 2000), (600, 400, 2560, 1200)]
        rasters = [SimpleNamespace(footprint=lambda box=box: box) for box in boxes]
        lattice, more = set(map(str, sample._candidates([], square))), sample._candidates(rasters, square)  # type: ignore[arg-type]
        beside = [each for each in more if str(each) not in lattice]
        assert {(rows.start + 128, columns.start + 128) for rows, columns in beside} == {
            (row, column) for row in (600, 800, 1000) for column in (700, 800, 900)
        }

    def test_small_mosaics_are_their_own_sample(self) -> None:
        small = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 600, 600, Coordinates(""))
        assert sample.windows_of([], small) == ((slice(0, 600), slice(0, 600)),)


def test_rasters_are_looked_at_in_windows_over_their_extent() -> None:
    assert inspect_raster._starts(512) == [0]
    assert inspect_raster._starts(1000) == [0, 512]
    assert inspect_raster._starts(100_000)[0] == 0
    assert inspect_raster._starts(100_000)[-1] == 100_000 - 512


BOX = (10, 40, 20, 60)  # left, top, right, bottom
RIGHT, BELOW, WITHIN = (20, 40, 30, 60), (10, 60, 20, 80), (12, 45, 13, 46)
ACROSS = ((19, 59, 99, 99), (0, 0, 11, 41), (0, 50, 99, 51), (15, 0, 16, 99))


@pytest.mark.parametrize(
    ("boxes", "alone"),
    [
        *(([BOX, other], "b") for other in (RIGHT, BELOW, (0, 40, 10, 60), (10, 20, 20, 40), (21, 0, 99, 99))),
        *(([BOX, other], None) for other in (WITHIN, *ACROSS)),
        *(([BOX, (19, 40, 30, 60), (29, 40, 40, 60)], None), ([BOX, (29, 40, 40, 60), (19, 40, 30, 60)], None)),
        *(([BOX, RIGHT, WITHIN], "b"), ([BOX, WITHIN, BELOW], "c")),
    ],
)
def test_rasters_that_meet_share_pixels_by_a_chain_of_others(boxes: list[tuple[int, ...]], alone: str | None) -> None:
    """An edge in common is no pixel in common, in either order."""
    given: Any = [SimpleNamespace(footprint=lambda box=box: box) for box in boxes]
    for name, each in zip("abc", given, strict=False):
        each.raster = SimpleNamespace(name=name)
    if alone is None:
        inspect_raster.require_inside(given)
        inspect_raster.require_inside(given[::-1])
    else:
        more = " or a raster that does" if len(boxes) > 2 else ""
        with pytest.raises(InputError, match=f"^{alone} does not overlap a{more}; fuse rasters of one place"):
            inspect_raster.require_inside(given)


@pytest.mark.parametrize("box", [(10, 40, 10, 60), (10, 40, 20, 40), (20, 40, 10, 60), (10, 60, 20, 40)])
def test_a_raster_without_a_pixel_on_the_grid_lies_outside(box: tuple[int, ...]) -> None:
    given: Any = [SimpleNamespace(footprint=lambda: box, raster=SimpleNamespace(name="a"))]
    with pytest.raises(InputError, match="a lies outside the mosaic's grid"):
        inspect_raster.require_inside(given)


def test_where_nothing_can_be_left_out_the_usual_weights_are_taken() -> None:
    trial = choose._Trial(np.zeros((2, 8, 8), np.float32), None, 1.0, "numpy", lambda fits: None)
    (first, second), corner = trial.search()
    assert corner == 1.5
    assert first == pytest.approx(np.sqrt(trial.kept_views) * 0.8 / 1.5)
    assert second == 2 * first


@pytest.mark.parametrize(("factor", "turns"), [(1.0, 1), (0.99995, 1), (0.9998, 4)])
def test_a_dual_that_violates_nothing_is_repaired_once(
    factor: float, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def repair(work: object, settings: object, number: int, turn: int, rounds: int, block: object) -> float:
        asked.append(turn)
        return factor

    def bound(work: object, settings: object, number: int, turns: int, least: float, block: object) -> float:
        assert (turns, least) == (len(asked), factor)
        return 3.0

    monkeypatch.setattr(certificate, "repair_block", repair)
    monkeypatch.setattr(certificate, "energy_block", lambda *given: (1.0, 4.0))
    monkeypatch.setattr(certificate, "bound_block", bound)
    told: list[float] = []
    settings = SimpleNamespace(energy_floor=1e-9)
    found = certificate.certify(SimpleNamespace(height=9, width=9), settings, 0, progress=told.append)  # type: ignore[arg-type]
    assert asked == list(range(turns))
    assert (found.energy, found.bound, found.factor) == (5.0, 3.0, factor)
    assert found.gap == pytest.approx(0.4)
    assert replace(found, floor=10.0).gap == pytest.approx(0.2)
    assert replace(found, bound=6.0).gap == 0.0
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_dual_is_as_feasible_as_the_worst_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    work = SimpleNamespace(height=9, width=3 * certificate.BLOCK)
    factors = dict(zip(certificate.blocks_of(work), (1.0, 0.5, 0.75), strict=True))  # type: ignore[arg-type]
    scaled: list[float] = []
    monkeypatch.setattr(certificate, "repair_block", lambda *given: factors[given[-1]])
    monkeypatch.setattr(certificate, "energy_block", lambda *given: (1.0, 4.0))
    monkeypatch.setattr(certificate, "bound_block", lambda *given: scaled.append(given[-2]) or 3.0)
    found = certificate.certify(work, SimpleNamespace(energy_floor=1e-9), 0)  # type: ignore[arg-type]
    assert (found.energy, found.bound, found.factor) == (15.0, 9.0, 0.5)
    assert scaled == [0.5] * 3


def test_a_dual_is_scaled_until_the_longest_of_its_core_is_feasible() -> None:
    """And no further; twice the dual, half of the factor."""
    rng = np.random.default_rng(2)
    links, core = links_of(rng.random((12, 15)) < 0.9), (slice(3, 9), slice(4, 12))
    top = rng.normal(0, 1, (3, 12, 15)).astype(np.float32)
    problem: Any = SimpleNamespace(links=links, alpha=(0.5, 1.0))
    lower = adjoint(top.astype(np.float64), links, 2)[:, 3:9, 4:12]
    factor = solve_tile.core_factor(problem, top, core)
    assert np.hypot(*(factor * lower)).max() == pytest.approx(0.5)
    assert solve_tile.core_factor(problem, 2 * top, core) == pytest.approx(factor / 2)
    assert solve_tile.core_factor(problem, 0.99 * np.float32(factor) * top, core) == 1.0
    assert solve_tile.core_factor(problem, 0 * top, core) == 1.0


def test_a_pixel_is_solved_where_any_raster_knows_it() -> None:
    heights = np.array([[[1.0, NAN, 5.0]], [[NAN, NAN, 7.0]]], np.float32)
    settings = Settings((1.0, 2.0), 0.5, 4.0, 1.0, (0.0, 0.0), -9.0, 9.0, backend="numpy")
    problem = problem_of(heights, None, settings)
    assert ((problem.links & INSIDE) > 0).tolist() == [[True, False, True]]
    np.testing.assert_array_equal(problem.observations.values[:, 0, 2], [1.0, 3.0])  # less the centre, ascending
    weights = np.array([[[0.0, 1.0, 1.0]], [[1.0, 1.0, 2.0]]], np.float32)
    assert ((problem_of(heights, weights, settings).links & INSIDE) > 0).tolist() == [[False, False, True]]


def test_rasters_count_alike_or_by_their_factors_or_as_stated() -> None:
    plan = Plan((), (), None, (), PLANE, sample.Sample((), ()), "", ())
    assert plan.believed((1.0, 1.0)) is None
    assert plan.believed((1.0, 0.5)) == (RasterWeights(None, factor=1.0), RasterWeights(None, factor=0.5))
    stated = (RasterWeights(None, factor=7.0),)
    assert replace(plan, beliefs=stated).believed((1.0, 0.5)) is stated


def test_backends_of_the_host() -> None:
    assert host_backend("numpy") == "numpy"
    pytest.importorskip("numba")
    assert host_backend("auto") == host_backend("cpu") == "cpu"


def test_a_backend_of_a_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(arrays=SimpleNamespace(), NAME="cuda")
    monkeypatch.setattr(solve_tile.kernels, "load", lambda name: device)
    with pytest.raises(InputError, match="'cuda' is not for that, pass 'cpu'"):
        host_backend("cuda")


def test_the_page_of_a_mosaic_tells_what_was_observed(tmp_path: Path) -> None:
    """Three pixels of four: the last one is unknown in all maps."""
    report_of_many = pytest.importorskip("cfusion.cli.report_of_many")
    heights = np.full((8, 8), 5.0, np.float32)
    heights[6:] = NAN
    counts = np.where(np.isnan(heights), -1, 2).astype(np.int16)
    files = {
        "height": write_tif(tmp_path / "height.tif", heights, nodata=NAN),
        "sigma": write_tif(tmp_path / "sigma.tif", heights / 10, nodata=NAN),
        "provenance": write_tif(tmp_path / "provenance.tif", counts, nodata=-1),
    }
    grid = Grid((0.5, 0.0, 0.0, 0.0, -0.5, 0.0), 8, 8, Coordinates(""))
    told = {"gap": 1e-4, "seconds": 2.0, "iterations": 64, "parameters": {}, "status": "Done.", "sentences": ()}
    made = SimpleNamespace(grid=grid, files=files, rasters=(), **told)
    made.rasters = (RasterReport("a.tif", coregister.Placement(), coregister.Placement(), 0.1, 48, 1.0),)
    page = report_of_many.write_mosaic_page(made, tmp_path / "height.tif")
    text = page.read_text()
    assert page.name == "report.html"
    assert "<b>75.0 %</b>" in text
    assert "<b>8 x 8</b>" in text
    assert '"heights":true' in text  # up is towards the viewer
    assert '"kind":"orthographic","pixel":0.5,"cx":4.0,"cy":4.0' in text
    assert report_of_many.mosaic_page(tmp_path / "x.tif").name == "x_report.html"
    huge = SimpleNamespace(grid=replace(grid, width=60_000_001, height=1))
    assert report_of_many.write_mosaic_page(huge, tmp_path / "height.tif") is None


class TestMosaicHelpers:
    def test_options_are_shaped(self) -> None:
        found = mosaic._options({"nodata": 0, "bounds": [1, 2, 3, 4], "weights": ["a.tif"], "like": "b.tif"})
        assert found.nodata == (0.0,)
        assert found.bounds == (1.0, 2.0, 3.0, 4.0)
        assert found.weights == (Path("a.tif"),)
        assert found.like == Path("b.tif")
        with pytest.raises(InputError, match="is not an option of a mosaic"):
            mosaic._options({"tiles": 3})

    def test_whole_passes(self) -> None:
        assert [mosaic._rounded(each) for each in (1, 64, 64.5, 128)] == [64, 64, 128, 128]

    def test_an_output_is_a_geotiff_in_a_folder_and_new(self, tmp_path: Path) -> None:
        mosaic.require_free(tmp_path / "a.tif", overwrite=False)
        mosaic.require_free(tmp_path / "a.TIFF", overwrite=False)
        for wrong in (tmp_path / "a.png", tmp_path / "none" / "a.tif"):
            with pytest.raises(InputError):
                mosaic.require_free(wrong, overwrite=True)
        (tmp_path / "a_sigma.tif").write_text("x")
        with pytest.raises(InputError, match="exists already"):
            mosaic.require_free(tmp_path / "a.tif", overwrite=False)
        mosaic.require_free(tmp_path / "a.tif", overwrite=True)

    def test_the_area_of_windows_and_how_far_passes_are(self) -> None:
        assert mosaic._area((slice(2, 5), slice(1, 11))) == 30
        effort = Effort(2, 0.1, 1.0, 2.0)
        assert mosaic._after(effort, 64, 64, 256, 0, 0.5) == effort.iterating(96, 256, 0)
        assert mosaic._certified(effort, 256, 256, 0, 1.0) == effort.iterating(256, 256, 0.99)


def test_what_a_fit_loses_is_summed_over_rasters_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squared distances to what was left out, of every raster; what does not judge, or is unknown, costs nothing."""
    held = np.full((3, 50, 60), NAN)
    held[0, 2, 3], held[1, 2, 3], held[2, 49, 50], held[2, 30, 30] = 3.0, 2.0, 5.0, 9.0
    judges = np.isfinite(held)
    judges[0, 0, 0], judges[2, 30, 30] = True, False
    surface = SimpleNamespace(heights=np.ones((50, 60)))
    monkeypatch.setattr(choose.solve_tile, "solve_sample", lambda *given: surface)
    trial = SimpleNamespace(kept=None, noise=1.0, backend=None, judges=judges, held=held)
    losses = choose._Trial._fit(trial, (1.0, 2.0), 1.0, None)  # type: ignore[arg-type]
    np.testing.assert_allclose(losses, [4 + 1, 0, 0, 16])  # blocks of 48 pixels


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (3, 40), (40, 2)])
def test_sums_around_in_rasters_narrower_than_their_window(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).random(shape)
    padded = np.pad(values, 4)
    expected = sum(padded[i : i + shape[0], j : j + shape[1]] for i in range(9) for j in range(9))
    np.testing.assert_allclose(_around(values), expected)


def test_what_lies_within_three_noise_scales_of_the_ground_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each raster by its own noise: 0.1 and 0.2 here; what nobody measured has no height."""
    away = np.array([[0.0, 0.29, 0.31, 0.59, 0.61, np.nan]], np.float32)
    heights, ground = np.stack([5 + away, 5 - away]), np.full((1, 1, 6), 5.0, np.float32)
    work: Any = SimpleNamespace(heights=SimpleNamespace(read=lambda rows, columns: heights), state=lambda number: None)
    monkeypatch.setattr(work_module, "_planes", lambda *given: SimpleNamespace(read=lambda rows, columns: ground))
    found = work_module.finish_block(work, SimpleNamespace(centre=0.0), 0, (0.1, 0.2), 1.0, Tile(0, 0, 1, 6, 1, 6))  # type: ignore[arg-type]
    assert (found.observed, found.kept) == ([5, 5], [2, 4])
    assert found.maps["count"].tolist() == [[2, 2, 2, 2, 2, 0]]
    assert found.maps["provenance"].tolist() == [[2, 2, 2, 2, 2, -1]]
    assert np.isnan(found.maps["height"][0]).tolist() == [False] * 5 + [True]


def test_a_certificate_is_the_last_part_of_the_share_of_iterations() -> None:
    """Half of the goal iterated, once certified: the next certificate moves on from there."""
    effort = Effort(3, 1.0, 4.0, 5.0, 2)
    before = mosaic._after(effort, 100, 100, 400, 1, 1.0)
    during = [mosaic._certified(effort, 200, 400, 1, done) for done in (0.0, 0.5, 1.0)]
    assert during[0] == before == effort.iterating(200, 400, 1)
    assert during[0] < during[1] < during[2] < 1
