import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.datasets import write_views
from cfusion.errors import FileError
from cfusion.geometry import Pinhole, View


def log_of(*poses: Matrix) -> str:
    lines = []
    for number, pose in enumerate(poses):
        lines += [f"{number} {number} {number + 1}", *(" ".join(str(value) for value in row) for row in pose)]
    return "\n".join(lines) + "\n"


def json_of(*poses: Matrix) -> dict[str, Any]:
    """World-to-camera, column after column, as Open3D writes it."""
    k = np.array([[50, 0, 1.5], [0, 51, 0.5], [0, 0, 1]])
    return {
        "class_name": "PinholeCameraTrajectory",
        "parameters": [
            {
                "class_name": "PinholeCameraParameters",
                "extrinsic": np.linalg.inv(pose).flatten(order="F").tolist(),
                "intrinsic": {"width": 3, "height": 2, "intrinsic_matrix": k.flatten(order="F").tolist()},
                "version_major": 1,
                "version_minor": 0,
            }
            for pose in poses
        ],
        "version_major": 1,
        "version_minor": 0,
    }


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes], pose: Matrix) -> Path:
    (tmp_path / "depth").mkdir()
    for number in (2, 10):
        (tmp_path / "depth" / f"{number}.png").write_bytes(depth_png([[1000, 0, 2500]] * 2))
    (tmp_path / "trajectory.log").write_text(log_of(np.eye(4), pose))
    return tmp_path


def test_log_is_camera_to_world_by_rows(folder: Path, pose: Matrix) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["2", "10"]
    np.testing.assert_allclose(views[1].pose.matrix(), pose)
    np.testing.assert_allclose(views[1].depth, [[1, np.nan, 2.5]] * 2)
    assert views[1].camera == Pinhole(525.0, 525.0, 319.5, 239.5, 3, 2)
    (folder / "camera_intrinsic.json").write_text(
        json.dumps({"width": 3, "height": 2, "intrinsic_matrix": [9, 0, 0, 0, 8, 0, 1, 0.5, 1]})
    )
    assert read(folder)[0].camera == Pinhole(9.0, 8.0, 1.0, 0.5, 3, 2)
    assert read(folder, options={"camera": (1.0, 2.0, 3.0, 4.0)})[0].camera == Pinhole(1.0, 2.0, 3.0, 4.0, 3, 2)


def test_json_is_world_to_camera_by_columns(folder: Path, pose: Matrix) -> None:
    (folder / "trajectory.json").write_text(json.dumps(json_of(np.eye(4), pose)))
    views = read(folder)
    np.testing.assert_allclose(views[1].pose.matrix(), pose, atol=1e-12)
    assert views[1].camera == Pinhole(50.0, 51.0, 1.5, 0.5, 3, 2)
    assert "by columns" in views.sentence


def test_mistakes(folder: Path, pose: Matrix) -> None:
    (folder / "trajectory.log").write_text(log_of(pose))
    with pytest.raises(FileError, match="1 poses for 2 depth maps"):
        read(folder)
    (folder / "trajectory.log").write_text("\n".join(log_of(pose, pose).splitlines()[:-1]))
    with pytest.raises(FileError, match="has 9 lines, expected 5 per pose; copy it again"):
        read(folder)
    content = json_of(pose, pose)
    content["parameters"][0]["extrinsic"] = [1, 2, 3]
    (folder / "trajectory.json").write_text(json.dumps(content))
    with pytest.raises(FileError, match="expected 16 numbers by columns"):
        read(folder)


def test_lost_frames_are_skipped(folder: Path, pose: Matrix) -> None:
    (folder / "trajectory.log").write_text(log_of(pose * np.nan, pose))
    assert [view.name for view in read(folder)] == ["10"]
    assert "1 lost frame skipped" in read(folder).sentence
    (folder / "trajectory.log").write_text(log_of(pose * np.nan, pose * np.nan))
    with pytest.raises(FileError, match=r"holds no depth/\*\.png with a pose"):
        read(folder)


def test_any_bytes(folder: Path, pose: Matrix, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="open3d")))
    (folder / "trajectory.json").write_text(json.dumps(json_of(np.eye(4), pose)))
    harm(folder, lambda: list(read(folder, format="open3d")))


@pytest.mark.parametrize("without", ["trajectory.json", "trajectory.log"])
def test_round_trip(tmp_path: Path, some_views: list[View], same_views: Callable[..., None], without: str) -> None:
    write_views(some_views, tmp_path / "out", "open3d")
    (tmp_path / "out" / without).unlink()
    same_views(read(tmp_path / "out"), some_views, step=0.001, camera=without == "trajectory.log")
