from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.errors import FileError
from cfusion.geometry import Pinhole


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes], pose: Matrix) -> Path:
    scene = tmp_path / "room0"
    (scene / "results").mkdir(parents=True)
    lines = []
    for number in range(3):
        (scene / "results" / f"depth{number:06d}.png").write_bytes(depth_png([[13107, 0], [32767, 1]]))
        lines.append(" ".join(str(value) for value in (pose * (np.nan if number == 1 else 1)).ravel()))
    (scene / "traj.txt").write_text("\n".join(lines))
    return scene


def test_6553_5_counts_a_metre_and_lost_frames(folder: Path, pose: Matrix) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["depth000000", "depth000002"]
    np.testing.assert_allclose(views[0].depth, [[2, np.nan], [32767 / 6553.5, 1 / 6553.5]], rtol=1e-6)
    np.testing.assert_allclose(views[0].pose.matrix(), pose)
    assert views[0].camera == Pinhole(600.0, 600.0, 599.5, 339.5, 2, 2)
    assert "6553.5 counts per metre" in views.sentence
    assert "1 lost frame skipped" in views.sentence


def test_parameters_beside_the_scenes(folder: Path) -> None:
    (folder.parent / "cam_params.json").write_text(
        '{"camera": {"w": 2, "h": 2, "fx": 300, "fy": 301, "cx": 1, "cy": 0.5, "scale": 1000}}'
    )
    view = read(folder)[0]
    assert view.camera == Pinhole(300.0, 301.0, 1.0, 0.5, 2, 2)
    assert view.depth[0, 0] == pytest.approx(13.107)


def test_fewer_poses_than_depth_maps(folder: Path) -> None:
    (folder / "traj.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1\n")
    with pytest.raises(FileError, match="1 poses for 3 depth maps"):
        read(folder)


def test_a_scene_of_lost_frames_only(folder: Path) -> None:
    (folder / "traj.txt").write_text("\n".join([" ".join(["nan"] * 16)] * 3))
    with pytest.raises(FileError, match=r"no results/depth\*\.png with a pose"):
        read(folder)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="replica")))
