"""Medians by counting the upper bits of floats, mapped to integers of the same order, and selecting in one bucket.

The definition is `cfusion.kernels.host.medians`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels import host
from cfusion.kernels.contract import Floats
from cfusion.kernels.cpu.sums import INSIDE, OPTIONS
from cfusion.kernels.threads import cuts, in_parallel, threads

FEWEST = 1 << 15  # values of a row from which the counters pay off
BUCKETS, LOW = 1 << 14, np.uint32(18)  # by the upper 14 of 32 bits
SIGN = np.uint32(1 << 31)


def medians(
    rows: Floats, above: float = -np.inf, *, sides: bool = False, share: float = 0.5
) -> tuple[list[float], list[int]]:
    """As `Backend.medians`; threads process whole rows, or parts of a single row."""
    if sides:
        return host.of_sides(medians, rows)
    count = len(rows)
    if rows.dtype == np.float64 and rows.size >= count * FEWEST and share == 0.5 and above == -np.inf:
        return _medians_of_doubles(rows)
    if rows.dtype != np.float32 or rows.size < count * FEWEST or share != 0.5:
        return host.medians(rows, above, share=share)
    known, pairs = _middles(rows, above)
    ones, others = pairs.T
    with np.errstate(over="ignore", invalid="ignore"):  # like the kernel's own sums
        middle = np.where(known % 2 == 0, (ones + others) / np.float32(2), ones)
    middle[known == 0] = np.nan
    return [float(each) for each in middle], [int(each) for each in known]


def _medians_of_doubles(rows: Floats) -> tuple[list[float], list[int]]:
    """Rounding to float32 keeps the order: a median is among the values that round to that of the rounded ones."""
    with np.errstate(over="ignore"):
        rough = rows.astype(np.float32).reshape(len(rows), -1)
    known, pairs = _middles(rough, -np.inf)
    doubles = rows.reshape(rough.shape)
    if not known.all() or (known != np.isfinite(doubles).sum(axis=1)).any():  # some lie beyond float32
        return host.medians(rows)
    middle = []
    for row, rounded, number, pair in zip(doubles, rough, known, pairs, strict=True):
        one, other = (
            _exactly(row, rounded, value, int(rank))
            for value, rank in zip(pair, ((number - 1) // 2, number // 2), strict=True)
        )
        middle.append(float((one + other) / 2) if number % 2 == 0 else float(one))
    return middle, [int(each) for each in known]


def _exactly(row: Floats, rounded: Floats, value: Any, rank: int) -> Any:
    """The value of a rank in a row, given what it rounds to."""
    within = rank - int(np.count_nonzero((rounded > -np.inf) & (rounded < value)))
    return np.partition(row[rounded == value], within)[within]


def _middles(rows: Floats, above: float) -> tuple[Any, Floats]:
    """Of each row of float32, the number of values above a limit, and the two in their middle."""
    count = len(rows)
    bits = np.ascontiguousarray(rows).reshape(count, -1).view(np.uint32)
    bits.setflags(write=False)  # like those of a stack: else the kernel is compiled twice
    limits = np.array([above, np.inf], np.float32).view(np.uint32)
    known, pairs = np.zeros(count, np.int64), np.zeros((count, 2), np.uint32)  # the two middle values

    def select(start: int, stop: int) -> None:
        for row in range(start, stop):
            known[row] = _middle(bits[row], limits, count, pairs[row])

    if count == 1:
        select(0, 1)
    else:
        in_parallel([(select, *part) for part in cuts(count, min(threads(), count))])
    return known, pairs.view(np.float32)


def _middle(bits: Floats, limits: Floats, rows: int, pair: Floats) -> int:
    """The number of values between two limits; writes the two middle values to `pair`."""
    parts = cuts(len(bits), threads() if rows == 1 else 1)
    counts = np.zeros((len(parts), BUCKETS), np.int64)
    in_parallel([(_upper_bits, bits[a:b], limits, counts[k]) for k, (a, b) in enumerate(parts)])
    until = np.cumsum(counts.sum(axis=0))
    known = int(until[-1])
    if known == 0:
        return 0
    low, high = (known - 1) // 2, known // 2
    bucket, following = (int(np.searchsorted(until, rank, side="right")) for rank in (low, high))
    keys, ranks = _keys(bits, parts, limits, bucket, counts[:, bucket]), [low, high]
    if following == bucket:
        ranks = [rank - int(until[bucket]) for rank in ranks]  # counted from the end
        found = np.partition(keys, ranks)[ranks]
    else:  # the last of one bucket and the first of another
        found = np.array([keys.max(), _keys(bits, parts, limits, following, counts[:, following]).min()])
    pair[:] = np.where(found & SIGN, found ^ SIGN, ~found)
    return known


def _keys(bits: Floats, parts: list[tuple[int, int]], limits: Floats, bucket: int, counts: Floats) -> Floats:
    """The keys of the values in a bucket; `counts` per part of the row."""
    ends = np.cumsum(counts)
    keys = np.empty(int(ends[-1]), np.uint32)
    places = zip(parts, ends - counts, ends, strict=True)
    in_parallel([(_alike, bits[a:b], limits, bucket, keys[first:end]) for (a, b), first, end in places])
    return keys


@njit(**OPTIONS)
def _upper_bits(bits: Floats, limits: Floats, counts: Floats) -> None:
    """Count the values between the limits by their upper bits."""
    least, most = _key(limits[0]), _key(limits[1])
    for each in bits:  # without a branch: noise is unpredictable
        key = _key(each)
        counts[key >> LOW] += (key > least) & (key < most)


@njit(**OPTIONS)
def _alike(bits: Floats, limits: Floats, bucket: int, keys: Floats) -> None:
    """Write the keys in a bucket; `keys` has exactly their number."""
    least, most = _key(limits[0]), _key(limits[1])
    n = 0
    for each in bits:
        key = _key(each)
        if np.int64(key >> LOW) == bucket and key > least and key < most:
            keys[n] = key
            n += 1


@njit(**INSIDE)
def _key(bits: Any) -> Any:
    """An integer in the order of the floats."""
    return np.uint32(bits ^ (SIGN | np.uint32(np.int32(bits) >> 31)))
