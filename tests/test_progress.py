"""Progress of every command, recorded through a pseudo-terminal: it only moves forward, and foresees the end."""

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View
from cfusion.cli import compiling, parts, progress
from cfusion.cli import main as cli
from cfusion.cli.compiling import in_round_numbers, seconds_for, seconds_of
from cfusion.cli.forecast import Forecast, Part, in_words
from cfusion.cli.interruption import PRIOR, Interruption
from cfusion.cli.main import main
from cfusion.cli.progress import Step, prefixed
from cfusion.datasets import write_bundle
from cfusion.forecast import CHOOSE, CHOOSING, CHOSEN, FIRST, FITTED, GUESSED, LAST, SOLVED, SolveForecast
from cfusion.methods import METHODS

WIDTH, HEIGHT, VIEWS = 64, 48, 5


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Views of a slanted wall from places a little apart."""
    rng = np.random.default_rng(0)
    camera = Pinhole(60.0, 60.0, WIDTH / 2, HEIGHT / 2, WIDTH, HEIGHT)
    views = []
    for k in range(VIEWS):
        depth = 3 + 0.01 * np.arange(WIDTH)[None] + rng.laplace(0, 0.01, camera.shape)
        image = rng.random(camera.shape).astype(np.float32)
        views.append(View(depth, camera, Pose(np.eye(3), np.array([0.02 * k, 0.0, 0.0])), image=image, name=f"v{k}"))
    folder = tmp_path_factory.mktemp("bundle") / "data"
    write_bundle(views, folder)
    return folder


def rasters(folder: Path) -> list[str]:
    rasterio = pytest.importorskip("rasterio")
    from rasterio.transform import from_origin

    folder.mkdir(exist_ok=True)
    rng, files = np.random.default_rng(1), []
    hill = 100 + 5 * np.sin(np.arange(96) / 9)[:, None] * np.cos(np.arange(96) / 11)[None]
    for k in range(3):
        file = folder / f"{k}.tif"
        about = {"driver": "GTiff", "width": 96, "height": 96, "count": 1, "dtype": "float32", "crs": "EPSG:32633"}
        with rasterio.open(file, "w", transform=from_origin(5e5, 5e6, 10, 10), **about) as written:
            written.write((hill + rng.laplace(0, 0.5, hill.shape)).astype(np.float32), 1)
        files.append(str(file))
    return files


def pair(folder: Path) -> list[str]:
    pytest.importorskip("cv2")
    image = pytest.importorskip("PIL.Image")
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(2)
    texture = np.kron(rng.random((40, 60)), np.ones((4, 4))) + 0.3 * rng.random((160, 240))
    files = []
    for name, shift in (("left", 0), ("right", 12)):
        shown = np.roll(texture, -shift, axis=1)[:, :200]
        files.append(str(folder / f"{name}.png"))
        image.fromarray((255 * np.clip(shown / 1.3, 0, 1)).astype(np.uint8)).save(files[-1])
    return files


METHOD, RIG = ("--method", "l1-heuristic"), ("--focal", "100", "--baseline", "1", "--disparities", "32")
COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "fuse, auto": lambda data, out: ["fuse", str(data), "-o", str(out), "--backend", "cpu"],
    "fuse, l1": lambda data, out: ["fuse", str(data), "-o", str(out), *METHOD, "--set", "tolerance=1e-5"],
    "sequence": lambda data, out: ["fuse", str(data), "-o", str(out), *METHOD, "--every", "2", "--window", "3"],
    "scene": lambda data, out: ["scene", str(data), "-o", str(out), *METHOD, "--neighbours", "2"],
    "mosaic": lambda data, out: ["mosaic", *rasters(out), "-o", str(out / "made.tif")],
    "stereo": lambda data, out: ["stereo", *pair(out), "-o", str(out / "o"), *RIG],
    "demo": lambda data, out: ["demo", "-o", str(out), "--size", "80x60", "--methods", "median,l1"],
    "reproduce": lambda data, out: ["reproduce", "surfaces", "--quick", "-o", str(out), "--jobs", "1"],
    "check": lambda data, out: ["check", str(data)],
}


def recorded(arguments: list[str]) -> tuple[int, str]:
    """Exit code of Python with these arguments, and what a terminal of 140 columns was told on stderr."""
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "140"}
    process = subprocess.Popen(
        [sys.executable, *arguments], stderr=terminal, stdout=subprocess.DEVNULL, env=environment
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(controller)
    return process.wait(timeout=120), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))


SLOW = {"reproduce"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in COMMANDS]
)
def test_progress_never_falls(name: str, bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("rich")
    code, shown = recorded(["-m", "cfusion", *COMMANDS[name](bundle, tmp_path / "out")])
    assert code == 0, shown
    shares = [int(each) for each in re.findall(r"(\d+) %\s+\d+ s ", shown)]
    assert shares, "no bar was shown"
    assert shares == sorted(shares)
    assert shares[-1] <= 99  # the bar vanishes at the end, it does not wait at 100 %
    stages = {
        "fuse, auto": ("choosing weights", "making the page"),
        "fuse, l1": ("making the page",),  # its solve may end between two pictures of the bar
        "sequence": ("window 3 of 3",),
        "scene": ("view 5 of 5",),
        "mosaic": ("iterating", "making the page"),
        "stereo": ("matching by sgm",),
        "demo": ("rendering 11 views", "l1: depth"),
        "reproduce": ("surfaces, ", "tables and figures"),
        "check": ("comparing 5 views",),
    }
    for stage in stages[name]:
        assert stage in shown


def test_a_terminal_gets_a_bar_with_the_gap() -> None:
    pytest.importorskip("rich")
    program = (
        "import time\nfrom types import SimpleNamespace\nfrom cfusion.cli.progress import showing\n"
        "with showing('l1') as listen:\n"
        "    for done in (0.2, 0.5, 0.3, 1.0, 0.1):\n"
        "        listen(SimpleNamespace(stage='solve', done=done, gap=2.5e-3, energy=1.0))\n"
        "        time.sleep(0.25)\n"
    )
    code, shown = recorded(["-c", program])
    assert code == 0, shown
    assert "gap 2.5e-03" in shown
    shares = [int(each) for each in re.findall(r"(\d+) %", shown)]
    assert len(set(shares)) > 2
    assert shares == sorted(shares)  # it never falls, whatever it hears


def test_kernels_are_loaded_from_nothing_to_all() -> None:
    heard: list[Step] = []
    pytest.importorskip("numba")
    compiling.compile_kernels(["median"], "cpu", heard.append)
    told = [step.done for step in heard if step.stage == compiling.PREPARING]
    assert told == [0.0, 1.0]
    nothing: list[Step] = []
    compiling.compile_kernels(["median"], "numpy", nothing.append)
    assert not nothing


def test_compilation_is_named_and_counted() -> None:
    numba = pytest.importorskip("numba")
    heard: list[Step] = []
    kernel = numba.njit(lambda x: x + 1)
    with compiling.naming(["auto"], heard.append):
        kernel(1.0)
        kernel(2.0)  # it is there
    assert len(heard) == 2  # when it began, when it was done
    for step in heard:
        assert re.fullmatch(r"compiling kernels, once, about \d+ s", step.stage)
        assert step.seconds == seconds_for(["auto"])
    assert heard[0].done == 0
    assert heard[1].done == pytest.approx(seconds_of("<lambda>") / seconds_for(["auto"]))


def test_of_several_processes_one_compiles_its_share() -> None:
    numba = pytest.importorskip("numba")
    heard: list[Step] = []
    with compiling.naming(["auto"], heard.append, 4) as reached:
        reached(seconds_for(["auto"]) / 2)
        numba.njit(lambda x: x + 1)(1.0)
    assert {step.seconds for step in heard} == {seconds_for(["auto"]) / 4}
    assert heard[0].done == pytest.approx(0.5)


class TestInterruption:
    """Kernels that are compiled: counted once they begin, in work, and no word about the pace of the rest."""

    @staticmethod
    def run(pace: float) -> tuple[Forecast, list[tuple[float, float, float]]]:
        """20 s of compiling in kernels of 1 s, at this pace, amid two parts of 10 s; (now, left, really left)."""
        forecast, seen = Forecast("", (Part("a", 10.0), Part("b", 10.0))), []
        forecast.update(Step("a", 0.0), 0.0)
        for kernel in range(20):
            now = 2 + pace * kernel
            forecast.update(Step("compiling", kernel / 20, seconds=20.0), now)
            forecast.update(Step("compiling", (kernel + 1) / 20, seconds=20.0, rests=True), now + pace)
            seen.append((now + pace, forecast.left(now + pace), 2 + 20 * pace + 18 - now - pace))
        forecast.update(Step("a", 0.8), 2 + 20 * pace + 6)
        forecast.update(Step("b", 0.0), 2 + 20 * pace + 8)
        return forecast, seen

    @pytest.mark.parametrize("pace", [0.4, 1.0, 2.5])
    def test_from_a_quarter_on_the_end_is_foreseen(self, pace: float) -> None:
        forecast, seen = self.run(pace)
        end = 2 + 20 * pace + 18
        for now, left, real in seen:
            if now > end / 4:
                assert 0.5 <= left / real <= 2
        assert forecast.left(end - 10) == pytest.approx(10, rel=0.01)  # the pace of the parts is as if nothing had been

    def test_it_does_not_count_before_it_begins(self) -> None:
        forecast = Forecast("", (Part("a", 10.0),))
        forecast.update(Step("a", 0.0), 0.0)
        calm = forecast.left(0.1)
        forecast.update(Step("compiling", 0.0, seconds=20.0), 0.1)
        assert (calm, forecast.left(0.1)) == pytest.approx((9.9, 29.9))

    def test_what_was_not_compiled_when_the_next_part_begins_is_there(self) -> None:
        forecast = Forecast("", (Part("a", 10.0), Part("b", 10.0)))
        forecast.update(Step("a", 0.0), 0.0)
        forecast.update(Step("compiling", 0.0, seconds=20.0), 1.0)
        forecast.update(Step("compiling", 0.1, seconds=20.0, rests=True), 2.0)
        forecast.update(Step("a", 0.1), 2.0)
        assert forecast.left(2.0) > 25
        forecast.update(Step("b", 0.0), 11.0)
        assert forecast.left(11.0) == pytest.approx(10.0)  # at the usual pace: nine seconds and the one without words

    def test_between_two_words_it_follows_the_clock_for_half_of_the_way(self) -> None:
        interruption = Interruption()
        interruption.update(0.0, 20.0, 5.0, rests=False)
        assert [interruption.left(now) for now in (5.0, 9.0, 15.0, 50.0)] == [20.0, 16.0, 10.0, 10.0]
        assert [interruption.clock(now) for now in (5.0, 50.0)] == [5.0, 5.0]
        interruption.update(0.5, 20.0, 30.0, rests=True)
        assert interruption.clock(40.0) == 15.0
        assert interruption.left(30.0) == interruption.left(40.0) == pytest.approx(10 * (25 + PRIOR) / (10 + PRIOR))


def test_every_kernel_of_large_maps_is_compiled_beforehand() -> None:
    pytest.importorskip("numba")
    from cfusion.kernels.cpu.selecting import FEWEST

    assert compiling.MANY == FEWEST


def test_parts_share_the_pace_of_their_kind() -> None:
    """Solves on all threads are quick here, the rest is slow: neither is foreseen by the other."""
    forecast = Forecast("", tuple(Part(name, 10.0, kind) for name, kind in ("a1", "b2", "c1", "d2", "e1")))
    for name, at in (("a", 0.0), ("b", 30.0), ("c", 35.0), ("d", 65.0)):
        forecast.update(Step(name, 0.0), at)
    assert forecast.left(65.0) == pytest.approx(5 + 30, rel=0.1)
    forecast.update(Step("e", 0.0), 70.0)
    assert forecast.left(70.0) == pytest.approx(30, rel=0.1)
    forecast.plan(tuple(Part(name, 10.0, kind) for name, kind in ("a1", "c1", "e1", "f1")), "")
    assert forecast.left(70.0) == pytest.approx(60, rel=0.15)


def test_round_numbers_for_people() -> None:
    assert [in_round_numbers(each) for each in (0.4, 6, 12, 24, 26, 133)] == [5, 5, 10, 20, 30, 130]


@pytest.mark.parametrize("method", ["auto", "l1"])
def test_the_kernels_of_a_method_are_the_work_that_is_foreseen(method: str) -> None:
    """In seconds of a usual machine, whether they are compiled in this run or come from the cache."""
    pytest.importorskip("numba")
    program = (
        "import gc, sys\nfrom numba.core.dispatcher import Dispatcher\nfrom cfusion.cli import compiling\n"
        "compiling.compile_kernels([sys.argv[1]], 'cpu', lambda step: None)\n"
        "made = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]\n"
        "ours = [each for each in made if each.py_func.__module__.startswith('cfusion.')]\n"
        "print(sum(compiling.seconds_of(each.__name__) * len(each.stats.cache_hits | each.stats.cache_misses)"
        " for each in ours))"
    )
    done = subprocess.run([sys.executable, "-c", program, method], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(seconds_for([method]), rel=0.15)


def test_kernels_that_methods_share_are_compiled_once() -> None:
    assert seconds_for(["l1", "l1-adapt"]) == seconds_for(["l1"]) < seconds_for(["l1", "auto"]) == seconds_for(["auto"])
    assert seconds_for(["rof", "l1"]) == pytest.approx(seconds_for(["l1"]) + seconds_of("sweep"))  # of another kind
    assert seconds_for(["unheard of"]) > seconds_for(["l1"])


class TestForecast:
    """Events of real runs (tools/record_progress.py): the fraction never falls; from a quarter on the end is near."""

    RUNS = json.loads((Path(__file__).parent / "progress.json").read_text())

    @staticmethod
    def planned(run: dict[str, Any]) -> tuple[Part, ...]:
        method, pixels, views = run["method"], run["pixels"], run["views"]
        if run["command"] == "scene":
            return parts.of_scene(method, views, pixels, cloud=True, mesh=False, page=True)
        if run["command"] == "demo":
            return parts.of_demo(TestForecast.in_order(), pixels, page=True)
        return parts.of_fuse(method, pixels, views, page=True)

    @staticmethod
    def in_order() -> list[str]:
        return sorted((name for name in METHODS if ":" not in name), key=lambda name: name != "auto")

    @classmethod
    def step(cls, told: list[Any]) -> Step:
        stage, done, gap, *more = told
        about = more[0] if more else {}
        if "inside" in about:
            about = about | {"inside": cls.step(about["inside"])}
        return Step(stage, done, math.nan if gap is None else gap, **about)

    @staticmethod
    def elsewhere(run: dict[str, Any], gain: float, pace: float) -> tuple[list[list[Any]], float]:
        """Events and time on a machine whose threads make a solve faster by `gain`, all of it slower by `pace`."""
        events, now, before, solving = [], 0.0, 0.0, False
        for at, *told in [*run["events"], [run["total"]]]:
            now, before = now + pace * (at - before) / (gain if solving else 1.0), at
            events.append([now, *told])
            if len(told) >= 3:
                solving = ":" in told[0] or told[0].startswith(("fusing", "depth", "choosing", "view"))
        return events[:-1], now

    @pytest.mark.parametrize("pace", [0.8, 1.0, 3.0])
    @pytest.mark.parametrize(("threads", "gain"), [(1, 1.0), (2, 1.7)])
    @pytest.mark.parametrize("run", RUNS, ids=[run["name"] for run in RUNS])
    def test_the_end_is_foreseen_within_a_factor_of_two(
        self, run: dict[str, Any], threads: int, gain: float, pace: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Or within a second, as whole ones are shown; of a usual machine, but for the demo. Kernels come as then."""
        monkeypatch.setenv("NUMBA_NUM_THREADS", str(threads))
        events, total = self.elsewhere(run, gain if run["pixels"] > parts.FOR_A_THREAD else 1.0, pace)
        clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
        monkeypatch.setattr(compiling, "time", clock)
        methods = self.in_order() if run["command"] == "demo" else [run["method"]]
        forecast = Forecast(run["method"], self.planned(run))
        work = compiling._Work(seconds_for(methods), lambda step: forecast.update(step, clock.now))
        slack = 1.0 if run["command"] == "demo" else max(1.0, pace)
        shown, off, coming = 0.0, [], events
        for now in np.linspace(0.01, 0.97, 97) * total:
            while coming and coming[0][0] <= now:
                (clock.now, *told), *coming = coming
                if len(told) == 1:
                    work.reached(seconds_for(methods[: told[0]]))
                elif len(told) == 2:
                    work.kernel_event(*told)
                else:
                    forecast.update(self.step(told), clock.now)
            fraction, left, real = forecast.fraction(now), forecast.left(now), total - now
            assert shown <= fraction < 1
            shown = fraction
            if now >= total / 4 and not 0.5 <= left / real <= 2 and abs(left - real) > slack:
                off.append((round(now, 1), told[0], round(left, 1), round(real, 1)))
        assert off == []

    def test_many_tasks_are_foreseen_by_their_pace(self) -> None:
        forecast = Forecast("l1", (Part("looking", 1.0), Part("view", 100.0)))
        for view in range(10):  # each takes 4 s, of which its solve tells once
            solving = SimpleNamespace(stage="depth", done=0.04, gap=math.inf)
            at = 2 + 4 * view
            forecast.update(Step(f"view {view + 1} of 10", view / 10, math.inf, solving, 0.1), at + 2)
            if view >= 3:
                assert forecast.left(at + 2) == pytest.approx(42 - at - 2, rel=0.5, abs=2)
                assert 0.5 <= forecast.fraction(at + 2) / ((at + 2) / 42) <= 2
            forecast.update(Step(f"view {view + 1} of 10", (view + 1) / 10), at + 4)
        assert forecast.left(42.0) <= 1

    def test_what_comes_before_the_unnamed_part_is_gone_through_first(self) -> None:
        """A plan that is made while nothing has begun starts at the first part that is told, and does not go back."""
        forecast = Forecast("l1")
        forecast.plan((Part("reading", 10.0), Part("", 90.0)), "l1")
        forecast.update(Step("reading", 0.0), 0.0)
        forecast.update(Step("reading", 0.5), 5.0)
        assert forecast.left(5.0) == pytest.approx(95.0, rel=0.1)
        forecast.update(Step("anything", 0.0), 10.0)
        assert forecast.left(10.0) == pytest.approx(90.0, rel=0.1)
        forecast.update(Step("reading", 0.9), 11.0)  # of a part that is over
        assert forecast.left(11.0) == pytest.approx(89.0, rel=0.1)

    def test_a_silent_part_follows_the_clock(self) -> None:
        forecast = Forecast("", (Part("a", 100.0), Part("b", 100.0)))
        forecast.update(Step("a", 0.0), 0.0)
        forecast.update(Step("b", 0.0), 200.0)  # twice as slow as usual
        assert forecast.left(200.0) == pytest.approx(200.0, rel=0.1)
        assert forecast.left(350.0) == pytest.approx(50.0, rel=0.2)
        assert 0 < forecast.left(1000.0) < 300

    def test_methods_have_parts_of_their_own(self) -> None:
        heard: list[Any] = []
        prefixed("l1", heard.append)(SimpleNamespace(stage="depth", done=0.5, gap=0.1))
        assert (heard[0].stage, heard[0].method, heard[0].share) == ("l1: depth", "l1", 1.0)

    def test_durations_are_for_people(self) -> None:
        said = ["1 s left", "30 s left", "50 min left", "10.0 h left", ""]
        assert [in_words(each) for each in (0.2, 30, 3000, 36000, math.nan)] == said


def test_without_a_terminal_there_is_a_line_now_and_then(bundle: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cfusion", "scene", str(bundle), "-o", str(tmp_path / "out")]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    spent = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) <= 2 + spent / 5
    shares = [int(share) for share in re.findall(r"^scene: (\d+) %", done.stderr, re.MULTILINE)]
    assert shares == sorted(shares)
    assert all(share < 100 for share in shares)


STAGES = {  # but for those that count, and kernels, which may be compiled already
    "fuse, l1": ["fusing", "writing"],
    "sequence": ["reading 5 frames"],
    "scene": [],
    "mosaic": [],
    "stereo": ["reading the pair", "looking whether it is a pair", "matching by sgm", "writing"],
    "demo": ["rendering 11 views", "median:", "l1:"],
}


@pytest.mark.parametrize("name", STAGES)
def test_json_is_one_object_and_stages_are_told_when_they_begin(
    name: str, bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else is printed; a stage that is told once is told at its beginning, with all of it ahead."""
    heard: list[Step] = []
    monkeypatch.setattr(progress.ProgressDisplay, "__call__", lambda shown, step: heard.append(step))
    arguments = COMMANDS[name](bundle, tmp_path / "out")
    assert main([*arguments, "--json", "--quiet", "--no-report"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert not list((tmp_path / "out").rglob("*report.html"))
    counted = re.compile(r"\d of \d")
    steps = [e for e in heard if isinstance(e, Step) and e.inside is None and not counted.search(e.stage)]
    told = {stage: [each.done for each in steps if each.stage == stage] for stage in {each.stage for each in steps}}
    assert [stage for stage in dict.fromkeys(each.stage for each in steps) if "kernels" not in stage] == STAGES[name]
    assert all(0 <= done <= 1 for shares in told.values() for done in shares)
    assert {stage: shares for stage, shares in told.items() if len(shares) == 1 and shares[0] > 0} == {}


def test_every_command_that_reports_takes_the_three_flags() -> None:
    needed = {"mosaic": ["a.tif", "-o", "b.tif"], "evaluate": ["a", "b"], "reproduce": ["noise"]}
    needed |= {"fuse": ["a", "-o", "b"], "scene": ["a", "-o", "b"], "stereo": ["a", "b", "-o", "c"], "check": ["a"]}
    for command in cli.COMMANDS:
        if command.NAME != "view":  # it serves a page until it is ended
            for flag in ("--quiet", "--verbose", "--json"):
                chosen = cli.build_parser().parse_args([command.NAME, *needed.get(command.NAME, []), flag])
                assert vars(chosen)[flag[2:]] is True


@pytest.mark.parametrize("name", ["stereo", "demo"])
@pytest.mark.parametrize("page", [False, True])
def test_a_page_is_planned_where_one_is_wanted(
    name: str, page: bool, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []

    def stop(shown: Any, parts_of_it: Any, method: str = "") -> None:
        planned.extend(parts_of_it)
        raise KeyboardInterrupt

    monkeypatch.setattr(progress.ProgressDisplay, "plan", stop)
    arguments = [*COMMANDS[name](bundle, tmp_path / "out"), *([] if page else ["--no-report"])]
    assert main([*arguments, "--quiet"]) == 130
    assert any(part.stages == parts.PAGE for part in planned) == page


@pytest.mark.parametrize("page", [False, True])
def test_a_page_is_a_part_of_the_work_where_one_is_made(page: bool) -> None:
    planned = (
        parts.of_fuse("auto", 1e5, page=page),
        parts.of_scene("auto", 3, 1e5, cloud=True, mesh=True, page=page),
        parts.of_demo(["auto"], 1e5, page=page),
        parts.of_stereo("elas", page=page),
        parts.of_mosaic(page=page),
    )
    assert [any(part.stages == parts.PAGE for part in each) for each in planned] == [page] * 5


def test_auto_passes_its_landmarks_in_order() -> None:
    """A first solve, the choice of weights, the fit and the last solve: each tells more than the one before."""
    forecast, shown = SolveForecast("auto"), []
    told = [
        ("depth", 0.5),
        ("depth", 1.0),
        (CHOOSING, 0.5),
        ("depth", 0.5),
        ("depth", 1.0),
        ("depth", 0.5),
        ("depth", 1.0),
    ]
    for second, (stage, done) in enumerate(told, 1):
        forecast.update(Step(stage, done), float(second))
        shown.append(forecast.known)
    assert shown == [FIRST, GUESSED, CHOOSE, CHOSEN, FITTED, LAST, SOLVED]
