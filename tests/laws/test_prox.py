"""Every prox against a search for the minimiser: a fine grid, then golden section around its best point."""

import numpy as np
import pytest

from cfusion.energy import L1, L2, Huber, Prior
from cfusion.kernels import contract
from cfusion.kernels import numpy as reference
from cfusion.kernels.contract import Fidelity
from cfusion.kernels.numpy.prox import data_prox, penalty

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")
example = hypothesis.example
given = hypothesis.given
settings = hypothesis.settings

DELTA = 0.3
GOLDEN = (np.sqrt(5) - 1) / 2
# On half-integers ties are common; finer values fall between them.
VALUES = st.one_of(st.integers(-6, 6).map(lambda n: n / 2), st.floats(-3, 3))
WEIGHTS = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 4))
OBSERVED = st.lists(st.tuples(st.one_of(st.just(np.nan), VALUES), WEIGHTS), min_size=1, max_size=6)
FIDELITIES = pytest.mark.parametrize("fidelity", list(Fidelity), ids=lambda f: f.name)


def search(value, low, high):
    """The least value of a convex function on [low, high], and where."""
    grid = np.linspace(low, high, 2001)
    values = np.array([value(t) for t in grid])
    best = int(values.argmin())
    a, b = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    for _ in range(60):
        left, right = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
        a, b = (a, right) if value(left) <= value(right) else (left, b)
    at = (a + b) / 2
    return (at, value(at)) if value(at) < values[best] else (grid[best], values[best])


def observations(pairs, weighted, fidelity):
    """One pixel's observations, sorted as the solvers hand them to the prox."""
    depths = np.array([d for d, _ in pairs]).reshape(-1, 1, 1)
    weights = np.array([w for _, w in pairs]).reshape(-1, 1, 1) if weighted else None
    if weights is not None:
        weights = np.where(np.isnan(depths), 0, weights)
    return reference.order_observations(depths, weights, fidelity)[0]


def phi(fidelity):
    """From the energy's own definition, not the kernels'."""
    return {Fidelity.L1: L1(), Fidelity.L2: L2(), Fidelity.HUBER: Huber(DELTA)}[fidelity].value


@FIDELITIES
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@settings(max_examples=60)
@given(pairs=OBSERVED, f=VALUES, step=st.one_of(st.just(0.0), st.floats(0.01, 5)))
@example(pairs=[(0.5, 1.0)] * 4, f=0.5, step=1.0)
@example(pairs=[(0.5, 1.0), (0.5, 1.0), (-1.0, 1.0), (-1.0, 1.0)], f=-0.25, step=0.125)
@example(pairs=[(1.0, 1.0)], f=-2.0, step=0.5)
@example(pairs=[(np.nan, 0.0), (np.nan, 0.0)], f=1.5, step=2.0)
@example(pairs=[(np.nan, 1.0), (2.0, 0.0)], f=1.5, step=2.0)
@example(pairs=[(1.0, 1.0), (2.0, 3.0)], f=0.0, step=0.0)
def test_prox_of_the_data_term_is_the_minimiser(fidelity, weighted, pairs, f, step):
    """argmin_x step sum_k w_k phi(x - d_k) + (x - f)^2 / 2."""
    known = [(d, w if weighted else 1.0) for d, w in pairs if np.isfinite(d)]
    term = phi(fidelity)

    def value(x):
        return step * sum(w * float(term(np.array(x - d))) for d, w in known) + (x - f) ** 2 / 2

    seen = observations(pairs, weighted, fidelity)
    x = float(data_prox(np.array([[f]]), np.array([[step]]), seen, fidelity, DELTA)[0, 0])
    ends = [f] + [d for d, _ in known]
    at, least = search(value, min(ends) - 0.1, max(ends) + 0.1)
    assert value(x) <= least + 1e-12
    assert x == pytest.approx(at, abs=1e-5)  # (x - at)^2 / 2 is at most what the search leaves


@FIDELITIES
@settings(max_examples=30)
@given(
    pairs=OBSERVED,
    f=VALUES,
    step=st.floats(0.01, 5),
    prox_centre=VALUES,
    prox_weight=st.floats(0.01, 20),
)
def test_prox_with_an_anchor_is_the_minimiser(fidelity, pairs, f, step, prox_centre, prox_weight):
    """The alternate minimisation's proximal term prox_weight / 2 (x - prox_centre)^2 folded in."""
    from cfusion.kernels.numpy.iteration import x_prox

    known = [(d, w) for d, w in pairs if np.isfinite(d)]
    term = phi(fidelity)

    def value(x):
        data = sum(w * float(term(np.array(x - d))) for d, w in known)
        return step * (0.8 * data + prox_weight / 2 * (x - prox_centre) ** 2) + (x - f) ** 2 / 2

    problem = contract.Problem(
        fidelity,
        DELTA,
        observations(pairs, True, fidelity),
        np.array([[0.8]]),
        contract.links_of(np.ones((1, 1), bool)),
        (1.0,),
        prox_centre=np.array([[prox_centre]]),
        prox_weight=prox_weight,
    )
    x = float(x_prox(problem, np.array([[f]]), step)[0, 0])
    ends = [f, prox_centre] + [d for d, _ in known]
    at, least = search(value, min(ends) - 0.1, max(ends) + 0.1)
    assert value(x) <= least + 1e-12 * max(1, abs(least))
    assert x == pytest.approx(at, abs=1e-5)


@FIDELITIES
@settings(max_examples=40)
@given(pairs=OBSERVED, x=VALUES)
def test_penalty_and_misfit_are_the_energys(fidelity, pairs, x):
    """Kernels and energy agree on phi, and on the sum over what was observed."""
    term = phi(fidelity)
    assert float(penalty(np.array(x), fidelity, DELTA)) == pytest.approx(float(term(np.array(x))), abs=1e-15)
    seen = observations(pairs, True, fidelity)
    problem = contract.Problem(fidelity, DELTA, seen, np.ones((1, 1)), contract.links_of(np.ones((1, 1), bool)), (1.0,))
    direct = sum(w * float(term(np.array(x - d))) for d, w in pairs if np.isfinite(d))
    assert float(reference.misfit(problem, np.array([[x]]))[0, 0]) == pytest.approx(direct, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@settings(max_examples=60)
@given(pairs=OBSERVED)
@example(pairs=[(0.0, 1.0), (1.0, 1.0), (2.0, 2.0)])  # half of the weight is reached exactly at 1
def test_median_is_the_middle_of_the_minimisers(weighted, pairs):
    """Of sum_k w_k |x - d_k|; zero where nothing was observed."""
    known = sorted((d, w if weighted else 1.0) for d, w in pairs if np.isfinite(d) and (w > 0 or not weighted))
    depths = np.array([d for d, _ in pairs]).reshape(-1, 1, 1)
    weights = np.array([w for _, w in pairs]).reshape(-1, 1, 1) if weighted else None
    median = float(reference.order_observations(depths, weights, Fidelity.L1)[1][0, 0])
    if not known:
        assert median == 0
        return

    def value(x):
        return sum(w * abs(x - d) for d, w in known)

    least = min(value(d) for d, _ in known)  # piecewise linear: a minimum lies at an observation
    best = [d for d, _ in known if value(d) <= least * (1 + 1e-15)]
    assert value(median) <= least * (1 + 1e-12) + 1e-15
    if len(known) == len({d for d, _ in known}) and not weighted:
        assert median == pytest.approx((best[0] + best[-1]) / 2, abs=1e-15)


MISFITS = st.one_of(st.just(0.0), st.floats(0, 50))
RATES = st.floats(1e-3, 5)
STRENGTHS = st.floats(0.1, 30)


@settings(max_examples=60)
@given(misfit=MISFITS, rate=RATES, strength=STRENGTHS)
def test_best_confidence_is_the_minimiser(misfit, rate, strength):
    """argmin_lam lam misfit + rate lam - b log lam, searched over log lam."""

    def value(log_lam):
        return np.exp(log_lam) * (misfit + rate) - strength * log_lam

    lam = float(Prior().best(np.array(misfit), np.array(rate), np.array(strength)))
    at, least = search(value, -12, 12)
    assert value(np.log(lam)) <= least + 1e-12 * max(1, abs(least))
    assert np.log(lam) == pytest.approx(at, abs=1e-5)


@settings(max_examples=60)
@given(
    lam=st.one_of(st.just(0.0), st.floats(1e-3, 50)),
    misfit=MISFITS,
    rate=RATES,
    strength=STRENGTHS,
    nu=st.one_of(st.floats(1e-6, 1e-2), st.floats(1e-2, 1e4)),
)
@example(lam=0.0, misfit=50.0, rate=5.0, strength=0.1, nu=1e4)  # a large and negative: the cancelling branch
def test_near_confidence_is_the_minimiser(lam, misfit, rate, strength, nu):
    """The same with (lam' - lam)^2 / (2 nu) added."""

    def value(log_lam):
        moved = np.exp(log_lam)
        return moved * (misfit + rate) - strength * log_lam + (moved - lam) ** 2 / (2 * nu)

    found = float(Prior().near(np.array(lam), np.array(misfit), np.array(rate), np.array(strength), nu))
    assert found > 0
    at, least = search(value, -25, 10)
    assert value(np.log(found)) <= least + 1e-10 * max(1, abs(least))
    # at the minimiser the derivative vanishes: a sharper test than the search's own precision
    slopes = np.array([misfit + rate, -strength / found, (found - lam) / nu])
    assert abs(slopes.sum()) <= 1e-9 * np.abs(slopes).max()
    assert np.log(found) == pytest.approx(at, abs=2e-2)


@settings(max_examples=30)
@given(lam=st.floats(0.01, 20), misfit=MISFITS, rate=RATES, strength=STRENGTHS)
def test_near_tends_to_best_and_to_staying(lam, misfit, rate, strength):
    """A long proximal step forgets where it came from, a short one stays there."""
    arrays = np.array(misfit), np.array(rate), np.array(strength)
    best = float(Prior().best(*arrays))
    assert float(Prior().near(np.array(lam), *arrays, 1e12)) == pytest.approx(best, rel=1e-4)
    assert float(Prior().near(np.array(lam), *arrays, 1e-12)) == pytest.approx(lam, rel=1e-6)


@pytest.mark.parametrize(("b", "expected"), [(None, [0.5, 1.5, 3.5]), (2.0, [2.0, 2.0, 2.0])])
def test_strength_is_the_papers_scalar_or_grows_with_what_was_observed(b, expected):
    """b, or b_i = K_i + shape - 1; where nothing was observed, the prior's own."""
    assert Prior(shape=1.5, b=b).strength(np.array([0.0, 1.0, 3.0])).tolist() == expected
