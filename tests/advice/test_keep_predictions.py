"""Advice where the model's predictions are kept: confidences are those of its own labels."""

import numpy as np
import pytest

import smallcal as sc
from smallcal.advice.calibrated_split import scored_on
from smallcal.advice.recommend import Recommendation, recommend
from smallcal.calibrators.summary import accuracy_line
from smallcal.data.predictions import Predictions
from support.simulated import simulate


def biased(n, seed):
    """A model that prefers the first class to the second whatever the input."""
    z, y = simulate(n, 5, temperature=1.5, seed=seed)
    return z + np.array([2.0, -2.0, 0.0, 0.0, 0.0]), y


CAL, TEST = biased(500, seed=2), biased(2000, seed=3)
KEPT = sc.Calibrator(keep_predictions=True).fit(*CAL)
FREE = sc.Calibrator().fit(*CAL)


def loss_of(right, sure):
    return -np.log(np.where(right, sure, 1 - sure)).mean()


def test_metrics_see_the_confidence_of_predict():
    z, y = TEST
    right = KEPT.predict(z) == y
    assert (FREE.predict(z) != KEPT.predict(z)).mean() > 0.05
    view = scored_on(KEPT.fitted_, Predictions.of(z, y))
    np.testing.assert_array_equal(view.confidence, KEPT.confidence(z))
    np.testing.assert_array_equal(view.correct, right)
    np.testing.assert_allclose(view.doubt, 1 - view.confidence, atol=1e-12)
    np.testing.assert_array_equal(view.proba, FREE.predict_proba(z))
    # Confidences are calibrated, the exchanged probabilities are not.
    assert abs(view.residual.mean()) < 0.03
    assert (KEPT.predict_proba(z).max(axis=1) - right).mean() > 0.03


def test_the_default_says_what_changing_predictions_is_worth():
    found = KEPT.fitted_.fit_metrics["cross_validated"]
    assert found["accuracy_change_low"] > 0
    said = accuracy_line(FREE.fitted_)
    assert said.startswith("changes ")
    assert f"accuracy {100 * found['accuracy_change']:+.1f} points, 95 % interval" in said
    kept = f"keeps the model's predictions; without keep_predictions it {said}"
    assert accuracy_line(KEPT.fitted_) == kept
    preds = Predictions.of(*CAL)
    told = recommend(preds, keep_predictions=True)
    assert told.sentence == f"Use smallcal, the default, with keep_predictions: it {kept}."
    assert recommend(preds) == Recommendation("smallcal", 500, predictions=said)
    assert recommend(preds).sentence == f"Use smallcal, the default: it {said}."


def test_a_fit_that_fell_back_has_nothing_to_say_of_predictions():
    z, _ = CAL
    preds = Predictions.of(z, z.argmax(axis=1))
    found = recommend(preds, keep_predictions=True)
    assert found.predictions == ""
    assert found.sentence.startswith("Use smallcal, the default, with keep_predictions: fewer than")


def test_select_measures_and_returns_a_default_that_keeps_predictions():
    z, y = CAL
    candidates = ["smallcal", "vector-scaling", "ts-nll"]
    found = sc.select(z, y, candidates=candidates, n_repeats=1, keep_predictions=True)
    assert [row.candidate for row in found.table] == candidates
    free = sc.select(z, y, candidates=candidates, n_repeats=1)
    assert found.table[0].nll == pytest.approx(free.table[0].nll)
    assert found.table[0].loss != free.table[0].loss
    assert found.table[2].loss == free.table[2].loss
    assert found.note == f"smallcal, the default, {accuracy_line(KEPT.fitted_)}."
    assert free.note == f"smallcal, the default, {accuracy_line(FREE.fitted_)}."
    assert (found.choice, found.choice_options) == ("smallcal", {"keep_predictions": True})
    cal = found.estimator().fit(z, y)
    assert cal.fitted_.keep_predictions
    np.testing.assert_array_equal(cal.predict(z), z.argmax(axis=1))


def test_plans_and_audits_keep_predictions():
    z, y = CAL
    shared = {"sizes": [100], "draws": 5}
    kept, free = (sc.plan(z, y, keep_predictions=keep, **shared) for keep in (True, False))
    losses = [found.row(100).metrics["top_label_bce"].value for found in (kept, free)]
    assert losses[0] != losses[1]
    for found, cal in ((kept, KEPT), (free, FREE)):
        assert accuracy_line(cal.fitted_) in found.recommendation.sentence
        assert found.recommendation.sentence in found.sentences
    audited = sc.audit(z, y, keep_predictions=True, n_refits=4, n_null=0)
    right = z.argmax(axis=1) == y
    point = audited.held_out["top_label_bce"].point
    assert point == pytest.approx(loss_of(right, KEPT.confidence(z)))
    assert audited.recommendation.keep_predictions


def test_a_choice_that_cannot_change_predictions_does_not_hide_what_changing_them_would_do():
    z, y = CAL
    found = sc.select(z, y, candidates=["none", "ts-nll"], n_repeats=1)
    assert found.choice == "ts-nll"
    assert found.note == f"smallcal, the default, {accuracy_line(FREE.fitted_)}."
    report = sc.report(CAL, TEST, methods=["ts-nll"], n_boot=0)
    told = {row["text"]: row["level"] for row in report.content["verdict"]["findings"]}
    assert told[f"On the calibration samples, {found.note}"] == "care"


@pytest.mark.parametrize("cross", [False, True])
def test_thresholds_are_of_the_confidence_of_predict(cross):
    z, y = CAL if cross else TEST
    found = sc.certify(KEPT, z, y, risk=0.2, cross=cross)
    row = found.certificates[0].rows[0]
    assert row.threshold is not None
    if cross:
        return
    sure, right = KEPT.confidence(z), KEPT.predict(z) == y
    accepted = sure >= row.threshold
    assert (row.accepted, row.errors) == (accepted.sum(), (accepted & ~right).sum())
    np.testing.assert_array_equal(found.calibrator.accept(z), accepted)


def test_thresholds_of_classes_are_of_those_predicted():
    z, y = TEST
    found = sc.certify(KEPT, z, y, risk=0.4, confidence=0.6, by="class").certificates[0]
    assert [row.n for row in found.rows] == np.bincount(z.argmax(axis=1), minlength=5).tolist()


def test_prediction_sets_do_not_depend_on_what_is_predicted():
    made = [sc.prediction_sets(cal, *TEST, alpha=0.1) for cal in (KEPT, FREE)]
    assert made[0].rule.quantiles == made[1].rule.quantiles
    z, y = biased(2000, seed=4)
    inside = [each.predict(z) for each in made]
    np.testing.assert_array_equal(*inside)
    assert made[0].coverage.low - 0.02 < inside[0][np.arange(len(y)), y].mean() < 0.95
