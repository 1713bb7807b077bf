"""<E u, p> = <u, E^T p> for every operator, on any domain."""

import numpy as np
import pytest

from cfusion.kernels.contract import INSIDE, links_of
from cfusion.kernels.numpy.iteration import apply_adjoint, apply_operator
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
