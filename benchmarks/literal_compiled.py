"""The paper's literal iteration (K dual variables, TGV of order 2, L1, one confidence) compiled with the same tools
as ours.

`cfusion.kernels.numpy.literal` is the definition; a NumPy baseline alone would flatter us.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

ROOT = np.float32(np.sqrt(0.5))
FAST = {"reassoc", "contract", "arcp", "afn", "nsz"}


class CompiledLiteral:
    """State and steps of the literal algorithm on a problem of order 2."""

    def __init__(self, problem: Any, state: Any, ratio: float) -> None:
        self.problem, self.state = problem, state
        self.values = np.where(np.isinf(problem.observations.values), 0, problem.observations.values)
        self.known = np.isfinite(problem.observations.values)
        self.data_dual = np.zeros_like(self.values)
        share = 1 / (len(self.values) + 1)
        norm = float(np.linalg.norm(np.sqrt(8) * np.eye(2) + np.eye(2, k=1), 2)) ** 2
        self.tau = np.float32(np.sqrt(ratio * share / norm))
        self.sigma_q = np.float32(share / (norm * self.tau))
        self.sigma_p = np.float32(share / (float(problem.confidence.max()) ** 2 * self.tau))
        self.ahead = np.zeros_like(state.primal)

    def iterate(self, count: int) -> None:
        problem, state = self.problem, self.state
        alpha_1, alpha_2 = np.float32(problem.alpha[0]), np.float32(problem.alpha[1])
        for _ in range(count):
            _primal(state.primal, state.dual, self.ahead, self.data_dual, problem.confidence, problem.links, self.tau)
            _dual(state.dual, self.ahead, problem.links, self.sigma_q, alpha_1, alpha_2)
            _data(self.data_dual, self.values, self.known, self.ahead, problem.confidence, self.sigma_p)


@njit(parallel=True, cache=True, fastmath=FAST)
def _primal(primal, dual, ahead, data_dual, confidence, links, tau):  # type: ignore[no-untyped-def]
    views, height, width = data_dual.shape
    for i in prange(height):
        force = np.zeros(width, primal.dtype)
        for k in range(views):
            for j in range(width):
                force[j] += data_dual[k, i, j]
        for j in range(width):
            f = -dual[0, i, j] - dual[1, i, j] + confidence[i, j] * force[j]
            if j > 0:
                f += dual[0, i, j - 1]
            if i > 0:
                f += dual[1, i - 1, j]
            x = primal[0, i, j]
            new = x - tau * f
            ahead[0, i, j] = np.float32(2) * new - x
            primal[0, i, j] = new
            a = -dual[0, i, j] + dual[2, i, j] + ROOT * dual[3, i, j]
            b = -dual[1, i, j] + ROOT * dual[3, i, j] + dual[4, i, j]
            if j + 1 < width:
                a -= dual[2, i, j + 1]
                b -= ROOT * dual[3, i, j + 1]
            if i + 1 < height:
                a -= ROOT * dual[3, i + 1, j]
                b -= dual[4, i + 1, j]
            v = primal[1, i, j]
            ahead[1, i, j] = v - np.float32(2) * tau * a
            primal[1, i, j] = v - tau * a
            v = primal[2, i, j]
            ahead[2, i, j] = v - np.float32(2) * tau * b
            primal[2, i, j] = v - tau * b


@njit(parallel=True, cache=True, fastmath=FAST)
def _dual(dual, ahead, links, sigma, alpha_1, alpha_2):  # type: ignore[no-untyped-def]
    _, height, width = dual.shape
    for i in prange(height):
        below, above = min(i + 1, height - 1), max(i - 1, 0)
        for j in range(width):
            bits = links[i, j]
            right, left = min(j + 1, width - 1), max(j - 1, 0)
            zero = np.float32(0)
            x = ahead[0, i, j]
            a = ahead[0, i, right] - x - ahead[1, i, j] if bits & 1 else zero
            b = ahead[0, below, j] - x - ahead[2, i, j] if bits & 2 else zero
            p, q = dual[0, i, j] + sigma * a, dual[1, i, j] + sigma * b
            shrink = alpha_1 / max(alpha_1, np.sqrt(p * p + q * q))
            dual[0, i, j], dual[1, i, j] = shrink * p, shrink * q
            v, w = ahead[1, i, j], ahead[2, i, j]
            a = v - ahead[1, i, left] if bits & 4 else zero
            b = ROOT * (w - ahead[2, i, left] + v - ahead[1, above, j]) if bits & 8 else zero
            c = w - ahead[2, above, j] if bits & 16 else zero
            p, q, r = dual[2, i, j] + sigma * a, dual[3, i, j] + sigma * b, dual[4, i, j] + sigma * c
            shrink = alpha_2 / max(alpha_2, np.sqrt(p * p + q * q + r * r))
            dual[2, i, j], dual[3, i, j], dual[4, i, j] = shrink * p, shrink * q, shrink * r


@njit(parallel=True, cache=True, fastmath=FAST)
def _data(data_dual, values, known, ahead, confidence, sigma):  # type: ignore[no-untyped-def]
    views, height, width = values.shape
    for i in prange(height):
        for k in range(views):
            for j in range(width):
                p = data_dual[k, i, j] + sigma * confidence[i, j] * (ahead[0, i, j] - values[k, i, j])
                p = min(max(p, np.float32(-1)), np.float32(1))
                data_dual[k, i, j] = p if known[k, i, j] else np.float32(0)
