"""A part of the image that represents all of it: tiles side by side with a margin between them, for choosing numbers.

Tiles are spread evenly, with equal numbers on either side of the image's middle, so a mirrored image has mirrored
tiles. Tiles are complete: a fit has its neighbours, and held-out blocks keep their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from cfusion.arrays import on_host
from cfusion.geometry import Stack
from cfusion.kernels.contract import Backend, Floats, Mask, Window

ENOUGH = 80_000  # observed pixels: more do not change the choices
FEWEST = 3  # a third of that is sufficient
TILE = 96  # pixels: three held-out blocks


@dataclass(frozen=True, eq=False)
class Sample:
    """Tiles of an image side by side; on a device, the origin of each pixel as well."""

    tiles: list[tuple[Window, Window]]  # in the image, and in the smaller one
    shape: tuple[int, int]  # of the smaller one
    origins: tuple[NDArray[np.int64], Mask] | None  # (h, w) each: flat index in the image, and which lie between tiles

    def stack(self, stack: Stack) -> Stack:
        """The tiles of a stack."""
        weights = None if stack.weights is None else self._taken(stack.weights, 0.0)
        return Stack.unchecked(self._taken(stack.depths, float("nan")), weights, None, None)

    def plane(self, plane: Floats) -> Floats:
        """The tiles of a map (H, W); 1 between them."""
        taken: Floats = self._taken(plane[None], 1.0)[0]
        return taken

    def _taken(self, maps: Floats, between: float) -> Floats:
        """(n, h, w) from (n, H, W)."""
        if self.origins is None:
            taken = np.full((len(maps), *self.shape), between, maps.dtype)
            for (rows, columns), (to_rows, to_columns) in self.tiles:
                taken[:, to_rows, to_columns] = maps[:, rows, columns]
            return taken
        # row by row; indexing would change the memory layout
        source, gap = self.origins
        there = np.take(maps.reshape(len(maps), -1), source, axis=1)
        filled: Floats = np.where(gap, np.float32(between), there)
        return filled


class Whole:
    """The whole image as its own sample."""

    def stack(self, stack: Stack) -> Stack:
        """The stack itself."""
        return stack

    def plane(self, plane: Floats) -> Floats:
        """The map itself."""
        return plane


def sample_of(observed: Mask, backend: Backend, apart: int = 1) -> Sample | Whole:
    """Tiles that hold about `ENOUGH` observed pixels of a mask (H, W); the whole image if it holds no more.

    They are so many pixels `apart`: more than a fit reaches.
    """
    here = backend.to_host(observed)
    every = ceil(int(np.count_nonzero(here)) / ENOUGH)
    while every > 1:
        tiles = _tiles(here.shape, every)
        if len(tiles) * TILE**2 >= here.size:
            break
        held = [int(np.count_nonzero(here[tile])) for tile in tiles]
        if FEWEST * sum(held) >= ENOUGH:
            used = [tile for tile, count in zip(tiles, held, strict=True) if count]
            placed, shape = _side_by_side(used, here.shape, apart)
            if on_host(observed):
                return Sample(placed, shape, None)
            source, gap = _origins(tuple(map(_corners, placed)), shape, here.shape[1])
            return Sample(placed, shape, (backend.to_device(source, np.int64), backend.to_device(gap, np.bool_)))
        every //= 2  # the observed pixels lie between the tiles
    return Whole()


def _tiles(shape: tuple[int, ...], every: int) -> list[Window]:
    """One of `every` tiles, in evenly spaced rows and columns, including the middle ones."""
    down, across = (_starts(size) for size in shape)
    furthest = [ceil(len(each) / 3) for each in (down, across)]  # at least three
    rows = min(max(round(sqrt(every)), 1), furthest[0])
    columns = min(ceil(every / rows), furthest[1])
    rows = min(ceil(every / columns), furthest[0])
    return [
        (slice(max(top, 0), min(top + TILE, shape[0])), slice(max(left, 0), min(left + TILE, shape[1])))
        for i, top in down
        for j, left in across
        if i % rows == 0 and j % columns == 0
    ]


def _side_by_side(
    tiles: list[Window], shape: tuple[int, ...], apart: int
) -> tuple[list[tuple[Window, Window]], tuple[int, int]]:
    """The tiles, each with its place in a smaller image, nearly a square, and the shape of that image."""
    high, wide = (min(TILE, size) + apart for size in shape)
    columns = max(1, min(len(tiles), round(sqrt(len(tiles) * high / wide))))
    placed = []
    for place, (down, across) in enumerate(tiles):
        row, column = place // columns * high, place % columns * wide
        there = slice(row, row + down.stop - down.start), slice(column, column + across.stop - across.start)
        placed.append(((down, across), there))
    return placed, (ceil(len(tiles) / columns) * high, columns * wide)


def _corners(tile: tuple[Window, Window]) -> tuple[int, ...]:
    """First row and column of a tile, in the image and in the smaller one, and its size."""
    (rows, columns), (to_rows, to_columns) = tile
    return (
        *(rows.start, columns.start, to_rows.start, to_columns.start),
        *(rows.stop - rows.start, columns.stop - columns.start),
    )


@lru_cache(maxsize=8)  # the same for every bundle of a sequence, and the pages of such arrays take a millisecond
def _origins(
    tiles: tuple[tuple[int, ...], ...], shape: tuple[int, int], width: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(h, w) each: index of the pixel in an image of that width, and whether there is none."""
    source = np.full(shape, -1, np.int64)
    for top, left, to_top, to_left, high, wide in tiles:
        y, x = np.arange(top, top + high)[:, None], np.arange(left, left + wide)[None, :]
        source[to_top : to_top + high, to_left : to_left + wide] = y * width + x
    gap = source < 0
    origins = np.where(gap, 0, source)
    for each in (origins, gap):
        each.setflags(write=False)
    return origins, gap


def _starts(size: int) -> list[tuple[int, int]]:
    """(number, first pixel) of the tiles along an axis; number 0 is in the middle, and the first may begin outside."""
    first = (size - TILE) // 2
    around = ceil(max(first, 0) / TILE)
    return [(number, first + number * TILE) for number in range(-around, around + 1)]
