import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.datasets import write_views
from cfusion.datasets.readers.mvsnet import read_pairs
from cfusion.errors import FileError
from cfusion.geometry import Pinhole, View

PFM = b"Pf\n3 2\n-1.0\n"


def camera_text(pose: Matrix, k: str = "50 0 1.5\n0 51 0.5\n0 0 1") -> str:
    rows = "\n".join(" ".join(str(value) for value in row) for row in np.linalg.inv(pose))
    return f"extrinsic\n{rows}\n\nintrinsic\n{k}\n\n425.0 2.5\n"


@pytest.fixture
def folder(tmp_path: Path, pose: Matrix) -> Path:
    """BlendedMVS' folders with a probability map beside."""
    for name in ("cams", "rendered_depth_maps", "confidence"):
        (tmp_path / name).mkdir()
    for number in (2, 10):
        (tmp_path / "cams" / f"{number:08d}_cam.txt").write_text(camera_text(pose))
        body = struct.pack("<6f", 4, 5, 0, 1, 2, 3)  # the bottom row first
        (tmp_path / "rendered_depth_maps" / f"{number:08d}.pfm").write_bytes(PFM + body)
    (tmp_path / "confidence" / "00000002.pfm").write_bytes(PFM + struct.pack("<6f", 0.4, 0.5, 0.6, 0.1, 0, 1))
    (tmp_path / "cams" / "pair.txt").write_text("2\n0\n2 10 2346.4 1 2036.5\n1\n1 9 3.5\n")
    return tmp_path


def test_world_to_camera_and_probability_as_confidence(folder: Path, pose: Matrix) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["00000002", "00000010"]
    np.testing.assert_array_equal(views[0].depth, np.array([[1, 2, 3], [4, 5, np.nan]], np.float32))
    np.testing.assert_allclose(views[0].pose.matrix(), pose, atol=1e-12)
    assert views[0].camera == Pinhole(50.0, 51.0, 1.5, 0.5, 3, 2)
    assert views[0].confidence is not None
    np.testing.assert_allclose(views[0].confidence, [[0.1, 0, 1], [0.4, 0.5, 0]], rtol=1e-6)
    assert views[1].confidence is None
    assert "probability as confidence" in views.sentence  # of one of them is enough
    assert "confidence" not in read(folder, options={"confidence": False}).sentence
    assert read(folder, options={"confidence": False})[0].confidence is None


def test_k_of_the_image_is_scaled_to_a_smaller_map(folder: Path, pose: Matrix, png_bytes: Callable[..., bytes]) -> None:
    text = camera_text(pose, "200 0 6\n0 204 4\n0 0 1")
    (folder / "cams" / "00000002_cam.txt").write_text(text)
    with pytest.raises(FileError, match="a larger image, which is missing"):
        read(folder)[0]
    (folder / "blended_images").mkdir()
    rows = [bytes(12)] * 8
    (folder / "blended_images" / "00000002.png").write_bytes(png_bytes(12, 8, rows, bits=8, colour=0))
    view = read(folder)[0]
    assert view.camera == Pinhole(50.0, 51.0, 1.5, 1.0, 3, 2)
    assert view.image is not None


def test_mvsnets_own_folder(tmp_path: Path, pose: Matrix) -> None:
    own = tmp_path / "depths_mvsnet"
    own.mkdir()
    (own / "00000000.txt").write_text(camera_text(pose))
    (own / "00000000_init.pfm").write_bytes(PFM + struct.pack("<6f", 4, 5, 6, 1, 2, 3))
    (own / "00000000_prob.pfm").write_bytes(PFM + struct.pack("<6f", *[0.5] * 6))
    for path in (tmp_path, own):
        view = read(path)[0]
        assert view.depth[0, 0] == 1
        assert view.confidence is not None
        assert view.confidence[0, 0] == 0.5


def test_pairs(folder: Path) -> None:
    assert read_pairs(folder / "cams" / "pair.txt") == {0: (10, 1), 1: (9,)}
    (folder / "cams" / "pair.txt").write_text("1\n0\n3 10 2346.4\n")
    with pytest.raises(FileError, match="lists 3 views"):
        read_pairs(folder / "cams" / "pair.txt")


def test_cameras_that_are_none(folder: Path, pose: Matrix) -> None:
    file = folder / "cams" / "00000002_cam.txt"
    for text, words in (
        ("extrinsic\n1 0 0\n", "no complete extrinsic"),
        (camera_text(pose).replace("intrinsic\n50", "intrinsic\nfifty"), "'fifty' is not a number"),
        (camera_text(pose).replace("\nintrinsic", "\nintrinsics"), "no complete intrinsic"),
        (camera_text(pose).split("0 0 1\n")[0], "no complete intrinsic"),
    ):
        file.write_text(text)
        with pytest.raises(FileError, match=words):
            read(folder)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="mvsnet")))


def test_round_trip(tmp_path: Path, some_views: list[View], same_views: Callable[..., None]) -> None:
    write_views(some_views, tmp_path / "out", "mvsnet")
    same_views(read(tmp_path / "out"), some_views, confidence=True)
    assert set(read_pairs(tmp_path / "out" / "pair.txt")) == {0, 1, 2}
