"""Equal weights for all observations."""

from dataclasses import dataclass, replace

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


@dataclass(frozen=True)
class Uniform(Confidence):
    """w = 1 for every observation, whatever the stack's weights."""

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        return np.ones_like(stack.depths)

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The stack without weights, which kernels treat as ones."""
        return replace(stack, weights=None)
