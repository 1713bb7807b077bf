"""The norm bound against power iteration, and the condition that the default steps have to meet."""

from math import sqrt

import numpy as np
import pytest

from cfusion.kernels.numpy.iteration import apply_adjoint, apply_operator, level_dual, level_primal
from cfusion.solvers.steps import choose_steps, norm_bound

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
given = hypothesis.given
settings = hypothesis.settings

ORDERS = pytest.mark.parametrize("order", [1, 2, 3])


def largest_singular_value(problem, columns, rows, rounds=400):
    """|R K C| by power iteration, R and C one factor per order."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(problem.order * (problem.order + 1) // 2, *problem.links.shape))

    def scaled(planes, array, factors):
        out = array.copy()
        for level, factor in enumerate(factors):
            out[planes(level)] *= factor
        return out

    norm = 0.0
    for _ in range(rounds):
        u /= np.linalg.norm(u)
        p = scaled(level_dual, apply_operator(problem, scaled(level_primal, u, columns)), rows)
        norm = float(np.linalg.norm(p))
        if norm == 0:
            return 0.0
        u = scaled(level_primal, apply_adjoint(problem, scaled(level_dual, p, rows)), columns)
    return norm


def scaling(order):
    """The columns 2^-j and rows 2^j that the bound is stated for."""
    return [2.0**-j for j in range(order)], [2.0**j for j in range(order)]


@ORDERS
@pytest.mark.parametrize("holes", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("tensor", [False, True], ids=["plain", "tensor"])
def test_norm_is_below_its_bound(make_case, order, holes, tensor):
    problem = make_case(order, (16, 16), order=order, holes=holes, tensor=tensor).problem
    assert largest_singular_value(problem, *scaling(order)) <= norm_bound(order)


@ORDERS
def test_bound_is_not_loose_on_a_large_domain(make_case, order):
    """On a full domain the bound is met within one percent: longer steps would break the condition."""
    problem = make_case(0, (32, 32), order=order, holes=0.0).problem
    norm = largest_singular_value(problem, *scaling(order), rounds=300)
    assert 0.99 * norm_bound(order) <= norm <= norm_bound(order)


@ORDERS
@settings(max_examples=20)
@given(noise=st.floats(1e-9, 1e9), alpha_1=st.floats(1e-3, 1e3), ratio=st.floats(0.1, 10))
def test_default_steps_meet_the_condition(make_case, order, noise, alpha_1, ratio):
    """|Sigma^(1/2) K T^(1/2)| <= 1, measured, for any noise scale and weights."""
    steps = choose_steps(tuple(alpha_1 * ratio**j for j in range(order)), noise)
    problem = make_case(0, (12, 12), order=order, holes=0.0).problem
    norm = largest_singular_value(problem, [sqrt(t) for t in steps.tau], [sqrt(s) for s in steps.sigma], 60)
    assert norm <= 1 + 1e-12
    assert 0 < steps.relaxation < 2


@ORDERS
@settings(max_examples=20)
@given(unit=st.floats(1e-6, 1e6), noise=st.floats(1e-3, 10))
def test_steps_scale_with_the_unit_of_depth(order, unit, noise):
    """Primal steps have the unit of depth squared per energy, that is of depth, as the energy has: s x, 1 / s."""
    alpha = (1.0, 2.0, 4.0)[:order]
    one, other = choose_steps(alpha, noise), choose_steps(alpha, unit * noise)
    np.testing.assert_allclose(other.tau, unit * np.array(one.tau), rtol=1e-12)
    np.testing.assert_allclose(other.sigma, np.array(one.sigma) / unit, rtol=1e-12)
