"""What is recognised, what can be chosen, and that nothing is read before it is asked for."""

import struct
import weakref
import zlib
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest

from cfusion import Stack, fuse_stack, read
from cfusion.datasets import READERS, WRITERS, Dataset, write_views
from cfusion.datasets.dataset import KEPT, LazyViews
from cfusion.datasets.options import described
from cfusion.datasets.read import recognised
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole, Pose, View


def view(number: int) -> View:
    return View(np.full((2, 3), 1.0 + number), Pinhole(5.0, 5.0, 1.0, 0.5, 3, 2), Pose.identity(), name=str(number))


@pytest.mark.parametrize("name", READERS)
def test_each_module_offers_what_the_table_says(name: str) -> None:
    module = READERS[name].load()
    assert callable(module.recognises)
    assert callable(module.read)
    assert READERS[name].options is None or is_dataclass(READERS[name].options)
    assert READERS[name].summary
    for line in described(READERS[name].options):
        assert " = " in line


@pytest.mark.parametrize("format", WRITERS)
def test_what_is_written_is_recognised_as_such(tmp_path: Path, some_views: list[View], format: str) -> None:
    write_views(some_views, tmp_path / "out", format)
    assert recognised(tmp_path / "out") == format
    assert read(tmp_path / "out").sentence or format == "bundle"


@pytest.mark.parametrize("format", WRITERS)
def test_what_is_of_other_data_is_not_written_over(tmp_path: Path, some_views: list[View], format: str) -> None:
    """`write_bundle(views, "recording")` deleted the depth/ of the recording."""
    write_views(some_views, tmp_path / "out", format)
    write_views(some_views, tmp_path / "out", format)  # its own kind is replaced
    written = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".dmap"}
    assert written <= set(WRITERS[format])
    for name in set(WRITERS[format]) - {"bundle.json", "transforms.json"}:  # by which the format is recognised
        folder = tmp_path / f"of {name}"
        mine = folder / name if "." in name else folder / name / "mine.png"
        mine.parent.mkdir(parents=True)
        mine.write_bytes(b"mine")
        with pytest.raises(FileError, match=f"of {name} holds {name} of other data; choose another folder"):
            write_views(some_views, folder, format)
        assert {path for path in folder.rglob("*") if path.is_file()} == {mine}
        write_views(some_views, folder, format, overwrite=True)
        assert recognised(folder) == format


@pytest.mark.parametrize("format", READERS)
def test_an_empty_folder_is_no_format_and_each_reader_says_so(tmp_path: Path, format: str) -> None:
    with pytest.raises(FileError, match="has no known format"):
        read(tmp_path)
    with pytest.raises(FileError) as caught:
        read(tmp_path, format=format)
    assert "\n" not in str(caught.value)


def test_writing_refuses_what_it_cannot(tmp_path: Path, some_views: list[View]) -> None:
    with pytest.raises(InputError, match="cannot be written as 'scannet'"):
        write_views(some_views, tmp_path / "out", "scannet")
    with pytest.raises(InputError, match="did you mean 'colmap'"):
        write_views(some_views, tmp_path / "out", "colmp")
    with pytest.raises(InputError, match="no views"):
        write_views([], tmp_path / "out", "tum")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def folder(tmp_path: Path, depth_png: Callable[..., bytes]) -> Path:
    (tmp_path / "frame-000000.depth.png").write_bytes(depth_png([[1000, 2000]]))
    (tmp_path / "frame-000000.pose.txt").write_text("1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("format", "options", "words"),
    [
        (None, {"imags": False}, "did you mean 'images'"),
        (None, {"colour": 3}, "known are: images"),
        (None, {"images": 1}, "option images is 1; give True or False"),
        (None, {"images": "no"}, "give True or False"),
        ("bundle", {"images": True}, "has no options"),
        ("tum", {"camera": (1, "a")}, "give a tuple of numbers"),
        ("tum", {"units_per_metre": "1"}, "give a number"),
        ("kitti", {"bundle": 2.5}, "give a whole number"),
        ("kitti", {"bundle": True}, "give a whole number"),
    ],
)
def test_options_are_checked(folder: Path, format: str | None, options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match="option") as caught:
        read(folder, format=format, options=options)
    assert words in str(caught.value)


def test_sixteen_bits_are_not_read_as_eight(folder: Path, png_bytes: Callable[..., bytes]) -> None:
    assert read(folder)[0].depth.tolist() == [[1.0, 2.0]]
    (folder / "frame-000000.depth.png").write_bytes(png_bytes(2, 1, [bytes([3, 7])], bits=8, colour=0))
    with pytest.raises(FileError, match="8-bit grey PNG; save depth as 16-bit"):
        read(folder)[0]
    claim = struct.pack(">II", 31623, 31623)
    whole = png_bytes(2, 1, [struct.pack(">2H", 1, 2)])
    header = claim + whole[24:29]
    crc = struct.pack(">I", zlib.crc32(b"IHDR" + header))
    (folder / "frame-000000.depth.png").write_bytes(whole[:16] + header + crc + whole[33:])
    with pytest.raises(FileError, match="claims 31623 x 31623 pixels"):
        read(folder)[0]


def test_frames_are_loaded_late_and_the_last_few_kept() -> None:
    loaded: list[int] = []

    def load(number: int) -> View:
        loaded.append(number)
        return view(number)

    views = Dataset(LazyViews.reading(load, 100), reference=50, unit="foot", sentence="as told")
    assert len(views) == 100
    assert loaded == []
    for _ in range(3):
        window = views[40:51]
        assert [each.name for each in window] == [str(number) for number in range(40, 51)]
    assert loaded == list(range(40, 51))  # a window of eleven is read once
    assert (window.reference, window.unit, window.sentence) == (10, "foot", "as told")
    assert views[::7].reference is None
    assert views[-1].name == "99"
    seen = [weakref.ref(each) for each in views]
    assert sum(each() is not None for each in seen) <= KEPT  # memory does not grow with the length
    views[0]
    assert loaded[-1] == 0  # long gone


def test_damaged_photographs_are_refused(folder: Path) -> None:
    (folder / "frame-000000.color.jpg").write_bytes(b"\xff\xd8\xff\xe0" + bytes(50))
    with pytest.raises(FileError, match=r"frame-000000\.color\.jpg is a damaged JPEG"):
        read(folder)[0]
    assert read(folder, options={"images": False})[0].image is None


def test_every_format_is_documented() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "formats.md").read_text()
    assert all(f"| `{name}` |" in text for name in READERS)


@pytest.mark.parametrize(
    ("format", "parts"),
    [
        ("replica", ("traj.txt", "results/depth0.png")),
        ("scannet", ("depth/", "pose/", "intrinsic/")),
        ("tum", ("depth.txt", "groundtruth.txt")),
        ("kitti-odometry", ("calib.txt", "image_0/", "times.txt")),
        ("open3d", ("depth/", "trajectory.log")),
        ("middlebury", ("calib.txt", "disp0.pfm")),
        ("middlebury", ("disp2.png", "im2.png")),
        ("colmap", ("stereo/depth_maps/", "sparse/cameras.txt", "sparse/images.txt")),
    ],
)
def test_a_format_is_recognised_by_all_its_parts_and_by_none_less(
    tmp_path: Path, format: str, parts: tuple[str, ...]
) -> None:
    recognises = READERS[format].load().recognises

    def laid_out(name: str, given: Sequence[str]) -> Path:
        (tmp_path / name).mkdir()
        for part in given:
            place = tmp_path / name / part
            (place if part.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
            if not part.endswith("/"):
                place.touch()
        return tmp_path / name

    assert recognises(laid_out("whole", parts))
    for lost in parts:
        assert not recognises(laid_out(f"without {lost.replace('/', ' ')}", [each for each in parts if each != lost]))


def test_a_data_set_below_the_folder_that_was_given_is_named(tmp_path: Path, some_views: list[View]) -> None:
    """The project of a program that keeps its data set in a folder of its own, such as dense/0."""
    write_views(some_views, tmp_path / "dense" / "0", "colmap")
    with pytest.raises(FileError, match=r"has no known format, but .*dense/0 has \(colmap\); give that$"):
        read(tmp_path)
    with pytest.raises(FileError, match=r"of other data make a bundle, .* docs/conventions.md says how$"):
        read(tmp_path / "dense" / "0" / "images")


def test_a_folder_below_that_may_not_be_read_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a data set below is a courtesy; its own error was told instead of the refusal."""
    (tmp_path / "ours" / "theirs").mkdir(parents=True)
    recognises = type(READERS["bundle"]).recognises

    def refused(reader: object, place: Path) -> bool:
        if place.name == "theirs":
            raise PermissionError(13, "Permission denied", str(place))
        return recognises(reader, place)  # type: ignore[arg-type]

    monkeypatch.setattr(type(READERS["bundle"]), "recognises", refused)
    with pytest.raises(FileError, match="has no known format"):
        read(tmp_path)


def test_a_result_is_no_data_and_its_maps_are_named(tmp_path: Path) -> None:
    fuse_stack(Stack(np.ones((3, 4, 5))), "median", backend="numpy").save(tmp_path / "out")
    with pytest.raises(FileError, match=r"is a result, not data; load its maps \(numpy.load\('.*out/depth.npy'\)"):
        read(tmp_path / "out")
    assert np.load(tmp_path / "out" / "depth.npy").shape == (4, 5)
