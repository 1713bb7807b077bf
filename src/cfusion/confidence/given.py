"""The confidence that came with the views."""

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.geometry import Stack


@dataclass(frozen=True)
class Given(Confidence):
    """w = the stack's own weights, 1 for a stack without."""

    def weights(self, stack: Stack) -> WeightStack:
        return np.ones(stack.depths.shape, np.float32) if stack.weights is None else stack.weights

    def __call__(self, stack: Stack) -> Stack:
        """The stack as it is."""
        return stack
