"""What each command says when asked for less, for more, or for JSON; and what it does with what goes wrong."""

import argparse
import errno
import json
import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import METHODS, Pinhole, Pose, View
from cfusion.cli import check as check_command
from cfusion.cli import demo, mosaic, parts, progress, report, reproduce, scene, sequence
from cfusion.cli import evaluate as evaluate_command
from cfusion.cli import main as main_module
from cfusion.cli.main import main
from cfusion.datasets import READERS, write_bundle
from cfusion.datasets.check import Correction, align_scales, check
from cfusion.datasets.check.compare import Hypothesis
from cfusion.datasets.check.reprojection import Meaning
from cfusion.datasets.options import described
from cfusion.datasets.write_back import LAYOUTS
from cfusion.datasets.write_views import WRITERS
from cfusion.errors import FileError, InputError, UnknownMethod
from cfusion.io.codecs.npy import write_npy
from cfusion.scene.graph import Graph
from cfusion.synthetic import PAPER_CAMERA

README = Path(__file__).parent.parent / "README.md"


def said(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    """The lines that a command prints."""
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out.splitlines()


class TestLists:
    def test_methods(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert said(capsys, "methods", "--quiet") == list(METHODS)
        told = json.loads("".join(said(capsys, "methods", "--json")))
        assert told == {name: method.summary for name, method in METHODS.items()}
        width = max(map(len, METHODS))
        usual = said(capsys, "methods")
        assert usual == [f"{name:<{width}}  {method.summary}" for name, method in METHODS.items()]
        more = said(capsys, "methods", "--verbose")
        assert more[::2] == usual
        assert more[1].strip() == "no parameters"
        lam = next(line for line in more if "lam = " in line)
        assert lam.startswith(" " * (width + 4))
        assert "fill_radius = 0" in lam

    def test_formats(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert said(capsys, "formats", "--quiet") == list(READERS)
        told = json.loads("".join(said(capsys, "formats", "--json")))
        assert list(told) == list(READERS)
        for name, reader in READERS.items():
            assert told[name]["recognised by"] == reader.summary
            assert told[name]["written"] == reader.writes
            assert told[name]["options"] == described(reader.options)
            assert (told[name]["written back by scene"] is None) == (name not in LAYOUTS)
        assert told["colmap"]["written back by scene"] == LAYOUTS["colmap"].new
        assert said(capsys, "formats", "--verbose") == said(capsys, "formats", "--options")
        lines = said(capsys, "formats")
        assert sum("writes back" in line for line in lines) == len(LAYOUTS)
        assert any(line.startswith("eth3d") and line.endswith("  -") for line in lines)
        assert lines[0].split() == ["format", "recognised", "by", "written"]
        assert lines[-3:] == [
            "",
            f"`cfusion scene --write FORMAT` converts any of them to: {', '.join(WRITERS)}",
            "conventions of each: docs/formats.md; to test a data set: cfusion check DATA",
        ]

    def test_info(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        usual, short = said(capsys, "info"), said(capsys, "info", "--quiet")
        assert [line.split()[0] for line in short] == ["backends", "threads"]
        assert set(short) < set(usual)
        more = [line for line in said(capsys, "info", "--verbose") if line not in usual]
        package = Path(main_module.__file__).parents[1]
        assert more == [f"package    {package}", "kernels    compiled once, kept in __pycache__"]
        monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
        assert "kernels    compiled once, kept in /elsewhere" in said(capsys, "info", "--verbose")


class TestEvaluate:
    @pytest.fixture
    def maps(self, tmp_path: Path) -> tuple[Path, Path]:
        truth = np.full((6, 8), 2.0, np.float32)
        write_npy(tmp_path / "truth.npy", truth)
        write_npy(tmp_path / "found.npy", truth + np.float32(0.5))
        return tmp_path / "found.npy", tmp_path / "truth.npy"

    def test_how_much_is_said(self, maps: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
        usual = said(capsys, "evaluate", *maps)
        assert said(capsys, "evaluate", *maps, "--quiet") == usual[-1:]
        more = said(capsys, "evaluate", *maps, "--verbose")
        assert more[: len(usual)] == usual
        assert any(line.startswith("RMSE") and ":" in line for line in more[len(usual) :])
        row = json.loads("".join(said(capsys, "evaluate", *maps, "--json")))
        assert row["name"] == "found"
        assert row["plain_rmse"] == pytest.approx(0.5)
        assert row["bias"] == pytest.approx(0.5)

    def test_a_camera_is_four_numbers(
        self, maps: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []
        monkeypatch.setattr("cfusion.metrics.evaluate", lambda *given: seen.append(given) or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["evaluate", *map(str, maps), "--camera", "50,51,3.5,2.5", "--baseline", "0.5"])
        assert seen[0][2:] == (Pinhole(50, 51, 3.5, 2.5, width=8, height=6), 0.5)
        assert main(["evaluate", *map(str, maps), "--camera", "50,51,3.5"]) == 2
        assert "3 numbers were given" in capsys.readouterr().err
        assert evaluate_command.NAME == "evaluate"


@pytest.fixture(scope="module")
def walls() -> list[View]:
    """Views of a wavy wall, turned and moved."""
    camera = Pinhole(60.0, 60.0, 31.5, 23.5, 64, 48)
    found = []
    for number in range(4):
        turn = 0.12 * (number - 2)
        rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
        pose = Pose(rotation, np.array([0.3 * (number - 2), 0.1 * number, 0.05 * number]))
        rays = pose.turn(camera.back_project(np.ones(camera.shape)))
        depth = np.full(camera.shape, 3.0)
        for _ in range(60):
            points = pose.translation + rays * depth[..., None]
            wall = 3 + 0.25 * np.sin(2 * points[..., 0]) + 0.2 * np.sin(3 * points[..., 1])
            depth += 0.5 * (wall - points[..., 2]) / rays[..., 2]
        found.append(View(depth, camera, pose))
    return found


class TestCheck:
    def test_how_much_is_said(
        self,
        tmp_path: Path,
        walls: list[View],
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        write_bundle(walls[:2], tmp_path / "data")
        usual = said(capsys, "check", tmp_path / "data")
        assert said(capsys, "check", tmp_path / "data", "--quiet") == usual[-1:]
        assert usual[-1].startswith("The data fit as stated")
        more = [line for line in said(capsys, "check", tmp_path / "data", "--verbose") if line not in usual]
        rows = json.loads("".join(said(capsys, "check", tmp_path / "data", "--json")))["rows"]
        assert more == [f"2 views of 64 x 48 pixels; {len(rows)} conventions compared"]
        assert not any("To read it so" in line for line in usual)
        heard: list[Any] = []
        monkeypatch.setattr(
            progress.ProgressDisplay, "__call__", lambda shown, step: heard.append((step.stage, step.done))
        )
        said(capsys, "check", tmp_path / "data", "--quiet")
        assert heard == [("reading", 0.0), ("comparing 2 views under every convention", 0.0)]

    @pytest.mark.parametrize("option", ["--ray-depth", "--invert-poses", "--depth-scale 0.001", "--axes opengl"])
    def test_what_it_says_to_do_helps(
        self, tmp_path: Path, walls: list[View], capsys: pytest.CaptureFixture[str], option: str
    ) -> None:
        """Data of another convention: the options it names make them fit."""
        flip = np.diag([1.0, -1.0, -1.0])
        spoilt = {
            "--ray-depth": lambda view: replace(view, depth=view.depth / view.camera.rays()[..., 2]),
            "--invert-poses": lambda view: replace(view, pose=view.pose.inverse()),
            "--depth-scale 0.001": lambda view: replace(view, depth=1000 * view.depth),
            "--axes opengl": lambda view: replace(view, pose=Pose(view.pose.rotation @ flip, view.pose.translation)),
        }[option]
        write_bundle([spoilt(view) for view in walls], tmp_path / "data")
        assert main(["check", str(tmp_path / "data")]) == check_command.ANOTHER_FITS
        assert capsys.readouterr().out.splitlines()[-1] == f"To read it this way, pass {option}"
        assert said(capsys, "check", tmp_path / "data", "--quiet", *option.split())[0].startswith("The data fit")

    def test_factors_of_views_are_told_and_taken_out(
        self, tmp_path: Path, walls: list[View], capsys: pytest.CaptureFixture[str]
    ) -> None:
        factors = (1.0, 1.1, 0.9, 1.05)
        wrong = [replace(view, depth=view.depth * factor) for view, factor in zip(walls, factors, strict=True)]
        write_bundle(wrong, tmp_path / "data")
        main(["check", str(tmp_path / "data")])
        (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("factor of each view"))
        told = [float(each.split()[-1]) for each in line.split(": ", 1)[1].split(",")]
        np.testing.assert_allclose(np.array(told) * told[0] ** -1, np.array(factors) ** -1, rtol=0.02)
        assert said(capsys, "check", tmp_path / "data", "--quiet", "--align-scales")[0].startswith("The data fit")
        main(["check", str(tmp_path / "data"), "--align-scales"])
        assert "; scales aligned" in capsys.readouterr().out

    @pytest.mark.parametrize("factor", [5000.0, 256.0, 5.0])
    def test_usual_factors_are_told_as_they_are(self, walls: list[View], factor: float) -> None:
        found = check([replace(view, depth=view.depth * np.float32(factor)) for view in walls[:2]])
        assert found.best.hypothesis.factor == 1 / factor
        assert {factor, 1 / factor} <= {fit.hypothesis.factor for fit in found.fits}

    def test_what_fits_is_left_as_it_is(self, walls: list[View]) -> None:
        assert all(one is other for one, other in zip(align_scales(walls), walls, strict=True))

    def test_what_has_to_be_done_in_the_data_has_no_option(self) -> None:
        assert Correction.of(Hypothesis("as stated")) == Correction()
        for changed in ({"meaning": Meaning.disparity}, {"swapped": True}, {"focal": 2.0}, {"enlarged": 2.0}):
            assert Correction.of(Hypothesis("x", **changed)) is None
        for name in ("resized", "rotations", "positions", "flipped", "mirrored"):
            assert Correction.of(replace(Hypothesis("x", inverse=True), **{name: True})) is None


class TestDemo:
    @staticmethod
    def asked(**changes: Any) -> argparse.Namespace:
        usual = {"scene": "object", "size": (32, 24), "noise": None, "seed": 1, "methods": None}
        return argparse.Namespace(**(usual | changes))

    def test_methods_in_their_order_or_all_in_that_of_the_readme(self) -> None:
        assert demo._methods(self.asked(methods=["l1", "mean"])) == ["l1", "mean"]
        with pytest.raises(UnknownMethod, match="there is no method 'foo'"):  # before anything is rendered
            demo._methods(self.asked(methods=["l1", "foo"]))
        table = re.findall(r"^\| \**([a-z][\w-]*)\** \| \**0\.", README.read_text(), re.MULTILINE)
        assert demo._methods(self.asked()) == table == [name for name in METHODS if ":" not in name]

    @pytest.mark.parametrize(("chosen", "first"), [(None, "auto"), (["mean", "auto"], "mean")])
    def test_the_page_opens_with_auto_or_the_first_chosen(
        self, chosen: list[str] | None, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str] = []

        def page(content: Any) -> str:
            opened.extend(each.method for each in content.results)
            return "page"

        monkeypatch.setattr("cfusion.view.page.page", page)
        results: Any = [SimpleNamespace(method=name, depth=np.zeros((2, 3))) for name in ("mean", "auto")]
        assert demo._page(self.asked(methods=chosen), results, (), None, (), {}) == "page"  # type: ignore[arg-type]
        assert opened[0] == first
        assert sorted(opened) == ["auto", "mean"]

    def test_noise_is_the_scenes_own_unless_given(self) -> None:
        for name in demo.NOISE:
            assert demo._noise_scale(self.asked(scene=name)) == demo.NOISE[name]
        assert demo._noise_scale(self.asked(noise=0.0)) == 0.0
        assert demo._noise_scale(self.asked(noise="0.25")) == 0.25

    def test_the_camera_keeps_the_middle_and_the_field_of_view(self) -> None:
        width, height = PAPER_CAMERA.width // 2, PAPER_CAMERA.height // 2 + 20
        camera: Any = demo._camera((width, height))
        assert (camera.width, camera.height) == (width, height)
        assert camera.fx == pytest.approx(PAPER_CAMERA.fx / 2)
        same: Any = demo._camera((width, PAPER_CAMERA.height // 2))
        assert camera.cy - same.cy == pytest.approx(10)
        assert camera.cx == same.cx

    @pytest.mark.parametrize("name", ["city", "room"])
    def test_scenes_have_the_truth_of_their_middle_view(self, name: str) -> None:
        views, truth, baseline = demo._scene(self.asked(scene=name, noise=0.0))
        assert len(views) == demo.VIEWS
        middle = views[demo.VIEWS // 2].depth
        np.testing.assert_allclose(middle, truth, rtol=1e-6)
        assert (baseline == demo.CITY_SPACING) == (name == "city")

    def test_how_much_is_said(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        asked = ("demo", "--methods", "input,median", "--size", "32x24", "--backend", "numpy", "--no-report")
        usual = said(capsys, *asked, "-o", tmp_path)
        more = said(capsys, *asked, "-o", tmp_path, "--verbose")
        assert [line.split(":")[0] for line in more[len(usual) :]] == ["input", "median"]
        assert not any("open" in line for line in usual)
        rows = json.loads("".join(said(capsys, *asked, "-o", tmp_path, "--json")))
        assert [row["name"] for row in rows] == ["input", "median"]
        assert rows == json.loads((tmp_path / "scores.json").read_text())

    def test_files_of_one_run(self, tmp_path: Path) -> None:
        table: Any = SimpleNamespace(markdown=lambda: "| a |", rows=[{"a": 1.0}])
        demo._write(tmp_path / "out", table, "page")
        assert (tmp_path / "out" / report.PAGE).read_text() == "page"
        assert (tmp_path / "out" / "scores.md").read_text() == "| a |\n"
        demo._write(tmp_path / "out", table, None)
        assert not (tmp_path / "out" / report.PAGE).exists()
        assert json.loads((tmp_path / "out" / "scores.json").read_text()) == [{"a": 1.0}]


class TestMosaic:
    def test_how_much_is_said_and_that_tiles_are_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        made = SimpleNamespace(
            rasters=(), seconds=1.25, gap=5e-4, iterations=64, status="It converged.", sentences=("One.", "Two."),
            grid=SimpleNamespace(width=7, height=5), parameters={"alpha": 1.5, "delta": 2}, files={"height": "h.tif"},
        )  # fmt: skip
        monkeypatch.setattr("cfusion.rasters.mosaic.make_mosaic", lambda *given, **more: made)
        monkeypatch.setattr("cfusion.rasters.report.table", lambda rasters: "a table")

        def told(**changes: bool) -> list[str]:
            how = argparse.Namespace(**({"quiet": False, "json": False, "verbose": False} | changes))
            assert mosaic.make([], tmp_path / "out.tif", how, options={}, page=False) == 0
            return capsys.readouterr().out.splitlines()

        usual = ["a table", "0 rasters fused on 7 x 5 pixels in 1.2 s, gap 5.0e-04 after 64 iterations", made.status]
        assert told() == [*usual, "written: h.tif"]
        assert told(verbose=True) == [*usual, "One.", "Two.", "alpha = 1.5, delta = 2", "written: h.tif"]
        assert told(quiet=True) == []

        def stop(*given: Any, **more: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr("cfusion.rasters.mosaic.make_mosaic", stop)
        with pytest.raises(KeyboardInterrupt, match="finished tiles are kept; run the same command again"):
            told()

    def test_options_of_height_models_by_fuse(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[Any] = []
        monkeypatch.setattr(mosaic, "make", lambda *given, **more: made.append((given, more)) or 0)
        usual = {"method": "auto", "set": [], "reference": None, "every": None, "backend": "cpu", "force": True}
        usual |= {"option": [], "output": tmp_path / "out", "bundle": Path("tifs"), "no_report": True}
        usual |= {"write": "npy,png,pfm,ply", "invert_poses": False, "axes": "opencv", "depth_scale": 1.0}
        usual |= {"ray_depth": False, "shift_centre": 0.0, "align_scales": False}

        def run(**changes: Any) -> tuple[Any, Any]:
            mosaic.fuse_folder(argparse.Namespace(**(usual | changes)))
            return made[-1]

        (rasters, output, _), more = run(option=["band=3"])
        assert (rasters, output) == ([Path("tifs")], tmp_path / "out" / "height.tif")
        assert more == {"options": {"backend": "cpu", "overwrite": True, "band": 3}, "page": False}
        assert run(output=tmp_path / "a.TIFF")[0][1] == tmp_path / "a.TIFF"
        assert run(no_report=False)[1]["page"] is True
        for wrong in ({"option": ["band=x"]}, {"option": ["bands=1"]}, {"method": "l1"}, {"set": ["a=1"]}):
            with pytest.raises(InputError):
                run(**wrong)
        for number in (0, 2):
            for name in ("reference", "every"):
                with pytest.raises(InputError, match="leave"):
                    run(**{name: number})
        ignored = {"invert_poses": True, "axes": "opengl", "depth_scale": 0.001, "ray_depth": True}
        for name, given in (ignored | {"shift_centre": -0.5, "align_scales": True, "write": "npy"}).items():
            with pytest.raises(InputError, match=f"leave --{name.replace('_', '-')}.* out"):
                run(**{name: given})

    def test_what_is_meant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(import_module("cfusion.datasets.read"), "recognised", lambda place: place)

        def meant(bundle: str, format: str | None = None, stereo: int | None = None) -> bool:
            return mosaic.is_height_models(argparse.Namespace(bundle=bundle, format=format, stereo_bundle=stereo))

        assert meant("geotiff")
        assert meant("colmap", "geotiff")
        assert not meant("colmap")
        assert not meant("geotiff", "colmap")
        assert not meant("geotiff", None, 0)


def test_more_is_said_of_a_scene(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opened = SimpleNamespace(dataset=SimpleNamespace(sentence="a scene"))
    monkeypatch.setattr("cfusion.scene.job.open_job", lambda job: opened)
    graph = Graph(((1, 2), (0,), ()), "overlap")
    given: Any = SimpleNamespace(graph=graph, job=None, done={0: 1}, tasks=[1, 2, 3], unreadable=[(7, "gone")])
    asked = {"quiet": False, "json": False, "verbose": True, "neighbours": 2}
    scene._print_graph(argparse.Namespace(**asked), given)
    told = capsys.readouterr()
    assert told.err.startswith("cfusion: view 7: gone\n")
    lines = told.out.splitlines()
    assert lines[0] == "a scene"
    assert "1 of 3 views exist already with the same settings" in lines
    assert lines[-3:] == ["view 0 from 1, 2", "view 1 from 0", "view 2 from itself alone"]
    scene._print_graph(argparse.Namespace(**(asked | {"verbose": False})), given)
    assert not any(line.startswith("view ") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("lonely", "told"),
    [
        (1, "1 view shares nothing with any other (0): fused alone; empty, or misplaced?"),
        (5, "5 views share nothing with any other (0, 1, 2, 3, 4): fused alone; empty, or misplaced?"),
        (6, "6 views share nothing with any other (0, 1, 2, 3, 4, ...): fused alone; empty, or misplaced?"),
    ],
)
def test_views_that_share_nothing_are_counted_and_the_first_five_are_named(
    lonely: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = ((lonely + 1,), (lonely,))
    given: Any = SimpleNamespace(graph=Graph((*[()] * lonely, *pair), "overlap"), unreadable=())
    scene._print_graph(argparse.Namespace(quiet=True, json=False, neighbours=2), given)
    assert capsys.readouterr().err.splitlines() == [f"cfusion: {told}"]


class TestReproduce:
    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        verdict = SimpleNamespace(sentence=lambda: "as in the paper")
        chapter = SimpleNamespace(title="One", exhibits=[SimpleNamespace(verdicts=[verdict, verdict])])
        store: Any = SimpleNamespace(folder=Path("cache"))
        asked = argparse.Namespace(run_only=False, output=Path("out"))
        reproduce._print_json(asked, store, [(None, chapter)])  # type: ignore[list-item]
        told = json.loads(capsys.readouterr().out)
        assert told == {"results": "cache", "page": "out/index.html", "checks": {"One": ["as in the paper"] * 2}}
        reproduce._print_json(argparse.Namespace(run_only=True, output=Path("out")), store, [])
        assert json.loads(capsys.readouterr().out) == {"results": "cache"}

    def test_another_folder_of_disparities_is_for_kitti_alone(self, tmp_path: Path) -> None:
        from cfusion.experiments.conditions import BoxImage, KittiBundle
        from cfusion.experiments.read_spec import load

        spec = load("kitti")
        name = next(iter(spec.data))
        boxes, bundle = BoxImage((8, 8), 1.0, ()), KittiBundle("training", 3, "gm", "sgm")
        given = replace(spec, data={**spec.data, name: (boxes, bundle)})
        assert reproduce._with_disparity(given, None) is given
        other = reproduce._with_disparity(given, tmp_path).data[name]
        assert other == (boxes, replace(bundle, matching=str(tmp_path.resolve())))


class TestWhatGoesWrong:
    """Each in one line and with its exit code; as it was raised with --debug."""

    @pytest.fixture
    def raising(self, monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
        what: list[BaseException] = []

        def run(arguments: argparse.Namespace) -> int:
            raise what[0]

        monkeypatch.setattr(main_module.methods, "run", run)
        monkeypatch.setattr(main_module, "_silence", lambda: what.append(SystemExit()))
        return what

    @pytest.mark.parametrize(
        ("error", "code", "words", "silenced"),
        [
            (FileError("no such thing"), 2, "cfusion: no such thing", False),
            (MemoryError(), 2, "cfusion: there is not enough memory; give fewer or smaller maps", False),
            (KeyboardInterrupt(), 130, "cfusion: interrupted; nothing was written", False),
            (KeyboardInterrupt("3 of 7"), 130, "cfusion: interrupted; 3 of 7", False),
            (BrokenPipeError(), 1, "", True),
            (OSError(errno.ENOSPC, "No space left"), 2, "cfusion: cannot write: No space left", True),
            (OSError(errno.EDQUOT, "Quota"), 2, "cfusion: cannot write: Quota", True),
            (OSError(errno.EACCES, "Denied", "x.npy"), 2, "cfusion: cannot use 'x.npy': Denied", False),
            (OSError("odd"), 2, "cfusion: cannot write: odd", False),
        ],
        ids=str,
    )
    def test_in_one_line(
        self,
        raising: list[BaseException],
        error: BaseException,
        code: int,
        words: str,
        silenced: bool,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        raising.append(error)
        assert main(["methods"]) == code
        assert capsys.readouterr().err.strip() == words
        assert len(raising) == 1 + silenced
        if not isinstance(error, BrokenPipeError):
            with pytest.raises(type(error)):
                main(["--debug", "methods"])
            with pytest.raises(type(error)):
                main(["methods", "--debug"])

    def test_a_request_to_end_is_followed_and_forgotten(self, raising: list[BaseException]) -> None:
        import signal

        before = signal.getsignal(signal.SIGTERM)
        raising.append(FileError("x"))
        main(["methods"])
        assert signal.getsignal(signal.SIGTERM) is before
        with pytest.raises(SystemExit) as left:
            main_module._leave(15, None)
        assert left.value.code == 143

    def test_a_warning_is_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        main_module._show_warning("odd\x1b thing", UserWarning, "file", 3)
        assert capsys.readouterr().err == "cfusion: odd\\x1b thing\n"

    def test_nothing_asked_for_is_helped(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 0
        assert capsys.readouterr().out.startswith("usage: cfusion")
        with pytest.raises(SystemExit) as left:
            main(["fuse", ""])
        assert left.value.code == 2
        assert "one of the arguments is empty" in capsys.readouterr().err

    def test_shells_are_answered_when_they_ask(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[object] = []
        monkeypatch.setitem(sys.modules, "argcomplete", SimpleNamespace(autocomplete=asked.append))
        monkeypatch.delenv("_ARGCOMPLETE", raising=False)
        main_module._complete(main_module.build_parser())
        assert asked == []
        monkeypatch.setenv("_ARGCOMPLETE", "1")
        main_module._complete(main_module.build_parser())
        assert len(asked) == 1
        monkeypatch.setitem(sys.modules, "argcomplete", None)  # type: ignore[arg-type]
        main_module._complete(main_module.build_parser())
        assert len(asked) == 1


def test_a_sequence_refuses_what_is_for_one_result() -> None:
    usual = {"every": None, "window": None, "reference": None, "stereo_bundle": None}
    sequence.check_options(argparse.Namespace(**usual))
    sequence.check_options(argparse.Namespace(**(usual | {"every": 2, "window": 5})))
    for wrong in ({"window": 5}, {"every": 2, "reference": 0}, {"every": 2, "stereo_bundle": 0}):
        with pytest.raises(InputError):
            sequence.check_options(argparse.Namespace(**(usual | wrong)))


class TestPlans:
    """What a command says is ahead of it, by the methods, views and pixels that it was given."""

    @pytest.fixture
    def planned(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        heard: list[Any] = []

        def stop(shown: Any, told: Any, method: str = "") -> None:
            heard.append((tuple(told), method))
            raise KeyboardInterrupt

        monkeypatch.setattr(progress.ProgressDisplay, "plan", stop)
        return heard

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (("fuse", "--method", "l1"), (parts.of_fuse("l1", 20.0, 4, page=True), "")),
            (("fuse", "--no-report"), (parts.of_fuse("auto", 20.0, 4, page=False), "")),
            (("fuse", "--every", "3"), (parts.of_sequence("auto", 2, 4, 20.0, page=True), "")),
            (("fuse", "--every", "1", "--no-report"), (parts.of_sequence("auto", 4, 4, 20.0, page=False), "")),
            (("scene", "--no-cloud"), (parts.of_scene("auto", 4, 20.0, cloud=False, mesh=False, page=True), "auto")),
            (
                ("scene", "--method", "l1", "--no-report"),
                (parts.of_scene("l1", 4, 20.0, cloud=True, mesh=False, page=False), "l1"),
            ),
        ],
        ids=lambda each: " ".join(each) if isinstance(each[0], str) else "",
    )
    def test_by_what_it_was_given(
        self, words: tuple[str, ...], expected: Any, planned: list[Any], tmp_path: Path
    ) -> None:
        camera = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
        write_bundle([View(np.full((4, 5), 2.0), camera, Pose.identity())] * 4, tmp_path / "data")
        command, *more = words
        assert main([command, str(tmp_path / "data"), "-o", str(tmp_path / "out"), *more, "--quiet"]) == 130
        assert planned == [expected]

    def test_a_scene_whose_first_view_cannot_be_read_has_usual_pixels(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Views:
            def __getitem__(self, number: int) -> View:
                raise FileError("cut short")

        monkeypatch.setattr("cfusion.scene.job.open_job", lambda job: SimpleNamespace(dataset=[1, 2, 3], views=Views()))
        assert scene._extent(None) == (3, scene.USUAL_PIXELS)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "words"), [(1, "1 frame"), (2, "2 frames")])
def test_a_recording_is_written_and_nothing_is_served(
    count: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[Any] = []
    monkeypatch.setattr("cfusion.view.frames.open_frames", lambda folder: list(range(count)))
    stand_in = SimpleNamespace(write_rerun=lambda *given: written.append(given))
    monkeypatch.setitem(sys.modules, "cfusion.view.rerun_file", stand_in)
    file = tmp_path / "a.rrd"
    assert said(capsys, "view", tmp_path, "--rerun", file) == [f"{words} written; play with: rerun {file}"]
    assert written == [(list(range(count)), file)]
    assert main(["view", str(tmp_path / "none")]) == 2
    assert "none is not a folder; give the OUT of fuse or scene" in capsys.readouterr().err
    for port in ("0", "65535"):
        assert main(["view", str(tmp_path), "--port", port]) == 2
        assert f"--port is {port}; give 1 to 65534" in capsys.readouterr().err
    assert main(["demo", "-o", str(tmp_path / "demo"), "--seed", "-1"]) == 2
    assert "--seed is -1; give a whole number from 0" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0.3, None])
def test_the_viewer_stays_as_long_as_asked(
    seconds: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or until Ctrl-C; then it stops what it serves."""
    from cfusion.cli import view

    stopped, clock = [], [0.0]
    server = SimpleNamespace(get_port=lambda: 8080)
    pages = SimpleNamespace(port=8081)
    viewer = SimpleNamespace(server=server, pages=pages, address="http://x", stop=lambda: stopped.append(clock[0]))
    monkeypatch.setattr("cfusion.view.frames.open_frames", lambda folder: [1, 2])
    monkeypatch.setattr("cfusion.view.input_views.InputViews", lambda *given: None)
    monkeypatch.setitem(sys.modules, "cfusion.view.viewer", SimpleNamespace(Viewer=lambda *given: viewer))

    def sleep(time: float) -> None:
        clock[0] += time
        if clock[0] > 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(view, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep))
    asked = argparse.Namespace(output=tmp_path, data=None, host="h", port=1, rerun=None, seconds=seconds)
    assert view.run(asked) == 0
    assert stopped == [pytest.approx(0.3 if seconds else 5.1, abs=0.11)]
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "open http://x (2 frames; Ctrl-C ends it)",
        "from elsewhere: ssh -L 8080:localhost:8080 -L 8081:localhost:8081 THIS_MACHINE",
    ]


@pytest.mark.parametrize(
    "command",
    [["stereo", "left.png", "right.png", "--focal", "100", "--baseline", "1"], ["demo"]],
    ids=lambda command: command[0],
)
def test_where_nothing_can_be_written_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """There are no images either: the output is what is said."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("a file")
    assert main([*command, "-o", "file/out"]) == 2
    said = capsys.readouterr().err
    assert "cannot write to file/out: file is not a folder" in said


def test_a_command_says_what_it_fused_where_it_wrote_it_and_what_to_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    camera = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
    write_bundle([View(np.full((4, 5), 2.0), camera, Pose.identity()) for _ in range(3)], tmp_path / "in")
    words = ("fuse", tmp_path / "in", "-o", tmp_path / "out", "--method", "median", "--backend", "numpy")
    read, first, status, written, page = said(capsys, *words)
    assert read == "bundle: unit metre, camera-to-world; 3 views"
    assert re.fullmatch(r"3 views fused with median in \d+\.\d\d s on numpy", first)
    assert status == "The answer is a closed form; nothing was iterated."
    assert (written, page) == (f"written to {tmp_path / 'out'}", f"open {tmp_path / 'out' / 'report.html'}")
    assert said(capsys, *words, "--no-report", "--force")[2:] == [status, written]
