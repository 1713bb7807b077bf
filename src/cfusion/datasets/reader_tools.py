"""What readers of posed depth maps share: poses that may be lost, and views named in their errors."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image, Matrix, WeightMap
from cfusion.errors import FileError, InputError
from cfusion.geometry import BrownConrady, Camera, Pinhole, Pose, View
from cfusion.io.text_tables import read_matrix


def pose_or_lost(matrix: Matrix, where: str) -> Pose | None:
    """A pose, or None for a frame whose tracking was lost (entries that are not finite)."""
    if not np.isfinite(matrix).all():
        return None
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond reason are refused as not rigid
            return Pose.from_matrix(matrix)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from None


def read_pose(file: Path) -> Pose | None:
    """The pose that a file holds as a 4 x 4 matrix, or None for a frame whose tracking was lost."""
    return pose_or_lost(read_matrix(file, (4, 4)), str(file))


def lost(count: int) -> str:
    """The end of a reader's sentence on frames without a pose."""
    return f"; {count} lost frame{'s' if count != 1 else ''} skipped" if count else ""


def left_out(count: int, why: str) -> str:
    """The end of a reader's sentence on frames that are not read: `without a depth map`."""
    return f"; {frames(count)} {why} left out" if count else ""


def without_images(photos: Iterable[Path | None]) -> str:
    """The end of a reader's sentence on images that the data set names and does not have."""
    missing = sum(1 for photo in photos if photo is not None and not photo.is_file())
    return f"; {missing} image{'s' if missing != 1 else ''} named but not there" if missing else ""


def frames(count: int) -> str:
    """A number of frames, in words."""
    return f"{count} frame{'s' if count != 1 else ''}"


def require_some(found: int, place: Path, what: str) -> None:
    """Refuse a data set without a single view."""
    if found == 0:
        raise FileError(f"{place} holds no {what}; check the folder")


def pinhole(intrinsics: Matrix | tuple[float, ...], shape: tuple[int, int], where: str | Path | None = None) -> Pinhole:
    """The camera of a map (H, W), from a 3x3 (or larger) K or from fx, fy, cx, cy; errors say where that stands."""
    if isinstance(intrinsics, tuple):
        fx, fy, cx, cy = intrinsics
    else:
        fx, fy, cx, cy = (float(intrinsics[i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    try:
        return Pinhole(fx, fy, cx, cy, width=shape[1], height=shape[0])
    except InputError as error:
        raise type(error)(str(error) if where is None else f"{where}: {error}") from None


def resized_pinhole(intrinsics: tuple[float, ...], image_shape: tuple[int, int], shape: tuple[int, int]) -> Pinhole:
    """The camera of a map (H, W) that covers the same view as an image of another size with known intrinsics.

    The image's corner (-0.5, -0.5) stays where it is.
    """
    fx, fy, cx, cy = intrinsics
    down, across = shape[0] / image_shape[0], shape[1] / image_shape[1]
    centre = (cx + 0.5) * across - 0.5, (cy + 0.5) * down - 0.5
    return Pinhole(fx * across, fy * down, *centre, width=shape[1], height=shape[0])


def bent_by(camera: Pinhole, distortion: Sequence[float]) -> Pinhole:
    """The same camera behind a lens (k1, k2, p1, p2, k3); itself if that bends nothing."""
    if not any(distortion):
        return camera
    straight = (camera.fx, camera.fy, camera.cx, camera.cy, camera.width, camera.height)
    return BrownConrady(*straight, *distortion)


def unknown_unless_positive(depth: NDArray[np.floating]) -> NDArray[np.float32]:
    """Depth with NaN for what formats use to say unknown: zero, negative, infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = depth.astype(np.float32)
    return np.where(np.isfinite(narrow) & (narrow > 0), narrow, np.float32(np.nan))


def named_view(
    where: str | Path,
    depth: NDArray[np.float32],
    camera: Camera,
    pose: Pose,
    *,
    image: Image | None = None,
    confidence: WeightMap | None = None,
    name: str = "",
) -> View:
    """A view, whose errors say which file it came from."""
    try:
        return View(depth, camera, pose, image, confidence, name)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from None
