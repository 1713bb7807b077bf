"""The lower bound of `cfusion.kernels.numpy.certificate`, bands of rows in parallel."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numba import njit

from cfusion.kernels.contract import INSIDE, Box, Fidelity, Floats, Links, Problem, State
from cfusion.kernels.cpu.repairing import repair
from cfusion.kernels.cpu.sums import HALF_ROOT, OPTIONS, THIRD_ROOT, TWO_THIRDS_ROOT
from cfusion.kernels.host import nothing
from cfusion.kernels.numpy import certificate as definition
from cfusion.kernels.numpy.iteration import level_dual, project, radius
from cfusion.kernels.threads import Call, in_bands, with_lines

FAST: dict[str, Any] = {**OPTIONS, "fastmath": {"contract", "nsz"}}


def bound(problem: Problem, state: State, box: Box, rounds: int, most: int = 0, enough: float = float("inf")) -> float:
    """As `Backend.bound`; problems with a tensor, which are rare, use the slower definition."""
    if problem.tensor is not None:
        return definition.bound(problem, state, box, rounds, most, enough)
    state.release()  # frees the spare arrays, as the repair needs memory
    repair, best = _Repair(problem, state.dual[level_dual(problem.order - 1)]), float("-inf")
    while True:
        slope, factor = _slope(problem, repair.run(rounds))
        last = definition.is_last(factor, repair.done, rounds, most, enough)
        if last or enough < float("inf"):
            best = max(best, _pixels(problem, slope, factor, box))
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
    """The steps of the repair, run in batches."""

    def __init__(self, problem: Problem, top: Floats) -> None:
        self.problem, self.hold = problem, _hold(problem)
        self.ahead, self.before = top, top[:, :0]  # without a `before`, the first step projects the top dual
        if problem.order != 2:
            self.ahead, self.before = top.copy(), top.copy()
            in_bands(problem.links.shape, (_advance, self.ahead, self.before, 0.0, *_limit(problem, problem.order - 1)))
        self.momentum, self.done = 1.0, 0

    def run(self, rounds: int) -> Floats:
        """The top dual after `rounds` more steps."""
        problem, momenta = self.problem, []
        for _ in range(rounds):
            following = (1 + sqrt(1 + 4 * self.momentum**2)) / 2
            momenta.append((self.momentum - 1) / following)
            self.momentum = following
        self.done += rounds
        if problem.order == 2:
            edge = (
                np.ones((1, problem.links.shape[1]), problem.confidence.dtype) if problem.edge is None else problem.edge
            )
            given = problem.links, self.hold, edge, problem.alpha
            self.ahead, self.before = repair(momenta, self.ahead, self.before, *given)
            return self.before if self.done else project(self.ahead, radius(problem, 1))
        if problem.order == 3 or self.hold.size > 0:  # else every slope is feasible
            self._run_one_by_one(momenta)
        return self.before

    def _run_one_by_one(self, momenta: list[float]) -> None:
        """Each lower dual is overwritten by its part of the gradient."""
        problem, order, links = self.problem, self.problem.order, self.problem.links
        ahead, before = self.ahead, self.before
        chain = [np.empty((planes, *links.shape), ahead.dtype) for planes in range(1, order + 1)]
        for momentum in momenta:
            p = ahead
            for level in range(order - 1, -1, -1):
                in_bands(links.shape, _adjoint(level + 1, p, chain[level]))
                p = chain[level]
            in_bands(links.shape, (_stick_out_slope, chain[0], self.hold))
            for level in range(1, order):
                in_bands(
                    links.shape,
                    (_stick_out, chain[level], *_limit(problem, level - 1)),
                    _add_gradient(level, chain[level - 1], links, definition.TERM_WEIGHT, chain[level]),
                )
            in_bands(
                links.shape,
                _add_gradient(order, chain[order - 1], links, -1 / (8 * order), ahead),
                (_advance, ahead, before, momentum, *_limit(problem, order - 1)),
            )


def _adjoint(order: int, p: Floats, out: Floats) -> Call:
    """The call that computes out <- E_order^T p."""
    return ((_adjoint_1, _adjoint_2, _adjoint_3)[order - 1], p, out)


def _add_gradient(order: int, u: Floats, links: Links, factor: float, out: Floats) -> Call:
    """The call that computes out <- out + factor E_order u."""
    return ((_add_gradient_1, _add_gradient_2, _add_gradient_3)[order - 1], u, links, factor, out)


def _hold(problem: Problem) -> Floats:
    """The bound (H, W) of the slope, empty where no pixel has one."""
    hold = definition.slope_limit(problem)
    unlimited = problem.prox_centre is not None or problem.fidelity in definition.STEEP
    return hold[:0] if unlimited and np.all((hold > 0) | (problem.links == 0)) else hold


def _limit(problem: Problem, level: int) -> tuple[float, Floats]:
    """alpha of the level, and its edge weight (empty for one)."""
    if level == 0 and problem.edge is not None:
        return problem.alpha[0], problem.edge
    return problem.alpha[level], nothing(2, problem.confidence.dtype)


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


def _pixels(problem: Problem, slope: Floats, factor: float, box: Box) -> float:
    """The sum over the domain of each pixel's minimum, with slopes scaled by the factor."""
    seen = problem.observations
    if problem.prox_centre is not None or problem.fidelity is Fidelity.HUBER:
        inside = (problem.links & INSIDE) > 0
        return float(np.sum(definition.pixel_bound(problem, factor * slope, box)[inside]))
    rows, ends = np.zeros(slope.shape[0]), (factor, box.low, box.high)
    if seen.scatter is not None:
        data = seen.values[0], seen.total, seen.scatter
        in_bands(slope.shape, (_l2_pixels, slope, *data, problem.confidence, problem.links, *ends, rows))
    else:
        pixels = with_lines(_l1_pixels, 6, slope.shape[1])
        weights = nothing(3, seen.values.dtype) if seen.weights is None else seen.weights
        in_bands(slope.shape, (pixels, slope, seen.values, weights, problem.confidence, problem.links, *ends, rows))
    return float(rows.sum())


@njit(**OPTIONS)
def _l2_pixels(
    start: int, stop: int, slope: Floats, mean: Floats, total: Floats, scatter: Floats, confidence: Floats,
    links: Any, factor: float, low: float, high: float, rows: Floats,
) -> None:  # fmt: skip
    """min over x in [low, high] of slope x + lam (S (x - d)^2 / 2 + scatter)."""
    for i in range(start, stop):
        summed = 0.0
        for j in range(mean.shape[1]):
            g, lam, d = factor * slope[i, j], np.float64(confidence[i, j]), np.float64(mean[i, j])
            hold = lam * total[i, j]
            x = (low if g > 0 else high) if hold == 0 else min(max(d - g / hold, low), high)
            value = g * x + lam * (total[i, j] * (x - d) ** 2 / 2 + scatter[i, j])
            summed += value if links[i, j] & 512 else 0.0
        rows[i] = summed


@njit(**OPTIONS)
def _l1_pixels(
    start: int, stop: int, slope: Floats, values: Floats, weights: Floats, confidence: Floats, links: Any,
    factor: float, low: float, high: float, rows: Floats,
    value: Floats, least: Floats, x: Floats, rise: Floats, lam: Floats, base: Floats,
) -> None:  # fmt: skip
    """min over x in [low, high] of slope x + lam sum w |x - d|: convex and piecewise linear, so at a corner.

    Lines of `lam`, of what is reached so far: `x`, value, slope (`rise`) and the `least` value; and of sum w |low - d|
    (`base`), which is added last.
    """
    views, _, width = values.shape
    weighted = weights.size > 0
    for i in range(start, stop):
        for j in range(width):
            rise[j] = factor * slope[i, j]
            value[j] = least[j] = rise[j] * low
            x[j] = low
            lam[j] = confidence[i, j]
            base[j] = 0.0
        for k in range(views):
            for j in range(width):
                amount = np.float64(weights[k, i, j]) if weighted else 1.0
                rise[j] -= lam[j] * amount if values[k, i, j] < np.inf else 0.0
        for k in range(views):
            for j in range(width):
                known = values[k, i, j] < np.inf
                amount = (np.float64(weights[k, i, j]) if weighted else 1.0) if known else 0.0
                d = np.float64(values[k, i, j]) if known else low
                corner = max(d, x[j])
                value[j] += rise[j] * (corner - x[j])
                least[j] = min(least[j], value[j])
                rise[j] += 2 * lam[j] * amount
                x[j] = corner
                base[j] += amount * abs(d - low)
        summed = 0.0
        for j in range(width):
            end = value[j] + rise[j] * (high - x[j])
            summed += min(least[j], end) + lam[j] * base[j] if links[i, j] & 512 else 0.0
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
def _stick_out_slope(start: int, stop: int, g: Floats, hold: Floats) -> None:
    """g <- its excess over the slope that the data can balance."""
    if hold.size == 0:
        g[0, start:stop] = 0
        return
    for i in range(start, stop):
        for j in range(hold.shape[1]):
            limit = hold[i, j]
            g[0, i, j] -= min(max(g[0, i, j], -limit), limit)


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
    return _Repair(problem, state.dual[level_dual(problem.order - 1)]).run(rounds)
