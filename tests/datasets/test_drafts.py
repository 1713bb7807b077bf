"""Drafts: those of living writers stay, those of dead ones are swept, and nothing else is."""

import os
import threading
from pathlib import Path

import pytest

from cfusion.io import drafts
from cfusion.io.atomic import filling
from cfusion.io.drafts import aside_of, draft_in, locked, sweep


def test_the_living_stay_and_the_dead_are_swept(tmp_path: Path) -> None:
    dead = tmp_path / ".cfusion-dead"
    dead.mkdir()
    (dead / "x").write_text("half")
    with draft_in(tmp_path) as draft:
        (draft / "x").write_text("half")
        with locked(tmp_path):
            sweep(tmp_path)
        assert (draft / "x").exists()
        assert not dead.exists()
        assert draft.name.startswith(".cfusion-")
        assert draft.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_only_drafts_are_swept(tmp_path: Path) -> None:
    """Not a file, a link or a folder of somebody else, whatever they are called."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x").write_text("mine")
    (tmp_path / "cfusion-results").mkdir()
    (tmp_path / ".cfusion-file").write_text("mine")
    (tmp_path / ".cfusion-link").symlink_to(elsewhere)
    before = sorted(tmp_path.rglob("*"))
    sweep(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("stands", [True, False])
def test_what_made_room_is_brought_back_unless_another_stands_there(tmp_path: Path, stands: bool) -> None:
    home = tmp_path / "out"
    aside = aside_of(home)
    assert aside.parent == tmp_path
    aside.mkdir()
    (aside / "x").write_text("old")
    if stands:
        home.mkdir()
        (home / "x").write_text("new")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (home / "x").read_text() == ("new" if stands else "old")


def test_without_locks_nobody_knows_who_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "fcntl", None)
    (tmp_path / ".cfusion-dead").mkdir()
    with draft_in(tmp_path), locked(tmp_path):
        sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".cfusion-dead"]


def test_a_folder_is_locked_for_one_at_a_time_and_twice_is_once(tmp_path: Path) -> None:
    order: list[str] = []

    def other() -> None:
        with locked(tmp_path):
            order.append("other")

    with locked(tmp_path, tmp_path, tmp_path / "not there"):
        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.1)
        order.append("first")
    waiting.join(5)
    assert order == ["first", "other"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_exchanged_keeps_its_mode_and_its_other_files_theirs(tmp_path: Path) -> None:
    """Also below: what was private stays private, what was old stays old."""
    out = tmp_path / "out"
    inner = out / "inner"
    inner.mkdir(parents=True)
    (inner / "note").write_text("mine")
    os.utime(inner / "note", (1e9, 1e9))
    inner.chmod(0o711)
    os.utime(inner, (1.1e9, 1.1e9))
    out.chmod(0o750)
    with filling(out) as draft:
        for name in ("one", "two"):
            (draft / name).write_text(name)
    assert out.stat().st_mode & 0o777 == 0o750
    assert inner.stat().st_mode & 0o777 == 0o711
    assert (inner.stat().st_mtime, (inner / "note").stat().st_mtime) == (1.1e9, 1e9)
    assert sorted(path.name for path in out.iterdir()) == ["inner", "one", "two"]
