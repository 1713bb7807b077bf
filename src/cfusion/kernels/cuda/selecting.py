"""Medians and quantiles of many rows at once, by counting bits instead of sorting."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import Desk, blocks_of, desk, kernel, multiprocessors, on_device

SOURCES = ("selecting.cu",)
PER_BLOCK, MOST_BLOCKS = 4096, 64  # values of a row that one block counts, at least, and blocks of a row
BINS, TARGET = 4096, 7  # whole numbers of a histogram, and of `Target` in selecting.cu


def medians(rows: Floats, above: float = -np.inf, *, sides: bool = False) -> tuple[list[float], list[int]]:
    """As `Backend.medians`; both sides and all in one launch."""
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
    """(R, Q, 2) values and how many of the row were known, on the host; of `sides`: sizes, positive, negative ones."""
    rows = on_device(rows, np.float32)
    (count, length), asked = rows.shape, len(probabilities)
    if count * length == 0:
        return np.broadcast_to([np.nan, 0.0], (count, asked, 2))
    places = multiprocessors()  # blocks that wait for one another have to run at the same time
    at_once = max(1, places // asked)
    found = [
        _selected(rows[first : first + at_once], probabilities, above, sides) for first in range(0, count, at_once)
    ]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _selected(rows: Floats, probabilities: tuple[float, ...], above: float, sides: bool) -> Any:
    """The same of rows that fit on the device at once."""
    count, asked, work = len(rows), len(probabilities), desk()
    numbers = 2 * count * asked
    _launch(rows, probabilities, above, sides, work.page(numbers))
    return work.turn(numbers).reshape(count, asked, 2)


def select_for(work: Desk, values: Floats) -> Any:
    """The median of a map, and of how many values, in memory of the host once what the desk does next has been read."""
    _launch(values.reshape(1, -1), (0.5,), -np.inf, False, work.page(2))
    return work.written


def select_medians(rows: Floats, out: Floats) -> None:
    """The medians of a few rows, and of how many values, to (R, 2) numbers of the device: nobody waits for them."""
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
