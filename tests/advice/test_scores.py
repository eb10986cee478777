"""Advice on one number per row: against plain loops, and in the words of outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

import smallcal as sc
from smallcal.advice.refit_bootstrap import refit_bootstrap
from smallcal.advice.select import SCORE_CANDIDATES
from smallcal.calibrators.catalogue import OF_SCORES
from smallcal.calibrators.signals.crossfit import stratified_folds
from smallcal.data.claims import CLAIMS
from smallcal.data.predictions import Predictions
from smallcal.metrics.binned import ece
from support.judged import confidences, marks


def raw(scores: np.ndarray, split: np.ndarray) -> np.ndarray:
    """What a mark says before anything is fitted."""
    return 1 / (1 + np.exp(-(scores - split.mean()) / split.std()))


def test_candidates_of_scores_are_their_maps_the_default_first():
    assert SCORE_CANDIDATES[0] == sc.Calibrator(input="score").fit(*marks(60, 0)).method_
    assert set(SCORE_CANDIDATES) == set(OF_SCORES)


def test_losses_of_select_equal_a_plain_loop_over_folds():
    s, y = confidences(120, 0)
    found = sc.select(s, y, input="score", n_repeats=1, n_folds=4)
    assert found.loss == "nll"
    member = stratified_folds(y == 0, 4, 0)
    for row in found.table:
        losses = []
        for fold in range(4):
            held = member == fold
            cal = sc.Calibrator(method=row.candidate, input="score").fit(s[~held], y[~held])
            losses.append(log_loss(y[held], cal.predict_score(s[held])))
        assert row.loss == pytest.approx(np.mean(losses), rel=1e-6), row.candidate
    assert found.estimator().fit(s, y).fitted_.input == "score"


def test_an_audit_counts_failures_and_measures_the_raw_score():
    s, y = marks(150, 1)
    found = sc.audit(s, y, input="score", n_refits=5)
    assert (found.n_errors, found.input, found.signals) == (int((y == 0).sum()), "score", None)
    assert found.held_out["raw_nll"].point == pytest.approx(log_loss(y, raw(s, s)))
    assert found.held_out["raw_ece15"].point == pytest.approx(ece(y, raw(s, s)))
    said = " ".join(finding.text for finding in found.findings)
    assert "score_as_number" in said
    assert "the raw score" in said
    cal = sc.Calibrator(input="score").fit(s, y)
    t, ty = marks(100, 2)
    other = sc.audit(t, ty, input="score", calibrator=cal, n_refits=5)
    assert "other samples" in other.findings[0].text
    # Scores are taken for what the calibrator took its own for, not standardised anew.
    assert other.held_out["nll"].point == pytest.approx(log_loss(ty, cal.predict_score(t)))


def test_a_plan_measures_the_raw_score_and_one_temperature():
    s, y = marks(150, 1)
    found = sc.plan(s, y, input="score", draws=5, sizes=[100])
    assert (found.simple, found.input) == ("ts-nll", "score")
    loss = found.row(0, "none").metrics["top_label_bce"].value
    assert loss == pytest.approx(log_loss(y, raw(s, s)))
    assert any("log-loss" in text for text in found.sentences)
    few = sc.plan(s[:60], np.arange(60) < 57, input="score", draws=5)
    assert "only 3 outcomes of the pilot are 0" in few.notes


def test_a_bootstrap_of_refits_takes_the_scale_of_the_calibration_split():
    cal, test = marks(150, 1), marks(200, 2)
    found = refit_bootstrap(cal, test, ["none", "spline"], metrics=["nll"], n_boot=5, input="score")
    expected = log_loss(test[1], raw(test[0], cal[0]))
    assert found.values["none"]["nll"].plain == pytest.approx(expected)
    assert found.differences["spline"]["nll"].point < 0


def test_what_is_claimed_of_a_score_is_outcome_1_also_where_it_is_unlikely():
    preds = Predictions.of([0.1, 0.2, 0.9], [1, 0, 1], input="score")
    assert (preds.kind, preds.came.tolist()) == ("score", [True, False, True])
    assert Predictions.of([[2.0, 0.0]], [0]).kind == "logits"


def test_words_of_one_and_of_many():
    claim = CLAIMS["score"]
    assert (claim.row, claim.confidences) == ("outcome", "probabilities")
    assert (CLAIMS["logits"].row, CLAIMS["logits"].confidences) == ("prediction", "confidences")


def test_a_calibrator_says_what_scores_were_taken_for():
    cal = sc.Calibrator(input="score").fit(*marks(60, 0))
    assert cal.score_.kind == "number"
    with pytest.raises(AttributeError, match="takes logits"):
        _ = sc.Identity().fit([[2.0, 0.0]] * 10, [0] * 10).score_
