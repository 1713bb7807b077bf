"""Middlebury stereo: 2014 and 2021 (calib.txt, PFM disparities, millimetres), 2003 (8-bit disparities, no calibration).

z = f B / (d + doffs). The right camera, if it has disparities, is a second view at (B, 0, 0).
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Matrix
from cfusion.datasets.dataset import Dataset
from cfusion.datasets.reader_tools import named_view, pinhole
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pose, View
from cfusion.geometry.disparity import depth_from_disparity
from cfusion.io.codecs.pfm import read_pfm, write_pfm
from cfusion.io.codecs.photo import beside, read_photo
from cfusion.io.codecs.png import read_image
from cfusion.io.text_tables import number, read_text

CALIBRATION = "calib.txt"
LONGEST = 1 << 20  # bytes of it
OLD_WIDTHS = {450: 4.0, 900: 2.0, 1800: 1.0}  # counts per pixel of disparity in 2003, by the size downloaded
OLD_PAIR = (("disp2", "im2"), ("disp6", "im6"))
NEW_PAIR = (("disp0", "im0"), ("disp1", "im1"))


@dataclass(frozen=True)
class Options:
    """Values that the files of 2003 do not state."""

    focal: float | None = None  # pixels; None: the image's width
    baseline: float = 1.0  # unit of depth

    def __post_init__(self) -> None:
        if (self.focal is not None and not self.focal > 0) or not self.baseline > 0:
            raise InputError(f"focal is {self.focal}, baseline {self.baseline}; give positive values")


@dataclass(frozen=True, eq=False)
class Calibration:
    """calib.txt: both cameras, the baseline, and the shift of their principal points."""

    left: Matrix  # (3, 3)
    right: Matrix  # (3, 3)
    baseline: float  # millimetres
    offset: float  # doffs, pixels: cx of the right camera minus cx of the left


def recognises(path: Path) -> bool:
    """calib.txt with disp0.pfm, or disp2.png with im2.png."""
    new = (path / CALIBRATION).is_file() and _new_disparities(path, "disp0") is not None
    return new or ((path / "disp2.png").is_file() and beside(path, "im2") is not None)


def read(path: Path, options: Options | None = None) -> Dataset:
    """The left view, and the right one if it has disparities."""
    if (path / CALIBRATION).is_file():
        return _read_new(path)
    return _read_old(path, options or Options())


def read_calibration(file: Path) -> Calibration:
    """cam0=[f 0 cx; 0 f cy; 0 0 1], cam1, doffs, baseline."""
    lines = read_text(file, LONGEST).splitlines()

    def value(key: str) -> str:
        for line in lines:
            name, equals, found = line.partition("=")
            if equals and name.strip() == key and found.strip():
                return found.strip()
        raise FileError(f"{file} has no {key}; expected Middlebury's calib.txt of 2014 or 2021")

    def matrix(key: str) -> Matrix:
        words = re.sub(r"[\[\];,]", " ", value(key)).split()
        if len(words) != 9:
            raise FileError(f"{file}: {key} has {len(words)} numbers, expected 3 x 3")
        return np.array([number(word) for word in words]).reshape(3, 3)

    try:
        left, right = matrix("cam0"), matrix("cam1")
        return Calibration(left, right, number(value("baseline")), number(value("doffs")))
    except ValueError as error:
        raise FileError(f"{file}: {error}") from None


def write_disparity(path: Path, disparity: NDArray[np.floating]) -> None:
    """Write a disparity map (H, W) in the evaluation's format: PFM from the bottom up, infinity = unknown."""
    write_pfm(path, disparity)


def _read_new(path: Path) -> Dataset:
    calibration = read_calibration(path / CALIBRATION)
    views = []
    for side, (disparities, photo) in enumerate(NEW_PAIR):
        file = _new_disparities(path, disparities)
        if file is None:
            break
        intrinsics = calibration.right if side else calibration.left
        focal_baseline = float(intrinsics[0, 0]) * calibration.baseline
        depth = depth_from_disparity(read_pfm(file), focal_baseline, calibration.offset)
        views.append(_view(path, file, depth, intrinsics, side * calibration.baseline, photo))
    if not views:
        raise FileError(f"{path} has no disp0.pfm (or disp0GT.pfm) beside its calib.txt")
    sentence = (
        f"Middlebury 2014/2021: z = f B / (d + {calibration.offset:g}), B = {calibration.baseline:g} mm, "
        "inf = unknown, "
        f"{'left and right view' if len(views) == 2 else 'left view'}"
    )
    return Dataset(tuple(views), reference=0, unit="millimetre", sentence=sentence)


def _read_old(path: Path, options: Options) -> Dataset:
    views = []
    for side, (disparities, photo) in enumerate(OLD_PAIR):
        file = path / f"{disparities}.png"
        if side == 1 and not file.is_file():
            break
        disparity = _read_old_disparity(file)
        width = disparity.shape[1]
        focal = float(width) if options.focal is None else options.focal
        centre = (width - 1) / 2, (disparity.shape[0] - 1) / 2
        depth = depth_from_disparity(disparity, focal * options.baseline)
        views.append(_view(path, file, depth, (focal, focal, *centre), side * options.baseline, photo))
    nominal = "" if options.focal else ", focal length taken as the width (the set has no calibration)"
    sentence = (
        f"Middlebury 2003: counts / {_old_scale(views[0].shape[1]):g}, 0 = unknown, "
        f"baseline {options.baseline:g}{nominal}, {'left and right view' if len(views) == 2 else 'left view'}"
    )
    return Dataset(tuple(views), reference=0, unit="baseline", sentence=sentence)


def _new_disparities(path: Path, stem: str) -> Path | None:
    """disp0.pfm of the data sets, disp0GT.pfm of the evaluation kit."""
    return next((path / name for name in (f"{stem}.pfm", f"{stem}GT.pfm") if (path / name).is_file()), None)


def _read_old_disparity(file: Path) -> NDArray[np.float32]:
    image = read_image(file)
    counts = np.rint(255 * (image if image.ndim == 2 else image[..., 0]))
    if image.ndim == 3 and not (image == image[..., :1]).all():
        raise FileError(f"{file} is a colour image; expected grey levels that count disparity")
    scale = _old_scale(counts.shape[1])
    return np.where(counts > 0, counts / scale, np.nan).astype(np.float32)


def _old_scale(width: int) -> float:
    return OLD_WIDTHS.get(width, 4.0)


def _view(
    path: Path, file: Path, depth: DepthMap, intrinsics: Matrix | tuple[float, ...], right_of_left: float, photo: str
) -> View:
    camera = pinhole(intrinsics, (depth.shape[0], depth.shape[1]), path)
    pose = Pose(np.eye(3), np.array([right_of_left, 0.0, 0.0]))
    image = read_photo(beside(path, photo), camera.shape)
    return named_view(file, depth, camera, pose, image=image, name=photo)
