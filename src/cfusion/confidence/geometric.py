"""Confidence from the shape of each map: surfaces at grazing angles get less weight."""

from dataclasses import dataclass

import numpy as np

from cfusion import kernels
from cfusion.arrays import WeightStack, chunks
from cfusion.confidence.confidence import Confidence
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


@dataclass(frozen=True)
class Geometric(Confidence):
    """w = max(floor, |n . r|): the cosine between the normal of each reprojected map and its viewing ray.

    The normal n is that of the back-projected points, so w does not depend on the unit of depth. A pixel without a
    normal (no neighbour in its row or its column) gets the median of its map, or 1 if the map has no normals. The floor
    gives every observation some weight; it is small because noise far above the size of a pixel tilts all normals, and
    |n . r| is then about pixel size / noise.
    """

    floor: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise InputError(f"the floor is {self.floor}; give the cosine of an angle, from 0 to 1")

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The same stack with these weights, which need no check; zero where depth is unknown."""
        return stack.weighed(np.where(np.isnan(stack.depths), np.float32(0), self.weights(stack, backend)))

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        if stack.camera is None:
            raise InputError("geometric confidence needs rays; give the stack a camera: Stack(..., camera=...)")
        backend = backend or kernels.load("numpy")
        weights: WeightStack = backend.cosines(stack.depths, stack.camera.numbers)
        usual = [median if known else 1.0 for median, known in zip(*backend.medians(weights), strict=True)]
        stand_ins = backend.to_device(np.array(usual), np.float32) if not stack.on_host else np.array(usual, np.float32)
        for cosine, median in zip(chunks(weights), chunks(stand_ins[:, None, None]), strict=True):
            cosine[...] = np.where(np.isnan(cosine), median, cosine).clip(self.floor, 1.0)
        return weights
