"""Tiles of a mosaic: cores that partition it, and halos that are read around them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cfusion.errors import InputError

SMALLEST_TILE = 32


@dataclass(frozen=True, order=True)
class Tile:
    """A tile of an image (height, width), given by its core."""

    top: int
    left: int
    bottom: int
    right: int
    height: int
    width: int

    @property
    def core(self) -> tuple[slice, slice]:
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def with_halo(self, halo: int) -> tuple[slice, slice]:
        """The core with `halo` pixels around it, clipped to the image."""
        rows = slice(max(0, self.top - halo), min(self.height, self.bottom + halo))
        return rows, slice(max(0, self.left - halo), min(self.width, self.right + halo))

    def core_in(self, window: tuple[slice, slice]) -> tuple[slice, slice]:
        """The core's place in a window that contains it."""
        rows, columns = window
        return (
            slice(self.top - rows.start, self.bottom - rows.start),
            slice(self.left - columns.start, self.right - columns.start),
        )


def tiles(height: int, width: int, side: int) -> tuple[Tile, ...]:
    """Cores of about `side` pixels that partition the image, row by row."""
    if side != int(side) or side < SMALLEST_TILE:
        raise InputError(f"--tile is {side}; give the side of a tile in pixels, at least {SMALLEST_TILE}")
    return tuple(
        Tile(top, left, bottom, right, height, width)
        for top, bottom in _cuts(height, side)
        for left, right in _cuts(width, side)
    )


def blocks(height: int, width: int, side: int) -> tuple[Tile, ...]:
    """The image cut at multiples of `side`, like the blocks inside files: none of those is written twice."""
    return tuple(
        Tile(top, left, min(top + side, height), min(left + side, width), height, width)
        for top in range(0, height, side)
        for left in range(0, width, side)
    )


def _cuts(size: int, side: int) -> Iterator[tuple[int, int]]:
    """Equal parts, none much longer than `side`."""
    count = max(1, round(size / side))
    edges = np.linspace(0, size, count + 1).round().astype(int).tolist()
    yield from zip(edges[:-1], edges[1:], strict=True)
