"""What is damaged, incomplete or contradictory is refused in the sentence of that mistake: one line, with its file."""

import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import datasets, fuse_stack, methods
from cfusion.cli.main import main
from cfusion.datasets import kitti_bundle
from cfusion.datasets.read import read, recognised
from cfusion.datasets.read_result import read_depth
from cfusion.datasets.readers import icl_nuim, middlebury, openmvs
from cfusion.datasets.write_back import layouts
from cfusion.errors import CFusionError
from cfusion.experiments import read_spec, work
from cfusion.experiments.publish import Findings
from cfusion.experiments.whole_files import read_arrays, write_whole
from cfusion.frontends import pairs
from cfusion.frontends.calibration import RawRig, read_rig
from cfusion.frontends.kitti import kitti_bundle_views
from cfusion.frontends.rig import StereoFrame
from cfusion.geometry.view import Stack
from cfusion.io import files
from cfusion.io.codecs import npz, png_chunks
from cfusion.io.codecs.colmap_model import read_observations
from cfusion.io.codecs.png import Encoding, write_png
from cfusion.io.json_object import JsonObject
from cfusion.io.text_tables import read_lines, read_text
from cfusion.rasters import begin
from cfusion.rasters.journal import Journal
from cfusion.scene.cluster import Cluster
from cfusion.scene.job import FOLDER, MARK, open_job
from cfusion.scene.record import require_record
from cfusion.view import frames
from cfusion.view.scene_page import scene_of

seeds = pytest.importorskip("fuzz.seeds", reason="one small data set of every format")


def edited(file: str, *changes: tuple[str, str]) -> Callable[[Path], None]:
    """Replaces words of a text file, each of which is there."""

    def edit(folder: Path) -> None:
        text = (folder / file).read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (folder / file).write_text(text)

    return edit


def removed(*patterns: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for pattern in patterns:
            found = list(folder.glob(pattern))
            assert found
            for file in found:
                file.unlink()

    return remove


def of_bytes(file: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes())) and None


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def a_png(header: bytes, packed: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


GREY = struct.pack(">IIBBBBB", 5, 4, 16, 0, 0, 0, 0)
DEPTH_MAP = "stereo/depth_maps/000000.png.geometric.bin"
DATA: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "maps of no image": ("middlebury", removed("*.pfm"), r"has no disp0.pfm \(or disp0GT.pfm\)"),
    "a PNG of a short header": (
        "7-scenes",
        of_bytes("frame-000000.depth.png", lambda data: a_png(GREY[:9], zlib.compress(bytes(44)))),
        "frame-000000.depth.png is a damaged PNG: its header is 9 bytes",
    ),
    "a PNG that was never packed": (
        "7-scenes",
        of_bytes("frame-000000.depth.png", lambda data: a_png(GREY, bytes(44))),
        "frame-000000.depth.png is a damaged PNG: its pixels do not unpack",
    ),
    "a pose of no time": ("icl-nuim", edited("a.gt.freiburg", ("2 0.1", "inf 0.1")), "line 2 has no time; write `t tx"),
    "a depth map in colour": (
        "colmap",
        of_bytes(DEPTH_MAP, lambda data: b"5&4&3&" + 3 * data.split(b"&", 3)[3]),
        "000000.png.geometric.bin has 3 channels; expected depth only",
    ),
    "a result of tomorrow": (
        "result",
        edited("result.json", ('"version": 1', '"version": 2')),
        "has format 'cfusion-result', version 2; give a 'cfusion-result'",
    ),
}


@pytest.mark.parametrize("name", list(DATA))
def test_a_data_set_is_refused_for_what_is_wrong_with_it(tmp_path: Path, name: str) -> None:
    layout, edit, says = DATA[name]
    if layout in seeds.OWN:
        seeds.OWN[layout](tmp_path / "data")
    else:
        datasets.write_views(seeds.some_views(), tmp_path / "data", layout)

    def look() -> None:
        if layout == "result":
            read_depth(tmp_path / "data")
        else:
            list(read(tmp_path / "data", layout))

    look()  # sound before
    edit(tmp_path / "data")
    with pytest.raises(CFusionError, match=says) as caught:
        look()
    assert "\n" not in str(caught.value)


def renamed(pattern: str) -> Callable[[Path], None]:
    """Files that have maps of nothing that is known."""

    def rename(folder: Path) -> None:
        for number, file in enumerate(sorted(folder.glob(pattern))):
            file.rename(file.with_name(f"{900 + number}{file.suffix}"))

    return rename


def lost_in(pattern: str, old: str = "1", new: str = "nan") -> Callable[[Path], None]:
    """Poses that are not known."""

    def lose(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.write_text(file.read_text().replace(old, new))

    return lose


def only_nan(folder: Path) -> None:
    with np.load(folder / "a.npz") as archive:
        parts = {name: archive[name] for name in archive.files}
    np.savez(folder / "a.npz", **(parts | {"extrinsics": np.full_like(parts["extrinsics"], np.nan)}))


NOBODY: dict[str, tuple[Callable[[Path], Any], str]] = {
    "7-scenes": (lost_in("*.pose.txt"), r"frame-\*.pose.txt with a pose"),
    "scannet": (lost_in("pose/*.txt"), r"depth/\*.png with a pose"),
    "replica": (lost_in("traj.txt"), r"results/depth\*.png with a pose"),
    "icl-nuim": (renamed("depth/*.png"), r"depth/\*.png whose number is in the trajectory"),
    "npz": (only_nan, "frame with a pose"),
    "tum": (lost_in("groundtruth.txt", "0.0 1.0", "0.0 nan"), "depth map within 0.02 s of a pose"),
    "open3d": (lost_in("trajectory.*", "1.0", "NaN"), r"depth/\*.png with a pose"),
    "nerfstudio": (lost_in("transforms.json", "    0.0,", "    NaN,"), "frame with a pose"),
    "mvsnet": (lost_in("cams/*.txt", "1.0 0.0 0.0", "nan 0.0 0.0"), "depth map with a camera"),
    "eth3d": (renamed("ground_truth_depth/*"), "depth map of an image in the calibration"),
    "colmap": (renamed("stereo/depth_maps/*"), "of an image in the model"),
    "kitti-odometry": (lost_in("poses/00.txt"), "disparity map with a pose"),
}


@pytest.mark.parametrize("layout", list(NOBODY))
def test_no_layout_is_read_as_a_data_set_without_views(tmp_path: Path, layout: str) -> None:
    edit, lacks = NOBODY[layout]
    if layout in seeds.OWN:
        seeds.OWN[layout](tmp_path / "data")
    else:
        datasets.write_views(seeds.some_views(), tmp_path / "data", layout)
    place = tmp_path / "data" / ("sequences/00" if layout == "kitti-odometry" else "")
    found = read(place, layout)
    assert re.search(rf"\b{len(found)} (frame|view|image|map)", found.sentence)
    assert not re.search("lost|skipped|left out", found.sentence)
    edit(tmp_path / "data")
    with pytest.raises(CFusionError, match=f"holds no .*{lacks}.*; check the folder"):
        read(place, layout)


def write(file: Path, content: str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def pngs_only(folder: Path) -> None:
    """A result whose depth is in no file."""
    seeds.OWN["result"](folder / "a")
    stated = json.loads((folder / "a" / "result.json").read_text())
    stated["files"]["depth"] = {}
    write(folder / "a" / "result.json", json.dumps(stated))
    read_depth(folder / "a")


def a_short_member(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        archive.writestr("depth.npy", b"\x93NUMPY\x01\x00\x04\x00abc\n")
    npz.members(folder / "a.npz")


def a_point_in_words(folder: Path) -> None:
    read_observations(write(folder / "images.txt", "1 1 0 0 0 0 0 0 1 a.png\n1.0 2.0 x\n").parent)


def a_rig_of(folder: Path, **matrices: tuple[int, int]) -> None:
    lines = ["%YAML:1.0", "---"]
    for name, (rows, columns) in matrices.items():
        values = ", ".join("1" * rows * columns)
        lines += [f"{name}: !!opencv-matrix", f"   rows: {rows}", f"   cols: {columns}", "   dt: d"]
        lines += [f"   data: [ {values} ]"]
    read_rig(write(folder / "rig.yml", "\n".join(lines) + "\n"))


def above_each_other() -> None:
    lens, place = np.zeros(5), np.array([0.0, -0.1, 0.0])
    matrix = np.array([[10.0, 0, 8], [0, 10.0, 8], [0, 0, 1]])
    picture = np.zeros((16, 16), np.float32)
    RawRig(matrix, lens, matrix, lens, np.eye(3), place).rectified(StereoFrame(picture, picture))


def a_pair_without_its_partner(folder: Path, left: int) -> None:
    for number in range(left):
        write(folder / "left" / f"{number}.png", "")
    (folder / "left").mkdir(exist_ok=True)
    (folder / "right").mkdir()
    pairs._names(folder)


def with_other_maps() -> None:
    views = seeds.some_views()
    data = openmvs._bytes(views[0], 0, 2, "")
    file = Path("a.dmap")
    openmvs.with_maps(file, data, np.ones((4, 6)), np.ones((4, 6, 3)), np.ones((4, 6)))  # type: ignore[arg-type]


def a_map_of_another_size(folder: Path) -> None:
    seeds.OWN["kitti"](folder / "training")
    (folder / "maps").mkdir()
    write_png(folder / "maps" / "000000_10.png", np.ones((4, 6), np.float32), Encoding(1 / 256))
    kitti_bundle_views(folder / "training", 0, folder / "maps", "own", frames=1)


def a_list_of_others(folder: Path) -> None:
    seeds.OWN["maps"](folder / "data")
    layouts._bundle(folder / "data", folder / "data" / "z.pfm", (), None, None)  # type: ignore[arg-type]


def a_damaged_archive(folder: Path) -> None:
    try:
        read_arrays(write(folder / "a.npz", "not an archive"))
    finally:
        assert not (folder / "a.npz").exists()


def in_place_of_a_folder(folder: Path) -> Path:
    return write(folder / "a", "") / "b"


CALLS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a folder of anything for KITTI's": (lambda folder: kitti_bundle.open_bundle(folder, 0), "is not a KITTI stereo"),
    "a name without end": (lambda folder: recognised(folder / ("a" * 999)), "cannot be the name of a folder|not exist"),
    "a result without depth": (pngs_only, "files.depth lists no depth map; write the result with npy, pfm or png"),
    "a member that is no array": (a_short_member, "a.npz: depth has a damaged header; write it again"),
    "no archive": (lambda folder: npz.members(folder / "a.npz"), "a.npz does not exist; check the name"),
    "points that are words": (a_point_in_words, "the points of 'a.png' are not `X Y POINT3D_ID`"),
    "a matrix of another shape": (lambda folder: a_rig_of(folder, P1=(3, 4), P2=(3, 3)), r"rig.yml: P2 is \(3, 3\)"),
    "half a rig": (lambda folder: a_rig_of(folder, K1=(3, 3)), "rig.yml holds K1; give K1, D1"),
    "a rig on end": (lambda folder: above_each_other(), "cameras lie above each other; rotate the images"),
    "no left images": (lambda folder: a_pair_without_its_partner(folder, 0), "left holds no image; add .png or .jpg"),
    "no right image": (
        lambda folder: a_pair_without_its_partner(folder, 1),
        "0.png has no partner 0 in .*right",
    ),
    "maps of another size": (lambda folder: with_other_maps(), "a.dmap is 5 x 4, its new depth map is 6 x 4"),
    "disparities of another size": (a_map_of_another_size, r"000000_10.png is \(4, 6\), its image \(4, 5\); match at"),
    "a map that is not listed": (a_list_of_others, "bundle.json no longer lists .*z.pfm; run `cfusion scene` again"),
    "results of something else": (
        lambda folder: Findings.read(None, write(folder / "results.jsonl", "{}\n").parent),  # type: ignore[arg-type]
        "results.jsonl was not written by `cfusion reproduce`; run the experiment again",
    ),
    "stored maps that are damaged": (a_damaged_archive, "a.npz was damaged and is removed; run the same command again"),
    "a store in place of a file": (
        lambda folder: write_whole(in_place_of_a_folder(folder), lambda stream: None),
        "cannot write .*b: ",
    ),
    "a spec of pictures": (
        lambda folder: read_spec._data(JsonObject({"kind": "pictures"}, "a.toml: data"), {}),
        "a.toml: data.kind is 'pictures'; choose 'meshes', 'boxes' or 'kitti'",
    ),
    "a part on Sundays": (
        lambda folder: read_spec._part(JsonObject({"when": "sunday"}, "a.toml: part"), ()),
        "a.toml: part.when is 'sunday'; leave it out, or write 'full'",
    ),
    "parts of a method that has none": (lambda folder: work._of_parts(methods.get("auto")), "auto is not a SinglePass"),
    "weights of one raster alone": (
        lambda folder: begin._stated_weights(  # type: ignore[attr-defined]
            [SimpleNamespace(weights=1, sigma=None), SimpleNamespace(weights=None, sigma=None)], (), None
        ),
        "give weights for all rasters, or sigmas for all; they are given for some, or mixed",
    ),
    "a scratch folder in use": (
        lambda folder: Journal(write(folder / "work" / "photo.jpg", "").parent, "key"),
        "work is not the work folder of a mosaic; remove it, or pass another --scratch",
    ),
    "a view that was never fused": (lambda folder: require_record(folder), "holds no fused view; run the same command"),
    "a result without a camera": (
        lambda folder: frames._of_result(write(folder / "result.json", "{}").parent),
        "result.json has no camera; maps without one are shown by their page only",
    ),
    "a result without arrays": (lambda folder: frames._read(folder), "has no depth.npy; write the result with npy"),
    "a scene of no data": (
        lambda folder: scene_of(write(folder / FOLDER / MARK, "{}").parent.parent),
        "does not name the scene's data; run `cfusion scene` again",
    ),
    "a scene of scales in words": (
        lambda folder: scene_of(
            write(folder / FOLDER / MARK, '{"data": "d", "format": "bundle", "scales": ["x"]}').parent.parent
        ),
        "is damaged; run `cfusion scene` again",
    ),
    "a pipe in a folder": (lambda folder: files.read_bytes(in_place_of_a_folder(folder)), "cannot be read: Not a dir"),
    "a scene of other code": (
        lambda folder: open_job(SimpleNamespace(version="0.1")),  # type: ignore[arg-type]
        "the worker runs cfusion .*, the command 0.1; install the same code",
    ),
    "no workers": (lambda folder: Cluster(count=0), "give a number of workers .* or the address of a scheduler"),
    "a PNG of another size": (
        lambda folder: png_chunks.check(folder / "a.png", a_png(GREY, zlib.compress(bytes(44))), (5, 4)),
        "a.png is 5 x 4 pixels, its camera has 4 x 5",
    ),
    "a number too small to be one": (
        lambda folder: fuse_stack(Stack(np.ones((2, 3, 4))), "l1", lam=1e-40),
        "lam = 1e-40 does not fit: numbers lie between",
    ),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_what_cannot_be_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    call, says = CALLS[name]
    with pytest.raises(CFusionError, match=says) as caught:
        call(tmp_path)
    assert "\n" not in str(caught.value)


LONGEST: dict[str, tuple[Callable[[Path], object], int]] = {
    "the camera of POV-Ray": (lambda file: icl_nuim._povray(file, (480, 640)), 20),
    "a calibration": (middlebury.read_calibration, 20),
    "a table": (lambda file: next(read_lines(file)), 25),
    "JSON": (JsonObject.of_file, 27),
    "text": (read_text, 28),
    "any file": (files.read_bytes, 32),
}


@pytest.mark.parametrize("name", LONGEST)
def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, name: str) -> None:
    read, bits = LONGEST[name]
    file = tmp_path / "long"
    file.touch()
    os.truncate(file, 2**bits + 1)
    with pytest.raises(CFusionError, match=f"more than {2**bits};"):
        read(file)


def test_a_map_in_no_format_is_refused_before_a_pair_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stereo", "left.png", "right.png", "-o", str(tmp_path / "out"), "--write", "bmp"]) != 0
    assert "disparities cannot be written as 'bmp'; choose from" in capsys.readouterr().err
