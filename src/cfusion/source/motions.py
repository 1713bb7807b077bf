"""Corrections of the views' poses and scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import OVER_MEAN
from cfusion.geometry import Pose
from cfusion.geometry.pose import turned_by
from cfusion.kernels.contract import Floats


@dataclass(frozen=True, eq=False)
class Motions:
    """Motions of views in the reference's frame: each rotates about the reference's camera, then translates.

    Before that, its depths change by a ratio.
    """

    numbers: Floats  # (K, 7) radians, units of the median depth, and the ratio
    depth: float  # median depth

    @staticmethod
    def none(views: int) -> Motions:
        """No view moves."""
        return Motions(np.zeros((views, 7)), 1.0)

    def any(self) -> bool:
        """Whether any view moves."""
        return bool(self.numbers.any())

    @property
    def poses(self) -> list[Pose]:
        """The motions as poses."""
        return [Pose(turned_by(each[:3]), each[3:6] * self.depth) for each in self.numbers]

    @property
    def factors(self) -> list[float]:
        """The factors on the depths of each view."""
        return [1 + float(each) for each in self.numbers[:, 6]]

    @property
    def mean(self) -> tuple[Floats, Floats]:
        """Rotation (3,) and translation (3,) from the reference to the mean pose, as it is unknown who is wrong."""
        middle = self.numbers.mean(axis=0)
        return middle[:3], middle[3:6] * self.depth

    @property
    def scale_error(self) -> float:
        """The standard error of the median of the views' scales, relative; views that were not moved tell nothing."""
        scales = self.numbers[self.numbers.any(axis=1), 6]
        return float(OVER_MEAN * scales.std(ddof=1) / np.sqrt(len(scales))) if len(scales) > 1 else 0.0

    def degrees(self, k: int) -> float:
        """The rotation of view k in degrees."""
        return float(np.degrees(np.linalg.norm(self.numbers[k, :3])))

    def distance(self, k: int) -> float:
        """The distance by which view k moves, at the median depth of the reference's view."""
        centre = np.array([[0.0, 0.0, self.depth]])
        return float(np.linalg.norm(self.poses[k].apply(centre) - centre))
