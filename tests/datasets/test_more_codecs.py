"""Numbers of files and folders by hand: lost poses, lenses, subsampled channels, disks that can do less."""

import errno
import os
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion.datasets.readers import eth3d, kitti
from cfusion.errors import FileError, InputError
from cfusion.io import atomic, exchange, versions
from cfusion.io.arguments import path_of, views_of, words_of
from cfusion.io.codecs import colmap_model, exr_header, matlab
from cfusion.io.codecs.colmap_model import ModelCamera
from cfusion.io.codecs.exr_header import Channel
from cfusion.io.codecs.kitti_poses import read_odometry_poses
from cfusion.io.codecs.png import Encoding, read_png, write_counts
from cfusion.io.colour_pictures import VIRIDIS, point_colours
from cfusion.io.json_object import JsonObject
from cfusion.io.limits import FREE_BYTES, FREE_PIXELS, MOST_BYTES, MOST_PIXELS, most_unpacked, require_pixels
from cfusion.io.paths import LONGEST_NAME, inside, path_inside, require_inside, within
from cfusion.io.text_tables import is_number, numbered, read_matrix
from cfusion.io.to_json import to_json


def test_a_pose_of_which_one_number_is_lost_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "poses.txt"
    file.write_text("1 0 0 5 0 1 0 6 0 0 1 7\n1 0 0 nan 0 1 0 6 0 0 1 7\n" + " ".join(["nan"] * 12) + "\n")
    found = read_odometry_poses(file)
    assert [pose is None for pose in found] == [False, True, True]
    assert found[0] is not None
    assert found[0].translation.tolist() == [5, 6, 7]
    file.write_text("2 0 0 5 0 1 0 6 0 0 1 7\n")
    with pytest.raises(InputError, match="line 1"):
        read_odometry_poses(file)


@pytest.mark.parametrize(
    ("model", "parameters", "lens"),
    [
        ("PINHOLE", (5, 6, 1, 2), (0, 0, 0, 0, 0)),
        ("SIMPLE_RADIAL", (5, 1, 2, 0.1), (0.1, 0, 0, 0, 0)),
        ("RADIAL", (5, 1, 2, 0.1, 0.2), (0.1, 0.2, 0, 0, 0)),
        ("OPENCV", (5, 6, 1, 2, 0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.3, 0.4, 0)),
        ("FULL_OPENCV", (5, 6, 1, 2, 0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0), (0.1, 0.2, 0.3, 0.4, 0.5)),
        ("FULL_OPENCV", (5, 6, 1, 2, 0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0.1), None),
        ("FOV", (5, 6, 1, 2, 0.1), None),
        ("FOV", (5, 6, 1, 2, 0.0), (0, 0, 0, 0, 0)),
    ],
)
def test_lenses_of_colmap(model: str, parameters: tuple[float, ...], lens: tuple[float, ...] | None) -> None:
    camera = ModelCamera(model, 10, 8, parameters)
    assert camera.brown_conrady == lens
    assert camera.intrinsics == ((5, 5, 1, 2) if model in ("SIMPLE_RADIAL", "RADIAL") else (5, 6, 1, 2))


@pytest.mark.parametrize(
    ("step_x", "step_y", "line", "bytes_of"), [(1, 1, 0, 40), (2, 1, 3, 20), (1, 2, 3, 0), (2, 2, 4, 20), (3, 1, 0, 16)]
)
def test_subsampled_channels_hold_less(step_x: int, step_y: int, line: int, bytes_of: int) -> None:
    """Columns 0 to 9; of every third there are 0, 3, 6, 9."""
    assert Channel("Z", 2, step_x, step_y).bytes_of_line(line, 0, 9) == bytes_of


@pytest.mark.parametrize("step", [1, 2, 3, 5])
@pytest.mark.parametrize("left", [-7, -6, -1, 0, 1, 4, 9, 10])
def test_a_line_holds_the_multiples_of_its_step(left: int, step: int) -> None:
    """Wherever the window of the data begins: columns -7 to 9 at every second one are -6, -4 .. 8."""
    columns = [x for x in range(left, 10) if x % step == 0]
    assert Channel("Z", 1, step, 1).bytes_of_line(0, left, 9) == 2 * len(columns)


def test_an_empty_cell_of_matlab_is_an_empty_matrix() -> None:
    name, value = matlab._matrix(memoryview(b""), "<", 0)
    assert name == ""
    assert value.shape == (0, 0)  # type: ignore[union-attr]


def test_names_of_a_matlab_structure_have_one_length() -> None:
    """As its first part says; else they are cut in wrong places, however many values follow."""

    def found(length: int, names: bytes) -> Any:
        values = [(matlab.MATRIX, memoryview(b""))] * -(-len(names) // max(length, 1))
        parts = [(matlab.INT32, memoryview(struct.pack("<i", length))), (matlab.INT8, memoryview(names)), *values]
        return matlab._struct(1, parts, "<", 0)

    (entry,) = found(4, b"one\0two\0")
    assert list(entry) == ["one", "two"]
    for length in (0, -4, 3, 5, 16):
        with pytest.raises(matlab._Damaged):
            found(length, b"one\0two\0")


def test_a_cell_array_of_matlab_without_cells_is_an_empty_list() -> None:
    """Flags, sizes and a name are all that there is of it."""
    flags, sizes = struct.pack("<4I", 6, 8, matlab.CELL, 0), struct.pack("<2I2i", 5, 8, 0, 0)
    name = struct.pack("<2I8s", 1, 4, b"none")
    assert matlab._matrix(memoryview(flags + sizes + name), "<", 0) == ("none", [])
    with pytest.raises(matlab._Damaged):
        matlab._matrix(memoryview(flags + sizes), "<", 0)


def test_points_of_images_in_words(tmp_path: Path) -> None:
    lines = "# a comment\n1 1 0 0 0 0 0 0 1 a b.png\n5 6 7 8 9 -1 1 2 3\n2 1 0 0 0 0 0 0 1 c.png\n"
    (tmp_path / "images.txt").write_text(lines)
    found = colmap_model.read_observations(tmp_path)
    assert {name: ids.tolist() for name, ids in found.items()} == {"a b.png": [7, 3], "c.png": []}


class TestEth3d:
    def test_a_pinhole_far_larger_than_its_lens_is_refused(self) -> None:
        lens: Any = SimpleNamespace(width=10, height=8, model="THIN_PRISM_FISHEYE")
        for model, words in (
            ("THIN_PRISM_FISHEYE", "cannot show a lens of 10 x 8"),
            ("OPENCV", "cannot be undistorted"),
        ):
            size = 1000 if model == "THIN_PRISM_FISHEYE" else 8
            lens.model = model
            camera: Any = SimpleNamespace(width=size, height=size, cx=1.0, cy=1.0, fx=1.0, fy=1.0)
            with pytest.raises(FileError, match=words):
                eth3d._undistorted(np.ones((8, 10), np.float32), lens, camera)

    def test_the_lower_median_of_what_is_known(self) -> None:
        nan = np.nan
        depth = np.array([[1, 2, nan, nan, 9], [3, 4, nan, 7, 9], [5, 5, 5, 5, 9]], np.float32)
        np.testing.assert_array_equal(eth3d._shrunk(depth, 2), [[2, 7]])
        with pytest.raises(InputError, match="shrink is 4"):
            eth3d._shrunk(depth, 4)


def test_where_the_poses_of_kitti_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kitti, "read_localization", lambda file, number: (file, number))
    folder, beside = tmp_path / "training", tmp_path / "localization"
    folder.mkdir()
    beside.mkdir()
    bundle: Any = SimpleNamespace(number=27)

    def found(**given: Any) -> Any:
        return kitti._poses(bundle, folder, kitti.Options(**given))

    with pytest.raises(FileError, match="no localisation"):
        found()
    (beside / "another.mat").touch()
    assert found() == (beside / "another.mat", 27)
    (beside / "bundle_loc_viso_training.mat").touch()
    assert found() == (beside / "bundle_loc_viso_training.mat", 27)
    assert found(localization="own.mat") == (folder / "own.mat", 27)
    assert found(localization=str(tmp_path / "x.mat")) == (tmp_path / "x.mat", 27)


class TestDisks:
    def test_without_a_call_that_exchanges(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The old one moves aside; where the new one cannot take its place, it comes back."""
        ours, theirs, aside = (tmp_path / name for name in ("ours", "theirs", "aside"))
        for place in (ours, theirs):
            place.mkdir()
            (place / "a").write_text(place.name)
        for code in exchange.UNSUPPORTED:
            monkeypatch.setattr(exchange, "_exchange", lambda *given, code=code: code)
            exchange.exchange(ours, theirs, aside)
            assert (theirs / "a").read_text() == "ours"
            assert (aside / "a").read_text() == "theirs"
            theirs.rename(ours)
            aside.rename(theirs)
        rename = os.rename

        def fails(one: Any, other: Any) -> None:
            if Path(one) == ours:
                raise OSError(errno.EIO, "broken")
            rename(one, other)

        monkeypatch.setattr(os, "rename", fails)
        with pytest.raises(OSError, match="broken"):
            exchange.exchange(ours, theirs, aside)
        assert (theirs / "a").read_text() == "theirs"
        monkeypatch.setattr(exchange, "_exchange", lambda *given: errno.EACCES)
        with pytest.raises(PermissionError):
            exchange.exchange(ours, theirs, aside)

    def test_which_call_there_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        called: list[Any] = []

        def library(**calls: Any) -> None:
            monkeypatch.setattr(exchange.ctypes, "CDLL", lambda name, use_errno: SimpleNamespace(**calls))

        library(renameat2=lambda *given: called.append(given) or 0)
        assert exchange._exchange(b"a", b"b") == 0
        library(renamex_np=lambda *given: called.append(given) or 0)
        assert exchange._exchange(b"a", b"b") == 0
        library()
        assert exchange._exchange(b"a", b"b") == errno.ENOSYS
        assert called == [(-100, b"a", -100, b"b", 2), (b"a", b"b", 2)]
        library(renameat2=lambda *given: -1)
        monkeypatch.setattr(exchange.ctypes, "get_errno", lambda: errno.EPERM)
        assert exchange._exchange(b"a", b"b") == errno.EPERM
        monkeypatch.setattr(exchange.sys, "platform", "win32")
        assert exchange._exchange(b"a", b"b") == errno.ENOSYS

    def test_without_hard_links_files_are_copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def none(*given: Any, **more: Any) -> None:
            raise OSError(errno.EPERM, "no links")

        monkeypatch.setattr(os, "link", none)
        (tmp_path / "a").write_text("content")
        (tmp_path / "to_a").symlink_to("a")
        atomic._link(tmp_path / "a", tmp_path / "b")
        atomic._link(tmp_path / "to_a", tmp_path / "c")
        assert (tmp_path / "b").read_text() == "content"
        assert (tmp_path / "c").is_symlink()

    def test_what_cannot_be_moved_in_is_moved_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        target, draft = tmp_path / "out", tmp_path / "out" / ".draft"
        draft.mkdir(parents=True)
        for name in ("a.npy", "result.json"):
            (target / name).write_text("old")
            (draft / name).write_text("new")
        rename, moves = os.rename, []

        def fails(one: Any, other: Any) -> None:
            if Path(one) == draft / "result.json":
                raise OSError(errno.ENOSPC, "full")
            moves.append(Path(one).name)
            rename(one, other)

        monkeypatch.setattr(os, "rename", fails)
        entries = [draft / "a.npy", draft / "result.json"]
        with pytest.raises(OSError, match="full"):
            atomic._move_in(draft, entries, [target / "a.npy", target / "result.json"], target)
        assert moves[:3] == ["result.json", "a.npy", "a.npy"]  # the JSON goes first
        assert {path.name: path.read_text() for path in target.glob("*.*") if path.is_file()} == {
            **{"a.npy": "old", "result.json": "old"},
        }
        assert (draft / "a.npy").read_text() == "new"

    def test_a_full_disk_is_said_where_a_library_does_not(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        full = "the disk is full (No space left on device)"
        for code in (errno.ENOSPC, errno.EDQUOT):
            assert atomic.reason(OSError(code, "x"), tmp_path) == full
        for free, words in ((2**20 - 1, full), (2**20, "odd")):
            usage = SimpleNamespace(free=free)
            monkeypatch.setattr(shutil, "disk_usage", lambda place, usage=usage: usage)
            assert atomic.reason(OSError("odd\nmore"), tmp_path / "gone" / "further") == words
        assert len(atomic.reason(OSError("x" * 500), tmp_path)) == 200
        monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=0))
        assert atomic.reason(OSError(errno.EACCES, "Denied"), tmp_path) == "Denied"  # what is known is not guessed


class TestNames:
    def test_of_any_length_and_kind(self, tmp_path: Path) -> None:
        assert inside(tmp_path, "a" * LONGEST_NAME)
        assert not inside(tmp_path, "a" * (LONGEST_NAME + 1))
        assert not inside(tmp_path, "../a")
        assert not inside(tmp_path, "a\0b")
        assert inside(tmp_path, ".")
        with pytest.raises(FileError, match="256 letters"):
            path_inside(tmp_path, "a" * 256, "bundle.json")
        with pytest.raises(FileError, match=r"names '\.\./a{34}\.\.\.', which leads out"):
            path_inside(tmp_path, "../" + "a" * 60, "bundle.json")
        (tmp_path / "in").mkdir()
        with within(tmp_path / "in"):
            require_inside(tmp_path / "in" / "a")
            for out in ("a", "in2/a", "in/" + "a" * 300, "in/a\0"):
                with pytest.raises(FileError, match="leads out"):
                    require_inside(tmp_path / out)
        require_inside(tmp_path / "anywhere")

    def test_arguments(self) -> None:
        with pytest.raises(FileError, match="cannot name"):
            path_of("a" * 256, "folder")
        assert path_of("a" * 255, "folder") == Path("a" * 255)
        with pytest.raises(FileError, match="cannot name"):
            path_of("a\0", "folder")
        assert words_of(["npy"], "formats") == ("npy",)
        for wrong in ("npy", 3, [1]):
            with pytest.raises(InputError):
                words_of(wrong, "formats")
        for wrong in ("folder", b"x", Path("a"), 5, [3]):
            with pytest.raises(InputError):
                views_of(wrong, "write")

    def test_in_the_order_of_their_numbers(self) -> None:
        names = ["a10.png", "a2.png", "a0.png", "none.png", "b2.png", "7x3.png"]
        found = [path.name for path in numbered([Path(name) for name in names])]
        assert found == ["none.png", "a0.png", "a2.png", "b2.png", "7x3.png", "a10.png"]
        assert is_number("9" * 15)  # the most digits that a float always holds
        assert not any(map(is_number, ("9" * 16, "-1", "1.5", "²", "")))

    def test_a_matrix_of_one_of_its_shapes(self, tmp_path: Path) -> None:
        (tmp_path / "k.txt").write_text("1 2 3\n4 5 6\n7 8 9\n")
        assert read_matrix(tmp_path / "k.txt", (4, 4), (3, 3)).tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
        with pytest.raises(FileError, match="9 numbers, expected 4 x 4 or 2 x 2"):
            read_matrix(tmp_path / "k.txt", (4, 4), (2, 2))


class TestLimits:
    def test_pixels_by_the_size_of_a_file(self, tmp_path: Path) -> None:
        require_pixels(tmp_path, FREE_PIXELS, 1, 0)
        require_pixels(tmp_path, 64 * 10**6, 1, 10**6)
        require_pixels(tmp_path, MOST_PIXELS, 1, MOST_PIXELS)
        for width, height, held, each in (
            *((0, 5, 100, 4), (5, 0, 100, 4), (-1, -1, 100, 4), (FREE_PIXELS + 1, 1, 0, 4)),
            *((64 * 10**6 + 1, 1, 10**6, 4), (MOST_PIXELS + 1, 1, MOST_BYTES, 4), (MOST_PIXELS, 1, MOST_BYTES, 32)),
        ):
            with pytest.raises(FileError, match="claims"):
                require_pixels(tmp_path, width, height, held, each)

    def test_bytes_that_may_be_unpacked(self) -> None:
        assert most_unpacked(0) == FREE_BYTES
        assert most_unpacked(FREE_BYTES) == MOST_BYTES
        assert most_unpacked(3 * 10**6) == 64 * 3 * 10**6

    def test_values_of_json(self) -> None:
        entry = JsonObject({"a": 5, "b": 2.5, "c": True, "d": 10**400, "s": 0.0, "l": [{}, 3], "n": None}, "x.json")
        assert (entry.number("a"), entry.number("b")) == (5.0, 2.5)
        assert "n" not in entry
        assert entry.scale("zero") is None
        for wrong in ("c", "d", "n", "l"):
            with pytest.raises(FileError):
                entry.number(wrong)
        with pytest.raises(FileError, match="give a positive scale"):
            entry.scale("s")
        with pytest.raises(FileError, match=r"x\.json\.l\[1\] is 3"):
            entry.objects("l")
        with pytest.raises(FileError, match="unknown key 'b'"):
            entry.refuse_unknown("a", "c", "d", "s", "l", "n")
        long = JsonObject({"a": "x" * 60}, "x.json")
        with pytest.raises(FileError, match=r"'x{36}\.\.\., expected a number"):
            long.number("a")


def test_points_are_coloured_by_depth_or_by_their_image() -> None:
    depth = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
    np.testing.assert_array_equal(point_colours(depth, None)[[0, 2]], VIRIDIS[[0, -1]])
    grey = np.array([[0.0, 0.5], [0.25, 2.0]], np.float32)
    assert point_colours(depth, grey).tolist() == [[0] * 3, [64] * 3, [255] * 3]
    colour = np.stack([grey, 0 * grey, grey], axis=-1)
    assert point_colours(depth, colour).tolist() == [[0, 0, 0], [64, 0, 64], [255, 0, 255]]
    assert point_colours(np.full((2, 2), np.nan, np.float32), None).shape == (0, 3)


def test_what_json_does_not_know_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert to_json({"a": np.float32(0.5), "b": float("nan"), 3: (1, True)}) == {"a": 0.5, "b": None, "3": [1, True]}
    assert to_json(Channel("Z", 2, 1, 1)) == {"type": "Channel", "name": "Z", "kind": 2, "step_x": 1, "step_y": 1}
    assert to_json(Path) == repr(Path)
    monkeypatch.setattr(versions, "PACKAGES", ("numpy", "no-such-package-at-all"))
    assert versions.versions()["no-such-package-at-all"] is None
    assert versions.versions()["numpy"] == np.__version__


def test_a_header_of_exr_is_read_to_its_end_and_not_beyond(tmp_path: Path) -> None:
    """Attributes laid out by hand; cut anywhere, or with one that says it is longer, the file is damaged."""

    def attribute(name: str, kind: str, body: bytes, more: int = 0) -> bytes:
        return f"{name}\0{kind}\0".encode() + struct.pack("<I", len(body) + more) + body

    def written(more: int = 0) -> bytes:
        channels = b"Z\0" + struct.pack("<iIii", 2, 0, 1, 1) + b"\0"
        window = struct.pack("<4i", -3, 5, 6, 9)
        parts = [exr_header.MAGIC, struct.pack("<I", 2), attribute("channels", "chlist", channels)]
        parts += [attribute("compression", "compression", b"\3"), attribute("dataWindow", "box2i", window, more)]
        return b"".join(parts) + b"\0"

    file, whole = tmp_path / "a.exr", written()
    file.write_bytes(whole + b"the table of lines")
    found = exr_header.read_header(file)
    assert (found.left, found.top, found.right, found.bottom) == (-3, 5, 6, 9)
    assert (found.width, found.height, found.packing, found.flags, found.end) == (10, 5, 3, 2, len(whole))
    assert found.channels == (Channel("Z", 2, 1, 1),)
    for wrong in (*(whole[:length] for length in range(4, len(whole))), written(more=1), written(more=10**9)):
        file.write_bytes(wrong)
        with pytest.raises(FileError, match="its header is invalid"):
            exr_header.read_header(file)


def test_names_in_exr_have_255_letters_at_most() -> None:
    """As its format says; what is longer is no name, but damage."""
    assert exr_header._word(b"ab" + b"c" * 255 + b"\0d", 2) == ("c" * 255, 258)
    for damaged in (b"c" * 256 + b"\0", b"\0", b"c" * 9):
        with pytest.raises(exr_header.Damaged):
            exr_header._word(damaged, 0)


@pytest.mark.parametrize(
    ("channel", "fine"),
    [((2, 1, 1), True), ((0, 2, 1), True), ((3, 1, 1), False), ((2, 0, 1), False), ((2, 1, 0), False)],
)
def test_channels_of_a_type_and_a_step_that_there_are(channel: tuple[int, int, int], fine: bool) -> None:
    kind, step_x, step_y = channel
    body = b"Z\0" + struct.pack("<iIii", kind, 0, step_x, step_y) + b"Y\0" + struct.pack("<iIii", 1, 0, 1, 1) + b"\0"
    if fine:
        first, second = exr_header._channels(body)
        assert (first.name, first.kind, first.step_x, first.step_y) == ("Z", *channel)
        assert (second.name, second.kind) == ("Y", 1)
    else:
        with pytest.raises(exr_header.Damaged):
            list(exr_header._channels(body))


def test_counts_beyond_the_largest_are_unknown(tmp_path: Path) -> None:
    """Half a count beyond the largest there is none; short of that it is rounded to it."""
    pytest.importorskip("PIL")
    beyond = np.float32(0.5 * (65534 + 0.5))
    depth = np.array([[1.0, np.nextafter(beyond, np.float32(0)), beyond, 2e9, np.nan]], np.float32)
    write_counts(tmp_path / "a.png", depth, 0.5)
    np.testing.assert_array_equal(read_png(tmp_path / "a.png", Encoding(0.5)), [[1.0, 0.5 * 65534, *[np.nan] * 3]])


def test_a_matlab_structure_may_hold_nothing() -> None:
    parts: Any = [(5, memoryview(struct.pack("<i", 8))), (1, memoryview(b"a".ljust(8, b"\0")))]
    assert matlab._struct(0, parts, "<", 0) == []
    with pytest.raises(matlab._Damaged):
        matlab._struct(0, parts[:1], "<", 0)
