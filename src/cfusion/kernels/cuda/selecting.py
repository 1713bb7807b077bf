"""Medians and quantiles of many rows at once, by counting bits instead of sorting."""

import struct
from functools import cache, lru_cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import Desk, blocks_of, desk, kernel, multiprocessors, on_device

SOURCES = ("selecting.cu",)
PER_BLOCK, MOST_BLOCKS = 8192, 64  # least values of a row per block, and blocks of a row
BINS, TARGET = 4096, 7  # integers of a histogram, and of `Target` in selecting.cu
THREADS = 1024


def medians(
    rows: Floats, above: float = -np.inf, *, sides: bool = False, share: float = 0.5
) -> tuple[list[float], list[int]]:
    """As `Backend.medians`; with `sides`, all in one launch."""
    found = _select(rows, (0.5, 0.5, 0.5) if sides else (share,), above, sides)
    middles, known = found[::2], found[1::2]
    if sides:  # of all rows at first, then of their sides
        middles, known = ([each for side in range(3) for each in some[side::3]] for some in (middles, known))
    return middles, [int(each) for each in known]


@cache
def _shares(probabilities: tuple[float, ...], device: int) -> Any:
    """The probabilities on a device."""
    shares = cupy.asarray(np.array(probabilities))
    cupy.cuda.get_current_stream().synchronize()  # other streams will read it too
    return shares


def _select(rows: Floats, probabilities: tuple[float, ...], above: float = -np.inf, sides: bool = False) -> list[float]:
    """Values and number of known ones, R x Q x 2, on the host; with `sides`: of sizes, positive and negative values."""
    if type(rows) is not cupy.ndarray or rows.dtype != np.float32 or rows.ndim != 3:
        rows = on_device(rows, np.float32)
        rows = rows.reshape(len(rows), 1, -1)
    count, asked = len(rows), len(probabilities)
    if rows.size == 0:
        return [float("nan"), 0.0] * (count * asked)
    at_once = max(1, _places() // asked)
    if count <= at_once:
        return _selected(rows, probabilities, above, sides)
    parts = [rows[first : first + at_once] for first in range(0, count, at_once)]
    return [number for part in parts for number in _selected(part, probabilities, above, sides)]


def _selected(rows: Floats, probabilities: tuple[float, ...], above: float, sides: bool) -> list[float]:
    """The same for rows that fit on the device at once."""
    numbers, work = 2 * len(rows) * len(probabilities), desk()
    _launch(rows, probabilities, above, sides, work.page(numbers))
    found: list[float] = work.turn(numbers).tolist()
    return found


def select_for(work: Desk, values: Floats) -> Any:
    """The median of a map and its number of values, in host memory after the next read of the desk."""
    _launch(values[None], (0.5,), -np.inf, False, work.page(2))
    return work.written


def select_medians(rows: Floats, out: Floats) -> None:
    """The medians of a few rows and their counts, written to (R, 2) numbers on the device without waiting."""
    _launch(rows[:, None], (0.5,), -np.inf, False, out)


def _places() -> int:
    """How many blocks run at the same time, as those that wait for each other have to."""
    return multiprocessors()


def _launch(rows: Any, probabilities: tuple[float, ...], above: float, sides: bool, out: Any) -> None:
    """The order statistics of rows (R, H, W), whose values may lie apart in memory."""
    grid, lines, targets, sizes = _plan(rows.shape, probabilities, above, sides, cupy.cuda.runtime.getDevice())
    room = desk().room(lines * (2 * BINS + TARGET))
    places = [stride // rows.itemsize for stride in rows.strides]
    values = struct.pack("5q", rows.data.ptr, *places, rows.shape[2])
    kernel(SOURCES, "select_bits", cooperative=True)(
        grid, (THREADS,), (values, *sizes, room, np.uint64(room.data.ptr + targets), out)
    )


@lru_cache(maxsize=256)
def _plan(
    shape: tuple[int, int, int], probabilities: tuple[float, ...], above: float, sides: bool, device: int
) -> tuple[tuple[int, int], int, int, tuple[Any, ...]]:
    """The grid of a launch, its number of targets and their bytes, and its arguments."""
    length, asked = shape[1] * shape[2], len(probabilities)
    lines = shape[0] * asked
    blocks = min(blocks_of(length, PER_BLOCK), MOST_BLOCKS, max(1, _places() // lines))
    shares = _shares(probabilities, device)
    sizes = (np.uint32(length), np.float32(above), shares, np.int32(asked), np.bool_(sides))
    return (blocks, lines), lines, np.dtype(np.uint32).itemsize * lines * TARGET, sizes
