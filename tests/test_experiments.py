"""Experiments: specifications are checked, results are found again by what made them, tables come from results only."""

import copy
import csv
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import METHODS
from cfusion.cli.main import main
from cfusion.errors import CFusionError, FileError
from cfusion.experiments import NAMES, Level, Spec, Store, load, plan, read_spec, run, runner, so_far, summary
from cfusion.experiments import code_version as code_version_module
from cfusion.experiments.boxes import Box, Regions, draw
from cfusion.experiments.code_version import (
    EXCLUDED,
    MATCHING,
    PACKAGE,
    RENDERING,
    Parts,
    code_version,
    solving,
    sources,
)
from cfusion.experiments.conditions import BoxImage, OnTrack
from cfusion.experiments.matches import Matches
from cfusion.experiments.models import Model
from cfusion.experiments.plan import Cell, Job, Plan
from cfusion.experiments.publish import Findings, publish
from cfusion.experiments.read_spec import _entry, _models, paper_folder
from cfusion.experiments.runner import Eta
from cfusion.experiments.spec import LITERAL, TRUTH
from cfusion.experiments.summary import summarise
from cfusion.experiments.work import work
from cfusion.io.json_object import JsonObject
from cfusion.metrics import THRESHOLDS

SCENES = '[city]\nstand_in = "city"\n[mesh]\nfile = "mesh.ply"\nlongest_side = 2.0\nstand_in = "blob"\n'
SMALL = """
title = "Small"
about = "A city, small."
average = "geometric"
seeds = [0]
[quick]
parts = ["table"]
scale = 0.1
[data.city]
kind = "meshes"
scenes = ["city"]
track = "nadir"
views = 3
spacing = 1
noise = { laplace = 6.0 }
baseline = 4.0
scale = 0.1
[rows]
"Median" = { method = "median" }
"Mean" = { method = "mean" }
"L1" = { method = "l1" }
[rows."oracle"]
method = "l1"
oracle = "rmse"
grid = { alpha = [[0.5, 1.0], [2.0, 4.0]] }
[[parts]]
name = "table"
kind = "table"
caption = "Scores."
data = ["city"]
columns = ["rmse", "z_avg"]
[parts.published]
"Median" = [4.0, 2.0]
[[parts.checks]]
says = "near the published"
rows = ["Median"]
columns = ["rmse"]
within = 0.5
"""


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    """A folder with one small specification."""
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "scenes.toml").write_text(SCENES)
    (folder / "small.toml").write_text(SMALL)
    return folder


def small(paper: Path, *edits: tuple[str, str]) -> Spec:
    text = SMALL
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (paper / "small.toml").write_text(text)
    return load("small", paper)


def results(spec: Spec, store: Store, **how: Any) -> list[dict[str, Any]]:
    return run(plan(spec, Level.tables, "numpy"), store, workers=1, **how)


def numbers(lines: list[dict[str, Any]]) -> list[Any]:
    """What has to be the same in every run."""
    return [(line["row"], line["key"], line["scores"]) for line in lines]


# ---- specifications ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_specification_loads_and_names_methods_that_exist(name: str) -> None:
    spec = load(name)
    assert spec.parts
    assert {row.method for row in spec.rows.values()} <= {*METHODS, TRUTH, LITERAL}


def tables_of(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every table of a specification stands."""
    if isinstance(content, dict):
        yield place
        for key, value in content.items():
            yield from tables_of(value, (*place, key))
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from tables_of(value, (*place, number))


@pytest.mark.parametrize("name", [*NAMES, "scenes"])
def test_a_key_that_is_misspelt_is_refused_in_every_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong name is never ignored: not at the top, not in data, rows, parts, checks, boxes, models."""
    whole = tomllib.loads((read_spec.paper_folder() / f"{name}.toml").read_text())
    entry, tried = read_spec._entry, 0
    for place in tables_of(whole):
        harmed = copy.deepcopy(whole)
        inner: Any = harmed
        for key in place:
            inner = inner[key]
        inner["misspelt"] = 1
        changed = JsonObject(harmed, f"{name}.toml")
        monkeypatch.setattr(
            read_spec, "_entry", lambda file, changed=changed: changed if file.stem == name else entry(file)
        )
        with pytest.raises(CFusionError):
            load("objects" if name == "scenes" else name)
            pytest.fail(f"taken in {place}")
        tried += 1
    assert tried > 5


def test_the_objects_table_has_every_row_of_the_paper_and_ours() -> None:
    spec = load("objects")
    table = next(part for part in spec.parts if part.kind == "table")
    assert set(table.rows) - set(table.published or {}) == {"auto", *(r for r in table.rows if "truth" in r)}
    assert len(table.published or {}) == 17
    for name in ("Reference", "ROF-adapt", "Adapt-hprior (AMA)", "Adapt-hprior+G (ACS)"):
        rmse, zmae, nmae, z_avg = (table.published or {})[name][:4]
        # geometric means of each column have the geometric mean of the three as that of the last
        assert z_avg == pytest.approx((rmse * zmae * nmae) ** (1 / 3), rel=2e-3)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('average = "geometric"', 'average = "harmonic"', "harmonic"),
        ('caption = "Scores."', 'caption = "Scores."\ncolour = "red"', "colour"),
        ('{ method = "mean" }', '{ method = "meen" }', "did you mean"),
        ('{ method = "mean" }', '{ method = "l1", parameters = { alfa = 1.0 } }', "alfa"),
        ('scenes = ["city"]', 'scenes = ["atlantis"]', "atlantis"),
        ('columns = ["rmse", "z_avg"]', 'columns = ["rmsd", "z_avg"]', "rmsd"),
        ('"Median" = [4.0, 2.0]', '"Median" = [4.0]', "published"),
        ('"Median" = [4.0, 2.0]', '"Medium" = [4.0, 2.0]', "Medium"),
        ('kind = "table"', 'kind = "sweep"', "sweep"),
        ('data = ["city"]', 'data = ["town"]', "town"),
        ("within = 0.5", "within = 0.5\nat_most = 1.0", "rules"),
        ('columns = ["rmse"]\nwithin', 'columns = ["nmae"]\nwithin', "check"),
        ("{ laplace = 6.0 }", "{ cauchy = 6.0 }", "cauchy"),
        ("views = 3", "views = 4", "odd"),
        ('track = "nadir"', 'track = "spiral"', "spiral"),
        ("seeds = [0]", "seeds = [0.5]", "whole"),
        ('oracle = "rmse"\n', "", "oracle"),
        ('oracle = "rmse"', 'oracle = "rsme"', "'rsme' is not a score"),
        ('parts = ["table"]', 'parts = ["tables"]', "tables"),
        ("seeds = [0]", "seeds = [0", "TOML"),
    ],
)
def test_a_mistake_in_a_specification_is_one_line(paper: Path, old: str, new: str, word: str) -> None:
    with pytest.raises(CFusionError, match=word) as error:
        small(paper, (old, new))
    assert "small" in str(error.value)
    assert "\n" not in str(error.value).strip()


def test_a_specification_that_is_not_there_lists_those_that_are(paper: Path) -> None:
    with pytest.raises(FileError, match="small"):
        load("large", paper)


# ---- keys ----------------------------------------------------------------------------------------------------


def a_job(**changes: Any) -> Job:
    city = Model("city", "city")
    condition = OnTrack(city, "nadir", 3, 1, ("laplace", 6.0), 4.0, 0.1)
    return replace(Job(condition, "l1", (("lam", 1.0),), backend="numpy"), **changes)


def test_the_key_follows_everything_that_decides_the_result() -> None:
    plain = a_job()
    condition = plain.condition
    assert isinstance(condition, OnTrack)
    changed = [
        a_job(method="median"),
        a_job(parameters=(("lam", 0.5),)),
        a_job(confidence=Regions(1, 1.0, 0.5)),
        a_job(trace=True),
        a_job(backend="cpu"),
        a_job(condition=condition.seeded(1)),
        a_job(condition=condition.scaled(0.05)),
        a_job(condition=condition.varied("laplace", 5.0)),
        a_job(condition=condition.varied("gauss", 6.0)),
        a_job(condition=condition.varied("views", 5)),
        a_job(condition=condition.varied("spacing", 2)),
    ]
    keys = {plain.key(), *(job.key() for job in changed)}
    assert len(keys) == 1 + len(changed)
    assert a_job().key() == plain.key()


def test_maps_are_stored_of_jobs_that_any_cell_shows() -> None:
    shown, hidden, both = (a_job(method=name) for name in ("median", "mean", "l1"))
    cells = [(shown, True), (hidden, False), (both, False), (both, True), (both, False)]
    made = tuple(Cell("part", "data", "row", None, job, keep) for job, keep in cells)
    found = Plan(None, Level.quick, made, ()).jobs()  # type: ignore[arg-type]
    assert found == {shown: True, hidden: False, both: True}


def test_the_code_version_follows_the_meaning_of_the_code_and_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "cfusion"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    parts = solving("cpu")
    before = code_version(parts, package)
    assert before == code_version(parts)

    def after(file: str, edit: Any) -> str:
        source = (package / file).read_text()
        (package / file).write_text(edit(source))
        code_version.cache_clear()
        found = code_version(parts, package)
        (package / file).write_text(source)
        return found

    assert after("fuse.py", lambda text: "# a word\n" + text) == before
    assert after("fuse.py", lambda text: text.replace('"""Fuse depth maps into', '"""Join depth maps into')) == before
    assert after("cli/demo.py", lambda text: text + "\nx = 1\n") == before
    assert after("fuse.py", lambda text: text + "\nx = 1\n") != before
    assert after("solvers/steps.py", lambda text: text.replace("1.7", "1.6")) != before
    assert after("kernels/cpu/tiles.py", lambda text: text + "\nx = 1\n") != before
    code_version.cache_clear()


def test_the_code_version_is_the_same_under_every_python(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'class A(B):\n    """Words."""\n    x: int | None = None\n\n\n'
        "async def f(a, /, *b, c=[], **d):\n    return {**d, 'é': f'{a!r:>{c}} {(lambda: ...)}'}, -1.5e-3, b'\\0', 2j\n"
    )
    assert code_version(Parts(()), tmp_path) == "c1523083fbc222c1"


KEYS = {
    "numpy": solving("numpy"),
    "cpu": solving("cpu"),
    "cuda": solving("cuda"),
    "kitti": solving("numpy", kitti=True),
    "rendering": RENDERING,
    "matching": MATCHING,
}


def test_every_file_counts_or_is_excluded_with_a_reason(tmp_path: Path) -> None:
    """Each is edited, one after the other: the key of a result follows, or a sentence says why it need not."""
    package = tmp_path / "cfusion"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    meanings: dict[Path, bytes] = {}

    def remembered(file: Path) -> bytes:  # what was parsed once is not parsed again
        if file not in meanings:
            meanings[file] = meaning_of(file)
        return meanings[file]

    meaning_of = code_version_module._meaning
    with pytest.MonkeyPatch.context() as patch:
        names = sources(package)
        patch.setattr(code_version_module, "_meaning", remembered)
        patch.setattr(code_version_module, "sources", lambda package: names)
        keys = KEYS["cpu"], KEYS["cuda"], KEYS["kitti"]
        before = [code_version(parts, package) for parts in keys]
        uncounted = []
        for name in names:
            file = package / name
            text = file.read_text()
            file.write_text(text + "\nedited = 1\n")
            meanings.pop(file, None)
            code_version.cache_clear()
            if all(code_version(parts, package) == key for parts, key in zip(keys, before, strict=True)):
                uncounted.append(name)
            file.write_text(text)
            meanings.pop(file, None)
    code_version.cache_clear()
    assert [name for name in uncounted if not Parts(tuple(EXCLUDED)).hold(name)] == uncounted
    assert all(reason.strip() for reason in EXCLUDED.values())


@pytest.mark.parametrize("name", EXCLUDED)
def test_what_is_excluded_is_there(name: str) -> None:
    assert (PACKAGE / name).exists()


@pytest.mark.parametrize(
    ("key", "counts", "does_not"),
    [
        (
            "cpu",
            ["kernels/host.py", "auto/noise.py", "kernels/cpu/tiles.py", "kernels/numpy/prox.py"],
            ["kernels/cuda"],
        ),
        ("numpy", ["kernels/numpy/prox.py", "auto/auto.py", "source/splat.py"], ["kernels/cpu", "frontends", "cli"]),
        ("cuda", ["kernels/cuda/maps.py", "kernels/numpy/prox.py"], ["kernels/cpu", "report"]),
        (
            "kitti",
            ["frontends/elas.py", "kernels/cpu/elas.py", "datasets/readers/kitti.py"],
            ["datasets/readers/tum.py"],
        ),
        ("rendering", ["synthetic/render.py", "geometry/camera.py", "arrays.py"], ["solvers", "kernels", "frontends"]),
        ("matching", ["frontends/stereo.py", "kernels/cpu/elas.py", "datasets/kitti_bundle.py"], ["auto", "synthetic"]),
    ],
)
def test_a_key_holds_what_decides_and_no_more(key: str, counts: list[str], does_not: list[str]) -> None:
    held = {name for name in sources() if KEYS[key].hold(name)}
    assert held >= set(counts)
    assert not [name for name in held for part in does_not if name == part or name.startswith(f"{part}/")]
    assert not [name for name in held if name.split("/")[0] in ("cli", "report")]


def test_what_a_model_leaves_out_is_left_as_it_is(tmp_path: Path) -> None:
    for text, turned in (("", False), ("upright = true", True), ("upright = false", False)):
        (tmp_path / "scenes.toml").write_text(f'[mesh]\nstand_in = "blob"\n{text}\n')
        found = _models(_entry(tmp_path / "scenes.toml"))
        assert found == {"mesh": Model("mesh", "blob", upright=turned)}


def test_the_key_follows_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path))
    model = Model("mesh", "blob", file="mesh.ply", longest_side=2.0)
    job = a_job(condition=OnTrack(model, "orbit", 3, 1, ("laplace", 0.6), 0.13, 0.1))
    without = job.key()
    (tmp_path / "mesh.ply").write_bytes(b"one mesh")
    first = job.key()
    (tmp_path / "mesh.ply").write_bytes(b"another mesh")
    assert len({without, first, job.key()}) == 3


# ---- running -------------------------------------------------------------------------------------------------


def test_results_are_the_same_in_every_run_and_for_any_number_of_workers(paper: Path, tmp_path: Path) -> None:
    spec = load("small", paper)
    first = results(spec, Store(tmp_path / "a"))
    again = results(spec, Store(tmp_path / "b"))
    chosen = plan(spec, Level.tables, "numpy")
    many = run(chosen, Store(tmp_path / "c"), workers=2)
    assert numbers(first) == numbers(again) == numbers(many)
    assert [line["row"] for line in first] == ["Median", "Mean", "L1", "oracle", "oracle"]


def a_moment(name: str) -> tuple[str, str]:
    time.sleep(0.02)
    return name, threading.current_thread().name


@contextmanager
def two_at_work() -> Iterator[list[Any]]:
    with ThreadPoolExecutor(1, "first") as first, ThreadPoolExecutor(1, "second") as second:
        yield [first, second]


def test_a_worker_keeps_to_what_it_has_read() -> None:
    queues = [[(a_moment, name)] * 6 for name in "ab"]
    with two_at_work() as crew:
        done = list(runner._results_of(crew, queues))
    assert sorted(name for name, _ in done) == sorted(6 * "ab")
    assert len(set(done[:8])) == 2  # whoever has the last one may share it


def test_nobody_stands_by_while_another_has_work_waiting() -> None:
    with two_at_work() as crew:
        done = list(runner._results_of(crew, [[(a_moment, str(k)) for k in range(8)], []]))
    assert sorted(name for name, _ in done) == list("01234567")
    assert len({worker for _, worker in done[:4]}) == 2


def test_what_is_stored_is_not_run_again(paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, store = load("small", paper), Store(tmp_path / "store")
    first = results(spec, store)
    monkeypatch.setattr(runner, "work", _must_not_run)
    assert numbers(results(spec, store)) == numbers(first)


def _must_not_run(*arguments: Any) -> Any:
    raise AssertionError("this was done before")


def test_an_interrupted_run_goes_on_where_it_was(paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, store = load("small", paper), Store(tmp_path / "store")
    ran: list[str] = []

    def interrupted(job: Job, store: Store) -> Any:
        if len(ran) == 2:
            raise KeyboardInterrupt
        ran.append(job.method)
        return work(job, store)

    monkeypatch.setattr(runner, "work", interrupted)
    with pytest.raises(KeyboardInterrupt):
        results(spec, store)
    monkeypatch.setattr(runner, "work", lambda job, store: (ran.append(job.method), work(job, store))[1])
    lines = results(spec, store)
    assert len(ran) == len(lines) == 5
    assert numbers(lines) == numbers(results(spec, Store(tmp_path / "other")))


def test_a_killed_run_leaves_whole_results(paper: Path, tmp_path: Path) -> None:
    script = f"""
        import os, signal
        from pathlib import Path
        from cfusion.experiments import Level, Store, load, plan, run, runner
        from cfusion.experiments.work import work
        ran = []
        def killed(job, store):
            if len(ran) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            ran.append(job)
            return work(job, store)
        runner.work = killed
        chosen = plan(load("small", Path({str(paper)!r})), Level.tables, "numpy")
        run(chosen, Store(Path({str(tmp_path)!r}) / "s"), workers=1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    stored = sorted((tmp_path / "s" / "results").rglob("*.json"))
    assert len(stored) == 2
    times = [file.stat().st_mtime_ns for file in stored]
    lines = results(load("small", paper), Store(tmp_path / "s"))
    assert [file.stat().st_mtime_ns for file in stored] == times
    assert len(lines) == 5


def test_so_far_leaves_out_averages_with_a_scene_missing(paper: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (paper / "scenes.toml").write_text(SCENES + '[blob]\nstand_in = "blob"\n')
    spec = small(paper, ('scenes = ["city"]', 'scenes = ["city", "blob"]'), ('track = "nadir"', 'track = "orbit"'))
    chosen = plan(spec, Level.tables, "numpy")
    first = replace(chosen, cells=tuple(cell for cell in chosen.cells if cell.row == "Mean")[:1])
    rest = replace(chosen, cells=tuple(cell for cell in chosen.cells if cell.row == "Median"))
    for part in (first, rest):
        run(part, store, workers=1)
    lines, note = so_far(chosen, store)
    assert [(line["row"], line["scene"]) for line in lines] == [("Median", "city"), ("Median", "blob")]
    assert note.startswith("So far 3 of 10 results")
    assert so_far(rest, store) == (lines, "")


def test_a_sweep_is_run_value_by_value(paper: Path) -> None:
    (paper / "scenes.toml").write_text(SCENES + '[blob]\nstand_in = "blob"\n')
    spec = small(
        paper,
        ('kind = "table"', 'kind = "sweep"\nover = "laplace"\nvalues = [1.0, 2.0]\nrows = ["Median"]'),
        ('scenes = ["city"]', 'scenes = ["city", "blob"]'),
        (SMALL[SMALL.index("[parts.published]") :], ""),
    )
    cells = plan(spec, Level.tables, "numpy").cells
    assert [(cell.value, cell.job.condition.scene) for cell in cells] == [
        *((1.0, "city"), (1.0, "blob"), (2.0, "city"), (2.0, "blob"))
    ]


def test_a_damaged_result_is_run_again(paper: Path, tmp_path: Path) -> None:
    spec, store = load("small", paper), Store(tmp_path / "store")
    first = results(spec, store)
    for damage in (b"", b'{"key": ', b"[]", b'{"key": "another"}'):
        file = next((tmp_path / "store" / "results").rglob(f"{first[0]['key']}.json"))
        file.write_bytes(damage)
        assert numbers(results(spec, store)) == numbers(first)


def test_a_changed_specification_never_mixes_with_old_results(paper: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    old = results(load("small", paper), store)
    new = results(small(paper, ("laplace = 6.0", "laplace = 3.0")), store)
    assert not {line["key"] for line in old} & {line["key"] for line in new}
    assert {line["job"]["condition"]["noise"][1] for line in new} == {3.0}
    assert new[0]["scores"]["rmse"] < old[0]["scores"]["rmse"]


def test_a_failing_job_does_not_take_the_others_down(
    paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails_once(job: Job, store: Store) -> Any:
        if job.method == "mean":
            raise FileError("no mean today")
        return work(job, store)

    monkeypatch.setattr(runner, "work", fails_once)
    store = Store(tmp_path / "store")
    with pytest.raises(runner.Unfinished, match=r"1 of 5 .* no mean today"):
        results(load("small", paper), store)
    assert len(list((tmp_path / "store" / "results").rglob("*.json"))) == 4


def test_progress_ends_at_one(paper: Path, tmp_path: Path) -> None:
    heard: list[Any] = []
    results(load("small", paper), Store(tmp_path / "store"), report=heard.append)
    assert all(0 <= progress.done <= 1 for progress in heard)
    assert heard[-1].done == 1.0


def test_the_share_that_is_done_counts_what_each_method_cost() -> None:
    cheap, dear = a_job(method="median"), a_job(method="l1")
    eta = Eta([cheap, cheap, dear, dear])
    assert eta.after(cheap, 1.0) == pytest.approx(1 / 4)  # the others are taken to cost the same
    assert eta.after(dear, 99.0) == pytest.approx(100 / 200)
    assert eta.after(dear, 99.0) == pytest.approx(199 / 200)


# ---- what is observed ----------------------------------------------------------------------------------------


def test_bundles_of_any_size_share_the_noise_of_the_views_they_share(tmp_path: Path) -> None:
    store = Store(tmp_path)
    few = OnTrack(Model("city", "city"), "nadir", 1, 1, ("laplace", 6.0), 4.0, 0.1)
    many = few.varied("views", 3)
    one, three = few.observe(store), many.observe(store)
    np.testing.assert_array_equal(one.views[0].depth, three.views[1].depth)
    np.testing.assert_array_equal(one.truth, three.truth)
    assert not np.array_equal(three.views[0].depth, three.views[1].depth)
    other = few.seeded(1).observe(store)
    assert not np.array_equal(one.views[0].depth, other.views[0].depth)


@pytest.mark.parametrize("views", [1, 3])
def test_one_view_alone_is_a_stack_and_several_are_associated(tmp_path: Path, views: int) -> None:
    seen = OnTrack(Model("city", "city"), "nadir", views, 1, ("laplace", 6.0), 4.0, 0.1).observe(Store(tmp_path))
    assert len(seen.views) == views
    assert (seen.stack is not None) == (views == 1)
    if seen.stack is not None:
        np.testing.assert_array_equal(seen.stack.depths, [seen.views[0].depth])


def test_noise_levels_scale_the_same_draws(tmp_path: Path) -> None:
    store = Store(tmp_path)
    quiet = OnTrack(Model("city", "city"), "nadir", 1, 1, ("laplace", 1.0), 4.0, 0.1).observe(store)
    loud = OnTrack(Model("city", "city"), "nadir", 1, 1, ("laplace", 4.0), 4.0, 0.1).observe(store)
    noise = quiet.views[0].depth - quiet.truth
    np.testing.assert_allclose(loud.views[0].depth - loud.truth, 4 * noise, rtol=1e-3, atol=1e-3)


def test_a_quick_run_without_data_says_what_stands_in(
    paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path / "nowhere"))
    spec = small(paper, ('scenes = ["city"]', 'scenes = ["mesh"]'), ('track = "nadir"', 'track = "orbit"'))
    quick = plan(spec, Level.quick, "numpy")
    assert any("blob stands in for mesh" in note for note in quick.notes)
    assert {cell.job.condition.scene for cell in quick.cells} == {"blob"}
    assert not any("stands in" in note for note in plan(small(paper), Level.quick, "numpy").notes)  # it is built in
    with pytest.raises(FileError, match="CFUSION_DATA"):
        plan(spec, Level.tables, "numpy")


def test_kitti_is_skipped_with_a_word_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path))
    chosen = plan(load("kitti"), Level.tables, "numpy")
    assert not chosen.cells
    assert all("skipped" in note and "CFUSION_DATA" in note for note in chosen.notes)
    assert chosen.notes


@pytest.mark.parametrize("contrast", [-0.2, 3.0])
def test_boxes_disappear_by_size_and_not_by_contrast(contrast: float, tmp_path: Path) -> None:
    boxes = (Box(5, 6, 6, contrast), Box(16, 18, 18, contrast))
    image = BoxImage((40, 40), 4.0, boxes)
    job = Job(image, "l1", (("order", 1), ("lam", 0.6), ("tolerance", 1e-3)), backend="numpy")
    record, maps = work(job, Store(tmp_path))
    small_box, large_box = record["boxes"]
    assert small_box["retained"] == pytest.approx(0, abs=0.05)
    assert large_box["retained"] == pytest.approx(1, abs=0.05)
    assert (small_box["predicted"], large_box["predicted"]) == (False, True)
    assert boxes[1].retained(maps["depth"], 4.0) == large_box["retained"]


def test_confidence_by_regions_saves_one_box(tmp_path: Path) -> None:
    boxes = (Box(5, 6, 6, 1.0), Box(5, 24, 24, 1.0))
    job = Job(BoxImage((40, 40), 4.0, boxes), "l1", (("order", 1),), Regions(1, 1.0, 0.3), backend="numpy")
    record, _ = work(job, Store(tmp_path))
    assert [round(box["retained"]) for box in record["boxes"]] == [1, 0]
    assert [box["predicted"] for box in record["boxes"]] == [True, False]


def test_a_box_that_does_not_fit_is_refused() -> None:
    with pytest.raises(CFusionError, match="does not fit"):
        draw((10, 10), 1.0, (Box(8, 5, 5, 1.0),))
    assert Box(10, 0, 0, 1.0).mask((10, 10)).all()
    for wrong in ((0, 0, 0, 1.0), (1, -1, 0, 1.0), (1, 0, -1, 1.0), (1, 0, 0, 0.0)):
        with pytest.raises(CFusionError, match="a box needs"):
            Box(*wrong)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("l1", (("tolerance", 1e-6), ("iterations", 120))),
        ("literal", (("tau", 0.1), ("iterations", 150))),
        ("l1-adapt", (("outer", 3),)),
        ("l1-adapt:pdhg", (("iterations", 100),)),
    ],
)
def test_traces_follow_the_energy_down(method: str, parameters: Any, tmp_path: Path) -> None:
    job = a_job(method=method, parameters=parameters, trace=True)
    record, _ = work(job, Store(tmp_path))
    trace = record["trace"]
    iterations, seconds, energy, gap = (
        [point[key] for point in trace] for key in ("iterations", "seconds", "energy", "gap")
    )
    assert len(trace) >= 4
    assert iterations[0] == 0
    assert iterations == sorted(set(iterations))
    assert seconds == sorted(seconds)
    assert energy[-1] < energy[0]
    assert 0 <= gap[-1] < gap[0]


# ---- tables from results only --------------------------------------------------------------------------------


def a_line(row: str, scene: str, rmse: float, **more: Any) -> dict[str, Any]:
    scores = {"rmse": rmse, "zmae": rmse, "nmae": 1.0, "z_avg": rmse ** (2 / 3), "d_avg": 1.0, "density": 100.0}
    scores |= {"plain_rmse": rmse, "plain_mae": rmse, "bias": 0.0}
    place = {"part": "table", "data": "city", "row": row, "value": None, "scene": scene, "seed": 0}
    return place | {"key": f"{row}{scene}{rmse}", "scores": scores | {"outliers": [0.0] * len(THRESHOLDS)}} | more


def no_maps(key: str) -> Any:
    raise AssertionError("a table needs no maps")


def test_averages_are_geometric_and_the_oracle_chooses_for_each_scene(paper: Path) -> None:
    lines = [a_line("Median", "a", 2.0), a_line("Median", "b", 8.0)]
    lines += [a_line("oracle", "a", 3.0), a_line("oracle", "a", 1.0), a_line("oracle", "b", 4.0)]
    lines += [a_line("oracle", "b", 5.0)]
    (table,) = summarise(load("small", paper), lines, no_maps)
    rows = {row["method"]: row for row in csv.DictReader(io.StringIO(table.files()["table.csv"].decode()))}
    assert float(rows["Median"]["rmse"]) == pytest.approx(4.0)
    assert float(rows["Median"]["rmse published"]) == 4.0
    assert float(rows["oracle"]["rmse"]) == pytest.approx(2.0)
    assert "Mean" not in rows
    assert table.verdicts[0].holds


def test_an_oracle_takes_the_first_of_equals_and_any_number_before_none(paper: Path) -> None:
    row = load("small", paper).rows["oracle"]
    scored = [a_line("oracle", "a", rmse, point=point) for point, rmse in enumerate((math.nan, 2.0, 1.0, 1.0, 3.0))]
    assert [line["point"] for line in summary._chosen(row, scored)] == [2]
    assert [line["point"] for line in summary._chosen(row, scored[:1])] == [0]
    others = [a_line("oracle", "b", 5.0, point=7), a_line("oracle", "a", 5.0, seed=1, point=8)]
    assert [line["point"] for line in summary._chosen(row, scored + others)] == [2, 7, 8]


def test_a_check_that_fails_says_by_how_much(paper: Path) -> None:
    (table,) = summarise(load("small", paper), [a_line("Median", "a", 9.0)], no_maps)
    assert not table.verdicts[0].holds
    assert "2.25 x" in table.verdicts[0].sentence()


def test_the_best_row_is_bold_and_the_oracle_never(paper: Path) -> None:
    lines = [a_line("Median", "a", 2.0), a_line("Mean", "a", 3.0), a_line("oracle", "a", 1.0)]
    (table,) = summarise(load("small", paper), lines, no_maps)
    files = {name: content.decode() for name, content in table.files().items()}
    assert "**2.0000** (4.0000)" in files["table.md"]
    assert "**1.0000**" not in files["table.md"]
    assert r"\textbf{2.0000} & \textcolor{gray}{4.0000}" in files["table.tex"]
    assert files["table.tex"].count(r"\\") == 5


def test_a_sweep_says_where_the_champion_loses(paper: Path) -> None:
    spec = small(
        paper,
        ('kind = "table"', 'kind = "sweep"\nover = "laplace"\nvalues = [1.0, 2.0]\nchampion = "L1"'),
        (SMALL[SMALL.index("[parts.published]") :], ""),
    )
    lines = [a_line("L1", "a", 1.0) | {"value": 1.0}, a_line("L1", "a", 3.0) | {"value": 2.0}]
    lines += [a_line("Median", "a", 2.0) | {"value": value} for value in (1.0, 2.0)]
    (sweep,) = summarise(spec, lines, no_maps)
    (verdict,) = sweep.verdicts
    assert not verdict.holds
    assert [detail.split(":")[0] for detail in verdict.details] == ["laplace = 2, rmse", "laplace = 2, z_avg"]
    assert verdict.details[0].endswith("Median 2 against 3, 50.0 % more")
    assert f"  - {verdict.details[0]}\n" in sweep.files()["table.md"].decode()
    assert f"<li>{verdict.details[0]}</li>" in sweep.html()
    (sweep,) = summarise(spec, lines[:1] + lines[2:], no_maps)
    assert sweep.verdicts[0].details[0] == "laplace = 2, rmse: L1 has no score"
    assert sweep.files()["table.png"].startswith(b"\x89PNG")


def test_everything_is_built_again_from_what_was_written(
    paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, store = load("small", paper), Store(tmp_path / "store")
    findings = Findings(spec, Level.tables, results(spec, store), ("a word",))
    publish([(findings, findings.chapter(store))], tmp_path / "out", "cfusion reproduce small")
    monkeypatch.setattr(runner, "work", _must_not_run)
    shutil.rmtree(tmp_path / "store")
    again = Findings.read(spec, tmp_path / "out" / "small")
    publish([(again, again.chapter(store))], tmp_path / "again", "cfusion reproduce small")
    for name in ("table.md", "table.tex", "table.csv", "results.jsonl"):
        one, other = (tmp_path / folder / "small" / name for folder in ("out", "again"))
        assert one.read_bytes() == other.read_bytes()
    assert again.notes == ["a word"]
    page = (tmp_path / "again" / "index.html").read_text()
    assert "4.0000" in page
    assert "a word" in page
    assert "http" not in page


def test_results_carry_their_provenance(paper: Path, tmp_path: Path) -> None:
    line = results(load("small", paper), Store(tmp_path / "store"))[0]
    assert line["provenance"]["code"] == code_version(solving("numpy"))
    assert line["provenance"]["data"] == "built-in city"
    assert line["job"]["method"] == "median"
    assert line["provenance"]["versions"]["numpy"] == np.__version__
    json.dumps(line)


# ---- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The paper's specifications at a low resolution, without the data folder."""
    folder = tmp_path / "paper"
    shutil.copytree(paper_folder(), folder)
    for name, old, new in (
        ("objects", "scale = 0.5", "scale = 0.125"),
        ("objects", "leave_out = [", 'leave_out = ["L1-heuristic", "Adapt-hprior (PDHG)", "Adapt-hprior+G (ACS)", '),
        ("objects", "values = [0.2, 0.6]", "values = [0.6]"),
        ("surfaces", "scale = 0.5", "scale = 0.1"),
        ("surfaces", "leave_out = [", 'leave_out = ["TGV-fusion", "L1-adapt (ACS)", "auto", '),
    ):
        text = (folder / f"{name}.toml").read_text()
        assert old in text
        (folder / f"{name}.toml").write_text(text.replace(old, new, 1))
    monkeypatch.setattr("cfusion.experiments.read_spec.paper_folder", lambda: folder)
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path / "nowhere"))
    return folder


def test_a_quick_run_end_to_end(reduced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["reproduce", "objects", "--quick", "-o", str(out), "--jobs", "1", "--backend", "numpy"]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "blob stands in for bunny" in told
    assert "auto" in told
    page = (out / "index.html").read_text()
    assert "0.0778" in page  # the published number beside ours
    assert "blob stands in for bunny" in page
    rows = list(csv.DictReader((out / "objects" / "table.csv").open()))
    rmse = {row["method"]: float(row["rmse"]) for row in rows}
    assert rmse["auto"] < rmse["L1"] < rmse["Median"] < rmse["Mean"] < rmse["Reference"]
    assert {path.name for path in (out / "objects").iterdir()} == {
        *("results.jsonl", "table.md", "table.tex", "table.csv", "laplace.md", "laplace.csv", "laplace.png")
    }
    before = (out / "objects" / "table.md").read_bytes()
    assert main([*command, "--report-only"]) == 0
    assert (out / "objects" / "table.md").read_bytes() == before
    elsewhere = ["-o", str(tmp_path / "elsewhere"), "--cache", str(out / "cache")]
    assert main([*command, *elsewhere, "--run-only"]) == 0
    assert not (tmp_path / "elsewhere" / "index.html").exists()
    assert main([*command, *elsewhere, "--so-far"]) == 0
    assert (tmp_path / "elsewhere" / "objects" / "table.md").read_bytes() == before


def test_surfaces_are_drawn_from_kept_maps(reduced: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["reproduce", "surfaces", "--quick", "-o", str(out), "--jobs", "1", "--backend", "numpy", "--quiet"]
    assert main(command) == 0
    assert (out / "surfaces" / "stanford.png").read_bytes().startswith(b"\x89PNG")
    maps = sorted((out / "cache" / "maps").rglob("*.npz"))
    assert len(maps) == 2 * 4  # truth, median, ROF and L1 of an object and a city
    os.remove(maps[0])
    assert main(command) == 0  # a result without its maps is run again
    assert maps[0].is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        ["objects", "--jobs", "0"],
        ["objects", "--report-only", "-o", "nothing-here"],
        ["objects", "--quick", "--so-far", "--backend", "cuda", "-o", "nothing-here"],
    ],
)
def test_mistakes_of_the_command_end_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cfusion: ")
    assert told.count("\n") == 1


# ---- what is kept and told --------------------------------------------------------------------------------------


def test_a_quick_run_is_not_held_against_the_paper(paper: Path, tmp_path: Path) -> None:
    spec, lines = load("small", paper), [a_line("Median", "a", 9.0)]
    chapters = {
        level: Findings(spec, level, lines, ()).chapter(Store(tmp_path)) for level in (Level.quick, Level.tables)
    }
    assert [len(chapters[level].exhibits[0].verdicts) for level in chapters] == [0, 1]


def test_matched_views_come_back_with_the_image_of_the_reference_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps = np.random.default_rng(0).uniform(1, 2, (3, 4, 5))
    kept = {"depths": maps, "confidences": np.ones_like(maps), "poses": np.stack([np.eye(4)] * 3), "image": maps[0] / 2}
    np.savez(tmp_path / "kept.npz", **kept, camera=np.array([9.0, 9, 2, 1.5, 5, 4]), reference=np.array(1))
    monkeypatch.setattr(Matches, "_file", lambda self, bundle: tmp_path / "kept.npz")
    views, reference = Matches(tmp_path).load(None)  # type: ignore[arg-type]
    assert reference == 1
    assert [view.image is not None for view in views] == [False, True, False]


def test_a_model_is_its_file_where_that_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFUSION_DATA", str(tmp_path))
    model = Model("mesh", "blob", "mesh.ply")
    assert model.path is None
    assert model.replaced
    (tmp_path / "mesh.ply").write_bytes(b"ply")
    assert model.path == tmp_path / "mesh.ply"
    assert not model.replaced
