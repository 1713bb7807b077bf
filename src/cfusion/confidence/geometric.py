"""Confidence from the shape of each map: a surface seen at a grazing angle is trusted less."""

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap, Points, WeightMap, WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.errors import InputError
from cfusion.geometry import Camera, Stack, normals


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

    def weights(self, stack: Stack) -> WeightStack:
        if stack.camera is None:
            raise InputError("geometric confidence needs rays: give the stack its camera, Stack(..., camera=...)")
        rays = stack.camera.rays()
        return np.stack([self._of_map(depth, stack.camera, rays) for depth in stack.depths])

    def _of_map(self, depth: DepthMap, camera: Camera, rays: Points) -> WeightMap:
        cosine = np.abs(np.einsum("hwc,hwc->hw", normals(depth, camera), rays))
        defined = ~np.isnan(cosine)
        stand_in = np.median(cosine[defined]) if defined.any() else 1.0
        weight: WeightMap = np.where(defined, cosine, stand_in).clip(self.floor, 1.0).astype(np.float32)
        return weight
