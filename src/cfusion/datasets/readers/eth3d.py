"""ETH3D: laser-scan depth of distorted images, resampled to pinhole cameras; world-to-camera, qw first.

A depth file has the name of its image (DSC_0259.JPG) but holds float32, row by row, infinity = unknown, z along the
axis. K has the centre of the first pixel at (0.5, 0.5), so 0.5 is subtracted.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import lower_median
from cfusion.datasets.dataset import Dataset, LazyViews
from cfusion.datasets.reader_tools import frames, left_out, named_view, require_some, unknown_unless_positive
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole, Pose, View
from cfusion.geometry.fisheye import thin_prism_fisheye
from cfusion.io.codecs.colmap_model import Model, ModelCamera, has_model, read_model
from cfusion.io.codecs.photo import read_photo
from cfusion.io.files import read_bytes
from cfusion.io.paths import path_inside

DEPTHS = "ground_truth_depth"
PINHOLES = ("PINHOLE", "SIMPLE_PINHOLE")
MOST_ENLARGED = 16  # pixels of the pinhole per pixel of the lens
HALF = 0.5  # pixel offset between K's convention and ours


@dataclass(frozen=True)
class Options:
    """Options of the format."""

    shrink: int = 1  # median of shrink x shrink pixels; the maps have 24 megapixels, a tenth of them known
    images: bool = True

    def __post_init__(self) -> None:
        if self.shrink < 1:
            raise InputError(f"shrink is {self.shrink}; give a whole number of pixels, at least 1")


def recognises(path: Path) -> bool:
    """A folder with ground_truth_depth and a *_calibration_* folder."""
    return (path / DEPTHS).is_dir() and bool(_models(path))


def read(path: Path, options: Options | None = None) -> Dataset:
    """The images with ground truth, each as a view of a pinhole camera."""
    chosen = options or Options()
    models = {folder: read_model(folder) for folder in _models(path)}
    if not models:
        raise FileError(f"{path} has no *_calibration_* folder with cameras.txt and images.txt")
    depths = {file.name: file for file in sorted((path / DEPTHS).rglob("*")) if file.is_file()}
    seen = _seen_by(models)
    found = [(depths[name], name) for name in sorted(seen) if name in depths]
    require_some(len(found), path / DEPTHS, "depth map of an image in the calibration")

    def load(number: int) -> View:
        file, name = found[number]
        lens, camera, pose, image_name = seen[name]
        held = _read_depth(file, (lens.height, lens.width))
        pinhole = _pinhole(camera)
        depth = held if lens == camera else _undistorted(held, lens, pinhole)
        if chosen.shrink > 1:
            depth = _shrunk(depth, chosen.shrink)
            pinhole = _pinhole(camera, chosen.shrink, (depth.shape[0], depth.shape[1]))
        seen_at = chosen.images and lens == camera
        photo = path_inside(path / "images", image_name, str(file)) if seen_at else None
        image = read_photo(photo, pinhole.shape)
        return named_view(file, depth, pinhole, pose, image=image, name=name)

    sentence = (
        "ETH3D: float32 depth of the distorted images brought onto pinhole cameras, inf = unknown, world-to-camera "
        f"inverted, qw first, K less 0.5; {frames(len(found))}"
        f"{left_out(len(depths) - len(found), 'of depth without a camera')}"
        f"{left_out(len(seen) - len(found), 'without a depth map')}"
    )
    return Dataset(LazyViews.reading(load, len(found)), sentence=sentence)


def _models(path: Path) -> list[Path]:
    return [folder for folder in sorted(path.glob("*_calibration_*")) if has_model(folder)]


def _seen_by(models: dict[Path, Model]) -> dict[str, tuple[ModelCamera, ModelCamera, Pose, str]]:
    """By file name: the camera that the depth was rendered for, the pinhole to resample to, pose, path of the image.

    The original camera is the distorted one if both calibrations exist.
    """
    original: dict[str, tuple[ModelCamera, Pose, str]] = {}
    pinholes: dict[str, ModelCamera] = {}
    for model in models.values():
        for image in model.images:
            name, camera = Path(image.name).name, model.cameras[image.camera]
            if camera.model in PINHOLES:
                pinholes[name] = camera
            if camera.model not in PINHOLES or name not in original:
                original[name] = camera, image.camera_from_world.inverse(), image.name
    return {
        name: (lens, pinholes.get(name, replace(lens, model="PINHOLE", parameters=lens.intrinsics)), pose, image)
        for name, (lens, pose, image) in original.items()
    }


def _pinhole(camera: ModelCamera, shrink: int = 1, shape: tuple[int, int] | None = None) -> Pinhole:
    fx, fy, cx, cy = (value / shrink for value in camera.intrinsics)
    height, width = (camera.height, camera.width) if shape is None else shape
    return Pinhole(fx, fy, cx - HALF, cy - HALF, width, height)


def _read_depth(file: Path, shape: tuple[int, int]) -> NDArray[np.float32]:
    data = read_bytes(file, 4 * shape[0] * shape[1] + 1)
    if len(data) != 4 * shape[0] * shape[1]:
        raise FileError(f"{file} holds {len(data) // 4} floats, expected {shape[1]} x {shape[0]}; copy it again")
    return unknown_unless_positive(np.frombuffer(data, dtype="<f4").reshape(shape))


def _undistorted(depth: NDArray[np.float32], lens: ModelCamera, camera: Pinhole) -> NDArray[np.float32]:
    """The depth of the distorted pixel nearest to each ray of the pinhole; NaN outside."""
    if camera.width * camera.height > MOST_ENLARGED * lens.width * lens.height:
        seen = f"{lens.width} x {lens.height}"
        raise FileError(f"a pinhole of {camera.width} x {camera.height} pixels cannot show a lens of {seen}; check it")
    if lens.model != "THIN_PRISM_FISHEYE":
        raise FileError(f"depth maps of a {lens.model} camera cannot be undistorted here; expected THIN_PRISM_FISHEYE")
    x = (np.arange(camera.width) - camera.cx)[None, :] / camera.fx
    y = (np.arange(camera.height) - camera.cy)[:, None] / camera.fy
    u, v = thin_prism_fisheye(lens.parameters, *np.broadcast_arrays(x, y))
    column, row = np.floor(u).astype(np.int64), np.floor(v).astype(np.int64)  # the pixel that contains the point
    inside = (column >= 0) & (column < lens.width) & (row >= 0) & (row < lens.height)
    found = depth[np.where(inside, row, 0), np.where(inside, column, 0)]
    return np.where(inside, found, np.float32(np.nan))


def _shrunk(depth: NDArray[np.float32], shrink: int) -> NDArray[np.float32]:
    """The lower median of the known depths in each block; incomplete blocks are cut off."""
    height, width = depth.shape[0] // shrink, depth.shape[1] // shrink
    if height == 0 or width == 0:
        raise InputError(f"shrink is {shrink}, the map only {depth.shape[1]} x {depth.shape[0]}; choose a smaller one")
    cut = depth[: height * shrink, : width * shrink].reshape(height, shrink, width, shrink)
    return np.asarray(lower_median(cut.swapaxes(1, 2).reshape(height, width, -1)), np.float32)
