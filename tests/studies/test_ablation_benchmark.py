"""The ablation study's own fits agree with the library's where both can say the same."""

import numpy as np
import pytest

import smallcal as sc
from ablation import SECTIONS, measure, top_label_scores, verdict
from ablation_variants import Case, Part, _laplace, _moderated, others, tails, with_tail
from smallcal.calibrators.objectives import log_odds


@pytest.fixture(scope="module")
def case():
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    return Case(
        Part(cal.logits[:300], cal.labels[:300]), Part(test.logits[:800], test.labels[:800])
    )


def test_scores_from_log_odds_are_those_of_probabilities(case):
    proba = case.chosen.predict_proba(case.test.preds.logits.astype(np.float64))
    odds = case.odds(case.chosen_temperature)
    wanted = sc.evaluate(case.test.preds.labels, proba, metrics=("ece15", "top_label_bce"))
    found = top_label_scores(odds, case.test.gaps.correct)
    assert found == pytest.approx([100 * value for value in wanted.values()], rel=1e-7)


def test_whitened_statistics_under_an_independent_prior_are_the_spread_prior(case):
    found = case.regressed(case.white, scale=0.05)
    assert found == pytest.approx(case.chosen_temperature, rel=1e-5)


def test_the_tail_is_the_librarys(case):
    wanted = case.make("signal-linear+tail").predict_proba(case.test.preds.logits)
    found = dict(tails(case))["one tail temperature, prior 0.25"]
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-7)  # float32 logits


def test_no_tail_is_plain_softmax(case):
    top = case.chosen_temperature
    scaled = case.test.preds.logits / top[:, None]
    plain = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    plain /= plain.sum(axis=1, keepdims=True)
    assert with_tail(case, top, top) == pytest.approx(plain, rel=1e-6, abs=1e-12)


def test_others_leave_out_the_prediction_and_keep_the_label(case):
    preds = case.fit.preds
    rest, wrong = others(preds)
    for row, logits, label in zip(wrong, rest.logits, rest.labels, strict=True):
        assert logits.tolist() == np.delete(preds.logits[row], preds.predicted[row]).tolist()
        assert logits[label] == preds.logits[row, preds.labels[row]]


def test_the_posterior_precision_by_finite_differences(case):
    fitted, likelihood, precision = _laplace(case, 0.05)
    columns, gaps = case.white[0], case.fit.gaps
    theta = np.r_[fitted.intercept, fitted.coefficients]

    def odds(at):
        return log_odds(gaps, np.exp(at[0] + columns @ at[1:]))

    steps = 1e-5 * np.eye(len(theta))
    slopes = np.array([(odds(theta + step) - odds(theta - step)) / 2e-5 for step in steps])
    confidence = 1 / (1 + np.exp(-odds(theta)))
    wanted = (slopes * confidence * (1 - confidence)) @ slopes.T
    wanted += np.diag([1 / 0.05**2] * len(theta))  # both priors have this scale
    assert precision == pytest.approx(wanted, rel=1e-4, abs=1e-3)
    assert np.isfinite(likelihood)


def test_the_closed_form_is_near_the_mean_over_posterior_draws(case):
    plain, mean = case.odds(case.chosen_temperature), case.averaged
    closed = _moderated(case, 0.05)
    moved = np.abs(mean - plain).mean()
    assert moved > 0.005
    # 32 draws are few: what is left is mostly their noise.
    assert np.abs(closed - mean).mean() < moved
    assert (np.abs(closed) <= np.abs(plain) + 1e-6).all()


def test_a_split_without_errors_gives_finite_numbers(case):
    right = np.flatnonzero(case.fit.preds.correct)[:60]
    fit = Part(case.fit.preds.logits[right], case.fit.preds.labels[right])
    with pytest.warns(sc.FitWarning):
        found = measure(Case(fit, case.test))
    assert np.isfinite(list(found.values())).all()


def test_every_section_measures_its_chosen_row_and_gates_as_the_library_does(case):
    found = measure(case)
    for section in SECTIONS:
        assert (section.title, section.chosen) in found
    gated = case.of("signal-linear", gate="evidence")
    wanted = top_label_scores(gated, case.test.gaps.correct)
    assert found["The gate", "the rule kept"] == pytest.approx(wanted, rel=1e-9)
    assert np.isfinite(list(found.values())).all()


def test_a_verdict_is_a_tie_where_the_interval_holds_zero():
    assert verdict(np.array([-1.0, 1.0, -1.0, 1.1])).endswith("tie")
    assert verdict(np.array([1.0, 1.1, 0.9])).endswith("worse")
    assert verdict(np.array([-1.0, -1.1, -0.9])).endswith("better")
    assert verdict(np.zeros(3)) == ""
