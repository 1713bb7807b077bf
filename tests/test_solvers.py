"""The convex solves against an independent solver, and the certificates against the truth."""

import dataclasses
import itertools
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from cfusion import METHODS, Stack, Status, fuse_stack, kernels, synthetic
from cfusion.energy import L1, L2, TGV, Energy, Huber, Prior
from cfusion.errors import InputError
from cfusion.kernels.contract import Energies
from cfusion.kernels.cpu import certificate as cpu_certificate
from cfusion.solvers import ACS, AMA, PDHG, Biconvex, Pointwise, WarmStart, prepare
from cfusion.solvers.pdhg import REPAIR_ROUNDS, fixed_confidence, to_solution
from cfusion.solvers.steps import choose_steps

REFERENCE = kernels.load("numpy")
DELTA = 0.2
PHI = {"l1": L1(), "l2": L2(), "huber": Huber(DELTA)}


def small_stack(seed=0, shape=(12, 10), views=3, *, weighted=True):
    """A slope with a step, Laplace noise, a hole in all views and more in each."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[0], : shape[1]]
    depths = 5 + 0.1 * x - 0.05 * y + (x > shape[1] // 2) + rng.laplace(0, 0.3, (views, *shape))
    depths[:, 3:5, 3:6] = np.nan
    depths[rng.random(depths.shape) < 0.2] = np.nan
    weights = np.where(np.isnan(depths), 0, rng.uniform(0.5, 2, depths.shape))
    return Stack(depths.astype(np.float32), weights.astype(np.float32) if weighted else None)


def independent_minimum(stack, alpha, phi, lam):
    """The same energy in the words of another library, from its definition pixel by pixel."""
    cp = pytest.importorskip("cvxpy")
    (height, width), inside = stack.shape, stack.count > 0
    x, v1, v2 = (cp.Variable((height, width)) for _ in range(3))
    order = len(alpha)

    def known(i, j):
        return 0 <= i < height and 0 <= j < width and inside[i, j]

    def right(i, j):  # whether v1 exists
        return known(i, j) and known(i, j + 1)

    def below(i, j):  # whether v2 exists
        return known(i, j) and known(i + 1, j)

    terms = []
    for i, j in np.ndindex(height, width):
        first, second = [], []
        if right(i, j):
            first.append(x[i, j + 1] - x[i, j] - (v1[i, j] if order > 1 else 0))
        if below(i, j):
            first.append(x[i + 1, j] - x[i, j] - (v2[i, j] if order > 1 else 0))
        if right(i, j) and right(i, j - 1):
            second.append(v1[i, j] - v1[i, j - 1])
        if right(i, j) and right(i - 1, j) and below(i, j) and below(i, j - 1):
            second.append((v2[i, j] - v2[i, j - 1] + v1[i, j] - v1[i - 1, j]) / np.sqrt(2))
        if below(i, j) and below(i - 1, j):
            second.append(v2[i, j] - v2[i - 1, j])
        for weight, parts in zip(alpha, (first, second), strict=False):
            if parts:
                terms.append(weight * cp.norm(cp.hstack(parts)))
    for depth, weight in zip(np.nan_to_num(stack.depths.astype(float)), stack.weights, strict=True):
        off = x - depth
        penalty = {
            "l1": lambda t: cp.abs(t),
            "l2": lambda t: cp.square(t) / 2,
            "huber": lambda t: cp.huber(t, DELTA) / (2 * DELTA),
        }[phi](off)
        terms.append(lam * cp.sum(cp.multiply(weight, penalty)))
    problem = cp.Problem(cp.Minimize(cp.sum(cp.hstack(terms))))
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value), np.where(inside, x.value, np.nan)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("phi", list(PHI))
def test_solution_agrees_with_an_independent_solver(order, phi):
    """Energy and depth to 1e-4, weights and holes included; and the certified bound is below that minimum too."""
    stack = small_stack()
    least, depth = independent_minimum(stack, (1.0, 2.0)[:order], phi, lam=0.8)
    task = prepare(Energy(PHI[phi], TGV(order), lam=0.8), stack, REFERENCE, dtype=np.float64)
    state, problem = task.initial_state(), task.problem(fixed_confidence(task))
    steps = choose_steps(problem.alpha, task.step_scale)
    REFERENCE.iterate(problem, state, steps, 3000)
    assert REFERENCE.energy(problem, state).total == pytest.approx(least, rel=1e-5)
    assert REFERENCE.bound(problem, state, task.box, 100) <= least * (1 + 1e-9)
    np.testing.assert_allclose(task.whole_depth(state.primal[0]), depth, rtol=1e-4)


def scene(name):
    """Eleven noisy views of a built-in scene at low resolution, splatted as the paper does."""
    rng, camera = np.random.default_rng(0), synthetic.PAPER_CAMERA.scaled(0.2)
    if name == "object":
        views, _ = synthetic.object_bundle(synthetic.blob(60), synthetic.Laplace(0.6), rng, camera=camera, image=False)
    else:
        views, _ = synthetic.city_bundle(None, synthetic.Laplace(6), rng, camera=camera, image=False)
    return views


@cache
def splatted(name):
    return METHODS["l1"].splat(scene(name), None, backend=kernels.load("cpu"))


@pytest.mark.parametrize("name", ["object", "city"])
@pytest.mark.parametrize("method", ["l1", "rof"])
def test_default_certificate_is_within_ten_times_the_true_excess(name, method):
    """Where PDHG stops by itself: excess <= certified gap <= 10 x excess, the minimum known from a long run.

    An easy problem is solved far below the tolerance before the first look; then the gap need not be as far below.
    """
    task = prepare(METHODS[method].energy, splatted(name), kernels.load("cpu"))
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    outcome = PDHG().minimise(task, problem, state)
    energy = outcome.energies.total
    task.backend.iterate(problem, state, choose_steps(problem.alpha, task.step_scale), 1200)
    least = task.backend.energy(problem, state).total
    left_over = least - max(task.backend.bound(problem, state, task.box, rounds) for rounds in (40, 160))
    excess = (energy - least) / energy
    tolerance, rounding = PDHG().tolerance, np.finfo(np.float32).eps
    assert left_over / energy < max(excess / 2, rounding)  # the long run knows the minimum well enough to judge
    assert outcome.status is Status.converged
    assert excess - rounding <= outcome.gap <= tolerance
    assert outcome.gap <= max(10 * excess, tolerance / 100)


@pytest.mark.parametrize("name", ["object", "city"])
def test_a_certificate_costs_few_repair_steps(name, monkeypatch):
    """One attempt or two, when the energy says that it will succeed."""
    backend, asked = kernels.load("cpu"), []
    run = cpu_certificate._Repair.run
    monkeypatch.setattr(cpu_certificate._Repair, "run", lambda self, rounds: asked.append(rounds) or run(self, rounds))
    task = prepare(METHODS["l1"].energy, splatted(name), backend)
    outcome = PDHG().minimise(task, task.problem(fixed_confidence(task)), task.initial_state())
    assert outcome.status is Status.converged
    assert sum(asked) <= min(2 * REPAIR_ROUNDS, 0.7 * outcome.iterations)


def test_a_warm_start_is_the_state_where_both_tasks_have_pixels_and_the_start_elsewhere():
    """Of a task on the same data shifted in depth and cropped: no dual where a link is missing, x relative to it."""
    depths = small_stack().depths
    energy = Energy(L1(), TGV(2))
    task = prepare(energy, Stack(depths), REFERENCE)
    state = task.initial_state()
    REFERENCE.iterate(task.problem(fixed_confidence(task)), state, choose_steps((1.0, 2.0), task.step_scale), 50)
    cropped = depths + np.float32(0.25)
    cropped[:, :2] = np.nan
    cropped[:, 5, 4] = np.nan
    other = prepare(energy, Stack(cropped), REFERENCE)
    fresh, continued = other.initial_state(), WarmStart.of(task, state).transfer(other)
    both = task.domain & other.domain

    def whole(of, part):
        out = np.zeros((len(part), *of.domain.shape), part.dtype)
        out[(slice(None), *of.window)] = part
        return out

    depth_then, depth_now = (whole(of, each.primal)[0] + of.centre for of, each in ((task, state), (other, continued)))
    np.testing.assert_allclose(depth_now[both], depth_then[both], rtol=1e-6)
    linked = (whole(other, other.links[None])[0] >> np.arange(5)[:, None, None] & 1) > 0
    dual = whole(other, continued.dual)
    assert np.array_equal(dual[linked & both], whole(task, state.dual)[linked & both])
    assert not dual[~linked].any()
    only_here = (other.domain & ~task.domain)[other.window]
    assert np.array_equal(continued.primal[:, only_here], fresh.primal[:, only_here])
    for unlike in (Energy(L1(), TGV(2), inverse=True), Energy(L1(), TGV(1))):  # no number of one means one of the other
        strange = prepare(unlike, Stack(cropped), REFERENCE)
        begun, fresh = WarmStart.of(task, state).transfer(strange), strange.initial_state()
        assert np.array_equal(begun.primal, fresh.primal)
        assert np.array_equal(begun.dual, fresh.dual)


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_branch_goes_its_own_way(backend):
    backend = kernels.load(backend)
    task = prepare(Energy(L1(), TGV(2, (1.0, 2.0))), small_stack(), backend)
    problem, steps = task.problem(fixed_confidence(task)), choose_steps((1.0, 2.0), task.step_scale)
    state = task.initial_state()
    backend.iterate(problem, state, steps, 5)
    before = state.primal.copy(), state.dual.copy()
    branch = state.branch()
    backend.iterate(problem, branch, steps, 7)
    assert np.array_equal(state.primal, before[0])
    assert np.array_equal(state.dual, before[1])
    assert not np.array_equal(branch.primal, state.primal)
    backend.iterate(problem, state, steps, 7)
    assert np.array_equal(branch.primal, state.primal)
    assert np.array_equal(branch.dual, state.dual)


def test_acs_does_not_chase_a_rise_that_is_smaller_than_its_tolerance():
    """The step is given up, and the depth that is kept has the certificate: its own energy above the step's bound."""
    task = prepare(METHODS["adapt-hprior"].energy, splatted("object"), kernels.load("cpu"))
    solution = ACS()(task)
    energies = [outer.energy for outer in solution.history]
    assert all(after <= before for before, after in pairwise(energies))
    assert solution.status is Status.partial_optimum
    assert solution.gap <= ACS().inner.tolerance
    finer = ACS(dataclasses.replace(PDHG(), tolerance=1e-4), tolerance=1e-6)(task)
    assert energies[-1] == pytest.approx(finer.history[-1].energy, rel=2e-3)


def test_tighter_tolerances_are_certified_and_lower_the_energy():
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE, dtype=np.float64)
    energies = []
    for tolerance in (1e-2, 1e-3, 1e-4):
        solution = PDHG(tolerance=tolerance)(task)
        assert solution.status is Status.converged
        assert 0 <= solution.gap <= tolerance
        energies.append(solution.energies["total"])
    assert energies[0] >= energies[1] >= energies[2]
    assert energies[0] <= energies[2] * (1 + 1e-2)


def test_running_out_of_iterations_is_said_and_certified_all_the_same():
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE, dtype=np.float64)
    solution = PDHG(tolerance=1e-9, iterations=30)(task)
    assert solution.status is Status.iteration_limit
    assert solution.iterations == 30
    least = PDHG(tolerance=1e-6, iterations=3000)(task).energies["total"]
    assert solution.energies["total"] * (1 - solution.gap) <= least


def test_an_energy_that_settled_long_before_its_proof_is_said_to_have(monkeypatch):
    """The proof gets better by little at each attempt: the iterations run out, and the energy is at its minimum."""
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE, dtype=np.float64)
    least = PDHG(tolerance=1e-6)(task).energies["total"]
    proved = (least * (1 - 0.5 * 0.8**attempt) for attempt in itertools.count())
    monkeypatch.setattr(REFERENCE, "bound", lambda *arguments: next(proved))
    solution = PDHG(tolerance=1e-3, iterations=1200)(task)
    assert solution.status is Status.settled
    assert solution.iterations == 1200
    assert 0.01 < solution.gap < 0.5  # and how far it is proved is told as it is
    assert solution.energies["total"] == pytest.approx(least, rel=1e-3)
    early = PDHG(tolerance=1e-3, iterations=48)(task)
    assert early.status is Status.iteration_limit
    assert early.energies["total"] > (1 + 1e-3) * least


def test_where_neither_the_energy_nor_its_proof_moves_the_solve_ends(monkeypatch):
    """Attempts that prove no more than the one before, at an energy that stands still: more would not help."""
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE, dtype=np.float64)
    least = PDHG(tolerance=1e-6)(task).energies["total"]
    attempts = []
    monkeypatch.setattr(REFERENCE, "bound", lambda *given: (attempts.append(given), 0.95 * least)[1])
    solution = PDHG(tolerance=1e-3, iterations=6000)(task)
    assert solution.status is Status.settled
    assert solution.iterations < 3000
    assert len(attempts) >= 2  # one proves nothing about the next
    assert solution.gap == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize("phi", ["l1", "l2"])
def test_pointwise_is_the_limit_of_a_vanishing_regulariser(phi):
    """Median and mean: what PDHG returns when alpha is next to nothing, and no energy is lower."""
    stack = small_stack()
    task = prepare(Energy(PHI[phi]), stack, REFERENCE)
    solution = Pointwise()(task)
    assert solution.status is Status.closed_form
    known = ~np.isnan(solution.depth)
    assert np.array_equal(known, stack.count > 0)
    depths, weights = np.nan_to_num(stack.depths.astype(float)), stack.weights.astype(float)

    def fidelity(x):
        return np.sum(weights * np.asarray(PHI[phi].value(x - depths)), axis=0)[known]

    x = np.nan_to_num(solution.depth.astype(float))
    for step in (-0.01, 0.01):
        assert (fidelity(x) <= fidelity(x + step) + 1e-6).all()
    regularised = PDHG(tolerance=1e-7)(prepare(Energy(PHI[phi], TGV(1, (1e-5,))), stack, REFERENCE, dtype=np.float64))
    assert solution.energies["total"] == pytest.approx(regularised.energies["fidelity"], rel=1e-5)


def test_energies_are_the_terms_of_the_sum():
    for solver, energy in (
        (PDHG(), Energy(L1(), TGV(3))),
        (ACS(), Energy(L1(), TGV(2), Prior())),
        (AMA(outer=3), Energy(L1(), TGV(2), Prior())),
    ):
        named = solver(prepare(energy, small_stack(), REFERENCE)).energies
        orders = [value for name, value in named.items() if name.startswith("order_")]
        assert named["regulariser"] == pytest.approx(sum(orders))
        whole = named["regulariser"] + named["fidelity"] + named.get("prior", 0.0)
        assert named["total"] == pytest.approx(whole)
        assert all(np.isfinite(value) for value in named.values())


def test_energy_of_the_solution_is_that_of_its_depth():
    """TV of the returned map and its data term, computed by hand."""
    stack = small_stack(weighted=True)
    solution = PDHG()(prepare(Energy(L2(), TGV(1), lam=0.7), stack, REFERENCE))
    x = solution.depth.astype(float)
    right, below = np.full((2, *x.shape), np.nan)
    right[:, :-1], below[:-1] = np.diff(x, axis=1), np.diff(x, axis=0)
    variation = np.hypot(np.nan_to_num(right), np.nan_to_num(below)).sum()
    off = np.nan_to_num(x) - np.nan_to_num(stack.depths.astype(float))
    assert solution.energies["regulariser"] == pytest.approx(variation, rel=1e-4)
    assert solution.energies["fidelity"] == pytest.approx(0.7 * np.sum(stack.weights * off**2 / 2), rel=1e-4)


def test_weights_of_zero_are_no_observations():
    stack = small_stack()
    ignored = np.concatenate([stack.depths, stack.depths[:1] + 100])
    padded = Stack(ignored, np.concatenate([stack.weights, np.zeros_like(stack.weights[:1])]))
    one, other = (PDHG()(prepare(Energy(L1(), TGV(2)), each, REFERENCE)) for each in (stack, padded))
    np.testing.assert_allclose(other.depth, one.depth, atol=1e-5)
    assert other.energies["total"] == pytest.approx(one.energies["total"], rel=1e-6)


def test_progress_runs_to_its_end():
    seen = []
    ACS(outer=3)(prepare(Energy(L1(), TGV(2), Prior()), small_stack(), REFERENCE), seen.append)
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    assert 0 < done[0] <= done[-1] <= 1
    assert all(progress.energy > 0 for progress in seen)


def test_what_a_solver_cannot_do_is_said_in_one_line():
    stack = small_stack()
    with pytest.raises(InputError, match="without a regulariser"):
        Pointwise()(prepare(Energy(L1(), TGV(1)), stack, REFERENCE))
    with pytest.raises(InputError, match="no closed form"):
        Pointwise()(prepare(Energy(Huber()), stack, REFERENCE))
    for solver in (ACS(), AMA(), Biconvex()):
        with pytest.raises(InputError, match="has no prior"):
            solver(prepare(Energy(L1(), TGV(2)), stack, REFERENCE))
    nothing = stack.depths.copy()
    nothing[1] = np.nan
    with pytest.raises(InputError, match="holds no depth"):
        fuse_stack(Stack(nothing[[0, 1, 2]]), "input", backend="numpy")
    with pytest.raises(InputError, match="no observation has a positive weight"):
        Pointwise()(prepare(Energy(L1()), Stack(stack.depths, np.zeros_like(stack.weights)), REFERENCE))
    below_sea = Stack(stack.depths - 20)
    with pytest.raises(InputError, match="inverse depth needs positive depths"):
        PDHG()(prepare(Energy(L1(), TGV(2), inverse=True), below_sea, REFERENCE))


def test_inverse_depth_solves_the_same_problem_of_inverses():
    """x = 1 / depth: a stack of inverses, inverted."""
    stack = small_stack()
    energy = Energy(L1(), TGV(2))
    direct = PDHG(tolerance=1e-5)(prepare(dataclasses.replace(energy, inverse=True), stack, REFERENCE))
    inverses = PDHG(tolerance=1e-5)(prepare(energy, Stack(1 / stack.depths, stack.weights), REFERENCE))
    np.testing.assert_allclose(direct.depth, 1 / inverses.depth, rtol=1e-5)


def test_the_more_a_biconvex_solve_iterates_the_smaller_is_its_gap():
    task = prepare(Energy(L1(), TGV(2), Prior()), small_stack(), REFERENCE)
    gaps = [Biconvex(tolerance=0.0, iterations=count)(task).gap for count in (25, 250, 1000)]
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2] > 0


def test_a_gap_is_told_relative_to_the_energy_itself():
    """Solvers compare it with the floor below which energies are rounding; of no energy at all any gap is infinite."""
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE)
    for total, floor, told in ((2.0, 1.0, 0.5), (2.0, 8.0, 2.0), (0.0, 1.0, float("inf"))):
        energies = Energies((total / 2, 0.0), total / 2, 0.0)
        given = task, task.initial_state(), fixed_confidence(task), Status.converged, (), 0.5, energies, None
        assert to_solution(*given, floor=floor).gap == told


def test_steady_steps_stay_as_they_are():
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE)
    far = dataclasses.replace(task, step_scale=1e3 * task.step_scale)  # where others are corrected
    for fixed_steps in (False, True):
        solver = PDHG(iterations=96, certify=False, fixed_steps=fixed_steps)
        outcome = solver.minimise(far, far.problem(fixed_confidence(far)), far.initial_state())
        assert (outcome.step_scale == far.step_scale) is fixed_steps


@pytest.mark.parametrize("solver", [PDHG(iterations=48, certify=False, fixed_steps=True), PDHG(iterations=48)])
def test_advancing_is_minimising_without_being_told_how_it_ended(solver):
    task = prepare(Energy(L1(), TGV(2)), small_stack(), REFERENCE)
    problem, ends = task.problem(fixed_confidence(task)), []
    for advance in (solver.advance, solver.minimise):
        state = task.initial_state()
        advance(task, problem, state)
        ends.append(state)
    assert np.array_equal(ends[0].primal, ends[1].primal)
    assert np.array_equal(ends[0].dual, ends[1].dual)


def test_confidence_is_lambda_in_the_domain_and_nothing_outside():
    task = prepare(Energy(L1(), TGV(1), lam=0.8), small_stack(), REFERENCE)
    inside = task.inside()
    assert not inside.all()
    np.testing.assert_allclose(fixed_confidence(task), np.where(inside, 0.8, 0), rtol=1e-6)


@pytest.mark.parametrize("inverse", [False, True])
def test_the_middle_observation_of_a_task_is_zero(inverse: bool) -> None:
    """In either variable: float32 then spends its digits on differences, not on the distance of the camera."""
    depths = (1000 + np.random.default_rng(0).normal(0, 1, (3, 9, 8))).astype(np.float32)
    task = prepare(Energy(L1(), TGV(2), inverse=inverse), Stack(depths), REFERENCE)
    values = task.observations.values
    assert abs(np.median(values)) < 0.1 * np.ptp(values)
    np.testing.assert_allclose(np.median(task.centre + values), np.median(1 / depths if inverse else depths), rtol=1e-6)
