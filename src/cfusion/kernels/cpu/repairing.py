"""The repair of a dual of order 2, several steps per pass over memory, as `tiles` does it for iterations.

Level t of the wavefront is a step of its own: when row k has been loaded it computes row k-1-2t of the flux and of the
slope's excess, and row k-2-2t of the gradient, with which it steps in place. Two rows beyond each side are computed per
step, so that bands are independent of each other. Formulas: `cfusion.kernels.numpy.certificate`.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels.contract import Floats, Links
from cfusion.kernels.cpu.prox import PAD
from cfusion.kernels.cpu.sums import OPTIONS
from cfusion.kernels.host import aligned
from cfusion.kernels.numpy.certificate import TERM_WEIGHT
from cfusion.kernels.threads import in_bands

STEPS_AT_ONCE = 20
ROOM = 3 << 19  # bytes of the rows that a thread keeps in its cache


def repair(
    momenta: list[float], ahead: Floats, before: Floats, links: Links, hold: Floats, edge: Floats, alpha: Any
) -> tuple[Floats, Floats]:
    """`ahead` and `before` (3, H, W) after a step for each of the momenta.

    `hold` (H, W) bounds the slope, and is empty if nothing does; an `edge` of one row holds for every row.
    Without a `before` the first step projects `ahead`.
    """
    real, (height, width) = ahead.dtype, links.shape
    at_once = max(1, min(STEPS_AT_ONCE, ROOM // (22 * width * real.itemsize)))
    scalars = (*alpha, TERM_WEIGHT, 1 / 16, sqrt(1 / 2), 1.0, np.finfo(real).tiny)
    given = (links, hold, edge, tuple(real.type(each) for each in scalars))
    source, spare = (ahead, before), None
    for first in range(0, len(momenta), at_once):
        target = spare or (np.empty_like(ahead), np.empty_like(ahead))
        some = np.array(momenta[first : first + at_once], real)
        in_bands((height, width), (_with_rings, some, *source, *target, *given))
        source, spare = target, source if source[1].size else None
    return source


def _with_rings(start: int, stop: int, momenta: Floats, source: Floats, *given: Any) -> None:
    levels, columns = len(momenta), -(-source.shape[2] // PAD) * PAD + 2 * PAD
    shapes = ((3, 2 * levels + 2), (3, 2 * levels + 1), (levels, 2, 4), (levels, 2))
    rings = [aligned((*shape, columns), source.dtype) for shape in shapes]
    for ring in rings:
        ring.fill(0)
    _repair(start, stop, momenta, source, *given, *rings)


@njit(**OPTIONS, fastmath={"contract", "nsz"})  # no approximate roots and quotients: duals stay in their balls
def _repair(
    start: int, stop: int, momenta: Floats, source_ahead: Floats, source_before: Floats,
    target_ahead: Floats, target_before: Floats, links: Links, hold: Floats, edge: Floats, scalars: tuple[Any, ...],
    ahead: Floats, before: Floats, flux: Floats, slope: Floats,
) -> None:  # fmt: skip
    height, width = links.shape
    levels, ring = len(momenta), np.int64(before.shape[1])  # the last rows of `ahead` and `flux` stay zero
    limit_1, limit_2, weight, step, half_root, one, tiny = scalars
    u0, u1, pad, n = np.uint64(0), np.uint64(1), np.uint64(PAD), np.uint64(width)
    end = n + pad
    top, bottom = max(0, start - 2 * levels), min(height, stop + 2 * levels)
    for k in range(top, stop + 2 * levels):
        if k < bottom and source_before.size == 0:
            for j in range(u0, n):
                h = j + pad
                p1, p2, p3 = source_ahead[0, k, j], source_ahead[1, k, j], source_ahead[2, k, j]
                shrink = limit_2 / max(limit_2, np.sqrt(p1 * p1 + p2 * p2 + p3 * p3) + tiny)
                ahead[0, k % ring, h] = shrink * p1
                ahead[1, k % ring, h] = shrink * p2
                ahead[2, k % ring, h] = shrink * p3
        elif k < bottom:
            for plane in range(3):
                for j in range(u0, n):
                    h = j + pad
                    ahead[plane, k % ring, h] = source_ahead[plane, k, j]
                    before[plane, k % ring, h] = source_before[plane, k, j]
        for level in range(levels):
            a = k - 1 - 2 * level
            here, there = a % 2, (a + 1) % 2
            newest, middle, oldest = a % 3, (a - 1) % 3, (a - 2) % 3
            if (0 if top == 0 else top + 2 * level) <= a < (height if bottom == height else bottom - 2 * level - 1):
                now, above = a % ring, 3 if a == 0 else middle
                below = ring if a == height - 1 else (a + 1) % ring
                for j in range(pad, end):
                    p1 = ahead[1, now, j]
                    flux[level, 0, newest, j] = (ahead[0, now, j] - ahead[0, now, j + u1]) + half_root * (
                        p1 - ahead[1, below, j]
                    )
                    flux[level, 1, newest, j] = half_root * (p1 - ahead[1, now, j + u1]) + (
                        ahead[2, now, j] - ahead[2, below, j]
                    )
                if hold.size > 0:
                    for j in range(u0, n):
                        h = j + pad
                        g = (flux[level, 0, newest, h - u1] - flux[level, 0, newest, h]) + (
                            flux[level, 1, above, h] - flux[level, 1, newest, h]
                        )
                        most = hold[a, j]
                        slope[level, here, h] = g - min(max(g, -most), most)
            i = a - 1
            if (0 if top == 0 else top + 2 * level + 1) <= i < (height if bottom == height else bottom - 2 * level - 2):
                now, row = i % ring, i if edge.shape[0] > 1 else 0
                for j in range(u0, n):
                    h = j + pad
                    f1, f2 = flux[level, 0, middle, h], flux[level, 1, middle, h]
                    most = limit_1 * edge[row, j]
                    beyond = one - most / max(most, np.sqrt(f1 * f1 + f2 * f2) + tiny)
                    flux[level, 0, middle, h] = beyond * f1
                    flux[level, 1, middle, h] = beyond * f2
                if hold.size > 0:
                    for j in range(u0, n):
                        h = j + pad
                        s = slope[level, there, h]
                        d1 = slope[level, there, h + u1] - s if links[i, j] & 1 else s - s
                        d2 = slope[level, here, h] - s if links[i, j] & 2 else s - s
                        flux[level, 0, middle, h] += weight * d1
                        flux[level, 1, middle, h] += weight * d2
                inertia = momenta[level]
                for j in range(u0, n):
                    h = j + pad
                    bits = links[i, j]
                    e1, e2 = flux[level, 0, middle, h], flux[level, 1, middle, h]
                    mixed = (e2 - flux[level, 1, middle, h - u1]) + (e1 - flux[level, 0, oldest, h])
                    d1 = e1 - flux[level, 0, middle, h - u1] if bits & 4 else e1 - e1
                    d2 = half_root * mixed if bits & 8 else e1 - e1
                    d3 = e2 - flux[level, 1, oldest, h] if bits & 16 else e1 - e1
                    p1 = ahead[0, now, h] - step * d1
                    p2 = ahead[1, now, h] - step * d2
                    p3 = ahead[2, now, h] - step * d3
                    shrink = limit_2 / max(limit_2, np.sqrt(p1 * p1 + p2 * p2 + p3 * p3) + tiny)
                    p1 *= shrink
                    p2 *= shrink
                    p3 *= shrink
                    ahead[0, now, h] = p1 + inertia * (p1 - before[0, now, h])
                    ahead[1, now, h] = p2 + inertia * (p2 - before[1, now, h])
                    ahead[2, now, h] = p3 + inertia * (p3 - before[2, now, h])
                    before[0, now, h] = p1
                    before[1, now, h] = p2
                    before[2, now, h] = p3
        done = k - 2 * levels
        if start <= done:
            for plane in range(3):
                for j in range(u0, n):
                    h = j + pad
                    target_ahead[plane, done, j] = ahead[plane, done % ring, h]
                    target_before[plane, done, j] = before[plane, done % ring, h]
