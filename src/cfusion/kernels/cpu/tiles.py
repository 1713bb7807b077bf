"""Several primal-dual iterations per cache tile: a wavefront of T iterations, two rows apart, sweeps each tile.

Row k of the tile is loaded into a ring; level t then updates its primal row k-1-2t and its dual row k-2-2t in place;
the row that leaves level T-1 is stored. A halo of 2T pixels makes tiles independent of each other, so the result has
the same bits for any tile size and any number of threads. Formulas: `cfusion.kernels.numpy.iteration`.

Loops use unsigned columns and every array is a separate argument: LLVM needs both to vectorise them. A product that is
used twice has a name: otherwise the columns that fill no vector would be rounded differently.
"""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels.contract import Fidelity, Floats, Links
from cfusion.kernels.cpu.prox import PAD, PROX, inlines
from cfusion.kernels.cpu.sums import OPTIONS

# +inf stays legal (missing observations), unlike with fastmath=True
FASTMATH = {"reassoc", "contract", "arcp", "afn", "nsz"}

prox_row: Any = None  # of the sweep's fidelity


@cache
def sweep_for(order: int, fidelity: int, has_tensor: bool, has_anchor: bool) -> Any:
    """The sweep compiled for one kind of problem; code that the kind does not need is not compiled.

    Weights and edges are not kinds: `auto` solves with and without them, and one kernel for both compiles in half the
    time.
    """

    def sweep(
        levels: int, tiles: Any, extent: Any, scalars: tuple[Any, ...],
        source_primal: Floats, source_dual: Floats, target_primal: Floats, target_dual: Floats,
        values: Floats, weights: Floats, total: Floats, confidence: Floats,
        links: Links, edge: Floats, tensor: Floats, anchor: Floats,
        primal: Floats, dual: Floats, bar: Floats, rows: Floats,
    ) -> None:  # fmt: skip
        """Advance the tiles by `levels` iterations from source to target; arrays that the kind does not need are empty.

        So are `weights` that are all one; an `edge` of one row is used for every row. `extent` (H, 2) are the first
        and end column of the domain in each row, beyond which nothing changes.
        """
        height = np.int64(source_primal.shape[1])
        width = np.int64(source_primal.shape[2])
        ring = np.int64(primal.shape[1] - 1)  # the last row of a ring stays zero: the neighbour outside the image
        primal_planes = np.int64(source_primal.shape[0])
        dual_planes = np.int64(source_dual.shape[0])
        has_edge = edge.shape[0] > 1
        u0 = np.uint64(0)
        u1 = np.uint64(1)
        pad = np.uint64(PAD)
        ghost = 2 * levels
        tau_x, tau_v, tau_w, sigma_q, sigma_r, sigma_s, alpha_1, alpha_2, alpha_3 = scalars[:9]
        rho, step, keep, pull, delta, one, two, half_root, third_root, two_thirds_root, tiny = scalars[9:]
        zero = one - one
        for tile in range(tiles.shape[0]):
            r0 = tiles[tile, 0]
            r1 = tiles[tile, 1]
            c0 = tiles[tile, 2]
            c1 = tiles[tile, 3]
            e0 = max(0, r0 - ghost)
            e1 = min(height, r1 + ghost)
            g0 = max(0, c0 - ghost)
            g1 = min(width, c1 + ghost)
            n = np.uint64(g1 - g0)
            end = n + pad
            g = np.uint64(g0)
            # zeros on both sides; a tile may be narrower than the previous one: clear the right
            for plane in range(dual_planes):
                for row in range(ring):
                    dual[plane, row, end] = zero
            for plane in range(primal_planes):
                for level in range(levels):
                    for row in range(3):
                        bar[level, plane, row, end] = zero
            for k in range(e0, e1 + ghost + 1):
                if k < e1:
                    here = k % ring
                    for plane in range(primal_planes):
                        for j in range(u0, n):
                            primal[plane, here, j + pad] = source_primal[plane, k, g + j]
                    for plane in range(dual_planes):
                        for j in range(u0, n):
                            dual[plane, here, j + pad] = source_dual[plane, k, g + j]
                for level in range(levels):
                    # ---- primal row a of this level
                    a = k - 1 - 2 * level
                    first = 0 if e0 == 0 else e0 + 2 * level + 1
                    last = height if e1 == height else e1 - 2 * level - 1
                    if first <= a < last:
                        now = a % ring
                        above = ring if a == 0 else (a - 1) % ring
                        below = ring if a == height - 1 else (a + 1) % ring
                        b = a % 3
                        lo = np.uint64(min(max(extent[a, 0] - g0, 0) // PAD * PAD, g1 - g0))
                        hi = np.uint64(min((max(extent[a, 1] - g0, 0) + PAD - 1) // PAD * PAD, g1 - g0))
                        # rows: 0 centre, 1 prox, 2 step * lam, 3-5 the tensor's flux
                        if has_tensor:
                            upper = max(a - 1, 0)
                            rows[3, lo + pad - u1] = zero
                            for j in range(lo, hi):
                                q1 = dual[0, now, j + pad]
                                q2 = dual[1, now, j + pad]
                                p1 = tensor[0, a, g + j] * q1 + tensor[1, a, g + j] * q2
                                p2 = tensor[1, a, g + j] * q1 + tensor[2, a, g + j] * q2
                                rows[3, j + pad] = p1 if links[a, g + j] & 1 else zero
                                rows[4, j + pad] = p2 if links[a, g + j] & 2 else zero
                            for j in range(lo, hi):
                                p2 = (
                                    tensor[1, upper, g + j] * dual[0, above, j + pad]
                                    + tensor[2, upper, g + j] * dual[1, above, j + pad]
                                )
                                rows[5, j + pad] = p2 if a > 0 and links[upper, g + j] & 2 else zero
                            for j in range(lo + pad, hi + pad):
                                rows[0, j] = primal[0, now, j] + tau_x * (
                                    rows[3, j] - rows[3, j - u1] + rows[4, j] - rows[5, j]
                                )
                        else:
                            for j in range(lo + pad, hi + pad):
                                rows[0, j] = primal[0, now, j] + tau_x * (
                                    dual[0, now, j] - dual[0, now, j - u1] + dual[1, now, j] - dual[1, above, j]
                                )
                        if has_anchor:
                            for j in range(lo, hi):
                                rows[0, j + pad] = keep * rows[0, j + pad] + pull * anchor[a, g + j]
                        prox_row(a, g, lo, hi, step, delta, one, values, weights, total, confidence, rows)
                        for j in range(lo + pad, hi + pad):
                            old = primal[0, now, j]
                            new = rows[1, j]
                            bar[level, 0, b, j] = two * new - old
                            primal[0, now, j] = old + rho * (new - old)
                        if order >= 2:
                            for j in range(lo + pad, hi + pad):
                                flux = rows[3, j] if has_tensor else dual[0, now, j]
                                old = primal[1, now, j]
                                move = tau_v * (
                                    flux
                                    - dual[2, now, j]
                                    + dual[2, now, j + u1]
                                    - half_root * (dual[3, now, j] - dual[3, below, j])
                                )
                                bar[level, 1, b, j] = old + two * move
                                primal[1, now, j] = old + rho * move
                            for j in range(lo + pad, hi + pad):
                                flux = rows[4, j] if has_tensor else dual[1, now, j]
                                old = primal[2, now, j]
                                move = tau_v * (
                                    flux
                                    - half_root * (dual[3, now, j] - dual[3, now, j + u1])
                                    - dual[4, now, j]
                                    + dual[4, below, j]
                                )
                                bar[level, 2, b, j] = old + two * move
                                primal[2, now, j] = old + rho * move
                        if order >= 3:
                            for j in range(lo + pad, hi + pad):
                                old = primal[3, now, j]
                                move = tau_w * (
                                    dual[2, now, j]
                                    - dual[5, now, j - u1]
                                    + dual[5, now, j]
                                    - third_root * (dual[6, above, j] - dual[6, now, j])
                                )
                                bar[level, 3, b, j] = old + two * move
                                primal[3, now, j] = old + rho * move
                            for j in range(lo + pad, hi + pad):
                                old = primal[4, now, j]
                                move = tau_w * (
                                    dual[3, now, j]
                                    - two_thirds_root
                                    * (dual[6, now, j - u1] - dual[6, now, j] + dual[7, above, j] - dual[7, now, j])
                                )
                                bar[level, 4, b, j] = old + two * move
                                primal[4, now, j] = old + rho * move
                            for j in range(lo + pad, hi + pad):
                                old = primal[5, now, j]
                                move = tau_w * (
                                    dual[4, now, j]
                                    - third_root * (dual[7, now, j - u1] - dual[7, now, j])
                                    - dual[8, above, j]
                                    + dual[8, now, j]
                                )
                                bar[level, 5, b, j] = old + two * move
                                primal[5, now, j] = old + rho * move
                    # ---- dual row i of this level
                    i = a - 1
                    first = 0 if e0 == 0 else e0 + 2 * level + 2
                    last = height if e1 == height else e1 - 2 * level - 2
                    if first <= i < last:
                        now = i % ring
                        b = i % 3
                        down, up = (i + 1) % 3, (i - 1) % 3  # outside the image there is no link
                        spared = i if has_edge else 0
                        lo = np.uint64(min(max(extent[i, 0] - g0, 0) // PAD * PAD, g1 - g0))
                        hi = np.uint64(min((max(extent[i, 1] - g0, 0) + PAD - 1) // PAD * PAD, g1 - g0))
                        for j in range(lo, hi):
                            h = j + pad
                            bits = links[i, g + j]
                            x = bar[level, 0, b, h]
                            d1 = bar[level, 0, b, h + u1] - x
                            d2 = bar[level, 0, down, h] - x
                            if order >= 2:
                                d1 -= bar[level, 1, b, h]
                                d2 -= bar[level, 2, b, h]
                            d1 = d1 if bits & 1 else zero
                            d2 = d2 if bits & 2 else zero
                            if has_tensor:
                                t = tensor[0, i, g + j] * d1 + tensor[1, i, g + j] * d2
                                d2 = tensor[1, i, g + j] * d1 + tensor[2, i, g + j] * d2
                                d1 = t
                            limit = alpha_1 * edge[spared, g + j]
                            old_1 = dual[0, now, h]
                            old_2 = dual[1, now, h]
                            p1 = old_1 + sigma_q * d1
                            p2 = old_2 + sigma_q * d2
                            shrink = limit / max(limit, np.sqrt(p1 * p1 + p2 * p2) + tiny)
                            dual[0, now, h] = old_1 + rho * (shrink * p1 - old_1)
                            dual[1, now, h] = old_2 + rho * (shrink * p2 - old_2)
                        if order >= 2:
                            for j in range(lo, hi):
                                h = j + pad
                                bits = links[i, g + j]
                                v1 = bar[level, 1, b, h]
                                v2 = bar[level, 2, b, h]
                                d1 = v1 - bar[level, 1, b, h - u1]
                                d2 = half_root * (v2 - bar[level, 2, b, h - u1] + v1 - bar[level, 1, up, h])
                                d3 = v2 - bar[level, 2, up, h]
                                if order >= 3:
                                    d1 -= bar[level, 3, b, h]
                                    d2 -= bar[level, 4, b, h]
                                    d3 -= bar[level, 5, b, h]
                                d1 = d1 if bits & 4 else zero
                                d2 = d2 if bits & 8 else zero
                                d3 = d3 if bits & 16 else zero
                                old_1 = dual[2, now, h]
                                old_2 = dual[3, now, h]
                                old_3 = dual[4, now, h]
                                p1 = old_1 + sigma_r * d1
                                p2 = old_2 + sigma_r * d2
                                p3 = old_3 + sigma_r * d3
                                shrink = alpha_2 / max(alpha_2, np.sqrt(p1 * p1 + p2 * p2 + p3 * p3) + tiny)
                                dual[2, now, h] = old_1 + rho * (shrink * p1 - old_1)
                                dual[3, now, h] = old_2 + rho * (shrink * p2 - old_2)
                                dual[4, now, h] = old_3 + rho * (shrink * p3 - old_3)
                        if order >= 3:
                            for j in range(lo, hi):
                                h = j + pad
                                bits = links[i, g + j]
                                w0 = bar[level, 3, b, h]
                                w1 = bar[level, 4, b, h]
                                w2 = bar[level, 5, b, h]
                                d1 = bar[level, 3, b, h + u1] - w0
                                d2 = two_thirds_root * (bar[level, 4, b, h + u1] - w1) + third_root * (
                                    bar[level, 3, down, h] - w0
                                )
                                d3 = third_root * (bar[level, 5, b, h + u1] - w2) + two_thirds_root * (
                                    bar[level, 4, down, h] - w1
                                )
                                d4 = bar[level, 5, down, h] - w2
                                d1 = d1 if bits & 32 else zero
                                d2 = d2 if bits & 64 else zero
                                d3 = d3 if bits & 128 else zero
                                d4 = d4 if bits & 256 else zero
                                old_1 = dual[5, now, h]
                                old_2 = dual[6, now, h]
                                old_3 = dual[7, now, h]
                                old_4 = dual[8, now, h]
                                p1 = old_1 + sigma_s * d1
                                p2 = old_2 + sigma_s * d2
                                p3 = old_3 + sigma_s * d3
                                p4 = old_4 + sigma_s * d4
                                length = np.sqrt(p1 * p1 + p2 * p2 + p3 * p3 + p4 * p4) + tiny
                                shrink = alpha_3 / max(alpha_3, length)
                                dual[5, now, h] = old_1 + rho * (shrink * p1 - old_1)
                                dual[6, now, h] = old_2 + rho * (shrink * p2 - old_2)
                                dual[7, now, h] = old_3 + rho * (shrink * p3 - old_3)
                                dual[8, now, h] = old_4 + rho * (shrink * p4 - old_4)
                # ---- the row that has left the last level
                done = k - ghost
                if r0 <= done < r1:
                    here = done % ring
                    inner = np.uint64(c0 - g0)
                    many = np.uint64(c1 - c0)
                    at = np.uint64(c0)
                    for plane in range(primal_planes):
                        for j in range(u0, many):
                            target_primal[plane, done, at + j] = primal[plane, here, inner + j + pad]
                    for plane in range(dual_planes):
                        for j in range(u0, many):
                            target_dual[plane, done, at + j] = dual[plane, here, inner + j + pad]

    # its own global, as Numba's cache never finds a kernel again whose closure holds a compiled function
    row = PROX[Fidelity(fidelity)]
    own = FunctionType(sweep.__code__, {**globals(), "prox_row": row}, closure=sweep.__closure__)
    return njit(**OPTIONS, fastmath=FASTMATH)(inlines(row, own))
