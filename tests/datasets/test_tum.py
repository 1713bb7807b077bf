from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cfusion import BrownConrady, read
from cfusion.arrays import Matrix
from cfusion.datasets import write_views
from cfusion.datasets.readers import tum
from cfusion.errors import FileError, InputError
from cfusion.geometry import Orthographic, Pinhole, Pose, View

POSE = "1 2 3 0 0.70710678 0 0.70710678"  # tx ty tz qx qy qz qw


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes]) -> Path:
    """Four depth maps; the trajectory starts late, loses track once and ends early."""
    place = tmp_path / "rgbd_dataset_freiburg2_xyz"
    (place / "depth").mkdir(parents=True)
    for name in ("a", "b", "c", "d"):
        (place / "depth" / f"{name}.png").write_bytes(depth_png([[5000, 0, 12500], [1, 65535, 256]]))
    (place / "depth.txt").write_text(
        "# timestamp filename\n10.00 depth/a.png\n11.00 depth/b.png\n12.00 depth/c.png\n13.00 depth/d.png\n"
    )
    (place / "groundtruth.txt").write_text(
        f"# timestamp tx ty tz qx qy qz qw\n10.015 {POSE}\n12.001 {POSE}\n12.5 0 0 0 0 0 0 1\n11.00 nan 0 0 0 0 0 1\n"
    )
    return place


def test_counts_order_of_the_quaternion_and_times(folder: Path, pose: Matrix) -> None:
    views = read(folder)
    assert [view.name for view in views] == ["10.000000", "12.000000"]
    for view in views:
        np.testing.assert_allclose(view.depth, [[1, np.nan, 2.5], [0.0002, np.nan, 0.0512]], rtol=1e-5)
        np.testing.assert_allclose(view.pose.matrix(), pose, atol=1e-8)
        assert view.camera == BrownConrady(520.9, 521.0, 325.1, 249.7, 3, 2, 0.2312, -0.7849, -0.0033, -0.0001, 0.9172)
    assert "5000 counts per metre" in views.sentence
    assert "1 lost frame skipped" in views.sentence
    assert "1 without a pose within 0.02 s skipped" in views.sentence


def test_options(folder: Path) -> None:
    views = read(folder, options={"camera": (1.0, 2, 3.0, 4.0), "units_per_metre": 1000, "seconds_apart": 0.6})
    assert views[0].camera == Pinhole(1.0, 2.0, 3.0, 4.0, 3, 2)
    assert views[0].depth[0, 0] == 5
    assert len(views) == 3  # the last one within 0.6 s of a pose
    for bad in ({"camera": (1.0, 2.0)}, {"units_per_metre": 0.0}):
        with pytest.raises(InputError):
            read(folder, options=bad)


def test_images_by_time(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    (folder / "rgb").mkdir()
    (folder / "rgb" / "x.png").write_bytes(png_bytes(3, 2, [bytes(range(9))] * 2, bits=8, colour=2))
    (folder / "rgb.txt").write_text("9.99 rgb/x.png\n")
    first, second = read(folder)
    assert first.image is not None
    np.testing.assert_allclose(first.image[0, 1], np.array([3, 4, 5]) / 255, atol=1e-6)
    assert second.image is None


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("depth.txt", "10.0 ../../secret.png\n", "leads out of"),
        ("depth.txt", "10.0 /etc/passwd\n", "leads out of"),
        ("depth.txt", "10.0\n", "write a time and a file name"),
        ("depth.txt", "soon depth/a.png\n", "'soon' is not a number"),
        ("groundtruth.txt", "10 1 2 3 0 0 0\n", "expected 8"),
        ("groundtruth.txt", "10 1 2 3 0 0 0 0.1\n", "quaternion"),
        ("groundtruth.txt", "99 1 2 3 0 0 0 1\n", "within 0.02 s of a pose"),
        ("groundtruth.txt", "\n", "within 0.02 s of a pose"),
    ],
)
def test_mistakes_are_one_line(folder: Path, file: str, text: str, words: str) -> None:
    (folder / file).write_text(text)
    with pytest.raises((FileError, InputError)) as caught:
        read(folder)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="tum")))


def test_round_trip(tmp_path: Path, some_views: list[View], same_views: Callable[..., None]) -> None:
    write_views(some_views, tmp_path / "out", "tum")
    assert (tmp_path / "out" / "groundtruth.txt").read_text().splitlines()[1].startswith("0.000000 ")
    same_views(read(tmp_path / "out"), some_views, step=1 / 5000, camera=False)  # K has no place in the format


@pytest.mark.parametrize(("format", "last"), [("tum", 65534 / 5000), ("open3d", 65.534)])
def test_depth_beyond_the_format_becomes_unknown(
    tmp_path: Path, some_views: list[View], format: str, last: float
) -> None:
    depth = np.full((5, 7), last)
    depth[0] += 0.01
    depth[0, 0] = np.float32(last * 65534.5 / 65534)  # half a count beyond the largest: there is none
    far = View(depth, some_views[0].camera, some_views[0].pose)
    write_views([far, some_views[1], some_views[1]], tmp_path / "out", format)
    found = read(tmp_path / "out")[0].depth
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1:], last, rtol=1e-6)


@pytest.mark.parametrize(("format", "unit"), [("tum", 1000.0), ("tum", 0.001), ("open3d", 1000.0)])
def test_depths_in_another_unit_are_not_lost_silently(
    tmp_path: Path, some_views: list[View], format: str, unit: float
) -> None:
    other = [replace(view, depth=view.depth * np.float32(unit)) for view in some_views]
    with pytest.raises(InputError, match=f"'{format}' stores depths from .* to .* metres, and .* lie outside"):
        write_views(other, tmp_path / "out", format)
    assert not (tmp_path / "out").exists()


def test_maps_of_parallel_rays_are_refused(tmp_path: Path) -> None:
    view = View(np.full((5, 7), 2.0), Orthographic(0.1, 3, 2, 7, 5), Pose.identity())
    with pytest.raises(InputError, match="'tum' stores pinhole cameras"):
        write_views([view], tmp_path / "out", "tum")


def test_poses_in_a_map_projection_keep_their_digits(tmp_path: Path, some_views: list[View]) -> None:
    place = np.array([500000.1234, 5400000.5678, 300.0])
    write_views([replace(some_views[0], pose=Pose(np.eye(3), place))], tmp_path / "out", "tum")
    np.testing.assert_array_equal(read(tmp_path / "out")[0].pose.translation, place)


@pytest.mark.parametrize(
    ("name", "intrinsics", "lens"),
    [
        ("freiburg1_desk", (517.3, 516.5, 318.6, 255.3), (0.2624, -0.9531, -0.0054, 0.0026, 1.1633)),
        ("Freiburg2_xyz", (520.9, 521.0, 325.1, 249.7), (0.2312, -0.7849, -0.0033, -0.0001, 0.9172)),
        ("freiburg3_long_office", (535.4, 539.2, 320.1, 247.6), ()),
        ("elsewhere", (525.0, 525.0, 319.5, 239.5), ()),
    ],
)
def test_cameras_are_those_of_the_page_of_the_data_set(
    tmp_path: Path, name: str, intrinsics: tuple[float, ...], lens: tuple[float, ...]
) -> None:
    """Its table "intrinsic camera calibration", RGB; for others the default of its drivers."""
    assert tum._camera(tmp_path / name, tum.Options())[0] == (*intrinsics, *lens)
