"""Medians and quantiles of many rows at once, by counting bits instead of sorting."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import Desk, blocks_of, desk, kernel, multiprocessors, on_device

SOURCES = ("selecting.cu",)
PER_BLOCK, MOST_BLOCKS = 4096, 64  # least values of a row per block, and blocks of a row
BINS, TARGET = 4096, 7  # integers of a histogram, and of `Target` in selecting.cu


def medians(rows: Floats, above: float = -np.inf, *, sides: bool = False) -> tuple[list[float], list[int]]:
    """As `Backend.medians`; with `sides`, all in one launch."""
    found = _select(rows.reshape(len(rows), -1), (0.5, 0.5, 0.5) if sides else (0.5,), above, sides)
    middles, known = found.transpose(2, 1, 0).reshape(2, -1)
    return middles.tolist(), known.astype(int).tolist()


@cache
def _shares(probabilities: tuple[float, ...], device: int) -> Any:
    """The probabilities on a device."""
    shares = cupy.asarray(np.array(probabilities))
    cupy.cuda.get_current_stream().synchronize()  # other streams will read it too
    return shares


def _select(rows: Floats, probabilities: tuple[float, ...], above: float = -np.inf, sides: bool = False) -> Any:
    """Values and number of known ones, (R, Q, 2), on the host; with `sides`: of sizes, positive and negative values."""
    rows = on_device(rows, np.float32)
    (count, length), asked = rows.shape, len(probabilities)
    if count * length == 0:
        return np.broadcast_to([np.nan, 0.0], (count, asked, 2))
    places = multiprocessors()  # blocks that wait for each other have to run at the same time
    at_once = max(1, places // asked)
    found = [
        _selected(rows[first : first + at_once], probabilities, above, sides) for first in range(0, count, at_once)
    ]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _selected(rows: Floats, probabilities: tuple[float, ...], above: float, sides: bool) -> Any:
    """The same for rows that fit on the device at once."""
    count, asked, work = len(rows), len(probabilities), desk()
    numbers = 2 * count * asked
    _launch(rows, probabilities, above, sides, work.page(numbers))
    return work.turn(numbers).reshape(count, asked, 2)


def select_for(work: Desk, values: Floats) -> Any:
    """The median of a map and its number of values, in host memory after the next read of the desk."""
    _launch(values.reshape(1, -1), (0.5,), -np.inf, False, work.page(2))
    return work.written


def select_medians(rows: Floats, out: Floats) -> None:
    """The medians of a few rows and their counts, written to (R, 2) numbers on the device without waiting."""
    _launch(rows, (0.5,), -np.inf, False, out)


def _launch(rows: Floats, probabilities: tuple[float, ...], above: float, sides: bool, out: Any) -> None:
    (count, length), asked = rows.shape, len(probabilities)
    room = desk().room(count * asked * (2 * BINS + TARGET))
    blocks = min(blocks_of(length, PER_BLOCK), MOST_BLOCKS, max(1, multiprocessors() // (count * asked)))
    kernel(SOURCES, "select_bits", cooperative=True)(
        (blocks, count * asked),
        (256,),
        (
            rows,
            np.uint32(length),
            np.float32(above),
            _shares(probabilities, cupy.cuda.runtime.getDevice()),
            np.int32(asked),
            np.bool_(sides),
            room,
            room[count * asked * TARGET :],
            out,
        ),
    )
