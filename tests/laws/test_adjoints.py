"""<E u, p> = <u, E^T p> for every operator, on any domain."""

import numpy as np
import pytest

from cfusion.kernels.contract import INSIDE, links_of
from cfusion.kernels.numpy import certificate
from cfusion.kernels.numpy.iteration import apply_adjoint, apply_operator, project, radius
from cfusion.kernels.numpy.operators import adjoint, masks, symmetrised_gradient

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
given = hypothesis.given
settings = hypothesis.settings

TOLERANCE = 1e-12
ORDERS = pytest.mark.parametrize("order", [1, 2, 3])
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9))


def assert_adjoint(image, p, u, pulled_back):
    """Both inner products, relative to the size of what they add up."""
    one, other = np.vdot(image, p), np.vdot(u, pulled_back)
    size = np.linalg.norm(image) * np.linalg.norm(p) + np.linalg.norm(u) * np.linalg.norm(pulled_back)
    assert abs(one - other) <= TOLERANCE * size


@ORDERS
@settings(max_examples=30)
@given(shape=SHAPES, holes=st.floats(0, 0.9), seed=st.integers(0, 2**32 - 1))
def test_symmetrised_gradient(make_domain, order, shape, holes, seed):
    rng = np.random.default_rng(seed)
    links = links_of(make_domain(rng, shape, holes))
    u, p = rng.normal(size=(order, *shape)), rng.normal(size=(order + 1, *shape))
    assert_adjoint(symmetrised_gradient(u, links, order), p, u, adjoint(p, links, order))


@ORDERS
@pytest.mark.parametrize("tensor", [False, True], ids=["plain", "tensor"])
@settings(max_examples=20)
@given(shape=SHAPES, holes=st.floats(0, 0.7), seed=st.integers(0, 2**32 - 1))
def test_whole_operator(make_case, order, tensor, shape, holes, seed):
    problem = make_case(seed, shape, order=order, holes=holes, tensor=tensor, edge=True).problem
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(order * (order + 1) // 2, *shape))
    p = rng.normal(size=(order * (order + 3) // 2, *shape))
    assert_adjoint(apply_operator(problem, u), p, u, apply_adjoint(problem, p))


@ORDERS
@pytest.mark.parametrize("tensor", [False, True], ids=["plain", "tensor"])
@settings(max_examples=20)
@given(shape=SHAPES, holes=st.floats(0, 0.7), seed=st.integers(0, 2**32 - 1))
def test_the_duals_below_the_top_one_leave_x_alone_to_balance(make_case, order, tensor, shape, holes, seed):
    """With p_(j-1) = E_j^T p_j the whole adjoint is (g, 0, ..., 0): nothing is left that v or w would have to hold."""
    problem = make_case(seed, shape, order=order, holes=holes, tensor=tensor).problem
    top = np.random.default_rng(seed).normal(size=(order + 1, *shape)) * masks(problem.links, order)
    slope, flux, *others = certificate._chain(problem, top)
    first = top if order == 1 else certificate._as_dual(problem, flux, 0)
    pulled = apply_adjoint(problem, np.concatenate([first, *others]))
    np.testing.assert_allclose(pulled[0], slope[0], atol=1e-10)
    np.testing.assert_allclose(pulled[1:], 0, atol=1e-10)


@pytest.mark.parametrize("tensor", [False, True], ids=["plain", "tensor"])
def test_a_flux_exceeds_its_ball_by_what_its_dual_does(make_case, tensor):
    """D^(1/2) q of a dual q: nothing within the ball, D^(1/2) (q - its projection) outside."""
    problem = make_case(1, (6, 7), order=2, tensor=tensor, edge=True).problem
    dual = 0.6 * np.random.default_rng(1).normal(size=(2, 6, 7))
    within = project(dual, radius(problem, 0))
    assert 0 < (within == dual).all(axis=0).sum() < 42
    flux = certificate.apply_tensor(problem, dual)
    np.testing.assert_allclose(certificate._as_dual(problem, flux, 0), dual, atol=1e-10)
    np.testing.assert_allclose(
        certificate._excess(problem, flux, 0), certificate.apply_tensor(problem, dual - within), atol=1e-10
    )


@pytest.mark.parametrize(("order", "tensor"), [(1, False), (1, True), (2, False), (3, False)])
def test_a_repair_goes_down_the_squared_distances(make_case, order, tensor):
    """Half of |g - its nearest|^2 and |p_j - its nearest|^2, an eighth for every order below the top."""
    problem = make_case(2, (5, 6), order=order, holes=0.1, tensor=tensor, edge=True).problem
    rng = np.random.default_rng(2)
    top = 4 * rng.normal(size=(order + 1, 5, 6)) * masks(problem.links, order)
    way = rng.normal(size=top.shape) * masks(problem.links, order)
    limit = certificate.slope_limit(problem)

    def distances(p):
        slope, *fluxes = certificate._chain(problem, p)
        parts = [slope - np.clip(slope, -limit, limit)]
        parts += [flux - project(flux, radius(problem, level)) for level, flux in enumerate(fluxes[:-1])]
        return sum(0.5 * np.sum(part**2) / 8 ** (order - 1 - level) for level, part in enumerate(parts))

    rise = (distances(top + 1e-6 * way) - distances(top - 1e-6 * way)) / 2e-6
    assert rise == pytest.approx(np.vdot(certificate._Repair(problem, top)._gradient(), way), rel=1e-5)


@ORDERS
@settings(max_examples=20)
@given(shape=SHAPES, holes=st.floats(0, 0.9), seed=st.integers(0, 2**32 - 1))
def test_no_difference_is_taken_across_the_border_of_the_domain(make_domain, order, shape, holes, seed):
    """What lies outside the domain does not reach x's gradient, nor do components of v, w that do not exist."""
    rng = np.random.default_rng(seed)
    domain = make_domain(rng, shape, holes)
    links = links_of(domain)
    exists = domain[None] if order == 1 else masks(links, order - 1)
    u = rng.normal(size=(order, *shape))
    disturbed = np.where(exists, u, 1e9)
    assert np.array_equal(symmetrised_gradient(u, links, order), symmetrised_gradient(disturbed, links, order))
    assert not adjoint(rng.normal(size=(order + 1, *shape)), links, order)[~exists].any()


def test_the_definition_pixel_by_pixel(make_domain):
    """The links of a domain, from what each difference needs."""
    shape = (6, 7)
    domain = make_domain(np.random.default_rng(3), shape, 0.25)
    links = links_of(domain)

    def x(i, j):
        return 0 <= i < shape[0] and 0 <= j < shape[1] and bool(domain[i, j])

    def v(m, i, j):
        return x(i, j) and (x(i, j + 1) if m == 0 else x(i + 1, j))

    def w(m, i, j):
        return (m == 2 or (v(m, i, j) and v(m, i, j - 1))) and (m == 0 or (v(m - 1, i, j) and v(m - 1, i - 1, j)))

    def third(m, i, j):
        return (m == 3 or (w(m, i, j) and w(m, i, j + 1))) and (m == 0 or (w(m - 1, i, j) and w(m - 1, i + 1, j)))

    for i, j in np.ndindex(shape):
        assert bool(links[i, j] & INSIDE) == x(i, j)
        planes = [v(m, i, j) for m in range(2)] + [w(m, i, j) for m in range(3)]
        planes += [third(m, i, j) for m in range(4)]
        assert [bool(links[i, j] >> plane & 1) for plane in range(9)] == planes
