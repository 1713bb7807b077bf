"""Preparation of a solve, on the device; definitions in `cfusion.kernels.numpy.preparing`."""

from functools import cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Coverage, Floats, State, Window, dual_planes, primal_planes
from cfusion.kernels.cuda.device import (
    Desk,
    as_given,
    blocks_of,
    contiguous,
    desk,
    kernel,
    on_device,
    or_nothing,
    real_define,
    rows_of,
)
from cfusion.kernels.cuda.selecting import select_for, select_medians
from cfusion.kernels.numpy.preparing import RADIUS, RANGE, slope_stride

SOURCES = ("reduce.cuh", "preparing.cu")
BLOCK, THREADS, TILE, SUMS = (32, 8), 256, 32, 5
ROUNDS, CARRY_TILE = 6, 32  # of extrapolation, between checks for completion; pixels of a tile


def links_of(domain: Any) -> Any:
    """As `contract.links_of`."""
    height, width = domain.shape
    links = cupy.empty(domain.shape, np.uint16)
    inside, stride = rows_of(domain)
    _kernel("link_pixels")(_grid(height, width), BLOCK, (inside, np.int32(height), np.int32(width), stride, links))
    return links


def count_observations(depths: Floats, weights: Floats | None) -> Coverage:
    """As `Backend.count_observations`."""
    shape, pixels, sums = depths.shape[1:], depths[0].size, desk()
    count, observed = cupy.empty(shape, np.int32), cupy.empty(shape, np.bool_)
    arrays = (contiguous(depths), contiguous(weights))
    sizes = (np.int32(len(depths)), np.uint32(pixels), np.uint32(shape[1]))
    _kernel("tally")((Desk.BLOCKS,), (Desk.THREADS,), (*arrays, *sizes, count, observed, sums.argument))
    middle = select_for(sums, arrays[0][len(depths) // 2])
    seen, mass, *ends, least, fewest = sums.read(8)
    window = _window(ends) if seen else None
    of_depths = least if seen else float("inf"), -int(fewest) if seen else 0, float(middle[0])
    return Coverage(count, observed, window, seen, mass, *of_depths)


def _window(ends: list[float]) -> Window:
    """The window from the first row, minus the last one, and the same of columns."""
    top, bottom, left, right = (int(end) for end in ends)
    return slice(top, 1 - bottom), slice(left, 1 - right)


def initial_state(start: Floats, links: Any, order: int) -> State:
    """As `Backend.initial_state`."""
    (height, width), real = start.shape, start.dtype
    start = cupy.ascontiguousarray(start)
    room = cupy.empty if order == 2 else cupy.zeros  # for order 2 all planes are written below
    state = State(
        room((primal_planes(order), height, width), real), cupy.zeros((dual_planes(order), height, width), real)
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
    slopes = cupy.empty((2, 2))
    select_medians(sample, slopes)
    _kernel("begin", real_define(start))(
        (blocks_of(start.size, THREADS),), (THREADS,), (start, links, slopes, np.uint32(start.size), state.primal)
    )
    return state


def transfer_state(
    state: State, links: Floats, other: State, inside: Any, offset: tuple[int, int], shift: float
) -> None:
    """As `Backend.transfer_state`."""
    (height, width), real = links.shape, state.primal.dtype
    mask, stride = rows_of(inside)
    sizes = tuple(np.int32(size) for size in (height, width, *inside.shape, *offset))
    planes = (np.int32(len(state.primal)), np.int32(len(state.dual)))
    states = (state.primal, state.dual, links, other.primal, other.dual)
    arguments = (*states, mask, stride, *sizes, real.type(shift), *planes)
    _kernel("resume", real_define(state.primal))(_grid(height, width), BLOCK, arguments)


def extrapolate(median: Floats, observed: Any, inside: Any) -> Floats:
    """As `Backend.extrapolate`; some rounds at a time, each tile on its own."""
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


def local_noise_weights(depths: Floats, weights: Floats | None, depth: Floats) -> Floats:
    """As `Backend.local_noise_weights`."""
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


@cache
def defines(real: str = "REAL=float") -> tuple[str, ...]:
    """The macros for which these kernels are compiled."""
    return real, f"RADIUS={RADIUS}", f"ROUNDS={ROUNDS}", f"CARRY_TILE={CARRY_TILE}"


def _grid(height: int, width: int) -> tuple[int, int]:
    return blocks_of(width, BLOCK[0]), blocks_of(height, BLOCK[1])
