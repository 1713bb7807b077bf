"""Keys: what changes a result changes the key of its view, and nothing else does."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cfusion.scene.graph import Graph
from cfusion.scene.job import Job
from cfusion.scene.keys import description_key, fuse_tasks, stamp

JOB = Job("data", "bundle", "out", "1")


RING = Graph(((1,), (2,), (0,)), "each with the next")


@pytest.fixture
def scene(tmp_path: Path) -> tuple[Path, Any]:
    maps = [tmp_path / f"{k}.npy" for k in range(3)]
    for k, file in enumerate(maps):
        file.write_bytes(bytes([k]))
    (tmp_path / "cameras.txt").write_text("one")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0.png").write_text("grey")
    return tmp_path, SimpleNamespace(files=tuple(maps))


def keys(root: Path, dataset: Any, job: Job = JOB) -> list[str]:
    return [task.key for task in fuse_tasks(job, root, dataset, RING)]


def test_a_depth_map_counts_for_the_views_that_are_fused_from_it(scene: tuple[Path, Any]) -> None:
    root, dataset = scene
    before = keys(root, dataset)
    assert len(set(before)) == 3
    dataset.files[1].write_bytes(b"other")
    after = keys(root, dataset)
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, False, True]


def test_everything_else_that_is_described_counts_for_all(scene: tuple[Path, Any]) -> None:
    root, dataset = scene
    seen = {description_key(root, dataset)}
    for name in ("cameras.txt", "images/0.png", "new.txt", "images/1.png"):
        (root / name).write_text(f"changed {name}")
        seen.add(description_key(root, dataset))
    (root / "new.txt").rename(root / "renamed.txt")
    seen.add(description_key(root, dataset))
    assert len(seen) == 6
    before = keys(root, dataset)
    (root / "cameras.txt").write_text("two")
    assert not set(before) & set(keys(root, dataset))


def test_hidden_files_results_and_times_do_not_count(scene: tuple[Path, Any]) -> None:
    root, dataset = scene
    before = keys(root, dataset)
    for name in (".hidden", ".git/x", "cfusion/view.json", "images/.thumbs"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("nobody's business")
    (root / "images" / "gone.png").symlink_to(root / "nowhere")
    os.utime(root / "cameras.txt", (1e9, 1e9))
    assert keys(root, dataset) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("version", "2"), ("format", "tum"), ("options", (("scale", 5),)), ("method", "l1"), ("backend", "numpy")),
        *(("parameters", (("lam", 2),)), ("write_back", False)),
    ],
)
def test_settings_that_change_what_is_written_count(scene: tuple[Path, Any], name: str, value: object) -> None:
    assert not set(keys(*scene)) & set(keys(*scene, replace(JOB, **{name: value})))  # type: ignore[arg-type]


def test_where_it_is_written_and_how_much_is_kept_do_not_count(scene: tuple[Path, Any]) -> None:
    assert keys(*scene) == keys(*scene, replace(JOB, output="elsewhere", cache_bytes=1))


def test_a_file_that_is_not_there_has_an_empty_stamp(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    assert stamp(tmp_path / "nothing") == ""
    assert stamp(tmp_path / "a") == stamp(tmp_path / "b") != ""
