"""From raw stereo images to posed depth views, and on to the submission, on a small folder in KITTI's layout."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion import Pose, evaluate, read
from cfusion.cli import kitti
from cfusion.cli.main import main
from cfusion.datasets.kitti_bundle import layout_of, open_bundle, write_disparity
from cfusion.errors import FileError, InputError
from cfusion.experiments import load
from cfusion.experiments.summary import summarise
from cfusion.frontends.filling import filled
from cfusion.frontends.kitti import kitti_bundle_views, nearest_frames
from cfusion.io.codecs.png import Encoding, read_png, write_image
from cfusion.report.paper_tables import Comparison

FRAMES = (9, 10, 11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, scenes: SimpleNamespace) -> Path:
    """A training folder with one bundle of a car that drives down the corridor, without localisation."""
    place = tmp_path_factory.mktemp("kitti") / "training"
    for name in ("image_0", "image_1", "calib", "disp_noc", "disp_occ", "maps"):
        (place / name).mkdir(parents=True)
    camera, baseline = scenes.camera, scenes.rig.baseline
    rows = [
        f"{camera.fx} 0 {camera.cx} {shift} 0 {camera.fy} {camera.cy} 0 0 0 1 0" for shift in (0, -camera.fx * baseline)
    ]
    (place / "calib" / "000003.txt").write_text("".join(f"P{k}: {row}\n" for k, row in enumerate(rows)))
    pose = Pose.identity()
    for frame in FRAMES:
        seen = scenes.corridor_frame(pose)
        disparity = camera.fx * baseline / scenes.corridor(pose)[1]
        for side, image in (("image_0", seen.left), ("image_1", seen.right)):
            write_image(place / side / f"000003_{frame:02d}.png", image)
        write_disparity(place / "maps" / f"000003_{frame:02d}.png", disparity)
        if frame == 10:
            write_disparity(place / "disp_noc" / "000003_10.png", disparity)
            write_disparity(place / "disp_occ" / "000003_10.png", disparity)
        pose = pose @ scenes.moved
    return place


def true_depth(scenes: SimpleNamespace) -> np.ndarray:
    """Of frame 10."""
    depth: np.ndarray = scenes.corridor(scenes.moved)[1]
    return depth


@pytest.mark.parametrize("matching", ["sgm", "elas"])
def test_views_are_posed_and_deep(folder: Path, scenes: SimpleNamespace, matching: str) -> None:
    told: list[tuple[str, float]] = []
    views = kitti_bundle_views(folder, 3, matching, told=lambda *each: told.append(each))
    matched = [(f"matching frame {frame}", pytest.approx(done / 3)) for done, frame in enumerate((9, 10, 11))]
    assert told == [*matched, ("localising", 1.0)]
    assert [view.name for view in views] == ["000003_09", "000003_10", "000003_11"]
    assert views.reference == 1
    assert "our odometry" in views.sentence
    error = np.abs(views[1].depth - true_depth(scenes)) / true_depth(scenes)
    assert np.nanmedian(error) < 0.02
    assert np.isfinite(views[1].depth).mean() > 0.6
    np.testing.assert_array_equal(views[1].confidence > 0, np.isfinite(views[1].depth))
    np.testing.assert_allclose(views[1].pose.matrix(), scenes.moved.matrix(), atol=0.02)


def test_the_two_odometries_agree(folder: Path) -> None:
    own, direct = (kitti_bundle_views(folder, 3, "sgm", each)[2].pose for each in ("own", "direct"))
    np.testing.assert_allclose(own.matrix(), direct.matrix(), atol=0.03)


def test_any_other_matcher_enters_as_a_folder(folder: Path, scenes: SimpleNamespace) -> None:
    views = kitti_bundle_views(folder, 3, folder / "maps", frames=2)
    assert [view.name for view in views] == ["000003_09", "000003_10"]
    np.testing.assert_allclose(views[1].depth, true_depth(scenes), rtol=1e-2)
    assert views[1].confidence is not None


def test_far_depths_are_dropped(folder: Path, scenes: SimpleNamespace) -> None:
    near = kitti_bundle_views(folder, 3, folder / "maps", "own", farthest=8.0)[1]
    assert np.mean(np.isfinite(near.depth) == (true_depth(scenes) <= 8)) > 0.99
    assert np.nanmax(near.depth) <= 8
    assert (near.confidence[np.isnan(near.depth)] == 0).all()


def test_the_nearest_frames_are_taken() -> None:
    assert nearest_frames(tuple(range(21)), 5) == (8, 9, 10, 11, 12)
    assert nearest_frames((7, 8, 9, 10, 11), 5) == (7, 8, 9, 10, 11)
    assert nearest_frames((9, 10, 11), 2) == (9, 10)
    with pytest.raises(FileError, match="frame 10"):
        nearest_frames((8, 9), 3)


def test_mistakes_are_named(folder: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'sgm'"):
        kitti_bundle_views(folder, 3, "sgn")
    with pytest.raises(InputError, match="no localisation 'gps'"):
        kitti_bundle_views(folder, 3, folder / "maps", "gps")
    with pytest.raises(FileError, match="no disparity map 000003_09"):
        kitti_bundle_views(folder, 3, folder / "calib")
    with pytest.raises(FileError, match="bundle_loc_gm_training"):
        kitti_bundle_views(folder, 3, folder / "maps", "gm")
    with pytest.raises(InputError, match="at least 1"):
        kitti_bundle_views(folder, 3, frames=0)


def test_mistakes_are_told_before_matching(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cfusion.frontends.kitti.match", lambda *arguments: pytest.fail("matched"))
    command = ["fuse", str(folder), "--bundle", "3", "-o", str(tmp_path / "out")]
    for wrong in (["--localisation", "gps"], ["--localisation", "gm"], ["--method", "medain"], ["--set", "lamb=1"]):
        assert main([*command, *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main([*command, "--depth-scale", "1000", "--align-scales"]) == 2
    assert "matched here, in metres; leave --depth-scale, --align-scales out" in capsys.readouterr().err


def test_one_command_from_raw_images_to_the_submission(
    folder: Path, tmp_path: Path, scenes: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code = main(["fuse", str(folder.parent), "--bundle", "3", "-o", str(out), "--method", "median", "--write", "npy"])
    assert code == 0
    told = capsys.readouterr().out
    assert "000003_10.png" in told
    assert "against the ground truth" in told
    submitted = read_png(out / "000003_10.png", Encoding(scale=1 / 256))
    assert np.isfinite(submitted).all()  # no hole is left
    focal_baseline = scenes.camera.fx * scenes.rig.baseline
    error = np.abs(submitted - focal_baseline / true_depth(scenes))
    assert np.median(error) < 0.3
    scores = evaluate(np.load(out / "depth.npy"), true_depth(scenes), scenes.camera, scenes.rig.baseline)
    assert scores.density > 75


def test_what_is_likely_right_is_kept_where_every_pixel_is_scored() -> None:
    assert kitti.parameters_of("auto", {"rounds": 2}) == {"min_confidence": 0.3, "iterations": 6000, "rounds": 2}
    assert kitti.parameters_of("auto", {"min_confidence": 0.9})["min_confidence"] == 0.9
    assert kitti.parameters_of("median", {}) == {}


def test_the_submission_is_scored_as_it_is_filled(folder: Path, scenes: SimpleNamespace) -> None:
    """A narrow hole over an edge of the image: filled by it in the file, and scored so beside KITTI's rule alone."""
    bundle = open_bundle(folder, 3)
    depth = bundle.truth(occluded=False)
    depth = (bundle.calibration.focal_baseline / depth).astype(np.float32)
    depth[:, 60:70] = np.nan
    result = SimpleNamespace(depth=depth, camera=scenes.camera)
    told = kitti.scores_sentence(bundle, result)
    assert told is not None
    assert kitti.scores_sentence(SimpleNamespace(has_truth=lambda: False), result) is None  # nothing to compare with
    submitted = kitti._submitted(bundle, result)
    np.testing.assert_array_equal(
        submitted, filled(bundle.calibration.focal_baseline / depth, bundle.left(10)).astype(np.float32)
    )
    truth = bundle.truth(occluded=False)
    wrong = 100 * np.mean(np.abs(submitted - truth)[np.isfinite(truth)] > 3)
    assert f"out-3 {wrong:.2f} % where both" in told
    assert f"{100 * np.isfinite(depth[np.isfinite(truth)]).mean():.1f} % are known" in told


def test_the_stereo_command_writes_what_it_found(
    folder: Path, tmp_path: Path, scenes: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = [str(folder / side / "000003_10.png") for side in ("image_0", "image_1")]
    assert main(["stereo", *pair, "-o", str(tmp_path / "out"), "--disparities", "64", "--write", "npy,pfm,png"]) == 0
    assert "pixels matched" in capsys.readouterr().out
    disparity = np.load(tmp_path / "out" / "disparity.npy")
    stored = read_png(tmp_path / "out" / "disparity.png", Encoding(scale=1 / 256))
    np.testing.assert_allclose(stored, disparity, atol=1 / 256)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *(f"confidence.{each}" for each in ("npy", "pfm", "png")),
        *(f"disparity.{each}" for each in ("npy", "pfm", "png")),
        *(f"sigma.{each}" for each in ("npy", "pfm")),
    ]
    assert main(["stereo", *pair, "-o", str(tmp_path / "x"), "--matcher", "bm"]) == 2
    assert main(["stereo", "nowhere.png", pair[1], "-o", str(tmp_path / "x")]) == 2
    assert not (tmp_path / "x").exists()


def test_options_belong_to_the_data_set_and_the_truth_is_never_fused_unasked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--option bundle=3` on a training folder matches the pairs, as `--bundle 3` does; both write the submission."""
    common = ["--method", "input", "--write", "npy", "--no-report"]
    long = ["--option", "bundle=3", "--option", "matcher=elas"]
    assert main(["fuse", str(folder), *long, "-o", str(tmp_path / "long"), *common]) == 0
    assert "3 pairs matched with elas" in capsys.readouterr().out
    assert (
        main(["fuse", str(folder), "--bundle", "3", "--matcher", "elas", "-o", str(tmp_path / "short"), *common]) == 0
    )
    for name in ("depth.npy", "000003_10.png"):
        assert (tmp_path / "long" / name).read_bytes() == (tmp_path / "short" / name).read_bytes()
    truth = read(folder, options={"disparity": "truth"})
    assert len(truth) == 1
    assert not np.array_equal(truth[0].depth, np.load(tmp_path / "long" / "depth.npy"), equal_nan=True)
    assert main(["fuse", str(folder), "--bundle", "3", "--option", "bundle=3", "-o", str(tmp_path / "x")]) == 2
    assert "given twice" in capsys.readouterr().err


def test_the_third_table_has_columns_of_all_pixels(scenes: SimpleNamespace) -> None:
    """Density, out-3 and D-avg of the pixels both cameras see, and of all, in the published order."""
    depth = true_depth(scenes)
    wrong = depth.copy()
    wrong[:, :60] *= 3
    seen = np.where(np.arange(depth.shape[1]) < 60, np.nan, depth)
    spec = load("kitti")
    part = next(each for each in spec.parts if each.name == "mc-cnn")
    assert part.columns == ("density", "out3", "out3_all", "d_avg", "d_avg_all")
    scores = {
        kind: asdict(evaluate(wrong, truth, scenes.camera, scenes.rig.baseline))
        for kind, truth in (("scores", seen), ("scores_all", depth))
    }
    line = {"part": "mc-cnn", "row": "Reference", "data": "viso-mc-cnn", "scene": "000003", "seed": 0, **scores}
    (table,) = summarise(spec, [line], lambda name: {})
    assert isinstance(table, Comparison)
    assert [pair.published for pair in table.lines[0].pairs] == [100.0, 2.61, 3.84, 0.8, 1.0]
    _, visible, every, d_visible, d_every = (pair.ours for pair in table.lines[0].pairs)
    assert visible == d_visible == 0
    assert every == pytest.approx(25, abs=1)
    assert d_every > 1


def test_a_calibration_is_read_number_by_number(tmp_path: Path) -> None:
    """fx, fy, cx and cy of the left projection; focal times baseline from both, wherever the left one stands."""
    from types import SimpleNamespace

    from cfusion.datasets.kitti_bundle import read_calibration

    file = tmp_path / "000000.txt"
    file.write_text("P0: 700 0 11 44 0 710 12 0 0 0 1 0\nP1: 700 0 11 -306 0 710 12 0 0 0 1 0\n")
    layout = SimpleNamespace(left_projection="P0", right_projection="P1")
    found = read_calibration(file, layout)  # type: ignore[arg-type]
    assert (found.fx, found.fy, found.cx, found.cy, found.focal_baseline) == (700, 710, 11, 12, 350)
    with pytest.raises(FileError, match="no 3 x 4 matrix P7"):
        read_calibration(file, SimpleNamespace(left_projection="P0", right_projection="P7"))  # type: ignore[arg-type]


def test_a_layout_has_images_and_their_calibration(tmp_path: Path) -> None:
    """Images of one and the calibration of another are neither."""
    assert layout_of(tmp_path) is None
    (tmp_path / "calib").mkdir()
    (tmp_path / "image_2").mkdir()
    assert layout_of(tmp_path) is None
    (tmp_path / "calib_cam_to_cam").mkdir()
    assert layout_of(tmp_path).name == "2015 colour"  # type: ignore[union-attr]
