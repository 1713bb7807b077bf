"""A truth for one frame from many others: the nearest depth on each ray that most frames that look there measured.

Frames are thrown onto the reference to find candidates; each candidate is then asked of every frame, as
re-association asks: it measured that surface (support), it saw through it, or something stands in front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from cfusion import View
from cfusion.arrays import DepthMap

FEWEST = 12  # frames that must support a depth
RIVALS = 4.0  # times as many must support it as see through it
RELATIVE = 0.01  # of the depth, or
AXIAL = (0.0012, 0.0019, 0.4)  # three of these (Kinect; Nguyen 2012): a + b (z - c)^2 metres, tells two depths apart
ROUNDS = 3


def consensus(reference: View, others: Sequence[View], fewest: int = FEWEST) -> DepthMap:
    """(H, W) the depth that the others agree on, NaN where they do not or are too few."""
    motions = [reference.pose.inverse() @ view.pose for view in others]
    reference_from_view = np.stack([motion.matrix()[:3] for motion in motions])
    view_from_reference = np.stack([motion.inverse().matrix()[:3] for motion in motions])
    cameras = np.stack([view.camera.numbers for view in others])
    depths = np.stack([view.depth for view in others])
    thrown = np.full((len(others), *reference.shape), np.inf, np.float32)
    _throw(depths, cameras, reference_from_view, reference.camera.numbers, thrown)
    thrown.sort(axis=0)
    truth = np.full(reference.shape, np.nan, np.float32)
    _agree(thrown, depths, cameras, view_from_reference, reference.camera.numbers, fewest, truth)
    return truth


def validated(reference: View, earlier: Sequence[View], later: Sequence[View]) -> DepthMap:
    """The consensus of all, where that of the earlier frames and that of the later ones agree; NaN elsewhere.

    A frame registered a pixel wrong moves edges the other way on the other side of the window.
    """
    one, two = (consensus(reference, half, FEWEST // 2) for half in (earlier, later))
    truth = consensus(reference, [*earlier, *later])
    with np.errstate(invalid="ignore"):
        agreed = np.abs(one / two - 1) < RELATIVE
    return np.where(agreed, truth, np.float32(np.nan))


@njit(cache=True)
def _tolerance(z: float) -> float:
    return max(RELATIVE * z, 3 * (AXIAL[0] + AXIAL[1] * (z - AXIAL[2]) ** 2))


@njit(cache=True)
def _throw(depths, cameras, motions, camera, out):  # type: ignore[no-untyped-def]
    """Each frame's points at their nearest pixel of the reference, nearest first."""
    height, width = out.shape[1:]
    for k in range(depths.shape[0]):
        fx, fy, cx, cy = cameras[k][1:5]
        m = motions[k]
        for i in range(depths.shape[1]):
            for j in range(depths.shape[2]):
                z = depths[k, i, j]
                if not z > 0:
                    continue
                x, y = (j - cx) / fx * z, (i - cy) / fy * z
                far = m[2, 0] * x + m[2, 1] * y + m[2, 2] * z + m[2, 3]
                if far <= 0:
                    continue
                u = camera[1] * (m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3]) / far + camera[3]
                v = camera[2] * (m[1, 0] * x + m[1, 1] * y + m[1, 2] * z + m[1, 3]) / far + camera[4]
                a, b = int(np.floor(v + 0.5)), int(np.floor(u + 0.5))
                if 0 <= a < height and 0 <= b < width and far < out[k, a, b]:
                    out[k, a, b] = far


@njit(cache=True)
def _ask(z, i, j, depths, cameras, motions, camera, found):  # type: ignore[no-untyped-def]
    """What every frame measured at this depth of a pixel, into `found`; how many support it, see through, hide it."""
    across, down = (j - camera[3]) / camera[1], (i - camera[4]) / camera[2]
    support = through = hidden = 0
    limit = _tolerance(z)
    for k in range(depths.shape[0]):
        fx, fy, cx, cy = cameras[k][1:5]
        m = motions[k]
        qz = (m[2, 0] * across + m[2, 1] * down + m[2, 2]) * z + m[2, 3]
        if qz <= 0:
            continue
        u = fx * ((m[0, 0] * across + m[0, 1] * down + m[0, 2]) * z + m[0, 3]) / qz + cx
        v = fy * ((m[1, 0] * across + m[1, 1] * down + m[1, 2]) * z + m[1, 3]) / qz + cy
        a, b = int(np.floor(v + 0.5)), int(np.floor(u + 0.5))
        if a < 0 or b < 0 or a >= depths.shape[1] or b >= depths.shape[2]:
            continue
        measured = np.float64(depths[k, a, b])
        top, left = int(np.floor(v)), int(np.floor(u))
        if 0 <= top < depths.shape[1] - 1 and 0 <= left < depths.shape[2] - 1:
            c0, c1 = np.float64(depths[k, top, left]), np.float64(depths[k, top, left + 1])
            c2, c3 = np.float64(depths[k, top + 1, left]), np.float64(depths[k, top + 1, left + 1])
            if max(max(c0, c1), max(c2, c3)) - min(min(c0, c1), min(c2, c3)) < limit:  # false where one is NaN
                s, t = u - left, v - top
                measured = (1 - t) * (c0 + s * (c1 - c0)) + t * (c2 + s * (c3 - c2))
        away = (measured - qz) / (m[2, 0] * across + m[2, 1] * down + m[2, 2])
        if not np.isfinite(away):
            continue
        if away > limit:
            through += 1
        elif away < -limit:
            hidden += 1
        else:
            found[support] = z + away
            support += 1
    return support, through, hidden


@njit(cache=True)
def _agree(thrown, depths, cameras, motions, camera, fewest, truth):  # type: ignore[no-untyped-def]
    many = thrown.shape[0]
    found = np.empty(many)
    values = np.empty(many)
    for i in range(truth.shape[0]):
        for j in range(truth.shape[1]):
            for k in range(many):
                values[k] = thrown[k, i, j]
            first = 0
            while first < many and np.isfinite(values[first]):
                limit = _tolerance(values[first])
                last = first
                while last < many and values[last] <= values[first] + 2 * limit:
                    last += 1
                if last - first < fewest / 2:
                    first += 1
                    continue
                z = values[(first + last) // 2]
                support = through = hidden = 0
                for _ in range(ROUNDS):
                    support, through, hidden = _ask(z, i, j, depths, cameras, motions, camera, found)
                    if support == 0:
                        break
                    z = np.median(found[:support])
                if support >= fewest and support >= RIVALS * through and support >= hidden:
                    truth[i, j] = z
                    break
                first = last
