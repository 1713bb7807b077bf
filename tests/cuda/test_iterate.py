"""Iterations on the device against the definition: every kind of problem, every way of cutting the image."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from cfusion import kernels
from cfusion.kernels.contract import Fidelity
from cfusion.solvers import PDHG
from cfusion.solvers.steps import StepBalancer

pytestmark = pytest.mark.cuda
SHAPES = [(1, 1), (1, 9), (9, 1), (7, 5), (23, 31), (50, 131)]
# Of the largest value. The definition itself, in float32 and in float64, differs by 4e-6 and 5e-5 after 200 iterations.
PRIMAL_ROUNDING, DUAL_ROUNDING = 2e-5, 2e-4


def close(given, expected):
    for ours, defined, rounding in (
        (given.primal, expected.primal, PRIMAL_ROUNDING),
        (given.dual, expected.dual, DUAL_ROUNDING),
    ):
        scale = max(float(np.abs(defined).max()), 1e-3)
        np.testing.assert_allclose(ours.get(), defined, rtol=0, atol=rounding * scale)


def agree(cuda, case, count=200):
    problem, state = case.on_device()
    cuda.iterate(problem, state, case.steps, count)
    defined_problem, defined = case.on_host()
    kernels.load("numpy").iterate(defined_problem, defined, case.steps, count)
    close(state, defined)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_order_on_every_shape(cuda, make_case, order, shape):
    agree(cuda, make_case(shape, order=order))


@pytest.mark.parametrize("fidelity", list(Fidelity), ids=lambda fidelity: fidelity.name)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_every_fidelity(cuda, make_case, fidelity, order, weighted):
    agree(cuda, make_case((23, 71), order=order, fidelity=fidelity, weighted=weighted))


@pytest.mark.parametrize("kind", ["edge", "tensor", "anchored"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_edge_tensor_and_anchor(cuda, make_case, kind, order, weighted):
    agree(cuda, make_case((23, 71), order=order, weighted=weighted, **{kind: True}))


def test_edge_and_anchor_together(cuda, make_case):
    agree(cuda, make_case((23, 71), edge=True, anchored=True, weighted=True))


@pytest.mark.parametrize("views", [1, 2, 11, 64])
def test_any_number_of_views(cuda, make_case, views):
    agree(cuda, make_case((20, 70), views=views))
    agree(cuda, make_case((20, 70), views=views, weighted=True))


def test_pixels_without_any_observation_and_without_confidence(cuda, make_case):
    case = make_case((30, 66), missing=0.9, holes=0.3)
    case.problem.confidence[:, ::3] = 0
    agree(cuda, case)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 24])
def test_any_number_of_iterations(cuda, make_case, count):
    agree(cuda, make_case((50, 131)), count)


@pytest.mark.parametrize("width", [130, 131])
def test_the_three_ways_agree_and_cutting_does_not_change_a_bit(cuda, make_case, width):
    """On the chip, tile by tile and in two passes: the same iteration, the first two with the same bits."""
    from cfusion.kernels.cuda import iteration

    case, count = make_case((95, width)), 41
    ends = []
    for tiling in (
        iteration._on_chip(95, width, 132),
        iteration._on_chip(95, width, 12),
        iteration._on_chip(95, width, 12, iteration.TALL),
        iteration._per_pass(95, width),
    ):
        problem, state = case.on_device()
        step = count if tiling.exchange else tiling.levels
        for done in range(0, count, step):
            iteration._sweep(problem, state, state.spare(), case.steps, min(step, count - done), tiling)
            state.swap()
        ends.append(state)
    for other in ends[1:]:
        assert np.array_equal(ends[0].primal.get(), other.primal.get())
        assert np.array_equal(ends[0].dual.get(), other.dual.get())
    problem, state = case.on_device()
    iteration._plain(problem, state, case.steps, count)
    close(ends[0], type(state)(state.primal.get(), state.dual.get()))


def test_two_runs_have_the_same_bits(cuda, make_case):
    case = make_case((95, 131))
    ends = []
    for _ in range(2):
        problem, state = case.on_device()
        cuda.iterate(problem, state, case.steps, 60)
        ends.append((state.primal.get(), state.dual.get()))
    assert all(np.array_equal(one, other) for one, other in zip(*ends, strict=True))


def test_in_parts_is_as_in_one_go(cuda, make_case):
    case = make_case((95, 131))
    problem, whole = case.on_device()
    cuda.iterate(problem, whole, case.steps, 24)
    problem, parts = case.on_device()
    for count in (5, 1, 18):
        cuda.iterate(problem, parts, case.steps, count)
    np.testing.assert_allclose(parts.primal.get(), whole.primal.get(), rtol=0, atol=1e-6)


def test_large_numbers_of_tiles_and_full_size(cuda, make_case):
    agree(cuda, make_case((480, 640), views=11), 24)


def test_a_double_precision_problem_takes_the_plain_way(cuda, make_case):
    case = make_case((23, 31), dtype=np.float64)
    problem, state = case.on_device()
    cuda.iterate(problem, state, case.steps, 50)
    defined_problem, defined = case.on_host()
    kernels.load("numpy").iterate(defined_problem, defined, case.steps, 50)
    np.testing.assert_allclose(state.primal.get(), defined.primal, rtol=0, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("edge", [False, True], ids=["even", "edges"])
@pytest.mark.parametrize("scale", [0.2, 50.0], ids=["usual steps", "steps far too long"])
def test_a_rough_solve_by_itself_is_that_of_the_solver(cuda, make_case, monkeypatch, order, weighted, edge, scale):
    """The same number of iterations, steps, energies and state as by looks from the host; what it began with stays."""
    case = make_case((77, 131), order=order, weighted=weighted, edge=edge)
    solver = PDHG(tolerance=1e-5, iterations=240, certify=False)
    found = []
    for by_itself in (True, False):
        problem, state = case.on_device()
        if not by_itself:
            monkeypatch.setattr("cfusion.kernels.cuda.iteration._settled", lambda *_: None)
        branch = state.branch()
        balancer = StepBalancer(cuda, scale)
        rough = solver._rough(_Framed(cuda, case.box), problem, branch, balancer)
        if rough is None:
            assert not by_itself
            rough = solver.minimise(_Framed(cuda, case.box, scale), problem, branch)
        np.testing.assert_array_equal(state.primal.get(), case.state.primal)
        found.append((rough, branch))
    (ours, state), (expected, stepped) = found
    assert (ours.iterations, ours.status) == (expected.iterations, expected.status)
    assert ours.step_scale == pytest.approx(expected.step_scale, rel=1e-5)
    assert ours.floor == pytest.approx(expected.floor, rel=1e-12)
    assert ours.energies.total == pytest.approx(expected.energies.total, rel=1e-6)
    assert ours.energies.mass == pytest.approx(expected.energies.mass, rel=1e-12)
    for one, other, rounding in (
        (state.primal, stepped.primal, PRIMAL_ROUNDING),
        (state.dual, stepped.dual, DUAL_ROUNDING),
    ):
        np.testing.assert_allclose(one.get(), other.get(), rtol=0, atol=rounding * max(float(abs(other).max()), 1e-3))


@pytest.mark.parametrize("fixed_steps", [True, False])
def test_a_rough_solve_that_nobody_asks_about_is_the_same(cuda, make_case, fixed_steps):
    """One after the other without a wait between them, and sums that are asked for right after."""
    case, ends = make_case((77, 131), weighted=True), []
    solver = PDHG(tolerance=1e-4, iterations=240, certify=False, fixed_steps=fixed_steps)
    for advance in (solver.advance, solver.minimise):
        problem, state = case.on_device()
        for _ in range(3):
            state = state.branch()
            advance(_Framed(cuda, case.box, 0.2), problem, state)
        middles, _ = cuda.medians(state.primal)
        ends.append((middles, cuda.energy(problem, state).total, state.primal.get(), state.dual.get()))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_array_equal(one, other)


@dataclass(frozen=True)
class _Framed:
    """As much of a task as a rough solve asks for."""

    backend: Any
    box: Any
    step_scale: float = 1.0
    dtype: Any = np.float32
