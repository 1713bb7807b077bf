"""Array functions of a depth map, for arrays on the host and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from cfusion.arrays import stride_for
from cfusion.kernels.contract import Backend, Floats
from cfusion.kernels.depth_noise import DepthNoise, unit_of
from cfusion.kernels.one_pass import one_pass
from cfusion.kernels.tracing import neighbour, row_and_column

BESIDE = ((1, 0), (-1, 0), (0, 1), (0, -1))  # (rows down, columns right) of the four neighbours
AROUND = (*BESIDE, (1, 1), (1, -1), (-1, 1), (-1, -1))


def known_sample(values: Floats, most: int, backend: Backend) -> Floats:
    """About so many of the known values of a map (H, W), evenly spread, in NumPy's memory."""
    every = stride_for(values.size, most)
    sample = backend.to_host(values[::every, ::every])
    known: Floats = sample[np.isfinite(sample)]
    return known


def steps(surface: Floats) -> tuple[Floats, Floats]:
    """(H, W) each: the differences to the lower and to the right neighbour, NaN where there is none."""
    return neighbour(surface, 1, 0, np.nan) - surface, neighbour(surface, 0, 1, np.nan) - surface


def local_slope(surface: Floats, growth: DepthNoise) -> Floats:
    """The largest change (H, W) to a known neighbour in the unit of the noise, NaN where the surface is unknown."""
    return _local_slope(surface, *growth.numbers, law=growth.law)


@one_pass
def _local_slope(surface: Floats, *numbers: np.float32, law: DepthNoise) -> Floats:
    out = np.where(np.isnan(surface), np.float32(np.nan), np.float32(0))
    for down, right in BESIDE:
        out = np.maximum(out, np.nan_to_num(np.abs(neighbour(surface, down, right, np.nan) - surface)))
    return out if law.even(inverse=False) else out / unit_of(surface, *numbers, law=law)


def alike_around(depth: Floats, limit: Floats) -> Any:
    """How many of its eight neighbours are within the limit (H, W) of a depth (H, W)."""
    same: Any = np.float32(0)
    for down, right in AROUND:
        same = same + (np.abs(neighbour(depth, down, right, np.nan) - depth) <= limit)
    return same


def nearest_around(surface: Floats) -> Floats:
    """The least known depth (H, W) of a surface within a pixel, NaN where it is unknown itself."""
    nearest = surface
    for down, right in AROUND:
        beside = neighbour(surface, down, right, np.nan)
        nearest = np.where(beside < nearest, beside, nearest)
    return nearest


@one_pass
def count_known(values: Floats) -> Any:
    """How many of the values are not NaN."""
    return (~np.isnan(values)).sum()


@one_pass
def blend(surface: Floats, found: Floats, share: float) -> Floats:
    """surface + share (found - surface) where both are known, `found` elsewhere."""
    both = ~np.isnan(surface) & ~np.isnan(found)
    out: Floats = np.where(both, surface + share * (found - surface), found)
    return out


@one_pass
def or_else(surface: Floats, other: Floats) -> Floats:
    """The surface (H, W), or the other where it is unknown."""
    return np.where(np.isnan(surface), other, surface)


@one_pass
def add_plane(depth: Floats, down: float, right: float) -> Floats:
    """depth + down * row + right * column, (H, W)."""
    rows, columns = row_and_column(depth)
    out: Floats = depth + (rows * down + columns * right)
    return out


@one_pass
def shown(values: Floats) -> Floats:
    """1 where values (H, W) are known and 0 elsewhere."""
    out: Floats = (~np.isnan(values)).astype(np.float32)
    return out


@one_pass
def where_known(depth: Floats, values: Floats) -> Floats:
    """Values (H, W) where the depth is known, NaN elsewhere."""
    return np.where(np.isnan(depth), np.float32(np.nan), values)
