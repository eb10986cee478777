"""Groups apart: p-values by a plain loop and by hand, seeds and levels that are passed on."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

import smallcal as sc
from smallcal.data.special import softmax
from smallcal.statistics.bootstrap import counts_of_draws
from smallcal.statistics.groups import by_group
from support.simulated import simulate

NAMES = ["accuracy", "nll", "brier"]


def sure_of(n_right, n_wrong):
    """Labels and probabilities of so many right predictions, then so many wrong ones."""
    y = np.repeat([0, 1], [n_right, n_wrong])
    return y, np.tile([0.8, 0.2], (n_right + n_wrong, 1))


@pytest.mark.parametrize("n_boot", [19, 199])
def test_a_difference_in_every_resample_has_the_smallest_p_value_there_is(n_boot):
    y, p = sure_of(60, 60)
    groups = np.repeat(["good", "bad"], 60)
    y[:20], y[-20:] = 1, 0
    p[60:] = [0.99, 0.01]
    found = by_group(y, p, groups, metrics=["nll"], n_boot=n_boot)
    for row in found.values():
        # Neither tail holds a resample: one is lent to it, and there are two tails.
        assert row["nll"].p_value == 2 / (n_boot + 1)


def test_groups_that_never_differ_have_a_p_value_of_one():
    y, p = sure_of(60, 0)
    found = by_group(y, p, np.arange(60) % 2, metrics=["accuracy"], n_boot=50)
    assert [row["accuracy"].p_value for row in found.values()] == [1.0, 1.0]
    undefined = by_group(y, p, np.arange(60) % 2, metrics=["auroc"], n_boot=50)
    assert [row["auroc"].p_value for row in undefined.values()] == [1.0, 1.0]


@pytest.mark.parametrize(("level", "differ"), [(0.95, False), (0.8, True)])
def test_the_level_decides_what_differs(level, differ):
    y, p = sure_of(9, 3)
    groups = np.r_[np.repeat("good", 7), np.repeat("bad", 5)]
    # Fisher's p is 10 / 220; Holm asks the first of two groups for half of 1 - level.
    found = sc.evaluate(y, p, metrics=["accuracy"], by=groups, n_boot=39, level=level)
    assert found["good"]["accuracy"].p_value == pytest.approx(10 / 220)
    assert [row["accuracy"].differs for row in found.values()] == [differ, differ]
    assert found["good"]["accuracy"].interval.level == level


@pytest.mark.parametrize("seed", [0, 7])
def test_every_number_of_a_group_is_that_of_a_plain_loop(seed):
    z, y = simulate(480, 4)
    p = softmax(z)
    y_right = p.argmax(axis=1) == y
    groups = np.repeat(["a", "b", "c"], 160)  # of one size: draws that were shared would show
    found = by_group(y, p, groups, metrics=NAMES, n_boot=40, level=0.9, random_state=seed)
    for i, name in enumerate("abc"):
        inside, outside = np.flatnonzero(groups == name), np.flatnonzero(groups != name)
        values = {}
        for j, rows in enumerate((inside, outside)):
            (counts,) = counts_of_draws(len(rows), 40, np.random.default_rng(seed + 2 * i + j))
            drawn = [np.repeat(rows, row.astype(int)) for row in counts]
            values[j] = [sc.evaluate(y[again], p[again], metrics=NAMES) for again in drawn]
        for metric in NAMES:
            own, rest = (np.array([row[metric] for row in values[j]]) for j in (0, 1))
            row = found[name][metric]
            np.testing.assert_allclose(row.interval.values, own, atol=1e-12)
            if metric == "accuracy":
                counts = [[k := y_right[rows].sum(), len(rows) - k] for rows in (inside, outside)]
                assert row.p_value == pytest.approx(fisher_exact(counts).pvalue)
                continue
            assert tuple(row.interval) == pytest.approx(tuple(np.quantile(own, [0.05, 0.95])))
            tail = 1 + min(np.sum(own - rest <= 0), np.sum(own - rest >= 0))
            assert row.p_value == pytest.approx(min(1.0, 2 * tail / 41))
