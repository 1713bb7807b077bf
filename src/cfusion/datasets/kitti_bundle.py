"""KITTI stereo: one bundle of rectified pairs with its calibration and ground truth.

Two layouts: 2012 (image_0, image_1 grey; colored_0, colored_1) and 2015 (image_2, image_3 colour). Files are named
bundle_frame; the multi-view extension has frames 00 to 20, some of which may be missing. Disparity = value / 256.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import Image, Matrix
from cfusion.errors import FileError, InputError
from cfusion.geometry import Pinhole
from cfusion.geometry.camera import intrinsics_of
from cfusion.io.codecs.png import Encoding, read_image, read_png, write_png
from cfusion.io.maps import SUFFIXES, read_map
from cfusion.io.text_tables import read_lines

DISPARITY = Encoding(scale=1 / 256)
REFERENCE_FRAME = 10  # the one with ground truth
FILE_NAME = re.compile(r"(\d{6})_(\d{2})\.png")


@dataclass(frozen=True)
class Layout:
    """The folders of a layout."""

    name: str
    left: str
    right: str
    left_projection: str  # key in the calibration file
    right_projection: str
    calibration: str
    visible_truth: str  # "noc": only pixels that both cameras see
    truth: str  # "occ": all pixels


LAYOUTS = (
    Layout("2012 grey", "image_0", "image_1", "P0", "P1", "calib", "disp_noc", "disp_occ"),
    Layout("2012 colour", "colored_0", "colored_1", "P2", "P3", "calib", "disp_noc", "disp_occ"),
    Layout(
        *("2015 colour", "image_2", "image_3", "P_rect_02", "P_rect_03"),
        *("calib_cam_to_cam", "disp_noc_0", "disp_occ_0"),
    ),
)


@dataclass(frozen=True)
class Calibration:
    """Intrinsics of both cameras of a rectified pair, in pixels, and focal length times baseline."""

    fx: float
    fy: float
    cx: float
    cy: float
    focal_baseline: float  # pixels times metres

    def __post_init__(self) -> None:
        if not self.focal_baseline > 0:
            raise InputError(f"focal x baseline is {self.focal_baseline}; the right camera has to be right of the left")

    def camera(self, shape: tuple[int, int]) -> Pinhole:
        """The camera of maps (H, W)."""
        return Pinhole(self.fx, self.fy, self.cx, self.cy, width=shape[1], height=shape[0])

    @property
    def baseline(self) -> float:
        """Metres between the two cameras."""
        return self.focal_baseline / self.fx


@dataclass(frozen=True, eq=False)
class Bundle:
    """The stereo pairs of one scene, read when used."""

    folder: Path  # training or testing
    number: int
    layout: Layout
    frames: tuple[int, ...]  # with both a left and a right image
    calibration: Calibration

    def left(self, frame: int) -> Image:
        """The left image, in [0, 1]."""
        return read_image(self._file(self.layout.left, frame))

    def right(self, frame: int) -> Image:
        """The right image, in [0, 1]."""
        return read_image(self._file(self.layout.right, frame))

    def truth(self, *, occluded: bool = True) -> NDArray[np.float32]:
        """Measured disparity (H, W) of the reference frame, NaN where unknown; with or without occluded pixels."""
        folder = self.layout.truth if occluded else self.layout.visible_truth
        return read_png(self._file(folder, REFERENCE_FRAME), DISPARITY)

    def has_truth(self) -> bool:
        """Whether the reference frame has ground truth."""
        return self._file(self.layout.truth, REFERENCE_FRAME).is_file()

    def name(self, frame: int) -> str:
        """KITTI's name of a frame of this bundle, without suffix."""
        return f"{self.number:06d}_{frame:02d}"

    def _file(self, folder: str, frame: int) -> Path:
        return self.folder / folder / f"{self.name(frame)}.png"


def layout_of(folder: Path, *, colour: bool = False) -> Layout | None:
    """The layout whose images exist (for 2012 the grey one, unless `colour`)."""
    present = [each for each in LAYOUTS if (folder / each.left).is_dir() and (folder / each.calibration).is_dir()]
    preferred = [each for each in present if ("colour" in each.name) == colour]
    return next(iter(preferred + present), None)


def bundles(folder: Path) -> tuple[int, ...]:
    """Numbers of the bundles in a training or testing folder."""
    layout = layout_of(folder)
    return () if layout is None else tuple(sorted(_frames(folder / layout.left)))


def open_bundle(folder: Path, number: int, *, colour: bool = False) -> Bundle:
    """One bundle of a training or testing folder; frames that lack an image are omitted."""
    layout = layout_of(folder, colour=colour)
    if layout is None:
        raise FileError(f"{folder} is not a KITTI stereo folder; give the folder with image_0 (or image_2) and calib")
    both = _frames(folder / layout.left).get(number, set()) & _frames(folder / layout.right).get(number, set())
    if not both:
        known = ", ".join(str(each) for each in sorted(_frames(folder / layout.left))[:8])
        raise FileError(f"{folder} has no pair of images of bundle {number}; there are: {known or 'none'}")
    calibration = read_calibration(folder / layout.calibration / f"{number:06d}.txt", layout)
    return Bundle(folder, number, layout, tuple(sorted(both)), calibration)


def read_calibration(file: Path, layout: Layout) -> Calibration:
    """Calibration from lines `name: 12 numbers`; focal x baseline is the difference of the fourth numbers."""
    projections = read_projections(file)
    missing = [key for key in (layout.left_projection, layout.right_projection) if key not in projections]
    if missing:
        raise FileError(f"{file} has no 3 x 4 matrix {missing[0]}; found: {', '.join(projections) or 'none'}")
    left, right = projections[layout.left_projection], projections[layout.right_projection]
    try:
        return Calibration(*intrinsics_of(left), focal_baseline=float(left[0, 3] - right[0, 3]))
    except InputError as error:
        raise FileError(f"{file}: {error}") from None


def read_projections(file: Path) -> Mapping[str, Matrix]:
    """The 3 x 4 projection matrices (P...) of a calibration file, by name."""
    return {
        line.words[0].rstrip(":"): np.array(line.numbers(1, 12)).reshape(3, 4)
        for line in read_lines(file)
        if line.words[0].startswith("P") and len(line.words) == 13
    }


def disparity_file(folder: Path, name: str) -> Path | None:
    """The disparity map of a frame in a folder, in any format of maps; None if there is none."""
    return next((file for suffix in SUFFIXES if (file := folder / f"{name}{suffix}").is_file()), None)


def read_disparity(file: Path) -> NDArray[np.float32]:
    """A disparity map (H, W), NaN where unknown: value / 256 of a PNG, the value itself of other formats."""
    return read_map(file, DISPARITY.scale if file.suffix == ".png" else None)


def write_disparity(path: Path, disparity: NDArray[np.floating]) -> None:
    """Write a disparity map in the benchmark's format: 16-bit PNG, value = 256 d, 0 = unknown."""
    known = np.where(disparity > 0, disparity, np.nan).astype(np.float64)
    write_png(path, known, DISPARITY)


def _frames(folder: Path) -> dict[int, set[int]]:
    """Frame numbers by bundle."""
    found: dict[int, set[int]] = {}
    for path in folder.glob("*.png"):
        name = FILE_NAME.fullmatch(path.name)
        if name is not None:
            found.setdefault(int(name[1]), set()).add(int(name[2]))
    return found
