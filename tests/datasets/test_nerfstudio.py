import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.datasets import write_views
from cfusion.errors import CFusionError, FileError
from cfusion.geometry import Pinhole, View

OPENGL = np.diag([1.0, -1, -1, 1])


@pytest.fixture
def content(pose: Matrix) -> dict[str, Any]:
    return {
        "camera_model": "OPENCV",
        **{"fl_x": 50, "fl_y": 51, "cx": 2.0, "cy": 1.0, "w": 3, "h": 2, "k1": 0.0},
        "frames": [
            {"file_path": "images/0.png", "depth_file_path": "d.png", "transform_matrix": (pose @ OPENGL).tolist()},
            {"file_path": "images/1.png", "transform_matrix": np.eye(4).tolist()},
        ],
    }


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes]) -> Path:
    (tmp_path / "d.png").write_bytes(depth_png([[1000, 0, 2500]] * 2))
    np.save(tmp_path / "d.npy", np.array([[1000, 0, 2500]] * 2, np.float32))
    return tmp_path


def test_opengl_axes_half_pixels_and_millimetres(folder: Path, content: dict[str, Any], pose: Matrix) -> None:
    (folder / "transforms.json").write_text(json.dumps(content))
    for path in (folder, folder / "transforms.json"):
        views = read(path)
        assert len(views) == 1  # the other frame has no depth
        np.testing.assert_allclose(views[0].pose.matrix(), pose)
        np.testing.assert_allclose(views[0].depth, [[1, np.nan, 2.5]] * 2)
        assert views[0].camera == Pinhole(50.0, 51.0, 1.5, 0.5, 3, 2)


@pytest.mark.parametrize("key", ["depth_unit_scale_factor", "integer_depth_scale"])
@pytest.mark.parametrize("name", ["d.png", "d.npy"])
def test_scale_factor_of_the_file_is_for_both_kinds_of_map(
    folder: Path, content: dict[str, Any], key: str, name: str
) -> None:
    content["frames"][0]["depth_file_path"] = name
    (folder / "transforms.json").write_text(json.dumps(content | {key: 0.01}))
    np.testing.assert_allclose(read(folder)[0].depth, [[10, np.nan, 25]] * 2, rtol=1e-6)
    assert read(folder, options={"depth_unit_scale_factor": 1.0})[0].depth[0, 0] == 1000


def test_focal_length_from_a_field_of_view(folder: Path, content: dict[str, Any]) -> None:
    """Of the width alone, as Blender writes it, or of both sides; a stated focal length comes first."""
    field, tall = 2 * np.arctan(3 / 2 / 50), 2 * np.arctan(2 / 2 / 51)
    without = {key: value for key, value in content.items() if key not in ("fl_x", "fl_y")}
    for more, fy in (({}, 50.0), ({"camera_angle_y": tall}, 51.0)):
        (folder / "transforms.json").write_text(json.dumps(without | {"camera_angle_x": field} | more))
        camera = read(folder)[0].camera
        np.testing.assert_allclose((camera.fx, camera.fy, camera.cx, camera.cy), (50, fy, 1.5, 0.5))
    (folder / "transforms.json").write_text(json.dumps(content | {"camera_angle_x": 0.1}))
    assert read(folder)[0].camera.fx == 50
    (folder / "transforms.json").write_text(json.dumps(without | {"camera_angle_x": 90.0}))
    with pytest.raises(FileError, match="camera_angle_x is 90; give a field of view in radians"):
        read(folder)[0]


def test_the_principal_point_is_the_middle_of_the_image_unless_stated(folder: Path, content: dict[str, Any]) -> None:
    without = {key: value for key, value in content.items() if key not in ("cx", "cy")}
    (folder / "transforms.json").write_text(json.dumps(without))
    camera = read(folder)[0].camera
    assert (camera.cx, camera.cy) == ((camera.width - 1) / 2, (camera.height - 1) / 2)


def test_intrinsics_of_a_frame_and_of_a_smaller_map(folder: Path, content: dict[str, Any]) -> None:
    content["frames"][0] |= {"fl_x": 100, "fl_y": 102, "cx": 4.0, "cy": 2.0, "w": 6, "h": 4}
    (folder / "transforms.json").write_text(json.dumps(content))
    assert read(folder)[0].camera == Pinhole(50.0, 51.0, 1.5, 0.5, 3, 2)


@pytest.mark.parametrize(
    ("changes", "frame", "words"),
    [
        ({}, {"depth_file_path": "../secret.npy"}, "leads out of"),
        ({}, {"depth_file_path": None}, "lists no depth maps"),
        ({}, {"transform_matrix": [[1, 2], [3, 4]]}, "expected 4 x 4"),
        ({"k4": 0.2}, {}, "a fisheye (k4)"),
        ({"camera_model": "OPENCV_FISHEYE"}, {}, "a fisheye (OPENCV_FISHEYE)"),
        ({"fl_x": None}, {}, "has no fl_x"),
        ({"w": 0}, {}, "empty size"),
        ({"depth_unit_scale_factor": -1}, {}, "give a positive scale"),
        ({"frames": {}}, {}, "expected a list"),
    ],
)
def test_mistakes(
    folder: Path, content: dict[str, Any], changes: dict[str, Any], frame: dict[str, Any], words: str
) -> None:
    content["frames"][0] |= frame
    (folder / "transforms.json").write_text(json.dumps(content | changes))
    with pytest.raises(FileError) as caught:
        read(folder)[0]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bent_lens_is_read_and_can_be_taken_for_straight(folder: Path, content: dict[str, Any]) -> None:
    (folder / "transforms.json").write_text(json.dumps(content | {"k1": 0.001}))
    assert read(folder, options={"ignore_distortion": True})[0].camera.distortion == (0.0,) * 5
    assert read(folder)[0].camera.distortion == (0.001, 0.0, 0.0, 0.0, 0.0)


def test_any_bytes(folder: Path, content: dict[str, Any], harm: Callable[..., None]) -> None:
    (folder / "transforms.json").write_text(json.dumps(content))
    harm(folder, lambda: list(read(folder, format="nerfstudio")))


def test_any_value(folder: Path, content: dict[str, Any]) -> None:
    for key in content["frames"][0]:
        for value in (None, 3, "x", [], {}, [[1]], float("nan"), 10**400, "a\0b", True):
            changed = json.loads(json.dumps(content))
            changed["frames"][0][key] = value
            (folder / "transforms.json").write_text(json.dumps(changed))
            try:
                list(read(folder))
            except CFusionError as error:
                assert "\n" not in str(error)


def test_round_trip(tmp_path: Path, some_views: list[View], same_views: Callable[..., None]) -> None:
    write_views(some_views, tmp_path / "out", "nerfstudio")
    same_views(read(tmp_path / "out"), some_views)
    first = json.loads((tmp_path / "out" / "transforms.json").read_text())["frames"][0]
    np.testing.assert_allclose(first["transform_matrix"], some_views[0].pose.matrix() @ OPENGL)
    assert first["cx"] == some_views[0].camera.cx + 0.5
