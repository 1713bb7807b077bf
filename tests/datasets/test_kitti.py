import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cfusion import read
from cfusion.arrays import Matrix
from cfusion.datasets.kitti_bundle import write_disparity
from cfusion.datasets.readers import kitti
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.io.codecs.kitti_poses import read_localization

P0 = "700 0 1.5 0 0 700 0.5 0 0 0 1 0"
P1 = "700 0 1.5 -350 0 700 0.5 0 0 0 1 0"  # 0.5 m to the right
P2 = "700 0 1.5 40 0 700 0.5 0 0 0 1 0"
P3 = "700 0 1.5 -310 0 700 0.5 0 0 0 1 0"


@pytest.fixture
def grey(png_bytes: Callable[..., bytes]) -> bytes:
    return png_bytes(3, 2, [bytes([0, 51, 255])] * 2, bits=8, colour=0)


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes], grey: bytes) -> Path:
    """Bundle 27 of the layout of 2012: frames 07, 09 and 10, of which 07 lacks its right image."""
    training = tmp_path / "kitti" / "training"
    for name in ("image_0", "image_1", "calib", "disp_occ", "disp_noc"):
        (training / name).mkdir(parents=True)
    for frame in (7, 9, 10):
        (training / "image_0" / f"000027_{frame:02d}.png").write_bytes(grey)
        if frame != 7:
            (training / "image_1" / f"000027_{frame:02d}.png").write_bytes(grey)
    (training / "calib" / "000027.txt").write_text(f"P0: {P0}\nP1: {P1}\nP2: {P2}\nP3: {P3}\n")
    (training / "disp_occ" / "000027_10.png").write_bytes(depth_png([[256 * 35, 0, 128], [25600, 3584, 0]]))
    (training / "disp_noc" / "000027_10.png").write_bytes(depth_png([[256 * 35, 0, 0], [25600, 3584, 0]]))
    return training


def test_disparity_is_value_over_256_and_0_is_unknown(folder: Path) -> None:
    for path in (folder, folder.parent):
        views = read(path, options={"disparity": "truth"})
        assert len(views) == 1
        disparity = np.array([[35, np.nan, 0.5], [100, 14, np.nan]])
        expected = 350 / disparity
        expected[0, 2] = np.nan  # 700 m: beyond what stereo knows
        np.testing.assert_allclose(views[0].depth, expected, rtol=1e-6)
        assert views[0].camera == Pinhole(700.0, 700.0, 1.5, 0.5, 3, 2)
        np.testing.assert_allclose(views[0].image, [[0, 0.2, 1]] * 2, atol=1e-6)
    assert "value" not in views.sentence
    assert "/ 256" in views.sentence
    assert views.sentence.endswith("; 1 frame")  # none was lost
    assert np.isfinite(read(folder, options={"farthest": 1000.0, "disparity": "truth"})[0].depth[0, 2])


def test_a_bundle_with_missing_frames(folder: Path) -> None:
    bundle = kitti.open_bundle(folder, 27)
    assert bundle.frames == (9, 10)
    assert bundle.calibration.focal_baseline == 350
    assert bundle.calibration.baseline == 0.5
    assert bundle.left(9).shape == bundle.right(9).shape == (2, 3)
    assert np.isnan(bundle.truth(occluded=False)).sum() == np.isnan(bundle.truth()).sum() + 1 == 3
    assert kitti.bundles(folder) == (27,)
    with pytest.raises(FileError, match="no pair of images of bundle 5; there are: 27"):
        kitti.open_bundle(folder, 5)


def test_two_colour_layouts(tmp_path: Path, folder: Path, png_bytes: Callable[..., bytes]) -> None:
    colour = png_bytes(1, 1, [bytes([255, 0, 51])], bits=8, colour=2)
    for name in ("colored_0", "colored_1"):
        (folder / name).mkdir()
        (folder / name / "000027_10.png").write_bytes(colour)
    bundle = kitti.open_bundle(folder, 27, colour=True)
    assert bundle.layout.name == "2012 colour"
    assert bundle.calibration.focal_baseline == 350  # 40 + 310
    np.testing.assert_allclose(bundle.left(10), [[[1, 0, 0.2]]], atol=1e-6)
    newer = tmp_path / "2015" / "training"
    for name in ("image_2", "image_3", "calib_cam_to_cam"):
        (newer / name).mkdir(parents=True)
    for name in ("image_2", "image_3"):
        (newer / name / "000003_10.png").write_bytes(colour)
    (newer / "calib_cam_to_cam" / "000003.txt").write_text(
        f"calib_time: 09-Jan-2012 13:57:47\nP_rect_02: {P2}\nP_rect_03: {P3}\n"
    )
    bundle = kitti.open_bundle(newer, 3)
    assert (bundle.layout.name, bundle.calibration.focal_baseline) == ("2015 colour", 350)
    with pytest.raises(FileError, match="match them first"):
        kitti.read(newer)
    with pytest.raises(FileError, match="no ground truth of bundle 3"):
        read(newer, options={"disparity": "truth"})


def test_disparity_maps_of_a_matcher_with_a_localisation(
    folder: Path, depth_png: Callable[..., bytes], pose: Matrix
) -> None:
    """Cell k is frame first_frame + k, camera-to-world; the first one is stored as bytes, one was lost."""
    (folder / "sgbm").mkdir()
    for frame in (9, 10):
        (folder / "sgbm" / f"000027_{frame:02d}.png").write_bytes(depth_png([[256 * 70, 0, 2560]] * 2))
    write_mat(folder.parent / "localization" / "bundle_loc_viso_training.mat", pose)
    views = read(folder, options={"bundle": 27, "disparity": "sgbm"})
    assert [view.name for view in views] == ["000027_09", "000027_10"]
    assert views.reference == 1
    np.testing.assert_allclose(views[1].depth, [[5, np.nan, 35]] * 2, rtol=1e-6)
    np.testing.assert_allclose(views[0].pose.matrix(), np.eye(4))
    np.testing.assert_allclose(views[1].pose.matrix(), pose)
    with pytest.raises(FileError, match="holds no disparity map"):
        read(folder, options={"disparity": "nowhere"})
    poses = read_localization(folder.parent / "localization" / "bundle_loc_viso_training.mat", 27)
    assert sorted(poses) == [9, 10, 12]
    assert poses[9].rotation.dtype == np.float64


def write_mat(file: Path, pose: Matrix) -> None:
    io = pytest.importorskip("scipy.io")
    file.parent.mkdir()
    cells = np.empty((1, 4), dtype=object)
    for place, matrix in enumerate((np.eye(4, dtype=np.uint8), pose, np.full((4, 4), np.nan), pose)):
        cells[0, place] = matrix
    entries = np.zeros((1, 28), dtype=[("localization", "O"), ("first_frame", "O")])
    entries[0, 27] = (cells, 9)
    io.savemat(file, {"bundle_data": entries})


def test_localisations_that_are_none(tmp_path: Path, pose: Matrix) -> None:
    file = tmp_path / "loc" / "a.mat"
    write_mat(file, pose)
    with pytest.raises(FileError, match="bundles 0 to 27; bundle 28 does not exist"):
        read_localization(file, 28)
    with pytest.raises(FileError, match="bundle 3 is not"):
        read_localization(file, 3)
    file.write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(FileError, match=r"a\.mat is not a MATLAB file"):
        read_localization(file, 0)
    with pytest.raises(FileError, match="does not exist"):
        read_localization(tmp_path / "b.mat", 0)


def test_odometry(tmp_path: Path, depth_png: Callable[..., bytes], grey: bytes, pose: Matrix) -> None:
    sequence = tmp_path / "sequences" / "04"
    (sequence / "image_0").mkdir(parents=True)
    (sequence / "disparity").mkdir()
    (tmp_path / "poses").mkdir()
    (sequence / "calib.txt").write_text(f"P0: {P0}\nP1: {P1}\n")
    (sequence / "times.txt").write_text("0\n0.1\n")
    rows = [np.eye(4)[:3], np.full((3, 4), np.nan), pose[:3]]
    (tmp_path / "poses" / "04.txt").write_text("\n".join(" ".join(map(str, row.ravel())) for row in rows))
    for frame in range(3):
        (sequence / "image_0" / f"{frame:06d}.png").write_bytes(grey)
        (sequence / "disparity" / f"{frame:06d}.png").write_bytes(depth_png([[256 * 7, 0, 0]] * 2))
    views = read(sequence)
    assert [view.name for view in views] == ["000000", "000002"]
    np.testing.assert_allclose(views[1].pose.matrix(), pose)
    np.testing.assert_allclose(views[1].depth[0], [50, np.nan, np.nan])
    assert views[0].image is not None
    with pytest.raises(FileError, match="match the pairs first"):
        read(sequence, options={"disparity": "none"})


def test_submission_is_read_back(tmp_path: Path) -> None:
    disparity = np.array([[1.0, np.nan, 100.25], [0.0, 1 / 1024, 255.99]], np.float32)
    write_disparity(tmp_path / "000027_10.png", disparity)
    data = (tmp_path / "000027_10.png").read_bytes()
    assert struct.unpack(">IIBB", data[16:26]) == (3, 2, 16, 0)  # one channel of 16 bits
    from cfusion.io.maps import read_map

    found = read_map(tmp_path / "000027_10.png", 1 / 256)
    np.testing.assert_allclose(found, [[1, np.nan, 100.25], [np.nan, 1 / 256, 255.99]], atol=1 / 512)


@pytest.mark.parametrize(
    ("text", "words"),
    [("P0: 1 2 3\n", "no 3 x 4 matrix P0"), (f"P0: {P1}\nP1: {P0}\n", "right of the left"), ("\0", "P0")],
)
def test_calibrations_that_are_none(folder: Path, text: str, words: str) -> None:
    (folder / "calib" / "000027.txt").write_text(text)
    with pytest.raises((FileError, InputError)) as caught:
        read(folder)
    assert words in str(caught.value)


def test_any_bytes(folder: Path, harm: Callable[..., None]) -> None:
    harm(folder, lambda: list(read(folder, format="kitti", options={"disparity": "truth"})))


@pytest.mark.data
@pytest.mark.parametrize(("number", "frames"), [(27, (7, 8, 9, 10, 11)), (74, (8, 9, 10, 11))])
def test_real_bundles(real_data: Callable[[str], Path], number: int, frames: tuple[int, ...]) -> None:
    """Both localisations, read as camera-to-world, carry frame 10's lidar into frame 9 where its image agrees."""
    training = real_data("kitti2012") / "training"
    bundle = kitti.open_bundle(training, number)
    assert bundle.frames == frames
    assert bundle.calibration.focal_baseline == pytest.approx(386.1448)
    visible, all_pixels = bundle.truth(occluded=False), bundle.truth()
    assert np.isfinite(visible).sum() < np.isfinite(all_pixels).sum()
    both = np.isfinite(visible)
    assert np.mean(visible[both] == all_pixels[both]) > 0.99  # a few are interpolated from other neighbours
    np.testing.assert_allclose(visible[both], all_pixels[both], atol=0.5)
    view = read(training, options={"bundle": number, "disparity": "truth"})[0]
    for name in ("viso", "gm"):
        poses = read_localization(real_data("kitti2012") / "localization" / f"bundle_loc_{name}_training.mat", number)
        right = _photo_error(bundle, view, poses[9], poses[10])
        wrong = _photo_error(bundle, view, poses[9].inverse(), poses[10].inverse())
        assert right < wrong


def _photo_error(bundle: kitti.Bundle, view: View, pose_9: Pose, pose_10: Pose) -> float:
    """Mean difference of grey between frame 10's measured points and where frame 9 sees them."""
    known = np.isfinite(view.depth)
    points = (pose_9.inverse() @ pose_10).apply(view.camera.back_project(view.depth)[known])
    u, v, _ = view.camera.project(points)
    inside = (u >= 0) & (v >= 0) & (u < view.shape[1] - 0.5) & (v < view.shape[0] - 0.5)
    earlier = bundle.left(9)[np.rint(v[inside]).astype(int), np.rint(u[inside]).astype(int)]
    return float(np.abs(bundle.left(10)[known][inside] - earlier).mean())
