import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.datasets import write_views
from cfusion.datasets.readers.openmvs import read_dmap
from cfusion.errors import FileError
from cfusion.geometry import Pinhole, View

K = (100.0, 0.0, 5.5, 0.0, 102.0, 3.5, 0.0, 0.0, 1.0)  # of a 12 x 8 image
NAME = b"images/a.png"


def numbers(pose: Matrix) -> bytes:
    """K, R (world-to-camera) and the camera's centre C, which is not -R C."""
    return struct.pack("<9d9d3d", *K, *pose[:3, :3].T.ravel(), *pose[:3, 3])


def dr_bytes(pose: Matrix, *, flags: int = 7, name: bytes = NAME, size: tuple[int, int] = (3, 2)) -> bytes:
    """Depth, normals and confidence as float32."""
    head = struct.pack("<2sBBIIIIff", b"DR", flags, 0, 12, 8, *size, 0.5, 6.0)
    head += struct.pack("<H", len(name)) + name + struct.pack("<I3I", 3, 7, 8, 9) + numbers(pose)
    body = struct.pack("<6f", 1, 2, 3, 4, 0, 6) + struct.pack("<18f", *range(18))
    return head + body + struct.pack("<6f", 0.25, 1.5, 7, 0, 1, 1)


def d2_bytes(pose: Matrix) -> bytes:
    """Depth as half floats divided by 2^3, normals as two int16, confidence as bytes of 2.55."""
    head = struct.pack("<2sBbIIIIfff", b"D2", 7, 3, 12, 8, 3, 2, 0.5, 6.0, 2.55)
    head += struct.pack("<H", 0) + struct.pack("<I1I", 1, 7) + numbers(pose)
    body = struct.pack("<6e", *(value / 8 for value in (1, 2, 3, 4, 0, 6))) + struct.pack("<12h", *range(12))
    return head + body + bytes([25, 150, 255, 0, 100, 100])


@pytest.mark.parametrize("make", [dr_bytes, d2_bytes])
def test_centre_scaled_k_and_confidence_beyond_one(tmp_path: Path, pose: Matrix, make: Callable[..., bytes]) -> None:
    (tmp_path / "depth0010.dmap").write_bytes(make(pose))
    (tmp_path / "depth0002.dmap").write_bytes(make(pose))
    views = read(tmp_path)
    assert [view.name for view in views] == ["depth0002", "depth0010"]
    view = views[0]
    np.testing.assert_array_equal(view.depth, np.array([[1, 2, 3], [4, np.nan, 6]], np.float32))
    np.testing.assert_allclose(view.pose.matrix(), pose)
    assert view.camera == Pinhole(25.0, 25.5, 1.0, 0.5, 3, 2)  # a quarter of the image, corners kept
    assert view.confidence is not None
    expected = [[0.25, 1.5, 7], [0, 0, 1]] if make is dr_bytes else [[0.25, 1.5, 2.55], [0, 0, 1]]
    np.testing.assert_allclose(view.confidence, expected, rtol=1e-6)
    assert read(tmp_path, options={"confidence": False})[0].confidence is None


def test_maps_that_are_not_there(tmp_path: Path, pose: Matrix) -> None:
    (tmp_path / "a.dmap").write_bytes(dr_bytes(pose, flags=1)[: -24 - 72])
    assert read_dmap(tmp_path / "a.dmap").confidence is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda pose: b"", "starts with b''"),
        (lambda pose: b"PNG" + bytes(200), "instead of 'DR' or 'D2'"),
        (lambda pose: dr_bytes(pose)[:20], "truncated in its header"),
        (lambda pose: dr_bytes(pose)[:-1], "truncated"),
        (lambda pose: dr_bytes(pose, flags=6), "claims 3 x 2 depths"),
        (lambda pose: dr_bytes(pose, size=(31623, 31623)), "claims 31623 x 31623"),
        (lambda pose: dr_bytes(pose, name=b"../../a.png"), "leads out of"),
    ],
)
def test_files_that_are_none(tmp_path: Path, pose: Matrix, make: Callable[..., bytes], words: str) -> None:
    (tmp_path / "a.dmap").write_bytes(make(pose))
    with pytest.raises(FileError, match=r"a\.dmap") as caught:
        read(tmp_path)[0]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lost_frames_are_skipped(tmp_path: Path, pose: Matrix) -> None:
    (tmp_path / "a.dmap").write_bytes(dr_bytes(pose))
    (tmp_path / "b.dmap").write_bytes(dr_bytes(pose * np.nan))
    assert len(read(tmp_path)) == 1
    assert "1 lost frame skipped" in read(tmp_path).sentence
    (tmp_path / "a.dmap").unlink()
    with pytest.raises(FileError, match=r"holds no \.dmap with a pose"):
        read(tmp_path)


def test_any_bytes(tmp_path: Path, pose: Matrix, harm: Callable[..., None]) -> None:
    (tmp_path / "a.dmap").write_bytes(dr_bytes(pose))
    (tmp_path / "b.dmap").write_bytes(d2_bytes(pose))
    harm(tmp_path, lambda: list(read(tmp_path, format="openmvs")))


def test_round_trip(tmp_path: Path, some_views: list[View], same_views: Callable[..., None]) -> None:
    write_views(some_views, tmp_path / "out", "openmvs")
    same_views(read(tmp_path / "out"), some_views, confidence=True)
