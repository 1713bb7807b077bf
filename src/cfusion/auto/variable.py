"""The variable of the solve: depth, or inverse depth, and the weight of an observation in it.

The image of a plane is a plane in inverse depth, but a hyperbola in depth. Over a wide range of depths (a corridor, a
street) smoothing in depth bends it; over a narrow one both are alike, and edges cost less in depth. Noise that grows
with depth is divided out in both (`DepthNoise.weight`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import DepthMap
from cfusion.auto.surface import known_sample
from cfusion.geometry import Camera, Pinhole, Stack
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.one_pass import one_pass
from cfusion.solvers.task import Task

WIDE = 2.0  # ratio of the far decile of depth to the near one, from which the variable matters
MOST = 50.0  # largest factor on a weight, either way
SAMPLE = 10_000  # pixels from which the deciles are taken


@dataclass(frozen=True, eq=False)
class Weighing:
    """The weights of observations in either variable: the surface gives the depth of a pixel."""

    surface: DepthMap
    growth: DepthNoise
    noise: Floats | None = None  # (H, W) of an observation in the unit of depth, if it is known

    def __call__(self, stack: Stack, *, inverse: bool) -> Stack:
        """The stack with weights for a solve in depth, or in inverse depth."""
        numbers, law = self.growth.numbers, self.growth.law
        if law.even(inverse=inverse):
            return stack
        if stack.weights is None:
            return stack.weighed(_weights(stack.depths, self.surface, *numbers, law=law, inverse=inverse))
        return stack.weighed(_reweighed(stack.weights, self.surface, *numbers, law=law, inverse=inverse))

    def matters(self, task: Task) -> bool:
        """Whether a task can be solved in either variable, and the surface spans a range in which they differ."""
        return task.least > 0 and is_wide(self.surface, task.stack.camera, task.backend)


def is_wide(surface: DepthMap, camera: Camera | None, backend: Backend) -> bool:
    """Whether a perspective camera sees a surface over a range of depths in which depth and inverse depth differ."""
    if not isinstance(camera, Pinhole):
        return False
    known = known_sample(surface, SAMPLE, backend)
    if not known.size or known.min() <= 0:
        return False
    near, far = np.quantile(known, (0.1, 0.9))
    return bool(far > WIDE * near)


@one_pass
def _weights(depths: Floats, surface: DepthMap, *numbers: np.float32, law: DepthNoise, inverse: bool) -> Floats:
    out: Floats = np.where(np.isnan(depths), np.float32(0), _factor(surface, *numbers, law=law, inverse=inverse))
    return out


@one_pass
def _reweighed(weights: Floats, surface: DepthMap, *numbers: np.float32, law: DepthNoise, inverse: bool) -> Floats:
    out: Floats = weights * _factor(surface, *numbers, law=law, inverse=inverse)
    return out


@one_pass
def _factor(surface: DepthMap, *numbers: np.float32, law: DepthNoise, inverse: bool) -> Floats:
    """The weight (H, W) of an observation of the surface, within limits; one where the surface is unknown."""
    with np.errstate(divide="ignore", over="ignore"):
        weight = np.clip(law.at(*numbers).weight(surface, inverse=inverse), np.float32(1 / MOST), np.float32(MOST))
    out: Floats = np.where(np.isnan(weight), np.float32(1), weight).astype(np.float32)
    return out
