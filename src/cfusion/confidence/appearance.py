"""Confidence from the reference image: depth edges are likely at image edges, where data should outweigh smoothness."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from cfusion.arrays import WeightStack
from cfusion.confidence.confidence import Confidence
from cfusion.confidence.edges import blur, gradient, grey
from cfusion.errors import InputError
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend


@dataclass(frozen=True)
class Appearance(Confidence):
    """w = max(floor, alpha |G_sigma * grad I|^beta) of the reference image I, the same for every map.

    As in the paper it weighs the fidelity, not the regulariser (see edges.py for that). Without a floor, data in flat
    parts of the image have no weight.
    """

    alpha: float = 1.0
    beta: float = 1.0
    sigma: float = 2.0  # pixels: width of the region around an edge
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("alpha", "> 0"), ("beta", "> 0"), ("sigma", ">= 0"), ("floor", ">= 0")):
            value = getattr(self, name)
            if not isfinite(value) or value < 0 or (least == "> 0" and value == 0):
                raise InputError(f"{name} is {value}; give a finite number {least}")

    def weights(self, stack: Stack, backend: Backend | None = None) -> WeightStack:
        if stack.image is None:
            raise InputError("appearance confidence needs the reference image: give that view an image")
        along_x, along_y = (blur(part, self.sigma) for part in gradient(grey(stack.image)))
        weight = np.maximum(self.floor, self.alpha * np.hypot(along_x, along_y) ** self.beta)
        return np.ones_like(stack.depths) * np.asarray(weight, np.float32, like=stack.depths)
