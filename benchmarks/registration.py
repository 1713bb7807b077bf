"""Poses of frames refined against one of them: point-to-plane, so that a truth made of many is sharp at edges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cfusion import Pose, View
from cfusion.geometry import normals

STRIDE = 8  # pixels between the points that are matched
ROUNDS, FEWEST = 10, 300
LIMITS = (0.10, 0.015)  # of the depth: matches further apart do not count, at the first round and at the last
LEAST_OVERLAP = 0.3  # of a frame's points
FARTHEST_OFF = 0.02  # of the matched points may float more than 5 % in front of what the reference measured


def registered(reference: View, views: Sequence[View]) -> list[View]:
    """Those views that fit together with the reference's map, with their poses refined against it."""
    target = reference.camera.back_project(reference.depth).astype(np.float64)
    facing = normals(reference.depth, reference.camera).astype(np.float64)
    out = []
    for view in views:
        points = view.camera.back_project(view.depth)[STRIDE // 2 :: STRIDE, STRIDE // 2 :: STRIDE].reshape(-1, 3)
        points = points[np.isfinite(points[:, 2])].astype(np.float64)
        motion = _refined(reference, target, facing, points, reference.pose.inverse() @ view.pose)
        if motion is not None:
            out.append(View(view.depth, view.camera, reference.pose @ motion, name=view.name))
    return out


def _refined(
    reference: View,
    target: NDArray[np.float64],
    facing: NDArray[np.float64],
    points: NDArray[np.float64],
    motion: Pose,
) -> Pose | None:
    """The motion that lays a view's points onto the reference's planes; None where they do not fit."""
    height, width = reference.shape
    overlap, off = 0.0, 1.0
    for limit in np.geomspace(*LIMITS, ROUNDS):
        here = motion.apply(points)
        u, v, z = reference.camera.project(here)
        with np.errstate(invalid="ignore"):
            column, row = np.rint(u), np.rint(v)
            inside = (z > 0) & (column >= 0) & (row >= 0) & (column < width) & (row < height)
        at = row[inside].astype(np.int64), column[inside].astype(np.int64)
        apart, faces, far = here[inside] - target[at], facing[at], z[inside]
        known = np.isfinite(apart[:, 2])
        off = float((apart[known, 2] < -0.05 * far[known]).mean()) if known.any() else 1.0
        overlap = known.sum() / max(len(points), 1)
        use = known & (np.abs(apart[:, 2]) < limit * far) & np.isfinite(faces[:, 0])
        if use.sum() < FEWEST:
            return None
        motion = _step(here[inside][use], apart[use], faces[use]) @ motion
    return motion if overlap >= LEAST_OVERLAP and off <= FARTHEST_OFF else None


def _step(points: NDArray[np.float64], apart: NDArray[np.float64], facing: NDArray[np.float64]) -> Pose:
    """The small motion that brings points nearest to their planes."""
    jacobian = np.concatenate([np.cross(points, facing), facing], axis=1)
    residual = np.einsum("ij,ij->i", apart, facing)
    scale = 1.4826 * np.median(np.abs(residual)) + 1e-9
    weight = 1 / (1 + (residual / (2 * scale)) ** 2)
    turn_and_shift = -np.linalg.solve(jacobian.T @ (jacobian * weight[:, None]), jacobian.T @ (weight * residual))
    angle = float(np.linalg.norm(turn_and_shift[:3]))
    x, y, z = turn_and_shift[:3] / max(angle, 1e-300)
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    matrix = np.eye(4)
    matrix[:3, :3] = np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew
    matrix[:3, 3] = turn_and_shift[3:]
    return Pose.from_matrix(matrix)
