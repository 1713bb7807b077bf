"""Bands of an image in several threads: every row once, whoever takes it."""

import multiprocessing
import threading

import numba
import numpy as np
import pytest

from cfusion.kernels import host, threads
from cfusion.kernels.contract import links_of
from cfusion.kernels.cpu import association, iteration, repairing, selecting
from cfusion.kernels.numpy import association as reference

TALL = (1 << 10, 1 << 10)
several = pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="there is one core, so one thread")


def count(start, stop, visits):
    visits[start:stop] += 1


def mean_of_visits():
    visits = np.zeros(TALL[0])
    threads.in_bands(TALL, (count, visits), (count, visits))
    return visits.mean()


@pytest.mark.parametrize("shape", [(1, 1), (3, 1 << 20), (1 << 20, 1), (1001, 997)], ids=str)
def test_every_row_is_in_one_band(shape):
    visits = np.zeros(shape[0])
    threads.in_bands(shape, (count, visits))
    assert (visits == 1).all()


def test_kernels_of_a_band_run_in_turn():
    order = []
    threads.in_bands(
        (4, 4), (lambda *band: order.append(("one", *band)),), (lambda *band: order.append(("two", *band)),)
    )
    assert order == [("one", 0, 4), ("two", 0, 4)]


def test_a_small_image_stays_in_the_calling_thread():
    seen = []
    threads.in_bands((48, 64), (lambda *_: seen.append(threading.current_thread()),))
    assert seen == [threading.current_thread()]


@several
def test_threads_work_at_the_same_time():
    together = threading.Barrier(2)
    threads.in_parallel([(together.wait, 10), (together.wait, 10)])


@several
def test_what_goes_wrong_in_a_thread_is_raised():
    together = threading.Barrier(2)

    def meet_and_fail():
        together.wait(10)
        raise MemoryError

    with pytest.raises(MemoryError):
        threads.in_parallel([(together.wait, 10), (meet_and_fail,)])
    assert mean_of_visits() == 2


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_threads_of_its_own():
    assert mean_of_visits() == 2
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(mean_of_visits).get(timeout=60) == 2


@pytest.mark.parametrize("many", [1, 2, 3])
@pytest.mark.parametrize("above", [-np.inf, 0.0])
def test_medians_of_large_maps_are_those_of_numpy(many, above, monkeypatch):
    monkeypatch.setattr(selecting, "threads", lambda: many)
    rng = np.random.default_rng(1)
    for rows in (1, 2, 5):
        values = rng.laplace(0, 1, (rows, 200, 201)).astype(np.float32)
        values[rng.random(values.shape) < 0.1] = np.nan
        values[0, :10] = [[np.inf], [-np.inf], [0.0], [-0.0], [1e-40]] * 2
        assert selecting.medians(values, above) == host.medians(values, above)
        assert selecting.medians(values, sides=True) == host.medians(values, sides=True)


@pytest.mark.parametrize("size", [200, 201])
def test_medians_of_doubles_tell_apart_what_float32_does_not(size):
    rng = np.random.default_rng(6)
    values = rng.integers(-2, 3, (2, 200, size)) + 1e-12 * rng.normal(size=(2, 200, size))
    values[:, 0, :7] = [np.inf, -np.inf, np.nan, np.nan, 5e-324, 1.0, -1.0]
    assert selecting.medians(values) == host.medians(values)
    values[0, 1, 0] = 1e300
    assert selecting.medians(values) == host.medians(values)
    values[0] = np.nan
    np.testing.assert_equal(selecting.medians(values), host.medians(values))


@pytest.mark.parametrize("gap", [1.0, 2.0, -3.0])
def test_the_two_in_the_middle_may_be_far_apart(gap):
    values = np.where(np.arange(1 << 16) % 2, np.float32(gap), np.float32(100)).reshape(1, 256, 256)
    assert selecting.medians(values) == host.medians(values)
    nothing = np.full_like(values, np.nan)
    assert selecting.medians(nothing)[1] == [0]


@pytest.mark.parametrize("radius", [0, 1, 7])
def test_ranges_on_bands_are_those_of_the_whole(radius, monkeypatch):
    monkeypatch.setattr(threads, "threads", lambda: 3)
    depth = np.random.default_rng(2).normal(5, 1, (400, 300)).astype(np.float32)
    depth[depth > 6] = np.nan
    whole = reference.local_depth_range(depth, radius)
    assert np.array_equal(association.local_depth_range(depth, radius), whole, equal_nan=True)


@pytest.mark.parametrize("many", [1, 2, 3, 8])
@pytest.mark.parametrize("shape", [(1, 5), (59, 40), (364, 290), (1000, 30)], ids=str)
def test_rows_of_tiles_hold_every_row_once(shape, many, monkeypatch):
    monkeypatch.setattr(iteration, "threads", lambda: many)
    domain = np.random.default_rng(3).random(shape) < np.linspace(0, 1, shape[0])[:, None]
    bands = iteration._bands(domain)
    assert [bands[0][0], bands[-1][1]] == [0, shape[0]]
    assert all(one[1] == other[0] for one, other in zip(bands, bands[1:], strict=False))
    assert len(bands) in (1, *(many * rounds for rounds in range(1, 9)), shape[0] // iteration.LEAST_ROWS)


def test_bands_of_tiles_have_the_same_work(monkeypatch):
    """The work of a row: from its first to its last pixel of the domain, and a quarter of the width."""
    monkeypatch.setattr(iteration, "threads", lambda: 4)
    width = 400
    left = np.minimum(np.arange(800) // 2, width - 1)  # rows begin further right, and get shorter
    domain = np.arange(width) >= left[:, None]
    bands = iteration._bands(domain)
    assert [bands[0][0], bands[-1][1]] == [0, 800]
    assert len(bands) % 4 == 0
    work = (width - left) + width // 4 + 1
    amounts = [work[top:bottom].sum() for top, bottom in bands]
    assert max(amounts) - min(amounts) <= 2 * work.max()


def test_a_repair_has_the_same_bits_for_any_steps_at_once_and_bands(monkeypatch):
    shape, rng = (70, 45), np.random.default_rng(8)
    links = links_of(rng.random(shape) < 0.95)
    top = rng.normal(size=(3, *shape)).astype(np.float32)
    hold, edge = rng.random((2, *shape), np.float32)

    def repaired(steps, bands):
        monkeypatch.setattr(repairing, "STEPS_AT_ONCE", steps)
        monkeypatch.setattr(threads, "threads", lambda: bands)
        monkeypatch.setattr(threads, "ENOUGH", 1)
        return repairing.repair([0.0, 0.3, 0.4, 0.5, 0.6], top, top[:, :0], links, hold, edge, (1.0, 2.0))

    for pair in zip(repaired(5, 1), repaired(2, 3), strict=True):
        assert np.array_equal(*pair)
