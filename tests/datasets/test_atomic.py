import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cfusion.errors import FileError
from cfusion.io import atomic
from cfusion.io.atomic import filling, require_writable


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_new_folder_appears_whole(tmp_path: Path) -> None:
    with filling(tmp_path / "a" / "b") as draft:
        (draft / "sub").mkdir()
        (draft / "sub" / "x").write_text("1")
        assert not (tmp_path / "a" / "b").exists()
    assert everything_below(tmp_path) == ["a", "a/b", "a/b/sub", "a/b/sub/x"]


def test_an_old_folder_keeps_what_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "keep").write_text("old")
    (tmp_path / "x").write_text("old")
    with filling(tmp_path) as draft:
        (draft / "x").write_text("new")
        assert (tmp_path / "x").read_text() == "old"
    assert everything_below(tmp_path) == ["keep", "x"]
    assert (tmp_path / "x").read_text() == "new"


@pytest.mark.parametrize("others", [0, 3])
def test_a_file_does_not_replace_a_folder(tmp_path: Path, others: int) -> None:
    """`result.report("folder")` deleted the folder with all that was in it."""
    (tmp_path / "folder" / "precious").mkdir(parents=True)
    before = everything_below(tmp_path)
    with pytest.raises(FileError, match="folder: it is a folder; give the name"), filling(tmp_path) as draft:
        (draft / "folder").write_text("page")
        for number in range(others):
            (draft / f"{number}.txt").write_text("more")
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("hard_links", [True, False])
def test_what_is_kept_stays_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool) -> None:
    """A link stays one, to where it led or to nothing; folders keep files and modes; disks without hard links copy."""

    def refused(*given: object, **more: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    if not hard_links:
        monkeypatch.setattr(atomic.os, "link", refused)
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True, mode=0o750)
    (out / "sub" / "a.txt").write_text("a")
    (out / "old.txt").write_text("old")
    (out / "link.txt").symlink_to("sub/a.txt")
    (out / "nowhere").symlink_to("gone")
    (out / "folder").symlink_to("sub")
    with filling(out) as draft:
        for name in ("old.txt", "new.txt"):
            (draft / name).write_text("new")
    assert [str((out / name).readlink()) for name in ("link.txt", "nowhere", "folder")] == ["sub/a.txt", "gone", "sub"]
    assert [(out / name).read_text() for name in ("sub/a.txt", "old.txt", "new.txt")] == ["a", "new", "new"]
    assert (out / "sub").stat().st_mode & 0o777 == 0o750


def test_permissions_are_the_usual_ones(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with filling(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, SystemExit])
def test_nothing_is_left_when_interrupted(tmp_path: Path, interruption: type[BaseException]) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "x").write_text("old")
    for folder in (tmp_path / "deep" / "new", tmp_path / "old"):
        with pytest.raises(interruption), filling(folder) as draft:
            (draft / "x").write_text("half")
            raise interruption
    assert everything_below(tmp_path) == ["old", "old/x"]
    assert (tmp_path / "old" / "x").read_text() == "old"


def test_interrupted_while_moving_is_finished_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the step waits until it is done, then says that the folder was written."""
    tmp_path.joinpath("old").write_text("")
    whole = atomic.exchange

    def interrupted(*places: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        whole(*places)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="was written"), filling(tmp_path) as draft:
        (draft / "a").write_text("1")
        (draft / "b").write_text("2")
        monkeypatch.setattr(atomic, "exchange", interrupted)
    assert everything_below(tmp_path) == ["a", "b", "old"]


def heed_ctrl_c() -> None:
    """In a child: what runs in the background of a shell would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_process_stopped_by_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from cfusion.io.atomic import filling\n"
        "with filling(pathlib.Path(sys.argv[1]) / 'out') as draft:\n"
        "    (draft / 'depth.npy').write_bytes(bytes(1000))\n"
        "    print('writing', flush=True)\n"
        "    time.sleep(30)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=heed_ctrl_c,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert len(everything_below(tmp_path)) == 2  # the draft and its file
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) != 0
    assert time.monotonic() - started < 20
    process.stdout.close()
    assert everything_below(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FileError, match=r"file is not a folder"):
            require_writable(folder)
        with pytest.raises(FileError), filling(folder):
            pytest.fail("the check comes before the work")
    with pytest.raises(FileError, match="cannot write to"):
        require_writable(Path("/proc/cfusion"))
    assert everything_below(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileError, match="choose another output"):
            require_writable(tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


def test_asking_changes_nothing(tmp_path: Path) -> None:
    require_writable(tmp_path / "a" / "b" / "c")
    assert everything_below(tmp_path) == []


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No space left"), filling(tmp_path / "out"):
        raise OSError(28, "No space left on device")
    assert everything_below(tmp_path) == []


@pytest.mark.parametrize("before", [None, "old"], ids=["new", "replaced"])
def test_a_file_in_its_place_is_brought_to_the_disk(
    tmp_path: Path, before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rename itself is in the folder, which has to reach the disk too, and after it."""
    brought: list[str] = []

    def sync(path: Path) -> None:
        brought.extend([(path / "x").read_text()] if path == tmp_path else [])

    monkeypatch.setattr(atomic, "sync", sync)
    if before:
        (tmp_path / "x").write_text(before)
    with filling(tmp_path) as draft:
        (draft / "x").write_text("new")
    assert brought == ["new"]


def test_all_of_a_draft_is_on_the_disk_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files, folders and the draft itself; then the rename, and what lists it."""
    steps: list[str] = []
    draft_of: list[Path] = []

    def sync(path: Path) -> None:
        inside = path.is_relative_to(draft_of[0])
        steps.append(str(path.relative_to(draft_of[0])) if inside else str(path.relative_to(tmp_path)) + "/")

    rename = os.rename
    monkeypatch.setattr(atomic, "sync", sync)
    monkeypatch.setattr(os, "rename", lambda one, other: (steps.append("renamed"), rename(one, other)))
    with filling(tmp_path / "a" / "out") as draft:
        draft_of.append(draft)
        (draft / "sub").mkdir()
        (draft / "sub" / "x").write_text("1")
        (draft / "link").symlink_to("sub")
    assert set(steps[:-2]) == {".", "sub", "sub/x"}
    assert steps[-2:] == ["renamed", "a/"]


def test_what_a_draft_takes_over_is_on_the_disk_before_both_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash could leave a folder without the files of others."""
    out, exchange = tmp_path / "out", atomic.exchange
    brought: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(atomic, "sync", lambda path: brought.append(("synced", names_in(path))))
    monkeypatch.setattr(atomic, "exchange", lambda *given: (brought.append(("exchanged", [])), exchange(*given)))

    def names_in(place: Path) -> list[str]:
        return sorted(path.name for path in place.iterdir()) if place.is_dir() else []

    out.mkdir()
    (out / "of another").write_text("kept")
    with filling(out) as draft:
        (draft / "x").write_text("1")
        (draft / "y").write_text("2")
    at = brought.index(("exchanged", []))
    assert brought[at - 1] == ("synced", ["of another", "x", "y"])


def test_a_disk_that_cannot_bring_is_not_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, fails in ((22, False), (95, False), (9, False), (5, True), (28, True)):

        def fail(handle: int, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "fsync", fail)
        folder = tmp_path / str(number)
        if fails:
            with pytest.raises(FileError, match="cannot write to"), filling(folder) as draft:
                (draft / "x").write_text("1")
        else:
            with filling(folder) as draft:
                (draft / "x").write_text("1")
        assert folder.exists() != fails


@pytest.mark.parametrize("mounted", [True, False])
def test_a_folder_with_a_mounted_disk_is_not_exchanged(
    mounted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the disk were copied beside the results and removed from the disk."""
    folder = tmp_path / "ou t"
    (folder / "disk").mkdir(parents=True)
    place = str(folder / "disk").replace(" ", "\\040") if mounted else "/elsewhere"
    listed = tmp_path / "mountinfo"
    listed.write_text(f"36 35 98:0 /mnt1 {place} rw,noatime master:1 - ext3 /dev/root rw\n")
    monkeypatch.setattr(atomic, "MOUNTS", listed)
    (folder / "a.txt").write_text("old")
    before = (folder / "disk").stat().st_ino
    with filling(folder) as draft:
        for name in ("a.txt", "b.txt"):
            (draft / name).write_text("new")
    assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["new", "new"]
    assert ((folder / "disk").stat().st_ino == before) is mounted


def test_a_folder_on_another_disk_is_a_mount_without_a_list_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "MOUNTS", tmp_path / "none")
    assert atomic._mounts_below(Path("/"), [Path("/proc")])
    assert not atomic._mounts_below(tmp_path, [tmp_path])
