"""What is typed and what is told at the command line, by exact values."""

import argparse
import dataclasses
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cfusion.cli import extras, main, mosaic, parts, report, settings, talk
from cfusion.cli.progress import BETWEEN_LINES, PATIENCE, _Lines, described, showing
from cfusion.errors import InputError
from cfusion.forecast import Step
from cfusion.rasters.options import Options


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (each for each in main.build_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(found.choices)


def numbers_in(words: str) -> set[float]:
    return {float(each) for each in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", words)}


@pytest.mark.parametrize("command", commands())
def test_help_says_the_default_that_is_used(command: str) -> None:
    """`default: X` in the help is the value of the option, and every option with a number for a default says it."""
    for action in commands()[command]._actions:
        said = re.search(r"default: ([^;)]+)", action.help or "")
        value = action.default
        if isinstance(value, bool) or value is None or value == [] or action.help == argparse.SUPPRESS:
            continue
        if isinstance(value, tuple):
            value = "x".join(str(each) for each in value)
        neutral = value in (0.0, 1.0) and ("multiply" in (action.help or "") or "add to" in (action.help or ""))
        if said is None:
            assert neutral or value in ("auto", "opencv", argparse.SUPPRESS), (action.option_strings, value)
        else:
            same = said[1].startswith(str(value)) or (type(value) is not str and float(value) in numbers_in(said[1]))
            assert same, (action.option_strings, said[1], value)


class TestSettings:
    def test_sizes(self) -> None:
        assert settings.size("320X240") == (320, 240)
        assert settings.size("8192x8192") == (8192, 8192)
        for wrong in ("320", "3x2x1", "0x5", "5x0", "-3x5", "x", "12345678x1", "8193x8192", "3.5x2", "²x2"):
            with pytest.raises(argparse.ArgumentTypeError):
                settings.size(wrong)

    def test_pairs(self) -> None:
        assert settings.parameters(["a=true", "b=False"]) == {"a": True, "b": False}
        told = settings.parameters(["lam=0.5", "alpha=(1, 2)", "word=a=b", "empty="])
        assert told == {"lam": 0.5, "alpha": (1, 2), "word": "a=b", "empty": ""}
        for wrong in (["lam"], ["=3"], ["1a=3"], ["a=1", "a=2"]):
            with pytest.raises(InputError):
                settings.parameters(wrong)

    def test_lists(self) -> None:
        assert settings.numbers("1,2.5,-3") == (1.0, 2.5, -3.0)
        assert settings.names(" npy, ,ply,") == ("npy", "ply")
        with pytest.raises(argparse.ArgumentTypeError):
            settings.numbers("1,a")


class TestText:
    def test_what_steers_a_terminal_is_shown(self) -> None:
        assert talk.shown("a\x1b[31m\nb\u202ec") == "a\\x1b[31m\\nb\\u202ec"

    def test_the_middle_of_what_is_too_long_is_left_out(self) -> None:
        assert talk.shown("x" * 600) == "x" * 600
        long = talk.shown("a" * 400 + "b" * 400)
        assert long == "a" * 300 + " ... " + "b" * 300


class TestExtras:
    def test_what_is_missing_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(extras.EXTRAS, "some", ("numpy", "no-such-package-at-all"))
        assert extras.missing("some") == ["no-such-package-at-all"]
        clone = Path(extras.__file__).resolve().parents[3]
        assert extras.for_this_install("pip install 'cfusion[cpu]'") == f"pip install '{clone}[cpu]'"


class TestParts:
    """Seconds of a usual machine; one megapixel."""

    def test_a_method_costs_by_its_views_and_pixels_and_less_on_more_threads(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def cost(method: str, megapixels: float, views: int = parts.VIEWS) -> float:
            return parts.fusing(method, megapixels * 1e6, views) - parts.LEAST

        monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
        assert cost("auto", 1) == cost("auto", 1, parts.VIEWS)
        assert cost("auto", 1, 20) - cost("auto", 1, 10) == pytest.approx(cost("auto", 1, 30) - cost("auto", 1, 20))
        assert cost("auto", 1, 20) > 1.2 * cost("auto", 1, 10)
        assert cost("auto", 3) == pytest.approx(3 * cost("auto", 1))
        assert cost("input", 1, 99) == cost("input", 1, 1)
        assert cost("l1", 1) < cost("somebody's", 1) < cost("auto", 1)
        alone = cost("auto", 1)
        monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
        assert alone / 4 < cost("auto", 1) < alone / 2
        assert parts.fusing("auto", 20_000) == pytest.approx(parts.LEAST + alone * 0.02)  # too small to share

    def test_every_part_has_its_turn(self) -> None:
        def told(planned: tuple[parts.Part, ...]) -> list[object]:
            return [part.stages for part in planned]

        assert told(parts.of_fuse("l1", 1e6, page=True)) == ["loading", "", "writing", "making the page"]
        assert told(parts.of_demo(["l1", "auto"], 1e6, page=True)) == [
            *("rendering", "loading", "l1:", "auto:", "making the page"),
        ]
        scene = parts.of_scene("l1", 3, 1e6, cloud=True, mesh=True, page=True)
        assert told(scene) == ["looking", "loading", "view", "cloud", "mesh", "making the page"]
        written = parts.of_fuse("l1", 1e6, page=False)[-1].seconds
        assert 3 * parts.fusing("l1", 1e6) < scene[2].seconds <= 3 * (parts.fusing("l1", 1e6) + 2 * written)
        sequence = parts.of_sequence("l1", 4, 20, 1e6, page=True)
        assert told(sequence) == ["reading", "loading", "window"]
        assert 4 * (parts.fusing("l1", 1e6) + written) < sequence[2].seconds
        assert parts.of_sequence("l1", 8, 20, 1e6, page=True)[2].seconds == pytest.approx(2 * sequence[2].seconds)
        assert parts.of_sequence("l1", 4, 20, 1e6, page=False)[2].seconds < sequence[2].seconds
        assert told(parts.of_stereo("sgm", page=False)) == ["reading", "looking", "matching", "writing"]
        assert parts.of_stereo("mc-cnn", page=True)[2].seconds > 5 * parts.of_stereo("elas", page=True)[2].seconds
        ahead = ((("laying",), 1.0), (("iterating", "certifying"), 2.0))
        assert told(parts.of_mosaic(ahead, page=True)) == [("laying",), ("iterating", "certifying"), "making the page"]
        assert told(parts.of_mosaic(page=False)) == [("laying",), ("choosing",), ""]


class TestLines:
    """Without a terminal: nothing within a second, then a line every five."""

    def test_when_and_what(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines = _Lines("fuse")
        lines.forecast.left = lambda now: 30.0  # type: ignore[method-assign]
        lines.forecast.fraction = lambda now: 0.25  # type: ignore[method-assign]
        for second in (0.5, 1.0, 1.1, 5.9, 6.0, 10.9):
            lines.show(Step("depth", 0.5, 1e-3), lines.began + second)
        said = capsys.readouterr().err.splitlines()
        assert said == ["fuse: 25 %, 30 s left, depth, gap 1.0e-03"] * 2
        assert (PATIENCE, BETWEEN_LINES) == (1.0, 5.0)

    def test_the_gap_is_told_where_there_is_one(self) -> None:
        assert described(Step("a", 0.0)) == "a"
        assert described(Step("a", 0.0, float("inf"))) == "a"
        assert described(Step("a", 0.0, 0.5)) == "a, gap 5.0e-01"

    def test_quiet_is_quiet(self, capsys: pytest.CaptureFixture[str]) -> None:
        with showing("a", quiet=True) as listener:
            listener.began -= 100
            listener(Step("b", 0.5))
            assert listener.forecast.known == 0.5
        assert capsys.readouterr().err == ""


class TestReport:
    def test_the_command_may_be_typed_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.argv", ["/x/cfusion", "fuse", "my data", "-o", "out"])
        assert report.command_line() == "cfusion fuse 'my data' -o out"

    def test_the_reference_is_the_view_with_the_pose(self) -> None:
        views = [SimpleNamespace(pose=object()) for _ in range(4)]
        assert report.reference_of(SimpleNamespace(pose=views[1].pose), views) == 1
        assert report.reference_of(SimpleNamespace(pose=None), views) == 2

    def test_what_is_heard_is_kept_and_passed_on(self) -> None:
        heard: list[object] = []
        recorder = report.Recorder(heard.append)
        recorder.began = time.monotonic() - 5
        recorder(Step("a", 0.5, 0.25))
        assert len(heard) == 1
        (event,) = recorder.events
        assert (event.stage, event.gap) == ("a", 0.25)
        assert np.isnan(event.energy)
        assert 5 <= event.seconds < 6

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        told = SimpleNamespace(method="l1", backend="cpu", seconds=1.0, iterations=5, gap=float("nan"), status="done")
        report.print_json(told, Path("out"), 3, page=True)
        found = json.loads(capsys.readouterr().out)
        assert (found["views"], found["output"], found["report"], found["gap"]) == (3, "out", "out/report.html", None)
        report.print_json(told, Path("out"), 3, page=False)
        assert json.loads(capsys.readouterr().out)["report"] is None


class TestStereo:
    """Four pixels of six matched."""

    def told(self, with_depth: bool = True, **changes: object) -> None:
        from cfusion.cli.stereo import _say

        found = SimpleNamespace(
            disparity=np.array([[2.0, 4.0, np.nan], [6.0, 12.0, np.nan]]),
            confidence=np.array([[0.25, 0.5, 0.0], [0.5, 0.75, 0.0]]),
            sigma=np.array([[0.1, 0.2, np.nan], [0.4, 0.3, np.nan]]),
        )
        usual = {"json": False, "quiet": False, "verbose": False, "no_report": False, "matcher": "sgm"}
        _say(argparse.Namespace(**(usual | {"output": Path("out")} | changes)), found, with_depth)  # type: ignore[arg-type]

    def test_in_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.told(verbose=True)
        assert capsys.readouterr().out.splitlines() == [
            "66.7 % of 3 x 2 pixels matched",
            "disparities from 2.0 to 12.0 pixels, half of them below 5.0",
            "confidence 0.50, sigma 0.25 pixels (medians)",
            "written to out",
            "open out/report.html",
        ]
        self.told(no_report=True)
        assert capsys.readouterr().out.splitlines() == ["66.7 % of 3 x 2 pixels matched", "written to out"]
        self.told(with_depth=False)
        assert "open" not in capsys.readouterr().out
        self.told(quiet=True)
        assert capsys.readouterr().out == ""

    def test_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.told(json=True)
        told = json.loads(capsys.readouterr().out)
        assert told["matched"] == pytest.approx(2 / 3)
        kept = {name: told[name] for name in ("matcher", "width", "height", "nearest", "farthest", "output", "report")}
        expected = {"matcher": "sgm", "width": 3, "height": 2, "nearest": 12.0, "farthest": 2.0}
        assert kept == expected | {"output": "out", "report": "out/report.html"}

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"focal": 700.0}, "both --focal"),
            ({"baseline": 0.5}, "both --focal"),
            ({"calib": Path("a.yml"), "focal": 700.0}, "given twice"),
            ({"calib": Path("a.yml"), "baseline": 0.5}, "given twice"),
        ],
    )
    def test_half_a_rig_and_two_are_refused(self, given: dict[str, object], words: str) -> None:
        from cfusion.cli.stereo import _calibration

        nothing = dict.fromkeys(("calib", "focal", "baseline", "cx", "cy", "farthest"))
        with pytest.raises(InputError, match=words):
            _calibration(argparse.Namespace(**(nothing | {"doffs": 0.0} | given)))
        assert _calibration(argparse.Namespace(**nothing, doffs=0.0)) is None

    def test_a_rig_of_numbers(self) -> None:
        from cfusion.cli.stereo import _calibration

        given = {"calib": None, "focal": 700.0, "baseline": 0.5, "cx": 11.0, "cy": 7.0, "doffs": 3.0}
        rig = _calibration(argparse.Namespace(**given, farthest=None))
        assert (rig.fx, rig.fy, rig.cx, rig.cy, rig.baseline, rig.doffs) == (700, 700, 11, 7, 0.5, 3)  # type: ignore[union-attr]


class TestScene:
    """Three views, of which one failed."""

    def said(self, failed: int = 1, points: int = 0, triangles: int = 0, lines: int = 3, **changes: object) -> None:
        from cfusion.cli.scene import _print_summary
        from cfusion.scene.record import Record
        from cfusion.scene.whole import Report

        records = tuple(Record(k, f"v{k}", "key", failure="dark" if k < failed else "") for k in range(3))
        usual = {"json": False, "quiet": False, "verbose": False, "no_report": False, "method": "l1"}
        given = argparse.Namespace(**(usual | {"output": Path("out")} | changes))
        _print_summary(given, Report(records, points, triangles), [f"line {k}" for k in range(lines)], 12.34)

    def test_in_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.said(points=70, triangles=9)
        said = capsys.readouterr()
        assert said.out.splitlines() == [
            *("line 0", "line 1", "line 2", "2 of 3 views fused with l1 in 12.3 s", "70 points in out/scene.ply"),
            "9 triangles in out/mesh.ply and mesh.glb",
            "written to out; the table is in out/cfusion/summary.txt",
            "open out/report.html, or look at all of it: cfusion view out",
        ]
        assert said.err.splitlines() == [
            *("cfusion: v0 failed: dark", "cfusion: 1 view failed; mend the data, then run the same again"),
        ]

    def test_a_long_table_is_cut_on_the_screen_unless_all_is_asked_for(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for lines, shown, more in ((41, 41, False), (42, 41, True)):
            self.said(lines=lines)
            head = capsys.readouterr().out.splitlines()[: shown + 1]
            assert sum(line.startswith("line") for line in head) == (40 if more else lines)
            assert ("... 2 more" in head) == more
        self.said(lines=99, verbose=True)
        assert "line 98" in capsys.readouterr().out

    def test_a_page_is_named_where_there_is_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        for changes in ({"no_report": True}, {"failed": 3}):
            self.said(**changes)  # type: ignore[arg-type]
            assert "open" not in capsys.readouterr().out
        self.said(failed=0, quiet=True)
        assert capsys.readouterr() == ("", "")

    def test_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.said(points=70, triangles=9, json=True)
        assert json.loads(capsys.readouterr().out) == {
            **{"views": 3, "failed": ["v0"], "method": "l1", "seconds": 12.34, "points": 70, "triangles": 9},
            **{"output": "out", "report": "out/report.html"},
        }

    @pytest.mark.parametrize(
        ("groups", "lonely", "neighbours", "words"),
        [
            (((0, 1, 2),), (), 10, ""),
            (((0, 1), (2,)), (2,), 10, "1 view shares nothing with any other (2)"),
            (((0,), (1,), (2,)), (0, 1, 2), 0, ""),  # none is wanted
            (((0, 1), (2, 3, 4)), (), 10, "fall into 2 groups that share nothing: 2 and 3"),
            (((0, 1), *(((k,)) for k in range(2, 8))), tuple(range(2, 8)), 10, "(2, 3, 4, 5, 6, ...)"),
        ],
    )
    def test_before_it_begins(
        self, groups: object, lonely: tuple[int, ...], neighbours: int, words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from cfusion.cli.scene import _print_graph

        class Graph:
            def __len__(self) -> int:
                return 9

        graph = Graph()
        graph.groups, graph.lonely = groups, lonely  # type: ignore[attr-defined]
        given = argparse.Namespace(neighbours=neighbours, quiet=True, json=False)
        _print_graph(given, SimpleNamespace(unreadable=[(8, "a.png is damaged")], graph=graph))  # type: ignore[arg-type]
        first, *more = capsys.readouterr().err.splitlines()
        assert first == "cfusion: view 8: a.png is damaged"
        assert len(more) == bool(words)
        assert all(words in line for line in more)


def test_a_mosaic_has_one_set_of_defaults() -> None:
    """Those of the command line, which imports nothing heavy to know them, are those of `fuse_rasters`."""
    given = vars(main.build_parser().parse_args(["mosaic", "a.tif", "-o", "out.tif"]))
    for field in dataclasses.fields(Options):
        found = given[field.name]
        assert (tuple(found) if isinstance(found, list) else found) == field.default, field.name


OF_A_MOSAIC: dict[str, tuple[list[str], object]] = {
    "weights": (["w.tif", "v.tif"], [Path("w.tif"), Path("v.tif")]),
    "sigma": (["s.tif"], [Path("s.tif")]),
    "like": (["l.tif"], Path("l.tif")),
    "resolution": (["0.5"], 0.5),
    "bounds": (["-1", "2", "3.5", "4"], [-1.0, 2.0, 3.5, 4.0]),
    "resampling": (["cubic"], "cubic"),
    "band": (["3"], 3),
    "nodata": (["-9999", "0"], [-9999.0, 0.0]),
    "coregister": ([], "shift"),
    "keep_offsets": ([], True),
    "alpha": (["0.5", "1"], [0.5, 1.0]),
    "tolerance": (["0.01"], 0.01),
    "iterations": (["7"], 7),
    "tile": (["512"], 512),
    "workers": (["2"], 2),
    "scheduler": (["tcp://host:8786"], "tcp://host:8786"),
    "backend": (["numpy"], "numpy"),
    "scratch": (["work"], Path("work")),
    "overwrite": ([], True),
}


def test_every_option_of_a_mosaic_reaches_it_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(mosaic, "make", lambda *given, options, page: asked.append(options) or 0)
    usual = ["mosaic", "a.tif", "b.tif", "-o", "out.tif"]
    assert main.main(usual) == 0
    assert set(OF_A_MOSAIC) == set(asked[0])
    for name, (words, value) in OF_A_MOSAIC.items():
        assert main.main([*usual, f"--{name.replace('_', '-')}", *words]) == 0
        assert asked[-1] == asked[0] | {name: value}
