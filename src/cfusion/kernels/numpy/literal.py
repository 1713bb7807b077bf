"""The paper's algorithm taken literally: K dual variables for the data, steps from its Lemma, no over-relaxation.

    x  <- x - tau (K^T q + sum_k lam w_k p_k),  q <- proj(q + sigma_q K (2x' - x)),
    p_k <- clip(p_k + sigma_p lam w_k (2x' - x - d_k), -1, 1),
    sigma_q tau |K|^2 <= 1 / (K + 1),  sigma_p tau |lam w|^2 <= 1 / (K + 1).

The baseline of the benchmarks, for L1; nothing else uses it.
"""

import numpy as np

from cfusion.kernels.contract import Floats, Problem, State
from cfusion.kernels.numpy.iteration import apply_adjoint, apply_operator, level_dual, project, radius
from cfusion.kernels.numpy.prox import known_weights

NORM_SQUARED = {1: 8.0, 2: 12.0, 3: 12.0}  # |E|^2 <= 8, and one more identity per order: <= 8 + 2 * 2


class Literal:
    """The iteration with its K dual variables, which persist between calls; `ratio` is tau / sigma_q, unit of depth."""

    def __init__(self, problem: Problem, state: State, ratio: float) -> None:
        self.problem, self.state = problem, state
        seen = problem.observations
        self.slope = problem.confidence * known_weights(seen)  # (K, H, W) lam w_k
        self.values = np.where(np.isinf(seen.values), 0, seen.values)
        views = len(seen.values)
        share = 1 / (views + 1)
        norm = NORM_SQUARED[problem.order]
        self.tau = float(np.sqrt(ratio * share / norm))
        self.sigma_q = share / (norm * self.tau)
        self.sigma_p = share / (float(self.slope.max()) ** 2 * self.tau)
        self.data_dual: Floats = np.zeros_like(self.values)

    def iterate(self, count: int) -> None:
        """Run `count` iterations in place."""
        problem, state = self.problem, self.state
        for _ in range(count):
            force = apply_adjoint(problem, state.dual)
            force[0] += np.sum(self.slope * self.data_dual, axis=0)
            moved = state.primal - state.primal.dtype.type(self.tau) * force
            ahead = 2 * moved - state.primal
            state.primal[...] = moved
            state.dual += state.dual.dtype.type(self.sigma_q) * apply_operator(problem, ahead)
            for level in range(problem.order):
                planes = level_dual(level)
                state.dual[planes] = project(state.dual[planes], radius(problem, level))
            self.data_dual += state.dual.dtype.type(self.sigma_p) * self.slope * (ahead[0] - self.values)
            np.clip(self.data_dual, -1, 1, out=self.data_dual)
