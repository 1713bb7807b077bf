"""The peers' energies |x - f|^2 / 2 + a1 |D x - v| + a2 |J v|: their minima, and the best v for a peer's x.

D is the forward difference, zero at the far border, where v is then pulled to zero (ours has no term there). J is
symmetrised forward differences in CCPi, the whole Jacobian by backward ones in deepinv, symmetrised backward
differences in ours. Minima come from plain over-relaxed primal-dual steps in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from cfusion.solvers.steps import choose_steps

Floats = NDArray[Any]
NOISE = 0.1


@dataclass(frozen=True)
class PeerEnergy:
    """One peer's discretisation of TGV of order 2 with squared errors."""

    alpha: tuple[float, float]
    forward: bool  # J keeps v[i + 1] - v[i] at i, else at i + 1
    symmetric: bool

    def minimise(self, f: Floats, iterations: int = 4000) -> Minimum:
        x, v = f.astype(np.float64), np.zeros((2, *f.shape))
        p, q = np.zeros((2, *f.shape)), np.zeros((4, *f.shape))
        self._iterate(x, v, p, q, f, iterations, moving=True)
        return Minimum(self.value(x, v, f), v, p, q)

    def best(self, x: Floats, f: Floats, near: Minimum, iterations: int = 800) -> float:
        """The energy of x with the best v, sought from that of the minimum."""
        x, v = x.astype(np.float64), near.v.copy()
        self._iterate(x, v, near.p.copy(), near.q.copy(), f, iterations, moving=False)
        return self.value(x, v, f)

    def value(self, x: Floats, v: Floats, f: Floats) -> float:
        data, first, second = _terms(x, v, f, self.forward, self.symmetric)
        return float(data + self.alpha[0] * first + self.alpha[1] * second)

    def _iterate(self, x: Floats, v: Floats, p: Floats, q: Floats, f: Floats, iterations: int, *, moving: bool) -> None:
        """In place."""
        ahead_x, ahead_v = x.copy(), v.copy()
        steps = choose_steps(self.alpha, NOISE)
        for _ in range(iterations):
            _descend(x, v, p, q, f, ahead_x, ahead_v, steps.tau, steps.relaxation, moving, self.forward)
            _ascend(ahead_x, ahead_v, p, q, steps.sigma, steps.relaxation, self.alpha, self.forward, self.symmetric)


@dataclass(frozen=True, eq=False)
class Minimum:
    """The least energy, the v it is reached with, and the dual variables."""

    energy: float
    v: Floats  # (2, H, W)
    p: Floats  # (2, H, W)
    q: Floats  # (4, H, W)


@nb.njit(inline="always")
def _first(x, v, i, j):  # type: ignore[no-untyped-def]
    """D x - v at a pixel."""
    right = x[i, j + 1] - x[i, j] if j + 1 < x.shape[1] else 0.0
    below = x[i + 1, j] - x[i, j] if i + 1 < x.shape[0] else 0.0
    return right - v[0, i, j], below - v[1, i, j]


@nb.njit(inline="always")
def _second(v, i, j, forward, symmetric):  # type: ignore[no-untyped-def]
    """J v at a pixel: dx v0, dy v0, dx v1, dy v1."""
    i0, j0 = (i, j) if forward else (i - 1, j - 1)
    a = b = c = d = 0.0
    if j0 >= 0 and j0 + 1 < v.shape[2]:
        a, c = v[0, i, j0 + 1] - v[0, i, j0], v[1, i, j0 + 1] - v[1, i, j0]
    if i0 >= 0 and i0 + 1 < v.shape[1]:
        b, d = v[0, i0 + 1, j] - v[0, i0, j], v[1, i0 + 1, j] - v[1, i0, j]
    if symmetric:
        b = c = (b + c) / 2
    return a, b, c, d


@nb.njit(parallel=True, cache=True)
def _terms(x, v, f, forward, symmetric):  # type: ignore[no-untyped-def]
    """|x - f|^2 / 2, |D x - v| and |J v|."""
    data = first = second = 0.0
    for row in nb.prange(x.shape[0]):
        i = np.int64(row)
        for j in range(x.shape[1]):
            g, h = _first(x, v, i, j)
            a, b, c, d = _second(v, i, j, forward, symmetric)
            data += (x[i, j] - f[i, j]) ** 2 / 2
            first += sqrt(g * g + h * h)
            second += sqrt(a * a + b * b + c * c + d * d)
    return data, first, second


@nb.njit(parallel=True, cache=True)
def _ascend(x, v, p, q, sigma, relaxation, alpha, forward, symmetric):  # type: ignore[no-untyped-def]
    """p and q along D x - v and J v, and back into their balls."""
    for row in nb.prange(x.shape[0]):
        i = np.int64(row)
        for j in range(x.shape[1]):
            g, h = _first(x, v, i, j)
            g, h = p[0, i, j] + sigma[0] * g, p[1, i, j] + sigma[0] * h
            shrink = 1 / max(1.0, sqrt(g * g + h * h) / alpha[0])
            p[0, i, j] += relaxation * (g * shrink - p[0, i, j])
            p[1, i, j] += relaxation * (h * shrink - p[1, i, j])
            a, b, c, d = _second(v, i, j, forward, symmetric)
            a, b = q[0, i, j] + sigma[1] * a, q[1, i, j] + sigma[1] * b
            c, d = q[2, i, j] + sigma[1] * c, q[3, i, j] + sigma[1] * d
            shrink = 1 / max(1.0, sqrt(a * a + b * b + c * c + d * d) / alpha[1])
            q[0, i, j] += relaxation * (a * shrink - q[0, i, j])
            q[1, i, j] += relaxation * (b * shrink - q[1, i, j])
            q[2, i, j] += relaxation * (c * shrink - q[2, i, j])
            q[3, i, j] += relaxation * (d * shrink - q[3, i, j])


@nb.njit(parallel=True, cache=True)
def _descend(x, v, p, q, f, ahead_x, ahead_v, tau, relaxation, moving, forward):  # type: ignore[no-untyped-def]
    """x and v against the transposed operators, x towards f as well; ahead are 2 new - old, before relaxation."""
    height, width = x.shape
    at = 0 if forward else 1  # where q keeps the difference to the right, below
    for row in nb.prange(height):
        i = np.int64(row)
        for j in range(width):
            left, right, above, below = j > 0, j + 1 < width, i > 0, i + 1 < height
            if moving:
                slope = (p[0, i, j - 1] if left else 0.0) - (p[0, i, j] if right else 0.0)
                slope += (p[1, i - 1, j] if above else 0.0) - (p[1, i, j] if below else 0.0)
                change = (x[i, j] - tau[0] * slope + tau[0] * f[i, j]) / (1 + tau[0]) - x[i, j]
                ahead_x[i, j] = x[i, j] + 2 * change
                x[i, j] += relaxation * change
            for m in range(2):
                slope = (q[2 * m, i, j - 1 + at] if left else 0.0) - (q[2 * m, i, j + at] if right else 0.0)
                slope += (q[2 * m + 1, i - 1 + at, j] if above else 0.0) - (q[2 * m + 1, i + at, j] if below else 0.0)
                change = -tau[1] * (slope - p[m, i, j])
                ahead_v[m, i, j] = v[m, i, j] + 2 * change
                v[m, i, j] += relaxation * change
