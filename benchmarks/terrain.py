"""Ground of any size with houses, made window by window: every height is a function of its own row and column.

height = sum over octaves of smooth value noise, amplitude in proportion to the wavelength^1.2, and houses, at most one
in every cell of 64 pixels: flat roofs, walls that are steps
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OCTAVES = (1024, 512, 256, 128, 64, 32, 16)  # pixels, wavelengths
RELIEF = 40.0  # metres, of the longest
POWER = 1.2
CELL = 64  # pixels, of a house and its garden

Doubles = NDArray[np.float64]


def terrain(rows: slice, columns: slice, seed: int = 0) -> NDArray[np.float32]:
    """Heights (h, w) of a window."""
    row, column = np.arange(rows.start, rows.stop), np.arange(columns.start, columns.stop)
    heights = np.zeros((row.size, column.size))
    for number, length in enumerate(OCTAVES):
        amplitude = RELIEF * (length / OCTAVES[0]) ** POWER
        heights += amplitude * _value_noise(row, column, length, seed + number)
    return (heights + _houses(row, column, seed)).astype(np.float32)


def houses(rows: slice, columns: slice, seed: int = 0) -> NDArray[np.float32]:
    """What houses add to the heights (h, w) of a window."""
    return _houses(np.arange(rows.start, rows.stop), np.arange(columns.start, columns.stop), seed).astype(np.float32)


def _value_noise(row: NDArray[np.int64], column: NDArray[np.int64], length: int, seed: int) -> Doubles:
    """Smooth between random numbers on a lattice."""
    top, left = row // length, column // length
    v, u = (row % length) / length, (column % length) / length
    v, u = v * v * v * (v * (6 * v - 15) + 10), u * u * u * (u * (6 * u - 15) + 10)
    corners = [[_at(top + i, left + j, seed) for j in (0, 1)] for i in (0, 1)]
    upper = corners[0][0] * (1 - u) + corners[0][1] * u
    lower = corners[1][0] * (1 - u) + corners[1][1] * u
    return upper * (1 - v)[:, None] + lower * v[:, None]


def _houses(row: NDArray[np.int64], column: NDArray[np.int64], seed: int) -> Doubles:
    """What houses add to the ground."""
    top, left = row // CELL, column // CELL
    built = _at(top, left, seed + 100) > -0.2
    height = 5.5 + 2.5 * _at(top, left, seed + 101)
    v, u = (row % CELL)[:, None], (column % CELL)[None, :]
    first_row = 6 + 10 * (1 + _at(top, left, seed + 102)) / 2
    first_column = 6 + 10 * (1 + _at(top, left, seed + 103)) / 2
    rows = 8 + 28 * (1 + _at(top, left, seed + 104)) / 2
    columns = 8 + 28 * (1 + _at(top, left, seed + 105)) / 2
    inside = (v >= first_row) & (v < first_row + rows) & (u >= first_column) & (u < first_column + columns)
    return np.where(built & inside, height, 0.0)


def _at(row: NDArray[np.int64], column: NDArray[np.int64], seed: int) -> Doubles:
    """(h, w) numbers of places on a lattice, each made once; rows and columns ascend."""
    down, along = np.arange(row[0], row[-1] + 1), np.arange(column[0], column[-1] + 1)
    return _random(down, along, seed)[np.ix_(row - row[0], column - column[0])]


def _random(row: NDArray[np.int64], column: NDArray[np.int64], seed: int) -> Doubles:
    """(h, w) numbers from -1 to 1, by hashing (splitmix64)."""
    with np.errstate(over="ignore"):
        key = row.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15)
        key = (
            key ^ (column.astype(np.uint64)[None, :] * np.uint64(0xC2B2AE3D27D4EB4F)) ^ np.uint64(seed * 0x165667B1 + 1)
        )
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)
        key ^= key >> np.uint64(31)
    return (key >> np.uint64(11)).astype(np.float64) / 2**52 - 1
