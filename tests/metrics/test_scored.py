import tracemalloc

import numpy as np
import pytest

from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored
from smallcal.metrics import scored as scored_module
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
        ([0, 1], [0.2, 0.7], r"y_proba must have shape \(n, C\)"),
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
