"""Medians by counting: two passes over the bits of floats, mapped to integers of the same order.

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

FEWEST = 1 << 15  # values of a row from which the counters pay off
BUCKETS = 1 << 16
SIGN, ALL = np.uint32(1 << 31), np.uint32(0xFFFFFFFF)


def medians(rows: Floats, above: float = -np.inf, *, sides: bool = False) -> tuple[list[float], list[int]]:
    """As `Backend.medians`; each thread processes whole rows."""
    if sides:
        return host.of_sides(medians, rows)
    count = len(rows)
    if rows.dtype != np.float32 or rows.size < count * FEWEST:
        return host.medians(rows, above)
    bits = np.ascontiguousarray(rows).reshape(count, -1).view(np.uint32)
    bits.setflags(write=False)  # like those of a stack: else the kernel is compiled twice
    least, most = (_key(each) for each in np.array([above, np.inf], np.float32).view(np.uint32))
    known = np.empty(count, np.int64)
    parts = cuts(count, min(threads(), count))
    pairs = np.empty((count, 2), np.uint32)  # the two middle values
    in_parallel(
        [(_select, start, stop, bits, least, most, np.empty(BUCKETS, np.int64), pairs, known) for start, stop in parts]
    )
    ones, others = pairs.view(np.float32).T
    with np.errstate(over="ignore", invalid="ignore"):  # like the kernel's own sums
        middle = np.where(known % 2 == 0, (ones + others) / np.float32(2), ones)
    middle[known == 0] = np.nan
    return [float(each) for each in middle], [int(each) for each in known]


@njit(**OPTIONS)
def _select(
    start: int, stop: int, bits: Floats, least: Any, most: Any, counts: Floats, pairs: Floats, known: Floats
) -> None:
    """The two middle values of the rows [start, stop), among values whose keys lie between two bounds."""
    for row in range(start, stop):
        for bucket in range(BUCKETS):
            counts[bucket] = 0
        n = 0
        for p in range(bits.shape[1]):  # without a branch: noise is unpredictable
            key = _key(bits[row, p])
            counts[key >> np.uint32(16)] += (key > least) & (key < most)
        for bucket in range(BUCKETS):
            n += counts[bucket]
        known[row] = n
        if n == 0:
            continue
        bucket, before = 0, 0
        while before + counts[bucket] <= (n - 1) // 2:
            before += counts[bucket]
            bucket += 1
        for low in range(BUCKETS):
            counts[low] = 0
        following = ALL  # the smallest key of a later bucket
        end = np.uint32(bucket) << np.uint32(16) | np.uint32(0xFFFF)
        for p in range(bits.shape[1]):
            key = _key(bits[row, p])
            following = min(following, key if key > end else ALL)
            if np.int64(key >> np.uint32(16)) == bucket and key > least and key < most:
                counts[key & np.uint32(0xFFFF)] += 1
        low = 0
        for half in range(2):
            rank = (n - 1 + half) // 2
            while low < BUCKETS and before + counts[low] <= rank:
                before += counts[low]
                low += 1
            key = np.uint32(bucket) << np.uint32(16) | np.uint32(low) if low < BUCKETS else following
            pairs[row, half] = key ^ SIGN if key & SIGN else ~key


@njit(**OPTIONS)
def _key(bits: Any) -> Any:
    """An integer in the order of the floats."""
    return np.uint32(bits ^ (SIGN | np.uint32(np.int32(bits) >> 31)))
