"""What solvers tell while they run: every look, in order, with the energy there."""

from typing import Any

import numpy as np
import pytest

from cfusion import Stack, kernels
from cfusion.energy import L1, L2, TGV, Energy, Huber, Prior
from cfusion.solvers import PDHG, Progress
from cfusion.solvers.acs import ACS, nested
from cfusion.solvers.ama import AMA
from cfusion.solvers.biconvex import Biconvex
from cfusion.solvers.pdhg import CHECK, fixed_confidence, floor_parts
from cfusion.solvers.task import prepare

NUMPY = kernels.load("numpy")


def task(prior: Prior | None = None) -> Any:
    stack = Stack(np.random.default_rng(1).normal(3, 0.1, (3, 9, 8)).astype(np.float32))
    return prepare(Energy(L1(), TGV(2), prior), stack, NUMPY)


@pytest.mark.parametrize("certify", [False, True])
def test_every_look_is_told(certify: bool) -> None:
    heard: list[Progress] = []
    ready = task()
    problem, state = ready.problem(fixed_confidence(ready)), ready.initial_state()
    solver = PDHG(iterations=5 * CHECK, tolerance=1e-9, certify=certify)
    found = solver.minimise(ready, problem, state, heard.append, "depth")
    assert found.iterations == 5 * CHECK
    assert [each.done for each in heard] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert {each.stage for each in heard} == {"depth"}
    energies = [each.energy for each in heard]
    assert energies[-1] == found.energies.total == NUMPY.energy(problem, state).total
    assert energies[0] > energies[-2]
    assert np.isnan(heard[-1].gap) == (not certify)
    assert heard[-1].gap == found.gap or not certify
    assert all(each.gap == np.inf for each in heard[:1])


def test_a_solve_that_is_done_ends_at_one() -> None:
    heard: list[Progress] = []
    ready = task()
    found = PDHG(iterations=3000).minimise(
        ready, ready.problem(fixed_confidence(ready)), ready.initial_state(), heard.append
    )
    assert found.iterations < 3000
    assert heard[-1].done == 1.0
    assert heard[-1].gap == found.gap <= PDHG().tolerance
    assert [each.done for each in heard[:-1]] == pytest.approx(
        [CHECK * (k + 1) / 3000 for k in range(found.iterations // CHECK)]
    )


def test_depth_and_confidence_together() -> None:
    heard: list[Progress] = []
    found = Biconvex(iterations=60, block=25, tolerance=0.0)(task(Prior()), heard.append)
    assert [each.done for each in heard] == pytest.approx([25 / 60, 50 / 60, 1.0])
    assert [each.energy for each in heard] == [step.energy for step in found.history]
    assert [step.iterations for step in found.history] == [25, 25, 10]
    assert all(np.isnan(each.gap) for each in heard)


@pytest.mark.parametrize("solver", [ACS(outer=3), AMA(outer=3)])
def test_steps_within_steps_go_forward(solver: Any) -> None:
    heard: list[Progress] = []
    solver(task(Prior()), heard.append)
    shares = [each.done for each in heard]
    assert shares == sorted(shares)
    assert shares[0] > 0
    assert shares[-1] <= 1


def test_a_step_has_its_share_of_the_whole() -> None:
    heard: list[Progress] = []
    listener = nested(heard.append, 2, 4)
    assert listener is not None
    listener(Progress("depth", 0.5, 0.25, 7.0))
    assert (heard[0].done, heard[0].gap, heard[0].energy) == (0.625, 0.25, 7.0)
    assert "3" in heard[0].stage
    assert nested(None, 0, 1) is None


@pytest.mark.parametrize(("fidelity", "power"), [(L1(), 1), (L2(), 2), (Huber(0.1), 1)])
def test_what_counts_as_rounding_is_so_in_any_unit(fidelity: Any, power: int) -> None:
    """Of the data as of its fidelity; of the regulariser in proportion, to its weights as well."""
    depths = np.random.default_rng(1).normal(3, 0.1, (3, 9, 8)).astype(np.float32)

    def parts(unit: float, alpha: tuple[float, float] = (1.0, 2.0)) -> np.ndarray:
        ready = prepare(Energy(fidelity, TGV(2, alpha)), Stack(np.float32(unit) * depths), NUMPY)
        return np.array(floor_parts(ready, ready.problem(fixed_confidence(ready))))

    np.testing.assert_allclose(parts(8.0) / parts(1.0), [1, 8**power, 8], rtol=1e-4)
    np.testing.assert_allclose(parts(1.0, (3.0, 2.0)) / parts(1.0), [1, 1, 5 / 3], rtol=1e-4)
