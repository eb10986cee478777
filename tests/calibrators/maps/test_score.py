"""Maps of one number: against plain references, known truths, and in hard places."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

import smallcal as sc
from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.maps import score_fit
from smallcal.calibrators.maps.score import (
    ScoreCurve,
    fit_score_curve,
    fitted_curve,
    half_way,
    rising_values,
)
from smallcal.calibrators.maps.score_fit import BASES, Sample, averaged, fit_posterior
from smallcal.calibrators.maps.temperature import split_of
from smallcal.data.predictions import Predictions
from smallcal.deploy.export.translate import program_of
from smallcal.errors import InputError
from support.cases import fit
from support.program_numpy import run
from support.refused import refused

NAMES = ("spline", "platt", "beta", "ts-shrunk")


def drawn(n, *, slope=0.7, level=0.4, seed=0, spread=2.0):
    """Scores whose true log-odds are a line."""
    rng = np.random.default_rng(seed)
    x = spread * rng.normal(size=n)
    return x, rng.random(n) < expit(slope * x + level)


def sample_of(x, hit, weight=None):
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, dtype=float)
    return Sample(np.asarray(x, dtype=float), np.asarray(hit, dtype=bool), weight)


def curve_of(x, hit, basis="spline", weight=None):
    return fitted_curve(sample_of(x, hit, weight), basis)[0]


def columns(x):
    return np.column_stack([np.zeros(len(x)), x])


# The fit of the weights.


@pytest.mark.parametrize("make", dict.fromkeys(make for each in BASES.values() for make in each))
def test_each_fit_is_the_minimum_that_a_general_search_finds(make):
    x, hit = drawn(60, seed=3)
    weight = np.random.default_rng(1).integers(1, 4, size=60)
    sample = sample_of(x, hit, weight)
    basis = make(sample)
    found, X = fit_posterior(sample, basis), basis.columns(x)
    for k, scale in enumerate(basis.scales):

        def loss(w, scale=scale):
            z = w @ X
            data = weight @ (np.logaddexp(0, z) - hit * z)
            return data + 0.5 * (((w - basis.centre) / scale) ** 2).sum()

        # In units of the prior, and not below 0 where that is forbidden.
        bounds = [
            (-basis.centre[i] / scale[i] if i in basis.positive else None, None)
            for i in range(len(scale))
        ]
        plain = minimize(
            lambda t, scale=scale, loss=loss: loss(basis.centre + scale * t),
            np.zeros(len(scale)),
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000},
        )
        assert loss(found.weights[k]) <= plain.fun + 1e-6
        np.testing.assert_allclose(
            found.weights[k] @ X, (basis.centre + scale * plain.x) @ X, atol=2e-3
        )


def test_weights_of_a_beta_map_are_never_negative():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    hit = rng.random(300) < expit(2 * np.abs(x) - 1)  # falls on the left
    found = fit_posterior(sample_of(x, hit), score_fit.beta_basis(sample_of(x, hit)))
    assert found.weights[:, :2].min() > -1e-5
    assert (found.weights[:, :2].min(axis=1) < 1e-5).all()


def test_mean_and_evidence_are_those_of_numerical_integration():
    x, hit = drawn(30, spread=1.0)
    sample = sample_of(x, hit)
    basis = score_fit.line_basis(sample)
    found = fit_posterior(sample, basis)
    at = np.array([-2.0, 0.0, 1.0, 3.0])
    evidence, mean = [], []
    for scale in basis.scales:
        grid = [c + s * np.linspace(-6, 6, 241) for c, s in zip(basis.centre, scale, strict=True)]
        w = np.stack(np.meshgrid(*grid, indexing="ij")).reshape(2, -1)
        z = w.T @ basis.columns(x)
        log_prior = -0.5 * (((w.T - basis.centre) / scale) ** 2).sum(axis=1)
        log_prior -= np.log(2 * np.pi * scale.prod())
        log_like = (hit * z - np.logaddexp(0, z)).sum(axis=1)
        cell = math.prod(each[1] - each[0] for each in grid)
        mass = np.exp(log_prior + log_like) * cell
        evidence.append(np.log(mass.sum()))
        mean.append(mass @ expit(w.T @ basis.columns(at)) / mass.sum())
    # Laplace's evidence counts up to a constant here; differences are what matters.
    np.testing.assert_allclose(np.diff(found.evidence), np.diff(evidence), atol=0.35)
    np.testing.assert_allclose(found.probabilities(at), mean, atol=0.03)
    share = np.exp(evidence - np.max(evidence))
    exact = share / share.sum() @ np.array(mean)
    np.testing.assert_allclose(averaged([found], [found.probabilities(at)]), exact, atol=0.02)


def test_a_prior_trusted_less_counts_less():
    sample = sample_of(*drawn(50))
    line = score_fit.line_basis(sample)
    one, other = fit_posterior(sample, line), fit_posterior(sample, line._replace(trust=0.25))
    values = [np.zeros(len(line.scales)), np.ones(len(line.scales))]
    assert averaged([one, other], values) == pytest.approx(0.2)


# Known truths.


@pytest.mark.parametrize("name", NAMES)
def test_many_samples_find_the_truth(name):
    level = 0.0 if name == "ts-shrunk" else 0.4
    x, hit = drawn(20_000, level=level)
    cal = fit(name, columns(x), hit.astype(int))
    at = np.linspace(-5, 5, 41)
    found = cal.predict_proba(columns(at))[:, 1]
    np.testing.assert_allclose(found, expit(0.7 * at + level), atol=0.02)
    assert cal.flags_ == {}


def test_with_many_samples_platt_is_the_plain_line():
    x, hit = drawn(20_000)
    plain = LogisticRegression(C=np.inf).fit(x[:, None], hit).predict_proba(x[:, None])[:, 1]
    np.testing.assert_allclose(curve_of(x, hit, "line").probability(x), plain, atol=2e-3)


def test_a_spline_bends_where_the_truth_does_and_a_line_cannot():
    rng = np.random.default_rng(0)
    x = 2 * rng.normal(size=20_000)
    truth = 0.3 + 0.6 * expit(4 * x)
    hit = rng.random(20_000) < truth
    error = {b: np.abs(curve_of(x, hit, b).probability(x) - truth).mean() for b in BASES}
    assert error["spline"] < 0.02 < 0.05 < error["line"]


@pytest.mark.parametrize("n", [100, 400])
def test_what_is_calibrated_already_is_left_all_but_alone(n):
    moved = {"spline": [], "line": []}
    for seed in range(20):
        x, hit = drawn(n, slope=1.0, level=0.0, seed=seed)
        for basis, each in moved.items():
            each.append(np.abs(curve_of(x, hit, basis).probability(x) - expit(x)).mean())
    assert np.mean(moved["spline"]) < 0.75 * np.mean(moved["line"])


def test_scores_that_are_no_log_odds_are_not_taken_as_they_are():
    x, hit = drawn(40, slope=1.0, level=0.0, spread=1.0)
    marks = sc.Calibrator(input="score").fit(100 + 7 * x, hit).predict_score(100 + 7 * x)
    x = (x - x.mean()) / x.std()
    plain = fitted_curve(sample_of(x, hit), "spline", as_is=False)[0].probability(x)
    np.testing.assert_allclose(marks, plain, atol=1e-9)
    assert np.abs(plain - curve_of(x, hit).probability(x)).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_falling_relation_is_found_and_said(name):
    x, hit = drawn(300)
    cal = fit(name, columns(-x), hit.astype(int))
    assert "falling" in cal.flags_
    assert "fewer successes" in cal.fitted_.flag_text("falling")
    assert np.diff(cal.fitted_.map.log_odds).max() <= 0
    rises = curve_of(x, hit, {"platt": "line", "ts-shrunk": "slope"}.get(name, name))
    if name != "spline":  # which may take rising scores as they are
        np.testing.assert_allclose(
            cal.predict_proba(columns(-x))[:, 1], rises.probability(x), rtol=1e-6
        )


def test_a_score_that_tells_nothing_is_not_said_to_fall():
    rng = np.random.default_rng(0)
    said = 0
    for _ in range(100):
        x, hit = rng.normal(size=60), rng.random(60) < 0.6
        curve, flags = fitted_curve(sample_of(x, hit), "spline")
        said += "falling" in flags
        assert 0.25 < curve.probability(np.zeros(1))[0] < 0.9
    assert said <= 4


# Steps, and exact 0 and 1.

#: A judge of few values: its marks, how often each occurs, and how often it is right.
MARKS = np.array([0.0, 0.6, 0.8, 0.9, 0.95, 1.0])
OFTEN = np.array([0.2, 0.05, 0.25, 0.2, 0.2, 0.1])
RIGHT = np.array([0.05, 0.1, 0.15, 0.8, 0.85, 0.9])


def judged(n, seed=0):
    rng = np.random.default_rng(seed)
    which = rng.choice(len(MARKS), n, p=OFTEN)
    return MARKS[which], rng.random(n) < RIGHT[which]


def fit_scores(scores, hit, name="spline", **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.Calibrator(method=name, input="score").fit(scores, hit, **more)


def plain_steps(t, hit, at, slopes, steps):
    """A line and steps between distinct values by a general search: the averaged probability."""
    values, (mean, spread) = np.unique(t), (t.mean(), t.std())

    def columns(x):
        passed = [x > cut for cut in (values[1:] + values[:-1]) / 2]
        return np.stack([(x - mean) / spread, np.ones(len(x)), *(np.array(passed) - 0.5)])

    X, centre = columns(t), np.append(0.5, np.zeros(len(values)))
    evidence, said = [], []
    for slope in slopes:
        for step in steps:
            scale = np.array([slope, 3.0, *[step] * (len(values) - 1)])

            def loss(w, scale=scale):
                z = w @ X
                data = (np.logaddexp(0, z) - hit * z).sum()
                slope = X @ (expit(z) - hit) + (w - centre) / scale**2
                return data + 0.5 * (((w - centre) / scale) ** 2).sum(), slope

            found = minimize(loss, centre, jac=True, method="BFGS", options={"gtol": 1e-8})
            p = expit(found.x @ X)
            curvature = (X * p * (1 - p)) @ X.T + np.diag(1 / scale**2)
            # The volume of the posterior over that of the prior.
            volume = np.linalg.slogdet(curvature * np.outer(scale, scale))[1]
            evidence.append(-found.fun - 0.5 * volume)
            C = columns(at)
            variance = np.einsum("pm,pq,qm->m", C, np.linalg.inv(curvature), C)
            said.append(expit(found.x @ C / np.sqrt(1 + np.pi * variance / 8)))
    share = np.exp(np.array(evidence) - max(evidence))
    return share / share.sum() @ np.array(said)


def test_line_and_steps_are_what_a_plain_search_finds():
    scores, hit = judged(150)
    t = logit(np.clip(scores, 0.3, 0.975))  # half-way from 0 to .6, and from .95 to 1
    at = np.unique(t)
    found = score_fit.posterior_mean(sample_of(t, hit), (score_fit.stepped_basis,), at)
    grid = score_fit.SLOPE_SCALES, score_fit.STEP_SCALES
    np.testing.assert_allclose(found, plain_steps(t, hit, at, *grid), atol=2e-4)


def test_steps_of_the_truth_are_found_where_bends_are_not_enough():
    def error(name, n):
        miss = []
        for seed in range(10):
            p = fit_scores(*judged(n, seed), name).predict_score(MARKS)
            miss.append(OFTEN @ np.abs(p - RIGHT))
        return np.mean(miss)

    assert error("spline", 250) < 0.05 < error("beta", 250) / 3
    assert error("spline", 1000) < 1.1 * error("venn-abers", 1000)
    # More rows than are taken one by one: values that repeat stay apart.
    assert error("spline", 20_000) < 0.008


def test_what_lies_between_two_steps_lies_between_their_probabilities():
    cal = fit_scores(*judged(2000))
    seen = cal.predict_score(MARKS)
    np.testing.assert_allclose(seen, RIGHT, atol=0.06)
    between = cal.predict_score((MARKS[1:] + MARKS[:-1]) / 2)
    assert ((seen[:-1] <= between) & (between <= seen[1:])).all()
    assert ((seen[1:4] < between[1:4]) & (between[1:4] < seen[2:5])).all()  # the ends reach inwards
    many = cal.predict_score(np.linspace(0.8, 0.9, 101))
    assert np.diff(many).max() < 0.03  # no cliff


def test_an_exact_end_counts_as_half_way_from_the_nearest_other_score():
    assert expit(half_way(logit([0.2, 0.9]))) == pytest.approx([0.1, 0.95])
    clipped = logit(np.clip([0.0, 0.2, 0.9, 1.0], 1e-6, 1 - 1e-6))
    assert half_way(clipped) == half_way(clipped[1:3])
    assert expit(half_way(clipped[[0, 3]])) == pytest.approx([0.25, 0.75])  # nothing between
    scores, hit = judged(300)
    moved = np.where(scores == 1, 0.975, np.where(scores == 0, 0.3, scores))
    one, other = fit_scores(scores, hit), fit_scores(moved, hit)
    at = np.append(MARKS, [0.7, 0.85])
    # 0.3 itself would have another half-way place: only what lies beyond may differ.
    inside = np.where(at == 1, 0.975, np.where(at == 0, 0.3, at))
    np.testing.assert_allclose(one.predict_score(at), other.predict_score(inside), atol=2e-3)
    np.testing.assert_array_equal(one.predict_score([0.975]), one.predict_score([1.0]))
    # Other methods leave the ends where they are.
    line = fit_scores(scores, hit, "platt").fitted_.map
    assert line.at[0] < logit(1e-6) < logit(1 - 1e-6) < line.at[-1]


EXACT = float(logit(1 - 1e-6))


@given(
    st.lists(
        st.one_of(st.floats(-EXACT, EXACT), st.sampled_from([-EXACT, EXACT, 3.0])),
        min_size=12,
        max_size=12,
    ),
    st.sampled_from(["split", "all", "none", "score"]),
)
@settings(max_examples=80, deadline=None)
def test_twelve_samples_never_make_an_exact_end_all_but_certain(x, truth):
    """At most 0.99: twelve of twelve still leave a rate of 0.78 possible at 5 %."""
    x = np.array(x)
    hit = {"split": x > np.median(x), "all": x > -99, "none": x > 99, "score": x > 0}[truth]
    curve, _ = fitted_curve(sample_of(x, hit), "spline", limits=half_way(x))
    assert np.abs(curve.probability(np.array([-EXACT, EXACT])) - 0.5).max() < 0.49


def test_an_end_that_no_sample_had_is_not_extrapolated():
    scores, hit = np.linspace(0.3, 0.95, 12), np.arange(12) >= 5
    cal = fit_scores(scores, hit)
    p = cal.predict_score([0.95, 0.975, 0.999, 1.0])
    assert p[0] <= p[1] == p[2] == p[3] < 0.95


@pytest.mark.parametrize("kind", ["few", "many"])
def test_the_order_of_rows_is_nothing_and_a_copy_is_a_weight(kind):
    scores, hit = judged(80)
    if kind == "many":
        scores = np.random.default_rng(1).random(80)
    at, rows = np.linspace(0, 1, 41), np.random.default_rng(0).permutation(80)
    plain = fit_scores(scores, hit).predict_score(at)
    assert (np.diff(plain) >= 0).all()
    np.testing.assert_array_equal(fit_scores(scores[rows], hit[rows]).predict_score(at), plain)
    times = np.random.default_rng(2).integers(0, 4, size=80)
    copies = fit_scores(scores.repeat(times), hit.repeat(times)).predict_score(at)
    weighted = fit_scores(scores, hit, sample_weight=times).predict_score(at)
    np.testing.assert_allclose(weighted, copies, atol=1e-6)


def test_a_search_whose_decrement_grows_is_ended_by_the_loss():
    """Scores far out, of which one is wrong: without a line search Newton stood still here."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.append(rng.normal(size=29), -13.8)
        sample = sample_of(x, rng.random(30) < 0.5, 10.0 ** rng.integers(-2, 6, size=30))
        basis = score_fit.line_basis(sample)
        found = fit_posterior(sample, basis)
        for w, scale in zip(found.weights, basis.scales, strict=True):
            slope = basis.columns(x) @ (
                sample.weight * (expit(w @ basis.columns(x)) - sample.outcome)
            )
            slope += (w - basis.centre) / scale**2
            assert np.abs(slope).max() < 1e-3 * sample.weight.max()


# Hard places.


@pytest.mark.parametrize("basis", BASES)
def test_equal_scores_get_the_base_rate(basis):
    curve, flags = fitted_curve(sample_of(np.full(50, 3.0), np.arange(50) < 20), basis)
    assert list(flags) == ["constant_score"]
    np.testing.assert_allclose(curve.probability(np.array([-9.0, 3.0, 9.0])), 0.4, atol=0.01)


@pytest.mark.parametrize("n", [5, 10, 30, 1000])
@pytest.mark.parametrize("outcome", [False, True])
@pytest.mark.parametrize("basis", BASES)
def test_one_outcome_alone_is_never_certain(basis, outcome, n):
    x, _ = drawn(n)
    curve, flags = fitted_curve(sample_of(x, np.full(n, outcome)), basis)
    assert "one_outcome" in flags
    p = curve.probability(np.linspace(-50, 50, 101))
    assert ((p > 0) & (p < 1)).all()
    if basis != "slope":  # which knows no level
        rate = curve.probability(x).mean()
        assert (rate if outcome else 1 - rate) > 1 - 5 / n


@pytest.mark.parametrize("name", [*NAMES, "venn-abers"])
def test_ten_samples_are_fitted_and_few_are_told(name):
    x, hit = drawn(10)
    cal = fit(name, columns(x), hit.astype(int))
    assert np.isfinite(cal.predict_proba(columns(x))).all()
    assert ("few_samples" in cal.flags_) == (name in ("spline", "platt", "beta"))
    method = METHODS[name]
    five = method.fit(Predictions.of(columns(x[:5]), hit[:5].astype(int)))
    assert "few_samples" in five.flags
    assert np.isfinite(five.predict_proba(columns(x))).all()


@pytest.mark.parametrize("basis", BASES)
def test_ties_at_both_ends(basis):
    rng = np.random.default_rng(0)
    x = logit(np.clip(np.round(rng.beta(0.2, 0.2, size=200), 1), 1e-6, 1 - 1e-6))
    hit = rng.random(200) < 0.3 + 0.4 * expit(x)
    p = curve_of(x, hit, basis).probability(np.unique(x))
    assert (np.diff(p) >= 0).all()
    assert 0 < p[0] <= p[-1] < 1


def test_more_classes_are_refused_in_one_line():
    z = np.random.default_rng(0).normal(size=(40, 3))
    for name in (*NAMES, "venn-abers"):
        with refused("method-unsuitable", "3"):
            sc.make(name).fit(z, [0, 1] * 20)
    with refused("unknown-choice", "'lines'", "'line'"):
        fit_score_curve(split_of(z[:, :2], [0, 1] * 20), basis="lines")


@pytest.mark.parametrize("basis", BASES)
def test_neighbours_taken_together_change_nothing_to_speak_of(basis):
    x, hit = drawn(9000)
    sample = sample_of(x, hit, np.random.default_rng(0).random(9000) + 0.5)
    few = sample.grouped()
    assert len(few.x) < 4200
    assert few.weight.sum() == pytest.approx(sample.weight.sum())
    at = np.linspace(-6, 6, 50)
    one, other = (fitted_curve(each, basis)[0].probability(at) for each in (sample, few))
    np.testing.assert_allclose(one, other, atol=2e-3)


# The curve.


@given(
    st.lists(st.floats(-50, 50), min_size=5, max_size=40),
    st.integers(0, 2**32 - 1),
    st.sampled_from(list(BASES)),
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_scores_the_curve_is_monotone_and_the_outcomes_can_be_swapped(x, seed, basis):
    x = np.array(x)
    hit = np.random.default_rng(seed).random(len(x)) < 0.5
    at = np.linspace(-120, 120, 99)
    p = curve_of(x, hit, basis).probability(at)
    assert ((p > 0) & (p < 1)).all()
    step = np.diff(p)
    assert (step >= 0).all() or (step <= 0).all()
    swapped = curve_of(-x, ~hit, basis).probability(-at)
    np.testing.assert_allclose(swapped, 1 - p, atol=1e-6)


def knots():
    number = st.floats(-1e4, 1e4)
    return st.lists(st.tuples(number, number), min_size=1, max_size=30, unique_by=lambda p: p[0])


def test_knots_whose_slope_is_no_number_are_refused():
    with pytest.raises(InputError, match="too close together"):
        ScoreCurve((0.0, 2.2250738585e-313), (0.0, 1.0), 2)


@given(knots(), st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=20), st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_curve_is_straight_between_its_knots_in_every_form(pairs, x, falling):
    at = np.sort([a for a, _ in pairs])
    odds = np.sort([b / 1e3 for _, b in pairs])[:: -1 if falling else 1]
    assume((np.diff(at) > 1e-290).all())
    curve = ScoreCurve(tuple(at), tuple(odds), 2)
    x = np.concatenate([x, at])
    expected = expit(np.interp(x, at, odds))
    np.testing.assert_allclose(curve.probability(x), expected, atol=1e-9)
    np.testing.assert_allclose(curve.probabilities(columns(x), x)[:, 1], expected, atol=1e-9)
    fitted = fit("platt", columns(np.arange(20.0)), [0, 1] * 10).fitted_
    found, _ = run(program_of(replace(fitted, map=curve)), columns(x))
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-6)


def test_crowded_knots_take_the_finer_table_or_none():
    for scale, cells in ((0.0, 2**12), (8.0, 2**12), (9.0, 2**16), (12.0, None)):
        at = np.unique(np.sinh(scale * np.linspace(-1, 1, 60)) if scale else np.arange(60.0))
        curve = ScoreCurve(tuple(at), tuple(np.linspace(-3, 3, len(at))), 2)
        made = curve._segments
        assert (made is None) if cells is None else len(made.table) == cells
        x = np.concatenate([at, np.linspace(at[0] * 1.1 - 1, at[-1] * 1.1 + 1, 1001)])
        np.testing.assert_allclose(curve.curve(x), np.interp(x, at, curve.log_odds), atol=1e-12)


def test_float32_scores_get_what_float64_ones_get():
    x, hit = drawn(200)
    curve, x = curve_of(x, hit), x.astype(np.float32)
    np.testing.assert_array_equal(curve.probability(x), curve.probability(x.astype(float)))


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0.1, 5)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_rising_values_are_isotonic_regression(pairs):
    values, weight = np.array(pairs).T
    plain = isotonic_regression(values, sample_weight=weight)
    np.testing.assert_allclose(rising_values(values, weight), plain, atol=1e-9)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (((), (), 1), "one at least"),
        (((0.0, 1.0), (0.0,), 1), "got 2 and 1"),
        (((0.0, 0.0), (0.0, 1.0), 1), "ascending"),
        (((-1.7e308, 1.7e308), (0.0, 1.0), 1), "ascending"),
        (((0.0, 1.0, 2.0), (0.0, 1.0, 0.5), 1), "rise, or fall"),
        (((0.0, np.nan), (0.0, 1.0), 1), "finite"),
        (((0.0, 1.0), (0.0, 1.0), -1), "not below 0"),
    ],
)
def test_a_damaged_curve_is_refused(parts, message):
    with pytest.raises(InputError, match=message):
        ScoreCurve(*parts)
