"""What runs where arrays lie on a device, here with all views at once on the host: as view by view."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cfusion import Pinhole, Pose, Stack, View, kernels
from cfusion.errors import InputError
from cfusion.fuse import CONCURRENT_BUNDLES, fuse_each
from cfusion.kernels import contract
from cfusion.methods import METHODS
from cfusion.solvers import steps
from cfusion.solvers.outcome import Status
from cfusion.solvers.pdhg import PDHG, fixed_confidence
from cfusion.solvers.task import prepare
from cfusion.source import Posed
from cfusion.source.splat import Splat
from cfusion.source.upload import upload

NUMPY = kernels.load("numpy")


def all_at_once(function: Any, leading: Sequence[int]) -> Any:
    """A function of one view as a backend with a memory of its own has it: these arguments have an axis of views."""

    def run(*given: Any) -> Any:
        count = len(given[leading[0]])
        made = []
        for k in range(count):
            one = [each[k] if at in leading and len(each) == count else each for at, each in enumerate(given)]
            made.append(function(*one))
        if not isinstance(made[0], tuple):
            return np.stack(made)
        return tuple(None if parts[0] is None else np.stack(parts) for parts in zip(*made, strict=True))

    return run


class Device:
    """The NumPy backend as if it had a memory of its own."""

    NAME, arrays = "numpy", object()
    to_device, to_host = staticmethod(NUMPY.to_device), staticmethod(NUMPY.to_host)
    reproject = staticmethod(all_at_once(NUMPY.reproject, (0, 1, 3)))
    read_view = staticmethod(all_at_once(NUMPY.read_view, (4, 2, 3, 5, 6)))
    close_mask = staticmethod(all_at_once(NUMPY.close_mask, (0,)))
    fill_natural = staticmethod(all_at_once(NUMPY.fill_natural, (0, 1)))

    @staticmethod
    def splat_nearest(u: Any, v: Any, z: Any, values: Any, shape: tuple[int, int]) -> Any:
        places = (0, 1, 2) if values is None else (0, 1, 2, 3)
        return all_at_once(NUMPY.splat_nearest, places)(u, v, z, values, shape)


DEVICE: Any = Device()


def views(*, trusted: bool) -> list[View]:
    """Five views of a wavy wall in two shapes, shifted sideways and turned a little."""
    made = []
    for k in range(5):
        height, width = ((18, 24), (15, 20))[k % 2]
        camera = Pinhole(22.0 + k, 21.0 + k, width / 2 - 0.3, height / 2 - 0.6, width, height)
        y, x = np.mgrid[:height, :width]
        turn = 0.02 * (k - 2)
        rotation = np.array([[np.cos(turn), 0, np.sin(turn)], [0, 1, 0], [-np.sin(turn), 0, np.cos(turn)]])
        depth = (3 + 0.1 * np.sin(x / 3 + k) + 0.02 * y).astype(np.float32)
        depth[3:5, 6:8] = np.nan
        trust = (0.25 + (x + y) % 4 / 4).astype(np.float32) * (x > 2) if trusted and k != 1 else None
        made.append(View(depth, camera, Pose(rotation, np.array([0.05 * (k - 2), 0.01 * k, 0.0])), confidence=trust))
    return made


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("fill", [False, True])
def test_uploaded_views_are_splatted_as_views_are(trusted: bool, fill: bool) -> None:
    given = views(trusted=trusted)
    splat = Splat(fill=fill, radius=2)
    expected = splat(given, 2, backend=NUMPY)
    found = splat(given, 2, backend=DEVICE, uploads=upload(given, NUMPY))
    np.testing.assert_allclose(found.depths, expected.depths, rtol=1e-6)
    assert (found.weights is None) == (expected.weights is None) == (not trusted)
    if trusted:
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6)
    assert (found.filled is None) == (expected.filled is None) == (not fill)
    if fill:
        np.testing.assert_array_equal(found.filled, expected.filled)
    assert found.camera is given[2].camera


@pytest.mark.parametrize("trusted", [False, True])
def test_uploaded_views_are_read_at_a_surface_as_views_are(trusted: bool) -> None:
    given = views(trusted=trusted)
    surface = given[2].depth
    agreements = [0.0, 0.02, 0.5, 0.1, 0.05]
    here, there = Posed(given, 2), Posed(given, 2, upload(given, NUMPY))
    expected, found = here.at(surface, agreements, NUMPY), there.at(surface, agreements, DEVICE)
    for name in ("depths", "weights", "seen"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, err_msg=name)
    for one, other in zip(here.places(), there.places(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_a_source_lies_where_its_backend_works() -> None:
    given = views(trusted=False)
    assert Posed.of(given, None, NUMPY).uploads is None
    assert [list(each.indices) for each in Posed.of(given, None, DEVICE).uploads or ()] == [[0, 2, 4], [1, 3]]


def test_a_stack_moves_with_all_its_maps_and_lies_where_its_backend_works() -> None:
    stack = Stack(np.ones((2, 3, 4)), np.full((2, 3, 4), 0.5), filled=np.zeros((2, 3, 4), bool))
    moved = stack.moved(lambda array: array + array)
    assert (moved.depths == 2).all()
    assert (moved.weights == 1).all()
    assert not moved.filled.any()
    assert (stack.depths == 1).all()
    assert stack.in_memory_of(NUMPY) is stack
    crossed: list[Any] = []
    device: Any = SimpleNamespace(arrays=object(), to_device=lambda array, dtype: crossed.append(dtype) or array)
    assert stack.in_memory_of(device) is not stack
    assert crossed == [np.float32, np.float32, np.bool_]
    assert Stack(np.ones((1, 2, 2))).moved(np.negative).weights is None


class TestSeveralAtATime:
    """`fuse_each` on a device: a few bundles under way, results in order, errors in their place."""

    BACKEND: Any = SimpleNamespace(arrays=object(), NAME="numpy", stream=nullcontext)

    @staticmethod
    def bundle(z: float) -> list[View]:
        if z < 0:
            raise InputError("no depth")
        return [View(np.full((6, 8), z), Pinhole(9, 9, 3.5, 2.5, 8, 6), Pose.identity())] * 2

    def test_in_order_and_errors_in_their_place(self) -> None:
        given = [1.0, -1.0, 3.0, 4.0, -2.0]
        made = list(fuse_each(given, self.bundle, METHODS["median"], self.BACKEND))
        assert [task for task, _ in made] == given
        for task, outcome in made:
            if task < 0:
                assert isinstance(outcome, InputError)
            else:
                assert outcome.depth[3, 4] == task  # type: ignore[union-attr]

    def test_tasks_are_taken_when_their_turn_comes(self) -> None:
        taken: list[int] = []

        def tasks() -> Iterator[float]:
            for number in range(20):
                taken.append(number)
                yield 1.0 + number

        made = fuse_each(tasks(), self.bundle, METHODS["median"], self.BACKEND)
        next(made)
        assert len(taken) == CONCURRENT_BUNDLES + 1
        assert len(list(made)) == 19

    def test_progress_says_which(self) -> None:
        heard: list[int] = []
        list(fuse_each([1.0, 2.0], self.bundle, METHODS["l1"], self.BACKEND, progress=lambda k, _: heard.append(k)))
        assert set(heard) == {0, 1}


@pytest.mark.parametrize("settled", [False, True])
def test_a_backend_that_looks_at_a_rough_solve_by_itself_is_believed(settled: bool) -> None:
    """What it found is the outcome; nothing is proved, and nothing solved again."""
    heard: list[Any] = []
    plans: list[contract.Settling] = []
    energies = contract.Energies((1.0, 2.0), 4.0, 0.0)

    class Looking:
        def __getattr__(self, name: str) -> Any:
            return getattr(NUMPY, name)

        def iterate(self, problem: Any, state: Any, steps: Any, count: int, plan: Any = None) -> contract.Settled:
            assert count == 50
            plans.append(plan)
            return contract.Settled(energies, 48, 0.25, 1e-9, settled)

    backend: Any = Looking()
    stack = Stack(np.random.default_rng(1).normal(3, 0.1, (3, 6, 7)).astype(np.float32))
    task = prepare(METHODS["l1"].energy, stack, backend)  # type: ignore[attr-defined]
    problem = task.problem(fixed_confidence(task))
    solver = PDHG(iterations=50, tolerance=0.01, certify=False)
    found = solver.minimise(task, problem, task.initial_state(), heard.append, "rough")
    assert found.status is (Status.settled if settled else Status.iteration_limit)
    assert (found.energies, found.iterations, found.step_scale, found.floor) == (energies, 48, 0.25, 1e-9)
    assert found.bound == -np.inf
    assert np.isnan(found.gap)
    (told,) = heard
    assert (told.stage, told.done, told.energy) == ("rough", 1.0, 7.0)
    (plan,) = plans
    assert (plan.tolerance, plan.block, plan.checks) == (0.01, steps.BLOCK, steps.MAX_CHECKS)
    assert (plan.step_scale, plan.correction) == (task.step_scale, steps.LARGEST_CORRECTION)
    assert plan.norm == steps.norm_bound(2)
    assert plan.asked
    assert plan.ways == (steps.SHORTEST, steps.USUAL, steps.LONGEST)


@pytest.mark.parametrize("name", ["numpy", "cpu"])
def test_of_two_states_with_the_same_arrays_one_moves_on_alone(name: str) -> None:
    backend = kernels.load(name)
    stack = Stack(np.random.default_rng(1).normal(3, 0.1, (3, 6, 7)).astype(np.float32))
    task = prepare(METHODS["l1"].energy, stack, backend)  # type: ignore[attr-defined]
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    moving = steps.choose_steps(problem.alpha, task.step_scale)
    backend.iterate(problem, state, moving, 3)
    kept = state.primal.copy(), state.dual.copy()
    other = state.branch()
    assert other.primal is state.primal
    backend.iterate(problem, other, moving, 3)
    np.testing.assert_array_equal(state.primal, kept[0])
    np.testing.assert_array_equal(state.dual, kept[1])
    assert (other.primal != kept[0]).any()
