"""One small, sound data set of every format, to be damaged."""

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cfusion import Pinhole, Pose, View
from cfusion.datasets import WRITERS, write_result, write_views
from cfusion.io.codecs.pfm import write_pfm
from cfusion.io.codecs.png import Encoding, write_image, write_png
from cfusion.io.codecs.raster_library import rasterio

SHAPE = (4, 5)
DEPTH = np.linspace(1, 2, 20, dtype=np.float32).reshape(SHAPE)
CAMERA = Pinhole(10.0, 10.0, 2.0, 1.5, 5, 4)


def some_views() -> list[View]:
    """Two views with images and confidences."""
    image = np.full((*SHAPE, 3), 0.5, np.float32)
    places = (np.zeros(3), np.array([0.1, 0.0, 0.0]))
    return [View(DEPTH, CAMERA, Pose(np.eye(3), place), image, np.ones(SHAPE, np.float32)) for place in places]


def _depth(path: Path, scale: float = 0.001) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_png(path, DEPTH, Encoding(scale))


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _rows(matrix: np.ndarray) -> str:
    return "\n".join(" ".join(f"{value:g}" for value in row) for row in matrix) + "\n"


def seven_scenes(folder: Path) -> None:
    for number in range(2):
        _depth(folder / f"frame-{number:06d}.depth.png")
        _text(folder / f"frame-{number:06d}.pose.txt", _rows(np.eye(4)))


def scannet(folder: Path) -> None:
    for number in range(2):
        _depth(folder / "depth" / f"{number}.png")
        _text(folder / "pose" / f"{number}.txt", _rows(np.eye(4)))
    _text(folder / "intrinsic" / "intrinsic_depth.txt", _rows(np.diag([10.0, 10, 1, 1])))


def replica(folder: Path) -> None:
    for number in range(2):
        _depth(folder / "results" / f"depth{number:06d}.png")
    _text(folder / "traj.txt", 2 * (" ".join(f"{value:g}" for value in np.eye(4).ravel()) + "\n"))


def icl_nuim(folder: Path) -> None:
    for number in (1, 2):
        _depth(folder / "depth" / f"{number}.png", 1 / 5000)
    _text(folder / "a.gt.freiburg", "1 0 0 0 0 0 0 1\n2 0.1 0 0 0 0 0 1\n")


def kitti(folder: Path) -> None:
    for camera in ("image_0", "image_1"):
        (folder / camera).mkdir(parents=True)
        write_image(folder / camera / "000000_10.png", np.full(SHAPE, 0.5, np.float32))
    _depth(folder / "disp_occ" / "000000_10.png", 1 / 256)
    lines = [f"P{n}: 10 0 2 {-5 * n} 0 10 1.5 0 0 0 1 0" for n in range(2)]
    _text(folder / "calib" / "000000.txt", "\n".join(lines) + "\n")


def middlebury(folder: Path) -> None:
    folder.mkdir(parents=True)
    k = "[10 0 2; 0 10 1.5; 0 0 1]"
    _text(folder / "calib.txt", f"cam0={k}\ncam1={k}\ndoffs=0\nbaseline=100\nwidth=5\nheight=4\nndisp=10\n")
    write_pfm(folder / "disp0.pfm", DEPTH)


def npz(folder: Path) -> None:
    folder.mkdir(parents=True)
    parts = {
        "depth": DEPTH[None],
        "conf": DEPTH[None],
        "extrinsics": np.eye(4)[None, :3],
        "intrinsics": np.eye(3)[None],
    }
    np.savez_compressed(folder / "a.npz", **parts)


def geotiff(folder: Path) -> None:
    folder.mkdir(parents=True)
    transform = rasterio().Affine(2.0, 0.0, 0.0, 0.0, -2.0, 0.0)
    profile = {"driver": "GTiff", "width": 5, "height": 4, "count": 1, "dtype": "float32", "compress": "deflate"}
    for name in ("a.tif", "b.tif"):
        with rasterio().open(folder / name, "w", transform=transform, nodata=float("nan"), **profile) as file:
            file.write(DEPTH.astype(np.float32), 1)


def eth3d(folder: Path) -> None:
    model = folder / "dslr_calibration_jpg"
    _text(model / "cameras.txt", "0 PINHOLE 5 4 10 10 2.5 2\n")
    _text(model / "images.txt", "0 1 0 0 0 0 0 0 0 dslr_images/A.JPG\n\n")
    (folder / "ground_truth_depth").mkdir()
    (folder / "ground_truth_depth" / "A.JPG").write_bytes(DEPTH.astype("<f4").tobytes())


def colmap_binary(folder: Path) -> None:
    """The same workspace with its model in bytes."""
    write_views(some_views(), folder, "colmap")
    model = folder / "sparse"
    for file in model.glob("*.txt"):
        file.unlink()
    camera = struct.pack("<IiQQ4d", 1, 1, CAMERA.width, CAMERA.height, CAMERA.fx, CAMERA.fy, 2.5, 2.0)
    (model / "cameras.bin").write_bytes(struct.pack("<Q", 1) + camera)
    images = b""
    for number in range(2):
        images += struct.pack("<I7dI", number + 1, 1, 0, 0, 0, -0.1 * number, 0, 0, 1)
        images += f"{number:06d}.png".encode() + b"\0" + struct.pack("<Q2dq", 1, 1.0, 1.0, 1)
    (model / "images.bin").write_bytes(struct.pack("<Q", 2) + images)
    point = struct.pack("<Q3d3BdQ4I", 1, 0, 0, 1, 9, 9, 9, 0.5, 2, 1, 0, 2, 0)
    (model / "points3D.bin").write_bytes(struct.pack("<Q", 1) + point)


def matlab(folder: Path) -> None:
    """A localisation, laid down byte by byte."""

    def element(kind: int, body: bytes) -> bytes:
        return struct.pack("<II", kind, len(body)) + body + bytes(-len(body) % 8)

    def array(kind: int, shape: tuple[int, ...], name: str, *parts: bytes) -> bytes:
        sizes = element(5, struct.pack(f"<{len(shape)}i", *shape))
        head = element(6, struct.pack("<II", kind, 0)) + sizes + element(1, name.encode())
        return element(14, head + b"".join(parts))

    matrix = array(6, (4, 4), "", element(9, np.eye(4).tobytes()))
    cells = array(1, (1, 2), "", matrix, matrix)
    first = array(6, (1, 1), "", element(9, struct.pack("<d", 9.0)))
    names = b"".join(name.ljust(32, b"\0") for name in (b"first_frame", b"localization"))
    fields = struct.pack("<HHI", 5, 4, 32) + element(1, names)
    body = array(2, (1, 1), "bundle_data", fields, first, cells)
    folder.mkdir(parents=True)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    packed = zlib.compress(body)
    (folder / "a.mat").write_bytes(header + body)
    (folder / "b.mat").write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)


def maps(folder: Path) -> None:
    """Single maps of every kind, as a bundle."""
    from cfusion.io.codecs.exr import require_openexr, write_exr

    folder.mkdir(parents=True)
    write_pfm(folder / "a.pfm", DEPTH)
    write_exr(folder / "b.exr", DEPTH, DEPTH)
    library = require_openexr()
    header = {"compression": library.PIZ_COMPRESSION, "type": library.scanlineimage}
    library.File(header, {"Z": DEPTH, "R": DEPTH.astype(np.float16)}).write(str(folder / "e.exr"))
    _depth(folder / "c.png")
    stream = io.BytesIO()
    np.save(stream, DEPTH)
    (folder / "d.npy").write_bytes(stream.getvalue())
    camera = {"type": "pinhole", "fx": 10, "fy": 10, "cx": 2, "cy": 1.5, "width": 5, "height": 4}
    views = [
        {"depth": name, "camera": camera, "pose": np.eye(4).tolist()} | ({"scale": 0.001} if name == "c.png" else {})
        for name in ("a.pfm", "b.exr", "c.png", "d.npy", "e.exr")
    ]
    _text(folder / "bundle.json", json.dumps({"format": "cfusion-bundle", "version": 1, "views": views}))


def kitti_odometry(folder: Path) -> None:
    """A sequence with maps of disparity, and its poses beside."""
    sequence = folder / "sequences" / "00"
    for number in range(2):
        _depth(sequence / "disparity" / f"{number:06d}.png", 1 / 256)
    (sequence / "image_0").mkdir()
    write_image(sequence / "image_0" / "000000.png", np.full(SHAPE, 0.5, np.float32))
    _text(sequence / "calib.txt", "".join(f"P{n}: 10 0 2 {-5 * n} 0 10 1.5 0 0 0 1 0\n" for n in range(4)))
    _text(sequence / "times.txt", "0\n0.1\n")
    _text(folder / "poses" / "00.txt", 2 * "1 0 0 0 0 1 0 0 0 0 1 0\n")


def calibrations(folder: Path) -> None:
    """A rig in every spelling."""
    k = "[10 0 2; 0 10 1.5; 0 0 1]"
    _text(folder / "middlebury" / "calib.txt", f"cam0={k}\ncam1={k}\ndoffs=0\nbaseline=100\nwidth=5\nheight=4\n")
    _text(folder / "kitti.txt", "P0: 10 0 2 0 0 10 1.5 0 0 0 1 0\nP1: 10 0 2 -5 0 10 1.5 0 0 0 1 0\n")
    parts = {"K1": np.diag([10.0, 10, 1]), "K2": np.diag([10.0, 10, 1]), "R": np.eye(3)}
    parts |= {"D1": np.zeros((1, 5)), "D2": np.zeros((1, 5)), "T": np.array([[-0.1], [0], [0]])}
    lines = ["%YAML:1.0", "---"]
    for name, matrix in parts.items():
        values = ", ".join(f"{value:g}" for value in matrix.ravel())
        lines += [f"{name}: !!opencv-matrix", f"   rows: {matrix.shape[0]}", f"   cols: {matrix.shape[1]}", "   dt: d"]
        lines += [f"   data: [ {values} ]"]
    _text(folder / "rig.yml", "\n".join(lines) + "\n")


def photos(folder: Path) -> None:
    """Photographs beside depth: JPEG in colour, in another size than the maps."""
    from PIL import Image

    for number in range(2):
        _depth(folder / f"frame-{number:06d}.depth.png")
        _text(folder / f"frame-{number:06d}.pose.txt", _rows(np.eye(4)))
        levels = np.full((8, 10, 3), 90 + number, np.uint8)
        Image.fromarray(levels).save(folder / f"frame-{number:06d}.color.png")
    Image.fromarray(levels).save(folder / "frame-000001.color.jpg")


def a_result(folder: Path) -> None:
    from cfusion import fuse

    write_result(fuse(some_views(), "median", backend="numpy"), folder)


OWN: dict[str, Callable[[Path], None]] = {
    "7-scenes": seven_scenes,
    "scannet": scannet,
    "replica": replica,
    "icl-nuim": icl_nuim,
    "kitti": kitti,
    "middlebury": middlebury,
    "npz": npz,
    "geotiff": geotiff,
    "eth3d": eth3d,
    "matlab": matlab,
    "maps": maps,
    "colmap-binary": colmap_binary,
    "kitti-odometry": kitti_odometry,
    "calibrations": calibrations,
    "photos": photos,
    "result": a_result,
}


def make_seeds(folder: Path) -> dict[str, Path]:
    """A data set of every kind below a folder, by name."""
    found = {}
    for name in WRITERS:
        write_views(some_views(), folder / name, name)
        found[name] = folder / name
    for name, make in OWN.items():
        make(folder / name)
        found[name] = folder / name
    return found
