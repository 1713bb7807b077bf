"""What once was a raw exception is one sentence of ours: files, calls, commands, one line each."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cfusion
from cfusion import Pinhole, Pose, Stack, View, evaluate, fuse, fuse_many, fuse_stack, normals, read
from cfusion.cli.main import main
from cfusion.datasets import write_bundle, write_result, write_views
from cfusion.errors import CFusionError
from cfusion.io.codecs.exr import read_exr
from cfusion.io.codecs.png import read_png
from cfusion.view import write_page

CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
MAP = np.ones((4, 5))


def views(count: int = 2) -> list[View]:
    return [View(MAP + number, CAMERA, Pose.identity()) for number in range(count)]


def npz(file: Path, packing: int, *, text: bool = False, cut: int | None = None) -> Path:
    arrays: dict[str, Any] = {"depth": MAP[None], "extrinsics": np.eye(4)[None, :3], "intrinsics": np.eye(3)[None]}
    if text:
        arrays["conf"] = np.full((1, 4, 5), "high")
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())
    if cut is not None:
        data = bytearray(file.read_bytes())
        data[cut : cut + 40] = bytes(40)
        file.write_bytes(data)
    return file


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def late_profile(file: Path) -> Path:
    header = struct.pack(">IIBBBBB", 5, 4, 16, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(4 * 11))
    file.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", pixels)
        + chunk(b"iCCP", b"x\0\0" + zlib.compress(b"x"))
        + chunk(b"IEND", b"")
    )
    return file


def exr(file: Path, flags: int, packing: int = 0, size: tuple[int, int] = (5, 4)) -> Path:
    """A header and nothing else."""

    def attribute(name: bytes, kind: bytes, body: bytes) -> bytes:
        return name + b"\0" + kind + b"\0" + struct.pack("<I", len(body)) + body

    channels = b"Z\0" + struct.pack("<iIii", 2, 0, 1, 1) + b"\0"
    window = struct.pack("<4i", 0, 0, size[0] - 1, size[1] - 1)
    file.write_bytes(
        b"\x76\x2f\x31\x01"
        + struct.pack("<I", 2 | flags)
        + attribute(b"channels", b"chlist", channels)
        + attribute(b"compression", b"compression", bytes([packing]))
        + attribute(b"dataWindow", b"box2i", window)
        + b"\0"
    )
    return file


def digits(folder: Path) -> Path:
    folder.mkdir()
    (folder / "bundle.json").write_text('{"format": "cfusion-bundle", "version": ' + "9" * 5000 + "}")
    return folder


def linked(folder: Path) -> Path:
    folder.mkdir()
    (folder / "transforms.json").symlink_to(folder / "nowhere")
    return folder


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a number of 5000 digits": (lambda at: read(digits(at / "x")), "thousands of digits"),
    "npz in LZMA, damaged": (lambda at: list(read(npz(at / "a.npz", zipfile.ZIP_LZMA, cut=90))), "a.npz"),
    "npz, damaged": (lambda at: list(read(npz(at / "a.npz", zipfile.ZIP_DEFLATED, cut=60))), "a.npz"),
    "npz with conf of text": (
        lambda at: read(npz(at / "a.npz", zipfile.ZIP_STORED, text=True)),
        "not real numbers",
    ),
    "PNG with iCCP after IDAT": (
        lambda at: read_png(late_profile(at / "a.png"), cfusion_encoding()),
        "follows its pixels",
    ),
    "EXR of deep samples": (lambda at: read_exr(exr(at / "a.exr", 0x800)), "deep samples"),
    "EXR without lines": (lambda at: read_exr(exr(at / "a.exr", 0)), "do not unpack"),
    "EXR of 10^10 pixels": (lambda at: read_exr(exr(at / "a.exr", 0, 3, (100_000, 100_000))), "claims"),
    "EXR of no size": (lambda at: read_exr(exr(at / "a.exr", 0, 3, (0, -5))), "claims"),
    "a link to nothing": (lambda at: read(linked(at / "x")), "no known format"),
    "a name too long": (lambda at: read(at / ("x" * 3000)), "does not exist|cannot name"),
    "a path that is none": (lambda at: read(None), "give a path"),  # type: ignore[arg-type]
    "options that are none": (lambda at: read(at, "tum", ["images"]), "by name"),  # type: ignore[arg-type]
    "a format that is none": (lambda at: read(at, 5), "unknown format"),  # type: ignore[arg-type]
}


def cfusion_encoding() -> Any:
    from cfusion.io.codecs.png import Encoding

    return Encoding(0.001)


@pytest.mark.parametrize("name", list(FILES))
def test_files(tmp_path: Path, name: str) -> None:
    does, says = FILES[name]
    with pytest.raises(CFusionError, match=says) as caught:
        does(tmp_path)
    assert "\n" not in str(caught.value)


CALLS: dict[str, tuple[Callable[[Path], object], str]] = {
    "write_bundle, swapped": (lambda at: write_bundle(str(at), views()), "needs the views first"),  # type: ignore[arg-type]
    "write_views, swapped": (lambda at: write_views(at, views()), "needs the views first"),  # type: ignore[arg-type]
    "write_bundle of numbers": (lambda at: write_bundle([1, 2], at), "needs cfusion.View, not int"),  # type: ignore[list-item]
    "write_bundle of a range": (lambda at: write_bundle(range(2), at), "needs cfusion.View, not int"),  # type: ignore[arg-type]
    "write_bundle of nothing": (lambda at: write_bundle([], at), "no views"),
    "write_bundle nowhere": (lambda at: write_bundle(views(), 5), "give a path"),  # type: ignore[arg-type]
    "write_bundle in no unit": (lambda at: write_bundle(views(), at, unit=MAP), "unit is"),  # type: ignore[arg-type]
    "write_bundle, odd reference": (lambda at: write_bundle(views(), at, reference={}), "reference is"),  # type: ignore[arg-type]
    "write_result of an array": (lambda at: write_result(MAP, at), "needs a Result first"),  # type: ignore[arg-type]
    "write_result as a word": (lambda at: write_result(result(), at, "npy"), "give a list of words"),
    "a scalar alpha": (lambda at: fuse(views(), "l1", backend="numpy", alpha=2.0), r"alpha=\(alpha_1, alpha_2\)"),
    "a scalar alpha of auto": (lambda at: fuse(views(), backend="numpy", alpha=2.0), r"alpha=\(alpha_1, alpha_2\)"),
    "alpha against order": (lambda at: fuse(views(), "l1", order=2, alpha=(1.0,)), "one weight per order"),
    "a backend that is none": (lambda at: fuse(views(), backend=["cpu"]), "backend is"),  # type: ignore[arg-type]
    "a method that is a type": (lambda at: fuse(views(), int), "no method"),  # type: ignore[arg-type]
    "evaluate of text": (lambda at: evaluate("depth", MAP), "depth is"),
    "evaluate with no camera": (lambda at: evaluate(MAP, MAP, "pinhole"), "give a Pinhole"),  # type: ignore[arg-type]
    "evaluate, baseline of text": (lambda at: evaluate(MAP, MAP, CAMERA, "0.5"), "baseline is"),  # type: ignore[arg-type]
    "normals without camera": (lambda at: normals(MAP, None), "needs the camera"),  # type: ignore[arg-type]
    "a pose on text": (lambda at: Pose.identity().apply("x"), "the points"),
    "a camera on text": (lambda at: CAMERA.back_project([["a"] * 5] * 4), "depth is"),
    "a camera on ragged rows": (lambda at: CAMERA.project([[1, 2], [3]]), "rows of equal length"),
    "a stack with no camera": (lambda at: Stack(MAP[None], camera="x"), "give a Pinhole"),  # type: ignore[arg-type]
    "a lens of text": (lambda at: cfusion.BrownConrady(10, 10, 2, 1.5, 5, 4, k1="x"), "give one number"),  # type: ignore[arg-type]
    "fuse_many of a number": (lambda at: list(fuse_many(5)), "list of lists"),  # type: ignore[arg-type]
    "fuse_rasters of a number": (lambda at: cfusion.fuse_rasters(5), "needs a list of files"),  # type: ignore[arg-type]
    "fuse_rasters of numbers": (lambda at: cfusion.fuse_rasters([1, 2]), "give a path"),  # type: ignore[list-item]
    "fuse_rasters of a long name": (lambda at: cfusion.fuse_rasters(["a" * 5000]), "cannot name"),
    "fuse_every of text": (lambda at: list(cfusion.fuse_every("ab")), "needs"),  # type: ignore[arg-type]
    "fuse_every, no number": (lambda at: list(cfusion.fuse_every(views(), neighbours="x")), "whole"),  # type: ignore[arg-type]
    "a page of an array": (lambda at: write_page(at / "p.html", MAP), "needs a result second"),
    "a page nowhere": (lambda at: result().report(5), "give a path"),  # type: ignore[arg-type]
    "scores at no threshold": (lambda at: evaluate(MAP, MAP).out(MAP), "is not available"),  # type: ignore[arg-type]
    "depths near 3e38": (lambda at: View(np.full((4, 5), 3e38), CAMERA, Pose.identity()), "unit"),
}


def result() -> cfusion.Result:
    return fuse(views(), "median", backend="numpy")


@pytest.mark.parametrize("name", list(CALLS))
def test_calls(tmp_path: Path, name: str) -> None:
    does, says = CALLS[name]
    with pytest.raises(CFusionError, match=says) as caught:
        does(tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_evaluate_takes_results_and_views() -> None:
    """A newcomer's first line; the camera comes along."""
    fused, truth = result(), views()[0]
    assert evaluate(fused, truth) == evaluate(fused.depth, truth.depth, CAMERA)
    assert evaluate(fused, truth.depth).nmae == 0.0
    with pytest.raises(CFusionError, match="same \\(H, W\\)"):
        evaluate(fused, MAP[:2])


def test_fuse_takes_the_view_that_the_data_name(tmp_path: Path) -> None:
    """The middle one is for those that name none."""
    write_bundle(views(3), tmp_path / "x", reference=0)
    found = fuse(read(tmp_path / "x"), "input", backend="numpy")
    np.testing.assert_array_equal(found.depth, views()[0].depth)
    given = fuse(read(tmp_path / "x"), "input", backend="numpy", reference=2)
    np.testing.assert_array_equal(given.depth, views(3)[2].depth)
    plain = fuse(views(3), "input", backend="numpy")
    np.testing.assert_array_equal(plain.depth, views(3)[1].depth)


def test_one_weight_is_one_of_order_one() -> None:
    stack = Stack(np.random.default_rng(0).uniform(1, 2, (3, 6, 7)))
    one = fuse_stack(stack, "l1", backend="numpy", alpha=0.7, order=1)
    other = fuse_stack(stack, "l1", backend="numpy", order=1, alpha=(0.7,))
    np.testing.assert_array_equal(one.depth, other.depth)
    assert one.parameters["alpha"] == (0.7,)


COMMANDS = {
    ("fus",): "did you mean 'fuse'?",
    ("--debug", "evalute", "x"): "did you mean 'evaluate'?",
    ("quux",): "known are: demo, fuse",
    ("a\x1b[2J",): "a\\x1b[2J",
    ("info", "a\x1b[2J"): "a\\x1b[2J",
    ("fuse", "data", "-o", ""): "one of the arguments is empty",
}


@pytest.mark.parametrize("line", list(COMMANDS))
def test_commands_that_there_are_not(line: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(list(line))
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert COMMANDS[line] in said
    assert "\x1b" not in said


def test_a_backend_that_is_not_there_names_the_choice_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from cfusion import kernels

    monkeypatch.setattr(kernels, "find_spec", lambda library: None)
    with pytest.raises(CFusionError, match=r"backend='auto'"):
        kernels.load("cuda")


@pytest.mark.parametrize("left", [b"", b'{"sco', b"[]", b"\xff"])
def test_a_damaged_entry_of_the_cache_is_made_anew(tmp_path: Path, left: bytes) -> None:
    """`reproduce` was killed, or the disk was full."""
    from cfusion.experiments.store import Store

    store = Store(tmp_path)
    store.write("ab12", {"scores": {}}, None)
    (file,) = tmp_path.rglob("ab12*")
    assert json.loads(file.read_text())
    file.write_bytes(left)
    assert store.read("ab12") is None
    assert not store.has("ab12", maps=False)
