"""Cameras: conversion between pixels with depth and points.

Axes as in OpenCV: x right, y down, z forward. Integer pixel coordinates are pixel centres; depth is z, not the distance
along the ray.
"""

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cfusion.arrays import Coordinates, Matrix, Points, adopt
from cfusion.errors import CameraError, ShapeError
from cfusion.kernels.numpy import cameras

MOST_PIXELS = 10**9  # along a side
LARGEST = 1e30  # of integers, which have no infinity


@dataclass(frozen=True)
class Pinhole:
    """A perspective camera: u = fx x/z + cx, v = fy y/z + cy (all in pixels).

    Args:
        fx: focal length across, in pixels; positive.
        fy: focal length down, in pixels; positive.
        cx: column of the principal point, in pixels; 0 is the centre of the first pixel.
        cy: row of the principal point, in pixels.
        width: of the image, in pixels.
        height: of the image, in pixels.

    Examples:
        >>> from cfusion import Pinhole
        >>> camera = Pinhole(fx=500, fy=500, cx=319.5, cy=239.5, width=640, height=480)
        >>> u, v, z = camera.project([0.1, 0.0, 2.0])
        >>> float(u), float(v), float(z)
        (344.5, 239.5, 2.0)
    """

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int

    def __post_init__(self) -> None:
        _check_size(self.width, self.height)
        _check_centre(self.cx, self.cy)
        _check_numbers(fx=self.fx, fy=self.fy)
        for name, focal in (("fx", self.fx), ("fy", self.fy)):
            if not (isfinite(focal) and focal > 0):
                raise CameraError(f"{name} is {focal}; give a positive number of pixels")

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, width: int, height: int) -> "Pinhole":
        """The camera of a 3x3 intrinsic matrix K = [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], all in pixels.

        Args:
            matrix: K, without skew.
            width: of the image, in pixels.
            height: of the image, in pixels.

        Examples:
            >>> from cfusion import Pinhole
            >>> Pinhole.from_matrix([[576, 0, 320], [0, 576, 240], [0, 0, 1]], 640, 480).fx
            576.0
        """
        k: Matrix = adopt(matrix, np.float64, "an intrinsic matrix")
        if k.shape != (3, 3):
            raise ShapeError(f"an intrinsic matrix is {k.shape}; give 3x3")
        if k[0, 1] != 0 or k[1, 0] != 0 or not np.array_equal(k[2], [0, 0, 1]):
            raise CameraError("the intrinsic matrix has skew, or its last row is not 0 0 1; rectify the images first")
        return cls(*intrinsics_of(k), width, height)

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W) of its images."""
        return self.height, self.width

    @property
    def matrix(self) -> Matrix:
        """The 3x3 intrinsic matrix K."""
        return np.array([[self.fx, 0.0, self.cx], [0.0, self.fy, self.cy], [0.0, 0.0, 1.0]])

    @property
    def numbers(self) -> Coordinates:
        """The ten numbers that kernels use: 0 for perspective, then fx, fy, cx, cy, k1, k2, p1, p2, k3."""
        return np.array([0.0, self.fx, self.fy, self.cx, self.cy, *self.distortion])

    @property
    def distortion(self) -> tuple[float, float, float, float, float]:
        """k1, k2, p1, p2, k3 of Brown and Conrady, in OpenCV's order."""
        return 0.0, 0.0, 0.0, 0.0, 0.0

    def back_project(self, depth: ArrayLike) -> Points:
        """Points (H, W, 3) in the camera's frame; NaN where depth (H, W) is."""
        z = _depth_seen_by(self.shape, depth)
        x, y = self._slopes()
        return np.stack([x * z, y * z, z], axis=-1)

    def project(self, points: ArrayLike) -> tuple[Coordinates, Coordinates, Coordinates]:
        """Pixel coordinates u, v and depth z of points (..., 3); u and v are NaN for points behind the camera."""
        x, y, z = _components(points)
        in_front = np.where(z > 0, z, np.nan)
        return self.fx * (x / in_front) + self.cx, self.fy * (y / in_front) + self.cy, z

    def rays(self) -> Points:
        """Unit viewing rays (H, W, 3), from the camera into the scene."""
        x, y = self._slopes()
        rays = np.ones((*self.shape, 3))
        rays[..., 0] = x
        rays[..., 1] = y
        rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
        return rays

    def scaled(self, factor: float) -> Self:
        """The camera of the image resized by a factor (0.5 = half the width and half the height)."""
        frame = _scaled_frame(self.cx, self.cy, self.width, self.height, factor)
        return replace(self, fx=self.fx * factor, fy=self.fy * factor, **frame)

    def _slopes(self) -> tuple[Coordinates, Coordinates]:
        """x/z and y/z of the pixels, (1, W) and (H, 1)."""
        columns, rows = np.arange(self.width, dtype=np.float64), np.arange(self.height, dtype=np.float64)
        return (columns[None, :] - self.cx) / self.fx, (rows[:, None] - self.cy) / self.fy


@dataclass(frozen=True)
class BrownConrady(Pinhole):
    """A perspective camera with lens distortion: radial k1, k2, k3 and tangential p1, p2, as in OpenCV.

    Depth maps of such a camera are used directly, without undistorting and resampling them.

    Args:
        fx: focal length across, in pixels.
        fy: focal length down, in pixels.
        cx: column of the principal point, in pixels.
        cy: row of the principal point, in pixels.
        width: of the image, in pixels.
        height: of the image, in pixels.
        k1: radial, of r^2 with r the slope of a ray (all five without unit).
        k2: radial, of r^4.
        p1: tangential.
        p2: tangential.
        k3: radial, of r^6.

    Examples:
        >>> from cfusion import BrownConrady
        >>> camera = BrownConrady(500, 500, 319.5, 239.5, 640, 480, k1=-0.1, k2=0.02)
        >>> u, v, z = camera.project([1.0, 0.0, 2.0])
        >>> round(float(u), 2)  # without the lens: 569.5
        563.56
    """

    k1: float = 0.0
    k2: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    k3: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_numbers(k1=self.k1, k2=self.k2, p1=self.p1, p2=self.p2, k3=self.k3)
        if not all(isfinite(each) for each in self.distortion):
            raise CameraError(f"the distortion is {self.distortion}; k1, k2, p1, p2, k3 have to be finite")
        u, v = (np.array([0.0, 0.5, 1.0]) * (size - 1) for size in (self.width, self.height))
        u, v = np.meshgrid(u, v)
        with np.errstate(all="ignore"):
            there = cameras.pixels(self.numbers, *cameras.slopes(self.numbers, u, v))
        if not np.allclose(there, (u, v), rtol=0, atol=1e-3):
            raise CameraError(
                f"the distortion (k1, k2, p1, p2, k3) = {self.distortion} folds the image inside its corners; "
                "check the order of the coefficients"
            )

    @property
    def distortion(self) -> tuple[float, float, float, float, float]:
        return self.k1, self.k2, self.p1, self.p2, self.k3

    def project(self, points: ArrayLike) -> tuple[Coordinates, Coordinates, Coordinates]:
        x, y, z = _components(points)
        in_front = np.where(z > 0, z, np.nan)
        return *cameras.pixels(self.numbers, x / in_front, y / in_front), z

    def _slopes(self) -> tuple[Coordinates, Coordinates]:
        columns, rows = np.arange(self.width, dtype=np.float64), np.arange(self.height, dtype=np.float64)
        return cameras.slopes(self.numbers, columns[None, :], rows[:, None])


@dataclass(frozen=True)
class Orthographic:
    """A camera with parallel rays: x = (u - cx) pixel_size, y = (v - cy) pixel_size, z = depth.

    Args:
        pixel_size: side of a pixel, in units of depth; positive.
        cx: column of x = 0, in pixels.
        cy: row of y = 0, in pixels.
        width: of the map, in pixels.
        height: of the map, in pixels.

    Examples:
        >>> from cfusion import Orthographic
        >>> Orthographic(0.5, cx=10, cy=10, width=21, height=21).shape
        (21, 21)
    """

    pixel_size: float  # units of depth per pixel
    cx: float
    cy: float
    width: int
    height: int

    def __post_init__(self) -> None:
        _check_size(self.width, self.height)
        _check_centre(self.cx, self.cy)
        _check_numbers(pixel_size=self.pixel_size)
        if not (isfinite(self.pixel_size) and self.pixel_size > 0):
            raise CameraError(f"pixel_size is {self.pixel_size}; give a positive length per pixel")

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W) of its images."""
        return self.height, self.width

    @property
    def numbers(self) -> Coordinates:
        """The ten numbers that kernels use: 1 for orthographic, pixels per unit twice, cx, cy, five zeros."""
        return np.array([1.0, 1 / self.pixel_size, 1 / self.pixel_size, self.cx, self.cy, 0.0, 0.0, 0.0, 0.0, 0.0])

    def back_project(self, depth: ArrayLike) -> Points:
        """Points (H, W, 3) in the camera's frame; NaN where depth (H, W) is."""
        z = _depth_seen_by(self.shape, depth)
        x = (np.arange(self.width) - self.cx) * self.pixel_size
        y = (np.arange(self.height) - self.cy) * self.pixel_size
        unknown = z * 0.0  # 0, or NaN where depth is unknown
        return np.stack([x[None, :] + unknown, y[:, None] + unknown, z], axis=-1)

    def project(self, points: ArrayLike) -> tuple[Coordinates, Coordinates, Coordinates]:
        """Pixel coordinates u, v and depth z (any sign) of points (..., 3)."""
        x, y, z = _components(points)
        return x / self.pixel_size + self.cx, y / self.pixel_size + self.cy, z

    def rays(self) -> Points:
        """Unit viewing rays (H, W, 3): the optical axis everywhere."""
        return np.broadcast_to(np.array([0.0, 0.0, 1.0]), (*self.shape, 3)).copy()

    def scaled(self, factor: float) -> Self:
        """The camera of the image resized by a factor (0.5 = half the width and half the height)."""
        frame = _scaled_frame(self.cx, self.cy, self.width, self.height, factor)
        return replace(self, pixel_size=self.pixel_size / factor, **frame)


Camera: TypeAlias = Pinhole | Orthographic


def intrinsics_of(matrix: Matrix) -> tuple[float, float, float, float]:
    """fx, fy, cx, cy of an intrinsic matrix or a projection."""
    return float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2])


def pixel_size(camera: Camera, depth: NDArray[np.floating]) -> Coordinates:
    """Width of a pixel across the ray at each depth, in the unit of depth."""
    if isinstance(camera, Pinhole):
        return depth.astype(np.float64) / min(camera.fx, camera.fy)
    return np.full(depth.shape, camera.pixel_size)


def _check_size(width: int, height: int) -> None:
    for name, length in (("width", width), ("height", height)):
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
            raise CameraError(f"{name} is {length!r}; give a whole number of pixels, at least one (an int)")
        if length > MOST_PIXELS:
            raise CameraError(f"{name} is beyond {MOST_PIXELS} pixels; give the size of an image")


def _check_numbers(**numbers: float) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
            raise CameraError(f"{name} is {str(number)[:40]!r} ({type(number).__name__}); give one number")
        if isinstance(number, int) and abs(number) > LARGEST:
            raise CameraError(f"{name} is beyond {LARGEST:g}; give pixels")


def _check_centre(cx: float, cy: float) -> None:
    _check_numbers(cx=cx, cy=cy)
    if not (isfinite(cx) and isfinite(cy)):
        raise CameraError(f"the principal point is ({cx}, {cy}); give finite numbers")


def _depth_seen_by(shape: tuple[int, int], depth: ArrayLike) -> Coordinates:
    z: Coordinates = adopt(depth, np.float64, "depth")
    if z.shape != shape:
        raise ShapeError(f"depth is {z.shape}, its camera sees {shape}")
    return z


def _components(points: ArrayLike) -> tuple[Coordinates, Coordinates, Coordinates]:
    xyz: Points = adopt(points, np.float64, "the points")
    if xyz.ndim == 0 or xyz.shape[-1] != 3:
        raise ShapeError(f"points are {xyz.shape}; give (..., 3)")
    return xyz[..., 0], xyz[..., 1], xyz[..., 2]


def _scaled_frame(cx: float, cy: float, width: int, height: int, factor: float) -> dict[str, Any]:
    """Centre and size after resizing; the image's corner (-0.5, -0.5) is mapped to itself."""
    _check_numbers(factor=factor)
    if not (isfinite(factor) and factor > 0):
        raise CameraError(f"cannot resize a camera by {factor}; give a positive factor")
    size = {"width": max(1, round(width * factor)), "height": max(1, round(height * factor))}
    return {"cx": (cx + 0.5) * factor - 0.5, "cy": (cy + 0.5) * factor - 0.5, **size}
