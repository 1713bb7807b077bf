"""Step sizes, from the orders and the data's own noise scale alone.

With columns scaled by 2^-j and rows by 2^j, the operator (E_1 x - v, E_2 v - w, E_3 w) has norm at most L, the norm of the
small matrix with sqrt(8) on the diagonal and 1/2 above it. tau_j = 4^-j s / L and sigma_j = 4^j / (s L) then satisfy the
condition |Sigma^(1/2) K T^(1/2)| <= 1 for every s > 0; s only shifts work between primal and dual, and has the unit of depth.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from cfusion.kernels.contract import Steps

RELAXATION = 1.7
STEP_PER_NOISE = 0.4  # measured on smooth and planar scenes: 0.16 to 0.64 are within 1.5x of one another; larger helps the bound


def norm_bound(order: int) -> float:
    """L for a TGV of that order."""
    return float(np.linalg.norm(sqrt(8) * np.eye(order) + 0.5 * np.eye(order, k=1), 2))


def choose_steps(alpha: tuple[float, ...], noise: float, relaxation: float = RELAXATION) -> Steps:
    """Steps for a start whose pixels are off by about `noise`."""
    order = len(alpha)
    norm = norm_bound(order)
    s = STEP_PER_NOISE * noise / alpha[0]
    return Steps(
        tau=tuple(4.0**-j * s / norm for j in range(order)),
        sigma=tuple(4.0**j / (s * norm) for j in range(order)),
        relaxation=relaxation,
    )
