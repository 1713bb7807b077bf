"""A raster on the mosaic's grid: how many of its pixels make one, which part of it is read, and what is refused."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion.errors import InputError
from cfusion.rasters.align import Aligned
from cfusion.rasters.coordinates import Coordinates
from cfusion.rasters.grids import Grid
from cfusion.rasters.ground import compare, require_one_ground

NOWHERE = Coordinates("")


def grid(pixel: tuple[float, float], corner: tuple[float, float], width: int, height: int) -> Grid:
    return Grid((pixel[0], 0.0, corner[0], 0.0, -pixel[1], corner[1]), width, height, NOWHERE)


def raster(where: Grid) -> Any:
    """Heights 1000 row + column, read by windows."""

    def heights(left: int, top: int, width: int, height: int) -> np.ndarray:
        rows, columns = np.mgrid[top : top + height, left : left + width]
        return (1000 * rows + columns).astype(np.float32)

    return SimpleNamespace(grid=where, name="a.tif", heights=heights)


TARGET = grid((5.0, 5.0), (0.0, 100.0), 20, 20)


@pytest.mark.parametrize(
    ("pixel", "ratio"), [((5.0, 5.0), 1.0), ((2.0, 2.0), 2.5), ((1.0, 4.0), 2.5), ((10.0, 10.0), 0.5), ((2.5, 10), 1)]
)
def test_the_ratio_is_the_root_of_how_many_pixels_an_area_holds(pixel: tuple[float, float], ratio: float) -> None:
    lying = Aligned(raster(grid(pixel, (0.3, 99.1), 40, 40)), TARGET)
    assert lying._ratio() == pytest.approx(ratio)
    assert ("averaged, 2.5 of its pixels to one" in lying.sentence) == (ratio > 2)
    assert lying._resampling() == ("average" if ratio > 1.5 else "bilinear")
    assert Aligned(lying.raster, TARGET, "nearest")._resampling() == "nearest"


def test_on_the_lattice_it_is_taken_pixel_by_pixel() -> None:
    """Ten columns from column 3 on, eight rows from row 6 on; unknown around it, less the plane that is told."""
    lying = Aligned(raster(grid((5.0, 5.0), (15.0, 70.0), 10, 8)), TARGET)
    assert lying.place == (3, 6)
    assert lying.footprint() == (3, 6, 13, 14)
    assert lying.sentence == "a.tif: starts at column 3, row 6 of the mosaic, copied"
    found = lying.read(slice(0, 20), slice(0, 20))
    rows, columns = np.mgrid[:20, :20]
    inside = (columns >= 3) & (columns < 13) & (rows >= 6) & (rows < 14)
    np.testing.assert_array_equal(found, np.where(inside, 1000 * (rows - 6) + columns - 3, np.nan))
    part = lying.corrected((7.0, 0.5, 0.25), (0.0, 0.0)).read(slice(5, 9), slice(2, 6))
    expected = found - (7 + 0.5 * columns + 0.25 * rows)
    np.testing.assert_allclose(part, expected[5:9, 2:6])
    nowhere = lying.read(slice(0, 5), slice(0, 20))
    assert nowhere.shape == (5, 20)
    assert np.isnan(nowhere).all()


def test_where_a_raster_knows_nothing_the_mosaic_knows_nothing_of_it() -> None:
    where = grid((2.0, 2.0), (0.3, 99.1), 40, 40)
    unknown = SimpleNamespace(
        grid=where, name="a.tif", heights=lambda left, top, w, h: np.full((h, w), np.nan, np.float32)
    )
    found = Aligned(unknown, TARGET).read(slice(2, 5), slice(1, 8))
    assert found.shape == (3, 7)
    assert np.isnan(found).all()


def test_a_shift_of_whole_pixels_is_no_interpolation() -> None:
    lying = Aligned(raster(grid((5.0, 5.0), (0.0, 100.0), 20, 20)), TARGET)
    assert lying.sentence == ""
    assert lying.corrected((0, 0, 0), (5.0, -10.0)).place == (1, 2)
    assert lying.corrected((0, 0, 0), (2.5, 0.0)).place is None
    assert "moved by +2.5 right, +0 up" in lying.corrected((0, 0, 0), (2.5, 0.0)).sentence


@pytest.mark.parametrize("pixel", [1.0, 2.0, 12.5])
def test_what_is_needed_holds_the_block_and_little_more(pixel: float) -> None:
    lying = Aligned(raster(grid((pixel, pixel), (0.0, 100.0), round(100 / pixel), round(100 / pixel))), TARGET)
    left, top, right, bottom = lying._needed(TARGET.window(8, 6, 4, 5)) or (0, 0, 0, 0)
    exact = 8 * 5 / pixel, 6 * 5 / pixel, 12 * 5 / pixel, 11 * 5 / pixel
    most = 5 + 3 * 5 / pixel
    for found, needed, way in zip((left, top, right, bottom), exact, (-1, -1, 1, 1), strict=True):
        assert 1 <= way * (found - needed) <= most or found in (0, round(100 / pixel))
    assert lying._needed(TARGET.window(8, 6, 4, 5).moved(1e4, 0.0)) is None


def hills(seed: int = 0) -> np.ndarray:
    rows, columns = np.mgrid[:48, :56]
    return 100 + 20 * np.sin(rows / 9) * np.cos(columns / 7) + np.random.default_rng(seed).normal(0, 0.1, (48, 56))


def test_the_raster_that_most_others_contradict_is_named() -> None:
    """Wherever it stands; an offset may be kept, another ground may not."""
    names = ["a", "b", "c", "d"]
    for wrong in range(4):
        stack = np.stack([hills(k) for k in range(4)])
        require_one_ground(names, stack, keep_offsets=False)
        stack[wrong] += 30
        against = "b" if wrong == 0 else "a"
        with pytest.raises(InputError, match=rf"^{names[wrong]} lies \+30 from {against}"):
            require_one_ground(names, stack, keep_offsets=False)
        require_one_ground(names, stack, keep_offsets=True)
        stack[wrong] = np.random.default_rng(9).uniform(0, 1, stack[wrong].shape)
        for keep in (False, True):
            with pytest.raises(InputError, match=f"^{names[wrong]} does not look like heights of the same ground"):
                require_one_ground(names, stack, keep_offsets=keep)


def test_of_two_the_later_one_is_doubted() -> None:
    with pytest.raises(InputError, match=r"^b lies -30 from a"):
        require_one_ground(["a", "b"], np.stack([hills(), hills(1) - 30]), keep_offsets=False)


def test_a_comparison_counts_common_pixels_of_blocks_that_are_known() -> None:
    heights = hills()
    heights[:, :16] = np.nan
    found = compare(heights, np.stack([hills(1) - 2, hills(2) - 2, hills(3) + 50]))
    assert found.pixels == 48 * 40
    assert found.offset == pytest.approx(2, abs=0.1)
    assert found.spread == pytest.approx(0.13, abs=0.03)
    assert found.correlation > 0.99
    assert found.reliefs[0] == pytest.approx(found.reliefs[1], rel=0.05)
