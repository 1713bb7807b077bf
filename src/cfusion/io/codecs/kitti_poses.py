"""Poses of KITTI frames: the paper's localisations (.mat, by bundle), and the odometry benchmark's text files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cfusion.errors import FileError, named_by
from cfusion.geometry import Pose
from cfusion.io.codecs.matlab import read_matlab
from cfusion.io.text_tables import read_lines

LAST_FRAME = 1_000_000


def read_localization(file: Path, bundle: int) -> Mapping[int, Pose]:
    """world_from_camera by frame: cell k of a bundle is frame first_frame + k; frames without a pose are omitted.

    The first cell is stored as uint8; it is converted before use, otherwise its inverse would be integer.
    """
    entry = _entry(file, bundle)
    try:
        start = float(np.asarray(entry["first_frame"]).ravel()[0])
        if not 0 <= start < LAST_FRAME or start != int(start):
            raise ValueError
        first = int(start)
        matrices = [np.asarray(cell, dtype=np.float64) for cell in entry["localization"]]
        if any(matrix.shape not in ((4, 4), (0, 0)) for matrix in matrices):
            raise ValueError
    except (ValueError, IndexError, KeyError, TypeError):
        raise FileError(f"{file}: bundle {bundle} is not a first_frame and a cell of 4 x 4 matrices") from None
    poses = {}
    for k, matrix in enumerate(matrices):
        if matrix.size == 0 or not np.isfinite(matrix).all():
            continue
        with named_by(f"{file}: bundle {bundle}, frame {first + k}"):
            poses[first + k] = Pose.from_matrix(matrix)
    return poses


def read_odometry_poses(file: Path) -> tuple[Pose | None, ...]:
    """world_from_camera of camera 0 from lines of 12 numbers (3 x 4, row by row); None where not finite."""
    poses: list[Pose | None] = []
    for line in read_lines(file):
        matrix = np.array(line.numbers(0, 12)).reshape(3, 4)
        with named_by(line.where):
            poses.append(Pose.from_matrix(matrix) if np.isfinite(matrix).all() else None)
    return tuple(poses)


def _entry(file: Path, bundle: int) -> dict[str, Any]:
    """The struct of one bundle."""
    entries = read_matlab(file).get("bundle_data")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FileError(f"{file} is not a MATLAB file with bundle_data; copy it again")
    if not 0 <= bundle < len(entries):
        raise FileError(f"{file} holds bundles 0 to {len(entries) - 1}; bundle {bundle} does not exist")
    found: dict[str, Any] = entries[bundle]
    return found
