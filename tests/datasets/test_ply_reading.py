import struct
from pathlib import Path

import numpy as np
import pytest

from cfusion.errors import CFusionError, FileError
from cfusion.io.codecs.ply import read_ply, write_ply

HEADER = (
    "ply\nformat {} 1.0\ncomment made by hand\nelement vertex 2\n"
    "property float x\nproperty float y\nproperty double z\n"
    "property uchar red\nproperty uchar green\nproperty uchar blue\nelement face 1\n"
    "property list uchar int vertex_indices\nend_header\n"
)
EXPECTED = np.array([[1, 2, 3], [4, 5, 6.5]])


@pytest.mark.parametrize(("name", "order"), [("binary_little_endian", "<"), ("binary_big_endian", ">")])
def test_binary(tmp_path: Path, name: str, order: str) -> None:
    body = struct.pack(f"{order}ffd3B", 1, 2, 3, 10, 20, 30) + struct.pack(f"{order}ffd3B", 4, 5, 6.5, 40, 50, 60)
    (tmp_path / "a.ply").write_bytes(HEADER.format(name).encode() + body + b"\3" + bytes(12))
    points, colours, confidence = read_ply(tmp_path / "a.ply")
    np.testing.assert_array_equal(points, EXPECTED)
    np.testing.assert_array_equal(colours, [[10, 20, 30], [40, 50, 60]])
    assert confidence is None


def test_text(tmp_path: Path) -> None:
    body = "1 2 3 10 20 30\n4 5 6.5 40 50 60\n3 0 1 1\n"
    (tmp_path / "a.ply").write_text(HEADER.format("ascii") + body)
    np.testing.assert_array_equal(read_ply(tmp_path / "a.ply")[0], EXPECTED)


def test_round_trip(tmp_path: Path) -> None:
    colours, confidence = np.array([[1, 2, 3], [4, 5, 6]], np.uint8), np.array([0.5, 2], np.float32)
    write_ply(tmp_path / "a.ply", EXPECTED, colours, confidence)
    points, found, trusted = read_ply(tmp_path / "a.ply")
    np.testing.assert_array_equal(points, EXPECTED)
    np.testing.assert_array_equal(found, colours)
    np.testing.assert_array_equal(trusted, confidence)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a .ply"),
        (b"ply\nformat ascii 1.0\n", "not a .ply"),
        (HEADER.format("zip").encode(), "encoded as 'zip'"),
        (HEADER.format("ascii").replace("vertex 2", "vertex 1000000000").encode() + b"1 2 3", "truncated"),
        (HEADER.format("binary_little_endian").encode() + bytes(20), "truncated"),
        (HEADER.format("ascii").replace("float x", "list uchar int x").encode(), "lists"),
        (HEADER.format("ascii").replace("float x", "float y").encode(), "without x, y and z"),
        (HEADER.format("ascii").replace("element vertex 2", "element edge 2").encode(), "vertices"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a.ply").write_bytes(content)
    with pytest.raises(FileError, match=r"a\.ply") as caught:
        read_ply(tmp_path / "a.ply")
    assert words in str(caught.value)


@pytest.mark.data
def test_a_mesh_of_the_stanford_repository(real_data) -> None:
    points, _, _ = read_ply(real_data("stanford") / "bunny.ply")
    assert points.shape[1] == 3
    assert len(points) > 30_000


def test_any_bytes(tmp_path: Path, harm) -> None:
    (tmp_path / "a.ply").write_bytes(HEADER.format("binary_little_endian").encode() + bytes(60))
    try:
        harm(tmp_path, lambda: read_ply(tmp_path / "a.ply"))
    except CFusionError as error:
        raise AssertionError from error
