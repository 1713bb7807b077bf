from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.datasets.readers.icl_nuim import CAMERA
from cfusion.errors import FileError

K = np.array([[481.2, 0, 319.5], [0, -480.0, 239.5], [0, 0, 1]])  # as published, fy negative
POSE = "0.5 0.25 -2 0 0.70710678 0 0.70710678"
ROTATION = np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])
CAMERA_FILE = """cam_pos      = [0.5, 1.25, -2.0]';
cam_dir      = [0.0, 0.0, 2.0]';
cam_up       = [0.0, 1.0, 0.0]';
cam_lookat   = [0.0, 0.0, 1.0]';
cam_sky      = [0.0, 1.0, 0.0]';
cam_right    = [1.5, 0.0, 0.0]';
cam_fpoint   = [0.0, 0.0, 1.0]';
cam_angle    = 90;
"""


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes]) -> Path:
    (tmp_path / "depth").mkdir()
    for number in (0, 1, 2, 10):
        (tmp_path / "depth" / f"{number}.png").write_bytes(depth_png([[5000, 0], [2500, 12500]]))
    (tmp_path / "livingRoom2.gt.freiburg").write_text(f"1 {POSE}\n2 0 0 0 0 0 0 1\n10 {POSE}\n")
    return tmp_path


def test_points_are_those_of_the_published_camera_but_mirrored(folder: Path) -> None:
    """With fy < 0 the published formulas give left-handed points; ours are these with y turned round."""
    views = read(folder)
    assert [view.name for view in views] == ["1", "2", "10"]
    assert "1 without a pose skipped" in views.sentence
    depth = np.array([[1, np.nan], [0.5, 2.5]])
    np.testing.assert_allclose(views[0].depth, depth, rtol=1e-6)
    v, u = np.mgrid[:2, :2]
    rays = np.stack([u, v, np.ones_like(u)], axis=-1) @ np.linalg.inv(K).T
    theirs = (rays * depth[..., None]) @ ROTATION.T + np.array([0.5, 0.25, -2])
    ours = views[0].pose.apply(views[0].camera.back_project(views[0].depth))
    np.testing.assert_allclose(ours, theirs * [1, -1, 1], atol=1e-6)
    assert views[0].camera.fy == 480 == -K[1, 1] == CAMERA[1]


def test_native_depth_is_the_length_of_the_ray(tmp_path: Path) -> None:
    """A wall at z = 2 in front of a camera of 3 x 2 pixels: the lengths differ, the depths do not."""
    fx, fy, cx, cy = 2 * 3 / 1.5, 2 * 2 / 1.0, 1.0, 0.5
    v, u = np.mgrid[:2, :3]
    lengths = 2 * np.sqrt(1 + ((u - cx) / fx) ** 2 + ((v - cy) / fy) ** 2)
    (tmp_path / "scene_00_0000.depth").write_text(" ".join(f"{value:.9f}" for value in lengths.ravel()) + " \n")
    (tmp_path / "scene_00_0000.txt").write_text(CAMERA_FILE)
    view = read(tmp_path, options={"shape": (2, 3)})[0]
    np.testing.assert_allclose(view.depth, np.full((2, 3), 2.0), rtol=1e-6)
    assert (view.camera.fx, view.camera.fy) == (fx, fy)
    np.testing.assert_allclose(view.pose.matrix()[:3, 3], [0.5, -1.25, -2])
    np.testing.assert_allclose(view.pose.rotation, np.eye(3))
    with pytest.raises(FileError, match="holds 6 numbers, expected 640 x 480"):
        read(tmp_path)[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CAMERA_FILE.replace("cam_up ", "cam_down "), "does not give cam_up"),
        (CAMERA_FILE.replace("[0.0, 1.0, 0.0]", "[0.0, 1.0]"), "does not give cam_up"),
        (CAMERA_FILE.replace("0.5, 1.25", "half, 1.25"), "'half' is not a number"),
        (CAMERA_FILE.replace("cam_right    = [1.5", "cam_right    = [0.0"), "scene_00_0000.txt"),
        (CAMERA_FILE.replace("cam_up       = [0.0, 1.0, 0.0]", "cam_up       = [0.0, 0.0, 0.0]"), "scene_00_0000.txt"),
    ],
)
def test_cameras_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "scene_00_0000.depth").write_text("1 1 1 1 1 1")
    (tmp_path / "scene_00_0000.txt").write_text(text)
    with pytest.raises(FileError) as caught:
        read(tmp_path, options={"shape": (2, 3)})[0]
    assert words in str(caught.value)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="icl-nuim")))


def test_any_bytes_of_the_native_files(tmp_path: Path, harm: Callable[..., None]) -> None:
    (tmp_path / "scene_00_0000.depth").write_text("1 1 1 1 1 1")
    (tmp_path / "scene_00_0000.txt").write_text(CAMERA_FILE)
    harm(tmp_path, lambda: list(read(tmp_path, format="icl-nuim", options={"shape": (2, 3)})))
