"""Every observation counts the same."""

from dataclasses import dataclass

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.geometry import Stack


@dataclass(frozen=True)
class Uniform(Confidence):
    """w = 1 for every observation, whatever weights the stack came with."""

    def weights(self, stack: Stack) -> WeightStack:
        return np.ones(stack.depths.shape, np.float32)
