"""Bands of an image in several threads: every row once, whoever takes it."""

import multiprocessing
import threading

import numba
import numpy as np
import pytest

from cfusion.kernels import threads

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
