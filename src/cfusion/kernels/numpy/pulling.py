"""Re-association: read another view at the current surface.

A camera is ten numbers, as in `cameras`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cfusion.kernels.contract import Floats, Mask
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.numpy.cameras import is_bent, pixels, slopes
from cfusion.kernels.one_pass import one_pass, rewrite
from cfusion.kernels.tracing import neighbour

STENCIL = (-2, -1, 1, 2)  # pixels: neighbours along a row or a column; the flattest gives the slope
EVEN = (0.5, 0.8)  # ratio of flattest and steepest: at most, the surface bends and has no plane; at least, it is one
STEEPEST = (15.0, 30.0)  # tangent of optical axis and normal: beyond, a plane has to go on, as a road does
DISTANT = 10  # pixels for which a steep plane goes on: smoothed edges are narrower
ROWS = 64  # of all views, in which observations are rejected at a time
SAFE = 4.0  # largest factor, either way, by which a tangent plane changes a predicted depth or a rate


def read_view(
    x: Floats,
    reference_camera: Floats,
    view_camera: Floats,
    view_from_reference: Floats,
    depth: Floats,
    confidence: Floats,
    agreement: float,
) -> tuple[Floats, Floats, Floats]:
    """The observation along each reference ray, its weight, and whether the view sees the point.

    d = x + (z_measured - z_predicted) / (dz / dx). z is read at the nearest pixel, or interpolated between four known
    ones that differ by less than `agreement`. It is predicted there, beside the point, by the plane that touches the
    surface: n . (p - point) = 0, dz / dx = (n . r) / (n . r_view). With an empty `confidence` all weights are one.
    """
    height, width = x.shape
    v, u = np.mgrid[:height, :width].astype(np.float64)
    offset, direction = _ray(reference_camera, u, v)
    turn, shift = view_from_reference[:, :3], view_from_reference[:, 3]
    start, along = offset @ turn.T + shift, direction @ turn.T
    depth_here = x.astype(np.float64)
    points = start + along * depth_here[..., None]
    predicted, rate = points[..., 2], along[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(predicted > 0, 1 / predicted, np.nan) if view_camera[0] == 0 else 1.0
        at_u = view_camera[1] * points[..., 0] * scale + view_camera[3]
        at_v = view_camera[2] * points[..., 1] * scale + view_camera[4]
        if is_bent(view_camera):
            at_u, at_v = pixels(view_camera, points[..., 0] * scale, points[..., 1] * scale)
        column, row = np.floor(at_u + 0.5), np.floor(at_v + 0.5)
        seen = (column >= 0) & (column < depth.shape[1]) & (row >= 0) & (row < depth.shape[0]) & (rate > 0)
        near_row, near_column = _index(row, seen), _index(column, seen)
        measured = np.where(seen, depth[near_row, near_column], np.nan).astype(np.float64)
        blended, blendable = _between(depth, at_u, at_v, seen, agreement)
        measured = np.where(blendable, blended, measured)
        beside = np.where(blendable, 0, column - at_u) / view_camera[1]
        below = np.where(blendable, 0, row - at_v) / view_camera[2]
        normal, facing = _tangent(reference_camera, depth_here, offset + direction)
        across, down, ahead = np.moveaxis(normal @ turn.T, -1, 0)
        there, further = ahead, across * beside + down * below
        if view_camera[0] == 0:
            there = across * (points[..., 0] * scale + beside) + down * (points[..., 1] * scale + below) + ahead
            touches = (there < SAFE * (there - further)) & (there - further < SAFE * there)
            further = predicted * further
        else:
            touches = there > 0
        touches &= facing > 0
        predicted = predicted - np.where(touches, further / there, 0)
        steeper = np.where(touches, np.clip(there * rate / facing, 1 / SAFE, SAFE), 1)
        observed = (depth_here + (measured - predicted) * (steeper / rate)).astype(np.float32)
    known = np.isfinite(observed)
    weight = np.ones_like(observed) if confidence.size == 0 else confidence[near_row, near_column]
    return np.where(known, observed, np.float32(np.nan)), np.where(known, weight, np.float32(0)), seen


def _ray(camera: Floats, u: Floats, v: Floats) -> tuple[Floats, Floats]:
    """Offset and direction of a ray: its points are offset + z direction."""
    (across, down), zero, one = slopes(camera, u, v), np.zeros_like(u), np.ones_like(u)
    if camera[0] == 0:
        return np.stack([zero, zero, zero], axis=-1), np.stack([across, down, one], axis=-1)
    return np.stack([across, down, zero], axis=-1), np.stack([zero, zero, one], axis=-1)


def _tangent(camera: Floats, depth: Floats, ray: Floats) -> tuple[Floats, Floats]:
    """The normal n (H, W, 3) of the plane that touches a surface at each pixel, and n . r (H, W).

    Flatter where the surface is steeper than STEEPEST and does not go on: smoothed edges look like such planes.
    """
    perspective = camera[0] == 0
    plane = 1 / np.where(depth > 0, depth, np.nan) if perspective else -depth  # linear in the image of a plane
    slopes_x, slopes_y = _slope(plane, 1), _slope(plane, 0)
    across, down = camera[1] * slopes_x, camera[2] * slopes_y
    if not perspective:
        return np.stack([across, down, np.ones_like(depth)], axis=-1), np.ones_like(depth)
    plain, edge = STEEPEST
    share = np.clip((edge - depth * np.sqrt(across * across + down * down)) / (edge - plain), 0, 1)
    across = np.maximum(share, _goes_on(plane, slopes_x, 1)) * across
    down = np.maximum(share, _goes_on(plane, slopes_y, 0)) * down
    return np.stack([across, down, plane - across * ray[..., 0] - down * ray[..., 1]], axis=-1), plane


def _slope(plane: Floats, axis: int) -> Floats:
    """The change per pixel (H, W) to the neighbour that differs least, less where slopes are not EVEN.

    None where neighbours differ in sign, as at edges.
    """
    least, most = np.full_like(plane, np.inf), np.full_like(plane, -np.inf)
    for away in STENCIL:
        step = (_neighbour(plane, away, axis) - plane) / away
        least, most = np.fmin(least, step), np.fmax(most, step)
    rises, falls = (least > 0) & (most > 0), (least < 0) & (most < 0)
    flattest, steepest = np.where(falls, most, least), np.where(falls, least, most)
    plain, even = EVEN
    share = np.clip((flattest / np.where(rises | falls, steepest, 1) - plain) / (even - plain), 0, 1)
    return np.where(rises | falls, share * np.where(rises | falls, flattest, 0), 0)


def _goes_on(plane: Floats, slope: Floats, axis: int) -> Floats:
    """How EVEN the surface goes on with its slope for DISTANT pixels, on the better side: from 0 to 1, (H, W)."""
    plain, even = EVEN
    best = np.zeros_like(plane)
    for away in (-DISTANT, DISTANT):
        ratio = (_neighbour(plane, away, axis) - plane) / np.where(slope != 0, away * slope, np.nan)
        alike = np.where(ratio > 0, np.minimum(ratio, 1 / ratio), 0)
        best = np.maximum(best, np.clip((alike - plain) / (even - plain), 0, 1))
    return best


def _neighbour(plane: Floats, away: int, axis: int) -> Floats:
    """The values (H, W) of pixels this far away, NaN outside."""
    there: Floats = neighbour(plane, *((0, away) if axis else (away, 0)), np.nan)
    return there


def _index(place: Floats, seen: Floats) -> Floats:
    return np.where(seen, place, 0).astype(np.int64)


def _between(depth: Floats, u: Floats, v: Floats, seen: Floats, agreement: float) -> tuple[Floats, Floats]:
    """Bilinear depth, and where its four pixels are known and agree."""
    left, top = np.floor(u), np.floor(v)
    fits = seen & (left >= 0) & (top >= 0) & (left + 1 < depth.shape[1]) & (top + 1 < depth.shape[0])
    i, j = _index(top, fits), _index(left, fits)
    i_next, j_next = np.minimum(i + 1, depth.shape[0] - 1), np.minimum(j + 1, depth.shape[1] - 1)
    corners = np.stack([depth[i, j], depth[i, j_next], depth[i_next, j], depth[i_next, j_next]]).astype(np.float64)
    a, b = u - left, v - top
    top_row = corners[0] + a * (corners[1] - corners[0])
    low_row = corners[2] + a * (corners[3] - corners[2])
    agree = (corners.max(axis=0) - corners.min(axis=0) <= agreement) & (agreement > 0)  # 0: the nearest
    return top_row + b * (low_row - top_row), fits & agree


def reject_occluded(
    depths: Floats,
    weights: Floats,
    surface: Floats,
    growth: DepthNoise,
    limits: Sequence[float],
    seen: Floats,
    reference: int,
    holes: bool,
) -> None:
    """As `Backend.reject_occluded`, on every backend; on the host a few rows at a time, to save memory."""
    numbers: tuple[Any, ...] = (np.array(limits, np.float32)[:, None, None], np.int32(reference), *growth.numbers)
    if hasattr(type(depths), "__cuda_array_interface__"):
        ours = depths, weights
        rewrite(confirmed, ours, *ours, surface, seen, *numbers, law=growth.law, holes=holes)
        return
    for first in range(0, len(surface), ROWS):
        rows = slice(first, first + ROWS)
        ours = depths[:, rows], weights[:, rows]
        found = confirmed(*ours, surface[rows], seen[:, rows], *numbers, law=growth.law, holes=holes)
        ours[0][...], ours[1][...] = found


@one_pass
def confirmed(
    depths: Floats,
    weights: Floats,
    surface: Floats,
    seen: Mask,
    limits: Floats,
    reference: np.int32,
    *numbers: np.float32,
    law: DepthNoise,
    holes: bool,
) -> tuple[Floats, Floats]:
    """The depths and weights (K, H, W) that `reject_occluded` keeps; limits (K, 1, 1)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        near = weights * (law.at(*numbers).residual(depths, surface) <= limits)
    votes = (near > 0).astype(np.int16)
    if holes:
        enough = (votes - (np.isfinite(depths) & (near == 0))).sum(axis=0, dtype=np.int16) > 0
    else:
        enough = (2 * votes - seen).sum(axis=0, dtype=np.int16) >= 0
    kept = near * (enough | (near[reference] != 0))
    return np.where(kept != 0, depths, np.float32(np.nan)), kept
