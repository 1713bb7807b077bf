import argparse
import ast
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import METHODS, Pinhole, Pose, Result, View
from cfusion.cli import compiling, fuse, mosaic, progress, settings
from cfusion.cli import main as main_module
from cfusion.cli.main import main
from cfusion.datasets import write_bundle, write_result
from cfusion.errors import FileError, InputError

HEAVY = ("numba", "llvmlite", "scipy", "matplotlib", "trimesh", "PIL", "rich", "cupy", "dask", "cv2")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    camera = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
    views = [View(np.full((4, 5), 2.0 + 0.1 * k), camera, Pose.identity(), name=f"v{k}") for k in range(3)]
    write_bundle(views, tmp_path / "bundle", unit="foot")
    return tmp_path / "bundle"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, result: Result) -> list[dict[str, Any]]:
    """Stand in for the fusion itself; what it was called with."""
    heard: list[dict[str, Any]] = []

    def fuse(views: Any, method: str = "auto", **arguments: Any) -> Result:
        heard.append({"views": views, "method": method} | arguments)
        depth = views[0].depth
        maps = {"depth": depth, "confidence": np.ones_like(depth), "sigma": np.ones_like(depth)}
        provenance = np.ones(depth.shape, np.int16)
        return replace(result, method=method, camera=views[0].camera, provenance=provenance, **maps)

    module = ModuleType("cfusion.fuse")
    module.fuse = fuse  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cfusion.fuse", module)
    monkeypatch.setattr(compiling, "COMPILED", ())
    return heard


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


HELP = (
    "from contextlib import suppress\nfrom cfusion.cli.main import main\nwith suppress(SystemExit):\n    main({!r})\n"
)
LOADED = "import sys; print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"


def loaded_after(program: str) -> set[str]:
    """The modules that a program leaves loaded."""
    done = subprocess.run([sys.executable, "-c", f"{program}\n{LOADED}"], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_importing_loads_nothing_yet() -> None:
    ours = {name for name in loaded_after("import cfusion") if name.split(".")[0] in {"cfusion", "numpy", *HEAVY}}
    assert ours == {"cfusion"}


def test_fusing_needs_numpy_only() -> None:
    """Heavy libraries wait until a backend, a reader or a page needs them."""
    assert not {*HEAVY} & loaded_after("import cfusion; cfusion.fuse, cfusion.METHODS, cfusion.read")


@pytest.mark.parametrize("words", [[], ["--help"], *([command.NAME, "--help"] for command in main_module.COMMANDS)])
def test_help_loads_the_command_line_only(words: list[str]) -> None:
    """Neither NumPy nor a method: that is what keeps it quick, whoever else uses the processor."""
    loaded = loaded_after(HELP.format(words))
    ours = {".".join(name.split(".")[:2]) for name in loaded if name.split(".")[0] == "cfusion"}
    assert ours == {"cfusion", "cfusion.cli", "cfusion.errors"}
    assert not {"numpy", *HEAVY} & loaded


def test_help_is_quick() -> None:
    """A quarter of a second of the processor, the best of five: the clock on the wall also counts the neighbours."""
    seconds = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-m", "cfusion", "--help"], capture_output=True, check=True)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        seconds.append(spent)
    assert min(seconds) < 0.25


def test_help_names_the_methods_that_there_are() -> None:
    from cfusion import METHODS
    from cfusion.cli import fuse

    assert ", ".join(name for name in METHODS if ":" not in name) == fuse.METHODS


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    printed = capsys.readouterr().out
    for command in ("demo", "fuse", "evaluate", "methods", "info"):
        assert f"\n    {command} " in printed


def test_fuse_passes_on_what_was_asked(bundle: Path, tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    options = ("--method", "l1", "--reference", 2, "--backend", "numpy", "--write", "npy,ply")
    code = run("fuse", bundle, "-o", tmp_path / "out", *options, "--set", "lam=0.5", "--set", "alpha=(1.0, 2.0)")
    assert code == 0
    call = calls[0]
    assert (call["method"], call["reference"], call["backend"]) == ("l1", 2, "numpy")
    assert (call["lam"], call["alpha"]) == (0.5, (1.0, 2.0))
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("depth.npy", "confidence.npy", "sigma.npy", "provenance.npy", "points.ply", "result.json", "report.html")
    }
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (written["input"], written["unit"]) == (str(bundle), "foot")


@pytest.mark.parametrize("method", ["median", "l1-adapt", "auto"])
def test_fuse_end_to_end(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str) -> None:
    """Three flat maps of the same scene at 2.0, 2.1 and 2.2: every method finds the middle one."""
    out = tmp_path / "out"
    assert run("fuse", bundle, "-o", out, "--method", method, "--backend", "numpy") == 0
    assert f"3 views fused with {method}" in capsys.readouterr().out
    written = json.loads((out / "result.json").read_text())
    assert written["method"] == method
    assert written["backend"] == "numpy"
    np.testing.assert_allclose(np.load(out / "depth.npy")[1:3, 1:4], 2.1, atol=0.02)
    assert run("evaluate", out, out / "depth.npy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rmse"] == 0.0


def test_what_fuse_refuses_is_one_line(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, words in (
        (("--method", "l1-adapd"), "l1-adapt"),
        (("--backend", "gpu"), "'gpu'"),
        (("--reference", 3), "3"),
        (("--set", "lamb=1"), "'lam'"),
        (("--method", "l1", "--set", "lam=-1"), "lam"),
    ):
        assert run("fuse", bundle, "-o", tmp_path / "out", *options) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("cfusion: ")
        assert captured.err.count("\n") == 1
        assert words in captured.err
    assert not (tmp_path / "out").exists()


def test_methods_lists_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("methods") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)
    assert all(method.summary in line for line, method in zip(lines, METHODS.values(), strict=True))


def test_reference_of_the_bundle_is_the_default(bundle: Path, tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    content = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps(content | {"reference": 0}))
    run("fuse", bundle, "-o", tmp_path / "out", "--quiet")
    run("fuse", bundle, "-o", tmp_path / "out", "--quiet", "--reference", 1, "--force")
    assert [call["reference"] for call in calls] == [0, 1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bundle": "nowhere"}, "nowhere does not exist"),
        ({"out": "bundle/bundle.json"}, "is not a folder"),
        ({"--write": "npy,jpg"}, "'jpg'"),
        ({"--set": "lam"}, "not name=value"),
        ({"--format": "bundel"}, "did you mean 'bundle'"),
    ],
)
def test_mistakes_are_one_line_before_any_work(
    bundle: Path,
    calls: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, str],
    words: str,
) -> None:
    monkeypatch.chdir(bundle.parent)
    options = [item for name, value in change.items() if name.startswith("--") for item in (name, value)]
    code = run("fuse", change.get("bundle", "bundle"), "-o", change.get("out", "out"), *options)
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("cfusion: ")
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert calls == []
    assert sorted(path.name for path in bundle.parent.iterdir()) == ["bundle"]


def test_debug_shows_where(tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    for arguments in (("--debug", "fuse"), ("fuse", "--debug")):
        with pytest.raises(FileError, match="does not exist"):
            run(*arguments, tmp_path / "nowhere", "-o", tmp_path / "out")


def test_usage_mistakes_exit_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("fuse",),
        ("nonsense",),
        ("demo", "--size", "0x4"),
        ("evaluate", "a", "b", "--camera", "x"),
    ):
        with pytest.raises(SystemExit) as caught:
            run(*arguments)
        assert caught.value.code == 2
    assert "not a size such as 320x240" in capsys.readouterr().err


STUCK = """
import sys, time, types
import cfusion
module = types.ModuleType("cfusion.fuse")
def fuse(*arguments, **options):
    print("fusing", flush=True)
    time.sleep(60)
module.fuse = fuse
sys.modules["cfusion.fuse"] = module
import cfusion.io.atomic as atomic
if sys.argv[3] == "writing":
    import cfusion.datasets
    module.fuse = lambda *arguments, **options: None
    def write_result(result, folder, *arguments, **options):
        with atomic.filling(folder) as draft:
            (draft / "depth.npy").write_bytes(bytes(1000))
            fuse()
    cfusion.datasets.write_result = write_result
from cfusion.cli.main import main
sys.exit(main(["fuse", sys.argv[1], "-o", sys.argv[2], "--quiet"]))
"""


def heed_ctrl_c() -> None:
    """In a child: what runs in the background of a shell would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("stage", ["fusing", "writing"])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "cfusion: interrupted; nothing was written\n"),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_an_interrupted_run_leaves_nothing(
    bundle: Path, tmp_path: Path, stage: str, number: signal.Signals, code: int, said: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(bundle), str(tmp_path / "deep" / "out"), stage],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "fusing\n"
    process.send_signal(number)
    _, complaint = process.communicate(timeout=20)
    assert (process.returncode, complaint) == (code, said)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m cfusion info | true; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert found.stderr == ""


def test_evaluate_scores_files_and_folders(tmp_path: Path, result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    write_result(result, tmp_path / "result")
    truth = result.depth.copy()
    truth[1:] += 0.25
    np.save(tmp_path / "truth.npy", truth)
    assert run("evaluate", tmp_path / "result", tmp_path / "truth.npy", "--json", "--baseline", "0.5") == 0
    scores = json.loads(capsys.readouterr().out)
    error = (result.depth - truth)[np.isfinite(truth)]
    assert scores["bias"] == pytest.approx(error.mean(), rel=1e-5)
    assert scores["rmse"] == pytest.approx(error.std(), rel=1e-4)
    assert run("evaluate", tmp_path / "result", tmp_path / "truth.npy", "--scale", "3") == 2
    assert "states its own scale; leave --scale" in capsys.readouterr().err
    assert run("evaluate", tmp_path / "none", tmp_path / "truth.npy") == 2
    assert "none does not exist; give a result folder or a depth map" in capsys.readouterr().err
    assert scores["nmae"] is not None
    assert scores["d_avg"] > 0
    assert run("evaluate", tmp_path / "result" / "depth.npy", tmp_path / "truth.npy") == 0
    table = capsys.readouterr().out
    assert "RMSE" in table
    assert "NMAE" not in table  # a lone file has no camera
    camera = ("--camera", "10,10,2,1.5")
    assert run("evaluate", tmp_path / "result" / "depth.npy", tmp_path / "truth.npy", *camera) == 0
    assert "NMAE" in capsys.readouterr().out
    assert run("evaluate", tmp_path / "result" / "depth.png", tmp_path / "truth.npy") == 2
    assert "give its scale" in capsys.readouterr().err
    assert run("evaluate", tmp_path / "result", tmp_path / "truth.npy", "--camera", "1,2,3") == 2
    assert "3 numbers were given" in capsys.readouterr().err


def test_info_says_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info") == 0
    out = capsys.readouterr().out
    assert f"numpy      {np.__version__}" in out
    assert "threads" in out
    assert "numpy" in next(line for line in out.splitlines() if line.startswith("backends"))
    assert "extra cuda" in out


def test_demo_writes_a_page(tmp_path: Path, calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    for library in ("trimesh", "embreex"):
        pytest.importorskip(library)
    out = tmp_path / "demo"
    options = ("--size", "64x48", "--methods", "median,l1-adapt:ama", "--quiet")
    assert run("demo", "-o", out, *options) == 0
    assert [call["method"] for call in calls] == ["median", "l1-adapt:ama"]
    assert [len(call["views"]) for call in calls] == [11, 11]
    assert calls[0]["views"][5].camera.shape == (48, 64)
    printed = capsys.readouterr().out
    assert "Z-avg" in printed
    assert "D-avg" in printed
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert names == {"report.html", "scores.md", "scores.json"}
    page = (out / "report.html").read_text()
    assert page.index('"name":"median"') < page.index('"name":"l1-adapt:ama"')  # in the order asked for
    assert "Laplace noise" in page
    rows = json.loads((out / "scores.json").read_text())
    assert [row["name"] for row in rows] == ["median", "l1-adapt:ama"]


def test_demo_needs_somewhere_to_write(tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    (tmp_path / "file").write_text("")
    assert run("demo", "-o", tmp_path / "file" / "out") == 2
    assert calls == []


def test_no_report_leaves_the_page_out(bundle: Path, tmp_path: Path, calls: list[dict[str, Any]]) -> None:
    assert run("fuse", bundle, "-o", tmp_path / "out", "--write", "npy", "--quiet", "--no-report") == 0
    assert not (tmp_path / "out" / "report.html").exists()


def test_png_without_pillow_names_the_extra(
    bundle: Path,
    calls: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert run("fuse", bundle, "-o", bundle.parent / "out") == 2
    assert "[data]'" in capsys.readouterr().err
    assert calls == []
    assert run("fuse", bundle, "-o", bundle.parent / "out", "--write", "npy,ply", "--quiet") == 0


def test_settings_are_numbers_tuples_or_words() -> None:
    given = ["lam=0.5", "alpha=(1.0, 2.0)", "order=2", "fidelity=huber", "note=a=b"]
    expected = {"lam": 0.5, "alpha": (1.0, 2.0), "order": 2, "fidelity": "huber", "note": "a=b"}
    assert settings.parameters(given) == expected
    for wrong in (["lam"], ["=3"], ["a b=3"], ["lam=1", "lam=2"]):
        with pytest.raises(InputError):
            settings.parameters(wrong)


class TestProgress:
    """Silence for a second, then the gap; a bar on a terminal."""

    def heard(self, gap: float = 1e-3) -> SimpleNamespace:
        return SimpleNamespace(stage="solve", done=0.5, gap=gap, energy=1.0)

    def test_short_work_is_silent(self, capsys: pytest.CaptureFixture[str]) -> None:
        with progress.showing("l1") as listen:
            listen(self.heard())
        assert capsys.readouterr().err == ""

    def test_long_work_speaks_now_and_then(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = iter([100.0, 100.5, 101.5, 102.0, 107.0])
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
        with progress.showing("scene") as listen:
            for done in (0.1, 0.3, 0.4, 0.7):
                listen(progress.Step("rendering", done, 1e-3))
        said = capsys.readouterr().err.splitlines()
        assert said == [
            "scene: 30 %, 4 s left, rendering, gap 1.0e-03",
            "scene: 70 %, 3 s left, rendering, gap 1.0e-03",
        ]
        assert progress.described(self.heard(float("nan"))) == "solve"

    def test_quiet_is_quiet(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(progress, "PATIENCE", 0.0)
        with progress.showing("l1", quiet=True) as listen:
            listen(self.heard())
        assert capsys.readouterr().err == ""


def test_after_silence_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        main_module._silence()
        sys.stdout.write("more")
    assert (tmp_path / "out").read_text() == ""


@pytest.mark.parametrize("command", main_module.COMMANDS, ids=lambda command: command.NAME)
def test_every_option_that_a_command_reads_can_be_given(command: ModuleType) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    read = {
        node.attr
        for node in ast.walk(ast.parse(Path(command.__file__ or "").read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "arguments"
    }
    offered = {action.dest for action in parser._actions} | {"debug"}
    if command is mosaic:  # to which `fuse` hands height models over
        fuse.add_arguments(other := argparse.ArgumentParser())
        offered |= {action.dest for action in other._actions}
    assert read <= offered


def test_what_was_fused_is_told_as_json(
    bundle: Path, tmp_path: Path, calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fuse", bundle, "-o", tmp_path / "out", "--json", "--no-report") == 0
    assert len(calls) == 1
    told = json.loads(capsys.readouterr().out)
    assert str(tmp_path / "out") in json.dumps(told)
