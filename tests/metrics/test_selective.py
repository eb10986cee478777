import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from smallcal.metrics import (
    aurc,
    auroc_of_correctness,
    confidence_gap,
    coverage_at_threshold,
    eaurc,
    hcfp,
    risk_at_threshold,
    selective_risk,
)
from support.refused import refused


def loop_risks(correct_in_order):
    """Error rate among the first k, for every k."""
    errors, risks = 0, []
    for k, hit in enumerate(correct_in_order, start=1):
        errors += not hit
        risks.append(errors / k)
    return risks


def mean_over_orders(confidence, correct, statistic):
    """Average a statistic over all orders that sort the confidences downwards."""
    orders = [
        order
        for order in itertools.permutations(range(len(confidence)))
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order))
    ]
    return sum(statistic([correct[i] for i in order]) for order in orders) / len(orders)


def falling(y_true, y_proba):
    confidence = y_proba.max(axis=1)
    correct = y_proba.argmax(axis=1) == y_true
    return correct[np.argsort(-confidence)]


def test_auroc_equals_a_loop_over_all_pairs(softmax_case):
    y_true, y_proba = softmax_case(120)
    y_proba = np.round(y_proba, 1)
    y_proba[:, 0] += 1 - y_proba.sum(axis=1)
    y_proba = np.clip(y_proba, 0, 1)
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    confidence = np.round(y_proba.max(axis=1), 9)
    correct = y_proba.argmax(axis=1) == y_true
    total, count = 0.0, 0
    for right, wrong in itertools.product(confidence[correct], confidence[~correct]):
        total += 1.0 if right > wrong else 0.5 if right == wrong else 0.0
        count += 1
    assert auroc_of_correctness(y_true, y_proba) == pytest.approx(total / count, abs=1e-14)


def test_auroc_agrees_with_scikit_learn(softmax_case):
    for seed in range(5):
        y_true, y_proba = softmax_case(1000, 10, seed=seed)
        expected = roc_auc_score(y_proba.argmax(axis=1) == y_true, y_proba.max(axis=1))
        assert auroc_of_correctness(y_true, y_proba) == pytest.approx(expected, abs=1e-12)


def test_aurc_and_eaurc_equal_their_definitions_written_as_loops(softmax_case):
    for seed in range(3):
        case = softmax_case(250, seed=seed)
        order = falling(*case)
        expected = sum(loop_risks(order)) / 250
        best = sum(loop_risks(sorted(order, reverse=True))) / 250
        assert aurc(*case) == pytest.approx(expected, abs=1e-14)
        assert eaurc(*case) == pytest.approx(expected - best, abs=1e-14)


@pytest.mark.parametrize(
    ("confidence", "correct"),
    [
        ([0.7, 0.7, 0.7, 0.7], [1, 0, 1, 0]),
        ([0.9, 0.7, 0.7, 0.7, 0.5, 0.5], [0, 1, 1, 0, 1, 0]),
        ([0.9, 0.9, 0.6, 0.6], [0, 1, 1, 1]),
    ],
)
def test_ties_are_averaged_over_all_orders(confidence, correct, pairs):
    case = pairs(confidence, correct)

    def area(hits):
        return sum(loop_risks(hits)) / len(hits)

    assert aurc(*case) == pytest.approx(mean_over_orders(confidence, correct, area), abs=1e-14)
    for kept in range(1, len(correct) + 1):
        risk = mean_over_orders(confidence, correct, lambda hits, k=kept: loop_risks(hits)[k - 1])
        value = selective_risk(*case, coverage=kept / len(correct))
        assert value == pytest.approx(risk, abs=1e-14)


def test_values_worked_out_by_hand(pairs):
    case = pairs([0.9, 0.8, 0.7], [1, 0, 1])
    assert auroc_of_correctness(*case) == 0.5
    assert aurc(*case) == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    assert eaurc(*case) == pytest.approx((0 + 1 / 2 + 1 / 3) / 3 - (1 / 3) / 3)
    assert selective_risk(*case, coverage=2 / 3) == 0.5
    assert hcfp(*case, threshold=0.8) == 1.0
    assert risk_at_threshold(*case, threshold=0.8) == 0.5
    assert coverage_at_threshold(*case, threshold=0.8) == pytest.approx(2 / 3)
    assert confidence_gap(*case) == pytest.approx(0.8 - 2 / 3)


def test_confidences_that_round_to_one_are_ranked_by_their_doubt():
    y_proba = [[1.0, 1e-20], [1.0, 1e-25], [1.0, 1e-18]]
    assert auroc_of_correctness([0, 0, 1], y_proba) == 1.0
    assert eaurc([0, 0, 1], y_proba) == 0.0
    assert auroc_of_correctness([0, 1, 0], y_proba) == 0.0


def test_no_doubt_at_all_ranks_first_and_ties_with_its_like():
    y_proba = [[1.0, 0.0], [1.0, 0.0], [1.0, 1e-300]]
    assert auroc_of_correctness([0, 1, 0], y_proba) == 0.25


def test_the_order_of_the_classes_does_not_break_a_tie():
    rows = [[0.4, *order] for order in itertools.permutations([0.1, 0.2, 0.3])]
    labels = [0, 1, 0, 1, 0, 1]
    assert auroc_of_correctness(labels, rows) == 0.5


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_extremes_are_what_they_should_be(n, pairs):
    right, wrong = pairs(np.full(n, 0.95), np.ones(n)), pairs(np.full(n, 0.95), np.zeros(n))
    assert math.isnan(auroc_of_correctness(*right))
    assert math.isnan(auroc_of_correctness(*wrong))
    assert (aurc(*right), aurc(*wrong)) == (0.0, 1.0)
    assert (eaurc(*right), eaurc(*wrong)) == (0.0, 0.0)
    assert (selective_risk(*right), selective_risk(*wrong)) == (0.0, 1.0)
    assert math.isnan(hcfp(*right))
    assert hcfp(*wrong) == 1.0
    assert (risk_at_threshold(*right), risk_at_threshold(*wrong)) == (0.0, 1.0)


def test_a_threshold_nobody_reaches_keeps_nothing(pairs):
    case = pairs([0.8, 0.7], [1, 0])
    assert math.isnan(risk_at_threshold(*case))
    assert coverage_at_threshold(*case) == 0.0
    assert hcfp(*case) == 0.0


@pytest.mark.parametrize(("n", "kept"), [(5, 2), (7, 4), (3, 2)])
def test_half_a_sample_is_rounded_to_the_even_number(n, kept, pairs):
    confidence = np.linspace(0.9, 0.6, n)
    correct = np.arange(n) % 3 != 1
    expected = loop_risks(correct)[kept - 1]
    assert selective_risk(*pairs(confidence, correct), coverage=0.5) == pytest.approx(expected)


def test_a_coverage_that_keeps_nothing_is_undefined(pairs):
    assert math.isnan(selective_risk(*pairs([0.8], [1]), coverage=0.4))


def test_thresholds_equal_loops(softmax_case):
    y_true, y_proba = softmax_case(400)
    for threshold in (0.3, 0.5, 0.9, 0.95):
        wrong = sure_wrong = sure = 0
        for label, row in zip(y_true, y_proba, strict=True):
            missed = int(np.argmax(row)) != label
            wrong += missed
            sure += max(row) >= threshold
            sure_wrong += missed and max(row) >= threshold
        assert hcfp(y_true, y_proba, threshold=threshold) == sure_wrong / wrong
        assert risk_at_threshold(y_true, y_proba, threshold=threshold) == sure_wrong / sure
        assert coverage_at_threshold(y_true, y_proba, threshold=threshold) == sure / 400


@pytest.mark.parametrize("metric", [hcfp, risk_at_threshold, coverage_at_threshold])
@pytest.mark.parametrize("threshold", [-0.1, 90, float("nan")])
def test_a_threshold_outside_the_unit_interval_is_refused(metric, threshold):
    with refused("option-range", "0", "1"):
        metric([0], [[0.9, 0.1]], threshold=threshold)


@pytest.mark.parametrize("coverage", [0, 80, -1.0, float("nan")])
def test_a_coverage_outside_the_unit_interval_is_refused(coverage):
    with refused("option-range", "0", "1"):
        selective_risk([0], [[0.9, 0.1]], coverage=coverage)
