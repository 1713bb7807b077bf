"""The calibration of a stereo rig, from OpenCV's YAML, KITTI's or Middlebury's calib.txt.

A rectified rig has u - u' + doffs = fx baseline / z. A full calibration (two cameras, their lenses, and the pose of the
right one relative to the left) is first rectified by OpenCV.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cfusion.arrays import Matrix
from cfusion.datasets.kitti_bundle import read_projections
from cfusion.datasets.readers import middlebury
from cfusion.errors import FileError, InputError, ShapeError
from cfusion.frontends.opencv import opencv
from cfusion.frontends.opencv_file import read_matrices
from cfusion.frontends.rig import Rig, StereoFrame
from cfusion.geometry import Pinhole
from cfusion.geometry.camera import intrinsics_of
from cfusion.io.text_tables import read_text

SPELLINGS = {  # names of matrices in OpenCV's files, ours first
    "K1": ("K1", "M1", "cameraMatrix1", "camera_matrix_1", "left_K"),
    "D1": ("D1", "distCoeffs1", "dist_coeffs_1", "left_D"),
    "K2": ("K2", "M2", "cameraMatrix2", "camera_matrix_2", "right_K"),
    "D2": ("D2", "distCoeffs2", "dist_coeffs_2", "right_D"),
    "R": ("R", "rotation"),
    "T": ("T", "translation"),
    "P1": ("P1",),
    "P2": ("P2",),
}
KITTI_PAIRS = (("P0", "P1"), ("P2", "P3"), ("P_rect_00", "P_rect_01"), ("P_rect_02", "P_rect_03"))
MILLIMETRE = 1e-3
OFF_CENTRE = 0.2  # of a side of the image, between its middle and the principal point


@dataclass(frozen=True, eq=False)
class RawRig:
    """Two unrectified cameras: x2 = rotation x1 + translation; lenses by OpenCV's coefficients."""

    left: Matrix  # (3, 3)
    left_lens: Matrix
    right: Matrix  # (3, 3)
    right_lens: Matrix
    rotation: Matrix  # (3, 3)
    translation: Matrix  # (3,) in the unit of depth

    def rectified(self, frame: StereoFrame) -> tuple[StereoFrame, "Calibration"]:
        """The rectified pair, and its calibration; the new images show only pixels that both cameras saw."""
        cv2 = opencv()
        height, width = frame.left.shape[:2]
        size = (width, height)
        how = (self.left, self.left_lens, self.right, self.right_lens, size, self.rotation, self.translation[:, None])
        turn_left, turn_right, first, second, *_ = cv2.stereoRectify(*how, flags=cv2.CALIB_ZERO_DISPARITY, alpha=0)
        if abs(second[1, 3]) > abs(second[0, 3]):
            raise InputError("the rig's cameras lie above each other; rotate the images and the matrices by 90 degrees")
        sides = (
            (frame.left, self.left, self.left_lens, turn_left, first),
            (frame.right, self.right, self.right_lens, turn_right, second),
        )
        images = []
        for image, camera, lens, turn, projection in sides:
            maps = cv2.initUndistortRectifyMap(camera, lens, turn, projection, size, cv2.CV_32FC1)
            seen = cv2.remap(np.ascontiguousarray(image), *maps, cv2.INTER_LINEAR)
            images.append(np.clip(seen, 0, 1).astype(np.float32))
        return StereoFrame(*images), _of_projections(first, second)


@dataclass(frozen=True)
class Calibration:
    """A rectified rig, without the size of its images."""

    fx: float
    fy: float
    cx: float | None  # pixels; None: the middle of the image
    cy: float | None
    baseline: float  # unit of depth
    doffs: float = 0.0  # pixels: cx of the right camera minus cx of the left

    def __post_init__(self) -> None:
        if not (self.fx > 0 and self.fy > 0 and self.baseline > 0):
            raise InputError(
                f"focal length {self.fx:g} pixels, baseline {self.baseline:g}; both must be positive "
                "(a negative baseline: left and right are swapped in the calibration)"
            )

    def rig(self, shape: tuple[int, ...]) -> Rig:
        """The rig of images (H, W)."""
        height, width = shape[:2]
        cx = (width - 1) / 2 if self.cx is None else self.cx
        cy = (height - 1) / 2 if self.cy is None else self.cy
        return Rig(Pinhole(self.fx, self.fy, cx, cy, width=width, height=height), self.baseline, self.doffs)


def read_rig(file: Path) -> Calibration | RawRig:
    """The calibration in a file, recognised by what it holds."""
    text = read_text(file)
    if _is_opencv(file, text):
        return _opencv_file(file)
    if "cam0" in text:
        return _middlebury(file)
    projections = read_projections(file)
    for left, right in KITTI_PAIRS:
        if left in projections and right in projections:
            return _of_projections(projections[left], projections[right])
    raise FileError(f"{file} is not a known calibration; give OpenCV's YAML, KITTI's or Middlebury's calib.txt")


def unit_of(file: Path) -> str:
    """The unit of depth by this calibration: metres, but in OpenCV's files, which do not state it, that of T."""
    return "unit of T" if _is_opencv(file, read_text(file)) else "metre"


def size_warning(rig: Rig) -> str | None:
    """A sentence if the principal point lies far from the middle, as in an image of another size."""
    camera = rig.camera
    offsets = (camera.cx - (camera.width - 1) / 2) / camera.width, (camera.cy - (camera.height - 1) / 2) / camera.height
    if max(abs(each) for each in offsets) <= OFF_CENTRE:
        return None
    return (
        f"the principal point ({camera.cx:.0f}, {camera.cy:.0f}) lies far from the middle of {camera.width} x "
        f"{camera.height} pixels: is the calibration of images of this size?"
    )


def _is_opencv(file: Path, text: str) -> bool:
    return text.lstrip().startswith(("%YAML", "<?xml", "{")) or file.suffix in (".yml", ".yaml", ".xml")


def rectified(frame: StereoFrame, calibration: Calibration | RawRig) -> tuple[StereoFrame, Rig]:
    """A rectified pair and its rig."""
    if isinstance(calibration, RawRig):
        frame, calibration = calibration.rectified(frame)
    return frame, calibration.rig(frame.left.shape)


def _middlebury(file: Path) -> Calibration:
    """A calibration in metres, from a file in millimetres."""
    given = middlebury.read_calibration(file)
    return Calibration(*intrinsics_of(given.left), MILLIMETRE * given.baseline, given.offset)


def _of_projections(left: Matrix, right: Matrix) -> Calibration:
    """The calibration of two 3 x 4 projections: -fx baseline is the difference of their fourth numbers."""
    fx, fy, cx, cy = intrinsics_of(left)
    if fx == 0:
        raise InputError("the left camera has a focal length of zero; correct its projection")
    return Calibration(fx, fy, cx, cy, float(left[0, 3] - right[0, 3]) / fx, float(right[0, 2]) - cx)


def _opencv_file(file: Path) -> Calibration | RawRig:
    stated = read_matrices(file)
    found: dict[str, Matrix] = {}
    for name, spellings in SPELLINGS.items():
        for each in spellings:
            if each in stated:
                found.setdefault(name, stated[each])
    if {"K1", "K2", "R", "T"} <= set(found):
        lenses = [found.get(name, np.zeros(5)).ravel() for name in ("D1", "D2")]
        found["T"] = found["T"].reshape(1, -1)
        _require(file, found, K1=(3, 3), K2=(3, 3), R=(3, 3), T=(1, 3))
        return RawRig(found["K1"], lenses[0], found["K2"], lenses[1], found["R"], found["T"].ravel())
    if {"P1", "P2"} <= set(found):
        _require(file, found, P1=(3, 4), P2=(3, 4))
        return _of_projections(found["P1"], found["P2"])
    raise FileError(f"{file} holds {', '.join(found) or 'no matrices'}; give K1, D1, K2, D2, R, T, or P1 and P2")


def _require(file: Path, found: dict[str, Matrix], **shapes: tuple[int, int]) -> None:
    for name, shape in shapes.items():
        if found[name].shape != shape:
            raise ShapeError(f"{file}: {name} is {found[name].shape}, expected {shape}")
