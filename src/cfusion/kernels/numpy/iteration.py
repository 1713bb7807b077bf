"""One over-relaxed primal-dual iteration, line by line, and the energy and lower bound of a state.

x' = prox_tau F (x - tau K^T q),  q' = proj (q + sigma K (2 x' - x)),  (x, q) += rho ((x', q') - (x, q))
"""

import numpy as np

from cfusion.kernels.contract import INSIDE, Energies, Floats, Observations, Problem, Settled, Settling, State, Steps
from cfusion.kernels.numpy.operators import adjoint, masks, symmetrised_gradient
from cfusion.kernels.numpy.prox import data_prox, known_weights, penalty


def iterate(problem: Problem, state: State, steps: Steps, count: int, plan: Settling | None = None) -> Settled | None:
    """As `Backend.iterate`; plans are left to the solver."""
    if plan is None:
        state.own()
        for _ in range(count):
            _iterate_once(problem, state, steps)
    return None


def _iterate_once(problem: Problem, state: State, steps: Steps) -> None:
    real = state.primal.dtype.type
    pressure = apply_adjoint(problem, state.dual)
    moved = np.empty_like(state.primal)
    for level in range(problem.order):
        planes = level_primal(level)
        moved[planes] = state.primal[planes] - real(steps.tau[level]) * pressure[planes]
    moved[0] = x_prox(problem, moved[0], steps.tau[0])
    extrapolated = 2 * moved - state.primal
    stretched = apply_operator(problem, extrapolated)
    pushed = np.empty_like(state.dual)
    for level in range(problem.order):
        planes = level_dual(level)
        pushed[planes] = state.dual[planes] + real(steps.sigma[level]) * stretched[planes]
        pushed[planes] = project(pushed[planes], radius(problem, level))
    rho = real(steps.relaxation)
    state.primal[...] += rho * (moved - state.primal)
    state.dual[...] += rho * (pushed - state.dual)


def x_prox(problem: Problem, f: Floats, tau: float) -> Floats:
    """The prox of the data term, with the proximal term's quadratic folded into its centre and step."""
    real = f.dtype.type
    step = real(tau)
    if problem.prox_centre is not None:
        weight = step * real(problem.prox_weight)
        f = (f + weight * problem.prox_centre) / (1 + weight)
        step = real(step / (1 + weight))
    return data_prox(f, step * problem.confidence, problem.observations, problem.fidelity, problem.delta)


def apply_operator(problem: Problem, primal: Floats) -> Floats:
    """(E_1 x - v, E_2 v - w, E_3 w) on the components that exist; the tensor acts on the first."""
    parts = []
    for level in range(problem.order):
        part = symmetrised_gradient(primal[level_primal(level)], problem.links, level + 1)
        if level + 1 < problem.order:
            part -= primal[level_primal(level + 1)] * masks(problem.links, level + 1)
        parts.append(apply_tensor(problem, part) if level == 0 else part)
    return np.concatenate(parts)


def apply_adjoint(problem: Problem, dual: Floats) -> Floats:
    """The transpose of `apply_operator`."""
    out = np.zeros((problem.order * (problem.order + 1) // 2, *dual.shape[1:]), dual.dtype)
    for level in range(problem.order):
        part = dual[level_dual(level)]
        part = apply_tensor(problem, part) if level == 0 else part
        out[level_primal(level)] += adjoint(part, problem.links, level + 1)
        if level + 1 < problem.order:
            out[level_primal(level + 1)] -= part * masks(problem.links, level + 1)
    return out


def apply_tensor(problem: Problem, part: Floats) -> Floats:
    """D^(1/2), which is symmetric and so self-adjoint."""
    if problem.tensor is None:
        return part
    xx, xy, yy = problem.tensor.astype(part.dtype, copy=False)
    return np.stack([xx * part[0] + xy * part[1], xy * part[0] + yy * part[1]])


def project(p: Floats, limit: Floats | float) -> Floats:
    """Projection onto |p| <= limit, per pixel."""
    length = np.sqrt(np.sum(p * p, axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return p * np.where(length > limit, limit / length, 1).astype(p.dtype)


def radius(problem: Problem, level: int) -> Floats | float:
    """alpha of the level, times the edge weight on the first level."""
    weight = problem.confidence.dtype.type(problem.alpha[level])
    return weight * problem.edge if level == 0 and problem.edge is not None else weight


def energy(problem: Problem, state: State) -> Energies:
    """Every term at the state's primal variables, summed in double precision."""
    stretched = apply_operator(problem, state.primal)
    regulariser = tuple(
        float(np.sum(radius(problem, level) * _length(stretched[level_dual(level)]), dtype=np.float64))
        for level in range(problem.order)
    )
    x = state.primal[0]
    inside = (problem.links & INSIDE) > 0
    fidelity = np.sum((problem.confidence * misfit(problem, x))[inside], dtype=np.float64)
    proximal = 0.0
    if problem.prox_centre is not None:
        proximal = problem.prox_weight / 2 * float(np.sum(((x - problem.prox_centre) ** 2)[inside], dtype=np.float64))
    mass = np.sum((problem.confidence * problem.observations.total)[inside], dtype=np.float64)
    return Energies(regulariser, float(fidelity), proximal, float(mass), float(inside.sum()))


def misfit(problem: Problem, x: Floats) -> Floats:
    """(H, W) sum_k w_k phi(x - d_k)."""
    seen: Observations = problem.observations
    if seen.scatter is not None:
        return seen.total * penalty(x - seen.values[0], problem.fidelity, problem.delta) + seen.scatter
    weights = known_weights(seen)
    known = np.where(np.isinf(seen.values), 0, seen.values)
    out: Floats = np.sum(weights * penalty(x - known, problem.fidelity, problem.delta), axis=0)
    return out


def level_primal(level: int) -> slice:
    """Planes of the level's primal variable: 1, 2, 3 of them."""
    start = level * (level + 1) // 2
    return slice(start, start + level + 1)


def level_dual(level: int) -> slice:
    """Planes of the level's dual variable: 2, 3, 4 of them."""
    start = level * (level + 3) // 2
    return slice(start, start + level + 2)


def _length(p: Floats) -> Floats:
    out: Floats = np.sqrt(np.sum(p * p, axis=0))
    return out
