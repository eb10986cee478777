"""Gaps by group: counted by hand, with Holm's correction, samples without a group left out."""

import numpy as np
import pytest
from scipy.stats import binomtest

from smallcal.statistics.gaps import gaps_by_group
from support.refused import refused


def test_counted_by_hand():
    y = np.array([0] * 30 + [1] * 10 + [0] * 5 + [1] * 15)
    p, raw = np.tile([0.7, 0.3], (60, 1)), np.tile([0.95, 0.05], (60, 1))
    groups = ["a"] * 40 + ["b"] * 20
    rows = {row["group"]: row for row in gaps_by_group(y, p, groups, before=raw)}
    a, b = rows["a"], rows["b"]
    assert (a["n"], a["n_correct"], b["n"], b["n_correct"]) == (40, 30, 20, 5)
    assert (a["gap"], a["raw_gap"]) == pytest.approx((-0.05, 0.2))
    limits = binomtest(5, 20).proportion_ci(0.95, method="exact")
    assert (b["low"], b["high"]) == pytest.approx((0.7 - limits.high, 0.7 - limits.low))
    assert (b["raw_low"], b["raw_high"]) == pytest.approx((0.95 - limits.high, 0.95 - limits.low))
    assert (a["off"], a["raw_off"], b["off"], b["raw_off"]) == (False, True, True, True)


def test_outcomes_and_samples_without_a_group():
    y, p = np.array([1, 1, 0, 0, 1]), np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    (row,) = gaps_by_group(y, p, ["a", "a", "a", None, ""])
    assert row["n"] == 3
    assert row["gap"] == pytest.approx(0.8 - 2 / 3)


def test_holm_counts_the_groups():
    """One gap among many that alone would be beyond chance is not, with so many looked at."""
    y = np.zeros(2000, dtype=int)
    y[::5] = 1
    y[:20] = [1] * 9 + [0] * 11
    p, groups = np.tile([0.8, 0.2], (2000, 1)), np.arange(2000) // 20
    rows = {row["group"]: row for row in gaps_by_group(y, p, groups)}
    assert rows["0"]["p_value"] < 0.05
    assert not rows["0"]["off"]


def test_no_group_at_all_is_one_line():
    with refused("groups-invalid"):
        gaps_by_group([0, 1], [[0.6, 0.4]] * 2, [None, None])
