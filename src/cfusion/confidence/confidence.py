"""A confidence is a rule that weighs a stack; products of rules are rules. The two simplest: equal, and as given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


class Confidence(ABC):
    """A rule that gives every observation of a stack a weight; calling it returns the weighted stack."""

    @abstractmethod
    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        """Weights (K, H, W) >= 0, computed by the backend if given; values at unknown depths are ignored."""

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The same stack with these weights instead of its own; zero where depth is unknown."""
        return replace(stack, weights=self.weights(stack, backend))

    def __mul__(self, other: Confidence) -> Product:
        return Product((*_factors(self), *_factors(other)))


@dataclass(frozen=True)
class Product(Confidence):
    """The product of several rules: w = product of the w of each, all for the same stack."""

    factors: tuple[Confidence, ...]

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        product = np.ones_like(stack.depths)
        for factor in self.factors:
            product *= factor.weights(stack, backend)
        return product


@dataclass(frozen=True)
class Uniform(Confidence):
    """w = 1 for every observation, whatever the stack's weights."""

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        return np.ones_like(stack.depths)

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The stack without weights, which kernels treat as ones."""
        return replace(stack, weights=None)


@dataclass(frozen=True)
class Given(Confidence):
    """w = the stack's own weights; 1 for a stack without."""

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        return np.ones_like(stack.depths) if stack.weights is None else stack.weights

    def __call__(self, stack: Stack, *, backend: Backend | None = None) -> Stack:
        """The unchanged stack."""
        return stack


def _factors(confidence: Confidence) -> tuple[Confidence, ...]:
    return confidence.factors if isinstance(confidence, Product) else (confidence,)
