import struct
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.datasets.readers.geotiff import depth_of_height
from cfusion.errors import FileError
from cfusion.geometry import Orthographic
from cfusion.io.codecs.geotiff import Grid, grid_of, read_heights

pytest.importorskip("rasterio")
HEIGHTS = [[10.0, 12.0, -9999.0], [11.0, -3.0, 14.5]]
AREA, POINT = 1, 2
UTM_33 = 32633


def tiff_bytes(
    heights: list[list[float]],
    corner: tuple[float, float] = (500000.0, 4000000.0),
    *,
    pixel: tuple[float, float] = (0.5, 0.5),
    kind: int = AREA,
    code: int = UTM_33,
    nodata: bytes = b"-9999\0",
    claimed: tuple[int, int] | None = None,
) -> bytes:
    """A float32 GeoTIFF from its definition: header, values, tags (ascending), and what the tags point to."""
    height, width = len(heights), len(heights[0])
    pixels = b"".join(struct.pack(f"<{width}f", *row) for row in heights)
    columns, rows = claimed or (width, height)
    keys = struct.pack("<16H", 1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, kind, 3072, 0, 1, code)
    tags: list[tuple[int, int, int, bytes]] = [
        *((256, 4, 1, struct.pack("<I", columns)), (257, 4, 1, struct.pack("<I", rows))),
        *((258, 3, 1, struct.pack("<HH", 32, 0)), (259, 3, 1, struct.pack("<HH", 1, 0))),
        *((262, 3, 1, struct.pack("<HH", 1, 0)), (273, 4, 1, struct.pack("<I", 8))),
        *((277, 3, 1, struct.pack("<HH", 1, 0)), (278, 4, 1, struct.pack("<I", rows))),
        *((279, 4, 1, struct.pack("<I", len(pixels))), (339, 3, 1, struct.pack("<HH", 3, 0))),
        (33550, 12, 3, struct.pack("<3d", *pixel, 0)),
        (33922, 12, 6, struct.pack("<6d", 0, 0, 0, *corner, 0)),
        (34735, 3, 16, keys),
        (42113, 2, len(nodata), nodata),
    ]
    directory = 8 + len(pixels)
    behind = directory + 2 + 12 * len(tags) + 4
    entries, tail = b"", b""
    for tag, type_, count, value in tags:
        inline = value.ljust(4, b"\0") if len(value) <= 4 else struct.pack("<I", behind + len(tail))
        tail += value if len(value) > 4 else b""
        entries += struct.pack("<HHI", tag, type_, count) + inline
    return b"II*\0" + struct.pack("<I", directory) + pixels + struct.pack("<H", len(tags)) + entries + bytes(4) + tail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.tif").write_bytes(tiff_bytes(HEIGHTS))
    (tmp_path / "b.TIF").write_bytes(tiff_bytes([[20.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    return tmp_path


def test_a_height_is_a_depth_seen_from_above(folder: Path) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["a", "b"]
    assert views[0].camera == Orthographic(0.5, 1.0, 0.5, 3, 2)
    heights = np.where(np.array(HEIGHTS) == -9999, np.nan, HEIGHTS)
    np.testing.assert_allclose(views[0].depth, 20.5 - heights, rtol=1e-6)
    points = views[0].pose.apply(views[0].camera.back_project(views[0].depth))
    np.testing.assert_allclose(points[0, 1], [0, 0.25, 12])  # x east and y north of the middle, z up
    np.testing.assert_allclose(depth_of_height(views[0].depth, views[0].pose), heights, rtol=1e-6)


def test_corners_and_centres_of_one_grid_are_one_grid(folder: Path) -> None:
    """PixelIsPoint names the centre of the first pixel: a quarter unit inside the corner."""
    (folder / "b.TIF").write_bytes(tiff_bytes(HEIGHTS, (500000.25, 3999999.75), kind=POINT))
    assert len(read(folder)) == 2
    (folder / "b.TIF").write_bytes(tiff_bytes(HEIGHTS, kind=POINT))
    with pytest.raises(FileError, match=r"b\.TIF lies 0\.5 pixels off the first"):
        read(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (tiff_bytes(HEIGHTS, (500000.5, 4000000.0)), "lies 1 pixels off"),
        (tiff_bytes(HEIGHTS, pixel=(0.6, 0.6)), "pixels off"),
        (tiff_bytes(HEIGHTS, code=32632), "another coordinate system"),
        (tiff_bytes([row[:2] for row in HEIGHTS]), "is 2 x 2 pixels, the first 3 x 2"),
    ],
)
def test_grids_that_do_not_match_are_refused(folder: Path, content: bytes, words: str) -> None:
    (folder / "b.TIF").write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        read(folder)
    assert "resample them to one grid" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [1e-3, 0.5, 30.0])
def test_pixels_are_square_to_a_millionth_of_their_size(tmp_path: Path, size: float) -> None:
    """In degrees as in metres."""
    (tmp_path / "a.tif").write_bytes(tiff_bytes(HEIGHTS, pixel=(size, size * (1 + 0.5e-6))))
    assert read(tmp_path)[0].camera == Orthographic(size, 1.0, 0.5, 3, 2)
    (tmp_path / "a.tif").write_bytes(tiff_bytes(HEIGHTS, pixel=(size, size * (1 + 2e-6))))
    with pytest.raises(FileError, match="resample to square pixels"):
        read(tmp_path)


def test_pixels_that_are_not_square(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(tiff_bytes(HEIGHTS, pixel=(0.5, 0.25)))
    with pytest.raises(FileError, match="resample to square pixels"):
        read(tmp_path)


@pytest.mark.parametrize("kind", [AREA, POINT])
def test_the_grid_is_as_the_file_says(tmp_path: Path, kind: int) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tif").write_bytes(tiff_bytes(HEIGHTS, kind=kind))
    heights, grid = read_heights(tmp_path / "in" / "a.tif"), grid_of(tmp_path / "in" / "a.tif")
    assert heights[1, 1] == -3  # below zero is a height like any other
    assert (grid.width, grid.height, grid.pixel) == (3, 2, (0.5, 0.5))
    assert grid.area_or_point == ("Area" if kind == AREA else "Point")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a GeoTIFF"),
        (b"II*\0" + bytes(30), "GeoTIFF"),
        (tiff_bytes(HEIGHTS)[:30], "damaged TIFF"),
        (tiff_bytes(HEIGHTS, claimed=(31623, 31623)), "claims 31623 x 31623|GeoTIFF"),
        (tiff_bytes([[-9999.0, -9999.0]]), "has no heights"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        list(read(tmp_path))
    assert "\n" not in str(caught.value)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="geotiff")))


def test_many_bands_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    """Opening reserves memory for each band, and a pixel of a packed block holds all of them."""
    import rasterio

    from cfusion.io.codecs.tiff_header import require_blocks

    for name, options in (("classic", {}), ("big", {"BIGTIFF": "YES"}), ("motorola", {"ENDIANNESS": "BIG"})):
        file = tmp_path / f"{name}.tif"
        profile = {"driver": "GTiff", "width": 5, "height": 4, "count": 3, "dtype": "float32", "interleave": "pixel"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rasterio.open(file, "w", **profile, **options) as raster:
                raster.write(np.ones((3, 4, 5), np.float32))
        assert read_heights(file, 2).max() == 1
        whole = file.read_bytes()
        order = "big" if name == "motorola" else "little"
        samples = (277).to_bytes(2, order) + (3).to_bytes(2, order)
        place = whole.index(samples) + (12 if name == "big" else 8)
        file.write_bytes(whole[:place] + (65000).to_bytes(2, order) + whole[place + 2 :])
        with pytest.raises(FileError, match="claims 65000 bands"):
            read_heights(file)
    (tmp_path / "none.tif").write_bytes(b"II*\0")
    require_blocks(tmp_path / "none.tif", 4)  # what is no TIFF is for the library to say
    beyond = b"II+\0" + bytes([8, 0, 0, 0]) + (1 << 63).to_bytes(8, "little") + bytes(300)
    (tmp_path / "beyond.tif").write_bytes(beyond)
    with pytest.raises(FileError, match="claims more than the file holds"):
        read_heights(tmp_path / "beyond.tif")
    many = b"II*\0" + (8).to_bytes(4, "little") + (60_000).to_bytes(2, "little") + bytes(300)
    (tmp_path / "many.tif").write_bytes(many)
    with pytest.raises(FileError, match="claims more than the file holds"):
        read_heights(tmp_path / "many.tif")


@pytest.mark.parametrize("big", [False, True])
def test_a_header_that_claims_more_than_the_file_holds(tmp_path: Path, big: bool) -> None:
    """The library would believe it."""
    import rasterio

    file, room = tmp_path / "a.tif", 20 if big else 12
    profile = {"driver": "GTiff", "width": 5, "height": 4, "count": 1, "dtype": "float32"}
    transform = rasterio.Affine(2.0, 0.0, 5.0, 0.0, -2.0, 7.0)
    with rasterio.open(file, "w", transform=transform, BIGTIFF="YES" if big else "NO", **profile) as raster:
        raster.write(np.ones((1, 4, 5), np.float32))
    whole = file.read_bytes()
    place = whole.index((33550).to_bytes(2, "little") + (12).to_bytes(2, "little")) + 4  # the size of a pixel
    file.write_bytes(whole[:place] + (12_976_131).to_bytes(room // 3, "little")[:4] + whole[place + 4 :])
    with pytest.raises(FileError, match="claims more than the file holds"):
        read_heights(file)


@pytest.mark.parametrize("asked", [grid_of, read_heights])
def test_more_pixels_than_the_file_can_hold_are_refused(tmp_path: Path, asked: Callable[[Path], object]) -> None:
    """Also where only the grid is asked for: a mosaic is planned by it."""
    file = tmp_path / "a.tif"
    file.write_bytes(tiff_bytes(HEIGHTS, claimed=(2**13, 2**13)))
    with pytest.raises(FileError, match="claims 8192 x 8192 pixels"):
        asked(file)


def test_two_grids_are_as_far_apart_as_their_corners() -> None:
    """Each of the three corners tells: the others of these pairs lie on one another."""
    first = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 4, 5, "")
    for column, row, off in ((-3 / 4, -3 / 5, 3), (3 / 4, 0, 0), (0, 3 / 5, 0)):
        other = replace(first, transform=(1.0 + column, row, off, 0.0, -1.0, 0.0))
        assert first.difference(other) == "lies 3 pixels off the first"
    assert first.difference(first) == ""


def test_values_of_every_type_are_as_long_as_another_reader_has_them() -> None:
    """What a directory claims is counted in bytes, whatever its entries hold."""
    plugin = pytest.importorskip("PIL.TiffImagePlugin")
    from cfusion.io.codecs.tiff_header import SIZES

    others = {kind: size for kind, (size, _) in plugin.ImageFileDirectory_v2._load_dispatch.items()}
    assert len(others) >= 12
    assert {kind: SIZES.get(kind, 1) for kind in others} == others
    assert {SIZES[kind] for kind in (16, 17, 18)} == {8}  # of large files: numbers and places of 64 bits


@pytest.mark.parametrize(("dtype", "size"), [("uint8", 1), ("int16", 2), ("float32", 4), ("float64", 8)])
@pytest.mark.parametrize("together", [True, False])
def test_what_is_decoded_together_is_counted_in_bytes(tmp_path: Path, dtype: str, size: int, together: bool) -> None:
    """A block of rows, or a tile, of one band or of all."""
    import rasterio

    from cfusion.io.codecs.tiff_header import _blocks

    profile = {"driver": "GTiff", "width": 40, "height": 48, "count": 3, "dtype": dtype}
    profile |= {"interleave": "pixel" if together else "band"}
    tiles = {"tiled": True, "blockxsize": 16, "blockysize": 32}
    for name, more, pixels in (("rows", {"blockysize": 5}, 40 * 5), ("tiles", tiles, 512)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rasterio.open(tmp_path / f"{name}.tif", "w", **profile, **more) as raster:
                raster.write(np.ones((3, 48, 40), dtype))
        expected = (40 * 48, 3, pixels * size * (3 if together else 1))
        assert _blocks(tmp_path / f"{name}.tif", 10**6) == expected


@pytest.mark.parametrize(("type_", "letter"), [(3, "H"), (4, "I"), (16, "Q")])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_large_tiff_states_its_size_in_any_integer(tmp_path: Path, type_: int, letter: str, order: str) -> None:
    """Laid by hand, from either end: a header of 16 bytes, then tag, type, number and value in 20 bytes each."""
    from cfusion.io.codecs.tiff_header import _blocks

    values = {256: 40, 257: 48, 258: 16, 277: 3, 278: 5}
    entries = [struct.pack(f"{order}HHQ{letter}", tag, type_, 1, each).ljust(20, b"\0") for tag, each in values.items()]
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HHHQ", 43, 8, 0, 16)
    body = head + struct.pack(f"{order}Q", len(entries)) + b"".join(entries) + bytes(8)
    (tmp_path / "a.tif").write_bytes(body)
    assert _blocks(tmp_path / "a.tif", len(body)) == (40 * 48, 3, 40 * 5 * 3 * 2)
