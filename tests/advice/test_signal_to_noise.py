"""Does miscalibration depend on a signal: against plain loops, closed forms and known truth."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import smallcal as sc
from smallcal.advice.signal_to_noise import DEFAULT_SIGNALS, SignalRow, SignalToNoise
from smallcal.advice.slopes import Slopes
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.refused import refused
from support.simulated import simulate


def loss(z, y, temperature):
    """Top-label BCE of each row, the naive way."""
    p = np.exp(z / temperature - np.logaddexp.reduce(z / temperature, axis=1)[:, None])
    top = p[np.arange(len(z)), z.argmax(axis=1)]
    return -np.log(np.where(z.argmax(axis=1) == y, top, 1 - top))


def statistics(z):
    p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
    ordered, raw = np.sort(p, axis=1), np.sort(z, axis=1)
    return {
        "confidence": ordered[:, -1],
        "logit_margin": raw[:, -1] - raw[:, -2],
        "prob_margin": ordered[:, -1] - ordered[:, -2],
        "entropy": -(p * np.log(p)).sum(axis=1),
        "logit_norm": np.linalg.norm(z, axis=1),
        "top_logit": raw[:, -1],
    }


def out_of_fold_risk(z, y):
    table = np.column_stack(list(statistics(z).values()))
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    wrong = z.argmax(axis=1) != y
    scores = np.empty(len(z))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for training, held_out in folds.split(table, wrong):
        model = LogisticRegression(tol=1e-8, max_iter=2000).fit(table[training], wrong[training])
        scores[held_out] = model.predict_proba(table[held_out])[:, 1]
    return scores


def anova(slope, group):
    groups = [slope[group == k] for k in np.unique(group)]
    between = sum(len(part) * (part.mean() - slope.mean()) ** 2 for part in groups) / len(slope)
    within = sum(((part - part.mean()) ** 2).sum() for part in groups) / len(slope)
    return between, within


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_every_row_equals_a_plain_anova_of_finite_differences(n_groups):
    z, y = simulate(700, 8, seed=3)
    table = sc.signal_to_noise(z, y, n_groups=n_groups, n_null=0)
    temperature = sc.make("tva-ts").fit(z, y).temperature_
    assert table.pooled_temperature == pytest.approx(temperature, rel=1e-9)
    h = 1e-4
    below, here, above = (loss(z, y, temperature + step) for step in (-h, 0, h))
    slope = (above - below) / (2 * h)
    curvature = ((above - 2 * here + below) / h**2).mean()
    scores = {"risk": out_of_fold_risk(z, y), **statistics(z)}
    assert tuple(row.signal for row in table.rows) == tuple(scores) == DEFAULT_SIGNALS
    for row in table.rows:
        edges = np.quantile(scores[row.signal], np.arange(1, n_groups) / n_groups)
        between, within = anova(slope, np.digitize(scores[row.signal], edges))
        assert row.between == pytest.approx(between, rel=1e-4)
        assert row.within == pytest.approx(within, rel=1e-4)
        assert row.between + row.within == pytest.approx(slope.var(), rel=1e-4)
        assert row.floor == (n_groups - 1) / 700
        gain = (between - (n_groups - 1) / 700 * within) / (2 * curvature)
        assert row.predicted_gain == pytest.approx(gain, rel=1e-3)


def nll(z, y, temperature):
    """NLL of each row, the naive way."""
    scaled = z / temperature
    return np.logaddexp.reduce(scaled, axis=1) - scaled[np.arange(len(z)), y]


def test_rows_under_nll_equal_a_plain_anova_of_finite_differences():
    z, y = simulate(700, 8, seed=3)
    table = sc.signal_to_noise(z, y, objective="nll", n_null=0)
    best = minimize_scalar(
        lambda t: nll(z, y, t).mean(), bounds=(0.05, 20), method="bounded", options={"xatol": 1e-10}
    )
    temperature = best.x
    assert table.pooled_temperature == pytest.approx(temperature, rel=1e-6)
    h = 1e-4
    below, here, above = (nll(z, y, temperature + step) for step in (-h, 0, h))
    slope = (above - below) / (2 * h)
    curvature = ((above - 2 * here + below) / h**2).mean()
    scores = {"risk": out_of_fold_risk(z, y), **statistics(z)}
    assert table.objective == "nll"
    for row in table.rows:
        edges = np.quantile(scores[row.signal], [1 / 3, 2 / 3])
        between, within = anova(slope, np.digitize(scores[row.signal], edges))
        assert row.between == pytest.approx(between, rel=1e-4, abs=1e-9)
        assert row.within == pytest.approx(within, rel=1e-4)
        gain = (between - 2 / 700 * within) / (2 * curvature)
        assert row.predicted_gain == pytest.approx(gain, rel=1e-3, abs=1e-8)
        assert row.metric == "nll"
        assert row.text().endswith("of log-loss")


def test_under_nll_classes_are_drawn_as_their_probabilities_say():
    z, y = simulate(40, 4, seed=9)
    slopes = Slopes.of(Predictions.of(z, y), seed=0, loss="nll")
    right, drawn = slopes.drawn(np.random.default_rng(1), 40_000)
    t = slopes.temperature
    p = np.exp(z / t - np.logaddexp.reduce(z / t, axis=1)[:, None])
    # Slopes average zero where the probabilities are right, with this variance: d/dT of -log p.
    centred = z - (p * z).sum(axis=1, keepdims=True)
    variance = (p * centred**2).sum(axis=1) / t**4
    np.testing.assert_allclose(slopes.information, variance, rtol=1e-9)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=5 * np.sqrt(variance.max() / 40_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.15, atol=1e-6)
    np.testing.assert_allclose(right.mean(axis=0), p.max(axis=1), atol=0.015)
    own = (nll(z, y, t + 1e-5) - nll(z, y, t - 1e-5)) / 2e-5
    np.testing.assert_allclose(slopes.slope, own, atol=1e-6)


def test_under_nll_a_calibrated_model_is_rejected_as_often_as_promised():
    signals = ("confidence", "logit_norm")
    options = {"signals": signals, "objective": "nll", "n_null": 79}
    p = np.array(
        [
            [row.p_value for row in sc.signal_to_noise(*calibrated(200, seed), **options).rows]
            for seed in range(150)
        ]
    )
    rejected = (p <= 0.05).sum(axis=0)
    assert rejected.min() >= 1
    assert rejected.max() <= 14
    np.testing.assert_allclose(p.mean(axis=0), 0.5, atol=0.08)


def test_under_nll_the_predicted_gain_is_what_groups_give_on_other_samples():
    z, y = two_temperatures(20_000, 0, hot=1.2)
    row = sc.signal_to_noise(z, y, signals=["logit_margin"], objective="nll", n_null=99).rows[0]
    test_z, test_y = two_temperatures(100_000, 1, hot=1.2)
    found = {}
    for name, method, options in (
        ("one", "ts-nll", {}),
        ("three", "margin-k3", {"objective": "nll"}),
    ):
        proba = sc.make(method, **options).fit(z, y).predict_proba(test_z)
        found[name] = -np.log(proba[np.arange(len(test_y)), test_y]).mean()
    assert row.beyond_chance
    assert row.predicted_gain == pytest.approx(found["one"] - found["three"], rel=0.3)


def test_an_objective_that_has_no_slopes_here_is_refused():
    z, y = simulate(60, 4, seed=0)
    with refused("unknown-choice", "'softece'"):
        sc.signal_to_noise(z, y, objective="softece")


def test_random_groups_stand_at_the_floor():
    z, y = simulate(300, 6, seed=1)
    table = sc.signal_to_noise(z, y, signals=["confidence"], n_null=0, n_partitions=3000)
    # Means of a third of the samples, drawn without replacement: E B = (K - 1) / (n - 1) total.
    assert table.random_ratio == pytest.approx(2 / 297, rel=0.06)
    assert table.random_times_floor == pytest.approx(1, rel=0.07)


def two_temperatures(n, seed, *, hot=2.0, cold=1.0):
    """Logits whose true temperature is another one where the margin is large."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 6))
    z[np.arange(n), rng.integers(6, size=n)] += 4 * rng.random(n)
    z *= 1.5
    ordered = np.sort(z, axis=1)
    true = z / np.where(ordered[:, -1] - ordered[:, -2] > 2, hot, cold)[:, None]
    p = np.exp(true - np.logaddexp.reduce(true, axis=1)[:, None])
    return z, (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_the_predicted_gain_is_what_groups_give_on_other_samples():
    z, y = two_temperatures(20_000, 0, hot=1.2)
    row = sc.signal_to_noise(z, y, signals=["logit_margin"], n_null=99)["logit_margin"]
    test_z, test_y = two_temperatures(100_000, 1, hot=1.2)
    bce = {
        name: sc.evaluate(
            test_y, sc.make(name).fit(z, y).predict_proba(test_z), metrics=["top_label_bce"]
        )["top_label_bce"]
        for name in ("tva-ts", "margin-k3")
    }
    assert row.beyond_chance
    assert row.predicted_gain == pytest.approx(bce["tva-ts"] - bce["margin-k3"], rel=0.25)


def drawn_p_value(z, y, scores, n_null, rng):
    """The p-value by a plain loop that fits the pooled temperature anew for every draw."""
    group = np.digitize(scores, np.quantile(scores, [1 / 3, 2 / 3]))
    predicted = z.argmax(axis=1)
    ordered = np.sort(z, axis=1)[:, :-1] - z.max(axis=1)[:, None]

    def statistic(labels):
        beta = 1 / sc.make("tva-ts").fit(z, labels).temperature_
        weight = np.exp(beta * ordered)
        c = 1 / (1 + weight.sum(axis=1))
        mean = (weight * ordered).sum(axis=1) / weight.sum(axis=1)
        slope = ((labels == predicted) - c) * mean
        variance = c * (1 - c) * mean**2
        parts = [slope[group == k].sum() ** 2 / variance[group == k].sum() for k in range(3)]
        return sum(parts) / ((slope**2).sum() / variance.sum()), c

    observed, c = statistic(y)
    larger = 0
    for _ in range(n_null):
        right = rng.random(len(y)) < c
        larger += statistic(np.where(right, predicted, (predicted + 1) % 6))[0] >= observed
    return (1 + larger) / (1 + n_null)


@pytest.mark.parametrize(("seed", "signal"), [(5, "confidence"), (6, "logit_norm"), (8, "entropy")])
def test_the_p_value_is_that_of_a_loop_with_new_fits(seed, signal):
    z, y = two_temperatures(300, seed, hot=1.2)
    found = sc.signal_to_noise(z, y, signals=[signal], n_null=999)[signal].p_value
    plain = drawn_p_value(z, y, statistics(z)[signal], 400, np.random.default_rng(0))
    assert found == pytest.approx(plain, abs=0.07)
    assert 0.02 < plain < 0.98  # else any two p-values would agree


def test_permuted_slopes_give_the_p_value_of_a_plain_loop():
    z, y = two_temperatures(300, 4, hot=1.3)
    options = {"signals": ["logit_margin"], "null": "permutation", "n_null": 999}
    found = sc.signal_to_noise(z, y, **options)["logit_margin"].p_value
    temperature = sc.make("tva-ts").fit(z, y).temperature_
    slope = (loss(z, y, temperature + 1e-4) - loss(z, y, temperature - 1e-4)) / 2e-4
    margin = statistics(z)["logit_margin"]
    group = np.digitize(margin, np.quantile(margin, [1 / 3, 2 / 3]))
    rng = np.random.default_rng(0)
    draws = [anova(rng.permutation(slope), group)[0] for _ in range(1000)]
    assert found == pytest.approx((np.array(draws) >= anova(slope, group)[0]).mean(), abs=0.06)
    assert 0.02 < found < 0.9


def calibrated(n, seed):
    """An accurate model that one temperature calibrates: slopes of safe rows hardly vary."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 5))
    z[np.arange(n), rng.integers(5, size=n)] += 1 + 6 * rng.random(n)
    z *= 1.5
    p = np.exp(z - np.logaddexp.reduce(z, axis=1)[:, None])
    labels = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return 1.6 * z + rng.normal(size=(n, 1)), labels


def test_a_calibrated_model_is_rejected_as_often_as_promised():
    signals = ("confidence", "logit_norm", "top_logit")
    p = np.array(
        [
            [row.p_value for row in sc.signal_to_noise(*data, signals=signals, n_null=79).rows]
            for data in (calibrated(200, seed) for seed in range(150))
        ]
    )
    # 150 draws at 5 %: 2 to 14 are within the central 98 %.
    rejected = (p <= 0.05).sum(axis=0)
    assert rejected.min() >= 2
    assert rejected.max() <= 14
    np.testing.assert_allclose(p.mean(axis=0), 0.5, atol=0.08)


def test_the_risk_score_does_not_vouch_for_itself():
    # With the router's scores held fixed, errors that push one another's scores are rejected in
    # some 9 % of such small splits.
    p = [
        sc.signal_to_noise(*calibrated(150, seed), signals=["risk"], n_null=39)["risk"].p_value
        for seed in range(80)
    ]
    assert sum(value <= 0.05 for value in p) <= 9
    assert np.mean(p) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_router_is_learned_anew_from_every_draw(seed):
    """The p-value by a loop over the same draws, each with five new regressions."""
    z, y = calibrated(120, seed)
    slopes = Slopes.of(Predictions.of(z, y), seed=0)
    rng = np.random.default_rng(0)
    rng.permutation(120)  # one random partition is dealt first
    draws, drawn = slopes.drawn(rng, 40)
    predicted = z.argmax(axis=1)

    def statistic(slope, scores):
        group = np.digitize(scores, np.quantile(scores, [1 / 3, 2 / 3]))
        held = np.array([slopes.information[group == k].sum() for k in range(3)])
        sums = np.array([slope[group == k].sum() for k in range(3)])
        sums = sums - slope.sum() * held / held.sum()
        return (sums**2 / held).sum() / ((slope**2).sum() / held.sum())

    scores = out_of_fold_risk(z, y)
    observed = statistic(slopes.slope, scores)
    anew = fixed = 0
    for right, slope in zip(draws, drawn, strict=True):
        labels = np.where(right, predicted, (predicted + 1) % 5)
        anew += statistic(slope, out_of_fold_risk(z, labels)) >= observed
        fixed += statistic(slope, scores) >= observed
    found = sc.signal_to_noise(z, y, signals=["risk"], n_null=40, n_partitions=1)["risk"]
    assert found.p_value == (1 + anew) / 41
    assert anew != fixed  # else the loop would prove nothing


def test_structure_is_found():
    z, y = two_temperatures(800, 0)
    table = sc.signal_to_noise(z, y, n_null=199)
    assert table["logit_margin"].p_value == 1 / 200
    assert table["logit_margin"].times_floor > 3
    assert table["logit_margin"].beyond_chance
    assert "miscalibration still depends on" in table.verdict()


def test_miscalibration_of_another_kind_is_not_taken_for_this_signals():
    # The temperature follows the margin; the norm is moved by a constant that means nothing.
    p = []
    for seed in range(100):
        z, y = two_temperatures(400, seed)
        shifted = z + 40 * np.random.default_rng(seed).normal(size=(400, 1))
        p.append(sc.signal_to_noise(shifted, y, signals=["top_logit"], n_null=79).rows[0].p_value)
    assert sum(value <= 0.05 for value in p) <= 11


@given(st.floats(0.3, 3.0))
def test_the_scale_of_the_logits_does_not_matter(scale):
    z, y = simulate(250, 5, seed=2)
    signals = ["logit_margin", "logit_norm", "top_logit"]
    plain = sc.signal_to_noise(z, y, signals=signals, n_null=19)
    scaled = sc.signal_to_noise(scale * z, y, signals=signals, n_null=19)
    for a, b in zip(plain.rows, scaled.rows, strict=True):
        assert b.ratio == pytest.approx(a.ratio, rel=1e-5)
        assert b.predicted_gain == pytest.approx(a.predicted_gain, rel=1e-4, abs=1e-9)
        assert b.p_value == a.p_value


def test_the_order_of_rows_does_not_matter_where_nothing_is_learned():
    z, y = simulate(251, 5, seed=2)
    order = np.random.default_rng(0).permutation(251)
    for a, b in zip(
        sc.signal_to_noise(z, y, signals=DEFAULT_SIGNALS[1:], n_null=0).rows,
        sc.signal_to_noise(z[order], y[order], signals=DEFAULT_SIGNALS[1:], n_null=0).rows,
        strict=True,
    ):
        assert b.ratio == pytest.approx(a.ratio, rel=1e-9)


def test_signals_do_not_change_one_another_and_blocks_change_nothing(monkeypatch):
    z, y = simulate(200, 5)
    both = sc.signal_to_noise(z, y, signals=["risk", "entropy"], n_null=25)
    assert both == sc.signal_to_noise(z, y, signals=["risk", "entropy"], n_null=25)
    alone = sc.signal_to_noise(z, y, signals=["entropy"], n_null=25)
    assert alone["entropy"].p_value == both["entropy"].p_value
    seen = []
    monkeypatch.setattr("smallcal.advice.signal_null._BLOCK_SIZE", 1400)
    again = sc.signal_to_noise(z, y, signals=["risk", "entropy"], n_null=25, advance=seen.append)
    assert again == both
    assert seen == [7, 7, 7, 4]


@pytest.mark.parametrize(("right", "word"), [(True, "right"), (False, "wrong")])
def test_one_kind_of_prediction_has_nothing_to_tell(right, word):
    z, _ = simulate(60, 4)
    y = z.argmax(axis=1) if right else z.argmin(axis=1)
    table = sc.signal_to_noise(z, y, n_null=9)
    for row in table.rows:
        assert (row.p_value, row.predicted_gain, row.beyond_chance) == (1.0, 0.0, False)
        assert f"every prediction is {word}" in row.text()
    assert table.verdict().startswith(f"No signal can be judged: every prediction is {word}")


def test_a_constant_signal_and_a_router_that_cannot_learn_say_so():
    rng = np.random.default_rng(0)
    z = np.tile([3.0, 1.0, 0.0], (90, 1))
    z = np.take_along_axis(z, rng.random((90, 3)).argsort(axis=1), axis=1)
    y = z.argmax(axis=1)
    y[0] = z[0].argmin()
    table = sc.signal_to_noise(z, y, n_null=9)
    assert "too few wrong or right predictions" in table["risk"].text()
    assert "the same for all samples" in table["confidence"].text()
    assert (table["confidence"].floor, table["confidence"].times_floor) == (0.0, 0.0)


def test_a_pooled_temperature_at_its_bound_is_told():
    z, _ = simulate(60, 4)
    y = np.where(np.arange(60) < 55, z.argmin(axis=1), z.argmax(axis=1))
    assert "lies at a bound" in sc.signal_to_noise(z, y, n_null=9)["confidence"].text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"signals": ["luck"]}, "signals must be different names among risk"),
        ({"signals": "risk"}, "signals must be"),
        ({"signals": []}, "signals must be"),
        ({"signals": ["risk", "risk"]}, "signals must be"),
        ({"signals": ["oracle_risk"]}, "signals must be"),
        ({"signals": ["feature_risk"]}, "features"),
        ({"n_groups": 1}, "n_groups must be a whole number of at least 2; got 1"),
        ({"null": "hope"}, "null must be one of resample, permutation; got 'hope'"),
        ({"n_null": -1}, "n_null must be a whole number of at least 0; got -1"),
        ({"n_partitions": 0}, "n_partitions must be a whole number of at least 1"),
        ({"level": 1.0}, "level must lie between 0 and 1"),
    ],
)
def test_bad_options_are_told(options, message):
    with pytest.raises(InputError, match=message):
        sc.signal_to_noise(*simulate(60, 4), **options)


def test_features_may_be_a_signal():
    z, y = simulate(300, 5)
    table = sc.signal_to_noise(
        z, y, signals=["feature_risk", "signed_residual"], features=z[:, :2], n_null=9
    )
    assert all(row.within > 0 for row in table.rows)


def test_the_table_is_plain_data_and_sentences():
    z, y = simulate(200, 5)
    table = sc.signal_to_noise(z, y, n_null=19)
    document = json.loads(json.dumps(table.to_dict(), allow_nan=False))
    assert [row["signal"] for row in document["rows"]] == list(DEFAULT_SIGNALS)
    assert document["rows"][0]["ratio"] == table["risk"].ratio
    assert document["verdict"] == table.verdict()
    row = SignalRow("risk", 1e-3, 1.0, 2e-3, -0.0004, 0.81, False, 3)
    assert row.text() == (
        "risk: 0.5 times the floor, p = 0.810, predicted loss 0.04 points of top-label log-loss"
    )
    with pytest.raises(KeyError, match="luck"):
        table["luck"]
    found = SignalToNoise((row,), 50, 3, 1.0, 0.01, "resample", 19, 0.95)
    assert found.verdict().startswith(
        "After one temperature, no signal by itself shows miscalibration beyond chance (the "
        "smallest p of 1 is 0.810)"
    )


def test_on_real_logits_random_groups_stand_at_the_floor_too(real_cell):
    table = sc.signal_to_noise(real_cell["val_logits"], real_cell["val_labels"], n_null=19)
    assert table.random_ratio == pytest.approx(2 / table.n, rel=0.25)
    assert all(np.isfinite([row.ratio, row.predicted_gain]).all() for row in table.rows)


# Classes.


def biased(n, bias, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, len(bias)))
    return z, (z + bias + rng.gumbel(size=z.shape)).argmax(axis=1)


def test_a_model_that_prefers_classes_is_found_and_one_that_does_not_is_not():
    table = sc.signal_to_noise(*biased(600, [1.0, 0, 0, 0]), signals=["class_bias"], n_null=199)
    assert table["class_bias"].p_value < 0.01
    assert table["class_bias"].predicted_gain > 0.02
    assert "favours some classes" in table.verdict()
    p = [
        sc.signal_to_noise(*biased(300, [0.0] * 5, seed), signals=["class_bias"], n_null=79)
        for seed in range(60)
    ]
    values = [found.rows[0].p_value for found in p]
    assert 0.35 < np.mean(values) < 0.65
    assert np.mean(np.array(values) <= 0.1) < 0.25


def test_what_biases_should_gain_is_what_they_gain():
    """Against NLL before and after a fit of the biases alone, on many samples."""
    z, y = biased(4000, [0.3, -0.2, 0.1, 0.0])
    found = sc.signal_to_noise(z, y, signals=["class_bias"], n_null=9)["class_bias"]

    def nll(bias):
        scores = z + np.append(bias, 0.0)
        return (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]).mean()

    best = minimize(nll, np.zeros(3))
    # Classes are taken one by one, which counts what they share twice: up to a third too much.
    gained = nll(np.zeros(3)) - best.fun
    assert gained < found.predicted_gain < 1.4 * gained


def test_temperatures_that_differ_by_predicted_class_are_found():
    rng = np.random.default_rng(1)
    z = 3 * rng.normal(size=(1500, 3))
    true = z / np.array([0.5, 1.0, 4.0])[z.argmax(axis=1)][:, None]
    y = (true + rng.gumbel(size=z.shape)).argmax(axis=1)
    table = sc.signal_to_noise(z, y, signals=["predicted_class"], n_null=199)
    assert table["predicted_class"].p_value < 0.01
    assert table["predicted_class"].n_groups == 3
