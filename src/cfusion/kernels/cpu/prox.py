"""The data term on the CPU, for every fidelity: phi, and its prox on one row; formulas in `cfusion.kernels.numpy.prox`.

A prox turns row 0 of `rows`, the centre f, into row 1 (2, 6 to 9 are free); w = step * lam; loops are as in `tiles`.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
from numba import njit

from cfusion.kernels.contract import Fidelity

PAD = 16  # columns on both sides of a row in the rings: its first column begins a cache line, as vectors do


def inlines(compiled: Any, kernel: Any) -> Any:
    """The kernel, named by the bytecode of what it inlines as well: Numba's cache looks at its own alone."""
    code = getattr(compiled, "py_func", compiled).__code__  # the function itself where Numba is told not to compile
    kernel.__qualname__ += f"-{code.co_name}-{crc32(repr((code.co_code, code.co_consts)).encode()):x}"
    return kernel


@njit(inline="always")
def penalty(t: Any, fidelity: Any, delta: Any) -> Any:
    """phi of every fidelity but L2, of which only the mean is kept."""
    size = abs(t)
    if fidelity == 2:
        size = t * t / (2 * delta) if size <= delta else size - delta / 2
    return size


@njit(inline="always")
def l1_row(
    a: Any, g: Any, lo: Any, hi: Any, step: Any, delta: Any, one: Any,
    values: Any, weights: Any, total: Any, confidence: Any, rows: Any,
) -> None:  # fmt: skip
    """max over j of min(d_(j+1), f + w (S - 2 C_j)); rows: 0 the second term of the next j, 2 twice w."""
    pad = np.uint64(PAD)
    two = one + one
    observations = values.shape[0]
    if weights.shape[0] > 0:
        for j in range(lo, hi):
            w = step * confidence[a, g + j]
            f = rows[0, j + pad] + w * total[a, g + j]
            rows[0, j + pad] = f
            rows[2, j + pad] = two * w
            rows[1, j + pad] = min(values[0, a, g + j], f)
        m = 0
        while m + 4 <= observations:  # several at a time, to save loads and stores of the row
            for j in range(lo, hi):
                w = rows[2, j + pad]
                fa = rows[0, j + pad]
                fb = fa - w * weights[m, a, g + j]
                fc = fb - w * weights[m + 1, a, g + j]
                fd = fc - w * weights[m + 2, a, g + j]
                rows[0, j + pad] = fd - w * weights[m + 3, a, g + j]
                ma = max(min(values[m, a, g + j], fa), min(values[m + 1, a, g + j], fb))
                mb = max(min(values[m + 2, a, g + j], fc), min(values[m + 3, a, g + j], fd))
                rows[1, j + pad] = max(rows[1, j + pad], max(ma, mb))
            m += 4
        while m < observations:
            for j in range(lo, hi):
                fa = rows[0, j + pad]
                rows[0, j + pad] = fa - rows[2, j + pad] * weights[m, a, g + j]
                rows[1, j + pad] = max(rows[1, j + pad], min(values[m, a, g + j], fa))
            m += 1
        for j in range(lo, hi):
            rows[1, j + pad] = max(rows[1, j + pad], rows[0, j + pad])
    else:
        for j in range(lo, hi):
            w = step * confidence[a, g + j]
            f = rows[0, j + pad]
            reach = w * total[a, g + j]
            rows[0, j + pad] = f + reach
            rows[1, j + pad] = f - reach
            rows[2, j + pad] = two * w
        m = 0
        while m + 4 <= observations:
            for j in range(lo, hi):
                w = rows[2, j + pad]
                fa = rows[0, j + pad]
                fb = fa - w
                fc = fb - w
                fd = fc - w
                rows[0, j + pad] = fd - w
                ma = max(min(values[m, a, g + j], fa), min(values[m + 1, a, g + j], fb))
                mb = max(min(values[m + 2, a, g + j], fc), min(values[m + 3, a, g + j], fd))
                rows[1, j + pad] = max(rows[1, j + pad], max(ma, mb))
            m += 4
        while m < observations:
            for j in range(lo, hi):
                fa = rows[0, j + pad]
                rows[0, j + pad] = fa - rows[2, j + pad]
                rows[1, j + pad] = max(rows[1, j + pad], min(values[m, a, g + j], fa))
            m += 1


@njit(inline="always")
def l2_row(
    a: Any, g: Any, lo: Any, hi: Any, step: Any, delta: Any, one: Any,
    values: Any, weights: Any, total: Any, confidence: Any, rows: Any,
) -> None:  # fmt: skip
    """(f + w S d) / (1 + w S), d the mean."""
    pad = np.uint64(PAD)
    for j in range(lo, hi):
        w = step * confidence[a, g + j] * total[a, g + j]
        rows[1, j + pad] = (rows[0, j + pad] + w * values[0, a, g + j]) / (one + w)


@njit(inline="always")
def huber_row(
    a: Any, g: Any, lo: Any, hi: Any, step: Any, delta: Any, one: Any,
    values: Any, weights: Any, total: Any, confidence: Any, rows: Any,
) -> None:  # fmt: skip
    """The Huber prox of one row, x = max over j of min over i >= j of the roots of x - f + w A_ij(x):

        A_ij(x) = C_j - (S - C_i) + sum of w_m (x - d_m) / delta over j < m <= i,    C_j the weight of the j smallest

    because a sum of clips is the min over j of the max over i of A_ij: the j smallest observations are clipped from
    above, those beyond i from below. There is no search, so all pixels of a row run the same code. A missing
    observation is infinite, and every root that involves it is infinite or NaN, which no comparison selects.
    rows: 1 is x - f until the end, 2 w = step * lam, 6 the least of a j, 7 sum of w_m (d_m - f), 8 C_i - C_j,
    9 S - 2 C_j.
    """
    pad = np.uint64(PAD)
    zero = one - one
    two = one + one
    for j in range(lo, hi):
        w = step * confidence[a, g + j]
        rows[2, j + pad] = w
        rows[1, j + pad] = -w * total[a, g + j]  # all clipped from above
        rows[9, j + pad] = total[a, g + j]
    for first in range(values.shape[0]):
        if weights.shape[0] > 0:
            for j in range(lo, hi):
                rows[6, j + pad] = rows[2, j + pad] * rows[9, j + pad]
                rows[7, j + pad] = zero
                rows[8, j + pad] = zero
            for m in range(first, values.shape[0]):
                for j in range(lo, hi):
                    w = rows[2, j + pad]
                    amount = weights[m, a, g + j]
                    offsets = rows[7, j + pad] + amount * (values[m, a, g + j] - rows[0, j + pad])
                    span = rows[8, j + pad] + amount
                    root = w * (delta * (rows[9, j + pad] - span) + offsets) / (delta + w * span)
                    rows[6, j + pad] = root if root < rows[6, j + pad] else rows[6, j + pad]
                    rows[7, j + pad] = offsets
                    rows[8, j + pad] = span
            for j in range(lo, hi):
                least = rows[6, j + pad]
                rows[1, j + pad] = least if least > rows[1, j + pad] else rows[1, j + pad]
                rows[9, j + pad] = rows[9, j + pad] - two * weights[first, a, g + j]
        else:
            for j in range(lo, hi):
                rows[6, j + pad] = rows[2, j + pad] * rows[9, j + pad]
                rows[7, j + pad] = zero
            span = zero
            for m in range(first, values.shape[0]):
                span = span + one
                for j in range(lo, hi):
                    w = rows[2, j + pad]
                    offsets = rows[7, j + pad] + (values[m, a, g + j] - rows[0, j + pad])
                    root = w * (delta * (rows[9, j + pad] - span) + offsets) / (delta + w * span)
                    rows[6, j + pad] = root if root < rows[6, j + pad] else rows[6, j + pad]
                    rows[7, j + pad] = offsets
            for j in range(lo, hi):
                least = rows[6, j + pad]
                rows[1, j + pad] = least if least > rows[1, j + pad] else rows[1, j + pad]
                rows[9, j + pad] = rows[9, j + pad] - two
    for j in range(lo, hi):
        rows[1, j + pad] = rows[0, j + pad] + rows[1, j + pad]


PROX = {Fidelity.L1: l1_row, Fidelity.L2: l2_row, Fidelity.HUBER: huber_row}
