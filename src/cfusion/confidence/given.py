"""The confidence that the views came with."""

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


@dataclass(frozen=True)
class Given(Confidence):
    """w = the stack's own weights; 1 for a stack without."""

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        return np.ones_like(stack.depths) if stack.weights is None else stack.weights

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The unchanged stack."""
        return stack
