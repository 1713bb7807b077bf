import struct
from pathlib import Path

import numpy as np
import pytest
from tests.ply_points import places, read_points

from cfusion.errors import ShapeError
from cfusion.io.codecs.ply import write_ply
from cfusion.io.colour_pictures import point_colours


def test_bytes_are_as_the_format_says(tmp_path: Path) -> None:
    points = np.array([[1.0, -2.0, 3.5], [0.0, 0.25, 9.0]])
    colours = np.array([[255, 0, 7], [1, 2, 3]], np.uint8)
    write_ply(tmp_path / "a.ply", points, colours, np.array([0.5, 2.0], np.float32))
    header, body = (tmp_path / "a.ply").read_bytes().split(b"end_header\n")
    assert header.decode().splitlines() == [
        "ply",
        "format binary_little_endian 1.0",
        "element vertex 2",
        *(f"property float {axis}" for axis in "xyz"),
        *(f"property uchar {channel}" for channel in ("red", "green", "blue")),
        "property float confidence",
    ]
    rows = list(struct.iter_unpack("<3f3Bf", body))
    assert rows == [(1.0, -2.0, 3.5, 255, 0, 7, 0.5), (0.0, 0.25, 9.0, 1, 2, 3, 2.0)]


def test_far_points_have_double_precision(tmp_path: Path) -> None:
    points = np.array([[500000.123456, 5400000.654321, 312.0], [500000.2, 5400000.6, 312.5]])
    colours, sure = np.zeros((2, 3), np.uint8), np.ones(2, np.float32)
    write_ply(tmp_path / "a.ply", points, colours, sure, pixel=0.01)
    np.testing.assert_array_equal(places(read_points(tmp_path / "a.ply")), points)
    write_ply(tmp_path / "b.ply", points, colours, sure, pixel=100.0)
    assert b"double" not in (tmp_path / "b.ply").read_bytes()


def test_an_empty_cloud_is_a_cloud(tmp_path: Path) -> None:
    write_ply(tmp_path / "a.ply", np.empty((0, 3)), np.empty((0, 3), np.uint8), np.empty(0, np.float32))
    assert b"element vertex 0\n" in (tmp_path / "a.ply").read_bytes()


def test_shapes_that_disagree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="expected"):
        write_ply(tmp_path / "a.ply", np.zeros((2, 3)), np.zeros((1, 3), np.uint8), np.zeros(2, np.float32))
    assert not (tmp_path / "a.ply").exists()


def test_colours_follow_the_image_or_the_depth() -> None:
    depth = np.array([[1.0, np.nan, 2.0]], np.float32)
    grey = np.array([[0.0, 0.5, 1.0]], np.float32)
    np.testing.assert_array_equal(point_colours(depth, grey), [[0, 0, 0], [255, 255, 255]])
    rgb = np.stack([grey, 0 * grey, 1 - grey], axis=-1)
    np.testing.assert_array_equal(point_colours(depth, rgb), [[0, 0, 255], [255, 0, 0]])
    near, far = point_colours(depth, None)
    assert far.astype(int).sum() > near.astype(int).sum()
    np.testing.assert_array_equal(point_colours(depth * np.nan, None).shape, (0, 3))
