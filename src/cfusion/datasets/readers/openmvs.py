"""OpenMVS .dmap: a header, the pose as R (world-to-camera) and centre C, then depth, normals, confidence, views.

Two variants: DR with float32 maps, and D2 with half floats (times 2^exponent) and 8-bit confidence (times a scale).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Matrix, Normals, WeightMap
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import (
    frames,
    lost,
    named_view,
    require_some,
    resized_pinhole,
    unknown_unless_positive,
    without_images,
)
from cfusion.errors import FileError, InputError, named_by
from cfusion.geometry import Pinhole, Pose, View
from cfusion.geometry.camera import intrinsics_of
from cfusion.io.atomic import filling
from cfusion.io.codecs.photo import read_photo
from cfusion.io.codecs.png import write_image
from cfusion.io.files import read_bytes, read_start, require_file
from cfusion.io.limits import MOST_PIXELS
from cfusion.io.paths import path_inside
from cfusion.io.text_tables import numbered

HAS_DEPTH, HAS_NORMAL, HAS_CONFIDENCE, HAS_VIEWS = 1, 2, 4, 8
HEADERS = {b"DR": "<2sBxIIIIff", b"D2": "<2sBbIIIIfff"}
LONGEST_HEADER = 1 << 18  # bytes: a name of 65535, and thousands of views
SIZES = {b"DR": (4, 12, 4, 4), b"D2": (2, 4, 1, 4)}  # bytes per pixel of depth, normal, confidence, views


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    images: bool = True
    confidence: bool = True


@dataclass(frozen=True, eq=False)
class DepthData:
    """The contents of a .dmap, as far as they are used."""

    image_name: str
    image_shape: tuple[int, int]  # (H, W) that K belongs to
    intrinsics: Matrix  # (3, 3)
    rotation: Matrix  # (3, 3), world-to-camera
    centre: Matrix  # (3,), of the camera, in the world
    depth: NDArray[np.float32]  # (H, W), 0 = unknown
    confidence: NDArray[np.float32] | None  # (H, W), may exceed 1
    view_ids: tuple[int, ...] = ()  # its own, then those of its neighbours, best first

    @property
    def pose(self) -> Pose | None:
        """world_from_camera: R transposed and C; None if not finite."""
        finite = np.isfinite(self.rotation).all() and np.isfinite(self.centre).all()
        return Pose(self.rotation.T, self.centre) if finite else None


def recognises(path: Path) -> bool:
    """A folder with .dmap files."""
    return any(path.glob("*.dmap"))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The depth maps of a folder, ordered by number."""
    chosen = options or Options()
    files = numbered(list(path.glob("*.dmap")))
    heads = {file: read_header(file) for file in files}
    kept = [file for file in files if _pose(file, heads[file]) is not None]
    require_some(len(kept), path, ".dmap with a pose")

    def load(number: int) -> View:
        data = read_dmap(kept[number])
        shape = (data.depth.shape[0], data.depth.shape[1])
        pose = _pose(kept[number], data)
        assert pose is not None
        with named_by(kept[number]):
            camera = resized_pinhole(intrinsics_of(data.intrinsics), data.image_shape, shape)
        photo = path_inside(path, data.image_name, str(kept[number])) if chosen.images and data.image_name else None
        return named_view(
            kept[number],
            unknown_unless_positive(data.depth),
            camera,
            pose,
            image=read_photo(photo, shape),
            confidence=_weights(data.confidence) if chosen.confidence else None,
            name=kept[number].stem,
        )

    sentence = (
        "OpenMVS: 0 = unknown, R world-to-camera and centre C turned into camera-to-world, K scaled to the depth map, "
        f"confidence as it stands; {frames(len(kept))}{lost(len(files) - len(kept))}"
        f"{without_images(path / name for file in kept if chosen.images and (name := heads[file].image_name))}"
    )
    return Dataset.of_files(kept, load, sentence, "model unit")


def read_header(file: Path) -> DepthData:
    """The header with empty maps; only the beginning of the file is read."""
    require_file(file)
    return _parsed(file, read_start(file, LONGEST_HEADER))[0]


def read_dmap(file: Path) -> DepthData:
    """The whole file."""
    data = read_bytes(file)
    head, shape, (kind, flags, exponent, scale), place = _parsed(file, data)
    pixels = shape[0] * shape[1]
    sizes = [
        size if flags & flag else 0
        for size, flag in zip(SIZES[kind], (HAS_DEPTH, HAS_NORMAL, HAS_CONFIDENCE, HAS_VIEWS), strict=True)
    ]
    if len(data) - place < pixels * sum(sizes):
        raise FileError(
            f"{file} is truncated: {shape[1]} x {shape[0]} pixels need {pixels * sum(sizes)} bytes, "
            f"it holds {len(data) - place}; copy it again"
        )

    def plane(kind_: str, start: int) -> NDArray[np.float32]:
        return np.frombuffer(data, kind_, pixels, start).reshape(shape).astype(np.float32)

    depth_at, confidence_at = place, place + pixels * (sizes[0] + sizes[1])
    depth = plane("<f4", depth_at) if kind == b"DR" else np.ldexp(plane("<f2", depth_at), exponent)
    confidence = None
    if flags & HAS_CONFIDENCE:
        confidence = (
            plane("<f4", confidence_at) if kind == b"DR" else plane("u1", confidence_at) * np.float32(scale / 255)
        )
    return DepthData(head.image_name, head.image_shape, head.intrinsics, head.rotation, head.centre, depth, confidence)


def write(views: Sequence[View], folder: str | PathLike[str]) -> None:
    """Write depth%04d.dmap (DR) and images/, in the format that OpenMVS reads."""
    with filling(Path(folder), ("depth*.dmap",)) as draft:
        (draft / "images").mkdir()
        for number, view in enumerate(views):
            name = f"images/{number:04d}.png" if view.image is not None else ""
            if view.image is not None:
                write_image(draft / name, view.image)
            (draft / f"depth{number:04d}.dmap").write_bytes(_bytes(view, number, len(views), name))


def with_maps(file: Path, data: bytes, depth: DepthMap, normal: Normals, confidence: WeightMap) -> bytes:
    """The bytes of a .dmap (DR) with new maps: name, views, camera and pose unchanged, normals if it had any."""
    head, shape, (_, flags, _, _), place = _parsed(file, data)
    if depth.shape != shape:
        raise InputError(f"{file} is {shape[1]} x {shape[0]}, its new depth map is {depth.shape[1]} x {depth.shape[0]}")
    known = depth[np.isfinite(depth)]
    near, far = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    size = (*head.image_shape[::-1], *shape[::-1])
    described = len(head.image_name.encode("utf-8", "surrogateescape")) + 2 + 4 * (1 + len(head.view_ids)) + 21 * 8
    kept = HAS_DEPTH | HAS_CONFIDENCE | (flags & HAS_NORMAL)
    maps = [np.nan_to_num(depth, nan=0.0), np.nan_to_num(normal, nan=0.0), confidence]
    planes = maps if flags & HAS_NORMAL else maps[::2]
    return b"".join(
        [
            struct.pack(HEADERS[b"DR"], b"DR", kept, *size, near, far),
            data[place - described : place],
            *(plane.astype("<f4").tobytes() for plane in planes),
        ]
    )


def _parsed(file: Path, data: bytes) -> tuple[DepthData, tuple[int, int], tuple[bytes, int, int, float], int]:
    """Header, shape of the maps, their encoding, and their offset."""
    kind = data[:2]
    if kind not in HEADERS:
        raise FileError(f"{file} is not a .dmap: it starts with {kind!r} instead of 'DR' or 'D2'")
    place = 0

    def take(layout: str) -> tuple[Any, ...]:
        nonlocal place
        size = struct.calcsize(layout)
        if place + size > len(data):
            raise FileError(f"{file} is truncated in its header; copy it again")
        place += size
        return struct.unpack_from(layout, data, place - size)

    exponent, scale = 0, 1.0
    if kind == b"DR":
        _, flags, image_width, image_height, width, height, _, _ = take(HEADERS[kind])
    else:
        _, flags, exponent, image_width, image_height, width, height, _, _, scale = take(HEADERS[kind])
    if not flags & HAS_DEPTH or not 0 < width * height <= MOST_PIXELS or 0 in (image_width, image_height):
        raise FileError(
            f"{file} claims {width} x {height} depths of a {image_width} x {image_height} image; copy it again"
        )
    name = take(f"<{take('<H')[0]}s")[0].decode("utf-8", "surrogateescape")
    count = take("<I")[0]
    if 4 * count > len(data):
        raise FileError(f"{file} claims {count} views; copy it again")
    view_ids = take(f"<{count}I")
    numbers = np.array(take("<21d"))
    if kind == b"D2" and not np.isfinite(scale):
        raise FileError(f"{file} scales its confidence by {scale}; copy it again")
    empty = np.empty((0, 0), np.float32)
    k, r, c = numbers[:9].reshape(3, 3), numbers[9:18].reshape(3, 3), numbers[18:]
    header = DepthData(name, (image_height, image_width), k, r, c, empty, None, view_ids)
    return header, (height, width), (kind, flags, exponent, scale), place


def _pose(file: Path, data: DepthData) -> Pose | None:
    with named_by(file), np.errstate(over="ignore", invalid="ignore"):  # absurd numbers are refused as not rigid
        return data.pose


def _weights(confidence: NDArray[np.float32] | None) -> WeightMap | None:
    """Weights clipped at 0; they may exceed 1, as some estimators store matching costs."""
    if confidence is None:
        return None
    return np.where(np.isfinite(confidence) & (confidence > 0), confidence, np.float32(0))


def _bytes(view: View, number: int, count: int, image_name: str) -> bytes:
    camera = view.camera
    assert isinstance(camera, Pinhole)  # `write_views` refuses others
    known = view.depth[np.isfinite(view.depth)]
    near, far = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    flags = HAS_DEPTH | (HAS_CONFIDENCE if view.confidence is not None else 0)
    size = camera.width, camera.height
    encoded = image_name.encode()
    neighbours = [number, *(index for index in range(count) if index != number)][:255]
    parts = [
        struct.pack(HEADERS[b"DR"], b"DR", flags, *size, *size, near, far),
        struct.pack("<H", len(encoded)) + encoded,
        struct.pack(f"<I{len(neighbours)}I", len(neighbours), *neighbours),
        np.concatenate([camera.matrix.ravel(), view.pose.rotation.T.ravel(), view.pose.translation])
        .astype("<f8")
        .tobytes(),
        np.nan_to_num(view.depth, nan=0.0).astype("<f4").tobytes(),
    ]
    if view.confidence is not None:
        parts.append(view.confidence.astype("<f4").tobytes())
    return b"".join(parts)
