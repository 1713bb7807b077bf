"""What a solve starts from, on the device; definitions in `cfusion.kernels.reference.preparing`."""

from __future__ import annotations

from math import sqrt
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats, State, dual_planes, primal_planes
from cfusion.kernels.cuda.device import Desk, as_given, blocks_of, desk, kernel, on_device, or_nothing, real_define
from cfusion.kernels.cuda.selecting import medians
from cfusion.kernels.reference.preparing import RADIUS, RANGE, slope_stride

SOURCES = ("reduce.cuh", "preparing.cu")
BLOCK, THREADS, TILE, SUMS = (32, 8), 256, 32, 5
ROUNDS, CARRY_TILE = 6, 32  # of carrying, before looking whether that was enough; pixels of a tile


def links_of(domain: Any) -> Any:
    """As `contract.links_of`."""
    height, width = domain.shape
    links = cupy.empty(domain.shape, np.uint16)
    _kernel("link_pixels")(
        _grid(height, width), BLOCK, (cupy.ascontiguousarray(domain), np.int32(height), np.int32(width), links)
    )
    return links


def counts(depths: Floats, weights: Floats | None) -> Any:
    """As `Backend.counts`."""
    out, pixels = cupy.empty(depths.shape[1:], np.int32), depths[0].size
    arrays = (cupy.ascontiguousarray(depths), or_nothing(None if weights is None else cupy.ascontiguousarray(weights)))
    _kernel("count_seen")(
        (blocks_of(pixels, THREADS),), (THREADS,), (*arrays, np.int32(len(depths)), np.uint32(pixels), out)
    )
    return out


def window_of(domain: Any) -> tuple[slice, slice] | None:
    """As `Backend.window_of`."""
    sums, sizes = desk(), (np.uint32(domain.size), np.uint32(domain.shape[1]))
    _kernel("extent")((Desk.BLOCKS,), (Desk.THREADS,), (on_device(domain, np.bool_), *sizes, sums.argument))
    top, bottom, left, right = (int(end) for end in sums.read(4))
    return None if top > domain.shape[0] else (slice(top, 1 - bottom), slice(left, 1 - right))


def range_of(depths: Floats, weights: Floats | None) -> tuple[float, float]:
    """As `Backend.range_of`."""
    sums = desk()
    _kernel("range", real_define(depths))(
        (Desk.BLOCKS,), (Desk.THREADS,), (depths, or_nothing(weights), np.uint64(depths.size), sums.argument)
    )
    low, high = sums.read(2)
    return low, -high


def begin(start: Floats, links: Any, order: int) -> State:
    """As `Backend.begin`."""
    (height, width), real = start.shape, start.dtype
    start = cupy.ascontiguousarray(start)
    state = State(
        cupy.zeros((primal_planes(order), height, width), real), cupy.zeros((dual_planes(order), height, width), real)
    )
    if order == 1:
        state.primal[0] = start
        return state
    every = slope_stride(start.size)
    rows, columns = blocks_of(height, every), blocks_of(width, every)
    sample = cupy.empty((2, rows * columns), np.float32)
    sizes = tuple(np.int32(size) for size in (every, height, width, rows, columns))
    _kernel("sample_slopes", real_define(start))(
        (blocks_of(rows * columns, THREADS),), (THREADS,), (start, links, *sizes, sample)
    )
    slopes, known = medians(sample)
    across, down = (real.type(slope if count else 0) for slope, count in zip(slopes, known, strict=True))
    _kernel("begin", real_define(start))(
        (blocks_of(start.size, THREADS),),
        (THREADS,),
        (start, links, across, down, np.uint32(start.size), state.primal),
    )
    return state


def gain(x: Floats, other: Floats, held: Floats, weights: Floats) -> tuple[float, float]:
    """As `Backend.gain`, in one pass."""
    sums = desk()
    arrays = [cupy.ascontiguousarray(each) for each in (x, other, held, weights)]
    _kernel("gain", real_define(x))(
        (Desk.BLOCKS,), (Desk.THREADS,), (*arrays, np.int32(len(held)), np.uint64(x.size), sums.argument)
    )
    total, first, of_weights, mixed, second = sums.read(5)
    total = max(total, 1e-300)
    mean = first / total
    return mean, sqrt(max(second - 2 * mean * mixed + mean * mean * of_weights, 0.0)) / total


def carry(median: Floats, observed: Any, inside: Any) -> Floats:
    """As `Backend.carry`: some rounds at a time, each tile on its own."""
    height, width = median.shape
    values, known = cupy.ascontiguousarray(median), cupy.ascontiguousarray(observed)
    domain, sizes = cupy.ascontiguousarray(inside), (np.int32(height), np.int32(width))
    grid = blocks_of(width, CARRY_TILE), blocks_of(height, CARRY_TILE)
    while True:
        found = cupy.zeros(2, np.uint32)
        then, then_known = cupy.empty_like(values), cupy.empty_like(known)
        _kernel("carry", real_define(values))(
            grid, (THREADS,), (values, known, domain, *sizes, then, then_known, found)
        )
        values, known = then, then_known
        reached, left = cupy.asnumpy(found)
        if left == 0 or reached == 0:
            return values


def trust_locally(depths: Floats, weights: Floats | None, depth: Floats) -> Floats:
    """As `Backend.trust_locally`."""
    lent, depths, depth = depths, on_device(depths, np.float32), on_device(depth, np.float32)
    given = None if weights is None else on_device(weights, np.float32)
    views, height, width = depths.shape
    down, across, pixels = blocks_of(height, TILE), blocks_of(width, TILE), height * width
    pooled, amounts = cupy.empty(depths.shape, np.float32), cupy.empty(depths.shape, np.uint8)
    parts, totals = cupy.empty((views, down * across, SUMS)), cupy.empty((views, SUMS))
    seen = (depths, or_nothing(given), depth)
    _kernel("pool")(
        (across, down, views), (THREADS,), (*seen, np.int32(height), np.int32(width), pooled, amounts, parts)
    )
    _kernel("gather_parts")((views,), (THREADS,), (parts, np.int32(down * across), totals))
    out = cupy.empty(depths.shape, np.float32)
    bounds = (np.int32(views), np.uint32(pixels), np.float64(RANGE[0]), np.float64(RANGE[1]))
    _kernel("trust")((blocks_of(pixels, THREADS), views), (THREADS,), (*seen, pooled, amounts, totals, *bounds, out))
    trusted: Floats = as_given(out, lent)
    return trusted


def _kernel(name: str, real: str = "REAL=float") -> Any:
    return kernel(SOURCES, name, defines(real))


def defines(real: str = "REAL=float") -> tuple[str, ...]:
    """What these kernels are compiled for."""
    return real, f"RADIUS={RADIUS}", f"ROUNDS={ROUNDS}", f"CARRY_TILE={CARRY_TILE}"


def _grid(height: int, width: int) -> tuple[int, int]:
    return blocks_of(width, BLOCK[0]), blocks_of(height, BLOCK[1])
