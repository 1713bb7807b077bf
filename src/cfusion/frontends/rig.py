"""A rectified pair of cameras, and a pair of images."""

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import Coordinates, Image, Points
from cfusion.errors import InputError, ShapeError
from cfusion.geometry import Pinhole


@dataclass(frozen=True)
class Rig:
    """Two equal cameras, the right one displaced by the baseline: u - u' + doffs = fx baseline / z."""

    camera: Pinhole
    baseline: float  # unit of depth
    doffs: float = 0.0  # pixels: cx of the right camera minus cx of the left

    def __post_init__(self) -> None:
        if not (np.isfinite(self.baseline) and self.baseline > 0):
            raise InputError(f"baseline is {self.baseline}; give a positive length")

    @property
    def focal_baseline(self) -> float:
        """fx baseline: pixels times the unit of depth."""
        return self.camera.fx * self.baseline

    def points(self, u: Coordinates, v: Coordinates, disparity: Coordinates) -> Points:
        """Points (N, 3) in the left camera's frame, of left pixels with positive disparities."""
        z = self.focal_baseline / (disparity + self.doffs)
        across, down = (u - self.camera.cx) / self.camera.fx, (v - self.camera.cy) / self.camera.fy
        return np.stack([across * z, down * z, z], axis=-1)


@dataclass(frozen=True, eq=False)
class StereoFrame:
    """A rectified pair of images, each (H, W) or (H, W, 3) in [0, 1]."""

    left: Image
    right: Image

    def __post_init__(self) -> None:
        if self.left.shape[:2] != self.right.shape[:2]:
            raise ShapeError(
                f"the left image is {self.left.shape[:2]}, the right one {self.right.shape[:2]}; give one size"
            )
