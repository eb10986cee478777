import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored
from smallcal.metrics import scored as scored_module
from smallcal.metrics.blocks import evaluate_blocks
from smallcal.metrics.scored import row_blocks
from smallcal.statistics.compare import evaluate


def test_the_view_holds_what_each_prediction_amounts_to():
    scored = Scored.of([2, 0, 1], [[0.1, 0.2, 0.7], [0.3, 0.5, 0.2], [0.0, 1.0, 0.0]])
    assert (scored.n, scored.n_classes) == (3, 3)
    assert scored.confidence.tolist() == [0.7, 0.5, 1.0]
    np.testing.assert_allclose(scored.doubt, [0.3, 0.5, 0.0], rtol=1e-15)
    assert scored.correct.tolist() == [True, False, True]
    np.testing.assert_allclose(scored.residual, [-0.3, 0.5, 0.0], rtol=1e-15)
    assert (scored.labels.dtype, scored.proba.dtype) == (np.int64, np.float64)


def test_a_tie_in_a_row_goes_to_the_first_column():
    scored = Scored.of([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    assert scored.correct.tolist() == [True, False]


def test_doubt_keeps_the_digits_that_one_minus_confidence_loses():
    scored = Scored.of([0, 0], [[1.0, 1e-20, 2e-20], [1.0, 1e-30, 0.0]])
    assert scored.confidence.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(scored.doubt, [3e-20, 1e-30], rtol=1e-15)
    assert scored.log_odds[0] < scored.log_odds[1]


def test_log_odds_are_infinite_without_doubt():
    assert Scored.of([0], [[1.0, 0.0]]).log_odds.tolist() == [np.inf]


def test_rounding_beyond_the_simplex_is_cut_off():
    scored = Scored.of([0, 0], [[1.0005, 0.0], [1.0, -1e-7]])
    assert scored.confidence.tolist() == [1.0, 1.0]
    assert scored.doubt.tolist() == [0.0, 0.0]


def test_doubt_does_not_depend_on_the_block_size(softmax_case, monkeypatch):
    y_true, y_proba = softmax_case(50, 7)
    whole = Scored.of(y_true, y_proba)
    monkeypatch.setattr(scored_module, "BLOCK_SIZE", 20)
    assert [(s.start, s.stop) for s in row_blocks(y_proba[:5])] == [(0, 2), (2, 4), (4, 5)]
    np.testing.assert_array_equal(Scored.of(y_true, y_proba).doubt, whole.doubt)


def test_blocks_are_never_empty_however_many_the_classes(monkeypatch):
    monkeypatch.setattr(scored_module, "BLOCK_SIZE", 2)
    assert len(list(row_blocks(np.zeros((3, 9))))) == 3


@pytest.mark.parametrize(
    ("y_true", "y_proba", "message"),
    [
        ([[0.5, 0.5], [0.1, 0.9]], [0, 1], "seem to be swapped"),
        ([], np.empty((0, 3)), "y_proba has no rows"),
        ([0, 1, 1], [[0.5, 0.5], [0.1, 0.9]], "2 rows, 3 y_true"),
        ([0, 2], [[0.5, 0.5], [0.1, 0.9]], r"y_true must lie in 0 \.\. 1"),
        ([0, -1], [[0.5, 0.5], [0.1, 0.9]], r"row 1 is -1"),
        ([0, 1], [[3.0, -1.0], [0.0, 2.0]], "If they are logits, take their softmax first"),
        ([0, 1], [[0.5, 0.3], [0.1, 0.9]], "row 0 sums to 0.8"),
        ([0, 1], [[np.nan, 0.3], [0.1, 0.9]], "y_proba must be finite"),
        (None, [[0.5, 0.5]], "y_true is None"),
    ],
)
def test_input_that_cannot_be_used_is_refused_with_its_reason(y_true, y_proba, message):
    with pytest.raises(InputError, match=message):
        Scored.of(y_true, y_proba)


def test_all_metrics_of_a_large_input_need_less_than_one_more_copy_of_it():
    rng = np.random.default_rng(0)
    y_proba = rng.random((10_000, 1_000))
    y_proba /= y_proba.sum(axis=1, keepdims=True)
    y_true = rng.integers(1_000, size=10_000)
    tracemalloc.start()
    try:
        values = evaluate(y_true, y_proba)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert list(values) == list(METRICS)
    assert peak < y_proba.nbytes


def test_one_dimension_is_the_probability_of_outcome_1():
    """What is claimed is outcome 1, also where it is improbable; checked against scikit-learn."""
    rng = np.random.default_rng(0)
    p, came = rng.random(500), rng.random(500) < 0.3
    scored = Scored.of(came, p)
    assert scored.outcome
    assert np.array_equal(scored.confidence, p)
    assert np.array_equal(scored.correct, came)
    assert np.array_equal(scored.take(np.array([3, 3])).correct, came[[3, 3]])
    found = evaluate(came, p, metrics=["nll", "brier", "top_label_bce", "ece15", "accuracy"])
    assert found["nll"] == pytest.approx(log_loss(came, p))
    assert found["top_label_bce"] == pytest.approx(found["nll"])
    assert found["brier"] == pytest.approx(brier_score_loss(came, p))
    assert found["accuracy"] == came.mean()
    member = np.minimum((15 * p).astype(int), 14)
    gaps = [abs((p - came)[member == b].sum()) for b in range(15)]
    assert found["ece15"] == pytest.approx(sum(gaps) / 500)


def test_blocks_of_outcomes_give_the_same_as_all_at_once():
    rng = np.random.default_rng(1)
    p, came = rng.random(300), rng.integers(0, 2, 300)
    blocks = [(came[:100], p[:100]), (came[100:], p[100:])]
    found, n = evaluate_blocks(blocks)
    assert n == 300
    assert found == pytest.approx(evaluate(came, p, metrics=list(found)))


@pytest.mark.parametrize(
    ("outcomes", "p", "message"),
    [
        ([0, 1], [0.2, 1.5], r"row 1 do not lie in \[0, 1\] \(row 1 is 1.5\)"),
        ([0, 2], [0.2, 0.7], r"y_true must lie in 0 .. 1"),
        ([0, 1, 1], [0.2, 0.7], "one entry per row: 2 rows, 3"),
        ([0, 1], [0.2, np.nan], r"row 1 do not lie in \[0, 1\]"),
    ],
)
def test_outcomes_and_probabilities_that_cannot_be(outcomes, p, message):
    with pytest.raises(InputError, match=message):
        Scored.of(outcomes, p)


def test_a_probability_of_an_outcome_that_was_rounded_is_one():
    assert Scored.of([1, 0], [1 + 1e-7, -1e-7]).confidence.tolist() == [1.0, 0.0]
