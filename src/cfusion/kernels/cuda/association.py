"""Projecting points onto a raster, on the device; results are in the memory of the input.

Maps may have a leading axis of views, which are then processed by the same few launches.
"""

from math import prod
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import all_ones, as_given, blocks_of, by_value, kernel, on_device, or_nothing
from cfusion.kernels.numpy.association import MARGIN

SOURCES = ("association.cu",)
THREADS, TILE = 256, 32


def splat_nearest(
    u: Floats, v: Floats, z: Floats, values: Floats | None, shape: tuple[int, int]
) -> tuple[Floats, Floats | None]:
    """As `Backend.splat_nearest`."""
    height, width = (np.int32(size) for size in shape)
    points, pixels = z.shape[-1], shape[0] * shape[1]
    maps = z.shape[:-1]
    views = prod(maps)
    places = [on_device(each, np.float64) for each in (u, v, z)]
    carried_by_points = None if values is None else on_device(values, np.float32)
    least, winner = all_ones((*maps, pixels), np.uint64), all_ones((*maps, pixels), np.uint32)  # no rank, and no point
    if points:
        grid, block = (blocks_of(points, THREADS), 1, views), (THREADS,)
        kernel(SOURCES, "least_depth")(grid, block, (*places, np.uint32(points), height, width, least))
        kernel(SOURCES, "first_point")(grid, block, (*places, np.uint32(points), height, width, least, winner))
    depth = cupy.empty((*maps, *shape), np.float32)
    carried = None if values is None else cupy.empty((*maps, *shape), np.float32)
    kernel(SOURCES, "gather")(
        (blocks_of(pixels, THREADS), 1, views),
        (THREADS,),
        (
            places[2],
            or_nothing(carried_by_points),
            winner,
            np.uint32(points),
            np.uint32(pixels),
            depth,
            or_nothing(carried),
        ),
    )
    return as_given(depth, z), None if carried is None else as_given(carried, z)


def close_mask(mask: Any, radius: int) -> Any:
    """As `Backend.close_mask`: a dilation of the mask, then one of its complement."""
    closed = on_device(mask, np.bool_)
    for wanted in (True, False):
        closed = _grow(closed, wanted, radius)
    return as_given(closed, mask)


def _grow(mask: Any, wanted: bool, radius: int) -> Any:
    """The mask with every pixel that is `wanted` grown to a disc."""
    height, width = mask.shape[-2:]
    across, grown = cupy.empty(mask.shape, np.int32), cupy.empty(mask.shape, np.bool_)
    grid, block = (blocks_of(width, THREADS), height, prod(mask.shape[:-2])), (THREADS,)
    sizes = (np.bool_(wanted), np.int32(radius), np.int32(height), np.int32(width))
    kernel(SOURCES, "look_across")(grid, block, (mask, *sizes, across))
    kernel(SOURCES, "look_along")(grid, block, (across, *sizes, grown))
    return grown


def local_depth_range(depth: Floats, radius: int) -> Floats:
    """As `Backend.local_depth_range`."""
    known = on_device(depth, np.float32)
    height, width = known.shape
    out = cupy.empty(known.shape, np.float32)
    sizes = (np.int32(radius), np.int32(height), np.int32(width))
    grid, room = (blocks_of(width, TILE), blocks_of(height, TILE)), 8 * TILE * (TILE + 2 * radius)
    kernel(SOURCES, "relief")(grid, (THREADS,), (known, *sizes, out), shared_mem=room)
    return as_given(out, depth)


def fill_natural(depth: Floats, region: Any) -> Floats:
    """As `Backend.fill_natural`; all cells lend in parallel, in integers."""
    known, inside = on_device(depth, np.float32), on_device(region, np.bool_)
    height, width = (size + 2 * MARGIN for size in known.shape[-2:])
    maps = known.shape[:-2]
    views = prod(maps)
    raster = by_value(np.array([height, width, MARGIN], np.int32))
    rise, fall, reach, to_wanted, counted = cupy.empty((5, *maps, height, width), np.int32)
    columns, cells = (blocks_of(width, 32), 1, views), (blocks_of(width, THREADS), height, views)
    up, down = cupy.empty((2, *maps, height, width), np.int32)  # to wanted pixels
    for wanted, above, below, limit, distance in (
        (False, rise, fall, None, reach),
        (True, up, down, reach, to_wanted),  # no cell lends further than that
    ):
        kernel(SOURCES, "rise_and_fall")(columns, (1024,), (known, inside, np.bool_(wanted), raster, above, below))
        kernel(SOURCES, "squared_distance")(cells, (THREADS,), (above, below, or_nothing(limit), raster, distance))
    kernel(SOURCES, "count_wanted")((blocks_of(height, 4), 1, views), (128,), (known, inside, raster, counted))
    largest, pixels = cupy.zeros((*maps, 1), np.uint32), known.shape[-2] * known.shape[-1]
    kernel(SOURCES, "find_largest")((64, 1, views), (THREADS,), (known, np.uint32(pixels), largest))
    total = cupy.zeros((*maps, height, width + 1), np.uint64)
    shares = cupy.zeros((*maps, height, width + 1), np.int32)
    kernel(SOURCES, "lend")(
        cells, (THREADS,), (known, rise, fall, reach, to_wanted, counted, raster, largest, total, shares)
    )
    filled = cupy.empty(known.shape, np.float32)
    kernel(SOURCES, "take_mean")(
        (blocks_of(known.shape[-2], 4), 1, views), (128,), (known, inside, raster, largest, total, shares, filled)
    )
    return as_given(filled, depth)
