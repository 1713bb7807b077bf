"""Every observation counts the same."""

from dataclasses import dataclass, replace

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


@dataclass(frozen=True)
class Uniform(Confidence):
    """w = 1 for every observation, whatever weights the stack came with."""

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        return np.ones_like(stack.depths)

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The stack without weights: kernels need none when all are one."""
        return replace(stack, weights=None)
