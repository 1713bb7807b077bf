"""COLMAP's sparse model, text or binary: cameras, and images with their world-to-camera poses (qw first) and points."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError, named_by
from cfusion.geometry import Pose
from cfusion.geometry.quaternion import rotation_of
from cfusion.io.files import read_bytes
from cfusion.io.limits import MOST_PIXELS
from cfusion.io.text_tables import number as decimal
from cfusion.io.text_tables import read_text, whole

MODELS = (  # name and number of parameters, by COLMAP's model number
    *(("SIMPLE_PINHOLE", 3), ("PINHOLE", 4), ("SIMPLE_RADIAL", 4), ("RADIAL", 5), ("OPENCV", 8)),
    *(("OPENCV_FISHEYE", 8), ("FULL_OPENCV", 12), ("FOV", 5), ("SIMPLE_RADIAL_FISHEYE", 4)),
    *(("RADIAL_FISHEYE", 5), ("THIN_PRISM_FISHEYE", 12), ("RAD_TAN_THIN_PRISM_FISHEYE", 16)),
)
COUNTS = dict(MODELS)
POINT = np.dtype([("x", "<f8"), ("y", "<f8"), ("id", "<i8")])  # of an image
Ids = NDArray[np.int64]
ONE_FOCAL = {
    name for name, _ in MODELS if name.startswith(("SIMPLE", "RADIAL"))
}  # f, cx, cy; the others fx, fy, cx, cy


@dataclass(frozen=True)
class ModelCamera:
    """A camera of the model, with the centre of the first pixel at (0.5, 0.5)."""

    model: str
    width: int
    height: int
    parameters: tuple[float, ...]

    @property
    def intrinsics(self) -> tuple[float, float, float, float]:
        """fx, fy, cx, cy as stored."""
        if self.model in ONE_FOCAL:
            f, cx, cy = self.parameters[:3]
            return f, f, cx, cy
        fx, fy, cx, cy = self.parameters[:4]
        return fx, fy, cx, cy

    @property
    def distortion(self) -> tuple[float, ...]:
        """The parameters of the lens."""
        return self.parameters[3 if self.model in ONE_FOCAL else 4 :]

    @property
    def brown_conrady(self) -> tuple[float, ...] | None:
        """k1, k2, p1, p2, k3; None if the lens has another model of distortion."""
        k = self.distortion
        match self.model:
            case "SIMPLE_RADIAL" | "RADIAL":
                return (*(*k, 0.0)[:2], 0.0, 0.0, 0.0)
            case "OPENCV":
                return (*k, 0.0)
            case "FULL_OPENCV" if not any(k[5:]):
                return k[:5]
        return None if any(k) else (0.0,) * 5


@dataclass(frozen=True, eq=False)
class ModelImage:
    """An image of the model."""

    name: str
    camera: int
    camera_from_world: Pose


@dataclass(frozen=True, eq=False)
class Model:
    """A sparse model without its points."""

    cameras: Mapping[int, ModelCamera]
    images: tuple[ModelImage, ...]


def has_model(folder: Path) -> bool:
    """Whether a folder holds cameras and images, as .bin or .txt."""
    return any(all((folder / f"{part}.{end}").is_file() for part in ("cameras", "images")) for end in ("bin", "txt"))


def read_model(folder: Path) -> Model:
    """A model from .bin files if they exist, else from .txt."""
    binary = (folder / "cameras.bin").is_file()
    end = "bin" if binary else "txt"
    cameras_file, images_file = folder / f"cameras.{end}", folder / f"images.{end}"
    cameras = _binary_cameras(cameras_file) if binary else _text_cameras(cameras_file)
    images = tuple(image for image, _ in (_binary_images if binary else _text_images)(images_file))
    for number, camera in cameras.items():
        if not (camera.width > 0 and camera.height > 0 and np.isfinite(camera.parameters).all()):
            raise FileError(f"{cameras_file}: camera {number} has an empty size or parameters that are not finite")
        if camera.width * camera.height > MOST_PIXELS:
            raise FileError(f"{cameras_file}: camera {number} claims {camera.width} x {camera.height} pixels")
    for image in images:
        if image.camera not in cameras:
            raise FileError(f"{images_file}: image {image.name!r} has camera {image.camera}, which is not in the model")
    return Model(cameras, images)


def read_observations(folder: Path) -> dict[str, Ids]:
    """Ids of the sparse points that each image observes, by its name; features without a point (-1) are omitted."""
    file = folder / "images.bin"
    if file.is_file():
        found = {image.name: ids for image, ids in _binary_images(file)}
    else:
        file = folder / "images.txt"
        found = {
            image.name: _ids(body, f"{file}: the points of {image.name[:40]!r}") for image, body in _text_images(file)
        }
    return {name: ids[ids >= 0] for name, ids in found.items()}


def _ids(points: str, where: str) -> Ids:
    try:
        return np.array(points.split()[2::3], dtype=np.int64)
    except ValueError:
        raise FileError(f"{where} are not `X Y POINT3D_ID`") from None


class Stream:
    """Reads little-endian values in sequence; raises if the file ends early."""

    def __init__(self, file: Path) -> None:
        self.file, self.data, self.place = file, read_bytes(file), 0

    def take(self, layout: str) -> tuple[Any, ...]:
        """The values of a layout of `struct`."""
        size = struct.calcsize("<" + layout)
        self.skip(size)
        return struct.unpack_from("<" + layout, self.data, self.place - size)

    def skip(self, size: int) -> None:
        """Pass over some bytes."""
        if self.place + size > len(self.data):
            raise FileError(f"{self.file} is truncated: {len(self.data)} bytes; copy it again")
        self.place += size

    def text(self) -> str:
        """A name, which a zero ends."""
        end = self.data.find(b"\0", self.place)
        if end < 0:
            raise FileError(f"{self.file} is truncated inside a name; copy it again")
        found = self.data[self.place : end]
        self.place = end + 1
        return found.decode("utf-8", "surrogateescape")


def _binary_cameras(file: Path) -> dict[int, ModelCamera]:
    stream = Stream(file)
    cameras = {}
    for _ in range(stream.take("Q")[0]):
        number, model, width, height = stream.take("iiQQ")
        if not 0 <= model < len(MODELS):
            raise FileError(f"{file}: camera {number} has model number {model}; known are 0 to {len(MODELS) - 1}")
        name, count = MODELS[model]
        cameras[number] = ModelCamera(name, width, height, stream.take(f"{count}d"))
    return cameras


def _binary_images(file: Path) -> Iterator[tuple[ModelImage, Ids]]:
    """Every image, and the ids of its points."""
    stream = Stream(file)
    for _ in range(stream.take("Q")[0]):
        _, qw, qx, qy, qz, tx, ty, tz, camera = stream.take("i7di")
        name, count = stream.text(), stream.take("Q")[0]
        stream.skip(count * POINT.itemsize)
        ids = np.frombuffer(stream.data, POINT, count, stream.place - count * POINT.itemsize)["id"]
        yield _image(name, camera, (qw, qx, qy, qz), (tx, ty, tz), f"{file}: image {name!r}"), ids


def _text_cameras(file: Path) -> dict[int, ModelCamera]:
    cameras = {}
    for where, line in _data_lines(file):
        words = line.split()
        try:
            number, model, width, height = whole(words[0]), words[1], whole(words[2]), whole(words[3])
            parameters = tuple(decimal(word) for word in words[4:])
        except (ValueError, IndexError):
            raise FileError(f"{where} is not `CAMERA_ID MODEL WIDTH HEIGHT PARAMS...`") from None
        if COUNTS.get(model) != len(parameters):
            raise FileError(f"{where}: {model[:40]!r} with {len(parameters)} parameters is not a known model")
        cameras[number] = ModelCamera(model, width, height, parameters)
    return cameras


def _text_images(file: Path) -> Iterator[tuple[ModelImage, str]]:
    """Every image, and its points: odd lines, and even ones, which may be empty."""
    lines = _data_lines(file, keep_empty=True)
    for (where, line), (_, points) in zip_longest(lines[::2], lines[1::2], fillvalue=("", "")):
        words = line.split(maxsplit=9)
        try:
            *quaternion, tx, ty, tz = (decimal(word) for word in words[1:8])
            camera, name = whole(words[8]), words[9].rstrip()
        except (ValueError, IndexError):
            raise FileError(f"{where} is not `IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME`") from None
        yield _image(name, camera, tuple(quaternion), (tx, ty, tz), where), points


def _data_lines(file: Path, *, keep_empty: bool = False) -> list[tuple[str, str]]:
    lines = [(f"{file}, line {index + 1}", line) for index, line in enumerate(read_text(file).split("\n"))]
    found = [each for each in lines if not each[1].startswith("#") and (keep_empty or each[1].strip())]
    while found and not found[-1][1].strip():  # blank lines at the end of the file, not images without points
        found.pop()
    return found


def _image(
    name: str, camera: int, quaternion: tuple[float, ...], place: tuple[float, float, float], where: str
) -> ModelImage:
    qw, qx, qy, qz = quaternion
    with named_by(where):
        return ModelImage(name, camera, Pose(rotation_of(qw, qx, qy, qz), np.array(place)))
