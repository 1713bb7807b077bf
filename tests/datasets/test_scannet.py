from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.errors import CameraError, FileError
from cfusion.geometry import Pinhole

DEPTH_K = "577.5 0 1.0 0\n0 578.5 0.5 0\n0 0 1 0\n0 0 0 1\n"


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes], pose: Matrix) -> Path:
    """Frames 0, 2 and 10; tracking was lost in frame 2."""
    for name in ("depth", "pose", "intrinsic", "color"):
        (tmp_path / name).mkdir()
    text = "\n".join(" ".join(str(value) for value in row) for row in pose)
    for number in (0, 2, 10):
        (tmp_path / "depth" / f"{number}.png").write_bytes(depth_png([[1500, 0, 2500], [1, 2, 3]]))
        (tmp_path / "pose" / f"{number}.txt").write_text("-inf " * 16 if number == 2 else text)
    (tmp_path / "intrinsic" / "intrinsic_depth.txt").write_text(DEPTH_K)
    return tmp_path


def test_lost_frames_are_skipped_and_numbers_are_numbers(folder: Path, pose: Matrix) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["0", "10"]
    assert "1 lost frame skipped" in views.sentence
    for view in views:
        np.testing.assert_allclose(view.depth, [[1.5, np.nan, 2.5], [0.001, 0.002, 0.003]], rtol=1e-6)
        np.testing.assert_allclose(view.pose.matrix(), pose)
        assert view.camera == Pinhole(577.5, 578.5, 1.0, 0.5, 3, 2)


def test_colour_has_its_own_size_and_intrinsics(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    """A colour camera of twice the focal length and pixels sees column 2u at the depth's column u."""
    levels = [bytes([10 * column for column in range(6)])] * 4
    (folder / "color" / "0.png").write_bytes(png_bytes(6, 4, levels, bits=8, colour=0))
    (folder / "intrinsic" / "intrinsic_color.txt").write_text("1155 0 2.0 0\n0 1157 1.0 0\n0 0 1 0\n0 0 0 1\n")
    image = read(folder)[0].image
    assert image is not None
    np.testing.assert_allclose(image * 255, [[0, 20, 40]] * 2, atol=1e-4)


def test_units_and_mistakes(folder: Path) -> None:
    assert read(folder, options={"units_per_metre": 5000.0})[0].depth[0, 0] == pytest.approx(0.3)
    (folder / "intrinsic" / "intrinsic_depth.txt").write_text("1 2 3")
    with pytest.raises(FileError, match="holds 3 numbers, expected 4 x 4 or 3 x 3"):
        read(folder)
    (folder / "intrinsic" / "intrinsic_depth.txt").write_text(DEPTH_K.replace("577.5", "-577.5"))
    with pytest.raises(CameraError, match=r"fx is -577\.5"):
        read(folder)[0]


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="scannet")))
