"""Confidence from the shape of each map: surfaces at grazing angles get less weight."""

from dataclasses import dataclass

import numpy as np

from cfusion import kernels
from cfusion.arrays import DepthStack, WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.one_pass import one_pass, rewrite


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
        return stack.weighed(_where_known(stack.depths, self.weights(stack, backend)))

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        if stack.camera is None:
            raise InputError("geometric confidence needs rays; give the stack a camera: Stack(..., camera=...)")
        backend = backend or kernels.load("numpy")
        weights: WeightStack = backend.cosines(stack.depths, stack.camera.numbers)
        usual = [median if known else 1.0 for median, known in zip(*backend.medians(weights), strict=True)]
        stand_ins = np.array(usual, np.float32)[:, None, None]
        rewrite(_completed, (weights,), weights, stand_ins, float(self.floor))
        return weights


@one_pass
def _completed(cosines: Floats, stand_ins: Floats, floor: float) -> Floats:
    """Cosines (K, H, W), or those of their map (K, 1, 1) where a pixel has none, at least the floor."""
    out: Floats = np.clip(np.where(np.isnan(cosines), stand_ins, cosines), floor, 1.0)
    return out


@one_pass
def _where_known(depths: DepthStack, weights: WeightStack) -> WeightStack:
    """Weights (K, H, W), zero where depth is unknown."""
    out: WeightStack = np.where(np.isnan(depths), np.float32(0), weights)
    return out
