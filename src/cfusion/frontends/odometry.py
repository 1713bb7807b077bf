"""Stereo visual odometry in the manner of Geiger, Ziegler and Stiller (StereoScan, 2011).

Features tracked through four images; samples of three propose motions (RANSAC), and the inliers of the best one refine
it by Gauss-Newton on the reprojection error in both current images:

    sum_i w_i |(u, v, u', v')_i - project(current_from_previous X_i)|^2.

Features are located exactly in the frame they start from and tracked into the other, which favours one of the two: the
motion is measured in both directions and averaged.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import InputError, named_by
from cfusion.frontends.features import Circle, circle_matches
from cfusion.frontends.motion import cross_matrices, exponential, halfway
from cfusion.frontends.rig import Rig, StereoFrame
from cfusion.frontends.stereo import grey_bytes
from cfusion.geometry import Pose

Floats = NDArray[np.float64]
SAMPLE = 3  # features that determine a motion
PROPOSALS = 200
INLIER = 1.5  # pixels of reprojection error, the larger of both images
ITERATIONS = 20  # of Gauss-Newton
LEAST_FEATURES = 6
DAMPING = 1e-10


@dataclass(frozen=True, eq=False)
class Motion:
    """The motion of the rig from one frame to the next, with its evidence from both directions."""

    previous_from_current: Pose
    features: int
    inliers: int
    error: float  # pixels, root mean square over the inliers


def motion(previous: StereoFrame, current: StereoFrame, rig: Rig) -> Motion:
    """The motion between two frames of a rectified rig, measured in both directions."""
    before, after = ((grey_bytes(frame.left), grey_bytes(frame.right)) for frame in (previous, current))
    there = motion_of_matches(circle_matches(before, after), rig)
    back = motion_of_matches(circle_matches(after, before), rig)
    return Motion(
        halfway(there.previous_from_current, back.previous_from_current.inverse()),
        there.features + back.features,
        there.inliers + back.inliers,
        float(np.hypot(there.error, back.error) / np.sqrt(2)),
    )


def trajectory(frames: Iterable[StereoFrame], rig: Rig) -> tuple[Pose, ...]:
    """world_from_camera of every frame by accumulated motions; the world is the first camera."""
    poses = [Pose.identity()]
    for number, (before, after) in enumerate(itertools.pairwise(frames), 1):
        with named_by(f"frames {number} and {number + 1}"):
            poses.append(poses[-1] @ motion(before, after, rig).previous_from_current)
    return tuple(poses)


def motion_of_matches(matches: Circle, rig: Rig, seed: int = 0) -> Motion:
    """The motion with the most inliers."""
    if len(matches) < LEAST_FEATURES:
        raise InputError(
            f"only {len(matches)} features were followed between two frames, {LEAST_FEATURES} are needed; "
            "give frames that overlap more, or poses"
        )
    u, v = (matches.previous_left[:, k].astype(np.float64) for k in (0, 1))
    points = rig.points(u, v, u - matches.previous_right[:, 0])
    seen = np.concatenate([matches.current_left, matches.current_right], axis=1).astype(np.float64)
    weights = _weights(seen, rig)
    samples = _samples(len(points), seed)
    proposed = np.tile(np.eye(4), (len(samples), 1, 1))
    for _ in range(ITERATIONS // 2):
        proposed = _step(proposed, points[samples], seen[samples], weights[samples], rig)
    agreeing = np.stack([_errors(each, points, seen, rig) <= INLIER for each in proposed])
    best = int(np.argmax(agreeing.sum(axis=1)))
    transform, inliers = proposed[best], agreeing[best]
    for _ in range(ITERATIONS):
        if inliers.sum() < SAMPLE:
            break
        kept = points[inliers][None], seen[inliers][None], weights[inliers][None]
        transform = _step(transform[None], *kept, rig)[0]
        inliers = _errors(transform, points, seen, rig) <= INLIER
    if inliers.sum() < LEAST_FEATURES:
        raise InputError(f"only {int(inliers.sum())} of {len(points)} features agree on a motion; give poses instead")
    residual = _residuals(transform[None], points[inliers][None], seen[inliers][None], rig)[0][0]
    error = float(np.sqrt(np.mean(np.sum(residual**2, axis=-1))))
    return Motion(Pose.from_matrix(transform).inverse(), len(points), int(inliers.sum()), error)


def _weights(seen: Floats, rig: Rig) -> Floats:
    """Features far from the image's middle column have less weight: calibration is worse there (Geiger et al.)."""
    return np.asarray(1 / (np.abs(seen[:, 0] - rig.camera.cx) / abs(rig.camera.cx) + 0.05))


def _samples(count: int, seed: int) -> NDArray[np.int64]:
    """Samples (S, 3) of distinct features."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.choice(count, SAMPLE, replace=False) for _ in range(PROPOSALS)])


def _residuals(transforms: Floats, points: Floats, seen: Floats, rig: Rig) -> tuple[Floats, Floats]:
    """Reprojection errors (S, N, 4) in the left and the right image, and the points moved (S, N, 3)."""
    moved = np.einsum("sij,snj->sni", transforms[:, :3, :3], points) + transforms[:, None, :3, 3]
    camera = rig.camera
    z = np.where(moved[..., 2] > 1e-6, moved[..., 2], np.nan)
    u, v = camera.fx * moved[..., 0] / z + camera.cx, camera.fy * moved[..., 1] / z + camera.cy
    predicted = np.stack([u, v, u - rig.focal_baseline / z + rig.doffs, v], axis=-1)
    return predicted - seen, moved


def _errors(transform: Floats, points: Floats, seen: Floats, rig: Rig) -> Floats:
    """The larger reprojection error (N,) of the two images; infinite behind the camera."""
    residual = _residuals(transform[None], points[None], seen[None], rig)[0][0]
    worse = np.maximum(np.hypot(residual[:, 0], residual[:, 1]), np.hypot(residual[:, 2], residual[:, 3]))
    errors: Floats = np.nan_to_num(worse, nan=np.inf)
    return errors


def _step(transforms: Floats, points: Floats, seen: Floats, weights: Floats, rig: Rig) -> Floats:
    """One Gauss-Newton step of every proposal (S, 4, 4), each on its own features (S, N, ...)."""
    residual, moved = _residuals(transforms, points, seen, rig)
    usable: NDArray[np.bool_] = np.asarray(np.isfinite(residual).all(axis=-1))
    scale = np.sqrt(np.where(usable, weights, 0))[..., None]
    slopes = _slopes(np.where(usable[..., None], moved, 1.0), rig) * scale[..., None]
    errors = np.where(usable[..., None], residual, 0) * scale
    normal = np.einsum("snri,snrj->sij", slopes, slopes)
    size = np.trace(normal, axis1=1, axis2=2)[:, None, None]
    normal += (DAMPING * size + np.finfo(np.float64).tiny) * np.eye(6)  # collinear features fix no motion
    twist = -np.linalg.solve(normal, np.einsum("snri,snr->si", slopes, errors)[..., None])[..., 0]
    return exponential(np.clip(np.nan_to_num(twist), -1.0, 1.0)) @ transforms


def _slopes(moved: Floats, rig: Rig) -> Floats:
    """d(u, v, u', v') / d(translation, rotation), (S, N, 4, 6), of a motion applied after the transform."""
    x, y, z = moved[..., 0], moved[..., 1], moved[..., 2]
    fx, fy = rig.camera.fx, rig.camera.fy
    zero, behind = np.zeros_like(z), x - rig.baseline
    by_point = np.stack(
        [
            np.stack([fx / z, zero, -fx * x / z**2], axis=-1),
            np.stack([zero, fy / z, -fy * y / z**2], axis=-1),
            np.stack([fx / z, zero, -fx * behind / z**2], axis=-1),
            np.stack([zero, fy / z, -fy * y / z**2], axis=-1),
        ],
        axis=-2,
    )
    return np.concatenate([by_point, by_point @ -cross_matrices(moved)], axis=-1)  # d(w x p) / dw = -[p]
