"""Weights that follow the local noise: the Laplace scale around each observation, shrunk towards the whole stack's."""

from __future__ import annotations

import numpy as np

from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats


def local_weights(stack: Stack, depth: Floats, backend: Backend) -> Stack:
    """The stack with every observation weighed by how quiet its own map is around it, times the weight it came with."""
    return stack.weighed(backend.trust_locally(stack.depths, stack.weights, depth))


def mean_weight(stack: Stack) -> Floats:
    """(H, W) what an observation of the pixel is worth on average; zero where there is none."""
    assert stack.weights is not None
    count = np.maximum((stack.weights > 0).sum(axis=0), 1)
    out: Floats = stack.weights.sum(axis=0) / count
    return out
