"""The same bits for one thread and for two, and for two runs."""

import numba
import numpy as np
import pytest

from cfusion import Stack, fuse, fuse_stack, kernels, synthetic
from cfusion.energy import L1, TGV, Energy
from cfusion.solvers import prepare
from cfusion.solvers.pdhg import fixed_confidence
from cfusion.solvers.steps import choose_steps

THREADS = numba.config.NUMBA_NUM_THREADS
CPU = kernels.load("cpu")


@pytest.fixture(autouse=True)
def threads_as_they_were():
    before = numba.get_num_threads()
    yield
    numba.set_num_threads(before)


def stack():
    """Tall enough for several tiles, with holes."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:260, :70]
    depths = (5 + 0.01 * x - 0.004 * y + (x > 30) + rng.laplace(0, 0.2, (5, 260, 70))).astype(np.float32)
    depths[rng.random(depths.shape) < 0.1] = np.nan
    depths[:, 50:60, 20:30] = np.nan
    return Stack(depths)


def views():
    rng = np.random.default_rng(0)
    camera = synthetic.PAPER_CAMERA.scaled(0.12)
    noise = synthetic.Laplace(3.0)
    return synthetic.city_bundle(None, noise, rng, views=5, camera=camera, image=False)[0]


def bits(result):
    """Everything that was computed; not how long it took."""
    arrays = (result.depth, result.confidence, result.sigma, result.provenance)
    numbers = (repr(result.energies), repr(result.gap), repr(result.history), result.iterations, result.status)
    return tuple(array.tobytes() for array in arrays), numbers


def counted(count, compute):
    numba.set_num_threads(count)
    return compute()


@pytest.mark.skipif(THREADS < 2, reason="there is one core, so one thread")
@pytest.mark.parametrize("method", ["median", "rof", "l1", "tgv-fusion", "l1-adapt", "auto"])
def test_one_thread_and_two_give_the_same_bits(method):
    given = stack()
    one, two = (bits(counted(n, lambda: fuse_stack(given, method, backend="cpu"))) for n in (1, 2))
    assert one == two


@pytest.mark.skipif(THREADS < 2, reason="there is one core, so one thread")
@pytest.mark.parametrize("method", ["l1", "auto"])
def test_association_gives_the_same_bits_for_any_number_of_threads(method):
    given = views()
    one, two = (bits(counted(n, lambda: fuse(given, method, backend="cpu"))) for n in (1, 2))
    assert one == two


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
@pytest.mark.parametrize("method", ["l1", "auto"])
def test_two_runs_give_the_same_bits(method, backend):
    given = Stack(stack().depths[:, :40])
    assert bits(fuse_stack(given, method, backend=backend)) == bits(fuse_stack(given, method, backend=backend))


@pytest.mark.skipif(THREADS < 2, reason="there is one core, so one thread")
def test_every_kernel_sums_alike():
    """Energy, bound and misfit at one state: sums are taken per row, in a fixed order."""
    task = prepare(Energy(L1(), TGV(2)), stack(), CPU)
    problem, state = task.problem(fixed_confidence(task)), task.initial_state()
    CPU.iterate(problem, state, choose_steps(problem.alpha, task.step_scale), 20)

    def sums():
        misfit = CPU.misfit(problem, state.primal[0]).tobytes()
        return CPU.energy(problem, state), CPU.bound(problem, state, task.box, 40), misfit

    assert counted(1, sums) == counted(2, sums)


def test_what_was_given_is_not_changed():
    given = stack()
    before = given.depths.copy()
    fuse_stack(given, "l1")
    fuse_stack(given, "auto")
    assert np.array_equal(given.depths, before, equal_nan=True)
