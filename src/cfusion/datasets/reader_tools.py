"""Tools shared by readers of posed depth maps: poses that may be lost, cameras, and errors that name their file."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image, Matrix, WeightMap
from cfusion.errors import FileError, named_by
from cfusion.geometry import BrownConrady, Camera, Pinhole, Pose, View
from cfusion.geometry.camera import intrinsics_of
from cfusion.io.text_tables import read_matrix


def pose_or_lost(matrix: Matrix, where: str) -> Pose | None:
    """A pose; None for a frame whose tracking was lost (entries that are not finite)."""
    if not np.isfinite(matrix).all():
        return None
    with named_by(where), np.errstate(over="ignore", invalid="ignore"):  # absurd numbers are refused as not rigid
        return Pose.from_matrix(matrix)


def read_pose(file: Path) -> Pose | None:
    """The pose in a file with a 4 x 4 matrix; None for a frame whose tracking was lost."""
    return pose_or_lost(read_matrix(file, (4, 4)), str(file))


def lost(count: int) -> str:
    """The end of a reader's sentence: frames without a pose."""
    return f"; {count} lost frame{'s' if count != 1 else ''} skipped" if count else ""


def left_out(count: int, why: str) -> str:
    """The end of a reader's sentence: frames that are not read, for example `without a depth map`."""
    return f"; {frames(count)} {why} left out" if count else ""


def without_images(photos: Iterable[Path | None]) -> str:
    """The end of a reader's sentence: images that the data set names but does not contain."""
    missing = sum(1 for photo in photos if photo is not None and not photo.is_file())
    return f"; {missing} image{'s' if missing != 1 else ''} named but missing" if missing else ""


def frames(count: int) -> str:
    """A number of frames, in words."""
    return f"{count} frame{'s' if count != 1 else ''}"


def require_some(found: int, place: Path, what: str) -> None:
    """Refuse a data set without any view."""
    if found == 0:
        raise FileError(f"{place} holds no {what}; check the folder")


def pinhole(intrinsics: Matrix | tuple[float, ...], shape: tuple[int, int], where: str | Path) -> Pinhole:
    """The camera of a map (H, W) from K (3 x 3 or larger) or fx, fy, cx, cy; errors begin with `where`."""
    fx, fy, cx, cy = intrinsics if isinstance(intrinsics, tuple) else intrinsics_of(intrinsics)
    with named_by(where):
        return Pinhole(fx, fy, cx, cy, width=shape[1], height=shape[0])


def resized_pinhole(intrinsics: tuple[float, ...], image_shape: tuple[int, int], shape: tuple[int, int]) -> Pinhole:
    """The camera of a map (H, W) with the field of view of an image of another size and known intrinsics.

    The image's corner (-0.5, -0.5) is mapped to itself.
    """
    fx, fy, cx, cy = intrinsics
    down, across = shape[0] / image_shape[0], shape[1] / image_shape[1]
    centre = (cx + 0.5) * across - 0.5, (cy + 0.5) * down - 0.5
    return Pinhole(fx * across, fy * down, *centre, width=shape[1], height=shape[0])


def bent_by(camera: Pinhole, distortion: Sequence[float]) -> Pinhole:
    """The same camera with a lens (k1, k2, p1, p2, k3); unchanged if all are zero."""
    if not any(distortion):
        return camera
    straight = (camera.fx, camera.fy, camera.cx, camera.cy, camera.width, camera.height)
    return BrownConrady(*straight, *distortion)


def unknown_unless_positive(depth: NDArray[np.floating]) -> NDArray[np.float32]:
    """Depth with NaN for values by which formats mean unknown: zero, negative, infinite."""
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
    name: str,
) -> View:
    """A view whose errors begin with the file it came from."""
    with named_by(where):
        return View(depth, camera, pose, image, confidence, name)
