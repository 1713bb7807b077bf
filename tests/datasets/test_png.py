import struct
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cfusion.errors import FileError
from cfusion.io.codecs.photo import resized
from cfusion.io.codecs.png import (
    Encoding,
    finest_encoding,
    pillow_image,
    read_image,
    read_png,
    write_image,
    write_png,
)

pytest.importorskip("PIL")
MILLIMETRES = Encoding(scale=0.001)
PngMaker = Callable[..., bytes]


def test_sixteen_bits_stay_sixteen_bits(tmp_path: Path, png_bytes: PngMaker) -> None:
    """Counts that differ in the low byte only come out different: nothing was decoded through 8 bits."""
    rows = [struct.pack(">3H", 0, 1, 256), struct.pack(">3H", 257, 40000, 65534)]
    path = tmp_path / "a.png"
    path.write_bytes(png_bytes(3, 2, rows))
    expected = np.array([[np.nan, 0.001, 0.256], [0.257, 40.0, 65.534]])
    np.testing.assert_allclose(read_png(path, MILLIMETRES), expected, rtol=1e-6)


def test_a_saturated_count_is_no_depth(tmp_path: Path, png_bytes: PngMaker) -> None:
    """Sensors write 65535 for missing and for too far: not a wall at 65.535 m."""
    (tmp_path / "a.png").write_bytes(png_bytes(3, 1, [struct.pack(">3H", 1, 65534, 65535)]))
    np.testing.assert_allclose(read_png(tmp_path / "a.png", MILLIMETRES), [[0.001, 65.534, np.nan]], rtol=1e-6)


def test_zero_may_be_a_value(tmp_path: Path, png_bytes: PngMaker) -> None:
    (tmp_path / "a.png").write_bytes(png_bytes(2, 1, [struct.pack(">2H", 0, 65535)]))
    found = read_png(tmp_path / "a.png", Encoding(1 / 65535), zero_is_unknown=False)
    np.testing.assert_allclose(found, [[0.0, 1.0]])


@given(
    values=hnp.arrays(
        np.float32,
        (3, 4),
        elements=st.one_of(st.just(np.nan), st.floats(-1e4, 1e4, width=32).filter(lambda x: abs(x) > 1e-3)),
    )
)
def test_finest_encoding_holds_every_value(tmp_path_factory: pytest.TempPathFactory, values) -> None:
    """Known values return within half a step (a whole one next to zero), unknown ones unknown."""
    path = tmp_path_factory.mktemp("png") / "a.png"
    encoding = finest_encoding(values)
    write_png(path, values, encoding)
    found = read_png(path, encoding)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(values))
    np.testing.assert_allclose(found, values, atol=encoding.scale * 1.001, rtol=1e-6)
    far = values[np.abs(values - encoding.offset) > encoding.scale]
    again = found[np.abs(values - encoding.offset) > encoding.scale]
    np.testing.assert_allclose(again, far, atol=encoding.scale * 0.501, rtol=1e-6)


def test_finest_encoding_is_a_round_number() -> None:
    assert finest_encoding(np.array([[65.0, 1.0]], np.float32)) == Encoding(0.001)
    assert finest_encoding(np.array([[66.0]], np.float32)) == Encoding(0.002)
    assert finest_encoding(np.array([[65533.0]], np.float32)) == Encoding(1.0)  # a power of ten is round itself
    assert finest_encoding(np.array([[np.nan]], np.float32)) == Encoding(1.0)
    assert finest_encoding(np.array([[0.0]], np.float32)) == Encoding(1.0)


def test_images_of_every_usual_kind(tmp_path: Path, png_bytes: PngMaker) -> None:
    path = tmp_path / "a.png"
    kinds = [
        (png_bytes(2, 1, [bytes([0, 51])], bits=8), [[0.0, 0.2]]),
        (png_bytes(2, 1, [struct.pack(">2H", 0, 13107)]), [[0.0, 0.2]]),
        (png_bytes(1, 1, [bytes([255, 51, 0])], bits=8, colour=2), [[[1.0, 0.2, 0.0]]]),
        (png_bytes(1, 1, [bytes([255, 51, 0, 9])], bits=8, colour=6), [[[1.0, 0.2, 0.0]]]),
        (png_bytes(1, 1, [b"\0"], bits=8, colour=3, palette=bytes([0, 255, 51])), [[[0.0, 1.0, 0.2]]]),
        (png_bytes(1, 1, [bytes([51, 9])], bits=8, colour=4), [[0.2]]),
    ]
    for content, expected in kinds:
        path.write_bytes(content)
        found = read_image(path)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_image_round_trip(tmp_path: Path) -> None:
    for shape in ((4, 5), (4, 5, 3)):
        image = (np.random.default_rng(0).integers(0, 256, shape) / 255).astype(np.float32)
        write_image(tmp_path / "a.png", image)
        np.testing.assert_allclose(read_image(tmp_path / "a.png"), image, atol=1e-6)


def test_depth_is_never_read_from_eight_bits_or_colour(tmp_path: Path, png_bytes: PngMaker) -> None:
    path = tmp_path / "a.png"
    for content, word in [
        (png_bytes(2, 1, [bytes([1, 2])], bits=8), "8-bit grey"),
        (png_bytes(1, 1, [bytes([1, 2, 3])], bits=8, colour=2), "8-bit colour"),
        (png_bytes(1, 1, [bytes(6)], bits=16, colour=2), "16-bit colour"),
        (png_bytes(1, 1, [bytes(4)], bits=16, colour=4), "16-bit transparent"),
    ]:
        path.write_bytes(content)
        with pytest.raises(FileError, match="16-bit grey") as caught:
            read_png(path, MILLIMETRES)
        assert word in str(caught.value)


def test_every_truncation_is_refused(tmp_path: Path, png_bytes: PngMaker) -> None:
    whole = png_bytes(3, 2, [struct.pack(">3H", 1, 2, 3)] * 2)
    path = tmp_path / "a.png"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"a\.png is (truncated|not a \.png)"):
            read_png(path, MILLIMETRES)


def test_every_flipped_bit_after_the_signature_is_refused(tmp_path: Path, png_bytes: PngMaker) -> None:
    whole = bytearray(png_bytes(3, 2, [struct.pack(">3H", 1, 2, 3)] * 2))
    path = tmp_path / "a.png"
    for position in range(8, len(whole)):
        whole[position] ^= 4
        path.write_bytes(whole)
        with pytest.raises(FileError):
            read_png(path, MILLIMETRES)
        whole[position] ^= 4


def test_rows_that_are_missing_and_sizes_that_cannot_be(tmp_path: Path, png_bytes: PngMaker) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png_bytes(3, 2, [struct.pack(">3H", 1, 2, 3)]))
    with pytest.raises(FileError, match="damaged PNG"):
        read_png(path, MILLIMETRES)
    for width, height in ((2_000_000_000, 2_000_000_000), (100_000, 100_000), (0, 5)):
        path.write_bytes(png_bytes(width, height, [bytes(60_000)]))
        with pytest.raises(FileError, match=f"claims {width} x {height}"):
            read_png(path, MILLIMETRES)


def test_interlaced_files_are_read_whole(tmp_path: Path, png_bytes: PngMaker) -> None:
    """A 1 x 1 image has one of the seven passes; a 2 x 1 image two, each pixel in its own."""
    path = tmp_path / "a.png"
    path.write_bytes(png_bytes(2, 1, [struct.pack(">H", 7), struct.pack(">H", 9)], interlaced=1))
    np.testing.assert_allclose(read_png(path, Encoding(1.0)), [[7, 9]])
    path.write_bytes(png_bytes(2, 1, [struct.pack(">H", 7)], interlaced=1))
    with pytest.raises(FileError, match="damaged PNG"):
        read_png(path, MILLIMETRES)


@pytest.mark.parametrize("channels", [(), (3,)], ids=["grey", "colour"])
def test_an_image_is_averaged_onto_fewer_pixels_and_left_alone_on_its_own(channels: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).random((6, 8, *channels)).astype(np.float32)
    means = image.reshape(3, 2, 4, 2, *channels).mean(axis=(1, 3))
    np.testing.assert_allclose(resized(image, (3, 4)), means, atol=1e-6)
    assert resized(image, (6, 8)) is image


@pytest.mark.parametrize("bits", [1, 8, 24])
def test_the_bytes_of_every_small_image_are_counted_pass_by_pass(bits: int) -> None:
    """Every pixel is in one pass; a row is a byte for its filter and its pixels, in whole bytes."""
    from cfusion.io.codecs.png_chunks import ADAM7, PLAIN, _unpacked_size

    for passes in (PLAIN, ADAM7):
        for width in range(1, 11):
            for height in range(1, 11):
                seen = np.zeros((height, width), int)
                total = 0
                for x, y, step_x, step_y in passes:
                    part = seen[y::step_y, x::step_x]
                    part += 1
                    total += len(part) * (1 + -(-part.shape[1] * bits // 8)) if part.size else 0
                assert (seen == 1).all()
                assert _unpacked_size(width, height, bits, passes) == total


def test_pixels_are_unpacked_in_pieces_and_counted_up_to_what_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    from cfusion.io.codecs import png_chunks

    monkeypatch.setattr(png_chunks, "PIECE", 64)
    packed = zlib.compress(bytes(1000))
    assert png_chunks._unpacked(packed, 1000) == 1000
    assert png_chunks._unpacked(packed, 5000) == 1000
    assert 100 <= png_chunks._unpacked(packed, 100) < 100 + 64
    assert png_chunks._unpacked(packed[:-8], 1000) <= 1000


def test_a_large_image_is_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is bounded before it is decoded."""
    write_png(tmp_path / "a.png", np.ones((4, 5), np.float32), Encoding(1.0))
    monkeypatch.setattr(pillow_image(), "MAX_IMAGE_PIXELS", 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (read_png(tmp_path / "a.png", Encoding(1.0)) == 1).all()
