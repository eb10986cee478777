"""Work in threads: in order, the same bits whatever their number, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from smallcal.io.threads import AHEAD, cores, in_order, one_core_each


def blas_threads():
    return {entry["num_threads"] for entry in threadpool_info() if entry["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_results_come_in_the_order_of_the_tasks_however_long_each_takes(threads):
    def work(task):
        time.sleep(0.02 * (task % 3))
        return -task

    assert list(in_order(work, range(9), threads=threads)) == [(i, -i) for i in range(9)]
    assert list(in_order(work, [], threads=threads)) == []


def test_bits_do_not_depend_on_the_number_of_threads():
    tables = [np.random.default_rng(seed).normal(size=(300, 200)) for seed in range(4)]

    def work(seed):
        return np.linalg.inv(tables[seed].T @ tables[seed])

    alone, together = ([found for _, found in in_order(work, range(4), threads=n)] for n in (1, 3))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_products_stay_on_one_core_until_it_is_over():
    @one_core_each()
    def alone():
        return blas_threads()

    with threadpool_limits(2):
        before = blas_threads()
        assert before != {1}
        found = [n for _, seen in in_order(lambda _: blas_threads(), range(3)) for n in seen]
        assert set(found) == {1}
        assert blas_threads() == before
        assert alone() == {1}
        assert blas_threads() == before


def test_only_a_few_tasks_are_taken_ahead():
    taken = []

    def tasks():
        for task in range(100):
            taken.append(task)
            yield task

    results = in_order(abs, tasks(), threads=2)
    next(results)
    assert len(taken) <= 2 * AHEAD
    results.close()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("error", [ValueError("no such thing"), KeyboardInterrupt()])
def test_an_error_comes_through_and_no_thread_is_left(threads, error):
    begun = []

    def work(task):
        begun.append(task)
        if task == 3:
            raise error
        return task

    before = threading.active_count()
    results = in_order(work, range(1000), threads=threads)
    assert [next(results) for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(type(error)):
        next(results)
    assert len(begun) < 20
    assert threading.active_count() == before


def test_whoever_stops_asking_leaves_no_thread():
    before = threading.active_count()
    results = in_order(abs, range(1000), threads=2)
    next(results)
    results.close()
    assert threading.active_count() == before


def test_numpy_keeps_the_error_state_of_the_one_who_asks():
    def work(_):
        return np.array([1.0]) / np.array([0.0])

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(in_order(work, range(4), threads=2))
    with np.errstate(divide="ignore"):
        assert len(list(in_order(work, range(4), threads=2))) == 4


def test_there_is_a_core():
    assert cores() >= 1


def test_what_is_loaded_later_stays_on_one_core_too():
    """SciPy has a library of its own: loaded within, its threads made fits ten times slower."""
    code = (
        "from smallcal.io.threads import one_core_each\n"
        "from threadpoolctl import threadpool_info\n"
        "with one_core_each():\n"
        "    import scipy.linalg\n"
        "    print({e['num_threads'] for e in threadpool_info() if e['user_api'] == 'blas'})\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    found = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert found.stdout == "{1}\n"
