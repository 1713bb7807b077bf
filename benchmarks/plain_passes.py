"""The closed-form iteration as two plain passes over the image: what tiles are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

ROOT = np.float32(np.sqrt(0.5))
FAST = {"reassoc", "contract", "arcp", "afn", "nsz"}


def iterate(problem: Any, state: Any, steps: Any, count: int) -> None:
    """TGV of order 2, L1, no weights."""
    real = np.float32
    ahead = np.empty_like(state.primal)
    seen = problem.observations
    scalars = [real(v) for v in (*steps.tau, *steps.sigma, *problem.alpha, steps.relaxation)]
    for _ in range(count):
        _primal(state.primal, state.dual, ahead, seen.values, seen.total, problem.confidence, *scalars)
        _dual(state.dual, ahead, problem.links, *scalars)


@njit(parallel=True, cache=True, fastmath=FAST)
def _primal(primal, dual, ahead, values, total, confidence, tau_x, tau_v, s_q, s_r, a_1, a_2, rho):  # type: ignore[no-untyped-def]
    views, height, width = values.shape
    two = np.float32(2)
    for i in prange(height):
        f = np.empty(width, primal.dtype)
        best = np.empty(width, primal.dtype)
        w = np.empty(width, primal.dtype)
        above, below = max(i - 1, 0), min(i + 1, height - 1)
        up, down = np.float32(i > 0), np.float32(i + 1 < height)
        for j in range(width):
            divergence = dual[0, i, j] + dual[1, i, j] - up * dual[1, above, j]
            if j > 0:
                divergence -= dual[0, i, j - 1]
            centre = primal[0, i, j] + tau_x * divergence
            step = tau_x * confidence[i, j]
            f[j] = centre + step * total[i, j]
            best[j] = centre - step * total[i, j]
            w[j] = two * step
        for k in range(views):
            for j in range(width):
                best[j] = max(best[j], min(values[k, i, j], f[j]))
                f[j] -= w[j]
        for j in range(width):
            old = primal[0, i, j]
            ahead[0, i, j] = two * best[j] - old
            primal[0, i, j] = old + rho * (best[j] - old)
        for j in range(width):
            right = min(j + 1, width - 1)
            there = np.float32(j + 1 < width)
            r12 = dual[3, i, j]
            move = tau_v * (
                dual[0, i, j] - dual[2, i, j] + there * dual[2, i, right] - ROOT * (r12 - down * dual[3, below, j])
            )
            old = primal[1, i, j]
            ahead[1, i, j] = old + two * move
            primal[1, i, j] = old + rho * move
            move = tau_v * (
                dual[1, i, j] - ROOT * (r12 - there * dual[3, i, right]) - dual[4, i, j] + down * dual[4, below, j]
            )
            old = primal[2, i, j]
            ahead[2, i, j] = old + two * move
            primal[2, i, j] = old + rho * move


@njit(parallel=True, cache=True, fastmath=FAST)
def _dual(dual, ahead, links, tau_x, tau_v, sigma_q, sigma_r, alpha_1, alpha_2, rho):  # type: ignore[no-untyped-def]
    _, height, width = dual.shape
    for i in prange(height):
        below, above = min(i + 1, height - 1), max(i - 1, 0)
        zero = np.float32(0)
        for j in range(width):
            bits = links[i, j]
            right, left = min(j + 1, width - 1), max(j - 1, 0)
            x, v, w = ahead[0, i, j], ahead[1, i, j], ahead[2, i, j]
            a = ahead[0, i, right] - x - v
            b = ahead[0, below, j] - x - w
            a = a if bits & 1 else zero
            b = b if bits & 2 else zero
            old_1, old_2 = dual[0, i, j], dual[1, i, j]
            p, q = old_1 + sigma_q * a, old_2 + sigma_q * b
            shrink = alpha_1 / max(alpha_1, np.sqrt(p * p + q * q))
            dual[0, i, j] = old_1 + rho * (shrink * p - old_1)
            dual[1, i, j] = old_2 + rho * (shrink * q - old_2)
            a = v - ahead[1, i, left]
            b = ROOT * (w - ahead[2, i, left] + v - ahead[1, above, j])
            c = w - ahead[2, above, j]
            a = a if bits & 4 else zero
            b = b if bits & 8 else zero
            c = c if bits & 16 else zero
            old_1, old_2, old_3 = dual[2, i, j], dual[3, i, j], dual[4, i, j]
            p, q, r = old_1 + sigma_r * a, old_2 + sigma_r * b, old_3 + sigma_r * c
            shrink = alpha_2 / max(alpha_2, np.sqrt(p * p + q * q + r * r))
            dual[2, i, j] = old_1 + rho * (shrink * p - old_1)
            dual[3, i, j] = old_2 + rho * (shrink * q - old_2)
            dual[4, i, j] = old_3 + rho * (shrink * r - old_3)
