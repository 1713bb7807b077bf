"""What a run may write over, what a second run believes, and on which scale depth is written."""

import json
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cfusion import Pinhole, Pose, View
from cfusion.cli import output
from cfusion.cli.main import main
from cfusion.datasets import write_bundle
from cfusion.errors import InputError
from cfusion.io import versions
from cfusion.io.codecs.png import Encoding, read_png

CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
QUICK = ("--method", "median", "--backend", "reference")


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def wall(depth: float) -> View:
    return View(np.full((4, 5), depth), CAMERA, Pose.identity())


@pytest.fixture
def walls(tmp_path: Path) -> Path:
    """Seven frames of a wall that goes away."""
    write_bundle([wall(1.0 + number) for number in range(7)], tmp_path / "walls")
    return tmp_path / "walls"


def every_other(walls: Path, out: Path, *more: object) -> int:
    return run("fuse", walls, "-o", out, "--every", 2, "--window", 1, *QUICK, *more)


def changed(before: dict[str, int], out: Path) -> set[str]:
    return {name for name, time in written(out).items() if before.get(name) != time}


def written(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_ino for path in out.glob("*/result.json")}


ALL = {"000000", "000002", "000004", "000006"}


def test_a_second_run_notices_changed_data(walls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert every_other(walls, out) == 0
    before = written(out)
    file = walls / "depth" / "002.npy"
    stat = file.stat()
    np.save(file, np.full((4, 5), 3.5, np.float32))  # of the same size
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # and time
    assert every_other(walls, out) == 0
    assert "1 of 4 windows are damaged or of other data" in capsys.readouterr().out
    assert changed(before, out) == {"000002"}
    assert np.load(out / "000002" / "depth.npy")[0, 0] == 3.5


def test_a_second_run_notices_changed_poses_and_cameras(walls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert every_other(walls, out) == 0
    before = written(out)
    content = json.loads((walls / "bundle.json").read_text())
    content["views"][4]["camera"]["fx"] = 11.0
    content["views"][6]["pose"][0][3] = 0.5
    (walls / "bundle.json").write_text(json.dumps(content))
    assert every_other(walls, out) == 0
    assert changed(before, out) == {"000004", "000006"}


@pytest.mark.parametrize("harm", [b"", b"x" * 208])
def test_a_second_run_notices_damaged_output(walls: Path, tmp_path: Path, harm: bytes) -> None:
    out = tmp_path / "out"
    assert every_other(walls, out) == 0
    before = written(out)
    file = out / "000004" / "depth.npy"
    whole = file.read_bytes()
    file.write_bytes(harm)
    assert every_other(walls, out) == 0
    assert changed(before, out) == {"000004"}
    assert file.read_bytes() == whole


def test_a_second_run_notices_other_code(walls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert every_other(walls, out) == 0
    before = written(out)
    assert every_other(walls, out) == 0
    assert changed(before, out) == set()
    monkeypatch.setattr(versions, "code_fingerprint", lambda: "other")
    assert every_other(walls, out) == 0
    assert changed(before, out) == ALL


def test_the_code_is_known_by_its_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    first = versions.code_fingerprint.__wrapped__(tmp_path)
    (tmp_path / "a.py").write_text("x = 2")
    second = versions.code_fingerprint.__wrapped__(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, versions.code_fingerprint.__wrapped__(tmp_path)}) == 3


def test_a_sequence_has_one_scale(walls: Path, tmp_path: Path) -> None:
    """Also where frames are near and far, and in the files themselves."""
    out = tmp_path / "out"
    assert every_other(walls, out) == 0
    scales = set()
    for number in (0, 2, 4, 6):
        folder = out / f"{number:06d}"
        stated = json.loads((folder / "result.json").read_text())["files"]["depth"]["png"]
        with Image.open(folder / "depth.png") as picture:
            assert float(picture.text["Scale"]) == stated["scale"]
            assert float(picture.text["Offset"]) == stated["offset"]
            assert picture.text["Unit"] == "metre"
        scales.add((stated["scale"], stated["offset"]))
        found = read_png(folder / "depth.png", Encoding(stated["scale"], stated["offset"]))
        np.testing.assert_allclose(found, 1.0 + number, atol=stated["scale"])
    assert len(scales) == 1


def test_results_are_not_written_into_the_data(walls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(walls.rglob("*"))
    for data in (walls, walls / "bundle.json"):
        assert run("fuse", data, "-o", walls, *QUICK) == 2
        assert "is the folder of the data" in capsys.readouterr().err
    assert sorted(walls.rglob("*")) == before
    assert run("fuse", walls, "-o", walls, *QUICK, "--force") == 0
    assert (walls / "bundle.json").exists()


def test_another_result_is_not_written_over(walls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("fuse", walls, "-o", out, *QUICK) == 0
    first = (out / "result.json").stat().st_ino
    assert run("fuse", walls, "-o", out, *QUICK) == 0  # the same again
    assert (out / "result.json").stat().st_ino != first
    capsys.readouterr()
    for other in (("--method", "mean"), ("--method", "median", "--reference", 0)):
        assert run("fuse", walls, "-o", out, "--backend", "reference", *other) == 2
        assert "is of another command" in capsys.readouterr().err
    assert every_other(walls, out) == 2
    assert "holds a single result" in capsys.readouterr().err
    assert every_other(walls, tmp_path / "sequence") == 0
    assert run("fuse", walls, "-o", tmp_path / "sequence", *QUICK) == 2
    assert "results of a sequence" in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "depth.png").write_bytes(b"mine")
    assert run("fuse", walls, "-o", tmp_path / "mine", *QUICK) == 2
    assert "depth.png, which no result.json there lists" in capsys.readouterr().err
    assert run("fuse", walls, "-o", tmp_path / "mine", *QUICK, "--force") == 0


def test_formats_of_an_older_result_do_not_stay(walls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("fuse", walls, "-o", out, *QUICK, "--write", "npy,pfm") == 0
    (out / "notes.txt").write_text("mine")
    (out / "report.html").write_text("old")
    assert run("fuse", walls, "-o", out, *QUICK, "--write", "png", "--force") == 0
    assert {path.suffix for path in out.iterdir()} == {".png", ".json", ".txt", ".html"}
    assert (out / "notes.txt").read_text() == "mine"
    assert (out / "report.html").read_text() != "old"


def test_output_that_is_moved_away_is_said(
    walls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = import_module("cfusion.fuse")  # `cfusion.fuse` is the function
    out, whole, calls = tmp_path / "out", engine.fuse, []

    def fuse(*arguments: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            out.rename(tmp_path / "elsewhere")
        return whole(*arguments, **options)

    monkeypatch.setattr(engine, "fuse", fuse)
    assert every_other(walls, out) == 2
    assert "was moved or removed while cfusion was running" in capsys.readouterr().err
    assert written(tmp_path / "elsewhere").keys() == {"000000", "000002"}
    assert not out.exists()


def test_a_second_run_that_ends_first_does_not_refuse_the_other(
    walls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exchanged the folder: another one stands there now, whole, and is written over as any older result."""
    out = tmp_path / "out"
    assert run("fuse", walls, "-o", out, *QUICK) == 0
    engine, before = import_module("cfusion.fuse"), out.stat().st_ino
    whole = engine.fuse

    def fuse(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(engine, "fuse", whole)
        assert run("fuse", walls, "-o", out, *QUICK) == 0
        assert out.stat().st_ino != before
        return whole(*arguments, **options)

    monkeypatch.setattr(engine, "fuse", fuse)
    assert run("fuse", walls, "-o", out, *QUICK) == 0
    assert (out / "result.json").exists()


def test_one_result_moved_away_is_said(walls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    whole = output.made_by

    def moved(backend: str) -> dict[str, object]:
        (tmp_path / "out").rename(tmp_path / "elsewhere")
        return whole(backend)

    monkeypatch.setattr(output, "made_by", moved)
    assert run("fuse", walls, "-o", tmp_path / "out", *QUICK) == 2
    assert not (tmp_path / "out").exists()


def test_a_pair_is_not_written_over_another_result(walls: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    output.require_same_input(out, "left right", force=False)  # nothing is there
    assert run("fuse", walls, "-o", out, *QUICK, "--quiet") == 0
    with pytest.raises(InputError, match="of another input"):
        output.require_same_input(out, "left right", force=False)
    output.require_same_input(out, "left right", force=True)
    output.require_same_input(out, str(walls), force=False)  # made of the same
    (out / "result.json").write_text("{")
    output.require_same_input(out, "left right", force=False)  # damaged: nothing to lose
