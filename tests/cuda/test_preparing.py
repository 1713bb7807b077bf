"""What surrounds iterations on the device against the definition: order statistics, starts, weights, gates, sums."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import kernels
from cfusion.auto import surface
from cfusion.kernels.contract import Fidelity, HeldOut, State, links_of
from cfusion.kernels.depth_noise import DepthNoise
from cfusion.kernels.host import travelled

pytestmark = pytest.mark.cuda
reference = kernels.load("numpy")
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
def test_medians_are_exact(cuda, shape):
    depths, _ = maps(shape)
    ours, defined = cuda.medians(depths), reference.medians(depths)
    assert ours[1] == defined[1]
    np.testing.assert_array_equal(ours[0], defined[0])
    np.testing.assert_array_equal(cuda.medians(depths, 1.5)[0], reference.medians(depths, 1.5)[0])
    apart = cuda.to_device(depths, np.float32)[..., 1::3]
    np.testing.assert_array_equal(cuda.medians(apart)[0], reference.medians(depths[..., 1::3])[0])
    np.testing.assert_allclose(cuda.medians(depths, share=0.98)[0], reference.medians(depths, share=0.98)[0], rtol=1e-6)
    ours, defined = (backend.medians(depths - np.float32(2), sides=True) for backend in (cuda, reference))
    assert ours[1] == defined[1]
    np.testing.assert_array_equal(ours[0], defined[0])


@EVERY_SHAPE
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_tallies_comparisons_and_local_trust(cuda, shape, weighted):
    depths, weights = maps(shape)
    weights = weights if weighted else None
    there = [None if each is None else cuda.to_device(each, np.float32) for each in (depths, weights)]
    ours, defined = cuda.count_observations(*there), reference.count_observations(depths, weights)
    assert np.array_equal(cuda.to_host(ours.count), defined.count)
    assert np.array_equal(cuda.to_host(ours.observed), defined.observed)
    assert (ours.window, ours.pixels, ours.least) == (defined.window, defined.pixels, defined.least)
    assert ours.mass == pytest.approx(defined.mass, rel=1e-12)
    nothing = cuda.to_device(np.full((2, *shape), np.nan), np.float32)
    assert cuda.count_observations(nothing, None).window is None
    turns = np.random.default_rng(3).random((len(depths), 5)) < 0.4
    *ours, known = cuda.split_folds(*there, turns, 4)
    *defined, expected = reference.split_folds(depths, weights, turns, 4)
    assert known == expected
    for part, of_definition in zip(ours, defined, strict=True):
        for one, other in zip(part, of_definition, strict=True):
            assert (one is None) == (other is None)
            assert one is None or np.array_equal(cuda.to_host(one), other, equal_nan=True)
    surface = np.where(np.arange(shape[1]) % 5 == 3, np.nan, 2.0).astype(np.float32) + np.zeros(shape, np.float32)
    ours = cuda.local_noise_weights(*there, cuda.to_device(surface, np.float32))
    np.testing.assert_allclose(cuda.to_host(ours), reference.local_noise_weights(depths, weights, surface), rtol=2e-5)


@EVERY_SHAPE
def test_gains_over_another_surface(cuda, shape):
    rng = np.random.default_rng(shape)
    depths, weights = maps(shape)
    depths = np.abs(depths) + np.float32(0.1)
    window = (slice(shape[0] // 4, shape[0]), slice(0, shape[1] - shape[1] // 4))
    domain = rng.random(shape) < 0.8
    x, other = rng.normal(0, 1, (2, *domain[window].shape)).astype(np.float32)
    for given, inverse in ((None, False), (weights, True)):
        defined = HeldOut(depths, given, window, domain[window], 0.3, inverse)
        there = [None if each is None else cuda.to_device(each, each.dtype) for each in (depths, given, domain)]
        held = HeldOut(there[0], there[1], window, there[2][window], 0.3, inverse)
        ours = cuda.score_difference(cuda.to_device(x, np.float32), cuda.to_device(other, np.float32), held)
        assert ours == pytest.approx(reference.score_difference(x, other, defined), rel=1e-6, abs=1e-12)


@EVERY_SHAPE
@pytest.mark.parametrize("fidelity", list(Fidelity))
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("inverse", [False, True], ids=["depth", "inverse"])
def test_stacks_in_the_coordinates_of_a_task(cuda, shape, fidelity, weighted, inverse):
    depths, weights = maps(shape)
    depths = np.abs(depths) + np.float32(0.1)
    weights = weights if weighted else None
    there = [None if each is None else cuda.to_device(each, np.float32) for each in (depths, weights)]
    window = (slice(0, shape[0] - shape[0] // 4), slice(shape[1] // 4, shape[1]))
    for real in (np.float32, np.float64):
        ours = cuda.sort_observations(*there, window, 0.3, inverse, fidelity, real)
        defined = reference.sort_observations(depths, weights, window, 0.3, inverse, fidelity, real)
        close = 1e-12 if real is np.float64 else 2e-6
        for name in ("values", "weights", "total", "scatter"):
            one, other = getattr(ours.observations, name), getattr(defined.observations, name)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(cuda.to_host(one), other, rtol=close, atol=close)
        np.testing.assert_allclose(cuda.to_host(ours.median), defined.median, rtol=close, atol=close)
        for name in ("low", "high", "pixels", "n_observations", "sum_sq_error", "sum_median", "sum_sq_median"):
            assert getattr(ours, name) == pytest.approx(getattr(defined, name), rel=1e-5, abs=1e-5), name


@EVERY_SHAPE
def test_whole_maps(cuda, shape):
    rng = np.random.default_rng(shape)
    window = (slice(shape[0] // 4, shape[0]), slice(0, shape[1] - shape[1] // 4))
    domain = np.zeros(shape, np.bool_)
    domain[window] = rng.random(domain[window].shape) < 0.8
    part = rng.normal(0, 1, domain[window].shape).astype(np.float32)

    def same(name, *arguments):
        there = [cuda.to_device(each, each.dtype) if isinstance(each, np.ndarray) else each for each in arguments]
        ours, defined = getattr(cuda, name)(*there), getattr(reference, name)(*arguments)
        if isinstance(defined, np.ndarray):
            ours, defined = (ours,), (defined,)
        for one, other in zip(ours, defined, strict=True):
            np.testing.assert_allclose(cuda.to_host(one), other, rtol=1e-6, atol=1e-6)
            assert one.dtype == other.dtype

    for inverse in (False, True):
        same("to_image", part, domain, window, float("nan"), 0.4, inverse)


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
    carried = cuda.to_host(cuda.extrapolate(values, seen, domain))
    np.testing.assert_allclose(carried, reference.extrapolate(median, observed, inside), rtol=1e-6, atol=1e-6)
    for order in (1, 2, 3):
        ours = cuda.initial_state(values, cuda.links_of(domain), order)
        defined = reference.initial_state(median, links_of(inside), order)
        assert np.array_equal(cuda.to_host(ours.primal), defined.primal)
        assert np.array_equal(cuda.to_host(ours.dual), defined.dual)


@EVERY_SHAPE
@pytest.mark.parametrize("offset", [(0, 0), (2, -1), (-3, 4), (200, 0)], ids=str)
def test_a_state_goes_on_where_another_was(cuda, shape, offset):
    rng = np.random.default_rng(shape)
    domain, inside = rng.random(shape) < 0.9, rng.random((shape[0] + 2, shape[1] + 1)) < 0.8
    links = links_of(domain)
    state, other = (
        State(*(rng.normal(0, 1, (planes, *size)).astype(np.float32) for planes in (3, 5)))
        for size in (shape, inside.shape)
    )
    there = [State(*(cuda.to_device(each, np.float32) for each in (one.primal, one.dual))) for one in (state, other)]
    mask = cuda.to_device(np.pad(inside, 1), np.bool_)[1:-1, 1:-1]
    reference.transfer_state(state, links, other, inside, offset, 0.5)
    cuda.transfer_state(there[0], cuda.to_device(links, np.uint16), there[1], mask, offset, 0.5)
    assert np.array_equal(cuda.to_host(there[0].primal), state.primal)
    assert np.array_equal(cuda.to_host(there[0].dual), state.dual)


@EVERY_SHAPE
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("power", [0, 1, 2])
def test_gates(cuda, holes, power, shape):
    depths, weights = maps(shape)
    surface = np.where(np.arange(shape[1]) % 5 == 3, np.nan, 2.0).astype(np.float32) + np.zeros(shape, np.float32)
    seen = np.random.default_rng(1).random(depths.shape) < 0.7
    ours = [cuda.to_device(each, each.dtype) for each in (depths, weights, surface)]
    limits, growth = [1.0, np.inf, 0.5, float("nan")], DepthNoise(1.5, power)
    reference.reject_occluded(depths, weights, surface, growth, limits, seen, 1, holes)
    cuda.reject_occluded(*ours, growth, limits, cuda.to_device(seen, np.bool_), 1, holes)
    assert np.array_equal(cuda.to_host(ours[1]), weights)
    assert np.array_equal(cuda.to_host(ours[0]), depths, equal_nan=True)


@pytest.mark.parametrize("power", [0, 2])
def test_array_functions_are_the_same_on_the_device(cuda, power):
    """What is one kernel, or NumPy's functions passed on to CuPy."""
    depths, _ = maps((37, 41))
    growth = DepthNoise(1.5, power)
    calls = [
        lambda one, other: surface.local_slope(one, growth),
        lambda one, other: surface.blend(one, other, 0.5),
        lambda one, other: surface.add_plane(one, 0.3, -0.2),
        lambda one, other: surface.steps(one)[0],
        lambda one, other: surface.steps(one)[1],
    ]
    there = [cuda.to_device(each, np.float32) for each in depths[:2]]
    for call in calls:
        ours, defined = call(*there), call(*depths[:2])
        assert type(ours) is type(there[0])
        np.testing.assert_allclose(cuda.to_host(ours), defined, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("places", [None, 1], ids=["on the chip", "tile by tile"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_measures_are_the_parts_and_going_ahead_changes_nothing(cuda, make_case, monkeypatch, order, places):
    if places:  # no room for all tiles at once
        monkeypatch.setattr("cfusion.kernels.cuda.iteration.multiprocessors", lambda: 0)
    case = make_case((31, 42), order=order, weighted=True)
    (problem, state), (on_host, defined) = case.on_device(), case.on_host()
    kept, kept_on_host = cuda.snapshot_rows(state, 4), reference.snapshot_rows(defined, 4)
    for _ in range(3):
        cuda.iterate(problem, state, case.steps, 15)
        reference.iterate(on_host, defined, case.steps, 15)
        energies, ways = cuda.measure(problem, state, kept, 4)
        assert energies.total == pytest.approx(reference.energy(on_host, defined).total, rel=1e-4)
        for ours, theirs in zip(ways, travelled(kept_on_host, defined, 4), strict=True):
            assert ours == pytest.approx(theirs, rel=2e-3, abs=1e-6)
    fresh = State(state.primal.copy(), state.dual.copy())
    others = replace(case.steps, relaxation=1.2)  # not what was gone ahead with
    cuda.iterate(problem, state, others, 15)
    cuda.iterate(problem, fresh, others, 15)
    assert np.array_equal(cuda.to_host(state.primal), cuda.to_host(fresh.primal))
    rate, strength = (np.full(on_host.links.shape, value, np.float32) for value in (0.1, 3.0))
    there = [cuda.to_device(each, np.float32) for each in (rate, strength)]
    (lam, prior, energies), _ = cuda.follow(problem, state, *there, None, 1)
    best, value = reference.adapt(on_host, cuda.to_host(state.primal[0]), rate, strength)
    np.testing.assert_allclose(cuda.to_host(lam), best, rtol=1e-5)
    assert prior == pytest.approx(value, rel=1e-5)
    assert energies.total == pytest.approx(cuda.energy(replace(problem, confidence=lam), state).total, rel=1e-12)
    ours, theirs = cuda.energy(problem, state), reference.energy(on_host, defined)
    assert (ours.mass, ours.pixels) == pytest.approx((theirs.mass, theirs.pixels), rel=1e-6)
