"""Medians by counting: two passes over the bits of floats, which are in the order of the values once turned around.

The definition is `cfusion.kernels.host.medians`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels import host
from cfusion.kernels.contract import Floats
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.cpu.threads import cuts, in_parallel, threads

FEWEST = 1 << 15  # values of a row that are worth the counters
BUCKETS = 1 << 16
SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)


def medians(rows: Floats, above: float = -np.inf, *, sides: bool = False) -> tuple[list[float], list[int]]:
    """As `Backend.medians`; whole rows in each thread."""
    if sides:
        return host.of_sides(medians, rows)
    count = len(rows)
    if rows.dtype != np.float32 or rows.size < count * FEWEST:
        return host.medians(rows, above)
    bits = np.ascontiguousarray(rows).reshape(count, -1).view(np.uint32)
    least, most = (_key(each) for each in np.array([above, np.inf], np.float32).view(np.uint32))
    middle, known = np.empty(count, np.float32), np.empty(count, np.int64)
    parts = cuts(count, min(threads(), count))
    in_parallel([(_medians, start, stop, bits, least, most, middle, known) for start, stop in parts])
    return [float(each) for each in middle], [int(each) for each in known]


@njit(**OPTIONS)
def _medians(start: int, stop: int, bits: Floats, least: Any, most: Any, middle: Floats, known: Floats) -> None:
    """Of the rows [start, stop), of values whose keys lie between two."""
    counts = np.empty(BUCKETS, np.int64)
    found = np.empty(2, np.uint32)
    for row in range(start, stop):
        counts[:] = 0
        for p in range(bits.shape[1]):  # without a branch: noise cannot be foreseen
            key = _key(bits[row, p])
            counts[key >> np.uint32(16)] += (key > least) & (key < most)
        n = counts.sum()
        known[row], middle[row] = n, np.nan
        if n == 0:
            continue
        bucket, before = 0, 0
        while before + counts[bucket] <= (n - 1) // 2:
            before += counts[bucket]
            bucket += 1
        counts[:] = 0
        following = ALL  # the least key of a later bucket
        end = np.uint32(bucket) << np.uint32(16) | np.uint32(0xFFFF)
        for p in range(bits.shape[1]):
            key = _key(bits[row, p])
            following = min(following, key if key > end else ALL)
            if np.int64(key >> np.uint32(16)) == bucket and key > least and key < most:
                counts[key & np.uint32(0xFFFF)] += 1
        low = 0
        for half, rank in enumerate(((n - 1) // 2, n // 2)):
            while low < BUCKETS and before + counts[low] <= rank:
                before += counts[low]
                low += 1
            key = np.uint32(bucket) << np.uint32(16) | np.uint32(low) if low < BUCKETS else following
            found[half] = key ^ SIGN if key & SIGN else ~key
        one, other = found.view(np.float32)
        middle[row] = (one + other) / np.float32(2) if n % 2 == 0 else one


@njit(**OPTIONS)
def _key(bits: Any) -> Any:
    """A whole number in the order of the floats."""
    return np.uint32(bits ^ (SIGN | np.uint32(np.int32(bits) >> 31)))
