"""Every writer, stopped at each of its calls to the file system: what is there afterwards is the old, or the new.

As SQLite tests itself: in a child, the n-th call fails (I/O error, no memory) or the process dies there; n runs over
all calls. Full disks are played by a limit on the size of files, which counts every byte that any library writes.
"""

import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Result, View
from cfusion.datasets import WRITERS, write_result, write_views
from cfusion.errors import CFusionError, FileError
from cfusion.io import atomic

Tree = dict[str, bytes | None]
Writer = Callable[[Path, int], None]  # writes version 0 or 1 to a folder
WATCHED = ("open", "os.", "shutil.", "tempfile.")
DIED, REFUSED, DONE, WRONG = 77, 78, 0, 79
NEVER = 1 << 60


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die here, not machines: what fsync is for cannot be seen."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def tree(folder: Path) -> Tree:
    """Every file below, and folders; drafts are nobody's business."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not any(part.startswith(".cfusion-") for part in path.relative_to(folder).parts)
    }


def stop_at(call: int, how: str) -> Callable[[], int]:
    """From now on, in this process: the n-th call to the file system dies or fails. Returns the count so far."""
    seen = 0

    def step(name: str) -> None:
        nonlocal seen
        seen += 1
        if seen == call and how == "die":
            os._exit(DIED)
        if seen == call and how == "fail":
            raise OSError(5, "Input/output error", name)
        if seen == call and how == "memory":
            raise MemoryError

    def hook(event: str, arguments: Any) -> None:
        if event.startswith(WATCHED) and not _is_code(arguments):
            step(event)

    for name in ("fsync", "rename", "replace", "close"):  # before and after: some are no audit events
        whole = getattr(os, name)

        def watched(*arguments: Any, _whole: Any = whole, _name: str = name, **options: Any) -> Any:
            if _name == "fsync":
                step(_name)
            found = _whole(*arguments, **options)
            if seen + 1 == call and how == "die":
                step(_name)
            return found

        setattr(os, name, watched)
    exchange = atomic.exchange

    def exchanged(*places: Path) -> None:
        step("exchange")
        exchange(*places)
        if how == "die":  # what is done cannot fail any more
            step("exchanged")

    atomic.exchange = exchanged
    sys.addaudithook(hook)
    return lambda: seen


def _is_code(arguments: Any) -> bool:
    """Whether a call is the interpreter's own: a module, a library, a cache."""
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return isinstance(first, str | bytes) and any(
        mark in os.fsdecode(first) for mark in (".py", ".so", "site-packages", "lib/python", "/proc")
    )


def in_a_child(work: Callable[[], None]) -> int:
    """The exit code of a child that does it."""
    child = os.fork()
    if child == 0:
        code = WRONG
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
            code = DONE
        except (CFusionError, MemoryError):
            code = REFUSED
        except OSError:
            code = WRONG
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def calls_of(write: Writer, folder: Path) -> int:
    """How many calls to the file system a whole write makes."""
    reading, writing = os.pipe()

    def work() -> None:
        count = stop_at(NEVER, "die")
        write(folder, 1)
        os.write(writing, str(count()).encode())

    assert in_a_child(work) == DONE
    os.close(writing)
    with os.fdopen(reading) as stream:
        return int(stream.read())


def view(version: int, number: int) -> View:
    depth = np.full((4, 5), 1.0 + version + 0.1 * number)
    return View(depth, Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4), Pose.identity(), image=np.full((4, 5), 0.5 * version))


def views_writer(format: str) -> Writer:
    def write(folder: Path, version: int) -> None:
        write_views([view(version, number) for number in range(3 - version)], folder, format)

    return write


def mosaic_writer(folder: Path, version: int) -> None:
    """Six maps and a picture of a mosaic, beside each other."""
    from cfusion.rasters.coordinates import Coordinates
    from cfusion.rasters.grids import Grid
    from cfusion.rasters.tiles import Tile
    from cfusion.rasters.write import KINDS, Writer

    folder.mkdir(parents=True, exist_ok=True)
    grid = Grid((1.0, 0.0, 0.0, 0.0, -1.0, 0.0), 5, 4, Coordinates(""))
    with Writer(folder / "m.tif", grid, "metre") as writer:
        maps = {kind: np.full((4, 5), 1 + version, dtype) for kind, (dtype, _, _) in KINDS.items()}
        writer.write(Tile(0, 0, 4, 5, 4, 5), maps)
        writer.publish({"VERSION": str(version)})


def page_writer(folder: Path, version: int) -> None:
    """The demo: a table in two files and a page, of which version 1 has none."""
    from cfusion.cli import demo
    from cfusion.report.tables import Table

    demo._write(folder, Table([{"method": f"version {version}"}]), "page" if version == 0 else None)


@pytest.fixture
def result_writer(result: Result) -> Writer:
    def write(folder: Path, version: int) -> None:
        formats = (("npy", "png", "pfm", "ply"), ("npy", "png"))[version]
        write_result(replace(result, depth=result.depth + version), folder, formats)

    return write


def states(write: Writer, folder: Path) -> tuple[Tree, Tree]:
    """The folder with the old version, and with the new one written over it; a file of somebody else in both."""
    trees = []
    for version in (0, 1):
        write(folder, version)
        (folder / "notes.txt").write_text("mine")
        trees.append(tree(folder))
    return trees[0], trees[1]


def stopped_everywhere(write: Writer, place: Path, how: str, step: int) -> Iterator[tuple[int, Tree]]:
    """What is left of a folder with the old version after a write of the new one that was stopped at a call."""
    whole = place / "whole"
    write(whole, 0)
    (whole / "notes.txt").write_text("mine")
    count = calls_of(write, whole)
    assert count > 20 // step
    for call in range(1, count + 1, step):
        folder = place / str(call)
        write(folder, 0)
        (folder / "notes.txt").write_text("mine")

        def work(call: int = call, folder: Path = folder) -> None:
            stop_at(call, how)
            write(folder, 1)

        code = in_a_child(work)
        assert code in ({"die": (DIED, DONE)}.get(how, (REFUSED, DONE))), f"call {call}: exit {code}"
        yield call, tree(folder)
        write(folder, 1)  # the next one finds nothing in its way, and sweeps
        assert not list(place.glob(".cfusion-*"))
        assert not list(folder.glob(".cfusion-*"))


@pytest.mark.parametrize("how", ["die", "fail", "memory"])
def test_a_result_is_the_old_one_or_the_new_one(tmp_path: Path, result_writer: Writer, how: str) -> None:
    old, new = states(result_writer, tmp_path / "states")
    assert "depth.pfm" in old
    assert "depth.pfm" not in new
    seen = set()
    for call, found in stopped_everywhere(result_writer, tmp_path / "at", how, 1 if how == "die" else 3):
        assert found in (old, new), f"a mixture after call {call}"
        seen.add(found == new)
    assert seen == {True, False}  # stopped before the step, and after it


@pytest.mark.parametrize("name", WRITERS)
def test_data_sets_are_the_old_one_or_the_new_one(tmp_path: Path, name: str) -> None:
    write = views_writer(name)
    old, new = states(write, tmp_path / "states")
    assert old != new
    write(tmp_path / "fresh", 1)
    assert new == tree(tmp_path / "fresh") | {"notes.txt": b"mine"}  # nothing of the old one stays
    for call, found in stopped_everywhere(write, tmp_path / "at", "die", 5):
        assert found in (old, new), f"a mixture after call {call}"


def test_a_mosaic_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    old, new = states(mosaic_writer, tmp_path / "states")
    assert len(old) == 8
    assert all(old[name] != new[name] for name in old if name.endswith(".tif"))
    for call, found in stopped_everywhere(mosaic_writer, tmp_path / "at", "die", 5):
        assert found in (old, new), f"a mixture after call {call}"


def test_scores_and_page_are_of_one_run(tmp_path: Path) -> None:
    old, new = states(page_writer, tmp_path / "states")
    assert set(old) - set(new) == {"report.html"}
    for call, found in stopped_everywhere(page_writer, tmp_path / "at", "die", 1):
        assert found in (old, new), f"a mixture after call {call}"


@pytest.mark.parametrize("how", ["die", "fail"])
def test_a_view_of_a_scene_has_no_record_of_other_files(tmp_path: Path, how: str) -> None:
    """Workers share the folder, so files go in one by one: a record is there only beside all it stands for."""
    from cfusion.scene.placing import placing
    from cfusion.scene.record import Record, folder_of, read_record, write_record

    def write(folder: Path, version: int) -> None:
        with placing(folder) as draft:
            inside = folder_of(draft / "cfusion", 0)
            inside.mkdir(parents=True)
            for name in ("depth", "sigma", "observed"):
                np.save(inside / f"{name}.npy", np.full((2, 3), version))
            (draft / "map.npy").write_bytes(bytes([version]) * 9)
            write_record(inside, Record(0, "a", f"version {version}"))

    seen = set()
    write(tmp_path / "count", 0)
    for call in range(1, calls_of(write, tmp_path / "count") + 1):
        folder = tmp_path / str(call)
        write(folder, 0)

        def work(call: int = call, folder: Path = folder) -> None:
            stop_at(call, how)
            write(folder, 1)

        assert in_a_child(work) in (DIED, DONE, REFUSED)
        view = folder_of(folder / "cfusion", 0)
        for version in (0, 1):
            record = read_record(view, f"version {version}")
            if record is not None:
                assert {int(np.load(file).max()) for file in view.glob("*.npy")} == {version}
                assert (folder / "map.npy").read_bytes() == bytes([version]) * 9
                seen.add(version)
    assert seen == {0, 1}


@pytest.mark.parametrize("name", ["npy", "png", "pfm", "ply", "exr"])
def test_a_disk_that_fills_up(tmp_path: Path, result: Result, name: str) -> None:
    """No file may grow beyond some bytes: whatever library writes it, the old one stays, and one line says why."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(1, 2, (40, 50)).astype(np.float32)
    large = replace(result, depth=noise, confidence=noise, sigma=noise, provenance=np.ones((40, 50), np.int16))

    def write(folder: Path, version: int) -> None:
        given = replace(large, depth=noise + version, camera=Pinhole(50.0, 50.0, 25.0, 20.0, 50, 40))
        write_result(given, folder, [name])

    write(tmp_path / "out", 0)
    before = tree(tmp_path / "out")

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2600, 2600))
        with pytest.raises(CFusionError, match="cannot write to") as caught:
            write(tmp_path / "out", 1)
        assert "\n" not in str(caught.value)

    assert in_a_child(work) == DONE
    assert tree(tmp_path / "out") == before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError("2500 requested and 21 written")])
def test_a_full_disk_is_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """Also where a library lost the error number: then the disk is asked."""
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(CFusionError, match="the disk is full"), atomic.filling(tmp_path / "out"):
        raise error


@pytest.mark.parametrize("exchanged", [True, False], ids=["exchanged", "moved aside first"])
def test_three_writers_at_once(
    tmp_path: Path, result: Result, exchanged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writes twenty times over the others, none is refused; in the end one of them is there whole."""
    if not exchanged:
        monkeypatch.setattr("cfusion.io.exchange._exchange", lambda ours, theirs: 38)
    folder = tmp_path / "out"
    formats = ("npy", "png")

    def writer(number: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(20):
                write_result(replace(result, depth=result.depth + number, seconds=float(number)), folder, formats)

        return work

    children = []
    for number in (1, 2, 3):
        child = os.fork()
        if child == 0:
            code = WRONG
            try:
                writer(number)()
                code = DONE
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [DONE] * 3
    from cfusion.datasets.read_result import settings_of_result

    whole = []
    for number in (1, 2, 3):
        one = replace(result, depth=result.depth + number, seconds=float(number))
        write_result(one, tmp_path / str(number), formats)
        whole.append(tree(tmp_path / str(number)))
    assert tree(folder) in whole
    assert settings_of_result(folder) is None  # none were given
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_writer_waits_while_another_finds_out_whether_it_may_write(
    tmp_path: Path, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the folder is exchanged under the one that looks, which says that it cannot write there."""
    folder, make, others = tmp_path / "out", tempfile.mkdtemp, []
    write_result(result, folder, ("npy",))
    pending = atomic.filling(folder)
    draft = pending.__enter__()
    for name in ("one", "two"):
        (draft / name).write_text(name)

    def make_slowly(**options: Any) -> str:
        made = make(**options)
        if not others:
            others.append(Thread(target=pending.__exit__, args=(None, None, None)))
            others[0].start()
            others[0].join(0.5)
            assert others[0].is_alive()
        return made

    monkeypatch.setattr(tempfile, "mkdtemp", make_slowly)
    write_result(result, folder, ("npy",))
    others[0].join()
    assert {path.name for path in folder.iterdir()} >= {"depth.npy", "one", "two"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def fill(folder: Path, text: str) -> None:
    with atomic.filling(folder) as draft:
        for name in ("one", "two"):
            (draft / name).write_text(text)


@pytest.mark.parametrize("where", ["between the renames", "before the old one is removed"])
def test_a_writer_killed_while_it_exchanges_costs_nothing(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where folders cannot be exchanged in one step: the user's files come back, and the next writer is not refused."""
    monkeypatch.setattr("cfusion.io.exchange._exchange", lambda ours, theirs: 38)
    folder, rename = tmp_path / "out", os.rename
    fill(folder, "old")
    (folder / "notes.txt").write_text("mine")

    def die(*arguments: Any, **options: Any) -> None:
        if where == "between the renames":
            rename(*arguments)
        if where != "between the renames" or ".cfusion-aside" in str(arguments[1]):
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        setattr(*((os, "rename") if where == "between the renames" else (shutil, "rmtree")), die)
        fill(folder, "half")
        os._exit(DONE)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    for text in ("new", "newer"):
        fill(folder, text)
        assert tree(folder) == {"notes.txt": b"mine", "one": text.encode(), "two": text.encode()}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("exchanged", [True, False], ids=["exchanged", "moved aside first"])
def test_a_folder_is_not_exchanged_under_those_who_write_inside(
    tmp_path: Path, exchanged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft inside goes on where it was; who ends meanwhile waits, and what was written stays."""
    if not exchanged:
        monkeypatch.setattr("cfusion.io.exchange._exchange", lambda ours, theirs: 38)
    folder, change, others = tmp_path / "out", atomic.exchange, []
    fill(folder, "old")
    fill(folder / "sub", "old")
    pending = atomic.filling(folder / "later")
    (pending.__enter__() / "file").write_text("later")

    def change_slowly(*places: Path) -> None:
        if not others:
            others.append(Thread(target=fill, args=(folder / "sub", "new")))
            others[0].start()
            others[0].join(0.3)
        change(*places)

    monkeypatch.setattr(atomic, "exchange", change_slowly)
    fill(folder, "new")
    others[0].join()
    pending.__exit__(None, None, None)
    found = {"one": b"new", "two": b"new", "sub": None, "sub/one": b"new", "sub/two": b"new"}
    assert tree(folder) == found | {"later": None, "later/file": b"later"}


def test_a_working_directory_that_is_gone_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileError, match="cannot write to"):
        fill(Path(), "new")


def test_where_folders_cannot_be_exchanged(
    tmp_path: Path, result_writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is the working directory stays the same folder; a system without exchange moves aside first."""
    folder = tmp_path / "out"
    old, new = states(result_writer, tmp_path / "states")
    result_writer(folder, 0)
    (folder / "notes.txt").write_text("mine")
    assert tree(folder) == old
    monkeypatch.chdir(folder)
    result_writer(folder, 1)
    assert Path.cwd() == folder
    assert tree(folder) == new
    monkeypatch.chdir(tmp_path)
    from cfusion.io import exchange

    monkeypatch.setattr(exchange, "_exchange", lambda ours, theirs: 38)
    result_writer(folder, 0)
    assert tree(folder) == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "states"]
    aside = tmp_path / ".cfusion-aside-out"  # as a crash between the two renames leaves it
    folder.rename(aside)
    result_writer(tmp_path / "other", 0)
    assert tree(folder) == old
