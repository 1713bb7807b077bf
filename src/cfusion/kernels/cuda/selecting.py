"""Medians and quantiles of many rows at once, by counting bits instead of sorting."""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy
import numpy as np

from cfusion.kernels.contract import Floats
from cfusion.kernels.cuda.device import blocks_of, desk, kernel, multiprocessors, on_device

SOURCES = ("selecting.cu",)
PER_BLOCK, MOST_BLOCKS = 4096, 64  # values of a row that one block counts, at least, and blocks of a row
BINS, TARGET = 2048, 7  # whole numbers of a histogram, and of `Target` in selecting.cu


def medians(rows: Floats, above: float = -np.inf) -> tuple[list[float], list[int]]:
    """As `Backend.medians`."""
    found = _select(rows.reshape(len(rows), -1), (0.5,), above)
    return found[:, 0, 0].tolist(), found[:, 0, 1].astype(int).tolist()


@cache
def _shares(probabilities: tuple[float, ...], device: int) -> Any:
    """The probabilities on a device."""
    shares = cupy.asarray(np.array(probabilities))
    cupy.cuda.get_current_stream().synchronize()  # other streams will read it too
    return shares


def _select(rows: Floats, probabilities: tuple[float, ...], above: float = -np.inf) -> Any:
    """(R, Q, 2) values and how many of the row were known, on the host."""
    rows = on_device(rows, np.float32)
    (count, length), asked = rows.shape, len(probabilities)
    if count * length == 0:
        return np.broadcast_to([np.nan, 0.0], (count, asked, 2))
    places = multiprocessors()  # blocks that wait for one another have to run at the same time
    at_once = max(1, places // asked)
    found = [_selected(rows[first : first + at_once], probabilities, above) for first in range(0, count, at_once)]
    return found[0] if len(found) == 1 else np.concatenate(found)


def _selected(rows: Floats, probabilities: tuple[float, ...], above: float) -> Any:
    """The same of rows that fit on the device at once."""
    (count, length), asked = rows.shape, len(probabilities)
    work, numbers = desk(), 2 * count * asked
    room = work.room(count * asked * (2 * BINS + TARGET))
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
            room,
            room[count * asked * TARGET :],
            work.page(numbers),
        ),
    )
    return work.turn(numbers).reshape(count, asked, 2)
