"""The study of decisions: what it takes for the truth is the truth."""

from __future__ import annotations

import numpy as np
import pytest

import decisions_real
import decisions_study
import smallcal as sc
from smallcal.advice.prediction_sets import prediction_sets
from support.cases import fit

POPULATION = decisions_study.uneven()
CAL = fit("tva-ts", *POPULATION.draw(np.random.default_rng(0), 500)).fitted_


def test_labels_are_drawn_by_their_chances():
    rows, labels = POPULATION.draw(np.random.default_rng(1), 200_000)
    shares = np.bincount(labels, minlength=10) / len(labels)
    np.testing.assert_allclose(shares, POPULATION.chances.mean(axis=0), atol=0.005)
    assert rows.shape == (200_000, 10)


@pytest.mark.parametrize("score", ["lac", "raps"])
@pytest.mark.parametrize("per_class", [False, True])
def test_coverage_is_that_of_the_sets(score, per_class):
    weight = {"penalty": 0.05, "k_reg": 2} if score == "raps" else {"penalty": 0.0, "k_reg": 0}
    drawn = POPULATION.draw(np.random.default_rng(2), 2000)
    made = prediction_sets(CAL, *drawn, score=score, per_class=per_class, empty=True, **weight)
    inside = made.predict(POPULATION.rows)
    found, each = decisions_study.covered_by(POPULATION, CAL, score, **weight)(made.rule.quantiles)
    true = (inside * POPULATION.chances).sum(axis=0)
    assert found == pytest.approx(true.sum() / len(inside), abs=1e-6)
    np.testing.assert_allclose(each, true / POPULATION.chances.sum(axis=0), atol=1e-6)


def test_a_rate_beyond_the_risk_is_seen_in_any_class():
    drawn = POPULATION.draw(np.random.default_rng(3), 4000)
    rule = sc.certify(CAL, *drawn, risk=0.3, by="class").calibrator.decisions[0]
    sure, claimed = CAL.claims(CAL.predict_proba(POPULATION.rows), POPULATION.rows)
    wrong = 1 - POPULATION.chances[np.arange(len(sure)), claimed]
    rates = [
        wrong[(claimed == code) & (sure >= level)].mean()
        for code, level in enumerate(rule.thresholds)
        if level is not None
    ]
    assert len(rates) > 1
    for risk in (max(rates) - 1e-9, max(rates) + 1e-9):
        told, share = decisions_study.beyond(rule, risk, sure, claimed, wrong)
        assert told == (max(rates) > risk)
        assert share == rule.accept(sure, claimed).mean()


def test_test_rows_are_checked_against_the_risk():
    accepted, right = np.arange(100) < 50, np.arange(100) % 10 > 0
    share, rate, beyond, surely = decisions_real.checked(accepted, right, 0.05)
    assert (share, rate, beyond, surely) == (0.5, 0.1, True, False)
    assert decisions_real.checked(accepted, ~right, 0.05)[2:] == (True, True)


def test_a_part_can_be_run_alone(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["study", "--repeats", "40", "--only", "watch", "--jobs", "1"])
    assert decisions_study.main() == 0
    out = capsys.readouterr().out
    assert "| 2 | 4 |" in out
    assert "Every promise was kept" in out
