"""cfusion scene: records, going on, failures that are named, and what is refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from walls import CAMERA, QUICK, lay, pose_at, run, walk, wall_view

from cfusion import View, read
from cfusion.datasets import write_bundle
from cfusion.errors import FileError
from cfusion.methods import keeping_plausible

LOUD = tuple(word for word in QUICK if word != "--quiet")


def records(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in out.rglob("record.json")}


def test_a_scene_is_fused_and_summed_up(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(bundle, "-o", out, *LOUD) == 0
    said = capsys.readouterr().out
    assert "neighbours by shared surface: 4 to 4 a view" in said
    assert "5 of 5 views fused" in said
    assert "points in" in said
    table = (out / "cfusion" / "summary.txt").read_text().splitlines()
    assert table[0].split() == ["view", "neighbours", "density", "fused", "noise", "gap", "seconds"]
    assert len(table) == 6
    graph = json.loads((out / "cfusion" / "neighbours.json").read_text())
    assert graph["source"] == "shared surface"
    assert len(graph["views"]) == 5
    assert graph["groups"] == [5]
    summary = json.loads((out / "cfusion" / "summary.json").read_text())
    assert [entry["density_before"] for entry in summary] == [1.0] * 5


def test_the_same_command_does_nothing_twice(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK)
    before = records(out)
    assert run(bundle, "-o", out, *LOUD) == 0
    assert records(out) == before
    assert len(before) == 5
    assert "5 of 5 views exist already" in capsys.readouterr().out


def test_what_is_missing_is_made_again_bit_by_bit(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK)
    before, cloud = records(out), (out / "scene.ply").read_bytes()
    depth = (out / "depth" / "002.npy").read_bytes()
    (out / "cfusion" / "views" / "000" / "000002" / "record.json").unlink()
    (out / "depth" / "002.npy").unlink()
    run(bundle, "-o", out, *QUICK)
    after = records(out)
    assert {name for name in after if after[name] != before[name]} == {"000002"}
    assert (out / "depth" / "002.npy").read_bytes() == depth
    assert (out / "scene.ply").read_bytes() == cloud


def test_a_changed_map_concerns_those_that_look_at_it(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK, "--neighbours", 1)
    graph = [entry["neighbours"] for entry in json.loads((out / "cfusion" / "neighbours.json").read_text())["views"]]
    before = records(out)
    np.save(bundle / "depth" / "000.npy", wall_view(17, x=0.0).depth)
    run(bundle, "-o", out, *QUICK, "--neighbours", 1)
    after = records(out)
    concerned = {f"{view:06d}" for view, others in enumerate(graph) if view == 0 or 0 in others}
    assert {name for name in after if after[name] != before[name]} == concerned


def test_other_settings_make_it_new(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK)
    before = records(out)
    run(bundle, "-o", out, "--method", "mean", "--backend", "numpy", "--quiet")
    assert all(after != before[name] for name, after in records(out).items())


def test_what_is_plausible_is_kept_unless_told_otherwise() -> None:
    """Cloud, mesh and the next tool ask the other maps again; a method without that probability has no such setting."""
    assert keeping_plausible("auto", {}) == {"min_confidence": 0.3}
    assert keeping_plausible("auto", {"min_confidence": 0.9, "rounds": 2}) == {"min_confidence": 0.9, "rounds": 2}
    assert keeping_plausible("l1", {"iterations": 9}) == {"iterations": 9}


def test_a_view_that_fails_is_named_and_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = lay(walk(5), tmp_path / "data", "7-scenes"), tmp_path / "out"
    broken = data / "frame-000002.depth.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    assert run(data, "-o", out, *QUICK) == 1
    said = capsys.readouterr().err
    assert "frame-000002.depth.png failed" in said
    assert "1 view failed; mend the data, then run the same again" in said
    assert len(records(out)) == 4
    assert (out / broken.name).read_bytes() == broken.read_bytes()  # the data set stays whole
    broken.write_bytes(whole)
    assert run(data, "-o", out, *QUICK) == 0
    assert len(records(out)) == 5
    assert (out / broken.name).read_bytes() != whole


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("junk")], ids=["gone", "damaged"])
def test_one_map_of_a_small_bundle_does_not_end_the_run(
    damage: Callable[[Path], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = lay(walk(4), tmp_path / "data", "bundle")
    damage(data / "depth" / "002.npy")
    for _ in range(2):  # the second run has the graph of the first
        assert run(data, "-o", tmp_path / "out", *QUICK) == 1
        said = capsys.readouterr().err
        assert "002.npy failed: " in said
        assert "shares nothing" not in said  # nobody could look at it
    assert len(records(tmp_path / "out")) == 3
    with pytest.raises(FileError, match=r"002\.npy"):
        tuple(read(data))


def test_a_model_without_depth_maps_is_told_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lay(walk(3), tmp_path / "data", "colmap")
    shutil.rmtree(data / "stereo")
    for place in (data, data / "sparse"):
        assert run(place, "-o", tmp_path / "out", *QUICK) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "is a COLMAP model without stereo/depth_maps; give its dense workspace" in line
    (tmp_path / "tum").mkdir()
    (tmp_path / "tum" / "depth.txt").write_text("1 depth/1.png\n")
    assert run(tmp_path / "tum", "-o", tmp_path / "out", *QUICK) == 2
    assert "no groundtruth.txt" in capsys.readouterr().err


def test_a_missing_image_is_no_failure(tmp_path: Path) -> None:
    data, out = lay(walk(3), tmp_path / "data", "colmap"), tmp_path / "out"
    (data / "images" / "000001.png").unlink()
    assert run(data, "-o", out, *QUICK) == 0
    assert not (out / "images" / "000001.png").exists()
    assert (out / "stereo" / "depth_maps" / "000001.png.geometric.bin").is_file()


def test_a_scene_of_one_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lay(walk(1), tmp_path / "data", "bundle")
    assert run(data, "-o", tmp_path / "out", *QUICK) == 0
    assert "the scene has one view" in capsys.readouterr().err


def test_views_that_share_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    away = View(np.full(CAMERA.shape, 2.0), CAMERA, pose_at(0.0, turn=np.pi))
    write_bundle([wall_view(0), away], tmp_path / "two")
    assert run(tmp_path / "two", "-o", tmp_path / "out", *QUICK) == 2
    assert "no two of the 2 views share any surface" in capsys.readouterr().err
    assert run(tmp_path / "two", "-o", tmp_path / "out", *QUICK, "--neighbours", 0) == 0
    around = [View((1 + 0.3 * k) * wall_view(0).depth, CAMERA, pose_at(0.0, turn=0.4 * np.pi * k)) for k in range(5)]
    write_bundle(around, tmp_path / "five")  # with half the focal length a few pixels would meet, 20 % apart
    assert run(tmp_path / "five", "-o", tmp_path / "out5", *QUICK) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no two of the 5 views share any surface" in line
    assert run(tmp_path / "five", "-o", tmp_path / "out5", *QUICK, "--neighbours", 0) == 0
    write_bundle([*walk(3), away], tmp_path / "four")
    assert run(tmp_path / "four", "-o", tmp_path / "out4", *QUICK) == 0
    assert "1 view shares nothing with any other (3): fused alone; empty, or misplaced?" in capsys.readouterr().err


def test_two_scenes_in_one_data_set_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = [View(np.full(CAMERA.shape, 2.0), CAMERA, pose_at(0.01 * n, turn=np.pi)) for n in range(2)]
    write_bundle([*walk(3), *elsewhere], tmp_path / "data")
    assert run(tmp_path / "data", "-o", tmp_path / "out", *QUICK) == 0
    assert "2 groups that share nothing: 3 and 2" in capsys.readouterr().err


def test_two_data_sets_in_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lay(walk(2), tmp_path / "data", "7-scenes")
    lay(walk(2), data / "more", "colmap")
    for name in ("sparse", "stereo", "images"):
        shutil.move(data / "more" / name, data / name)
    assert run(data, "-o", tmp_path / "out", *QUICK) == 2
    assert "several data sets in one folder (colmap, 7-scenes); choose one with --format" in capsys.readouterr().err
    assert run(data, "-o", tmp_path / "out", *QUICK, "--format", "7-scenes") == 0


def test_data_sets_below_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("kitchen", "office"):
        lay(walk(2), tmp_path / "both" / name, "7-scenes")
    assert run(tmp_path / "both", "-o", tmp_path / "out", *QUICK) == 2
    assert "but 2 of its folders are (kitchen, office); give one of them" in capsys.readouterr().err


def test_the_output_lies_elsewhere(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out, why in (
        (bundle / "out", "lies inside the data"),
        (bundle, "lies inside the data"),
        (tmp_path, "lie inside the output"),
    ):
        assert run(bundle, "-o", out, *QUICK) == 2
        assert why in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    assert run(bundle, "-o", other, *QUICK) == 2
    assert "not a scene of cfusion" in capsys.readouterr().err
    assert sorted(path.name for path in other.iterdir()) == ["thesis.tex"]
    assert run(bundle, "-o", other, *QUICK, "--force") == 0
    assert (other / "thesis.tex").read_text() == "precious"
    second = lay(walk(2), tmp_path / "second", "bundle")
    assert run(second, "-o", other, *QUICK) == 2
    assert "holds the scene of" in capsys.readouterr().err


def test_mistakes_are_told_before_anything_is_written(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for wrong, why in (
        (("--neighbours", -1), "--neighbours is -1"),
        (("--workers", 0), "--workers is 0"),
        (("--workers", 1, "--scheduler", "tcp://x:1"), "give only one of them"),
        (("--voxel", 0.1), "pass --mesh as well"),
        *(((("--mesh", "--voxel", voxel), f"--voxel is {voxel}")) for voxel in ("0.0", "-1.0", "nan", "inf")),
        (("--worker-memory", "1GB"), "pass --workers as well"),
        (("--method", "magic"), "no method"),
        (("--write", "npz"), "cannot be written as 'npz'"),
        (("--write", "magic"), "unknown format"),
        (("--set", "alpha=-1", "--method", "l1"), "alpha"),
    ):
        assert run(bundle, "-o", out, *QUICK, *wrong) == 2
        assert why in capsys.readouterr().err
        assert not out.exists()
    assert run(tmp_path / "nowhere", "-o", out, *QUICK) == 2


def test_one_command_at_a_time(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cfusion.scene.places import lock_output, write_mark

    out = tmp_path / "out"
    write_mark(bundle, out, {})
    with lock_output(out):
        assert run(bundle, "-o", out, *QUICK) == 2
    assert "another command is working on" in capsys.readouterr().err
    assert run(bundle, "-o", out, *QUICK) == 0


def harmed(file: Path, content: bytes) -> None:
    """Other contents under the same size and time, where the size is the same."""
    before = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_other_data_under_the_same_time_are_fused_again(bundle: Path, tmp_path: Path) -> None:
    """Contents count, not times: a depth doubled in place, a pose edited, an image exchanged."""
    data, out = bundle, tmp_path / "out"
    run(data, "-o", out, *QUICK)
    before = records(out)
    depth = data / "depth" / "004.npy"
    harmed(depth, depth.read_bytes()[:-4] + np.float32(3.0).tobytes())
    assert run(data, "-o", out, *QUICK) == 0
    assert all(records(out)[name] != before[name] for name in before)  # all five see each other
    before = records(out)
    harmed(data / "bundle.json", (data / "bundle.json").read_bytes().replace(b"metre", b"meter"))
    run(data, "-o", out, *QUICK)
    assert all(records(out)[name] != before[name] for name in before)


def test_a_map_cut_short_stops_neither_its_neighbours_nor_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data name it as a neighbour, so it is one of those that the page shows a view with."""
    pytest.importorskip("plotly", reason="plotly is missing: pip install 'cfusion[view]'")
    data, out = lay(walk(5), tmp_path / "data", "mvsnet"), tmp_path / "out"
    cut = sorted(data.rglob("*.pfm"))[1]
    cut.write_bytes(cut.read_bytes()[:-100])
    assert run(data, "-o", out, *QUICK) == 1
    assert f"{cut.name} failed" in capsys.readouterr().err
    assert "1: " in (out / "cfusion" / "views" / "000" / "000002" / "record.json").read_text()  # left out
    assert (out / "report.html").is_file()
    assert sorted(records(out)) == ["000000", "000002", "000003", "000004"]


@pytest.mark.parametrize("harm", [b"", b"x"])
@pytest.mark.parametrize("which", ["depth/002.npy", "cfusion/views/000/000002/sigma.npy"])
def test_a_damaged_output_is_made_again(bundle: Path, tmp_path: Path, which: str, harm: bytes) -> None:
    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK)
    before, whole = records(out), (out / which).read_bytes()
    (out / which).write_bytes(harm * len(whole))
    run(bundle, "-o", out, *QUICK)
    assert (out / which).read_bytes() == whole
    assert {name for name, time in records(out).items() if time != before[name]} == {"000002"}


def test_an_output_that_was_copied_counts(bundle: Path, tmp_path: Path) -> None:
    """Other times, the same contents."""
    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK)
    before = records(out)
    for file in out.rglob("*.npy"):
        os.utime(file, ns=(1, 1))
    run(bundle, "-o", out, *QUICK)
    assert records(out) == before


def test_a_record_is_gone_before_its_files_change(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or, killed in between, it would stand for files of another run."""
    from cfusion.scene.placing import placing

    out = tmp_path / "out"
    run(bundle, "-o", out, *QUICK)
    view = out / "cfusion" / "views" / "000" / "000002"

    def dies(source: Path, target: Path) -> None:
        assert not (view / "record.json").exists()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(FileError, match="run the command again"), placing(out) as draft:
        inside = draft / view.relative_to(out)
        inside.mkdir(parents=True)
        (inside / "depth.npy").write_bytes(b"new")
        (inside / "record.json").write_text("{}")
    monkeypatch.undo()
    assert not (view / "record.json").exists()


def test_a_wrong_convention_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Poses the wrong way round: exit 2 and how to mend it; --force goes on."""
    views = [View(each.depth, each.camera, each.pose.inverse()) for each in turning(6)]
    write_bundle(views, tmp_path / "data")
    assert run(tmp_path / "data", "-o", tmp_path / "out", *QUICK) == 2
    assert "To continue, pass --invert-poses; or pass --force" in capsys.readouterr().err
    assert not (tmp_path / "out" / "cfusion" / "views").exists()
    assert run(tmp_path / "data", "-o", tmp_path / "corrected", *QUICK, "--invert-poses") == 0
    assert run(tmp_path / "data", "-o", tmp_path / "out", *QUICK, "--force") in (0, 1)


def test_a_format_without_a_camera_is_told_how_to_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lay(walk(4), tmp_path / "data", "7-scenes")
    assert run(data, "-o", tmp_path / "out", *QUICK[:-1], "--write", "tum") == 0
    said = capsys.readouterr().out
    assert "written to" in said
    assert " as tum; " in said
    option = said.split("--option ")[1].split()[0]
    camera = tuple(float(number) for number in option.removeprefix("camera=").split(","))
    assert read(tmp_path / "out", format="tum", options={"camera": camera})[0].camera == read(data)[0].camera


def test_data_that_cannot_be_read_leave_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = lay(walk(3), tmp_path / "data", "bundle")
    assert run(data, "-o", tmp_path / "out", *QUICK, "--format", "tum") == 2
    assert "depth.txt does not exist" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_old_mesh_is_called_old(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("skimage", reason="scikit-image is missing: pip install 'cfusion[mesh]'")
    for more, told in ((("--mesh",), False), ((), False), (("--neighbours", 2), True), (("--mesh",), False)):
        assert run(bundle, "-o", tmp_path / "out", *QUICK, *more) == 0
        assert ("are of earlier maps" in capsys.readouterr().err) == told


def turning(count: int) -> list[View]:
    """A bumpy wall seen from an arc: what is wrong with poses shows."""
    from cfusion import Pinhole, Pose

    camera, found = Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48), []
    y, x = np.mgrid[:48, :64]
    rays = np.stack([(x - 31.5) / 60, (y - 23.5) / 60, np.ones(x.shape)], -1)
    for number in range(count):
        angle = 0.12 * (number - count / 2)
        c, s = np.cos(angle), np.sin(angle)
        rotation = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
        centre = np.array([1.5 * s, 0.1 * number, 0.3 * number])
        world = rays @ rotation.T
        depth = (4 - centre[2]) / world[..., 2]
        for _ in range(60):
            at = centre + depth[..., None] * world
            depth = (4 + 0.4 * np.sin(2 * at[..., 0]) * np.cos(2 * at[..., 1]) - centre[2]) / world[..., 2]
        found.append(View(depth, camera, Pose(rotation, centre)))
    return found


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--workers", "9" * 30), "1 to 1000"),
        (("--scheduler", "x"), "tcp://host:8786"),
        (("--scheduler", "tcp://head"), "tcp://host:8786"),
        (("--scheduler", "tcp://head:port"), "tcp://host:8786"),
        (("--workers", "1", "--worker-memory", "3XB"), "'3XB'; give a size such as 4GB"),
        (("-o", "loop"), "loop"),
    ],
)
def test_words_that_no_machine_follows(
    bundle: Path, tmp_path: Path, more: tuple[str, str], says: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert run(bundle, "-o", tmp_path / "out", *QUICK, *more) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
