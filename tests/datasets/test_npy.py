import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from cfusion.errors import FileError
from cfusion.io.codecs.npy import read_npy, write_npy


def laid_by_hand(header: str, data: bytes, version: bytes = b"\x01\x00") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def header(shape: str = "(1, 2)", descr: str = "'<f4'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def test_reads_bytes_laid_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(laid_by_hand(header("(2, 3)"), struct.pack("<6f", 1, 2, 3, 4, 5, float("nan"))))
    np.testing.assert_array_equal(read_npy(path), np.array([[1, 2, 3], [4, 5, np.nan]], np.float32))


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2", "<u2", "<i4"])
def test_round_trip_of_real_types(tmp_path: Path, dtype: str) -> None:
    values = np.arange(6, dtype=dtype).reshape(2, 3)
    write_npy(tmp_path / "a.npy", values)
    found = read_npy(tmp_path / "a.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, values)


def test_column_order_is_understood(tmp_path: Path) -> None:
    values = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    write_npy(tmp_path / "a.npy", values)
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy"), values)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not a .npy file"),
        (b"hello", "not a .npy file"),
        (b"\x93NUMPY\x07\x00abc", "not a .npy file"),
        (laid_by_hand("{'descr': '<f4'", b""), "header is damaged"),
        (laid_by_hand(header(), struct.pack("<f", 1)), "truncated"),
        (laid_by_hand(header(), struct.pack("<3f", 1, 2, 3)), "too long"),
        (laid_by_hand(header("(4000000000, 4000000000)"), b"1234"), "truncated"),
        (laid_by_hand(header("(-1, -2)"), struct.pack("<2f", 1, 2)), "expected (H, W)"),
        (laid_by_hand(header("(2,)"), struct.pack("<2f", 1, 2)), "expected (H, W)"),
        (laid_by_hand(header("(0, 3)"), b""), "expected (H, W)"),
        (laid_by_hand(header(descr="'<c8'"), b"0" * 16), "real numbers"),
        (laid_by_hand(header(descr="'|b1'"), b"00"), "real numbers"),
        (laid_by_hand(header("(1, 1)", "'|O'"), pickle.dumps([print])), "pickled"),
    ],
)
def test_refuses_with_the_name_of_the_file(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"bad\.npy") as caught:
        read_npy(path)
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        read_npy(tmp_path / "none.npy")
    with pytest.raises(FileError, match="is a folder"):
        read_npy(tmp_path)
