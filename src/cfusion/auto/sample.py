"""A part of the image that stands for all of it: tiles side by side, a gap between them, for choices that are numbers.

Tiles lie on a lattice around the middle, one of `every` along rows and columns, so a mirrored image has mirrored
tiles. Within a tile nothing is left out: a fit has its neighbours, and blocks that are held out keep their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask

ENOUGH = 80_000  # observed pixels: choices on more are the same ones
TILE = 96  # pixels: three blocks of what is held out together


@dataclass(frozen=True, eq=False)
class Sample:
    """Where each pixel of the smaller image comes from, in the memory of a backend."""

    source: NDArray[np.int64]  # (h, w) pixel of the image, by rows
    gap: Mask  # (h, w) between tiles

    def stack(self, stack: Stack) -> Stack:
        """The stack's tiles."""
        weights = None if stack.weights is None else self._taken(stack.weights, 0.0)
        return Stack.unchecked(self._taken(stack.depths, float("nan")), weights, None, None)

    def plane(self, plane: Floats | None) -> Floats | None:
        """The tiles of a map (H, W); 1 between them."""
        return None if plane is None else self._taken(plane[None], 1.0)[0]

    def _taken(self, maps: Floats, between: float) -> Floats:
        """(n, h, w) of (n, H, W)."""
        taken: Floats = np.where(self.gap, np.float32(between), maps.reshape(len(maps), -1)[:, self.source])
        return taken


class Whole:
    """The image itself."""

    def stack(self, stack: Stack) -> Stack:
        """All of it."""
        return stack

    def plane(self, plane: Floats | None) -> Floats | None:
        """All of it."""
        return plane


def sample_of(observed: Mask, backend: Backend) -> Sample | Whole:
    """Tiles that hold about `ENOUGH` observed pixels of a mask (H, W); everything where it holds no more."""
    here = backend.to_host(observed)
    for every in range(ceil(int(here.sum()) / ENOUGH), 1, -1):
        source, gap = _side_by_side(here, every)
        if 2 * int(here.ravel()[source][~gap].sum()) >= ENOUGH:
            return Sample(backend.to_device(source, np.int64), backend.to_device(gap, np.bool_))
    return Whole()


def _side_by_side(observed: NDArray[np.bool_], every: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The tiles of the lattice that hold an observed pixel, as nearly in a square as they go."""
    down, across = (_starts(size) for size in observed.shape)
    corners = [
        (top, left)
        for i, top in down
        for j, left in across
        if (abs(i) + abs(j)) % every == 0 and observed[max(top, 0) : top + TILE, max(left, 0) : left + TILE].any()
    ]
    columns = ceil(sqrt(len(corners)))
    rows = ceil(len(corners) / max(columns, 1))
    height, width = observed.shape
    source = np.full((rows * (TILE + 1), columns * (TILE + 1)), -1, np.int64)
    steps = np.arange(TILE)
    for place, (top, left) in enumerate(corners):
        y, x = (top + steps)[:, None], (left + steps)[None, :]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        row, column = (each * (TILE + 1) for each in divmod(place, columns))
        source[row : row + TILE, column : column + TILE] = np.where(inside, y * width + x, -1)
    gap = source < 0
    return np.where(gap, 0, source), gap


def _starts(size: int) -> list[tuple[int, int]]:
    """(number, first pixel) of the tiles along an axis; number 0 is in the middle, and the first may begin outside."""
    first = (size - TILE) // 2
    around = ceil(max(first, 0) / TILE)
    return [(number, first + number * TILE) for number in range(-around, around + 1)]
