"""Depth and confidence together: what alternate search, alternate minimisation and the single loop promise."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import METHODS, Stack, Status, fuse_stack, kernels
from cfusion.energy import L1, L2, TGV, Energy, Huber, Prior
from cfusion.solvers import ACS, AMA, PDHG, Biconvex, prepare
from cfusion.solvers.joint import ConfidenceUpdate

REFERENCE = kernels.load("numpy")
ENERGIES = {
    "l1": Energy(L1(), TGV(2), Prior()),
    "l1, the paper's b": Energy(L1(), TGV(2), Prior(rate=0.25, b=1.0)),
    "l2": Energy(L2(), TGV(1), Prior()),
    "huber": Energy(Huber(0.1), TGV(2), Prior()),
    "l1, trusting": Energy(L1(), TGV(1), Prior(trusting=True)),
}
EVERY_ENERGY = pytest.mark.parametrize("energy", list(ENERGIES.values()), ids=list(ENERGIES))
TIGHT = PDHG(tolerance=1e-4)


def stack(seed=0, shape=(10, 12), views=5, *, weighted=False):
    """A slope and a step, a third of it three times noisier, with holes."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[0], : shape[1]]
    noise = np.where(x < shape[1] // 3, 3.0, 1.0) * rng.laplace(0, 0.2, (views, *shape))
    depths = 5 + 0.1 * x - 0.05 * y + (x > shape[1] // 2) + noise
    depths[rng.random(depths.shape) < 0.15] = np.nan
    depths[:, 4:6, 5:7] = np.nan
    weights = rng.uniform(0.5, 2, depths.shape).astype(np.float32) if weighted else None
    return Stack(depths.astype(np.float32), weights)


def task_of(energy, dtype=np.float64, backend=REFERENCE):
    return prepare(energy, stack(weighted=bool(energy.prior.trusting)), backend, dtype=dtype)


def joint_energy(task, solution):
    """E(x, lam) of what was returned, from its definition."""
    x, lam = at_window(task, solution)
    side = ConfidenceUpdate.of(task)
    keep = task.inside()
    fidelity = np.sum((lam * task.backend.misfit(task.problem(lam), x))[keep])
    prior = np.sum((side.rate * lam)[keep] - side.strength[keep] * np.log(lam[keep]))
    return solution.energies["regulariser"] + float(fidelity + prior)


def at_window(task, solution):
    """x and lam as the task sees them."""
    depth = task.backend.to_device(solution.depth[task.window], task.dtype)
    lam = task.backend.to_device(solution.confidence[task.window], task.dtype)
    return np.where(task.inside(), depth - task.centre, 0), lam


def closed_form(task, solution):
    """b / (misfit + rate), at the depth that was returned."""
    x, lam = at_window(task, solution)
    side = ConfidenceUpdate.of(task)
    best = (side.strength / (task.backend.misfit(task.problem(lam), x) + side.rate))[task.inside()]
    return task.backend.to_host(best)


def energies_of(solution):
    return np.array([outer.energy for outer in solution.history])


@EVERY_ENERGY
def test_acs_never_raises_the_energy_and_ends_at_the_closed_form(energy, backend):
    task = task_of(energy, backend=backend)
    solution = ACS(tolerance=1e-7, outer=12)(task)
    energies = energies_of(solution)
    state = task.initial_state()
    side = ConfidenceUpdate.of(task)
    lam = side.best(backend.misfit(task.problem(state.primal[0]), state.primal[0]))
    first = backend.energy(task.problem(lam), state).total + side.value(lam)
    falls = np.diff([first, *energies])
    assert (falls <= 1e-12 * np.abs(energies)).all()
    assert energies[-1] < first
    assert solution.energies["total"] == pytest.approx(energies[-1], rel=1e-12)
    assert joint_energy(task, solution) == pytest.approx(energies[-1], rel=1e-6)
    lam = backend.to_host(at_window(task, solution)[1][task.inside()])
    np.testing.assert_allclose(lam, closed_form(task, solution), rtol=1e-5)
    assert (solution.confidence[~solution.domain] == 0).all()


@pytest.mark.parametrize("method", ["l1-adapt", "rof-adapt"])
def test_acs_never_raises_the_energy_in_float32_either(method, compiled):
    result = fuse_stack(stack(), method, backend=compiled.NAME)
    energies = np.array([outer.energy for outer in result.history])
    assert (np.diff(energies) <= 0).all()
    assert result.status is Status.partial_optimum
    assert 0 <= result.gap <= METHODS[method].solver.inner.tolerance


def test_a_step_that_would_raise_the_energy_is_rejected():
    """From a partial optimum a sloppy depth step can only do harm; what was reached stays."""
    task = task_of(ENERGIES["l1"])
    sloppy = ACS(inner=PDHG(tolerance=0.5, iterations=24), tolerance=0.0, outer=30)(task)
    energies = energies_of(sloppy)
    assert (np.diff(energies) <= 0).all()
    assert sloppy.energies["total"] == pytest.approx(energies[-1], rel=1e-12)
    assert joint_energy(task, sloppy) == pytest.approx(energies[-1], rel=1e-6)


def test_acs_tells_every_iteration_of_its_solves(monkeypatch):
    """Those of a step that was made again, more precisely, too."""
    made, minimise = [], PDHG.minimise

    def counted(self, *arguments, **more):
        made.append(minimise(self, *arguments, **more))
        return made[-1]

    monkeypatch.setattr(PDHG, "minimise", counted)
    solution = ACS(inner=PDHG(tolerance=0.5, iterations=24), tolerance=0.0, outer=30)(task_of(ENERGIES["l1"]))
    told = [step.iterations for step in solution.history if np.isfinite(step.gap)]
    assert len(made) > len(told)
    assert sum(told) == sum(each.iterations for each in made)


@EVERY_ENERGY
def test_ama_tends_to_acs_when_its_proximal_terms_vanish(energy):
    task = task_of(energy)
    search = ACS(inner=TIGHT, tolerance=1e-8, outer=15)(task)
    free = AMA(inner=TIGHT, tolerance=1e-7, outer=15, mu=1e9, nu=1e9, growth=1.0)(task)
    convex_part = search.energies["regulariser"] + search.energies["fidelity"]
    assert abs(free.energies["total"] - search.energies["total"]) <= 1e-4 * convex_part
    np.testing.assert_allclose(free.depth, search.depth, atol=5e-3)
    np.testing.assert_allclose(free.confidence, search.confidence, rtol=2e-2)
    held = AMA(inner=TIGHT, tolerance=0.0, outer=1, mu=1e-6, nu=1e-6, growth=1.0)(task)
    start = task.whole_depth(task.start)
    np.testing.assert_allclose(held.depth, start, atol=1e-4)  # and does not move where they are all that counts


@EVERY_ENERGY
def test_ama_by_its_own_schedule_ends_where_acs_does(energy):
    """The problem is not convex, so not exactly; but as low."""
    task = task_of(energy)
    search, scheduled = ACS()(task), AMA()(task)
    assert scheduled.status is Status.partial_optimum
    convex_part = search.energies["regulariser"] + search.energies["fidelity"]
    assert scheduled.energies["total"] <= search.energies["total"] + 2e-3 * convex_part
    assert (np.diff(energies_of(scheduled)) <= 1e-3 * convex_part).all()


@EVERY_ENERGY
def test_biconvex_stays_bounded_and_passes_the_same_test_where_it_stops(energy):
    """Partial optimality: lam near its closed form, the convex problem at that lam certified to be nearly solved."""
    task = task_of(energy)
    solution = Biconvex(tolerance=1e-5, iterations=1500)(task)
    assert np.isfinite(energies_of(solution)).all()
    assert energies_of(solution).max() <= energies_of(solution)[0] + 1e-3 * abs(energies_of(solution)[0])
    low, high = task.box.low, task.box.high
    x, lam = at_window(task, solution)
    assert low < x[task.inside()].min() < x[task.inside()].max() < high
    side = ConfidenceUpdate.of(task)
    assert lam[task.inside()].max() <= (side.strength / side.rate).max() * (1 + 1e-5)
    assert solution.status is Status.partial_optimum
    np.testing.assert_allclose(lam[task.inside()], closed_form(task, solution), rtol=2e-2)
    assert 0 <= solution.gap <= 5e-3
    search = ACS(inner=TIGHT, tolerance=1e-5)(task)
    convex_part = search.energies["regulariser"] + search.energies["fidelity"]
    assert abs(solution.energies["total"] - search.energies["total"]) <= 2e-3 * convex_part


def test_the_papers_example_of_non_convexity():
    """Between (0, 1) and (2, 1/e) the energy rises above the chord: K = 1, d = 0, W^-1 = 2 I, b = (e - 1) / (e + 2).

    With the true values E(z0) = N, E(z1) = N (3/e + b), E(mid) = N [(1 + 1/e) - b log((1 + 1/e) / 2)].
    """
    shape = (3, 4)
    n, e = 12, np.e
    b = (e - 1) / (e + 2)
    prior = Prior(rate=1.0, b=b)  # 1 / (2 W) = 1
    task = prepare(Energy(L1(), TGV(2), prior), Stack(np.zeros((1, *shape))), REFERENCE, dtype=np.float64)
    side = ConfidenceUpdate.of(task)

    def energy(x, lam):
        state = task.initial_state()
        state.primal[0] = x
        confidence = np.full(shape, lam)
        return REFERENCE.energy(task.problem(confidence), state).total + side.value(confidence)

    ends = energy(0.0, 1.0), energy(2.0, 1 / e)
    middle = energy(1.0, (1 + 1 / e) / 2)
    assert ends[0] == pytest.approx(n)
    assert ends[1] == pytest.approx(n * (3 / e + b))
    assert middle == pytest.approx(n * ((1 + 1 / e) - b * np.log((1 + 1 / e) / 2)))
    assert middle > sum(ends) / 2
    # and still convex in each variable alone
    assert energy(1.0, 1.0) <= (energy(0.0, 1.0) + energy(2.0, 1.0)) / 2
    assert energy(1.0, 0.75) <= (energy(1.0, 0.5) + energy(1.0, 1.0)) / 2


@pytest.mark.parametrize("solver", [ACS(), AMA(), Biconvex()], ids=lambda s: type(s).__name__)
def test_noisier_regions_get_less_confidence(solver, backend):
    """The columns with three times the noise, told apart by the data alone."""
    solution = solver(task_of(ENERGIES["l1"], backend=backend))
    columns = np.arange(12) < 12 // 3
    lam = np.where(solution.domain, solution.confidence, np.nan)
    assert np.nanmedian(lam[:, columns]) < 0.6 * np.nanmedian(lam[:, ~columns])


def test_one_confidence_for_all_is_the_limit_of_a_strong_prior():
    """With b and the rate scaled up together lam stays at b / rate, and the depth is that of the fixed confidence."""
    given = stack()
    strong = Energy(L1(), TGV(2), Prior(rate=1e6, b=0.7e6))
    precise = PDHG(tolerance=1e-5)
    adapted = ACS(inner=precise)(prepare(strong, given, REFERENCE, dtype=np.float64))
    fixed = precise(prepare(replace(strong, prior=None, lam=0.7), given, REFERENCE, dtype=np.float64))
    np.testing.assert_allclose(adapted.confidence[adapted.domain], 0.7, rtol=1e-4)
    np.testing.assert_allclose(adapted.depth, fixed.depth, atol=2e-3)


@pytest.mark.parametrize(
    ("solver", "limit"),
    [
        (ACS(tolerance=1e-2, outer=60), 60),
        (AMA(tolerance=1e-2, outer=60), 60),
        (Biconvex(tolerance=1e-2, iterations=3000), 3000),
    ],
    ids=["acs", "ama", "biconvex"],
)
def test_who_says_that_it_ended_goes_no_further(solver, limit):
    solution = solver(task_of(ENERGIES["l1"]))
    assert solution.status is Status.partial_optimum
    assert len(solution.history) < limit
    assert solution.iterations < 3000
