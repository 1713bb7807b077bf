from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.errors import FileError, PoseError
from cfusion.geometry import Pinhole, View


def lay_down(folder: Path, png: bytes, poses: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(poses):
        (folder / f"frame-{number:06d}.depth.png").write_bytes(png)
        (folder / f"frame-{number:06d}.pose.txt").write_text(text)
    return folder


def text_of(matrix: Matrix) -> str:
    return "\n".join("\t ".join(f"{value:.7e}" for value in row) + "\t" for row in matrix) + "\n"


@pytest.fixture
def png(depth_png: Callable[..., bytes]) -> bytes:
    return depth_png([[1000, 0, 65535], [300, 65534, 1]])


def test_missing_is_0_and_65535_and_bytes_are_not_lost(tmp_path: Path, png: bytes, pose: Matrix) -> None:
    views = read(lay_down(tmp_path, png, [text_of(pose)]))
    np.testing.assert_allclose(views[0].depth, [[1, np.nan, np.nan], [0.3, 65.534, 0.001]], rtol=1e-6)
    np.testing.assert_allclose(views[0].pose.matrix(), pose, atol=1e-7)
    assert views[0].camera == Pinhole(585.0, 585.0, 320.0, 240.0, 3, 2)
    assert views.sentence.startswith("7-Scenes: millimetres / 1000, 0 and 65535 = missing, camera-to-world")


def test_rotations_that_are_not_quite_orthonormal_are_mended(tmp_path: Path, png: bytes, pose: Matrix) -> None:
    pose[:3, :3] *= 0.9998  # det 0.9994, as in the files of the set
    found = read(lay_down(tmp_path, png, [text_of(pose)]))[0].pose.rotation
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
    pose[:3, :3] *= 1.1
    with pytest.raises(PoseError, match=r"frame-000000\.pose\.txt.*not rigid"):
        read(lay_down(tmp_path, png, [text_of(pose)]))


def test_lost_frames_are_counted(tmp_path: Path, png: bytes, pose: Matrix) -> None:
    lost = "-1.#IND 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n"
    views = read(lay_down(tmp_path, png, [text_of(pose), lost, text_of(np.full((4, 4), -np.inf)), text_of(pose)]))
    assert [view.name for view in views] == ["frame-000000", "frame-000003"]
    assert "2 lost frames skipped" in views.sentence
    with pytest.raises(FileError, match=r"holds no frame-.* with a pose"):
        read(lay_down(tmp_path / "lost", png, [lost, lost]))


def test_all_sequences_of_a_scene_and_own_intrinsics(tmp_path: Path, png: bytes, pose: Matrix) -> None:
    for name in ("seq-02", "seq-10"):
        lay_down(tmp_path / name, png, [text_of(pose)] * 2)
    (tmp_path / "camera-intrinsics.txt").write_text("500 0 1\n0 501 2\n0 0 1\n")
    assert len(read(tmp_path)) == 4
    assert read(tmp_path / "seq-02")[0].camera == Pinhole(500.0, 501.0, 1.0, 2.0, 3, 2)


def test_frames_are_read_when_asked_for(tmp_path: Path, png: bytes, pose: Matrix) -> None:
    views = read(lay_down(tmp_path, png, [text_of(pose)] * 40))
    (tmp_path / "frame-000007.depth.png").unlink()
    assert isinstance(views[6], View)
    assert views[6] is views[6]  # kept
    assert len(views[::10]) == 4
    assert views[::10].sentence == views.sentence
    with pytest.raises(FileError, match=r"frame-000007\.depth\.png does not exist"):
        views[7]


def test_any_bytes(tmp_path: Path, png: bytes, pose: Matrix, harm: Callable[..., None]) -> None:
    lay_down(tmp_path, png, [text_of(pose)] * 2)
    harm(tmp_path, lambda: list(read(tmp_path, format="7-scenes")))


@pytest.mark.data
def test_neighbours_of_the_real_set_agree(real_data: Callable[[str], Path]) -> None:
    views = read(real_data("seven_scenes"))
    assert len(views) == 60
    assert views[0].shape == (480, 640)
    assert views[0].image is not None
    assert _residual(views[0], views[10]) < 0.005
    assert _residual(views[20], views[50]) < 0.008
    wrong = [replace(views[number], pose=views[number].pose.inverse()) for number in (20, 50)]
    assert _residual(*wrong) > 0.03


def _residual(view: View, other: View) -> float:
    """Median relative difference of depth of one view thrown into another."""
    points = (other.pose.inverse() @ view.pose).apply(view.camera.back_project(view.depth).reshape(-1, 3))
    u, v, z = other.camera.project(points)
    inside = (u >= 0) & (v >= 0) & (u < other.shape[1] - 0.5) & (v < other.shape[0] - 0.5)
    measured = other.depth[np.rint(v[inside]).astype(int), np.rint(u[inside]).astype(int)]
    return float(np.nanmedian(np.abs(measured / z[inside] - 1)))
