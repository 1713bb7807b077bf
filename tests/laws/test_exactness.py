"""What the regulariser does not punish is not changed, and what TV-L1 removes depends on size, not on contrast."""

import numpy as np
import pytest

from cfusion import Orthographic, Stack, fuse_stack, kernels
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.contract import Fidelity, Problem, State, dual_planes, links_of, primal_planes
from cfusion.kernels.reference.iteration import level_primal
from cfusion.kernels.reference.operators import symmetrised_gradient
from cfusion.solvers import PDHG, prepare

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
    reference = kernels.load("reference")
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


@ORDERS
@pytest.mark.parametrize("powers", MONOMIALS, ids=str)
def test_tgv_of_a_polynomial_found_by_solving(order, powers):
    """min over v, w at a fixed x: zero below the order; a weight of the data that nothing can outweigh fixes x."""
    surface = monomial(powers)
    task = prepare(
        Energy(L1(), TGV(order), lam=1e6), Stack(surface[None]), kernels.load("reference"), dtype=np.float64
    )
    solution = PDHG(tolerance=1e-4, iterations=400)(task)
    assert np.abs(solution.depth - surface).max() <= 1e-6
    if sum(powers) < order:
        first = order == 1 or sum(powers) == 0
        assert solution.energies["regulariser"] <= (1e-6 if first else 2e-2)
    else:
        assert solution.energies["regulariser"] > 0.1


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("views", [1, 3])
def test_noiseless_affine_scene_comes_back_unchanged(backend, views):
    """By TGV of order 2 at its default weights, to the precision of float32; holes stay holes."""
    y, x = np.mgrid[:30, :40]
    plane = (20 + 0.3 * x - 0.2 * y).astype(np.float32)
    plane[10:14, 5:9] = np.nan
    result = fuse_stack(Stack(np.stack([plane] * views)), "l1", backend=backend)
    assert np.array_equal(np.isnan(result.depth), np.isnan(plane))
    np.testing.assert_allclose(result.depth, plane, rtol=4 * np.finfo(np.float32).eps)


def disc(radius, contrast, size=40):
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    return 10 + contrast * (x * x + y * y <= radius * radius)


@pytest.mark.parametrize("radius", [5, 8, 11])
@pytest.mark.parametrize("contrast", [0.1, 1.0, 100.0])
def test_tv_l1_removes_discs_below_the_critical_scale_whatever_their_contrast(radius, contrast):
    """A disc of radius r vanishes for lambda < 2 / r and stays for lambda > 2 / r (Chan and Esedoglu, 2005)."""
    depth = disc(radius, contrast)
    inside = depth > 10
    for factor, survives in ((0.6, False), (1.6, True)):
        result = fuse_stack(Stack(depth[None]), "l1", alpha=(1.0,), lam=factor * 2 / radius, tolerance=1e-4)
        height = (result.depth - 10) / contrast
        if survives:
            assert height[inside].mean() > 0.95
        else:
            assert height[inside].max() < 0.05
        assert np.abs(height[~inside]).max() < 0.05


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
