"""Bins of a split for a monitor: cut at its ranks, the gaps between them shared out evenly."""

import numpy as np
import pytest

from smallcal.calibrators.reference import Bins


@pytest.mark.parametrize("n", [20, 35, 57, 99, 100, 109, 250, 613])
def test_bins_are_cut_at_even_ranks_of_the_split(n):
    values = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))  # each value is its rank
    bins = Bins.of(values)
    count = min(10, n // 10)
    assert bins.edges == tuple(float(round(i * (n + 1) / count)) for i in range(1, count))
    # n values have n + 1 gaps between and beside them; no bin has two gaps more than another.
    assert bins.spacings.sum() == n + 1
    assert np.ptp(bins.spacings) <= 1
    assert bins.counts == tuple(np.diff([0, *bins.edges, n]).astype(int))


def test_a_value_on_an_edge_is_below_it():
    bins = Bins((0.0, 1.0), (1, 1, 0))
    loop = [sum(edge < value for edge in bins.edges) for value in (-1.0, 0.0, 0.5, 1.0, 1.5)]
    expected = np.bincount(loop, minlength=3)
    np.testing.assert_array_equal(bins.count(np.array([-1.0, 0.0, 0.5, 1.0, 1.5])), expected)


def test_few_and_tied_values_make_fewer_bins():
    assert len(Bins.of(np.arange(12.0)).counts) == 2
    tied = Bins.of(np.repeat([1.0, 2.0, 3.0], [60, 30, 10]))
    assert tied.edges == (1.0, 2.0, 3.0)
    assert tied.counts == (60, 30, 10, 0)
    np.testing.assert_array_equal(tied.spacings, [60, 30, 10, 1])
