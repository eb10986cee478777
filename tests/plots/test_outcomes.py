"""Plots of probabilities of one outcome: what is drawn, and what stands on the axes."""

from __future__ import annotations

import numpy as np
import pytest

import smallcal as sc
from smallcal import plots
from smallcal.metrics.binned import ece
from support.judged import confidences
from support.refused import refused

P, Y = confidences(200, 0)


def test_bins_are_of_the_probability_itself():
    row = plots.reliability_data(Y, P, bins=7)["probs"]  # no edge of theirs is a tenth
    low = (P <= 0.1).sum()
    assert (row.count[0], row.accuracy[0]) == (low, Y[P <= 0.1].mean())
    assert row.kind == "score"
    assert row.ece == pytest.approx(ece(Y, P, bins=7))
    spread = plots.confidence_histogram_data(Y, P)["probs"]
    assert (spread.confidence, spread.accuracy) == (pytest.approx(P.mean()), Y.mean())


def test_those_kept_first_are_the_most_probable():
    row = plots.risk_coverage_data(Y, P, n_boot=20)["probs"]
    assert row.risk[-1] == pytest.approx((Y == 0).mean())


@pytest.mark.parametrize(
    ("plot", "label"),
    [
        ("reliability", "success rate (%)"),
        ("smooth_reliability", "success rate, smoothed (%)"),
        ("risk_coverage", "failure rate of those kept (%)"),
        ("confidence_histogram", "share of samples (%)"),
    ],
)
def test_axes_speak_of_outcomes(plot, label):
    pytest.importorskip("matplotlib")
    axes = getattr(plots, plot)(Y, {"raw": P})
    assert axes.get_ylabel() == label
    assert "confiden" not in axes.get_xlabel()
    assert "accuracy" not in " ".join(text.get_text() for text in axes.get_figure().findobj(_text))


def _text(artist):
    return hasattr(artist, "get_text") and not hasattr(artist, "get_texts")


def test_a_forest_of_scores():
    other = np.clip(0.2 + 0.5 * P, 0, 1)
    found = sc.compare(Y, {"raw": P, "other": other}, baseline="raw", metrics=["nll"], n_boot=100)
    (row,) = plots.forest_data(found, metric="nll").rows
    assert row.label == "other"
    assert row.value < 0


def test_temperatures_of_scores_stand_on_their_probability_and_groups_are_refused():
    cal = sc.Calibrator(method="ts-nll", input="score").fit(P, Y)
    found = plots.temperature_signal_data(cal, P)
    assert found.label == "probability of the raw score (%)"
    np.testing.assert_allclose(found.score, np.clip(P, 1e-6, 1 - 1e-6), rtol=1e-5)
    with refused("method-unsuitable"):
        plots.group_residuals_data(Y, P, calibrator=cal)
