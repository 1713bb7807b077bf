"""The compiled backend against the definition: 200 iterations, every kind of problem, to the rounding of float32."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import kernels
from cfusion.kernels.contract import (
    INSIDE,
    Box,
    Fidelity,
    Observations,
    Problem,
    State,
    dual_planes,
    links_of,
    primal_planes,
)
from cfusion.kernels.cpu import iteration as tiles
from cfusion.kernels.numpy.literal import Literal
from cfusion.solvers.steps import choose_steps

REFERENCE, CPU = kernels.load("numpy"), kernels.load("cpu")
ITERATIONS = 200
EPSILON = float(np.finfo(np.float32).eps)
NOISE = 0.2
# every order with every fidelity, and order 2 with all else that a problem may carry
KINDS = [(order, fidelity, frozenset[str]()) for order in (1, 2, 3) for fidelity in Fidelity]
KINDS += [
    (2, Fidelity.L1, frozenset({"weights"})),
    (2, Fidelity.L1, frozenset({"weights", "edge", "prox_centre"})),
    (2, Fidelity.L1, frozenset({"weights", "tensor"})),
]
NAMES = ["-".join([str(order), fidelity.name, *sorted(extras)]) for order, fidelity, extras in KINDS]
EVERY_KIND = pytest.mark.parametrize(("order", "fidelity", "extras"), KINDS, ids=NAMES)


def make(shape, order, fidelity, extras=frozenset(), *, views=5, seed=0, delta=0.15, dtype=np.float32):
    """A slope with a step, noise, ties, holes in the domain and observations missing inside it."""
    rng = np.random.default_rng([seed, *shape])
    y, x = np.mgrid[: shape[0], : shape[1]]
    surface = 1.5 * x / shape[1] - 0.4 * y / shape[0] + (x > shape[1] // 2)
    domain = rng.random(shape) >= 0.15
    domain[shape[0] // 2, shape[1] // 2] = True
    depths = surface + rng.laplace(0, 0.4, (views, *shape))
    depths = np.where(rng.random(depths.shape) < 0.3, np.round(depths, 1), depths)
    depths[(rng.random(depths.shape) < 0.3) | ~domain] = np.nan
    depths[0, shape[0] // 2, shape[1] // 2] = 0.3
    weights = rng.uniform(0.2, 3, depths.shape).astype(dtype) if "weights" in extras else None
    seen, start = REFERENCE.order_observations(depths.astype(dtype), weights, fidelity)
    angle, small = rng.uniform(0, np.pi, shape), rng.uniform(0.3, 1, shape)
    nx, ny = np.cos(angle), np.sin(angle)
    tensor = np.stack([1 - (1 - small) * nx * nx, -(1 - small) * nx * ny, 1 - (1 - small) * ny * ny])
    problem = Problem(
        fidelity,
        delta,
        seen,
        (rng.uniform(0.5, 2, shape) * domain).astype(dtype),
        links_of(domain),
        (1.0, 2.0, 4.0)[:order],
        edge=rng.uniform(0.2, 1, shape).astype(dtype) if "edge" in extras else None,
        tensor=tensor.astype(dtype) if "tensor" in extras else None,
        prox_centre=surface.astype(dtype) if "prox_centre" in extras else None,
        prox_weight=0.7 if "prox_centre" in extras else 0.0,
    )
    state = State(np.zeros((primal_planes(order), *shape), dtype), np.zeros((dual_planes(order), *shape), dtype))
    state.primal[0] = start
    return problem, state


def copied(state, dtype=np.float32):
    return State(state.primal.astype(dtype), state.dual.astype(dtype))


def doubled(problem):
    """The same problem in float64: what both backends would compute without rounding."""

    def wide(array):
        return None if array is None else array.astype(np.float64)

    seen = problem.observations
    return replace(
        problem,
        observations=Observations(wide(seen.values), wide(seen.weights), wide(seen.total), wide(seen.scatter)),
        **{name: wide(getattr(problem, name)) for name in ("confidence", "edge", "tensor", "prox_centre")},
    )


def assert_rounding(problem, ours, exact):
    """A rounding error per iteration at the worst pixel, a tenth of that on average."""
    inside = (problem.links & INSIDE) > 0
    for name in ("primal", "dual"):
        off = np.abs(getattr(ours, name) - getattr(exact, name))[:, inside]
        assert np.isfinite(off).all()
        assert off.max() <= ITERATIONS * EPSILON
        assert off.mean() <= ITERATIONS * EPSILON / 10


@EVERY_KIND
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 5)], ids=str)
def test_same_iterates_over_200_iterations(order, fidelity, extras, shape):
    problem, state = make(shape, order, fidelity, extras)
    steps = choose_steps(problem.alpha, NOISE)
    exact = copied(state, np.float64)
    REFERENCE.iterate(doubled(problem), exact, steps, ITERATIONS)
    for backend in (REFERENCE, CPU):
        ours = copied(state)
        backend.iterate(problem, ours, steps, ITERATIONS)
        assert_rounding(problem, ours, exact)


def test_same_iterates_at_full_size():
    problem, state = make((480, 640), 2, Fidelity.L1, views=3)
    steps = choose_steps(problem.alpha, NOISE)
    defined, ours = copied(state), copied(state)
    REFERENCE.iterate(problem, defined, steps, ITERATIONS)
    CPU.iterate(problem, ours, steps, ITERATIONS)
    for one, other in ((defined.primal, ours.primal), (defined.dual, ours.dual)):
        off = np.abs(one - other)
        # of millions of values a few sit where two pieces of the prox meet, and magnify what was rounded
        assert np.quantile(off, 0.99) <= ITERATIONS * EPSILON
        assert off.mean() <= ITERATIONS * EPSILON / 10
        assert off.max() <= 10 * ITERATIONS * EPSILON
    assert CPU.energy(problem, ours).total == pytest.approx(REFERENCE.energy(problem, defined).total, rel=1e-6)


@EVERY_KIND
def test_one_iteration_is_the_definitions(order, fidelity, extras):
    """One prox and one projection, from a state in the middle of a run: no time for errors to add up, or to cancel."""
    problem, state = make((23, 31), order, fidelity, extras, seed=1)
    steps = choose_steps(problem.alpha, NOISE)
    REFERENCE.iterate(problem, state, steps, 17)
    exact, ours = copied(state, np.float64), copied(state)
    REFERENCE.iterate(doubled(problem), exact, steps, 1)
    CPU.iterate(problem, ours, steps, 1)
    np.testing.assert_allclose(ours.primal, exact.primal, atol=10 * EPSILON)
    np.testing.assert_allclose(ours.dual, exact.dual, atol=32 * EPSILON * max(steps.sigma))


@pytest.mark.parametrize("away", [-100.0, 100.0])
@pytest.mark.parametrize("extras", [frozenset(), frozenset({"weights"})], ids=["even", "weights"])
def test_far_from_all_observations_each_pulls_with_its_weight(extras, away):
    """Observations are taken four at a time and then one by one: none of them is lost for any number."""
    for views in range(1, 10):
        problem, state = make((7, 9), 2, Fidelity.L1, extras, views=views)
        state.primal[0] += away
        steps = choose_steps(problem.alpha, NOISE)
        exact, ours = copied(state, np.float64), copied(state)
        REFERENCE.iterate(doubled(problem), exact, steps, 2)
        CPU.iterate(problem, ours, steps, 2)
        np.testing.assert_allclose(ours.primal[0], exact.primal[0], atol=100 * 10 * EPSILON)


@pytest.mark.parametrize("delta", [1e-3, 0.05, 1.0, 50.0])
@pytest.mark.parametrize("noise", [0.01, 0.2, 5.0])
def test_hubers_prox_is_exact_at_any_corner_and_step(delta, noise):
    """From nearly L1 to nearly L2: Newton's method on a piecewise linear function has to end on the right piece."""
    problem, state = make((23, 31), 2, Fidelity.HUBER, views=5, delta=delta)
    steps = choose_steps(problem.alpha, noise)
    exact, ours = copied(state, np.float64), copied(state)
    REFERENCE.iterate(doubled(problem), exact, steps, 3)
    CPU.iterate(problem, ours, steps, 3)
    np.testing.assert_allclose(ours.primal[0], exact.primal[0], atol=40 * EPSILON)


@EVERY_KIND
def test_same_energy_and_misfit(order, fidelity, extras):
    problem, state = make((13, 17), order, fidelity, extras)
    REFERENCE.iterate(problem, state, choose_steps(problem.alpha, NOISE), 20)
    exact = REFERENCE.energy(doubled(problem), copied(state, np.float64))
    for backend in (REFERENCE, CPU):
        ours = backend.energy(problem, state)
        assert ours.total == pytest.approx(exact.total, rel=1e-6)
        assert ours.fidelity == pytest.approx(exact.fidelity, rel=1e-6)
        assert ours.regulariser == pytest.approx(exact.regulariser, rel=1e-5)
        assert ours.proximal == pytest.approx(exact.proximal, rel=1e-6)
    inside = (problem.links & INSIDE) > 0
    np.testing.assert_allclose(
        CPU.misfit(problem, state.primal[0])[inside],
        REFERENCE.misfit(problem, state.primal[0])[inside],
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("order", [1, 2])
def test_an_edge_of_no_weight_is_a_cut(order):
    """No dual crosses it, neither in an iteration nor in a certificate, and nothing is divided by its length."""
    problem, state = make((13, 17), order, Fidelity.L1, frozenset({"edge"}))
    problem.edge[::3, ::2] = 0
    exact = copied(state, np.float64)
    steps = choose_steps(problem.alpha, NOISE)
    REFERENCE.iterate(doubled(problem), exact, steps, 40)
    CPU.iterate(problem, state, steps, 40)
    np.testing.assert_allclose(state.primal[0], exact.primal[0], atol=100 * EPSILON)
    assert (np.abs(state.dual[:2, ::3, ::2]) < 10 * EPSILON).all()
    box = Box(-3.0, 5.0)
    bounds = [backend.bound(problem, copied(state), box, 20) for backend in (REFERENCE, CPU)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-4)
    assert bounds[0] <= CPU.energy(problem, state).total


@pytest.mark.parametrize("fidelity", list(Fidelity), ids=lambda f: f.name)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("views", [1, 2, 5, 8])
def test_same_order_of_the_observations(fidelity, weighted, views):
    """Sorted alike, with their weights, the same median; ties, gaps and weights of zero among them."""
    rng = np.random.default_rng(views)
    depths = np.round(rng.normal(size=(views, 9, 11)), 1).astype(np.float32)
    depths[rng.random(depths.shape) < 0.3] = np.nan
    weights = rng.choice([0, 0.5, 1, 2], depths.shape).astype(np.float32) if weighted else None
    if weights is not None:
        weights[np.isnan(depths)] = 0
    (defined, median), (ours, our_median) = (
        backend.order_observations(depths, weights, fidelity) for backend in (REFERENCE, CPU)
    )
    np.testing.assert_allclose(our_median, median, atol=EPSILON)
    np.testing.assert_allclose(ours.total, defined.total, rtol=EPSILON)
    np.testing.assert_allclose(ours.values, defined.values, atol=4 * EPSILON)
    if defined.scatter is not None:
        np.testing.assert_allclose(ours.scatter, defined.scatter, atol=1e-5)
    if defined.weights is not None:  # among equal values the order is free, and so is whose weight comes first
        for value in np.unique(defined.values[np.isfinite(defined.values)]):
            one, other = (np.where(each.values == value, each.weights, 0).sum(axis=0) for each in (defined, ours))
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("levels", [1, 4, 6])
@pytest.mark.parametrize("tile", [(16, 20), (1, 7), (120, 640)], ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_tiles_do_not_show(monkeypatch, levels, tile, order):
    """The same bits however many iterations share a pass, and wherever the tiles are cut."""
    problem, state = make((47, 61), order, Fidelity.L1)
    steps = choose_steps(problem.alpha, NOISE)
    plain, ours = copied(state), copied(state)
    tiles.iterate(problem, plain, steps, 24, levels=1)
    monkeypatch.setattr(tiles, "LEAST_ROWS", 1)
    monkeypatch.setattr(tiles, "TILE_ROWS", tile[0])
    monkeypatch.setattr(tiles, "TILE_COLUMNS", tile[1])
    tiles.iterate(problem, ours, steps, 24, levels=levels)
    inside = (problem.links & INSIDE) > 0
    assert np.array_equal(ours.primal[:, inside], plain.primal[:, inside])
    assert np.array_equal(ours.dual[:, inside], plain.dual[:, inside])


@pytest.mark.parametrize(
    "objects", [((5, 20, 8, 19), (30, 31, 58, 59)), ((0, 47, 0, 3),), ()], ids=["two", "strip", "none"]
)
def test_outside_the_domain_nothing_moves(monkeypatch, objects):
    """Objects before nothing: what lies between stays, in both of the arrays that take turns; objects are as alone."""
    problem, state = make((47, 61), 2, Fidelity.L1)
    domain = np.zeros((47, 61), np.bool_)
    for top, bottom, left, right in objects:
        domain[top:bottom, left:right] = True
    problem = replace(problem, links=CPU.links_of(domain))
    steps = choose_steps(problem.alpha, NOISE)
    state.primal[:, ~domain] = 7
    state.dual[:, ~domain] = 0
    monkeypatch.setattr(tiles, "LEAST_ROWS", 1)
    monkeypatch.setattr(tiles, "TILE_ROWS", 16)
    monkeypatch.setattr(tiles, "TILE_COLUMNS", 20)
    for count in (8, 8, 24):
        exact = copied(state)
        REFERENCE.iterate(problem, exact, steps, count)
        tiles.iterate(problem, state, steps, count)
        assert (state.primal[:, ~domain] == 7).all()
        assert (state.dual[:, ~domain] == 0).all()
        np.testing.assert_allclose(state.primal[:, domain], exact.primal[:, domain], atol=1e-5)
        np.testing.assert_allclose(state.dual[:, domain], exact.dual[:, domain], atol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.01, 3.0])
def test_steps_of_the_papers_algorithm_are_as_long_as_its_lemma_allows(order, ratio):
    """sigma_q tau |K|^2 = sigma_p tau |lam w|^2 = 1 / (K + 1), and tau / sigma_q is the ratio asked for."""
    problem, state = make((9, 11), order, Fidelity.L1, frozenset({"weights"}), views=4)
    literal = Literal(problem, state, ratio)
    assert literal.tau / literal.sigma_q == pytest.approx(ratio)
    assert literal.sigma_q * literal.tau * {1: 8, 2: 12, 3: 12}[order] == pytest.approx(1 / 5)
    seen = problem.observations
    largest = float((problem.confidence * np.where(np.isfinite(seen.values), seen.weights, 0)).max())
    assert literal.sigma_p * literal.tau * largest**2 == pytest.approx(1 / 5, rel=1e-5)
