"""Sorting, misfit, energy and certificate on the device against the definition."""

import numpy as np
import pytest

from cfusion import kernels
from cfusion.kernels.contract import Fidelity

pytestmark = pytest.mark.cuda
KINDS = [
    {},
    {"weighted": True},
    {"edge": True},
    {"tensor": True},
    {"anchored": True},
    {"anchored": True, "weighted": True, "edge": True},
]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind) or "plain")
EVERY_FIDELITY = pytest.mark.parametrize("fidelity", list(Fidelity), ids=lambda fidelity: fidelity.name)
EVERY_ORDER = pytest.mark.parametrize("order", [1, 2, 3])
EVERYTHING = (slice(0, 17), slice(0, 33))
reference = kernels.load("numpy")


@EVERY_FIDELITY
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("views", [1, 2, 5, 11, 64])
def test_sorted_observations_have_the_bits_of_the_definition(cuda, make_case, fidelity, weighted, views):
    import cupy

    case = make_case((17, 33), views=views, weighted=weighted)
    depths = np.where(np.isfinite(case.depths), case.depths.round(1), np.float32(np.nan))  # with ties
    expected, expected_median = reference.order_observations(depths, case.weights, fidelity)
    weights = None if case.weights is None else cupy.asarray(case.weights)
    found = cuda.sort_observations(cupy.asarray(depths), weights, EVERYTHING, 0.0, False, fidelity, np.float32)
    seen, median = found.observations, found.median
    assert np.array_equal(median.get(), expected_median)
    assert np.array_equal(seen.total.get(), expected.total)
    for ours, defined in ((seen.values, expected.values), (seen.weights, expected.weights)):
        assert (ours is None) == (defined is None)
        if ours is not None and fidelity is not Fidelity.L2:
            assert np.array_equal(ours.get(), defined)
    if fidelity is Fidelity.L2:
        np.testing.assert_allclose(seen.values.get(), expected.values, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(seen.scatter.get(), expected.scatter, rtol=1e-5, atol=1e-7)


@EVERY_FIDELITY
@EVERY_ORDER
@EVERY_KIND
def test_energy_and_misfit(cuda, make_case, fidelity, order, kind):
    case = make_case((23, 37), order=order, fidelity=fidelity, **kind)
    rng = np.random.default_rng(1)
    case.state.primal[...] += rng.normal(0, 0.1, case.state.primal.shape).astype(np.float32)
    problem, state = case.on_device()
    ours, defined = cuda.energy(problem, state), reference.energy(case.problem, case.state)
    assert ours.regulariser == pytest.approx(defined.regulariser, rel=2e-6)
    assert ours.fidelity == pytest.approx(defined.fidelity, rel=2e-6)
    assert ours.proximal == pytest.approx(defined.proximal, rel=2e-6)
    fit = cuda.misfit(problem, state.primal[0]).get()
    np.testing.assert_allclose(fit, reference.misfit(case.problem, case.state.primal[0]), rtol=2e-6, atol=1e-6)


@EVERY_FIDELITY
@EVERY_ORDER
@EVERY_KIND
def test_the_certificate_is_the_definition_s(cuda, make_case, fidelity, order, kind):
    """The same bound to float32 rounding, and never above the energy it certifies."""
    case = make_case((23, 37), order=order, fidelity=fidelity, **kind)
    reference.iterate(case.problem, case.state, case.steps, 150)
    problem, state = case.on_device()
    energy = reference.energy(case.problem, case.state).total
    for rounds in (0, 1, 40):
        ours = cuda.bound(problem, state, case.box, rounds)
        defined = reference.bound(case.problem, case.state, case.box, rounds)
        assert ours == pytest.approx(defined, abs=2e-5 * energy)
        assert ours <= energy * (1 + 1e-6)


@EVERY_ORDER
@EVERY_KIND
def test_a_repair_that_goes_on_is_the_definition_s(cuda, make_case, order, kind):
    """Some steps at a time, as long as the dual is infeasible: an odd number of exchanges each time."""
    case = make_case((70, 71), order=order, **kind)
    reference.iterate(case.problem, case.state, case.steps, 20)
    problem, state = case.on_device()
    energy = reference.energy(case.problem, case.state).total
    for most in (0, 14, 21, 70):
        ours = cuda.bound(problem, state, case.box, 7, most)
        assert ours == pytest.approx(reference.bound(case.problem, case.state, case.box, 7, most), abs=2e-5 * energy)


@EVERY_ORDER
@pytest.mark.parametrize("places", [132, 2], ids=["a tile for each block", "tiles in turn"])
def test_certificates_of_several_tiles(cuda, make_case, monkeypatch, order, places):
    monkeypatch.setattr("cfusion.kernels.cuda.certificate.multiprocessors", lambda: places)
    case = make_case((117, 131), order=order)
    problem, state = case.on_device()
    cuda.iterate(problem, state, case.steps, 30)
    case.state.primal[...], case.state.dual[...] = cuda.to_host(state.primal), cuda.to_host(state.dual)
    for rounds in (1, 3, 4, 12):  # less than, exactly and more than one exchange
        ours, defined = (
            backend.bound(*given, case.box, rounds)
            for backend, given in ((cuda, (problem, state)), (reference, (case.problem, case.state)))
        )
        assert ours == pytest.approx(defined, rel=1e-6)


def test_sums_have_the_same_bits_twice_and_the_full_size_is_right(cuda, make_case):
    case = make_case((480, 640), views=3)
    problem, state = case.on_device()
    cuda.iterate(problem, state, case.steps, 20)
    first, second = cuda.energy(problem, state), cuda.energy(problem, state)
    assert first == second
    assert cuda.bound(problem, state, case.box, 5) == cuda.bound(problem, state, case.box, 5)
    case.state.primal[...], case.state.dual[...] = state.primal.get(), state.dual.get()
    assert first.total == pytest.approx(reference.energy(case.problem, case.state).total, rel=1e-6)
    assert cuda.bound(problem, state, case.box, 5) == pytest.approx(
        reference.bound(case.problem, case.state, case.box, 5), abs=1e-5 * first.total
    )
