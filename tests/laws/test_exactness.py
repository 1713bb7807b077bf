"""What the regulariser does not punish is not changed, and what TV-L1 removes depends on size, not on contrast."""

import numpy as np
import pytest

from cfusion import Orthographic, Stack, fuse_stack, kernels
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.contract import Fidelity, Problem, State, dual_planes, links_of, primal_planes
from cfusion.kernels.numpy.iteration import level_primal
from cfusion.kernels.numpy.operators import symmetrised_gradient
from cfusion.solvers import prepare
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import choose_steps

SHAPE = (13, 17)
ORDERS = pytest.mark.parametrize("order", [1, 2, 3])
# every monomial of degree 0, 1, 2, 3
MONOMIALS = [(a, b) for degree in range(4) for a in range(degree + 1) for b in [degree - a]]


def monomial(powers, shape=SHAPE):
    y, x = np.mgrid[: shape[0], : shape[1]].astype(float)
    return (x / shape[1]) ** powers[0] * (y / shape[0]) ** powers[1]


def variation(surface, order, domain):
    """TGV's terms at v = E x, w = E v: zero if the surface is a polynomial of degree < order."""
    links = links_of(domain)
    state = State(np.zeros((primal_planes(order), *SHAPE)), np.zeros((dual_planes(order), *SHAPE)))
    state.primal[0] = surface
    for level in range(1, order):
        below = state.primal[level_primal(level - 1)]
        state.primal[level_primal(level)] = symmetrised_gradient(below, links, level)
    reference = kernels.load("numpy")
    seen, _ = reference.order_observations(surface[None], None, Fidelity.L1)
    problem = Problem(Fidelity.L1, 1.0, seen, np.zeros(SHAPE), links, (1.0, 2.0, 4.0)[:order])
    return sum(reference.energy(problem, state).regulariser)


@ORDERS
@pytest.mark.parametrize("powers", MONOMIALS, ids=str)
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_polynomials_below_the_order_cost_nothing_and_others_do(make_domain, order, powers, holes):
    """Up to the border of the domain: no difference is taken across it."""
    domain = make_domain(np.random.default_rng(1), SHAPE, holes)
    cost = variation(monomial(powers), order, domain)
    if sum(powers) < order:
        assert cost <= 1e-12
    elif holes == 0:
        assert cost > 1e-3


@pytest.mark.parametrize(
    ("order", "powers"), [(2, (1, 0)), (2, (0, 1)), (2, (1, 1)), (3, (0, 1)), (3, (1, 1)), (3, (2, 0)), (3, (3, 0))]
)
def test_tgv_of_a_polynomial_found_by_solving(order, powers):
    """min over x, v, w: neither the regulariser nor the data have a price to pay below the order."""
    surface = monomial(powers)
    reference = kernels.load("numpy")
    task = prepare(Energy(L1(), TGV(order), lam=100.0), Stack(surface[None]), reference, dtype=np.float64)
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    state.primal[1:] = 0  # not at the usual slope, which would give the answer away
    before = reference.energy(problem, state).total  # with v = w = 0: its total variation
    reference.iterate(problem, state, choose_steps(problem.alpha, 0.01), 1500)
    after = reference.energy(problem, state).total
    if sum(powers) < order:
        assert after <= 1e-3 * before
    else:
        assert after > 1e-2 * before


@pytest.mark.parametrize("views", [1, 3])
def test_noiseless_affine_scene_comes_back_unchanged(every_backend, views):
    """By TGV of order 2 at its default weights, to the precision of float32; holes stay holes."""
    y, x = np.mgrid[:20, :24]
    plane = (20 + 0.3 * x - 0.2 * y).astype(np.float32)
    plane[10:14, 5:9] = np.nan
    result = fuse_stack(Stack(np.stack([plane] * views)), "l1", backend=every_backend.NAME)
    assert np.array_equal(np.isnan(result.depth), np.isnan(plane))
    np.testing.assert_allclose(result.depth, plane, rtol=4 * np.finfo(np.float32).eps)
    assert result.energies["total"] <= 1e-3 * np.nansum(np.hypot(0.3, 0.2) + 0 * plane)  # of its total variation


def disc(radius, contrast, size=40):
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    return 10 + contrast * (x * x + y * y <= radius * radius)


def without_contrast(radius, contrast, lam):
    """What TV-L1 makes of the disc, as a part of its contrast."""
    result = fuse_stack(Stack(disc(radius, contrast)[None]), "l1", alpha=(1.0,), lam=lam, tolerance=1e-4)
    return (result.depth.astype(float) - 10) / contrast


@pytest.mark.parametrize("radius", [5, 8, 11])
def test_tv_l1_removes_discs_below_the_critical_scale_whatever_their_contrast(radius):
    """A disc of radius r vanishes for lambda < 2 / r and stays for lambda > 2 / r (Chan and Esedoglu, 2005).

    A pixelled disc does not have a sharp critical scale; at 0.6 and 1.6 of it the answer is clear.
    """
    inside = disc(radius, 1.0) > 10
    for factor, survives in ((0.6, False), (1.6, True)):
        lam = factor * 2 / radius
        heights = [without_contrast(radius, contrast, lam) for contrast in (0.1, 1.0, 100.0)]
        for height in heights:
            if survives:  # but for the corners of its pixelled outline
                assert height[inside].mean() > 0.95
                assert np.median(height[inside]) > 0.999
            else:
                assert height.max() < 0.01
            assert np.abs(height[~inside]).mean() < 0.01
        np.testing.assert_allclose(heights[0], heights[1], atol=2e-3)  # 2e-3 of contrast 0.1: rounding at depth 10
        np.testing.assert_allclose(heights[2], heights[1], atol=2e-3)


def test_order_two_bridges_a_gap_along_the_plane():
    """A hole within the fill radius of an affine scene is filled by that plane, not by a constant."""
    y, x = np.mgrid[:24, :30]
    plane = (50 + 0.5 * x + 0.25 * y).astype(np.float32)
    seen = plane.copy()
    seen[8:14, 10:16] = np.nan
    result = fuse_stack(
        Stack(np.stack([seen] * 3), camera=Orthographic(0.1, 15, 12, 30, 24)), "l1", fill_radius=5, tolerance=1e-6
    )
    assert (result.provenance[8:14, 10:16] == 0).all()
    np.testing.assert_allclose(result.depth, plane, atol=0.02)
