"""The risk router against scikit-learn, and every way a split can be too thin for one."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.objectives import Gaps, moments, sigmoid
from smallcal.calibrators.signals import (
    STATISTICS,
    NoSignal,
    Observed,
    Risk,
    Rows,
    crossfit,
    fit_signal,
    statistics,
)
from smallcal.calibrators.signals.crossfit import (
    fit_logistic,
    risks_of_outcomes,
    stratified_folds,
)
from smallcal.calibrators.signals.statistic import LogEntropy
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.refused import refused
from support.simulated import simulate


def with_errors(n, n_wrong, n_classes=6, seed=0):
    """Logits with a chosen number of wrong predictions."""
    z, _ = simulate(n, n_classes, seed=seed)
    y = z.argmax(axis=1)
    y[:n_wrong] = (y[:n_wrong] + 1) % n_classes
    return Predictions.of(z, y)


def signal_of(route, preds, discipline, **options):
    rows = Rows(preds.logits, features=preds.features, labels=preds.labels)
    return fit_signal(route, Observed(preds, rows, discipline), **options)


def sklearn_fit(x, target, C=1.0, weight=None):
    model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    return model.fit(x, target, sample_weight=weight)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_logistic_fit_equals_scikit_learn(C, weighted):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    target = rng.random(300) < 1 / (1 + np.exp(-(x @ rng.normal(size=6) - 1)))
    weight = rng.random(300) if weighted else None
    theta = fit_logistic(
        np.vstack([x.T, np.ones(300)]),
        target,
        C * (np.ones((1, 300)) if weight is None else weight[None]),
    )[0]
    model = sklearn_fit(x, target, C=C, weight=weight)
    np.testing.assert_allclose(theta[:-1], model.coef_[0], rtol=1e-4, atol=1e-6)
    assert theta[-1] == pytest.approx(model.intercept_[0], rel=1e-4, abs=1e-6)


def test_logistic_fit_survives_separable_and_tiny_data():
    x = np.linspace(-1, 1, 20)[:, None] * 1e3
    theta = fit_logistic(np.vstack([x.T, np.ones(20)]), x[:, 0] > 0, np.full((1, 20), 1e6))[0]
    assert np.isfinite(theta).all()
    assert ((x[:, 0] * theta[0] + theta[1] > 0) == (x[:, 0] > 0)).all()


def test_the_gradient_vanishes_at_the_fit():
    rng = np.random.default_rng(1)
    design = np.column_stack([rng.normal(size=(200, 6)), np.ones(200)])
    target = rng.random(200) < 0.03
    theta = fit_logistic(design.T, target, np.ones((1, 200)))[0]
    p = 1 / (1 + np.exp(-design @ theta))
    gradient = design.T @ (p - target) + np.r_[theta[:-1], 0]
    assert np.abs(gradient).max() < 1e-8


def test_out_of_fold_scores_equal_a_plain_cross_fit(split):
    preds = Predictions.of(*split)
    fit = signal_of("risk", preds, Discipline(seed=3))
    stats = statistics(preds.logits)
    x = (stats - stats.mean(axis=0)) / stats.std(axis=0)
    wrong = ~preds.correct
    expected = np.empty(preds.n)
    folds = StratifiedKFold(5, shuffle=True, random_state=3)
    for train, test in folds.split(x, wrong):
        model = sklearn_fit(x[train], wrong[train])
        expected[test] = model.predict_proba(x[test])[:, 1]
    np.testing.assert_allclose(fit.scores, expected, atol=1e-5)
    deployed = sklearn_fit(x, wrong)
    np.testing.assert_allclose(
        fit.signal.scores(Rows(preds.logits)), deployed.predict_proba(x)[:, 1], atol=1e-5
    )
    assert fit.flags == {}


def test_a_subset_of_statistics_makes_a_smaller_router(split):
    preds = Predictions.of(*split)
    fit = signal_of("risk", preds, Discipline(), statistics=("entropy", "top_logit"))
    assert fit.signal.n_parameters == 3
    assert fit.signal.statistics == ("entropy", "top_logit")


@pytest.mark.parametrize("n_wrong", [0, 1, 199, 200])
def test_too_few_wrong_or_right_predictions_give_no_router(n_wrong):
    fit = signal_of("risk", with_errors(200, n_wrong), Discipline())
    assert isinstance(fit.signal, NoSignal)
    assert fit.flags == {"no_router": []}
    shuffled = signal_of("shuffled", with_errors(200, n_wrong), Discipline())
    assert isinstance(shuffled.signal, NoSignal)


@pytest.mark.parametrize("n_wrong", [2, 3, 4, 196, 198])
def test_few_wrong_or_right_predictions_reduce_the_folds(n_wrong):
    fit = signal_of("risk", with_errors(200, n_wrong), Discipline())
    assert isinstance(fit.signal, Risk)
    assert fit.flags == {"fewer_folds": []}
    assert np.isfinite(fit.scores).all()


def test_five_errors_are_enough():
    assert signal_of("risk", with_errors(200, 5), Discipline()).flags == {}


def test_a_constant_statistic_gets_scale_one():
    z = np.tile([[3.0, 0.0]], (100, 1))
    y = (np.arange(100) % 4 == 0).astype(int)
    fit = signal_of("risk", Predictions.of(z, y), Discipline())
    assert fit.signal.scale == (1.0,) * 6
    assert np.isfinite(fit.signal.coef).all()


@pytest.mark.parametrize("route", STATISTICS)
def test_a_single_statistic_is_its_own_score(split, route):
    preds = Predictions.of(*split)
    fit = signal_of(route, preds, Discipline())
    column = statistics(preds.logits)[:, STATISTICS.index(route)]
    np.testing.assert_array_equal(fit.scores, column)
    np.testing.assert_array_equal(fit.signal.scores(Rows(preds.logits)), column)


def test_controls_use_other_random_numbers_for_fitting_and_for_deployment(split):
    preds = Predictions.of(*split)
    fit = signal_of("random", preds, Discipline(seed=1))
    assert not np.array_equal(fit.scores, fit.signal.scores(Rows(preds.logits)))


@pytest.mark.parametrize("route", ["random", "shuffled"])
def test_the_seed_decides_what_a_control_draws(split, route):
    preds = Predictions.of(*split)
    rows = Rows(preds.logits)
    first, again, other = (signal_of(route, preds, Discipline(seed=seed)) for seed in (1, 1, 2))
    for part in ("scores", "deployed"):
        np.testing.assert_array_equal(getattr(first, part), getattr(again, part))
        assert (getattr(first, part) != getattr(other, part)).mean() > 0.9
    assert (first.signal.scores(rows) != other.signal.scores(rows)).mean() > 0.9


def test_an_unknown_signal_is_refused(split):
    with refused("unknown-choice", "'margin'"):
        signal_of("margin", Predictions.of(*split), Discipline())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2; got 1"),
        ({"C": 0.0}, "C must be positive; got 0"),
        ({"C": float("nan")}, "C must be positive; got nan"),
        ({"min_group_size": 0}, "min_group_size must be a whole number of at least 1; got 0"),
        ({"bounds": (2.0, 1.0)}, "0 < low < high"),
        ({"bounds": (0.0, 1.0)}, "0 < low < high"),
    ],
)
def test_bad_discipline_is_refused(option, message):
    with pytest.raises(InputError, match=message):
        Discipline(**option)


def test_statistics_of_a_split_are_those_of_its_rows(split):
    preds = Predictions.of(*split)
    gaps = Gaps.of(preds)
    got = Observed.of(preds, gaps, moments(gaps, 1.0), Discipline()).rows.statistics
    np.testing.assert_allclose(got.T, statistics(preds.logits), rtol=1e-10, atol=1e-13)


def newton_steps(monkeypatch, design, target, weights):
    """Count the Newton steps of a fit."""
    steps = []
    plain = crossfit.Logistic.step
    with monkeypatch.context() as patch:
        patch.setattr(crossfit.Logistic, "step", lambda *args: steps.append(1) or plain(*args))
        fit_logistic(design, target, weights)
    return len(steps)


@pytest.mark.parametrize("seed", range(8))
def test_a_problem_that_has_converged_does_not_hold_up_a_hard_one(seed, monkeypatch):
    """Rounding noise at one minimum must not cost the other, nearly separable problem steps."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=300)
    target = (x > 0) ^ (rng.random(300) < 0.3)
    design = np.vstack([x, np.ones(300)])
    easy, hard = np.ones(300), np.where(target == (x > 0), 1e6, 0.0)
    alone = newton_steps(monkeypatch, design, target, hard[None])
    together = newton_steps(monkeypatch, design, target, np.vstack([easy, hard]))
    assert together <= alone + 5


def test_several_weightings_at_once_are_each_alone():
    rng = np.random.default_rng(3)
    design = np.vstack([rng.normal(size=(3, 80)), np.ones(80)])
    target = rng.random(80) < 0.3
    weights = rng.random((4, 80))
    together = fit_logistic(design, target, weights)
    for row, theta in zip(weights, together, strict=True):
        np.testing.assert_allclose(fit_logistic(design, target, row[None])[0], theta, atol=1e-7)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("n", "n_folds"), [(57, 2), (100, 5), (251, 5), (2500, 7)])
def test_folds_are_those_of_scikit_learn(n, n_folds, share):
    for seed in range(5):
        target = np.random.default_rng(seed).random(n) < share
        target[: 2 * n_folds : 2], target[1 : 2 * n_folds : 2] = True, False
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        expected = np.empty(n, dtype=int)
        for fold, (_, test) in enumerate(folds.split(np.zeros(n), target)):
            expected[test] = fold
        np.testing.assert_array_equal(stratified_folds(target, n_folds, seed), expected)


def test_the_logit_scale_is_the_log_odds_of_the_risk(split):
    preds = Predictions.of(*split)
    plain = signal_of("risk", preds, Discipline())
    logit = signal_of("risk", preds, Discipline(), scale="logit")
    for one, two in ((plain.scores, logit.scores), (plain.deployed, logit.deployed)):
        np.testing.assert_allclose(np.log(one / (1 - one)), two, rtol=1e-9)
    with refused("unknown-choice", "'log'"):
        signal_of("risk", preds, Discipline(), scale="log")


@pytest.mark.parametrize("route", ["signed_residual", "absolute_residual"])
def test_residual_scores_equal_a_plain_cross_fitted_ridge(split, route):
    preds = Predictions.of(*split)
    fit = signal_of(route, preds, Discipline(seed=3))
    stats = statistics(preds.logits)
    target = preds.correct - stats[:, 0]
    target = np.abs(target) if route == "absolute_residual" else target
    x = (stats - stats.mean(axis=0)) / stats.std(axis=0)
    expected = np.empty(preds.n)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=3).split(x, ~preds.correct):
        model = Ridge(alpha=1.0).fit(x[train], target[train])
        expected[test] = model.predict(x[test])
    np.testing.assert_allclose(fit.scores, expected, atol=1e-8)
    np.testing.assert_allclose(fit.deployed, Ridge(alpha=1.0).fit(x, target).predict(x), atol=1e-8)


@pytest.mark.parametrize(("route", "width"), [("feature_risk", 40), ("feature_logit_risk", 52)])
def test_feature_risk_equals_a_plain_cross_fit(split, route, width):
    z, y = split
    features = np.random.default_rng(0).normal(size=(600, 40))
    preds = Predictions.of(z, y, features=features)
    fit = signal_of(route, preds, Discipline(seed=3))
    x = np.hstack([features, z]) if "logit" in route else features
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    expected = np.empty(600)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=3).split(x, ~preds.correct):
        expected[test] = sklearn_fit(x[train], ~preds.correct[train]).predict_proba(x[test])[:, 1]
    np.testing.assert_allclose(fit.scores, expected, atol=1e-4)
    assert fit.signal.n_parameters == width + 1
    assert fit.signal.n_features == 40


def test_many_columns_and_few_are_the_same_problem():
    rng = np.random.default_rng(3)
    design = np.vstack([rng.normal(size=(5, 200)), np.ones(200)])
    target = rng.random(200) < 0.3
    weight = rng.random(200) * (rng.random(200) < 0.8)
    newton = fit_logistic(design, target, weight[None])[0]
    np.testing.assert_allclose(crossfit._many_columns(design, target, weight), newton, atol=1e-4)


def test_oracles_read_the_answer(split):
    preds = Predictions.of(*split)
    p = np.exp(preds.logits - preds.logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    risk = signal_of("oracle_risk", preds, Discipline())
    np.testing.assert_allclose(risk.scores, 1 - p[np.arange(preds.n), preds.labels], atol=1e-12)
    correctness = signal_of("oracle_correctness", preds, Discipline())
    np.testing.assert_array_equal(correctness.scores, ~preds.correct)
    assert correctness.thresholds == (0.5,)


def test_single_signals_by_hand(split):
    preds = Predictions.of(*split)
    stats = statistics(preds.logits)
    entropy = signal_of("log_entropy", preds, Discipline()).scores
    np.testing.assert_allclose(entropy, np.log(stats[:, 3] / np.log(12)), rtol=1e-10)
    rank = signal_of("confidence_rank", preds, Discipline()).scores
    expected = [1 - np.mean(stats[:, 0] <= c) for c in stats[:, 0]]
    np.testing.assert_allclose(rank, expected, atol=1e-12)
    margin = signal_of("standardised_margin", preds, Discipline()).scores
    assert margin.mean() == pytest.approx(0, abs=1e-12)
    assert margin.std() == pytest.approx(1)
    certain = Rows(np.array([[1000.0, 0.0]]))
    assert np.isfinite(LogEntropy(2).scores(certain)).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_routers_of_many_outcomes_are_those_of_each_alone(weighted):
    rng = np.random.default_rng(0)
    z, y = simulate(150, 5, seed=1)
    weight = rng.uniform(0.5, 2.0, size=150) if weighted else None
    preds = Predictions.of(z, y, weight=weight)
    gaps = Gaps.of(preds)
    seen = Observed.of(preds, gaps, moments(gaps, 1.0), Discipline(seed=4))
    shares = np.array([0.5, 0.3, 0.02, 0.9, *np.full(30, 0.4)])
    wrong = rng.random((34, 150)) < shares[:, None]
    wrong[4], wrong[5] = False, False
    wrong[5, 7] = True  # one error: too few to learn from, as none
    wrong[6] = False
    wrong[6, :3] = True  # three: as many folds
    found = risks_of_outcomes(seen, seen.rows.columns(STATISTICS), wrong)
    for outcome, risks in zip(wrong, found, strict=True):
        other = (preds.predicted + 1) % 5
        labels = np.where(outcome, other, preds.predicted)
        alone = fit_signal("risk", replace(seen, preds=replace(preds, labels=labels)))
        if alone.signal.kind == "none":
            assert np.isnan(risks).all()
        else:
            np.testing.assert_allclose(sigmoid(risks), alone.scores, rtol=1e-6)
    assert np.isnan(found).all(axis=1).sum() == 2
