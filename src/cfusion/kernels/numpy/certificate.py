"""A rigorous lower bound of the convex energy, from any dual state.

By weak duality, for a top dual p_l the minimum is at least

    sum_i min_x  g_i x + lam_i sum_k w_ki phi(x - d_ki) [+ pull/2 (x - anchor_i)^2]

with p_(j-1) = E_j^T p_j and g = E_1^T p_1,

provided that every p_j stays within its ball |p_j| <= alpha_j. Iterates only nearly satisfy this, so the top dual is
*repaired* first: a few accelerated projected-gradient steps on the squared distances of p_(l-1) .. p_1 to their balls
and of g to the data's slopes. The remaining violation is removed by one factor <= 1. v needs no box; x is confined to
the box where the data do not determine it.
"""

import numpy as np

from cfusion.kernels.contract import INSIDE, Box, Fidelity, Floats, Problem, State
from cfusion.kernels.numpy.iteration import apply_tensor, level_dual, misfit, project, radius
from cfusion.kernels.numpy.operators import adjoint, symmetrised_gradient
from cfusion.kernels.numpy.prox import data_prox, known_weights

FEASIBLE = 1 - 1e-3  # a factor on the dual: it costs the bound a tenth to a fifth of its distance from one
STEEP = (Fidelity.L2,)  # whose slope has no limit
TERM_WEIGHT = 1 / 8  # per order below the top: 1 / |E|^2, which gives all terms the same Lipschitz bound


def bound(problem: Problem, state: State, box: Box, rounds: int, most: int = 0, enough: float = float("inf")) -> float:
    """The best bound after `rounds` repair steps, or up to `most` while the violation is too large.

    Computed in double precision.
    """
    inside, best = (problem.links & INSIDE) > 0, float("-inf")
    repair = _Repair(problem, project(state.dual[level_dual(problem.order - 1)], radius(problem, problem.order - 1)))
    while True:
        chain = _chain(problem, repair.run(rounds).astype(np.float64))
        factor = 1.0
        for level, p in enumerate(chain[1:]):
            factor = min(factor, _largest_factor(_as_dual(problem, p, level), radius(problem, level)))
        found = float(np.sum(pixel_bound(problem, factor * chain[0][0], box)[inside]))
        best = max(best, found)
        if best >= enough or is_last(factor, repair.done, rounds, most, enough):
            return best


def is_last(factor: float, done: int, rounds: int, most: int, enough: float) -> bool:
    """Whether further steps are not worthwhile: the dual is feasible (twice as many, if they may prove `enough`)."""
    tried = done >= 2 * rounds or enough == float("inf")
    return (factor >= FEASIBLE and tried) or done + max(rounds, 1) > most


class _Repair:
    """Accelerated projected-gradient steps, run in batches."""

    def __init__(self, problem: Problem, top: Floats) -> None:
        self.problem, self.limit = problem, slope_limit(problem)
        self.ahead, self.before = top.copy(), top
        self.momentum, self.done = 1.0, 0

    def run(self, rounds: int) -> Floats:
        """The top dual after `rounds` more steps."""
        order, real = self.problem.order, self.ahead.dtype.type
        step = real(1 / (8 * order))
        for _ in range(rounds):
            now = project(self.ahead - step * self._gradient(), radius(self.problem, order - 1))
            following = (1 + np.sqrt(1 + 4 * self.momentum**2)) / 2
            self.ahead = now + real((self.momentum - 1) / following) * (now - self.before)
            self.before, self.momentum = now, following
        self.done += rounds
        return self.before

    def _gradient(self) -> Floats:
        problem, order = self.problem, self.problem.order
        chain = _chain(problem, self.ahead)
        gradient = chain[0] - np.clip(chain[0], -self.limit, self.limit)
        for level in range(order - 1):
            gradient = symmetrised_gradient(gradient, problem.links, level + 1) * gradient.dtype.type(TERM_WEIGHT)
            gradient += _excess(problem, chain[level + 1], level)
        gradient = symmetrised_gradient(gradient, problem.links, order)
        return apply_tensor(problem, gradient) if order == 1 else gradient


def _chain(problem: Problem, top: Floats) -> list[Floats]:
    """[g, flux p_1, p_2, ...]: every lower dual of the top one; p_1 is the flux after the tensor."""
    p = apply_tensor(problem, top) if problem.order == 1 else top
    chain = [p]
    for order in range(problem.order, 0, -1):
        p = adjoint(p, problem.links, order)
        chain.insert(0, p)
    return chain


def _excess(problem: Problem, p: Floats, level: int) -> Floats:
    """The part of p_level outside its ball, as a vector."""
    within = project(_as_dual(problem, p, level), radius(problem, level)).astype(p.dtype)
    return p - (apply_tensor(problem, within) if level == 0 else within)


def _as_dual(problem: Problem, p: Floats, level: int) -> Floats:
    """The first-order dual whose flux is p: D^(-1/2) p."""
    if level or problem.tensor is None:
        return p
    xx, xy, yy = problem.tensor.astype(p.dtype)
    determinant = np.maximum(xx * yy - xy * xy, np.finfo(problem.tensor.dtype).tiny)
    return np.stack([yy * p[0] - xy * p[1], xx * p[1] - xy * p[0]]) / determinant


def _largest_factor(p: Floats, limit: Floats | float) -> float:
    """The largest c <= 1 with |c p| <= limit everywhere."""
    length = np.sqrt(np.sum(p * p, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(length > limit, limit / length, 1.0)
    return float(ratio.min())


def slope_limit(problem: Problem) -> Floats:
    """The steepest slope g (H, W) that data balance: lam S; unlimited for STEEP or a proximal term, 0 without data."""
    hold = problem.confidence * problem.observations.total
    if problem.fidelity in STEEP or problem.prox_centre is not None:
        free = np.full_like(hold, np.finfo(hold.dtype).max)
        return free if problem.prox_centre is not None else np.where(hold > 0, free, 0)
    return hold


def pixel_bound(problem: Problem, slope: Floats, box: Box) -> Floats:
    """(H, W) min over x in the box of slope x + the pixel's data terms, in double precision."""
    confidence = problem.confidence.astype(np.float64)
    x = _minimiser(problem, slope, confidence, box)
    value = slope * x + confidence * misfit(problem, x)
    if problem.prox_centre is not None:
        value += problem.prox_weight / 2 * (x - problem.prox_centre) ** 2
    if problem.fidelity is Fidelity.HUBER and problem.prox_centre is None:
        # the root is rounded, but the function is convex: in the box it is nowhere below its tangent there
        tangent = slope + confidence * _huber_slope(problem, x)
        value -= tangent * (x - np.where(tangent > 0, box.low, box.high))
    return value


def _minimiser(problem: Problem, slope: Floats, confidence: Floats, box: Box) -> Floats:
    seen = problem.observations
    if problem.prox_centre is not None:
        centre = problem.prox_centre - slope / problem.prox_weight
        x = data_prox(centre, confidence / problem.prox_weight, seen, problem.fidelity, problem.delta)
        return np.clip(x, box.low, box.high)  # a weak proximal term confines x no better than none
    hold = confidence * seen.total
    ends = np.where(slope > 0, box.low, box.high)
    if problem.fidelity is Fidelity.L2:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(hold > 0, np.clip(seen.values[0] - slope / hold, box.low, box.high), ends)
    if problem.fidelity is Fidelity.HUBER:
        return _huber_minimiser(problem, slope, confidence, box)
    # L1: the first observation at which the slope is no longer negative. The weights are summed here instead of using
    # `total`, whose rounding would hide that point where the slope is exactly what the data can balance
    weights = known_weights(seen).astype(np.float64)
    total = weights.sum(axis=0)
    heaped = np.zeros_like(slope)
    x = np.where(slope + confidence * total < 0, box.high, box.low)
    settled = (slope - confidence * total >= 0) | (slope + confidence * total < 0)
    for k in range(len(seen.values)):
        here = ~settled & np.isfinite(seen.values[k])
        x = np.where(here, seen.values[k], x)  # the largest observation, if rounding still hides the point
        heaped = heaped + weights[k]
        settled = settled | (here & (slope + confidence * (2 * heaped - total) >= 0))
    return np.where(hold > 0, x, ends)


def _huber_slope(problem: Problem, x: Floats) -> Floats:
    seen = problem.observations
    known = np.isfinite(seen.values)
    weights = known if seen.weights is None else seen.weights
    out: Floats = np.sum(weights * np.clip((x - np.where(known, seen.values, 0)) / problem.delta, -1, 1), axis=0)
    return out


def _huber_minimiser(problem: Problem, slope: Floats, confidence: Floats, box: Box) -> Floats:
    """The root of the derivative in the box: max over j of min over i >= j of the roots of its linear pieces, in which
    the j smallest observations lie at least delta below x and those after i at least delta above.

    `kernels/cpu/prox.py` does the same for the prox.
    """
    seen = problem.observations
    weights = confidence * known_weights(seen)
    values = np.where(np.isfinite(seen.values), seen.values, 0).astype(np.float64)
    total = weights.sum(axis=0)
    root, below = np.full_like(slope, -np.inf), np.zeros_like(slope)  # weight of the j smallest observations
    for j in range(len(values)):
        lifted = slope + 2 * below - total  # the derivative before the j-th piece
        least = np.where(lifted <= 0, np.inf, -np.inf)
        weight, moment = np.zeros_like(slope), np.zeros_like(slope)
        for i in range(j, len(values)):
            weight += weights[i]
            moment += weights[i] * values[i]
            with np.errstate(divide="ignore", invalid="ignore"):
                piece = (moment - problem.delta * (lifted + weight)) / weight
                least = np.minimum(least, np.where(weight > 0, piece, np.inf))
        root = np.maximum(root, least)
        below += weights[j]
    return np.clip(np.where(slope + total <= 0, np.inf, root), box.low, box.high)


def repaired(problem: Problem, state: State, rounds: int) -> Floats:
    """The top dual after `rounds` repair steps, for a mosaic that is certified in parts."""
    top = project(state.dual[level_dual(problem.order - 1)], radius(problem, problem.order - 1))
    return _Repair(problem, top).run(rounds)
