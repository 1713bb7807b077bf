"""One's own rig: calibrations of every kind, rectification, named mistakes, a pair and a folder of pairs."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Pose, read
from cfusion.cli.main import main
from cfusion.errors import BackendUnavailable, FileError, InputError
from cfusion.frontends.calibration import Calibration, RawRig, read_rig, rectified, unit_of
from cfusion.frontends.pair_check import Points, find_points, range_warning, require_pair, same_size, short_range
from cfusion.frontends.rig import StereoFrame
from cfusion.frontends.stereo import grey_bytes
from cfusion.io.codecs.png import write_image

cv2 = pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, scenes: SimpleNamespace) -> Path:
    """A folder of three pairs of a car that drives down the corridor, with a calibration of KITTI's kind."""
    folder = tmp_path_factory.mktemp("pairs")
    for side in ("left", "right"):
        (folder / side).mkdir()
    pose = Pose.identity()
    for number in range(3):
        seen = scenes.corridor_frame(pose)
        write_image(folder / "left" / f"left_{number:02d}.png", seen.left)
        write_image(folder / "right" / f"right_{number:02d}.png", seen.right)
        pose = pose @ scenes.moved
    (folder / "calib.txt").write_text(kitti_text(scenes))
    return folder


def kitti_text(scenes: SimpleNamespace) -> str:
    camera, baseline = scenes.camera, scenes.rig.baseline
    rows = [f"{camera.fx} 0 {camera.cx} {shift} 0 {camera.fy} {camera.cy} 0 0 0 1 0" for shift in (0, -100.0)]
    assert camera.fx * baseline == 100.0
    return "".join(f"P{k}: {row}\n" for k, row in enumerate(rows))


def pair(place: Path) -> list[str]:
    return [str(place / "left" / "left_00.png"), str(place / "right" / "right_00.png")]


def test_calibrations_of_three_kinds_say_the_same(tmp_path: Path, scenes: SimpleNamespace) -> None:
    camera = scenes.camera
    (tmp_path / "kitti.txt").write_text(kitti_text(scenes))
    (tmp_path / "middlebury.txt").write_text(
        f"cam0=[{camera.fx} 0 {camera.cx}; 0 {camera.fy} {camera.cy}; 0 0 1]\n"
        f"cam1=[{camera.fx} 0 {camera.cx + 7}; 0 {camera.fy} {camera.cy}; 0 0 1]\ndoffs=7\nbaseline=500\n"
    )
    storage = cv2.FileStorage(str(tmp_path / "opencv.yml"), cv2.FILE_STORAGE_WRITE)
    matrix = np.array([[camera.fx, 0, camera.cx, 0], [0, camera.fy, camera.cy, 0], [0, 0, 1, 0]])
    storage.write("P1", matrix)
    storage.write("P2", matrix + np.outer([1, 0, 0], [0, 0, 0, -100.0]))
    storage.release()
    files = [tmp_path / name for name in ("kitti.txt", "middlebury.txt", "opencv.yml")]
    rigs = [read_rig(file) for file in files]
    assert [unit_of(file) for file in files] == ["metre", "metre", "unit of T"]  # OpenCV's states none
    for rig in rigs:
        assert isinstance(rig, Calibration)
        assert rig.rig(camera.shape).camera == camera
        assert rig.baseline == pytest.approx(0.5)  # metres: Middlebury's file has millimetres
    assert [rig.doffs for rig in rigs] == [0, 7, 0]


def test_a_folder_of_swapped_pairs_is_refused_unless_the_check_is_left_out(place: Path, tmp_path: Path) -> None:
    for side, other in (("left", "right"), ("right", "left")):
        (tmp_path / side).mkdir()
        for file in (place / other).iterdir():
            shutil.copy(file, tmp_path / side / file.name.replace(other, side))
    shutil.copy(place / "calib.txt", tmp_path)
    (tmp_path / "poses.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0\n" * 3)
    with pytest.raises(InputError, match="swapped"):
        read(tmp_path)
    assert len(read(tmp_path, options={"unchecked": True})) == 3


def test_projections_have_a_focal_length(tmp_path: Path) -> None:
    """Of one pixel, if the file is of normalised coordinates; not of none."""
    rows = "P0: {0} 0 0 0 0 {0} 0 0 0 0 1 0\nP1: {0} 0 0 -0.5 0 {0} 0 0 0 0 1 0\n"
    (tmp_path / "calib.txt").write_text(rows.format(1))
    assert read_rig(tmp_path / "calib.txt").baseline == 0.5
    (tmp_path / "calib.txt").write_text(rows.format(0))
    with pytest.raises(InputError, match="focal length of zero"):
        read_rig(tmp_path / "calib.txt")


@pytest.mark.parametrize("shape", [(4, 7), (5, 6, 3)])
def test_a_principal_point_that_is_not_stated_is_the_middle_of_the_image(shape: tuple[int, ...]) -> None:
    rig = Calibration(fx=9.0, fy=8.0, cx=None, cy=None, baseline=0.5, doffs=1.5).rig(shape)
    assert (rig.camera.cx, rig.camera.cy) == ((shape[1] - 1) / 2, (shape[0] - 1) / 2)
    assert (rig.camera.fx, rig.camera.fy, rig.camera.shape) == (9.0, 8.0, shape[:2])
    assert (rig.baseline, rig.doffs) == (0.5, 1.5)
    stated = Calibration(fx=9.0, fy=8.0, cx=1.0, cy=0.0, baseline=0.5).rig(shape)
    assert (stated.camera.cx, stated.camera.cy, stated.doffs) == (1.0, 0.0, 0.0)


PAIRS = [("P0", "P1"), ("P2", "P3"), ("P_rect_00", "P_rect_01"), ("P_rect_02", "P_rect_03")]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_calibration_has_both_cameras_of_a_pair(tmp_path: Path, pair: tuple[str, str], side: int) -> None:
    """A single camera is none, of however many pairs."""
    file, row = tmp_path / "calib.txt", "{}: 2 0 0 {} 0 2 0 0 0 0 1 0\n"
    single = "".join(row.format(each[side], -9) for each in PAIRS if each != pair)
    file.write_text(single + row.format(pair[0], 0) + row.format(pair[1], -1))
    assert read_rig(file).baseline == 0.5
    file.write_text(single + row.format(pair[side], 0))
    with pytest.raises(FileError, match="not a known calibration"):
        read_rig(file)


def test_a_pair_of_turned_cameras_is_rectified(tmp_path: Path, scenes: SimpleNamespace) -> None:
    """The right camera is turned by two degrees: rows disagree as they are, and agree after rectification."""
    right_from_left = scenes.turned((1.0, -1.5, 2.0), (0, 0, 0)).inverse() @ scenes.turned((0, 0, 0), (-0.5, 0, 0))
    frame = StereoFrame(scenes.corridor(Pose.identity())[0], scenes.corridor(right_from_left.inverse())[0])
    looks = grey_bytes(frame.left), grey_bytes(frame.right)
    with pytest.raises(InputError, match="not rectified"):
        require_pair(*looks)
    matrix = np.array([[200.0, 0, 119.5], [0, 200.0, 59.5], [0, 0, 1]])
    storage = cv2.FileStorage(str(tmp_path / "calib.yml"), cv2.FILE_STORAGE_WRITE)
    for name, values in (
        *(("K1", matrix), ("K2", matrix), ("D1", np.zeros((1, 5))), ("D2", np.zeros((1, 5)))),
        *(("R", right_from_left.rotation), ("T", right_from_left.translation.reshape(3, 1))),
    ):
        storage.write(name, np.asarray(values, np.float64))
    storage.release()
    raw = read_rig(tmp_path / "calib.yml")
    assert isinstance(raw, RawRig)
    level, rig = rectified(frame, raw)
    points = require_pair(grey_bytes(level.left), grey_bytes(level.right))
    assert np.median(np.abs(points.rows)) < 0.75
    assert rig.baseline == pytest.approx(0.5, rel=1e-6)


def test_each_mistake_has_its_name(scenes: SimpleNamespace) -> None:
    frame = scenes.corridor_frame(Pose.identity())
    left, right = grey_bytes(frame.left), grey_bytes(frame.right)
    require_pair(left, right)
    with pytest.raises(InputError, match="swapped"):
        require_pair(right, left)
    with pytest.raises(InputError, match="not rectified"):
        require_pair(left, np.roll(right, 9, axis=0))
    other = scenes.waves(77, 2, 40.0, 5.0)(scenes.pixel_grid(*left.shape))
    with pytest.raises(InputError, match="unrelated"):
        require_pair(left, grey_bytes(other))
    with pytest.raises(InputError, match=r"240 x 120 pixels, the right one 239 x 120"):
        same_size(frame.left, frame.right[:, :-1])
    grey = np.full((60, 80), 90, np.uint8)
    assert len(require_pair(grey, grey).rows) == 0  # nothing to be seen, nothing to be said
    small = cv2.resize(left, None, fx=0.5, fy=0.5), cv2.resize(right, None, fx=0.5, fy=0.5)
    require_pair(*small)  # 120 x 60 pixels: no point is far enough from the border


def test_a_range_that_is_too_short_is_told(scenes: SimpleNamespace) -> None:
    frame = scenes.corridor_frame(Pose.identity())
    points = find_points(grey_bytes(frame.left), grey_bytes(frame.right))
    blank = np.full(frame.left.shape, np.nan, np.float32)
    told = range_warning(points, blank, 9)
    assert told is not None
    assert "range is too short" in told
    assert int(told.rsplit(" ", 1)[1]) >= points.disparity.max() * 0.8
    assert range_warning(points, blank, 128) is None
    assert "; try --option disparities=" in (short_range(points, 9, setting="--option disparities=") or "")
    piled = np.full(frame.left.shape, 127.0, np.float32)
    assert "end of the range" in (range_warning(points, piled, 128) or "")


def test_depth_confidence_sigma_and_points_are_written(
    place: Path, tmp_path: Path, scenes: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["stereo", *pair(place), "-o", str(tmp_path / "out"), "--calib", str(place / "calib.txt")]
    assert main(command) == 0
    assert "pixels matched" in capsys.readouterr().out
    found = {name: np.load(tmp_path / "out" / f"{name}.npy") for name in ("depth", "confidence", "sigma", "disparity")}
    truth = scenes.corridor(Pose.identity())[1]
    known = np.isfinite(found["depth"])
    error = np.abs(found["depth"] - truth)[known]
    assert np.median(error / truth[known]) < 0.02
    np.testing.assert_allclose(found["depth"][known] * found["disparity"][known], 100, rtol=1e-4)
    assert (np.isfinite(found["sigma"]) == known).all()
    assert np.mean(error < 2 * found["sigma"][known]) > 0.9
    assert {"points.ply", "report.html", "result.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_a_rig_of_numbers_is_the_same_rig(place: Path, tmp_path: Path) -> None:
    common = ["--write", "npy", "--no-report", "--quiet"]
    numbers = ["--focal", "200", "--baseline", "0.5", "--cx", "119.5", "--cy", "59.5"]
    for name, rig in (("file", ["--calib", str(place / "calib.txt")]), ("numbers", numbers)):
        assert main(["stereo", *pair(place), "-o", str(tmp_path / name), *rig, *common]) == 0
    one, other = (np.load(tmp_path / name / "depth.npy") for name in ("file", "numbers"))
    np.testing.assert_array_equal(one, other)


def test_a_depth_of_others_is_not_written_over(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["stereo", *pair(place), "-o", str(tmp_path), "--write", "npy", "--no-report"]
    rig = ["--calib", str(place / "calib.txt")]
    (tmp_path / "depth.png").write_bytes(b"mine")
    assert main([*command, *rig]) == 2
    assert "depth.png, which no result.json there lists; choose another folder, or pass --f" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["depth.png"]
    assert main([*command, *rig, "--force"]) == 0
    assert not (tmp_path / "depth.png").exists()
    for name in ("result.json", "depth.npy"):
        (tmp_path / name).unlink()
    assert main(command) == 0
    assert main([*command, *rig]) == 0  # after a run without the rig


def test_mistakes_on_the_command_line_are_one_line(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = pair(place)
    for wrong, says in (
        ([right, left], "swapped"),
        ([left, left], "same image"),
        ([str(place / "left"), str(place / "right")], "left is a folder"),
        ([left, right, "--focal", "200"], "--baseline"),
        ([left, right, "--calib", str(tmp_path / "none.yml")], "none.yml"),
        ([left, right, "--calib", left], "left_00.png"),
        ([left, right, "--matcher", "mc-cn"], "mc-cnn"),
        ([left, right, "--cx", "100", "--doffs", "3"], "--cx, --doffs needs a rig"),
        ([left, right, "--farthest", "5"], "--farthest needs a rig"),
        ([left, right, "--calib", str(place / "calib.txt"), "--cy", "3"], "leave --cy out"),
        ([left, right, "--calib", str(place / "calib.txt"), "--farthest", "nan"], "--farthest is nan"),
        ([left, right, "--calib", str(place / "calib.txt"), "--farthest", "0.01"], "beyond --farthest 0.01"),
    ):
        assert main(["stereo", *wrong, "-o", str(tmp_path / "x")]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert says in told
        assert not (tmp_path / "x").exists()
    assert main(["stereo", right, left, "-o", str(tmp_path / "x"), "--unchecked", "--quiet"]) == 0


def test_a_pair_without_a_match_is_an_error_without_a_rig_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, grey in (("left", 0.3), ("right", 0.4)):
        write_image(tmp_path / f"{name}.png", np.full((60, 80), grey, np.float32))
    command = ["stereo", *(str(tmp_path / f"{name}.png") for name in ("left", "right")), "-o", str(tmp_path / "out")]
    assert main([*command, "--matcher", "elas", "--quiet"]) == 2
    assert "no pixel was matched" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_calibration_of_another_size_is_told(
    place: Path, tmp_path: Path, scenes: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """At half the size the principal point lies in a corner: depth would be wrong by a factor of two."""
    for side in ("left", "right"):
        full = cv2.imread(str(place / side / f"{side}_00.png"))
        (tmp_path / side).mkdir()
        cv2.imwrite(str(tmp_path / side / "0.png"), cv2.resize(full, None, fx=0.5, fy=0.5))
    (tmp_path / "calib.txt").write_text(kitti_text(scenes))
    small = [str(tmp_path / side / "0.png") for side in ("left", "right")]
    for images, told in ((small, True), (pair(place), False)):
        out = str(tmp_path / f"out{told}")
        command = ["stereo", *images, "-o", out, "--calib", str(place / "calib.txt"), "--no-report"]
        assert main(command) == 0
        assert ("of images of this size?" in capsys.readouterr().err) == told
    assert "of images of this size?" in read(tmp_path).sentence
    assert "caution" not in read(place).sentence


def test_a_folder_of_pairs_is_a_data_set(
    place: Path, tmp_path: Path, scenes: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    views = read(place)
    assert "our odometry" in views.sentence
    assert [view.name for view in views] == ["left_00", "left_01", "left_02"]
    np.testing.assert_allclose(views[1].pose.matrix(), scenes.moved.matrix(), atol=0.02)
    truth = scenes.corridor(scenes.moved)[1]
    assert np.nanmedian(np.abs(views[1].depth - truth) / truth) < 0.02
    assert main(["fuse", str(place), "-o", str(tmp_path / "out"), "--method", "median", "--no-report"]) == 0
    assert main(["check", str(place)]) == 0
    assert "fit as stated" in capsys.readouterr().out


def test_mistakes_in_a_folder_of_pairs_name_the_pair_and_the_option(place: Path, tmp_path: Path) -> None:
    def changed(name: str) -> Path:
        return Path(shutil.copytree(place, tmp_path / name))

    bare = changed("bare")
    (bare / "calib.txt").unlink()
    with pytest.raises(FileError, match="has no calibration"):
        read(bare)
    swapped = changed("swapped")
    for side, other in (("left", "right"), ("right", "left")):
        shutil.rmtree(swapped / side)
        (swapped / side).mkdir()
        for number in range(3):
            shutil.copy(place / other / f"{other}_{number:02d}.png", swapped / side / f"{number}.png")
    with pytest.raises(InputError, match=r"^0\.png: .* swapped; .* --option unchecked=true"):
        read(swapped)
    smaller = changed("smaller")
    file = smaller / "right" / "right_01.png"
    cv2.imwrite(str(file), cv2.imread(str(file))[:, :-8])
    with pytest.raises(InputError, match=r"^left_01\.png: the left image is 240 x 120 pixels"):
        read(smaller)
    unlike = changed("unlike")
    noise = np.random.default_rng(0).random((120, 240), np.float32)
    for side in ("left", "right"):
        write_image(unlike / side / f"{side}_02.png", noise if side == "left" else noise[::-1])
    with pytest.raises(InputError, match=r"^frames 2 and 3: only \d+ features"):
        read(unlike)


def test_poses_that_are_given_are_taken(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "posed"
    shutil.copytree(place, copy)
    line = "1 0 0 {} 0 1 0 0 0 0 1 0\n"
    (copy / "poses.txt").write_text("".join(line.format(k) for k in range(3)))
    views = read(copy, options={"matcher": "sgm", "disparities": 64})
    assert "poses from poses.txt" in views.sentence
    assert views[2].pose.translation[0] == 2
    (copy / "poses.txt").write_text(line.format(0))
    with pytest.raises(FileError, match="1 poses for 3 pairs"):
        read(copy)


@pytest.mark.parametrize(("beyond", "told"), [(3, False), (30, True)])
def test_a_few_points_beyond_the_range_are_no_word_worth(beyond: int, told: bool) -> None:
    """Mismatches are always some; of a thousand points, a share of them counts and not their number."""
    u = np.where(np.arange(1000) < beyond, 90.0, 20.0)
    points = Points(np.column_stack([u + 5, np.zeros(1000)]), np.column_stack([np.full(1000, 5.0), np.zeros(1000)]))
    sentence = range_warning(points, np.full((4, 4), 20, np.float32), 64)
    assert (sentence is not None) == told


def test_a_backend_is_an_option_of_the_pairs(place: Path) -> None:
    assert np.array_equal(read(place)[0].depth, read(place, options={"backend": "cpu"})[0].depth, equal_nan=True)
    with pytest.raises(BackendUnavailable, match="this matcher has no backend 'cuda'"):
        read(place, options={"backend": "cuda"})
