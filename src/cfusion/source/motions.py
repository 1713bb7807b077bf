"""How views were moved from the poses that they came with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.geometry import Pose
from cfusion.geometry.pose import turned_by
from cfusion.kernels.contract import Floats


@dataclass(frozen=True, eq=False)
class Motions:
    """Where views belong, in the reference's frame: each turned about the reference's camera, then shifted."""

    numbers: Floats  # (K, 6) radians, and units of the usual depth
    depth: float  # the usual one

    @staticmethod
    def none(views: int) -> Motions:
        """Every view where it came from."""
        return Motions(np.zeros((views, 6)), 1.0)

    def any(self) -> bool:
        """Whether a view moves."""
        return bool(self.numbers.any())

    @property
    def poses(self) -> list[Pose]:
        """Each as a pose."""
        return [Pose(turned_by(each[:3]), each[3:] * self.depth) for each in self.numbers]

    @property
    def mean(self) -> tuple[Floats, Floats]:
        """(3,) turn and (3,) shift from the reference's pose to the middle of all: who is off, nobody can say."""
        middle = self.numbers.mean(axis=0)
        return middle[:3], middle[3:] * self.depth

    def degrees(self, k: int) -> float:
        """By how much view k was turned."""
        return float(np.degrees(np.linalg.norm(self.numbers[k, :3])))

    def distance(self, k: int) -> float:
        """By how much view k was shifted, where the reference looks at the usual depth."""
        centre = np.array([[0.0, 0.0, self.depth]])
        return float(np.linalg.norm(self.poses[k].apply(centre) - centre))
