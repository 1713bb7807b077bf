"""Odometry without features: the motion that maps the previous image, with its depth, onto the current image.

    sum_i rho( I_current(project(current_from_previous X_i)) - g I_previous(i) - o ),

coarse to fine, by Gauss-Newton in the inverse compositional form (Baker and Matthews, 2004): gradients are taken once,
in the previous image. rho is that of Student's t with 5 degrees of freedom; gain g and offset o absorb exposure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Image
from cfusion.errors import InputError, ShapeError
from cfusion.frontends.motion import exponential
from cfusion.frontends.opencv import opencv
from cfusion.frontends.stereo import grey_bytes
from cfusion.geometry import Pinhole, Pose

Floats = NDArray[np.float64]
Plane = NDArray[np.float32]
FREEDOM = 5.0  # of Student's t
LEVELS, ITERATIONS = 5, 30  # of the pyramid: each halves the image; iterations of a level
LEAST_SLOPE = 4.0  # grey values of 255 per pixel: flatter pixels carry no information on motion
LEAST_PIXELS, MOST_PIXELS = 64, 60_000  # of a level, evenly subsampled
CONVERGED = 1e-6  # of the twist, in metres and radians


@dataclass(frozen=True, eq=False)
class DirectMotion:
    """The motion, and how well the images match under it."""

    previous_from_current: Pose
    pixels: int  # used at the finest level
    error: float  # grey values of 255: robust scale of the residuals


@dataclass(frozen=True, eq=False)
class _Level:
    """The pixels of the previous image that are used, and the current image, at one resolution."""

    points: Floats  # (N, 3) in the previous camera
    value: Floats  # (N,) grey value there
    slopes: Floats  # (N, 6) derivatives of the grey value by the six parameters of a motion
    current: Plane
    camera: Pinhole


def direct_motion(
    previous: Image, depth: DepthMap, current: Image, camera: Pinhole, start: Pose | None = None
) -> DirectMotion:
    """The motion from the previous camera, whose image and depth are known, to the current one.

    `start` is a guess of previous_from_current; the default is no motion.
    """
    if depth.shape != camera.shape or previous.shape[:2] != camera.shape or current.shape[:2] != camera.shape:
        raise ShapeError(
            f"depth is {depth.shape}, the images {previous.shape[:2]} and {current.shape[:2]}, "
            f"the camera has {camera.shape}; give one size"
        )
    here, there = grey_bytes(previous).astype(np.float32), grey_bytes(current).astype(np.float32)
    transform = np.eye(4) if start is None else start.inverse().matrix()
    gain_offset = np.array([1.0, 0.0])
    count, scale = 0, float("nan")
    for level in reversed(range(LEVELS)):
        prepared = _level(here, depth, there, camera, level)
        if prepared is None:
            continue
        transform, gain_offset, count, scale = _align(prepared, transform, gain_offset)
    if count < LEAST_PIXELS:
        raise InputError(f"only {count} pixels with depth and texture overlap; give frames with {LEAST_PIXELS} or more")
    return DirectMotion(Pose.from_matrix(transform).inverse(), count, scale)


def _level(here: Plane, depth: DepthMap, there: Plane, camera: Pinhole, level: int) -> _Level | None:
    """One level of the pyramid; None if too few pixels are left."""
    cv2 = opencv()
    factor = 2**level
    height, width = camera.height // factor, camera.width // factor
    if min(height, width) < 16:
        return None
    window = (slice(0, height * factor), slice(0, width * factor))
    size = (width, height)
    known = np.isfinite(depth[window])
    inverse = np.where(known, 1 / np.where(known, depth[window], 1), 0).astype(np.float32)
    share = cv2.resize(known.astype(np.float32), size, interpolation=cv2.INTER_AREA)
    mean = cv2.resize(inverse, size, interpolation=cv2.INTER_AREA) / np.maximum(share, 1e-6)
    ours, theirs = (cv2.resize(each[window], size, interpolation=cv2.INTER_AREA) for each in (here, there))
    along, down = (cv2.Scharr(ours, cv2.CV_32F, *axis) / 32 for axis in ((1, 0), (0, 1)))
    small = camera.scaled(1 / factor)
    small = Pinhole(small.fx, small.fy, small.cx, small.cy, width, height)
    rows, columns = np.nonzero((share > 0.5) & (np.hypot(along, down) >= LEAST_SLOPE))
    keep = slice(None, None, max(1, -(-len(rows) // MOST_PIXELS)))
    rows, columns = rows[keep], columns[keep]
    if len(rows) < LEAST_PIXELS:
        return None
    z = 1 / mean[rows, columns].astype(np.float64)
    points = np.stack([(columns - small.cx) / small.fx * z, (rows - small.cy) / small.fy * z, z], axis=-1)
    slopes = _slopes(points, along[rows, columns] * small.fx, down[rows, columns] * small.fy)
    return _Level(points, ours[rows, columns].astype(np.float64), slopes, theirs, small)


def _slopes(points: Floats, along: Floats, down: Floats) -> Floats:
    """(N, 6) d I / d(translation, rotation) = (I_u fx, I_v fy) d(x/z, y/z)."""
    x, y, z = points.T
    by_z = -(along * x + down * y) / z**2
    by_point = np.stack([along / z, down / z, by_z], axis=-1)
    return np.concatenate([by_point, np.cross(points, by_point)], axis=-1)


def _align(level: _Level, transform: Floats, gain_offset: Floats) -> tuple[Floats, Floats, int, float]:
    """Gauss-Newton at one level: the transform current_from_previous, gain and offset, pixels used, robust scale."""
    count, scale = 0, float("nan")
    for _ in range(ITERATIONS):
        seen, inside = _look_up(level, transform)
        count = int(inside.sum())
        if count < LEAST_PIXELS:
            break
        value = level.value[inside]
        residual = seen - gain_offset[0] * value - gain_offset[1]
        scale = _student_scale(residual)
        weights = (FREEDOM + 1) / (FREEDOM + (residual / scale) ** 2)
        slopes = np.column_stack([gain_offset[0] * level.slopes[inside], value, np.ones(count)])
        weighed = slopes * weights[:, None]
        normal = slopes.T @ weighed
        normal += 1e-12 * np.trace(normal) * np.eye(8)
        step = np.linalg.solve(normal, weighed.T @ residual)
        gain_offset = gain_offset + step[6:]
        transform = transform @ exponential(-step[:6])
        if np.abs(step[:6]).max() < CONVERGED:
            break
    return transform, gain_offset, count, scale


def _look_up(level: _Level, transform: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Interpolated grey values (M,) of the current image at visible points, and which points (N,) are visible."""
    moved = level.points @ transform[:3, :3].T + transform[:3, 3]
    u, v, z = level.camera.project(moved)
    with np.errstate(invalid="ignore"):
        inside = (z > 0) & (u >= 0) & (v >= 0) & (u < level.camera.width - 1) & (v < level.camera.height - 1)
    u, v = u[inside], v[inside]
    column, row = u.astype(np.int64), v.astype(np.int64)
    across, down = u - column, v - row
    image = level.current
    top = image[row, column] * (1 - across) + image[row, column + 1] * across
    low = image[row + 1, column] * (1 - across) + image[row + 1, column + 1] * across
    return np.asarray(top * (1 - down) + low * down), inside


def _student_scale(residual: Floats) -> float:
    """The scale of Student's t that fits the residuals, by a few fixed-point steps from their median size."""
    square = residual**2
    variance = max(float(np.median(square)) / 0.4549, 1e-6)
    for _ in range(5):
        variance = max(float(np.mean(square * (FREEDOM + 1) / (FREEDOM + square / variance))), 1e-6)
    return float(np.sqrt(variance))
