"""Sequences, window by window: which frames, what is read when, and going on after an interruption."""

import argparse
import itertools
import json
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, fuse_every
from cfusion.cli.main import main
from cfusion.datasets import read, write_bundle
from cfusion.datasets.dataset import LazyViews
from cfusion.datasets.read_result import settings_of_result
from cfusion.errors import FileError, InputError
from cfusion.scene import in_time

CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
QUICK = ("--method", "median", "--backend", "numpy", "--write", "npy")


def frame(number: int) -> View:
    """A wall that comes nearer."""
    return View(np.full((4, 5), 3.0 - 0.1 * number), CAMERA, Pose.identity(), name=f"frame {number}")


@pytest.fixture
def sequence(tmp_path: Path) -> Path:
    write_bundle([frame(number) for number in range(7)], tmp_path / "sequence")
    return tmp_path / "sequence"


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def times(out: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("*/result.json")}


def test_windows_are_fused_as_if_alone() -> None:
    views = [frame(number) for number in range(7)]
    found = list(fuse_every(views, "median", neighbours=in_time(7, 3), into=range(0, 7, 3), backend="numpy"))
    assert len(found) == 3
    alone = fuse(views[2:5], "median", reference=1, backend="numpy")
    np.testing.assert_array_equal(found[1].depth, alone.depth)
    with pytest.raises(InputError, match="view 7 of `into` does not exist"):
        fuse_every(views, "median", neighbours=in_time(7, 3), into=[7])


def test_frames_are_read_when_their_turn_comes() -> None:
    """No more than the cache holds are read before the first result, however long the sequence."""
    read: list[int] = []

    def load(number: int) -> View:
        read.append(number)
        return frame(number % 20)

    views = LazyViews.reading(load, 10_000)
    graph = in_time(len(views), 11)
    fused = fuse_every(views, "median", neighbours=graph, into=range(0, len(views), 5), backend="numpy")
    next(fused)
    assert read == list(range(11))
    for _ in range(3):
        next(fused)
    assert sorted(read) == list(range(21))  # each once: windows overlap, the last frames are kept


def test_long_bundles_are_read_frame_by_frame(tmp_path: Path) -> None:
    write_bundle([frame(number) for number in range(20)], tmp_path / "long")
    views = read(tmp_path / "long")
    (tmp_path / "long" / "depth" / "019.npy").unlink()
    assert views[18].name == "frame 18"
    with pytest.raises(FileError, match="does not exist"):
        views[19]


def test_windows_without_depth_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dark = [View(np.full((4, 5), np.nan), CAMERA, Pose.identity()) for _ in range(3)]
    write_bundle([*dark, frame(0)], tmp_path / "dark")
    assert run("fuse", tmp_path / "dark", "-o", tmp_path / "out", "--every", 3, "--window", 2, *QUICK) == 0
    assert "1 windows hold no depth" in capsys.readouterr().out
    assert times(tmp_path / "out").keys() == {"000003"}


def test_a_window_that_fails_does_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named at the end with its reason, told by the exit code, and tried again by the same command."""
    views = [frame(number) for number in range(4)]
    dark = View(np.full((4, 5), np.nan), CAMERA, Pose.identity())
    ahead = View(np.ones((4, 5)), CAMERA, Pose(np.eye(3), np.array([0.0, 0.0, 99.0])))  # sees nothing of the others
    write_bundle([dark, ahead, *views], tmp_path / "data")
    command = ("fuse", tmp_path / "data", "-o", tmp_path / "out", "--every", 2, "--window", 2, *QUICK, "--force")
    command = (*command, "--method", "input")
    for _ in range(2):
        assert run(*command) == 1
        said = capsys.readouterr()
        assert "cfusion: window 000000 failed: " in said.err
        assert "1 windows failed; run the same command to try them again" in said.err
        assert times(tmp_path / "out").keys() == {"000002", "000004"}
    assert "2 of 3 windows exist already" in said.out


def test_each_window_has_a_folder(sequence: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("fuse", sequence, "-o", out, "--every", 3, "--window", 3, *QUICK) == 0
    assert "3 windows fused with median" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["000000", "000003", "000006"]
    np.testing.assert_allclose(np.load(out / "000003" / "depth.npy"), 2.7, atol=1e-6)
    written = json.loads((out / "000003" / "result.json").read_text())["settings"]
    assert (written["reference"], written["first"], written["frames"]) == (3, 2, 3)


def test_a_second_run_does_what_is_missing(sequence: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ("fuse", sequence, "-o", out, "--every", 2, "--window", 3)
    assert run(*command, *QUICK) == 0
    first = times(out)
    (out / "000002" / "sigma.npy").unlink()  # not whole any more
    (out / "000004" / "result.json").write_text("{")  # damaged
    capsys.readouterr()
    assert run(*command, *QUICK) == 0
    assert "2 of 4 windows exist already for the same data and settings" in capsys.readouterr().out
    second = times(out)
    assert {name for name in first if first[name] != second[name]} == {"000002", "000004"}
    assert run(*command, *QUICK, "--set", "radius=3") == 2
    assert times(out) == second
    assert "pass --force" in capsys.readouterr().err
    assert run(*command, *QUICK, "--set", "radius=3", "--force") == 0
    assert "already" not in capsys.readouterr().out
    assert not set(times(out).values()) & set(second.values())
    assert run(*command, *QUICK, "--set", "radius=3", "--quiet") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--window", 3), "--every"),
        (("--every", 2, "--reference", 1), "--reference"),
        (("--every", 2, "--bundle", 1), "--bundle"),
        (("--every", 0), "at least 1"),
        (("--every", 2, "--method", "medain"), "'median'|did you mean median"),
    ],
)
def test_mistakes_are_one_line(
    sequence: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[object, ...], words: str
) -> None:
    assert run("fuse", sequence, "-o", tmp_path / "out", *options) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert any(word in said for word in words.split("|"))
    assert not (tmp_path / "out").exists()


STUCK_AT_THE_THIRD = """
import sys, time
from importlib import import_module
from cfusion.cli.main import main
engine = import_module("cfusion.fuse")
whole, calls = engine.fuse, []
def fuse(*arguments, **options):
    calls.append(1)
    if len(calls) == 3:
        print("stuck", flush=True)
        time.sleep(60)
    return whole(*arguments, **options)
engine.fuse = fuse
sys.exit(main(sys.argv[1:]))
"""


def heed_ctrl_c() -> None:
    """In a child: what runs in the background of a shell would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_interrupted_run_goes_on(
    sequence: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
) -> None:
    out = tmp_path / "out"
    command = ("fuse", str(sequence), "-o", str(out), "--every", "2", "--window", "3", *QUICK)
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK_AT_THE_THIRD, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "bundle: unit metre, camera-to-world; 7 views\n"
    assert process.stdout.readline() == "stuck\n"
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == code
    if number == signal.SIGINT:
        assert said == f"cfusion: interrupted; 2 of 4 windows are in {out}; run the same command again to continue\n"
    assert sorted(path.name for path in out.iterdir()) == ["000000", "000002"]
    assert all(settings_of_result(folder) for folder in out.iterdir())
    assert run(*command) == 0
    assert "2 of 4 windows exist already" in capsys.readouterr().out
    assert len(times(out)) == 4


def test_the_bar_counts_windows(
    sequence: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cfusion.cli import progress

    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "BETWEEN_LINES", 0.0)
    options = ("--method", "l1", "--backend", "numpy", "--write", "npy")
    assert run("fuse", sequence, "-o", tmp_path / "out", "--every", 3, "--window", 3, *options) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("l1: ")]
    assert any("window 3 of 3" in line and "left" in line for line in lines)
    shares = [int(line.split()[1]) for line in lines]
    assert shares == sorted(shares)


def test_kernels_are_compiled_before_the_windows_and_only_for_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cfusion.cli import compiling

    camera = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
    write_bundle([View(np.full((4, 5), 2.0), camera, Pose.identity()) for _ in range(3)], tmp_path / "in")
    asked: list[list[str]] = []
    monkeypatch.setattr(compiling, "compile_kernels", lambda methods, backend, progress: asked.append(methods))
    command = ["fuse", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--every", "1", "--quiet", "--no-report"]
    for _ in range(2):
        assert main([*command, "--method", "median", "--backend", "numpy"]) == 0
        assert asked == [["median"]]  # the second time all windows are there


@pytest.mark.parametrize("after", [0, 2])
def test_an_interrupted_sequence_says_how_far_it_is_and_goes_on_there(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module("cfusion.fuse")
    camera = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
    write_bundle([View(np.full((4, 5), 2.0), camera, Pose.identity()) for _ in range(3)], tmp_path / "in")
    command = ["fuse", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--every", "1", "--no-report"]
    command += ["--method", "median", "--backend", "numpy"]
    whole = module.fuse_each

    def cut_short(todo: Any, *given: Any, **more: Any) -> Any:
        yield from itertools.islice(whole(todo, *given, **more), after)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fuse_each", cut_short)
    assert main(command) == 130
    told = f"{after} of 3 windows are in {tmp_path / 'out'}; run the same command again to continue"
    assert (
        capsys.readouterr().err.splitlines()[-1] == f"cfusion: interrupted; {told if after else 'nothing was written'}"
    )
    monkeypatch.setattr(module, "fuse_each", whole)
    assert main(command) == 0
    assert f"{3 - after} windows fused with median" in capsys.readouterr().out


def told_by(**changes: object) -> argparse.Namespace:
    usual = {"quiet": False, "json": False, "verbose": False, "no_report": True, "method": "median"}
    return argparse.Namespace(**(usual | {"output": Path("out")} | changes))


def test_what_is_said_after_all_windows(capsys: pytest.CaptureFixture[str]) -> None:
    """Fused, left out, failed: each by its number, its reason and its exit code."""
    from cfusion.cli.sequence import _NoDepth, _print_summary

    failed = {2: _NoDepth("no frame holds a depth"), 4: InputError("too few")}
    assert _print_summary(told_by(), 5, failed, 6.0) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "3 windows fused with median in 6.0 s, 2.0 s each",
        "1 windows hold no depth and were left out",
        "written to out, a folder for each frame fused into",
    ]
    assert said.err.splitlines() == [
        "cfusion: window 000004 failed: too few",
        "cfusion: 1 windows failed; run the same command to try them again",
    ]
    assert _print_summary(told_by(verbose=True, no_report=False), 1, {}, 6.0) == 0
    said = capsys.readouterr()
    assert "each with its page" in said.out
    assert "as 000000" in said.out
    assert said.err == ""
    assert _print_summary(told_by(), 1, {2: failed[2]}, 6.0) == 0
    assert "s each" not in capsys.readouterr().out  # none was fused
    for changes in ({"quiet": True}, {"json": True}):
        assert _print_summary(told_by(**changes), 5, {}, 6.0) == 0
        assert capsys.readouterr().out == ""
    assert _print_summary(told_by(), 0, {}, 0.1) == 0
    assert capsys.readouterr().out == ""


def test_windows_as_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    from cfusion.cli.sequence import _print_json

    _print_json(told_by(json=True), 7, [0, 2, 4], {2: InputError("too few")}, 3.5)
    told = json.loads(capsys.readouterr().out)
    assert {name: told[name] for name in ("windows", "there_already", "fused", "left_out", "seconds", "method")} == {
        **{"windows": 7, "there_already": 4, "fused": ["000000", "000004"], "left_out": {"000002": "too few"}},
        **{"seconds": 3.5, "method": "median"},
    }


def test_what_is_there_is_told_and_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cfusion.cli.sequence import _print_existing

    for name in ("000000", "000002"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{}")
    _print_existing(tmp_path, 3, [2, 4])
    assert capsys.readouterr().out.splitlines() == [
        "1 of 3 windows exist already for the same data and settings",
        "1 of 3 windows are damaged or of other data or code, and are fused again",
    ]
    _print_existing(tmp_path, 2, [4, 6])
    assert capsys.readouterr().out == ""


def test_a_window_is_as_wide_as_help_says_unless_told(tmp_path: Path) -> None:
    """`--window` (default: 11): five frames on either side."""
    from cfusion.cli.main import build_parser

    write_bundle([frame(number % 9) for number in range(15)], tmp_path / "data")
    assert run("fuse", tmp_path / "data", "-o", tmp_path / "out", "--every", 7, *QUICK, "--no-report") == 0
    written = json.loads((tmp_path / "out" / "000007" / "result.json").read_text())["settings"]
    told = build_parser()._actions[-1].choices["fuse"].format_help()  # type: ignore[union-attr, call-overload, index]
    default = int(re.search(r"--window.*?default:\s+(\d+)", told, re.DOTALL)[1])  # type: ignore[index]
    assert (written["first"], written["frames"]) == (7 - default // 2, default)


def test_one_frame_is_a_sequence_of_one_window(tmp_path: Path) -> None:
    write_bundle([frame(0)], tmp_path / "sequence")
    assert run("fuse", tmp_path / "sequence", "-o", tmp_path / "out", "--every", 1, *QUICK) == 0
    assert [path.name for path in (tmp_path / "out").glob("*/depth.npy")] == ["depth.npy"]
