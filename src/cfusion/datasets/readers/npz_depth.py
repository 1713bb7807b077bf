"""One .npz with depth, conf, extrinsics and intrinsics, as written by VGGT, Depth Anything 3 and others.

World-to-camera, OpenCV axes, integer pixel coordinates, arbitrary scale. Their confidence is unbounded (1 + exp), so it
is divided by its median: the median pixel has weight 1.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image, WeightMap, share_of
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.reader_tools import (
    frames,
    lost,
    named_view,
    pinhole,
    pose_or_lost,
    require_some,
    unknown_unless_positive,
)
from cfusion.errors import FileError
from cfusion.geometry import Pose, View
from cfusion.io.codecs.npz import Member, members

NAMES = {
    "depth": ("depth", "depths", "depth_map"),
    "confidence": ("conf", "depth_conf", "confidence", "depth_confidence"),
    "extrinsics": ("extrinsics", "extrinsic"),
    "intrinsics": ("intrinsics", "intrinsic"),
    "images": ("images", "image", "processed_images"),
}
NEEDED = ("depth", "extrinsics", "intrinsics")
SAMPLES = 1 << 20  # values of the confidence from which its median is taken


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    confidence: bool = True
    images: bool = True


def recognises(path: Path) -> bool:
    """An .npz with depth, extrinsics and intrinsics, or a folder with exactly one."""
    file = _file(path)
    try:
        return file is not None and all(_named(members(file), part) is not None for part in NEEDED)
    except FileError:
        return path.suffix == ".npz"  # reading it then reports the error


def read(path: Path, options: Options | None = None) -> Dataset:
    """The frames of the archive."""
    chosen = options or Options()
    file = _file(path)
    if file is None:
        raise FileError(f"{path} is not an .npz and does not hold exactly one; give the file")
    found = {part: _named(members(file), part) for part in NAMES}
    depths, extrinsics, intrinsics = (_needed(file, found[part], part) for part in NEEDED)
    count, height, width = _shape(file, depths)
    poses = _poses(file, extrinsics, count)
    ks = _stacked(file, intrinsics, (count, 3, 3))
    kept = [number for number, pose in enumerate(poses) if pose is not None]
    require_some(len(kept), file, "frame with a pose")
    trusted = found["confidence"] if chosen.confidence else None
    if trusted is not None:
        trusted = _needed(file, trusted, "confidence")
    if trusted is not None and _shape(file, trusted) != (count, height, width):
        raise FileError(f"{file}: {trusted.name} is {trusted.shape}, depth {depths.shape}; they must be equal")
    photos = found["images"] if chosen.images else None

    @lru_cache(1)
    def typical() -> float:
        return 1.0 if trusted is None else _median(trusted)

    def load(index: int) -> View:
        number = kept[index]
        pose = poses[number]
        assert pose is not None
        depth = unknown_unless_positive(_frame(depths, number))
        confidence = None if trusted is None else _weights(_frame(trusted, number), typical())
        where = f"{file}: frame {number}"
        camera = pinhole(ks[number], (height, width), where)
        image = None if photos is None else _image(photos, number, (height, width))
        return named_view(where, depth, camera, pose, image=image, confidence=confidence, name=f"{number:04d}")

    sentence = (
        f"npz with {depths.name}: world-to-camera inverted, arbitrary scale"
        f"{', confidence divided by its median' if trusted is not None else ''}; "
        f"{frames(len(kept))}{lost(count - len(kept))}"
    )
    return Dataset(LazyViews.reading(load, len(kept)), unit="model unit", sentence=sentence)


def _file(path: Path) -> Path | None:
    if path.suffix == ".npz":
        return path
    files = sorted(path.glob("*.npz")) if path.is_dir() else []
    return files[0] if len(files) == 1 else None


def _named(there: dict[str, Member], part: str) -> Member | None:
    return next((there[name] for name in NAMES[part] if name in there), None)


def _needed(file: Path, member: Member | None, part: str) -> Member:
    if member is None:
        raise FileError(f"{file} has no {part}; add an array called {' or '.join(NAMES[part])}")
    if member.dtype.kind not in "fiu":
        raise FileError(f"{file}: {member.name} holds {member.dtype}, not real numbers; save it as float32")
    return member


def _shape(file: Path, member: Member) -> tuple[int, int, int]:
    """(N, H, W), without a leading batch axis and a trailing channel axis of length one."""
    shape = member.shape
    if len(shape) == 5 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 4:
        shape = shape[:-1] if shape[-1] == 1 else shape[1:] if shape[0] == 1 else shape
    if len(shape) != 3 or min(shape) < 1:
        raise FileError(f"{file}: {member.name} is {member.shape}, expected (N, H, W)")
    return shape[0], shape[1], shape[2]


def _frame(member: Member, number: int) -> NDArray[np.float32]:
    count, height, width = _shape(member.file, member)
    with np.errstate(over="ignore"):
        one = member.values.reshape(count, height, width)[number].astype(np.float32)
    return np.asarray(one)


def _stacked(file: Path, member: Member, shape: tuple[int, int, int]) -> NDArray[np.float64]:
    if member.values.size != np.prod(shape) or member.shape[-2:] != shape[-2:]:
        raise FileError(f"{file}: {member.name} is {member.shape}, expected {shape}")
    return member.values.astype(np.float64).reshape(shape)


def _poses(file: Path, extrinsics: Member, count: int) -> list[Pose | None]:
    rows = extrinsics.shape[-2] if len(extrinsics.shape) >= 2 else 0
    matrices = _stacked(file, extrinsics, (count, 4 if rows == 4 else 3, 4))
    poses = [pose_or_lost(matrix, f"{file}: extrinsics of frame {number}") for number, matrix in enumerate(matrices)]
    return [None if pose is None else pose.inverse() for pose in poses]


def _median(member: Member) -> float:
    """The median of a regular sample, which is precise enough and cheap for long sequences."""
    flat = member.values.reshape(-1)
    sample = flat[:: share_of(flat.size, SAMPLES)].astype(np.float64)
    useful = sample[np.isfinite(sample) & (sample > 0)]
    return float(np.median(useful)) if useful.size else 1.0


def _weights(confidence: NDArray[np.float32], typical: float) -> WeightMap:
    scaled = confidence / np.float32(typical)
    return np.where(np.isfinite(scaled) & (scaled > 0), scaled, np.float32(0))


def _image(member: Member, number: int, shape: tuple[int, int]) -> Image | None:
    """A frame's image, (3, H, W) or (H, W, 3), floats in [0, 1] or bytes; None if it has another size."""
    pixels = shape[0] * shape[1]
    if member.dtype.kind not in "fiu" or member.values.size % (3 * pixels) != 0:
        return None
    planes = member.values.reshape(-1, *member.shape[-3:])
    if number >= len(planes) or planes[number].size != 3 * pixels:
        return None
    one = planes[number].astype(np.float32)
    one = np.moveaxis(one, 0, -1) if one.shape == (3, *shape) else one
    if one.shape != (*shape, 3):
        return None
    image: Image = np.clip(np.nan_to_num(one / (255 if member.dtype.kind in "iu" else 1)), 0, 1).astype(np.float32)
    return image
