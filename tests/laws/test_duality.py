"""Weak duality: the bound is below the energy at every iterate, below the minimum, and closes in on it."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import kernels
from cfusion.kernels.contract import INSIDE, Box, Fidelity, Observations, Problem, State, links_of
from cfusion.kernels.numpy import certificate
from cfusion.kernels.numpy.certificate import is_last, pixel_bound
from cfusion.kernels.numpy.operators import masks
from cfusion.solvers.steps import choose_steps

ORDERS = pytest.mark.parametrize("order", [1, 2, 3])
FIDELITIES = pytest.mark.parametrize("fidelity", list(Fidelity), ids=lambda f: f.name)
# what an energy may carry besides
PLAIN = {"holes": 0.0, "missing": 0.0}
HOLEY = {"holes": 0.25, "missing": 0.3}
WEIGHTED = {"weighted": True}
EDGED = {"edge": True, "missing": 0.6}
BENT = {"tensor": True, "weighted": True}
HELD = {"anchored": True, "edge": True, "weighted": True}
KINDS = [PLAIN, HOLEY, WEIGHTED, EDGED, BENT, HELD]
STOPS = (0, 1, 1, 3, 20, 150)  # iterations between looks


def run_and_compare(backend, case, slack, stops=STOPS):
    """bound <= energy at every stop, and every bound below the least energy seen."""
    problem, state = case.on(backend)
    steps = choose_steps(problem.alpha, 0.2)
    bounds, energies = [], []
    for count in stops:
        backend.iterate(problem, state, steps, count)
        energies.append(backend.energy(problem, state).total)
        bounds += [backend.bound(problem, state, case.box, rounds) for rounds in (0, 3, 40)]
    assert np.isfinite(bounds).all()
    assert max(bounds) <= min(energies) * (1 + slack)
    return state, max(bounds), min(energies)


@ORDERS
@FIDELITIES
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind))
def test_bound_is_below_the_energy_at_every_iterate(make_case, order, fidelity, kind):
    case = make_case(order, (6, 8), order=order, fidelity=fidelity, **kind)
    state, _, _ = run_and_compare(kernels.load("numpy"), case, slack=1e-12)
    inside = (case.problem.links & INSIDE) > 0
    assert case.box.low < state.primal[0][inside].min()  # the stated range plays no part at the solution
    assert state.primal[0][inside].max() < case.box.high


@ORDERS
@pytest.mark.parametrize("rounds", [0, 1, 7])
def test_a_part_of_a_mosaic_is_repaired_as_a_whole_is(make_case, order, rounds):
    """The bound of the repaired dual without more rounds is that of the dual with these; by every backend alike."""
    case = make_case(order, (6, 8), order=order, edge=True, weighted=True, dtype=np.float32)
    problem, state = case.problem, case.state
    exists = np.concatenate([masks(problem.links, level) for level in range(1, order + 1)])
    state.dual[:] = 2 * np.random.default_rng(order).normal(size=state.dual.shape) * exists
    defined = certificate.repaired(problem, state, rounds)
    top = State(state.primal, np.concatenate([state.dual[: -len(defined)], defined]))
    found = certificate.bound(problem, top, case.box, 0)
    assert found == pytest.approx(certificate.bound(problem, state, case.box, rounds), rel=1e-5)
    compiled = pytest.importorskip("cfusion.kernels.cpu.certificate")
    np.testing.assert_allclose(compiled.repaired(problem, state, rounds), defined, atol=1e-5)


@pytest.mark.parametrize(
    ("factor", "done", "rounds", "most", "enough", "last"),
    [
        *((1.0, 5, 5, 0, np.inf, True), (1.0, 5, 5, 99, np.inf, True), (0.5, 5, 5, 99, np.inf, False)),
        *((1.0, 5, 5, 99, 7.0, False), (1.0, 9, 5, 99, 7.0, False), (1.0, 10, 5, 99, 7.0, True)),  # twice as many
        *((0.5, 10, 5, 99, 7.0, False), (0.5, 94, 5, 99, 7.0, False), (0.5, 95, 5, 99, 7.0, True)),  # too many
        *((0.5, 98, 1, 99, 7.0, False), (0.5, 99, 1, 99, 7.0, True), (0.5, 99, 0, 99, 7.0, True)),
    ],
)
def test_a_repair_ends_where_more_is_not_worthwhile(factor, done, rounds, most, enough, last):
    assert is_last(factor, done, rounds, most, enough) == last


@ORDERS
def test_what_stands_outside_the_domain_does_not_count(make_case, order):
    """Neither in the energy nor in its bound: a proximal term would add much there."""
    backend = kernels.load("numpy")
    case = make_case(order, (6, 8), order=order, holes=0.25, anchored=True)
    outside = (case.problem.links & INSIDE) == 0
    assert outside.any()
    far = case.with_problem(prox_centre=np.where(outside, 1e3, case.problem.prox_centre))
    energies, bounds = zip(
        *(
            (backend.energy(each.problem, each.state).total, backend.bound(each.problem, each.state, each.box, 3))
            for each in (case, far)
        ),
        strict=True,
    )
    assert energies[0] == energies[1]
    assert bounds[0] == bounds[1]


@ORDERS
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind))
def test_bound_holds_from_any_dual_state(make_case, order, kind):
    """However wild the dual: it is the minimum that is bounded, not the energy of an iterate."""
    backend = kernels.load("numpy")
    case = make_case(order, (6, 8), order=order, **kind)
    state = case.copy_state()
    backend.iterate(case.problem, state, choose_steps(case.problem.alpha, 0.2), 600)
    least = backend.energy(case.problem, state).total
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        wild = state.dual + size * rng.normal(size=state.dual.shape)
        for rounds in (0, 1, 10):
            assert backend.bound(case.problem, State(state.primal, wild), case.box, rounds) <= least * (1 + 1e-12)


@ORDERS
@FIDELITIES
def test_bound_holds_from_the_dual_of_a_stronger_regulariser(make_case, order, fidelity):
    """That dual sticks out of the balls of the weaker one, and holds the data well: nothing else gives it away."""
    backend = kernels.load("numpy")
    strong = make_case(order, (6, 8), order=order, fidelity=fidelity)
    state = strong.copy_state()
    backend.iterate(strong.problem, state, choose_steps(strong.problem.alpha, 0.2), 150)
    for level in range(order):
        alpha = list(strong.problem.alpha)
        alpha[level] /= 10
        weak = strong.with_problem(alpha=tuple(alpha))
        solved = strong.copy_state()
        backend.iterate(weak.problem, solved, choose_steps(weak.problem.alpha, 0.2), 300)
        least = backend.energy(weak.problem, solved).total
        for rounds in (0, 3):
            assert backend.bound(weak.problem, state, weak.box, rounds) <= least * (1 + 1e-12)


# every compiled variant costs seconds: each order and each fidelity once, with all that those bounds compute
COMPILED_KINDS = [
    (1, Fidelity.L1, {}),
    (2, Fidelity.L1, {}),
    (2, Fidelity.L1, WEIGHTED),
    (3, Fidelity.L1, {}),
    (1, Fidelity.L2, {}),
    (2, Fidelity.HUBER, {}),
    (2, Fidelity.L1, HELD),
    (2, Fidelity.L1, BENT),
]


@pytest.mark.parametrize(("order", "fidelity", "kind"), COMPILED_KINDS)
def test_bound_of_a_compiled_backend_is_below_its_energy_at_every_iterate(compiled, make_case, order, fidelity, kind):
    """In float32, up to the rounding of the energy itself."""
    case = make_case(order, (33, 41), order=order, fidelity=fidelity, dtype=np.float32, **kind)
    run_and_compare(compiled, case, slack=1e-6)


def _iterated(make_case, order, fidelity, kind):
    """The definition's backend, and a case that it has iterated for a while, in float32."""
    case = make_case(7, (12, 15), order=order, fidelity=fidelity, dtype=np.float32, **kind)
    reference = kernels.load("numpy")
    reference.iterate(case.problem, case.state, choose_steps(case.problem.alpha, 0.2), 60)
    return reference, case


@pytest.mark.parametrize(("order", "fidelity", "kind"), COMPILED_KINDS)
def test_a_compiled_backend_computes_the_same_bound(compiled, make_case, order, fidelity, kind):
    """From the same dual state, after the same repair, to the rounding of float32."""
    reference, case = _iterated(make_case, order, fidelity, kind)
    problem, state = case.on(compiled)
    for rounds in (0, 1, 40):
        one = reference.bound(case.problem, case.state, case.box, rounds)
        assert compiled.bound(problem, state, case.box, rounds) == pytest.approx(one, rel=2e-5)


@pytest.mark.parametrize(("order", "fidelity", "kind"), COMPILED_KINDS)
def test_a_repair_goes_on_as_long_as_it_is_needed(compiled, make_case, order, fidelity, kind):
    """Some steps at a time are the same steps; none is taken once hardly anything is left over."""
    reference, case = _iterated(make_case, order, fidelity, kind)
    problem, state = case.on(compiled)
    at_once = [reference.bound(case.problem, case.state, case.box, rounds) for rounds in range(8, 73, 8)]
    for backend, given in ((reference, (case.problem, case.state)), (compiled, (problem, state))):
        for most, usual in ((0, at_once[:1]), (8, at_once[:1]), (23, at_once[:2]), (72, at_once)):
            found = backend.bound(*given, case.box, 8, most)
            assert min(abs(found - each) for each in usual) <= 2e-5 * abs(found)


@pytest.mark.parametrize(("order", "fidelity", "kind"), COMPILED_KINDS)
def test_a_repair_ends_once_it_proves_enough(compiled, make_case, order, fidelity, kind):
    """The first bound, eight steps at a time, that is enough; no more steps than without, where none is."""
    reference, case = _iterated(make_case, order, fidelity, kind)
    problem, state = case.on(compiled)
    at_once = [reference.bound(case.problem, case.state, case.box, rounds) for rounds in range(8, 73, 8)]
    for backend, given in ((reference, (case.problem, case.state)), (compiled, (problem, state))):
        usual = backend.bound(*given, case.box, 8, 72)
        assert backend.bound(*given, case.box, 8, 72, np.inf) == usual
        best = backend.bound(*given, case.box, 8, 72, abs(usual) + 2 * abs(at_once[0]))
        assert usual <= best <= max(at_once) + 2e-5 * abs(best)  # the best of those that were looked at
        assert best >= max(at_once[:2]) - 2e-5 * abs(best)  # twice at least, feasible or not
        first = backend.bound(*given, case.box, 8, 72, -np.inf)
        assert first == pytest.approx(at_once[0], rel=2e-5)
        enough = first + 0.5 * (best - first)
        found = backend.bound(*given, case.box, 8, 72, enough)
        assert found >= enough
        assert min(abs(found - each) for each in at_once) <= 2e-5 * abs(found)


def test_edges_that_are_spared_are_certified_by_a_longer_repair(make_case):
    """A few pixels that hold hardly any slope decide the factor: it is near one only after many steps."""
    case = make_case(3, (40, 50), order=2)
    edge = np.where(np.random.default_rng(0).random(case.problem.links.shape) < 0.05, 0.02, 1.0)
    problem = replace(case.problem, edge=edge.astype(case.problem.confidence.dtype))
    backend, state = kernels.load("numpy"), case.copy_state()
    backend.iterate(problem, state, choose_steps(problem.alpha, 0.2), 300)
    energy = backend.energy(problem, state).total
    short, long = (energy - backend.bound(problem, state, case.box, 40, most) for most in (0, 640))
    assert 0 <= long < short / 2


@pytest.mark.parametrize("order", [1, 2])
@FIDELITIES
def test_gap_closes_with_iterations_and_repair(make_case, order, fidelity):
    case = make_case(5, (10, 12), order=order, fidelity=fidelity, holes=0.05, missing=0.1)
    backend = kernels.load("numpy")
    state = case.copy_state()
    steps = choose_steps(case.problem.alpha, 0.2)
    gaps = []
    for iterations, rounds in ((20, 10), (180, 100), (1800, 1000)):
        backend.iterate(case.problem, state, steps, iterations)
        energy = backend.energy(case.problem, state).total
        gaps.append((energy - backend.bound(case.problem, state, case.box, rounds)) / energy)
    assert gaps[0] > gaps[1] > gaps[2] >= -1e-14
    assert gaps[2] < 1e-4


def test_bound_holds_where_the_dual_exhausts_the_datas_slopes():
    """At g = -lam S, as a repaired dual has it, the minimiser is the largest observation and not the end of the box.

    In float32 the sum of the weights differs from their rounded total; that must not cost the bound its truth.
    """
    reference = kernels.load("numpy")
    rng = np.random.default_rng(0)
    shape = (20, 20)
    depths = rng.normal(size=(3, *shape)).astype(np.float32)
    weights = rng.uniform(0.1, 1, (3, *shape)).astype(np.float32)
    seen, _ = reference.order_observations(depths, weights, Fidelity.L1)
    problem = Problem(Fidelity.L1, 1.0, seen, np.ones(shape, np.float32), links_of(np.ones(shape, bool)), (1.0,))
    box = Box(-50.0, 50.0)
    for sign in (-1, 1):
        slope = sign * seen.total.astype(np.float64)
        bound = pixel_bound(problem, slope, box)
        for x in (*seen.values.astype(np.float64), np.full(shape, box.low), np.full(shape, box.high)):
            value = slope * x + np.sum(weights * np.abs(depths - x), axis=0, dtype=np.float64)
            assert (bound <= value + 1e-12).all()


@pytest.mark.parametrize("half", [5.0, 9.0])
def test_hubers_smallest_value_is_found(half):
    """min over |x| <= half of slope x + sum_k w_k phi(x - d_k), against a fine grid; it is never above it."""
    rng = np.random.default_rng(0)
    values = np.sort(rng.normal(0, 2, (4, 1, 300)), axis=0)
    values[3, :, ::3] = np.inf
    weights = np.where(np.isfinite(values), rng.uniform(0.2, 2, values.shape), 0)
    slope = rng.normal(0, 2, (1, 300))
    weights[..., ::4] = np.isfinite(values[..., ::4])  # and where the derivative is zero along a whole piece
    slope[:, ::4] = np.round(slope[:, ::4])
    seen = Observations(values, weights, weights.sum(axis=0), None)
    confidence = np.where(np.arange(300) % 5, 1.0, 0.5)[None]
    problem = Problem(Fidelity.HUBER, 0.7, seen, confidence, links_of(np.ones((1, 300), bool)), (1.0,))
    found = pixel_bound(problem, slope, Box(-half, half))[0]
    x = np.linspace(-half, half, 20_001)[:, None]
    searched = slope * x
    for value, weight in zip(values, weights, strict=True):
        size = np.abs(x - np.where(np.isfinite(value), value, 0))
        searched = searched + confidence * weight * np.where(size < 0.7, size**2 / 1.4, size - 0.35)
    assert (found <= searched.min(axis=0) + 1e-12).all()
    np.testing.assert_allclose(found, searched.min(axis=0), atol=1e-5)
