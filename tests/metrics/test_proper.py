import math

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

from smallcal.metrics import Scored, accuracy, brier, nll, proper, top_label_bce
from smallcal.metrics import scored as scored_module

TWO = ([0, 1], [[0.9, 0.1], [0.8, 0.2]])


def loop_nll(y_true, y_proba):
    total = 0.0
    for label, row in zip(y_true, y_proba, strict=True):
        total -= math.log(max(row[label], 1e-12))
    return total / len(y_true)


def loop_brier(y_true, y_proba):
    total = 0.0
    for label, row in zip(y_true, y_proba, strict=True):
        for column, p in enumerate(row):
            total += (p - (column == label)) ** 2
    return total / len(y_true)


def loop_bce(y_true, y_proba):
    total = 0.0
    for label, row in zip(y_true, y_proba, strict=True):
        top = int(np.argmax(row))
        given = row[top] if top == label else sum(p for j, p in enumerate(row) if j != top)
        total -= math.log(max(given, 1e-12))
    return total / len(y_true)


@pytest.mark.parametrize(
    ("metric", "loop"), [(nll, loop_nll), (brier, loop_brier), (top_label_bce, loop_bce)]
)
def test_a_metric_equals_its_definition_written_as_a_loop(metric, loop, softmax_case):
    for seed in range(3):
        case = softmax_case(200, 6, seed=seed)
        assert metric(*case) == pytest.approx(loop(*case), abs=1e-13)


def test_accuracy_and_nll_agree_with_scikit_learn(softmax_case):
    y_true, y_proba = softmax_case(500, 4)
    assert accuracy(y_true, y_proba) == accuracy_score(y_true, y_proba.argmax(axis=1))
    labels = np.arange(4)
    assert nll(y_true, y_proba) == pytest.approx(log_loss(y_true, y_proba, labels=labels), 1e-12)


def test_values_worked_out_by_hand():
    assert accuracy(*TWO) == 0.5
    assert nll(*TWO) == pytest.approx(-(math.log(0.9) + math.log(0.2)) / 2)
    assert brier(*TWO) == pytest.approx((0.01 + 0.01 + 0.64 + 0.64) / 2)
    assert top_label_bce(*TWO) == pytest.approx(-(math.log(0.9) + math.log(0.2)) / 2)


def test_a_certain_error_costs_the_floor_and_not_infinity():
    sure = ([1], [[1.0, 0.0]])
    assert nll(*sure) == pytest.approx(-math.log(1e-12))
    assert top_label_bce(*sure) == pytest.approx(-math.log(1e-12))
    assert brier(*sure) == 2.0


def test_top_label_bce_sees_doubt_that_one_minus_confidence_cannot_hold():
    doubtful = ([1], [[1.0 - 3e-9, 1e-9, 2e-9]])
    assert top_label_bce(*doubtful) == pytest.approx(-math.log(3e-9), rel=1e-12)


def test_a_probability_above_one_costs_nothing_rather_than_less():
    assert nll([0], [[1.0005, 0.0]]) == 0.0


def test_brier_does_not_depend_on_the_block_size(softmax_case, monkeypatch):
    case = softmax_case(50, 7)
    whole = brier(*case)
    monkeypatch.setattr(scored_module, "BLOCK_SIZE", 20)
    assert brier(*case) == pytest.approx(whole, rel=1e-14)


def test_metrics_leave_the_input_as_it_was(softmax_case):
    y_true, y_proba = softmax_case(20, 3)
    before = y_proba.copy()
    scored = Scored.of(y_true, y_proba)
    proper.brier.values(scored)
    np.testing.assert_array_equal(y_proba, before)
