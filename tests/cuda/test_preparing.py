"""What surrounds iterations on the device against the definition: order statistics, starts, weights, gates, sums."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import kernels
from cfusion.kernels.contract import State, links_of

pytestmark = pytest.mark.cuda
reference = kernels.load("reference")
SHAPES = [(1, 1), (7, 9), (31, 42), (95, 131)]
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def maps(shape, views=4, seed=0):
    """Noise of either sign with holes, and one map that knows nothing."""
    rng = np.random.default_rng([seed, *shape])
    depths = rng.normal(2, 1, (views, *shape)).astype(np.float32)
    depths[rng.random(depths.shape) < 0.3] = np.nan
    depths[0, 0, 0] = 1.0
    depths[-1] = np.nan
    weights = np.where(np.isnan(depths) | (rng.random(depths.shape) < 0.1), 0, rng.uniform(0.2, 2, depths.shape))
    return depths, weights.astype(np.float32)


@EVERY_SHAPE
def test_medians_and_quantiles_are_exact(cuda, shape):
    depths, _ = maps(shape)
    ours, defined = cuda.medians(depths), reference.medians(depths)
    assert ours[1] == defined[1]
    np.testing.assert_array_equal(ours[0], defined[0])
    shares = [0.0, 0.1, 0.5, 0.98, 1.0]
    np.testing.assert_allclose(cuda.quantiles(depths, shares), reference.quantiles(depths, shares), rtol=1e-6)
    assert np.isnan(cuda.quantiles(depths[-1], [0.5])[0])


@EVERY_SHAPE
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_counts_ranges_and_local_trust(cuda, shape, weighted):
    depths, weights = maps(shape)
    weights = weights if weighted else None
    there = [None if each is None else cuda.to_device(each, np.float32) for each in (depths, weights)]
    assert np.array_equal(cuda.to_host(cuda.counts(*there)), reference.counts(depths, weights))
    if weighted is False:
        assert cuda.range_of(*there) == reference.range_of(depths, weights)
    surface = np.where(np.arange(shape[1]) % 5 == 3, np.nan, 2.0).astype(np.float32) + np.zeros(shape, np.float32)
    ours = cuda.trust_locally(*there, cuda.to_device(surface, np.float32))
    np.testing.assert_allclose(cuda.to_host(ours), reference.trust_locally(depths, weights, surface), rtol=2e-5)


@EVERY_SHAPE
def test_gains_over_another_surface(cuda, shape):
    rng = np.random.default_rng(shape)
    x, other = rng.normal(0, 1, (2, *shape)).astype(np.float32)
    held, weights = rng.normal(0, 1, (3, *shape)), rng.random((3, *shape))
    there = [cuda.to_device(each, each.dtype) for each in (x, other, held, weights)]
    assert cuda.gain(*there) == pytest.approx(reference.gain(x, other, held, weights), rel=1e-6, abs=1e-12)


@EVERY_SHAPE
def test_domains_and_what_is_carried_into_them(cuda, shape):
    rng = np.random.default_rng(shape)
    inside = rng.random(shape) < 0.8
    inside[0, 0] = True
    observed = inside & (rng.random(shape) < 0.05)  # far apart: many rounds
    observed[0, 0] = True
    median = rng.normal(0, 1, shape).astype(np.float32)
    domain, seen, values = (cuda.to_device(each, each.dtype) for each in (inside, observed, median))
    assert np.array_equal(cuda.to_host(cuda.links_of(domain)), links_of(inside))
    assert cuda.window_of(domain) == reference.window_of(inside)
    assert cuda.window_of(cuda.to_device(np.zeros(shape), np.bool_)) is None
    carried = cuda.to_host(cuda.carry(values, seen, domain))
    np.testing.assert_allclose(carried, reference.carry(median, observed, inside), rtol=1e-6, atol=1e-6)
    for order in (1, 2, 3):
        ours = cuda.begin(values, cuda.links_of(domain), order)
        defined = reference.begin(median, links_of(inside), order)
        assert np.array_equal(cuda.to_host(ours.primal), defined.primal)
        assert np.array_equal(cuda.to_host(ours.dual), defined.dual)


@EVERY_SHAPE
@pytest.mark.parametrize("holes", [False, True])
def test_gates_and_softened_edges(cuda, holes, shape):
    depths, weights = maps(shape)
    surface = np.where(np.arange(shape[1]) % 5 == 3, np.nan, 2.0).astype(np.float32) + np.zeros(shape, np.float32)
    seen = np.random.default_rng(1).random(depths.shape) < 0.7
    ours = [cuda.to_device(each, each.dtype) for each in (depths, weights, surface)]
    limits = [1.0, np.inf, 0.5, float("nan")]
    reference.gate(depths, weights, surface, limits, seen, 1, holes)
    cuda.gate(*ours, limits, cuda.to_device(seen, np.bool_), 1, holes)
    assert np.array_equal(cuda.to_host(ours[1]), weights)
    steep = reference.local_slope(depths[1])
    slope = cuda.local_slope(cuda.to_device(depths[1], np.float32))
    np.testing.assert_allclose(cuda.to_host(slope), steep, rtol=1e-6)
    noise = [0.1, 0.2, 1e-12, 1.0]
    reference.soften(weights, steep, noise, 2, 0.05)
    cuda.soften(ours[1], slope, noise, 2, 0.05)
    np.testing.assert_allclose(cuda.to_host(ours[1]), weights, rtol=1e-6)


@pytest.mark.parametrize("places", [None, 1], ids=["on the chip", "tile by tile"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_measures_are_the_parts_and_going_ahead_changes_nothing(cuda, make_case, monkeypatch, order, places):
    if places:  # no room for all tiles at once
        monkeypatch.setattr("cfusion.kernels.cuda.iteration.multiprocessors", lambda: 0)
    case = make_case((31, 42), order=order, weighted=True)
    (problem, state), (on_host, defined) = case.on_device(), case.on_host()
    kept, kept_on_host = cuda.sample(state, 4), reference.sample(defined, 4)
    for _ in range(3):
        cuda.iterate(problem, state, case.steps, 15)
        reference.iterate(on_host, defined, case.steps, 15)
        energies, ways = cuda.measure(problem, state, kept, 4)
        assert energies.total == pytest.approx(reference.energy(on_host, defined).total, rel=1e-4)
        for ours, theirs in zip(ways, reference.travelled(kept_on_host, defined, 4), strict=True):
            assert ours == pytest.approx(theirs, rel=2e-3, abs=1e-6)
    fresh = State(state.primal.copy(), state.dual.copy())
    others = replace(case.steps, relaxation=1.2)  # not what was gone ahead with
    cuda.iterate(problem, state, others, 15)
    cuda.iterate(problem, fresh, others, 15)
    assert np.array_equal(cuda.to_host(state.primal), cuda.to_host(fresh.primal))
    rate, strength = (np.full(on_host.links.shape, value, np.float32) for value in (0.1, 3.0))
    there = [cuda.to_device(each, np.float32) for each in (rate, strength)]
    (lam, prior, energies), _ = cuda.follow(problem, state, *there, None, 1)
    best, value = cuda.adapt(problem, state.primal[0], *there)
    assert np.array_equal(cuda.to_host(lam), cuda.to_host(best))
    assert prior == pytest.approx(value, rel=1e-12)
    assert energies.total == pytest.approx(cuda.energy(replace(problem, confidence=lam), state).total, rel=1e-12)
    assert cuda.weight_of_data(problem) == pytest.approx(reference.weight_of_data(on_host), rel=1e-6)
