"""Careless and hostile input at the command line and in files: one line, no hang, no flood of memory."""

import io
import json
import os
import resource
import struct
import subprocess
import sys
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, View, fuse, read
from cfusion.cli.main import main
from cfusion.cli.talk import shown
from cfusion.datasets import write_bundle, write_views
from cfusion.errors import CFusionError, CFusionWarning, FileError, InputError
from cfusion.io.codecs import matlab

CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)
MEMORY = 600 << 20  # bytes a child may take beyond what it has


def some_views() -> list[View]:
    return [View(np.full((4, 5), 2.0), CAMERA, Pose.identity(), image=np.full((4, 5), 0.5)) for _ in range(2)]


def in_little_memory(work: Callable[[], object]) -> str:
    """What a child says that may take little more memory than it has: `fine`, or the error's sentence."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "died"
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            work()
            said = "fine"
        except CFusionError as error:
            said = f"refused: {error}"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, said.encode()[:4000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode()
    os.waitpid(child, 0)
    return said


def png_of_zeros(width: int, height: int) -> bytes:
    import struct

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    packer = zlib.compressobj(9)
    packed = [packer.compress(bytes(1 + 2 * width)) for _ in range(height)]
    body = b"".join([*packed, packer.flush()])
    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def bundle_around(folder: Path, name: str, content: bytes, scale: float | None = 0.001, side: int = 13000) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content)
    camera = {"type": "pinhole", "fx": 5, "fy": 5, "cx": 1, "cy": 1, "width": side, "height": side}
    view: dict[str, Any] = {"depth": name, "camera": camera, "pose": np.eye(4).tolist()}
    content_ = {"format": "cfusion-bundle", "version": 1, "views": [view | ({"scale": scale} if scale else {})]}
    (folder / "bundle.json").write_text(json.dumps(content_))


def test_a_small_png_of_many_pixels(tmp_path: Path) -> None:
    bundle_around(tmp_path, "d.png", png_of_zeros(9000, 9000), side=9000)
    assert (tmp_path / "d.png").stat().st_size < 400_000
    assert "refused" in in_little_memory(lambda: read(tmp_path)[0])


def test_a_small_geotiff_of_many_pixels(tmp_path: Path) -> None:
    rasterio = pytest.importorskip("rasterio")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profile = {"driver": "GTiff", "width": 16384, "height": 16384, "count": 1, "dtype": "float64"}
        with rasterio.open(tmp_path / "a.tif", "w", sparse_ok=True, **profile):
            pass
    assert (tmp_path / "a.tif").stat().st_size < 200_000
    assert "refused" in in_little_memory(lambda: read(tmp_path)[0])


def test_a_small_exr_of_many_channels(tmp_path: Path) -> None:
    library = pytest.importorskip("OpenEXR")
    flat = np.zeros((1000, 1000), np.float32)
    channels = {f"layer{n}.x": flat for n in range(40)} | {"Z": np.ones_like(flat)}
    for packing, said in ((library.ZIP_COMPRESSION, "fine"), (library.PIZ_COMPRESSION, "save depth alone")):
        library.File({"compression": packing, "type": library.scanlineimage}, dict(channels)).write(
            str(tmp_path / "d.exr")
        )
        bundle_around(tmp_path, "d.exr", (tmp_path / "d.exr").read_bytes(), None, side=1000)
        assert said in in_little_memory(lambda: read(tmp_path)[0])


def test_a_small_npz_of_many_bytes(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (50, 1000, 1000)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("depth.npy", "w", force_zip64=True) as member:
            member.write(stream.getvalue())
            for _ in range(50):
                member.write(bytes(4_000_000))
        for name, shape in (("extrinsics", (50, 3, 4)), ("intrinsics", (50, 3, 3))):
            one = io.BytesIO()
            np.save(one, np.zeros(shape))
            archive.writestr(f"{name}.npy", one.getvalue())
    assert "refused" in in_little_memory(lambda: read(tmp_path / "a.npz")[0])


def test_what_never_ends(tmp_path: Path) -> None:
    """A pipe, a device behind a link: refused at once."""
    for name, make in (("fifo", os.mkfifo), ("zero", lambda path: os.symlink("/dev/zero", path))):
        folder = tmp_path / name
        write_bundle(some_views(), folder)
        (folder / "depth" / "000.npy").unlink()
        make(folder / "depth" / "000.npy")
        began = time.monotonic()
        with pytest.raises(FileError, match=r"pipe or a device|leads out"):
            tuple(read(folder))
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("format", ["tum", "open3d", "mvsnet", "openmvs", "colmap", "nerfstudio", "bundle"])
def test_links_out_of_the_data_are_refused(tmp_path: Path, format: str) -> None:
    folder = tmp_path / "data"
    write_views(some_views(), folder, format)
    for number, view in enumerate(read(folder, format=format)):
        assert view.image is not None, number
    targets = [path for path in folder.rglob("*") if path.suffix in (".png", ".npy", ".pfm", ".bin", ".dmap")]
    for path in targets:
        if "normal_maps" in str(path):
            continue
        elsewhere = tmp_path / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        with pytest.raises(CFusionError, match="leads out"):
            tuple(read(folder, format=format))
        path.unlink()
        elsewhere.rename(path)
    (tmp_path / "link").symlink_to(folder)  # the whole may be a link
    assert len(tuple(read(tmp_path / "link", format=format))) == 2


def test_images_that_are_missing_are_said(tmp_path: Path) -> None:
    for format in ("tum", "colmap", "nerfstudio", "openmvs"):
        folder = tmp_path / format
        write_views(some_views(), folder, format)
        assert "not there" not in read(folder, format=format).sentence
        photos = [path for path in folder.rglob("*.png") if path.parent.name in ("rgb", "images")]
        photos[0].unlink()
        assert "1 image named but missing" in read(folder, format=format).sentence
    folder = tmp_path / "colmap"
    next((folder / "stereo" / "depth_maps").iterdir()).unlink()
    assert "1 frame without a depth map left out" in read(folder).sentence


def test_a_time_that_is_none(tmp_path: Path) -> None:
    write_views(some_views(), tmp_path, "tum")
    text = (tmp_path / "depth.txt").read_text()
    (tmp_path / "depth.txt").write_text(text.replace("0.033333 depth", "nan depth"))
    with pytest.raises(FileError, match="has the time 'nan'"):
        read(tmp_path)
    (tmp_path / "depth.txt").write_text(text.replace("0.033333 depth", "0_1.033333 depth"))
    with pytest.raises(FileError, match="not a number"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["\u00b2.png", "1" * 200 + ".png", "x\x1b[31m.png"])
def test_odd_names_of_files(tmp_path: Path, name: str) -> None:
    write_views(some_views(), tmp_path, "open3d")
    (tmp_path / "depth" / name).write_bytes((tmp_path / "depth" / "000000.png").read_bytes())
    with pytest.raises(FileError, match="2 poses for 3"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("calib.txt", "\n" * 300_000),
        ("calib.txt", "cam0" * 100_000),
        ("a.txt", "cam_" * 100_000),
        ("a.txt", "cam_x = [" * 50_000),
    ],
)
def test_patterns_take_linear_time(tmp_path: Path, name: str, text: str) -> None:
    from cfusion.datasets.readers.icl_nuim import _povray
    from cfusion.datasets.readers.middlebury import read_calibration

    (tmp_path / name).write_text(text)
    began = time.process_time()
    with pytest.raises(FileError):
        read_calibration(tmp_path / name) if name == "calib.txt" else _povray(tmp_path / name, (4, 5))
    assert time.process_time() - began < 2


def test_numbers_of_thousands_of_digits(tmp_path: Path) -> None:
    write_bundle(some_views(), tmp_path)
    content = (tmp_path / "bundle.json").read_text()
    (tmp_path / "bundle.json").write_text(content.replace('"version": 1', f'"version": {"1" * 5000}'))
    with pytest.raises(FileError, match="thousands of digits"):
        read(tmp_path)


def test_links_to_nothing_and_long_names(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "depth").mkdir()
    with pytest.raises(FileError, match="no known format"):
        read(tmp_path)
    for path in ("x" * 5000, "a\0b"):
        with pytest.raises(FileError, match=r"cannot name a folder|does not exist"):
            read(path)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    "setting",
    [
        "radius=1e9",
        "radius=1000000000",
        "iterations=1e2",
        "lam=" + "9" * 400,
        "lam=nan",
        "alpha={[]:1}",
        "tolerance=()",
    ],
)
@pytest.mark.parametrize("method", ["l1", "auto"])
def test_parameters_that_make_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, method: str
) -> None:
    write_bundle(some_views(), tmp_path / "data")
    began = time.monotonic()
    command = ("fuse", tmp_path / "data", "-o", tmp_path / "out", "--backend", "numpy", "--method", method)
    assert run(*command, "--set", setting) == 2
    assert time.monotonic() - began < 10
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert len(said) < 700


def test_a_demo_that_no_memory_holds(capsys: pytest.CaptureFixture[str]) -> None:
    for size in ("100000x100000", "\u00b2x4", "9999999999x1"):
        with pytest.raises(SystemExit) as left:
            run("demo", "--size", size)
        assert left.value.code == 2


@pytest.mark.parametrize("reference", [True, False, 1.0, "1", 2, -1])
def test_a_reference_is_a_number_of_a_view(reference: Any) -> None:
    with pytest.raises(InputError, match="is not one of the 2 views"):
        fuse(some_views(), "median", reference=reference, backend="numpy")


def test_escapes_are_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fuse", tmp_path / "a\x1b[2Jb\nc", "-o", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said
    assert "a\\x1b[2Jb\\nc" in said
    assert len(shown("x" * 10_000)) < 700
    assert shown("na\u00efve") == "na\u00efve"


@pytest.mark.parametrize(("into", "code"), [(">&-", 0), ("> /dev/full", 2)])
def test_standard_output_that_takes_nothing(into: str, code: int) -> None:
    command = f"{sys.executable} -m cfusion info {into}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert found.returncode == code
    assert "Traceback" not in found.stderr
    assert found.stderr.count("\n") <= 1


def test_a_terminal_without_the_letters_of_a_path(tmp_path: Path) -> None:
    """They are escaped: the result has been written, and a traceback would deny it."""
    write_bundle(some_views(), tmp_path / "data")
    options = ("--method", "median", "--backend", "numpy", "--write", "npy", "--no-report")
    found = subprocess.run(
        [sys.executable, "-m", "cfusion", "fuse", "data", "-o", "\u00f6ut", *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert "written to \\xf6ut" in found.stdout
    assert (tmp_path / "\u00f6ut" / "depth.npy").is_file()


def test_a_place_for_compiled_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cfusion.kernels.cpu import cache

    (tmp_path / "file").write_text("")
    nowhere = tmp_path / "file" / "below"
    monkeypatch.setenv(cache.VARIABLE, str(nowhere))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.warns(CFusionWarning, match="compiled kernels are kept in"):
        cache.require_cache()
    chosen = Path(os.environ[cache.VARIABLE])
    assert chosen.parent == tmp_path
    assert chosen.stat().st_mode & 0o077 == 0
    chosen.chmod(0o777)  # somebody else may have put something there
    monkeypatch.setenv(cache.VARIABLE, str(nowhere))
    monkeypatch.setattr(cache.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "own"))
    with pytest.warns(CFusionWarning, match="own"):
        cache.require_cache()
    monkeypatch.setenv(cache.VARIABLE, str(nowhere))
    monkeypatch.setattr(cache, "_private", list)
    with pytest.raises(CFusionError, match=r"backend='numpy'"):
        cache.require_cache()


def test_matlab_files_are_read_without_their_library(tmp_path: Path) -> None:
    """As SciPy writes them, whole, cut at every place and with any bit turned."""
    scipy_io = pytest.importorskip("scipy.io")
    from cfusion.io.codecs.kitti_poses import read_localization
    from cfusion.io.codecs.matlab import read_matlab

    cells = np.empty((1, 3), object)
    cells[0] = [np.eye(4, dtype=np.uint8), np.eye(4) * [[1], [1], [1], [1]], np.empty((0, 0))]
    entry = np.empty((1, 2), [("first_frame", object), ("localization", object)])
    entry["first_frame"][0] = [np.array([[3]], np.uint8), np.array([[np.inf]])]
    entry["localization"][0] = [cells, cells]
    for compress in (False, True):
        file = tmp_path / f"{compress}.mat"
        scipy_io.savemat(file, {"bundle_data": entry, "x": np.arange(6.0).reshape(2, 3)}, do_compression=compress)
        np.testing.assert_array_equal(read_matlab(file)["x"], [[0, 1, 2], [3, 4, 5]])
        assert set(read_localization(file, 0)) == {3, 4}
        with pytest.raises(FileError, match="first_frame"):
            read_localization(file, 1)
        whole = file.read_bytes()
        rng = np.random.default_rng(0)
        for attempt in range(400):
            harmed = bytearray(whole)
            harmed[int(rng.integers(0, len(whole)))] ^= 1 << int(rng.integers(0, 8))
            file.write_bytes(harmed[: int(rng.integers(0, len(whole)))] if attempt % 4 == 0 else harmed)
            try:
                read_localization(file, 0)
            except CFusionError as error:
                assert "\n" not in str(error)


def test_a_packed_variable_may_grow_to_the_limit_and_not_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matlab, "most_unpacked", lambda packed: 1000)
    assert len(matlab._unpacked(memoryview(zlib.compress(bytes(1000))))) == 1000
    with pytest.raises(matlab._Damaged):
        matlab._unpacked(memoryview(zlib.compress(bytes(1001))))


def element(kind: int, body: bytes, size: int | None = None) -> bytes:
    return struct.pack("<II", kind, len(body) if size is None else size) + body + bytes(-len(body) % 8)


@pytest.mark.parametrize(
    "data",
    [
        element(6, bytes(8), 9),  # claims a byte more than there is
        element(6, bytes(16), 1 << 31),
        struct.pack("<HH4s", 6, 5, b"abcd"),  # a small one holds four bytes at most
        struct.pack("<HH4s", 6, 0xFFFF, b"abcd"),
    ],
    ids=["one byte", "far", "five in four", "most in four"],
)
def test_parts_of_a_matlab_file_end_where_they_say(data: bytes) -> None:
    with pytest.raises(matlab._Damaged):
        matlab._elements(memoryview(data), "<")


def test_parts_of_a_matlab_file_follow_one_another() -> None:
    """Each at a multiple of eight bytes, but for packed ones; small ones in eight bytes with what they hold."""
    whole = element(5, b"abcde") + struct.pack("<HH4s", 6, 3, b"xyz\0") + element(7, b"12345678")
    found = [(kind, bytes(body)) for kind, body in matlab._elements(memoryview(whole + b"left"), "<")]
    assert found == [(5, b"abcde"), (6, b"xyz"), (7, b"12345678")]
    packed = struct.pack("<II", matlab.COMPRESSED, 3) + b"abc" + struct.pack("<HH4s", 6, 4, b"wxyz")
    assert [bytes(body) for _, body in matlab._elements(memoryview(packed), "<")] == [b"abc", b"wxyz"]
