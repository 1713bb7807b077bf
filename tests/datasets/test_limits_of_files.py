"""What a file may claim: exactly as much as a limit is read, and one more is refused."""

import argparse
import io
import struct
from pathlib import Path

import pytest

from cfusion.cli import settings
from cfusion.errors import FileError, InputError
from cfusion.io.codecs import colmap_model, tiff_header
from cfusion.io.codecs.tiff_header import Form


def directory(entries: int, after: int = 0) -> bytes:
    """A directory of a classic TIFF: widths, and the place of the next."""
    return struct.pack("<H", entries) + struct.pack("<HHII", 256, 4, 1, 5) * entries + struct.pack("<I", after)


@pytest.mark.parametrize("more", [0, 1])
def test_entries_of_a_directory(monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(tiff_header, "MOST_ENTRIES", 3)
    content = directory(3 + more)
    if more:
        with pytest.raises(tiff_header._BeyondTheEnd):
            tiff_header._directory(io.BytesIO(content), Form.classic("<"), 0, len(content))
    else:
        entries, after = tiff_header._directory(io.BytesIO(content), Form.classic("<"), 0, len(content))
        assert (len(entries), after) == (3, 0)


@pytest.mark.parametrize("read", [2, 3])
def test_directories(monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    """Those beyond are not looked at: the third claims entries that the file does not hold."""
    monkeypatch.setattr(tiff_header, "MOST_DIRECTORIES", read)
    length = len(directory(1))
    first, second, third = (8 + length * k for k in range(3))
    content = b"II" + struct.pack("<HI", 42, first) + directory(1, second) + directory(1, third) + struct.pack("<H", 9)
    if read == 3:
        with pytest.raises(tiff_header._BeyondTheEnd):
            tiff_header._tags(io.BytesIO(content), len(content))
    else:
        assert tiff_header._tags(io.BytesIO(content), len(content)) == {256: 5}


@pytest.mark.parametrize("most", [2, 3])
def test_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(tiff_header, "MOST_BANDS", most)
    monkeypatch.setattr(tiff_header, "_blocks", lambda file, held: (20, 3, 60))
    if most == 3:
        tiff_header.require_blocks(tmp_path, 1000)
    else:
        with pytest.raises(FileError, match="claims 3 bands, more than 2"):
            tiff_header.require_blocks(tmp_path, 1000)


@pytest.mark.parametrize("more", [0, 1])
def test_bytes_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Four a pixel and `BESIDE`, or as dense as a file can be."""
    for held, most in ((1000, 4 * 20 + tiff_header.BESIDE), (1 << 30, tiff_header.DENSEST << 30)):
        monkeypatch.setattr(tiff_header, "_blocks", lambda file, held, most=most: (20, 1, most + more))
        if more:
            with pytest.raises(FileError, match="claims blocks of"):
                tiff_header.require_blocks(tmp_path, held)
        else:
            tiff_header.require_blocks(tmp_path, held)


@pytest.mark.parametrize("width", [5, 6])
def test_pixels_of_a_camera_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(colmap_model, "MOST_PIXELS", 20)
    (tmp_path / "cameras.txt").write_text(f"1 PINHOLE {width} 4 10 10 2 2\n")
    (tmp_path / "images.txt").write_text("")
    if width == 5:
        assert colmap_model.read_model(tmp_path).cameras[1].width == 5
    else:
        with pytest.raises(FileError, match="claims 6 x 4 pixels"):
            colmap_model.read_model(tmp_path)


def test_pixels_of_a_size_and_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MOST_PIXELS", 20)
    assert settings.size("5x4") == (5, 4)
    with pytest.raises(argparse.ArgumentTypeError, match="choose 1 to 20"):
        settings.size("7x3")
    grids, coordinates = pytest.importorskip("cfusion.rasters.grids"), None
    monkeypatch.setattr(grids, "MOST_PIXELS", 20)
    transform = (0.5, 0.0, 0.0, 0.0, -0.5, 0.0)
    assert grids.Grid(transform, 5, 4, coordinates).shape == (4, 5)
    for width, height in ((7, 3), (0, 4), (-5, -4)):
        with pytest.raises(InputError, match="is impossible"):
            grids.Grid(transform, width, height, coordinates)
