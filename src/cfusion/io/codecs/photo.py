"""Photographs of depth maps: decoded completely or refused, and resampled to the depth map's pixels."""

import io
from pathlib import Path

import numpy as np

from cfusion.arrays import Image
from cfusion.geometry import Pinhole
from cfusion.io.codecs.png import decoding, pillow_image, read_image
from cfusion.io.files import read_bytes, require_file
from cfusion.io.limits import require_pixels

SUFFIXES = (".png", ".jpg", ".jpeg", ".JPG", ".PNG", ".JPEG")


def read_photo(path: Path | None, shape: tuple[int, int]) -> Image | None:
    """An image in [0, 1], resized to (H, W) if necessary; None if there is no file."""
    if path is None or not path.is_file():
        return None
    image = read_image(path) if path.suffix.lower() == ".png" else _read_jpeg(path)
    return resized(image, shape)


def resized(image: Image, shape: tuple[int, int]) -> Image:
    """The image averaged (or interpolated) onto H x W pixels."""
    if image.shape[:2] == shape:
        return image
    module = pillow_image()
    kind = module.Resampling.BOX if shape[0] < image.shape[0] else module.Resampling.BILINEAR
    planes = image[..., None] if image.ndim == 2 else image
    levels = [
        np.asarray(module.fromarray(np.ascontiguousarray(planes[..., channel])).resize(shape[::-1], kind))
        for channel in range(planes.shape[-1])
    ]
    stacked: Image = np.clip(np.stack(levels, axis=-1), 0, 1).astype(np.float32)
    return stacked[..., 0] if image.ndim == 2 else stacked


def seen_by(image: Image, image_camera: Pinhole, camera: Pinhole) -> Image:
    """The image of one camera resampled for another at the same position (nearest pixel, edges repeated)."""
    columns = image_camera.fx * (np.arange(camera.width) - camera.cx) / camera.fx + image_camera.cx
    rows = image_camera.fy * (np.arange(camera.height) - camera.cy) / camera.fy + image_camera.cy
    at_columns = np.clip(np.rint(columns), 0, image.shape[1] - 1).astype(np.int64)
    at_rows = np.clip(np.rint(rows), 0, image.shape[0] - 1).astype(np.int64)
    seen: Image = image[at_rows[:, None], at_columns[None, :]]
    return seen


def beside(folder: Path, stem: str) -> Path | None:
    """The photograph with this stem in a folder, with any suffix; None if there is none."""
    for suffix in SUFFIXES:
        path = folder / (stem + suffix)
        if path.is_file():
            return path
    return None


def photo_size(path: Path) -> tuple[int, int]:
    """(H, W) of an image, from its header."""
    require_file(path)
    with (
        decoding(path, "is not an image (.png or .jpg), or a damaged one") as module,
        module.open(path, formats=("PNG", "JPEG")) as picture,
    ):
        return int(picture.height), int(picture.width)


def _read_jpeg(path: Path) -> Image:
    data = read_bytes(path)
    with decoding(path, "is a damaged JPEG") as module:
        picture = module.open(io.BytesIO(data), formats=("JPEG",))
        require_pixels(path, picture.width, picture.height, len(data), 4 if picture.mode == "L" else 12)
        levels = np.asarray(picture if picture.mode in ("L", "RGB") else picture.convert("RGB"))
    image: Image = np.divide(levels, np.float32(255), dtype=np.float32)
    return image
