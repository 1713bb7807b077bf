"""Steps of the solver, and how they correct themselves."""

from types import SimpleNamespace

import numpy as np
import pytest

from cfusion.kernels.contract import Fidelity
from cfusion.solvers.steps import StepBalancer, _length, _plane_scales, choose_steps, norm_bound


def test_steps_by_noise_and_weights() -> None:
    steps = choose_steps((2.0, 4.0), 0.5)
    s, norm = 0.4 * 0.5 / 2.0, norm_bound(2)
    assert steps.tau == pytest.approx((s / norm, s / norm / 4))
    assert steps.sigma == pytest.approx((1 / (s * norm), 4 / (s * norm)))
    assert steps.relaxation == 1.7
    assert norm_bound(1) == pytest.approx(8**0.5)


def test_planes_are_measured_in_their_own_scale() -> None:
    assert _plane_scales(2) == ([1.0, 4.0, 4.0], [1.0, 1.0, 0.25, 0.25, 0.25])
    assert _length([9.0, 4.0], [1.0, 4.0]) == 5.0


class TestBalance:
    """s = 0.4 step_scale / alpha_1 = 1: the primal's way over the dual's is the way itself."""

    @staticmethod
    def after(primal: float, dual: float, fidelity: Fidelity = Fidelity.L1) -> tuple[float, int]:
        balancer = StepBalancer(None, 2.5 if fidelity is not Fidelity.L2 else 6.25)  # type: ignore[arg-type]
        before = balancer.step_scale
        problem = SimpleNamespace(order=1, alpha=(1.0,), fidelity=fidelity)
        balancer._balance(problem, [primal**2], [dual**2, 0.0])  # type: ignore[arg-type]
        return balancer.step_scale / before, balancer.checks

    @pytest.mark.parametrize(
        ("way", "factor"), [(0.51, 1.0), (4.9, 1.0), (0.4, 0.2), (6.0, 3.0), (1e-9, 1 / 64), (1e9, 64.0)]
    )
    def test_ways_that_are_too_short_or_long_are_corrected(self, way: float, factor: float) -> None:
        assert self.after(way, 1.0) == (pytest.approx(factor), 1)

    def test_squared_errors_may_go_further(self) -> None:
        assert self.after(11.9, 1.0, Fidelity.L2)[0] == 1.0
        assert self.after(12.1, 1.0, Fidelity.L2)[0] == pytest.approx(6.05)

    def test_where_nothing_moves_nothing_is_learnt(self) -> None:
        assert self.after(0.0, 0.0) == (1.0, 0)
        assert self.after(1.0, 0.0) == (64.0, 1)

    @pytest.mark.parametrize("s", [0.25, 1.0, 8.0])
    def test_ways_are_measured_in_steps(self, s: float) -> None:
        """In any unit of length: where steps, depths and s are s times as long, the way is the same."""
        balancer = StepBalancer(None, 2.5 * s)  # type: ignore[arg-type]
        problem = SimpleNamespace(order=1, alpha=(1.0,), fidelity=Fidelity.L1)
        balancer._balance(problem, [(6.0 * s) ** 2], [1.0, 0.0])  # type: ignore[arg-type]
        assert balancer.step_scale == pytest.approx(3.0 * 2.5 * s)


@pytest.mark.parametrize(
    ("count", "blocks"), [(1, [1]), (23, [23]), (24, [24]), (25, [24, 1]), (60, [24, 24, 12]), (96, [24] * 4)]
)
def test_as_many_iterations_as_asked_in_blocks_of_twenty_four(count: int, blocks: list[int]) -> None:
    """The last measure is that of the caller; only whole blocks are looked at."""
    done: list[int] = []
    state = SimpleNamespace(primal=np.zeros((1, 4, 5)))
    backend = SimpleNamespace(
        iterate=lambda problem, state, steps, block: done.append(block),
        snapshot_rows=lambda state, every: "start",
        measure=lambda problem, state, kept, every: (None, ([1.0], [1.0, 0.0])),
    )
    problem = SimpleNamespace(order=1, alpha=(1.0,), fidelity=Fidelity.L1)
    balancer = StepBalancer(backend, 2.5)  # type: ignore[arg-type]
    asked: list[object] = []
    measured = lambda kept, every: (asked.append(kept) or "found", ([1.0], [1.0, 0.0]))  # noqa: E731
    assert balancer.run_and(problem, state, count, measured) == "found"  # type: ignore[arg-type]
    assert done == blocks
    assert asked == ["start" if blocks[-1] == 24 else None]
    assert balancer.checks == blocks.count(24)
