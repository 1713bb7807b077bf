"""Every observation counts the same."""

from dataclasses import dataclass, replace

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.geometry import Stack


@dataclass(frozen=True)
class Uniform(Confidence):
    """w = 1 for every observation, whatever weights the stack came with."""

    def weights(self, stack: Stack) -> WeightStack:
        return np.ones(stack.depths.shape, np.float32)

    def __call__(self, stack: Stack) -> Stack:
        """The stack without weights: kernels need none when all are one."""
        return replace(stack, weights=None)
