import struct
from pathlib import Path

import numpy as np
import pytest

from cfusion.errors import FileError
from cfusion.io.codecs.pfm import read_pfm, write_pfm

ROWS = np.array([[1, 2, 3], [4, np.nan, 6]], np.float32)  # the first row is on top


@pytest.mark.parametrize(("order", "scale"), [("<", "-1.0"), (">", "1.0"), ("<", "-0.00392"), (">", "2e3")])
@pytest.mark.parametrize("end", ["\n", " ", "\r\n"])
def test_bottom_row_first_in_either_byte_order(tmp_path: Path, order: str, scale: str, end: str) -> None:
    path = tmp_path / "a.pfm"
    path.write_bytes(f"Pf\n3 2\n{scale}{end}".encode() + struct.pack(f"{order}6f", 4, float("inf"), 6, 1, 2, 3))
    np.testing.assert_array_equal(read_pfm(path), ROWS)


def test_round_trip_and_unknown_is_infinity(tmp_path: Path) -> None:
    write_pfm(tmp_path / "a.pfm", ROWS)
    np.testing.assert_array_equal(read_pfm(tmp_path / "a.pfm"), ROWS)
    assert (tmp_path / "a.pfm").read_bytes() == b"Pf\n3 2\n-1.0\n" + struct.pack("<6f", 4, float("inf"), 6, 1, 2, 3)


def test_minus_infinity_is_unknown_too(tmp_path: Path) -> None:
    (tmp_path / "a.pfm").write_bytes(b"Pf 1 1 -1\n" + struct.pack("<f", float("-inf")))
    assert np.isnan(read_pfm(tmp_path / "a.pfm")).all()


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "not a .pfm"),
        (b"P5\n3 2\n255\n", "not a .pfm"),
        (b"Pf\n3 -2\n-1\n", "not a .pfm"),
        (b"Pf\n" + b"9" * 400, "not a .pfm"),
        (b"PF\n1 1\n-1\n" + b"0" * 12, "three channels"),
        (b"Pf\n3 2\n-1.0\n" + b"0" * 23, "truncated"),
        (b"Pf\n3 2\n-1.0\n" + b"0" * 25, "too long"),
        (b"Pf\n999999999 999999999\n-1.0\n" + b"0" * 24, "truncated"),
        (b"Pf\n0 2\n-1.0\n", "zero"),
        (b"Pf\n1 1\n0.0\n1234", "zero"),
    ],
)
def test_refuses_with_the_name_of_the_file(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "bad.pfm"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"bad\.pfm") as caught:
        read_pfm(path)
    assert word in str(caught.value)
