"""Confidence from the shape of each map: a surface seen at a grazing angle is trusted less."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cfusion import kernels
from cfusion.arrays import WeightMap, WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


@dataclass(frozen=True)
class Geometric(Confidence):
    """w = max(floor, |n . r|): the cosine between the normal of each reprojected map and its viewing ray.

    The normal n comes from back-projected points, so w does not depend on the unit of depth. Where a pixel
    has no normal (no neighbour in its row or its column) its map's median stands in: neither more nor less
    trusted than the rest; 1 where the map has no normal at all. The floor keeps every observation in play,
    and is small because noise far above the size of a pixel tilts all normals: |n . r| is then around
    pixel size / noise.
    """

    floor: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise InputError(f"the floor is {self.floor}; it is the cosine of an angle, from 0 to 1")

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        if stack.camera is None:
            raise InputError("geometric confidence needs rays: give the stack its camera, Stack(..., camera=...)")
        weights: WeightStack = (backend or kernels.load("reference")).cosines(stack.depths, stack.camera.numbers)
        defined = np.sum(~np.isnan(weights), axis=(1, 2)).tolist()
        for cosine, count in zip(weights, defined, strict=True):
            cosine[...] = np.where(np.isnan(cosine), _median(cosine, count), cosine).clip(self.floor, 1.0)
        return weights


def _median(cosine: WeightMap, count: int) -> Any:
    """Of the `count` values that are known, where they lie; 1 where there are none."""
    if count == 0:
        return 1.0
    low, high = (count - 1) // 2, count // 2
    ordered = np.partition(cosine.ravel(), [low, high])  # NaN comes last
    return (ordered[low] + ordered[high]) / 2
