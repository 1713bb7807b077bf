"""Boxes of several sizes and contrasts in one depth map, which demonstrate the scale space."""

from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import DepthMap, Mask
from cfusion.errors import InputError

CHEEGER_OF_UNIT_SQUARE = 2 + sqrt(pi)
SURVIVES = 0.5  # share of the contrast that must remain in the middle of the box


@dataclass(frozen=True)
class Box:
    """A square of `side` pixels whose depth differs from the background by `contrast`."""

    side: int
    row: int  # of the upper left corner
    column: int
    contrast: float

    def __post_init__(self) -> None:
        if self.side < 1 or self.row < 0 or self.column < 0 or self.contrast == 0:
            raise InputError(f"a box needs a positive side, a place in the image and a contrast, not {self}")

    def mask(self, shape: tuple[int, int]) -> Mask:
        """Mask of its pixels."""
        inside = np.zeros(shape, np.bool_)
        inside[self.row : self.row + self.side, self.column : self.column + self.side] = True
        return inside

    def retained(self, depth: NDArray[Any], background: float) -> float:
        """The share of the contrast that remains: the median over the middle half of the box."""
        margin = self.side // 4
        rows = slice(self.row + margin, self.row + self.side - margin)
        columns = slice(self.column + margin, self.column + self.side - margin)
        return float(np.median(depth[rows, columns]) - background) / self.contrast

    def should_survive(self, confidence: float) -> bool:
        """Whether TV-L1 with weight 1 keeps the box: confidence > (2 + sqrt(pi)) / side, the square's Cheeger constant.

        Below, the box costs less than its perimeter and is removed, whatever its contrast.
        """
        return confidence > CHEEGER_OF_UNIT_SQUARE / self.side


@dataclass(frozen=True)
class Regions:
    """A confidence with one value inside a box (counted from 1) and another elsewhere."""

    box: int
    inside: float
    elsewhere: float

    def __post_init__(self) -> None:
        if self.box < 1 or not (self.inside > 0 and self.elsewhere > 0):
            raise InputError(f"confidence by regions needs a box (from 1) and positive values, not {self}")

    def at(self, box: int) -> float:
        """The confidence of a box, counted from 1."""
        return self.inside if box == self.box else self.elsewhere


def draw(shape: tuple[int, int], background: float, boxes: tuple[Box, ...]) -> DepthMap:
    """The depth map with the boxes in it."""
    depth = np.full(shape, background, np.float32)
    for box in boxes:
        if box.row + box.side > shape[0] or box.column + box.side > shape[1]:
            raise InputError(f"{box} does not fit into an image of {shape[1]} x {shape[0]} pixels")
        depth[box.mask(shape)] = background + box.contrast
    return depth
