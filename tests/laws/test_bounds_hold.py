"""The certificate where it is easily wrong: Huber's root, a weak anchor, what the data's range does not hold."""

from dataclasses import replace

import numpy as np
import pytest

from cfusion import Stack, fuse_stack
from cfusion.energy import L1, TGV, Energy
from cfusion.kernels.contract import Box, Fidelity, State
from cfusion.solvers import prepare
from cfusion.solvers.steps import choose_steps


@pytest.mark.parametrize("width", [10.0, 1e6, 1e24])
def test_hubers_root_is_charged_for_what_the_search_leaves(on_host, make_case, width):
    """In a wide box bisection ends beside the root; the bound has to stay below the energy all the same."""
    case = make_case(3, (6, 8), order=1, fidelity=Fidelity.HUBER, holes=0.0, missing=0.0)
    problem, state = case.on(on_host)
    low, high = -0.3 * width, 0.7 * width
    for count in (0, 1, 20, 200):
        on_host.iterate(problem, state, choose_steps(problem.alpha, 0.2), count)
        assert on_host.bound(problem, state, Box(low, high), 0) <= on_host.energy(problem, state).total


@pytest.mark.parametrize("fidelity", list(Fidelity), ids=lambda f: f.name)
def test_a_vanishing_pull_bounds_as_none(on_host, make_case, fidelity):
    """A weak anchor holds x no better than the box does, however steep the dual."""
    case = make_case(4, (6, 8), order=1, fidelity=fidelity, anchored=True)
    wild = State(case.state.primal, case.state.dual + np.random.default_rng(0).normal(0, 3, case.state.dual.shape))
    weak = case.with_problem(prox_weight=1e-9).problem
    free = replace(weak, prox_centre=None, prox_weight=0.0)
    bounds = [on_host.bound(problem, wild, case.box, 0) for problem in (weak, free)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-5)
    assert bounds[0] > 100 * (case.box.low - case.box.high)


def test_what_is_filled_may_lie_beyond_what_was_seen(on_host):
    """A dome whose top nobody saw: order 3 continues it above all observations, within the range that is certified."""
    y, x = np.mgrid[:21, :21] - 10.0
    dome = 10 - 0.02 * (x**2 + y**2)
    stack = Stack(np.where(x**2 + y**2 < 16, np.nan, dome)[None])
    result = fuse_stack(stack, "l1", order=3, fill_radius=6, tolerance=1e-4, backend=on_host.NAME)
    assert np.nanmax(result.depth) > np.nanmax(stack.depths) + 0.2
    np.testing.assert_allclose(result.depth, dome, atol=0.05)
    task = prepare(Energy(L1(), TGV(3)), stack, on_host, fill_radius=6)
    assert task.box.low < np.nanmin(result.depth) - task.centre
    assert np.nanmax(result.depth) - task.centre < task.box.high
