"""The lower bound of `cfusion.kernels.numpy.certificate`, bands of rows in parallel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels.contract import INSIDE, Box, Fidelity, Floats, Links, Problem, State
from cfusion.kernels.cpu.sums import HALF_ROOT, OPTIONS, THIRD_ROOT, TWO_THIRDS_ROOT
from cfusion.kernels.numpy import certificate as definition
from cfusion.kernels.numpy.iteration import level_dual
from cfusion.kernels.threads import Call, in_bands

FAST: dict[str, Any] = {**OPTIONS, "fastmath": {"contract", "nsz"}}


def bound(problem: Problem, state: State, box: Box, rounds: int, most: int = 0, enough: float = float("inf")) -> float:
    """As `Backend.bound`; problems with a tensor, which are rare, use the slower definition."""
    if problem.tensor is not None:
        return definition.bound(problem, state, box, rounds, most, enough)
    state.release()  # frees the spare arrays, as the repair needs memory
    repair, best = _Repair(problem, state.dual[level_dual(problem.order - 1)]), float("-inf")
    while True:
        repair.run(rounds)
        slope, factor = _slope(problem, repair.before)
        last = definition.is_last(factor, repair.done, rounds, most, enough)
        if last or enough < float("inf"):
            slope *= factor
            best = max(best, _pixels(problem, slope, box))
            if last or best >= enough:
                return best
        del slope


def _slope(problem: Problem, p: Floats) -> tuple[Floats, float]:
    """g of a top dual in double precision, and the factor that brings the intermediate duals into their balls."""
    factor, shape = 1.0, problem.links.shape
    for level in range(problem.order - 1, -1, -1):
        lower = np.empty((level + 1, *shape))
        in_bands(shape, _adjoint(level + 1, p, lower))
        p = lower
        if level > 0:
            ratios = np.empty(len(p[0]))
            in_bands(shape, (_factors, p, *_limit(problem, level - 1), ratios))
            factor = min(factor, float(ratios.min()))
    return p[0], factor


class _Repair:
    """The steps of the repair, run in batches; each lower dual is overwritten by its part of the gradient."""

    def __init__(self, problem: Problem, top: Floats) -> None:
        self.problem, order = problem, problem.order
        self.chain = [np.empty((planes, *problem.links.shape), top.dtype) for planes in range(1, order + 1)]
        self.before, self.ahead = top.copy(), top.copy()
        in_bands(problem.links.shape, (_advance, self.ahead, self.before, 0.0, *_limit(problem, order - 1)))
        self.momentum, self.done = 1.0, 0

    def run(self, rounds: int) -> None:
        """Run `rounds` more steps, in place."""
        problem, order, links, chain = self.problem, self.problem.order, self.problem.links, self.chain
        data = (problem.confidence, problem.observations.total, _hold(problem))
        for _ in range(rounds):
            p = self.ahead
            for level in range(order - 1, 0, -1):
                in_bands(links.shape, _adjoint(level + 1, p, chain[level]))
                p = chain[level]
            in_bands(links.shape, _adjoint(1, p, chain[0]), (_stick_out_slope, chain[0], *data))
            for level in range(1, order):
                in_bands(
                    links.shape,
                    (_stick_out, chain[level], *_limit(problem, level - 1)),
                    _add_gradient(level, chain[level - 1], links, definition.TERM_WEIGHT, chain[level]),
                )
            following = (1 + np.sqrt(1 + 4 * self.momentum**2)) / 2
            in_bands(
                links.shape,
                _add_gradient(order, chain[order - 1], links, -1 / (8 * order), self.ahead),
                (_advance, self.ahead, self.before, (self.momentum - 1) / following, *_limit(problem, order - 1)),
            )
            self.momentum = following
        self.done += rounds


def _adjoint(order: int, p: Floats, out: Floats) -> Call:
    """The call that computes out <- E_order^T p."""
    return ((_adjoint_1, _adjoint_2, _adjoint_3)[order - 1], p, out)


def _add_gradient(order: int, u: Floats, links: Links, factor: float, out: Floats) -> Call:
    """The call that computes out <- out + factor E_order u."""
    return ((_add_gradient_1, _add_gradient_2, _add_gradient_3)[order - 1], u, links, factor, out)


def _hold(problem: Problem) -> int:
    """The bound of the slope: 0 the data's weight, 1 none where there are data, 2 none."""
    if problem.prox_centre is not None:
        return 2
    return 1 if problem.fidelity in definition.STEEP else 0


def _limit(problem: Problem, level: int) -> tuple[float, Floats]:
    """alpha of the level, and its edge weight (empty for one)."""
    if level == 0 and problem.edge is not None:
        return problem.alpha[0], problem.edge
    return problem.alpha[level], np.empty((0, 0), problem.confidence.dtype)


@njit(**OPTIONS)
def _factors(start: int, stop: int, p: Floats, weight: float, edge: Floats, ratios: Floats) -> None:
    """Per row, the largest factor <= 1 that brings every pixel into its ball."""
    planes, _, width = p.shape
    for i in range(start, stop):
        least = 1.0
        for j in range(width):
            square = 0.0
            for m in range(planes):
                square += p[m, i, j] * p[m, i, j]
            limit = weight * edge[i, j] if edge.size > 0 else weight
            length = np.sqrt(square)
            if length > limit:
                least = min(least, limit / length)
        ratios[i] = least


def _pixels(problem: Problem, slope: Floats, box: Box) -> float:
    if problem.fidelity is not Fidelity.L1 or problem.prox_centre is not None:
        inside = (problem.links & INSIDE) > 0
        return float(np.sum(definition.pixel_bound(problem, slope, box)[inside]))
    seen = problem.observations
    rows = np.zeros(slope.shape[0])
    weights = np.empty((0, 0, 0), seen.values.dtype) if seen.weights is None else seen.weights
    given = (seen.values, weights, problem.confidence, problem.links)
    in_bands(slope.shape, (_l1_pixels, slope, *given, box.low, box.high, rows))
    return float(rows.sum())


@njit(**OPTIONS)
def _l1_pixels(
    start: int, stop: int, slope: Floats, values: Floats, weights: Floats, confidence: Floats,
    links: Any, low: float, high: float, rows: Floats,
) -> None:  # fmt: skip
    """min over x in [low, high] of slope x + lam sum w |x - d|: convex and piecewise linear, so at a corner."""
    views, _, width = values.shape
    weighted = weights.size > 0
    for i in range(start, stop):
        summed = 0.0
        for j in range(width):
            if not links[i, j] & 512:
                continue
            g = slope[i, j]
            lam = np.float64(confidence[i, j])
            at_low = 0.0
            total = 0.0
            for k in range(views):
                d = np.float64(values[k, i, j])
                if d < np.inf:
                    w = np.float64(weights[k, i, j]) if weighted else 1.0
                    total += w
                    at_low += w * abs(d - low)
            value = g * low + lam * at_low
            best = value
            x = low
            heaped = 0.0
            for k in range(views):
                d = np.float64(values[k, i, j])
                if d < np.inf and d > low:
                    value += (g + lam * (2 * heaped - total)) * (d - x)
                    x = d
                    best = min(best, value)
                if d < np.inf:
                    heaped += np.float64(weights[k, i, j]) if weighted else 1.0
            value += (g + lam * (2 * heaped - total)) * (high - x)
            summed += min(best, value)
        rows[i] = summed


# Loops over a row have no branches and use j - 1 or j + 1 only, so that they vectorise; ends of rows are separate.


@njit(**FAST)
def _adjoint_1(start: int, stop: int, p: Floats, out: Floats) -> None:
    """E_1^T; p is zero where its planes do not exist (as below). Computed in the precision of `out`."""
    width = p.shape[2]
    zero = out.dtype.type(0)
    for i in range(start, stop):
        above = max(i - 1, 0)
        there = out.dtype.type(1 if i > 0 else 0)
        out[0, i, 0] = zero - p[0, i, 0] - p[1, i, 0] + there * p[1, above, 0]
        for j in range(1, width):
            out[0, i, j] = (zero + p[0, i, j - 1] - p[0, i, j]) + (there * p[1, above, j] - p[1, i, j])


@njit(**FAST)
def _adjoint_2(start: int, stop: int, p: Floats, out: Floats) -> None:
    _, height, width = p.shape
    half = out.dtype.type(HALF_ROOT)
    zero = out.dtype.type(0)
    last = width - 1
    for i in range(start, stop):
        below = min(i + 1, height - 1)
        there = out.dtype.type(1 if i + 1 < height else 0)
        for j in range(last):
            middle = zero + p[1, i, j]
            out[0, i, j] = (zero + p[0, i, j] - p[0, i, j + 1]) + half * (middle - there * p[1, below, j])
            out[1, i, j] = half * (middle - p[1, i, j + 1]) + (zero + p[2, i, j] - there * p[2, below, j])
        middle = zero + p[1, i, last]
        out[0, i, last] = p[0, i, last] + half * (middle - there * p[1, below, last])
        out[1, i, last] = half * middle + (zero + p[2, i, last] - there * p[2, below, last])


@njit(**FAST)
def _adjoint_3(start: int, stop: int, p: Floats, out: Floats) -> None:
    width = p.shape[2]
    for i in range(start, stop):
        for j in range(width):
            first = -1.0 * p[0, i, j] - THIRD_ROOT * p[1, i, j]
            second = -TWO_THIRDS_ROOT * (p[1, i, j] + p[2, i, j])
            third = -THIRD_ROOT * p[2, i, j] - p[3, i, j]
            if j > 0:
                first += p[0, i, j - 1]
                second += TWO_THIRDS_ROOT * p[1, i, j - 1]
                third += THIRD_ROOT * p[2, i, j - 1]
            if i > 0:
                first += THIRD_ROOT * p[1, i - 1, j]
                second += TWO_THIRDS_ROOT * p[2, i - 1, j]
                third += p[3, i - 1, j]
            out[0, i, j] = first
            out[1, i, j] = second
            out[2, i, j] = third


@njit(**FAST)
def _add_gradient_1(start: int, stop: int, u: Floats, links: Any, factor: float, out: Floats) -> None:
    """out += factor E_1 u, on existing planes (as below)."""
    height, width = links.shape
    f = out.dtype.type(factor)
    zero = out.dtype.type(0)
    last = width - 1
    for i in range(start, stop):
        below = min(i + 1, height - 1)
        for j in range(last):
            out[0, i, j] += f * (u[0, i, j + 1] - u[0, i, j]) if links[i, j] & 1 else zero
        for j in range(width):
            out[1, i, j] += f * (u[0, below, j] - u[0, i, j]) if links[i, j] & 2 else zero


@njit(**FAST)
def _add_gradient_2(start: int, stop: int, u: Floats, links: Any, factor: float, out: Floats) -> None:
    width = links.shape[1]
    f = out.dtype.type(factor)
    fh = out.dtype.type(factor * HALF_ROOT)
    zero = out.dtype.type(0)
    for i in range(start, stop):
        above = max(i - 1, 0)
        for j in range(1, width):
            out[0, i, j] += f * (u[0, i, j] - u[0, i, j - 1]) if links[i, j] & 4 else zero
        for j in range(1, width):
            mixed = (u[1, i, j] - u[1, i, j - 1]) + (u[0, i, j] - u[0, above, j])
            out[1, i, j] += fh * mixed if links[i, j] & 8 else zero
        for j in range(width):
            out[2, i, j] += f * (u[1, i, j] - u[1, above, j]) if links[i, j] & 16 else zero


@njit(**FAST)
def _add_gradient_3(start: int, stop: int, u: Floats, links: Any, factor: float, out: Floats) -> None:
    height, width = links.shape
    f = out.dtype.type(factor)
    third = out.dtype.type(THIRD_ROOT)
    two_thirds = out.dtype.type(TWO_THIRDS_ROOT)
    for i in range(start, stop):
        below = min(i + 1, height - 1)
        for j in range(width):
            bits = links[i, j]
            right = min(j + 1, width - 1)
            a = u[0, i, j]
            b = u[1, i, j]
            c = u[2, i, j]
            if bits & 32:
                out[0, i, j] += f * (u[0, i, right] - a)
            if bits & 64:
                out[1, i, j] += f * (two_thirds * (u[1, i, right] - b) + third * (u[0, below, j] - a))
            if bits & 128:
                out[2, i, j] += f * (third * (u[2, i, right] - c) + two_thirds * (u[1, below, j] - b))
            if bits & 256:
                out[3, i, j] += f * (u[2, below, j] - c)


# The following work on any number of planes: the lengths of a row first, then plane by plane, so that every loop
# vectorises.


@njit(**FAST)
def _stick_out(start: int, stop: int, p: Floats, weight: float, edge: Floats) -> None:
    """p <- p - its projection."""
    planes, _, width = p.shape
    for i in range(start, stop):
        shrink = np.empty(width, p.dtype)
        one = p.dtype.type(1)
        _shrink_row(p, i, weight, edge, shrink)
        for m in range(planes):
            for j in range(width):
                p[m, i, j] = (one - shrink[j]) * p[m, i, j]


@njit(**FAST)
def _stick_out_slope(start: int, stop: int, g: Floats, confidence: Floats, total: Floats, hold: int) -> None:
    """g <- its excess over the slope that the data can balance (see `_hold`)."""
    width = total.shape[1]
    for i in range(start, stop):
        for j in range(width):
            limit = confidence[i, j] * total[i, j]
            free = hold == 2 or (hold == 1 and limit > 0)
            excess = g[0, i, j] - min(max(g[0, i, j], -limit), limit)
            g[0, i, j] = g.dtype.type(0) if free else excess


@njit(**FAST)
def _advance(
    start: int, stop: int, ahead: Floats, before: Floats, momentum: float, weight: float, edge: Floats
) -> None:
    """before <- proj(ahead), ahead <- before + momentum * (change of before)."""
    planes, _, width = ahead.shape
    for i in range(start, stop):
        shrink = np.empty(width, ahead.dtype)
        inertia = ahead.dtype.type(momentum)
        _shrink_row(ahead, i, weight, edge, shrink)
        for m in range(planes):
            for j in range(width):
                now = shrink[j] * ahead[m, i, j]
                ahead[m, i, j] = now + inertia * (now - before[m, i, j])
                before[m, i, j] = now


@njit(**FAST, no_cpython_wrapper=True)
def _shrink_row(p: Floats, i: int, weight: float, edge: Floats, shrink: Floats) -> None:
    """The factor <= 1 that brings each pixel of row i of p into its ball."""
    planes, _, width = p.shape
    limit = p.dtype.type(weight)
    one = p.dtype.type(1)
    for j in range(width):
        shrink[j] = p[0, i, j] * p[0, i, j]
    for m in range(1, planes):
        for j in range(width):
            shrink[j] += p[m, i, j] * p[m, i, j]
    if edge.size > 0:
        for j in range(width):
            bound = limit * edge[i, j]
            length = np.sqrt(shrink[j])
            shrink[j] = bound / length if length > bound else one
    else:
        for j in range(width):
            length = np.sqrt(shrink[j])
            shrink[j] = limit / max(length, limit)


def repaired(problem: Problem, state: State, rounds: int) -> Floats:
    """The same as the definition."""
    repair = _Repair(problem, state.dual[level_dual(problem.order - 1)])
    repair.run(rounds)
    return repair.before
