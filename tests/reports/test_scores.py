"""A report on one number per row: the numbers of other routes, and the words of outcomes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import smallcal as sc
from smallcal.calibrators.catalogue import OF_SCORES
from smallcal.data.predictions import Predictions
from smallcal.plots.redraw import redraw
from support.judged import confidences, marks

CLASSES = re.compile(r"\b(class|classes|accuracy|prediction|predictions|predicted)\b", re.I)


@pytest.fixture(scope="module")
def made():
    return sc.report(marks(200, 0), marks(300, 1), input="score", n_boot=100)


def test_values_are_those_of_the_calibrators_themselves(made):
    (s, y), (t, ty) = marks(200, 0), marks(300, 1)
    rows = {row["method"]: row["points"] for row in made.content["metrics"]["rows"]}
    assert list(rows) == list(OF_SCORES)
    for name, points in rows.items():
        p = sc.Calibrator(method=name, input="score").fit(s, y).predict_score(t)
        assert points["nll"] == pytest.approx(log_loss(ty, p), rel=1e-9)
        assert points["brier"] == pytest.approx(np.mean((p - ty) ** 2))
        assert points["auroc"] == pytest.approx(roc_auc_score(ty, p))
        assert points["confidence_gap"] == pytest.approx((p - ty).mean())


def test_what_is_counted_is_outcomes(made):
    _, ty = marks(300, 1)
    data, verdict = made.content["data"], made.content["verdict"]
    assert data["test"]["n_errors"] == int((ty == 0).sum())
    assert [entry["metric"] for entry in verdict["changes"]] == ["ece15", "nll"]
    above = verdict["threshold"]["after"]
    p = made_by(made).predict_score(marks(300, 1)[0])
    assert above["n"] == int((p > 0.9).sum())
    assert above["n_wrong"] == int(((p > 0.9) & (ty == 0)).sum())
    (table,) = made.content["groups"]["tables"]
    assert table["by"] == "probability of spline"
    assert sum(row["n_correct"] for row in table["rows"]) == int(ty.sum())


def made_by(report):
    """Return the calibrator that a report recommends, from the file it carries."""
    document = next(
        entry["document"]
        for entry in report.content["artefacts"]
        if entry["method"] == report.recommended
    )
    from smallcal.calibrators.fitted import FittedCalibrator

    return FittedCalibrator.from_dict(document, source="the report")


def test_saved_calibrators_take_scores_and_know_what_these_were(made):
    cal = sc.Calibrator(input="score").fit(*marks(200, 0))
    again = made_by(made)
    assert (again.input, again.score) == ("score", cal.score_)
    assert again.flags == cal.flags_
    np.testing.assert_allclose(again.predict_score([1, 5]), cal.predict_score([1, 5]))


def test_no_word_of_classes(made):
    text = made.to_markdown()
    assert not CLASSES.search(text), CLASSES.search(text)
    for said in ("success rate", "the raw score", "sigmoid((score - mean) / sd)", "log-loss"):
        assert said in text, said
    assert 'input="score"' in text


def test_figures_say_probability_and_are_drawn_again(made):
    pytest.importorskip("matplotlib")
    seen = {spec["id"]: spec for spec in made.content["figures"]}
    assert set(seen) == {
        *("forest-ece15", "forest-nll", "reliability", "confidence-histogram"),
        *("smooth-reliability", "risk-coverage"),
    }
    axes = redraw("reliability", seen["reliability"]["data"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("probability (%)", "success rate (%)")
    axes = redraw("risk_coverage", seen["risk-coverage"]["data"])
    assert axes.get_ylabel() == "failure rate of those kept (%)"
    old = {
        name: {key: value for key, value in row.items() if key != "kind"}
        for name, row in seen["reliability"]["data"].items()
    }
    assert redraw("reliability", old).get_xlabel() == "confidence (%)"


def test_a_record_will_do_and_shifted_sets_take_the_scale_of_the_split():
    s, y = confidences(150, 2)
    preds = Predictions.of(s, y, input="score")
    found = sc.report(
        *(preds, confidences(200, 3)), input="score", n_boot=0, shift={"later": confidences(80, 4)}
    )
    assert found.content["data"]["flags"] == ["score_as_probability"]
    (row,) = found.content["shift"]
    q, u = confidences(80, 4)
    held = np.clip(q, 1e-6, 1 - 1e-6)
    assert row["values"]["none"]["nll"]["value"] == pytest.approx(log_loss(u, held), rel=1e-6)
    assert not CLASSES.search(found.to_markdown())
