"""Trajectories as text: time, position and quaternion, qw last (TUM), camera-to-world."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cfusion.errors import FileError, named_by
from cfusion.geometry import Pose
from cfusion.geometry.quaternion import quaternion_of, rotation_of
from cfusion.io.text_tables import read_lines

Times = NDArray[np.float64]  # (N,), seconds


def read_trajectory(path: Path) -> tuple[Times, list[Pose | None]]:
    """Times, ascending, and world_from_camera of `t tx ty tz qx qy qz qw` lines; None where tracking was lost."""
    times: list[float] = []
    poses: list[Pose | None] = []
    for line in read_lines(path):
        time, *place, qx, qy, qz, qw = line.numbers(0, 8)
        if not np.isfinite(time):
            raise FileError(f"{line.where} has no time; write `t tx ty tz qx qy qz qw`")
        times.append(time)
        if not np.isfinite([*place, qx, qy, qz, qw]).all():
            poses.append(None)
            continue
        with named_by(line.where):
            poses.append(Pose(rotation_of(qw, qx, qy, qz), np.array(place)))
    order = np.argsort(np.array(times), kind="stable")
    return np.array(times)[order], [poses[index] for index in order]


def trajectory_text(times: Sequence[float], poses: Sequence[Pose]) -> str:
    """Lines that `read_trajectory` reads."""
    lines = ["# timestamp tx ty tz qx qy qz qw (camera-to-world)"]
    for time, pose in zip(times, poses, strict=True):
        qw, qx, qy, qz = quaternion_of(pose.rotation)
        values = " ".join(repr(float(value)) for value in (*pose.translation, qx, qy, qz, qw))
        lines.append(f"{time:.6f} {values}")
    return "\n".join(lines) + "\n"


def nearest(times: Times, wanted: float) -> tuple[int, float]:
    """The index of the nearest time, and its distance."""
    if len(times) == 0 or not np.isfinite(wanted):
        return -1, float("inf")
    place = int(np.searchsorted(times, wanted))
    around = [index for index in (place - 1, place) if 0 <= index < len(times)]
    best = min(around, key=lambda index: abs(times[index] - wanted))
    return best, abs(float(times[best]) - wanted)
