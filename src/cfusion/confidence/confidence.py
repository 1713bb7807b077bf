"""What a confidence is: a rule that weighs a stack; products of rules are rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.geometry import Stack


class Confidence(ABC):
    """A rule that gives every observation of a stack its weight; calling it returns the stack so weighed."""

    @abstractmethod
    def weights(self, stack: Stack) -> WeightStack:
        """(K, H, W), >= 0; the value where depth is unknown does not matter."""

    def __call__(self, stack: Stack) -> Stack:
        """The same stack with these weights instead of its own; zero where depth is unknown."""
        return replace(stack, weights=np.ascontiguousarray(self.weights(stack), np.float32))

    def __mul__(self, other: Confidence) -> Product:
        return Product((*_factors(self), *_factors(other)))


@dataclass(frozen=True)
class Product(Confidence):
    """Several rules at once: w = product of the w of each, all of them looking at the same stack."""

    factors: tuple[Confidence, ...]

    def weights(self, stack: Stack) -> WeightStack:
        product = np.ones(stack.depths.shape, np.float32)
        for factor in self.factors:
            product *= factor.weights(stack)
        return product


def _factors(confidence: Confidence) -> tuple[Confidence, ...]:
    return confidence.factors if isinstance(confidence, Product) else (confidence,)
