"""Intervals where errors are few: by closed forms, scipy and enumeration of what may be drawn."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest, fisher_exact

import smallcal as sc
from smallcal.metrics import METRICS
from smallcal.statistics.groups import by_group
from smallcal.statistics.interval import FEWEST_ERRORS, paired_interval

LOSSES = ("nll", "brier", "top_label_bce", "ece15", "confidence_gap", "cwece15", "auroc")


def drawn(n_right, n_wrong, seed=0):
    """Labels and probabilities of so many right predictions, then so many wrong ones."""
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.6, 0.99, n_right + n_wrong)
    return np.repeat([0, 1], [n_right, n_wrong]), np.column_stack([sure, 1 - sure])


def test_without_an_error_the_bound_is_that_of_chance():
    found = sc.evaluate(*drawn(300, 0), metrics=["accuracy"], ci=True)["accuracy"]
    assert tuple(found) == pytest.approx((0.025 ** (1 / 300), 1.0))  # 98.78 to 100 %
    assert found.to_dict()["note"] == "interval from counts"


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("name", [name for name, row in METRICS.items() if row.trials is not None])
def test_shares_have_exact_intervals(name, level):
    y, p = drawn(150, 12)
    found = sc.evaluate(y, p, metrics=[name], ci=True, level=level)[name]
    sure, wrong = p.max(axis=1), y == 1
    first = np.argsort(-sure)[: round(0.8 * len(y))]
    k, n = {
        "accuracy": ((~wrong).sum(), len(y)),
        "risk_at90": ((wrong & (sure >= 0.9)).sum(), (sure >= 0.9).sum()),
        "selective_risk80": (wrong[first].sum(), len(first)),
        **{f"hcfp{t}": ((wrong & (sure >= t / 100)).sum(), wrong.sum()) for t in (90, 95, 99)},
    }[name]
    ends = binomtest(int(k), int(n)).proportion_ci(level, method="exact")
    assert tuple(found) == pytest.approx((ends.low, ends.high), abs=1e-9)


@pytest.mark.parametrize("n_wrong", [0, FEWEST_ERRORS - 1, FEWEST_ERRORS])
def test_what_errors_decide_has_an_interval_where_there_are_enough(n_wrong):
    y, p = drawn(400, n_wrong)
    found = sc.evaluate(y, p, metrics=LOSSES, ci=True, n_boot=60)
    for name, row in found.items():
        enough = n_wrong == FEWEST_ERRORS
        assert math.isfinite(row.low) == math.isfinite(row.high) == enough, name
        told = json.loads(json.dumps(row.to_dict()))
        if not enough and n_wrong:
            assert (told["low"], told["high"], told["p_below"]) == (None, None, None)
            assert told["note"] == "too few errors to tell"
            assert "(no interval: too few errors to tell)" in row.text()
            assert row.ends(METRICS[name].unit) == "too few errors to tell"
            assert row.verdict() == "tie"
            assert row.point <= row.plain
    again = sc.evaluate(y, p, metrics=LOSSES, ci=True, n_boot=60)
    assert n_wrong == 0 or again == found


def test_few_right_predictions_tell_as_little():
    found = sc.evaluate(*drawn(5, 400), metrics=["nll"], ci=True, n_boot=60)["nll"]
    assert found.note == "too few right predictions to tell"


def test_a_difference_says_why_it_has_no_interval():
    y, p = drawn(300, 3)
    result = sc.compare(y, {"a": p, "b": p**2 / (p**2).sum(axis=1, keepdims=True)}, n_boot=60)
    said = result.verdict("b")
    assert "accuracy: no prediction differs" in said
    assert "log-loss, Brier score" in said
    assert ": too few errors to tell" in said
    told = json.loads(json.dumps(result.to_dict()))["intervals"]["b"]
    assert (told["accuracy"]["low"], told["accuracy"]["note"]) == (None, "no prediction differs")
    assert (told["nll"]["low"], told["nll"]["note"]) == (None, "too few errors to tell")


@pytest.mark.parametrize("n", [200, 500])
@pytest.mark.parametrize(
    ("gained", "lost"), [(0.002, 0.002), (0.005, 0.0), (0.01, 0.01), (0.03, 0.01), (0.1, 0.08)]
)
def test_paired_shares_cover_the_truth_by_enumeration(n, gained, lost):
    held = 0.0
    for both in range(n + 1):
        chance = binom.pmf(both, n, gained + lost)
        if chance < 1e-9:
            continue
        split = binom.pmf(np.arange(both + 1), both, gained / (gained + lost))
        for k in np.flatnonzero(split > 1e-9):
            low, high = paired_interval(int(k), int(both - k), n)
            held += chance * split[k] * (low <= gained - lost <= high)
    assert 0.945 <= held <= 1


def test_paired_shares_in_compare_are_those_of_the_samples_that_differ():
    y, p = drawn(200, 30)
    q = p.copy()
    q[:4], q[-11:] = p[:4, ::-1], p[-11:, ::-1]
    found = sc.compare(y, {"p": p, "q": q}, metrics=["accuracy"], n_boot=60).intervals["q"]
    assert tuple(found["accuracy"]) == paired_interval(11, 4, 230)
    assert found["accuracy"].point == pytest.approx(7 / 230)


def test_a_small_group_without_errors_is_not_said_to_differ():
    """Resamples of it never vary: all of them lie above the others."""
    y, p = drawn(300, 20)
    groups = np.repeat(["small", "large"], [8, 312])
    found = by_group(y, p, groups, metrics=["accuracy", "nll"], n_boot=200)
    exact = fisher_exact([[8, 0], [292, 20]]).pvalue
    for row in found.values():
        assert row["accuracy"].p_value == pytest.approx(exact)
        assert (row["nll"].p_value, row["nll"].differs) == (1.0, False)
        assert not row["accuracy"].differs
