"""cfusion scene with corrections: the same bits as of a corrected copy, in a format that can hold them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_scene_command import turning
from walls import QUICK, lay, run, walk

from cfusion import View, read
from cfusion.datasets import write_bundle
from cfusion.datasets.check import Correction, align_scales
from cfusion.errors import FileError
from cfusion.scene.job import FOLDER, MARK
from cfusion.view.scene_page import scene_of

CORRECTIONS = [
    Correction(invert_poses=True),
    Correction(axes="opengl"),
    Correction(depth_scale=0.001),
    Correction(ray_depth=True),
    Correction(shift_centre=-0.5),
    Correction(invert_poses=True, axes="opengl", depth_scale=1.25),
]
FACTORS = (1.0, 1.2, 0.9, 1.05, 0.8, 1.1)


def mistaken(view: View, correction: Correction) -> View:
    """The view as data that need the correction would state it."""
    if correction.ray_depth:
        view = replace(view, depth=view.depth / view.camera.rays()[..., 2].astype(np.float32))
    if correction.axes != "opencv":
        view = Correction(axes="opengl").view(view)  # its own inverse
    if correction.invert_poses:
        view = Correction(invert_poses=True).view(view)
    return Correction(depth_scale=1 / correction.depth_scale, shift_centre=-correction.shift_centre).view(view)


def laid(views: Sequence[View], folder: Path) -> Path:
    write_bundle(views, folder)
    return folder


def made(out: Path) -> list[bytes]:
    """The maps, and the cloud."""
    return [*(file.read_bytes() for file in sorted(out.rglob("depth.npy"))), (out / "scene.ply").read_bytes()]


@pytest.mark.parametrize("correction", CORRECTIONS, ids=lambda each: each.options)
def test_corrected_data_are_fused_like_a_corrected_copy(correction: Correction, tmp_path: Path) -> None:
    given = laid([mistaken(view, correction) for view in turning(5)], tmp_path / "data")
    copy = laid(correction(read(given)), tmp_path / "copy")
    assert run(copy, "-o", tmp_path / "right", *QUICK) == 0
    assert run(given, "-o", tmp_path / "out", *QUICK, *correction.options.split()) == 0
    assert made(tmp_path / "out") == made(tmp_path / "right")
    written, true = read(tmp_path / "out"), turning(5)  # a bundle that is right as it is
    for view, truth in zip(written, true, strict=True):
        assert np.allclose(view.pose.matrix(), truth.pose.matrix())
        assert view.camera == truth.camera
        assert np.nanmedian(np.abs(view.depth / truth.depth - 1)) < 0.01


def test_a_mended_scene_is_continued_shown_and_made_new_without_the_correction(tmp_path: Path) -> None:
    """The correction is a part of the keys; the page and the viewer read the data with it, too."""
    data = laid([Correction(depth_scale=1000).view(view) for view in turning(5)], tmp_path / "data")
    out, mended = tmp_path / "out", ("--depth-scale", 0.001)
    assert run(data, "-o", out, *QUICK, *mended) == 0
    before = {file: file.stat().st_mtime_ns for file in out.rglob("record.json")}
    assert run(data, "-o", out, *QUICK, *mended) == 0
    assert {file: file.stat().st_mtime_ns for file in out.rglob("record.json")} == before
    assert np.allclose(scene_of(out)[0][2].depth, turning(5)[2].depth, rtol=1e-5)
    assert run(data, "-o", out, *QUICK, "--force") == 0
    assert all(file.stat().st_mtime_ns > then for file, then in before.items())


def test_mended_data_are_not_written_back_beside_their_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = lay(walk(4), tmp_path / "data", "7-scenes")
    assert run(data, "-o", tmp_path / "a", *QUICK, "--shift-centre", 0.25) == 0
    assert json.loads((tmp_path / "a" / "cfusion" / "scene.json").read_text())["written"] == "bundle"
    assert not list((tmp_path / "a").glob("frame-*"))
    assert read(tmp_path / "a")[0].camera.cx == read(data)[0].camera.cx + 0.25
    assert run(data, "-o", tmp_path / "b", *QUICK, "--shift-centre", 0.25, "--write", "7-scenes") == 2
    assert "with --shift-centre 0.25, DATA's own files are not taken over" in capsys.readouterr().err
    other = lay(walk(4), tmp_path / "other", "open3d")
    assert run(other, "-o", tmp_path / "c", *QUICK, "--shift-centre", 0.25, "--write", "open3d") == 0
    assert read(tmp_path / "c")[0].camera.cx == read(other)[0].camera.cx + 0.25


def test_views_are_brought_to_one_scale_of_the_whole_scene(tmp_path: Path) -> None:
    """As by `align_scales` of all views; poses stay, so the data set keeps its layout."""
    other = [replace(view, depth=view.depth * np.float32(f)) for view, f in zip(turning(6), FACTORS, strict=True)]
    given = laid(other, tmp_path / "data")
    copy = laid(align_scales(read(given)), tmp_path / "copy")
    assert run(copy, "-o", tmp_path / "right", *QUICK) == 0
    assert run(given, "-o", tmp_path / "out", *QUICK, "--align-scales") == 0
    assert made(tmp_path / "out") == made(tmp_path / "right")
    ratios = [
        np.nanmedian(got.depth / true.depth) for got, true in zip(read(tmp_path / "out"), turning(6), strict=True)
    ]
    assert max(ratios) < 1.02 * min(ratios) < 1.02 * np.max(FACTORS)


def test_scales_of_a_scene_with_an_unreadable_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = [replace(view, depth=view.depth * np.float32(f)) for view, f in zip(turning(6), FACTORS, strict=True)]
    data = laid(other, tmp_path / "data")
    (data / "depth" / "003.npy").write_text("junk")
    assert run(data, "-o", tmp_path / "out", *QUICK, "--align-scales") == 1
    assert "003.npy failed: " in capsys.readouterr().err
    scales = json.loads((tmp_path / "out" / "cfusion" / "scene.json").read_text())["scales"]
    assert scales[3] == {"factor": 1.0, "shift": 0.0, "variable": "depth"}
    factors = [each["factor"] for each in scales]
    assert np.ptp(np.delete(np.multiply(factors, FACTORS), 3)) < 0.03


def test_too_many_views_to_align_are_refused_before_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = lay(walk(61), tmp_path / "data", "bundle")
    for file in (data / "depth").iterdir():
        file.write_text("junk")
    assert run(data, "-o", tmp_path / "out", *QUICK, "--align-scales") == 2
    assert "61 views are too many to align; give at most 60" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "wrong"), [("data", 5), ("data", None), ("format", ["bundle"]), ("options", "all")])
def test_a_mark_of_which_one_entry_is_none_is_refused(tmp_path: Path, name: str, wrong: object) -> None:
    mark = tmp_path / FOLDER / MARK
    mark.parent.mkdir(parents=True)
    mark.write_text(json.dumps({"data": "here", "format": "bundle", "options": {}, name: wrong}))
    with pytest.raises(FileError, match="does not name the scene's data"):
        scene_of(tmp_path)


def test_a_factor_and_its_inverse_as_it_was_found_are_none() -> None:
    """A check finds factors to a fraction of a percent: what is left is no correction."""
    made = Correction(depth_scale=0.001).then(Correction(depth_scale=1001.0))
    assert made == Correction()
    assert made is not None
    twice = Correction(depth_scale=0.5).then(Correction(depth_scale=0.5))
    assert twice is not None
    assert twice.depth_scale == 0.25
    assert "depth-scale" not in made.options
    assert "--depth-scale 0.25" in twice.options
