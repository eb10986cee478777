"""The default: its arithmetic, its fit, and what it guarantees."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import smallcal as sc
from smallcal.calibrators.maps import multinomial_fit
from smallcal.calibrators.maps.multinomial import (
    SECOND_CAP,
    THIRD_CAP,
    MultinomialMap,
    inputs_of,
    standardised,
)
from smallcal.calibrators.maps.multinomial_fit import (
    MOST_TAKEN,
    Design,
    Regression,
    absent_classes,
    compare,
    directions,
    find_copies,
    fit_multinomial,
    fit_scales,
)
from smallcal.calibrators.maps.temperature import split_of
from smallcal.data.predictions import Predictions
from smallcal.data.special import log_softmax, softmax
from support.real import cell, data_folder
from support.refused import refused


def sample(n=300, n_classes=4, seed=0, bias=1.0):
    """Return overconfident logits with class biases, and labels that follow other ones."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, n_classes)) * 2
    labels = (true + rng.gumbel(size=true.shape)).argmax(axis=1)
    return true * 2 + bias * np.arange(n_classes), labels


def log_loss(proba, labels):
    return -np.log(proba[np.arange(len(labels)), labels]).mean()


def design_of(z, y, weights=None):
    inputs = inputs_of(z, 0.7, np.zeros(z.shape[1]))
    weights = np.ones(len(y)) if weights is None else weights
    mean, scale = inputs.statistics.mean(axis=0), inputs.statistics.std(axis=0) + 1e-3
    read, write, centre = directions(inputs.x, weights)
    signals = standardised(inputs.statistics, mean, scale)
    scores, margin = inputs.x @ read.T - centre, inputs.statistics[:, 1]
    return Design(inputs.x, signals, scores, inputs.top, margin, y, weights, None), write


def test_inputs_are_what_they_say():
    z = np.array([[2.0, 0.0, -1.0, 0.5]])
    found = inputs_of(z, 0.5, np.zeros(4))
    p = softmax(z * 0.5)[0]
    top = np.sort(z[0] * 0.5)[::-1]
    gaps = z[0] * 0.5 - top[0]
    expected = [
        np.log(p[0] / (1 - p[0])),
        top[0] - top[1],
        -(p * np.log(p)).sum(),
        top[0] - top[2],
        gaps.std(),
        np.log((p**2).sum()),
    ]
    np.testing.assert_allclose(found.x, log_softmax(z * 0.5), atol=1e-14)
    np.testing.assert_allclose(found.statistics[0], expected, atol=1e-12)
    assert found.top.tolist() == [0]


def test_margins_end_at_their_caps():
    found = inputs_of(np.array([[100.0, 0.0, -100.0]]), 1.0, np.zeros(3))
    assert found.statistics[0, 1] == SECOND_CAP
    assert found.statistics[0, 3] == THIRD_CAP


def test_the_map_is_its_formula():
    """A plain reading of the formula in the module's docstring, row by row."""
    rng = np.random.default_rng(1)
    n_classes, k = 5, 2
    made = MultinomialMap(
        0.8, rng.normal(size=n_classes), rng.normal(size=6), rng.uniform(0.5, 2, 6),
        rng.normal(size=7) * 0.1, rng.normal(size=7) * 0.1, rng.normal(size=n_classes),
        rng.normal(size=(k, n_classes)),
        rng.normal(size=(k, n_classes)),
    )  # fmt: skip
    for z in rng.normal(size=(20, n_classes)) * 3:
        inputs = inputs_of(z[None], 0.8, made.offset)
        x = log_softmax(z[None] * 0.8 + made.offset)[0]
        phi = np.append(1, np.clip((inputs.statistics[0] - made.mean) / made.scale, -4, 4))
        logits = x * (1 + made.slope @ phi) + made.bias + made.write.T @ (made.read @ x)
        margin = np.sort(x)[-1] - np.sort(x)[-2]
        logits[x.argmax()] += min(margin, 12) * (made.margin @ phi)
        expected = np.exp(logits) / np.exp(logits).sum()
        found = made.probabilities(z[None], np.zeros(1))[0]
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        np.testing.assert_allclose(
            made.temperature(z[None]), 1 / (0.8 * max(1 + made.slope @ phi, 0)), rtol=1e-12
        )


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_gradient_and_hessian_are_those_of_the_loss(n_classes):
    z, y = sample(60, n_classes)
    rng = np.random.default_rng(0)
    design, write = design_of(z, y, rng.uniform(0.1, 2, len(y)))
    size = n_classes + 2 * design.signals.shape[1] + len(write) ** 2
    problem = Regression(design, write, np.zeros(size))
    theta, way = rng.normal(size=(2, size)) * 0.1
    gradient, hessian = problem.derivatives(problem.value(theta)[1])
    step = 1e-5
    ahead, behind = theta + step * way, theta - step * way
    slope = (problem.value(ahead)[0] - problem.value(behind)[0]) / (2 * step)
    assert slope == pytest.approx(gradient @ way, rel=1e-6)
    bend = [problem.derivatives(problem.value(at)[1])[0] for at in (ahead, behind)]
    np.testing.assert_allclose(
        (bend[0] - bend[1]) / (2 * step), hessian @ way, rtol=1e-4, atol=1e-5
    )
    assert np.linalg.eigvalsh(hessian).min() > -1e-10


def test_newton_finds_the_minimum_that_scipy_finds():
    z, y = sample(200, 4)
    design, write = design_of(z, y)
    size = 4 + 2 * design.signals.shape[1] + len(write) ** 2
    problem = Regression(design, write, np.full(size, 5.0))
    found, converged = problem.minimise(np.zeros(size))
    plain = minimize(
        lambda theta: (
            problem.value(theta)[0],
            problem.derivatives(problem.value(theta)[1])[0] + 5.0 * theta,
        ),
        np.zeros(size), jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    assert converged
    assert problem.value(found)[0] <= plain.fun + 1e-6
    np.testing.assert_allclose(found, plain.x, atol=1e-3)


def test_scales_agree_with_their_parameters():
    """At the end MacKay's rule holds: variance = (squares + prior) / (effective number + 1)."""
    z, y = sample(800, 4)
    design, write = design_of(z, y)
    q = design.signals.shape[1]
    groups = np.repeat(np.arange(5), (4, 1, q - 1, q, len(write) ** 2))
    precision, theta, n_biases = fit_scales(design, write)
    problem = Regression(design, write, precision)
    theta, _ = problem.minimise(theta)
    _, hessian = problem.derivatives(problem.value(theta)[1])
    free = np.bincount(groups, 1 - precision * np.diag(np.linalg.inv(hessian + np.diag(precision))))
    assert n_biases == pytest.approx(free[0], rel=0.1)
    before = np.array(multinomial_fit.SCALES)
    agreeing = (np.bincount(groups, theta**2) + before**2) / (free + 1)
    found = 1 / precision[np.unique(groups, return_index=True)[1]]
    np.testing.assert_allclose(found, agreeing, rtol=0.1)


def test_biases_shift_what_is_read_where_samples_are_enough():
    """A model that prefers classes: its margins count from where the preference is gone."""
    few, many = (fit_multinomial(split_of(*sample(n, 5, bias=1.5))).map for n in (80, 1500))
    assert not few.offset.any()
    expected = -0.75 * np.arange(5)
    np.testing.assert_allclose(many.offset - many.offset.mean(), expected + 1.5, atol=0.3)


def test_a_known_truth_is_found():
    """Labels follow other temperatures and biases: with many samples both are found."""
    z, y = sample(20_000, 5, seed=3, bias=0.7)
    test_z, test_y = sample(20_000, 5, seed=4, bias=0.7)
    proba = sc.Calibrator().fit(z, y).predict_proba(test_z)
    truth = softmax((test_z - 0.7 * np.arange(5)) / 2)
    assert log_loss(proba, test_y) < log_loss(truth, test_y) + 0.003
    assert np.abs(proba - truth).mean() < 0.01


def test_what_it_guarantees_on_its_own_samples():
    for seed in range(5):
        z, y = sample(60, 6, seed=seed)
        cal = sc.Calibrator().fit(z, y)
        plain = sc.TemperatureScaling().fit(z, y)
        assert log_loss(cal.predict_proba(z), y) <= log_loss(plain.predict_proba(z), y) + 1e-9


def test_cross_validated_log_loss_is_an_honest_estimate():
    rises = []
    for seed in range(20):
        z, y = sample(200, 4, seed=seed)
        test_z, test_y = sample(4000, 4, seed=100 + seed)
        cal = sc.Calibrator().fit(z, y)
        told = cal.fitted_.fit_metrics["cross_validated"]["log_loss"]
        rises.append(told - log_loss(cal.predict_proba(test_z), test_y))
    assert abs(np.mean(rises)) < 2.5 * np.std(rises) / np.sqrt(len(rises)) + 0.01


def test_the_interval_of_the_change_of_accuracy_covers():
    """Simulated held-out predictions with a known change: the interval has its level."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(500):
        n = 150
        labels = np.zeros(n, dtype=np.int64)
        own, new = rng.random(n) < 0.8, rng.random(n) < 0.85
        preds = Predictions.of(np.where(own[:, None], [2.0, 0.0], [0.0, 2.0]), labels)
        held_out = np.where(new[:, None], [1.0, 0.0], [0.0, 1.0])
        report, _ = compare(held_out, held_out, preds, np.ones(n))
        inside += report["accuracy_change_low"] <= 0.05 <= report["accuracy_change_high"]
    assert 0.92 < inside / 500 < 0.985


def test_order_and_names_of_classes_do_not_matter():
    z, y = sample(300, 5)
    order = np.array([3, 0, 4, 1, 2])
    first = sc.Calibrator().fit(z, y).predict_proba(z)
    second = sc.Calibrator().fit(z[:, order], np.argsort(order)[y]).predict_proba(z[:, order])
    np.testing.assert_allclose(first[:, order], second, atol=1e-7)


def test_a_shift_of_the_logits_and_their_scale_do_not_matter():
    z, y = sample(300, 5)
    expected = sc.Calibrator().fit(z, y).predict_proba(z)
    for other in (z + 1000.0, z + np.arange(300)[:, None], z * 1e-6, z * 1e4):
        found = sc.Calibrator().fit(other, y).predict_proba(other)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_tie_has_no_prediction_to_prefer():
    """Where two classes tie, the correction of the predicted class vanishes."""
    z, y = sample(300, 3)
    made = sc.Calibrator().fit(z, y).fitted_.map
    tied = np.array([[2.0, 2.0, -1.0], [2.0, 2.0 - 1e-12, -1.0], [2.0 - 1e-12, 2.0, -1.0]])
    np.testing.assert_allclose(
        *(made.probabilities(tied[[0, i]], np.zeros(2)) for i in (1, 2)), atol=1e-9
    )


def test_masked_classes_get_nothing_and_change_nothing():
    z, y = sample(400, 4)
    wide = np.column_stack([z, np.full(len(z), -np.inf)])
    narrow, masked = sc.Calibrator().fit(z, y), sc.Calibrator().fit(wide, y)
    found = masked.predict_proba(wide)
    assert (found[:, 4] == 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert abs(log_loss(found[:, :4], y) - log_loss(narrow.predict_proba(z), y)) < 0.01


def test_weights_count_as_repetition_and_zero_as_absence():
    z, y = sample(200, 3)
    weight = np.ones(200)
    weight[150:] = 0
    part = sc.Calibrator().fit(z[:150], y[:150]).predict_proba(z)
    np.testing.assert_allclose(
        sc.Calibrator().fit(z, y, sample_weight=weight).predict_proba(z), part, atol=1e-12
    )
    lighter = sc.Calibrator().fit(z, y, sample_weight=np.full(200, 0.1)).fitted_.map
    whole = sc.Calibrator().fit(z, y).fitted_.map
    sizes = [np.abs(made.offset + made.bias).max() for made in (lighter, whole)]
    assert sizes[0] < sizes[1]  # the prior weighs more


def test_copies_are_no_new_evidence():
    z, y = sample(60, 3, seed=2)
    many = np.repeat(np.arange(60), 10)
    once, copied = sc.Calibrator().fit(z, y), sc.Calibrator().fit(z[many], y[many])
    share, index = find_copies(y[many], inputs_of(z[many], 1.0, np.zeros(3)).x)
    assert share == pytest.approx(0.1)
    assert (index == np.searchsorted(np.unique(index[::10]), index)).all()
    test_z, test_y = sample(3000, 3, seed=9)
    first, second = (log_loss(each.predict_proba(test_z), test_y) for each in (once, copied))
    assert abs(first - second) < 0.01


def test_few_distinct_outputs_are_not_copies():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(8, 3))[rng.integers(8, size=400)]
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    assert find_copies(y, inputs_of(z, 1.0, np.zeros(3)).x) == (1.0, None)


def test_absent_classes_lose_a_bounded_part_and_are_named():
    z, y = sample(1500, 6, seed=1)
    there = y < 3
    names = ["a", "b", "c", "d", "e", "f"]
    with pytest.warns(sc.FitWarning, match="absent_classes"):
        cal = sc.Calibrator(class_names=names).fit(z[there], y[there])
    assert cal.flags_["absent_classes"] == [3, 4, 5]
    assert "d, e, f" in cal.fitted_.flag_text("absent_classes")
    told = cal.fitted_.fit_metrics["cross_validated"]
    assert told["log_loss_if_present"] > told["log_loss"]
    split = split_of(z[there], y[there])
    design, write = design_of(z[there], y[there])
    size = 6 + 2 * design.signals.shape[1] + len(write) ** 2
    problem = Regression(design, write, np.full(size, 0.5))
    theta, _ = problem.minimise(np.zeros(size))
    bias = problem.parts(theta)[0]
    taken, absent = absent_classes(design, problem.value(theta)[1], bias)
    assert absent.tolist() == [3, 4, 5]
    assert (bias + taken - bias[:3].mean())[3:].min() >= -MOST_TAKEN - 1e-12
    assert fit_multinomial(split).flags["absent_classes"] == [3, 4, 5]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("five samples", lambda z, y: (z[:5], y[:5])),
        ("one distinct row", lambda z, y: (np.repeat(z[:1], len(y), axis=0), y)),
        ("tiny", lambda z, y: (z * 1e-6, y)),
        ("huge", lambda z, y: (z * 1e4, y)),
        ("shifted", lambda z, y: (z + 1e8, y)),
        ("saturated", lambda z, y: (np.maximum(log_softmax(z * 50), -20.7), y)),
        ("all right", lambda z, y: (z, z.argmax(axis=1))),
        ("all wrong", lambda z, y: (z, z.argmin(axis=1))),
        ("jittered copies", lambda z, y: (np.repeat(z, 3, axis=0) + 1e-12, np.repeat(y, 3))),
        ("one label", lambda z, y: (z, np.zeros_like(y))),
    ],
)
@pytest.mark.parametrize("n_classes", [2, 3, 50])
def test_no_finite_logits_are_refused(name, change, n_classes):
    z, y = change(*sample(120, n_classes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator().fit(z, y)
    for proba in (cal.predict_proba(z), cal.predict_proba(z.astype(np.float32))):
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)


def test_without_an_error_the_model_is_left_alone():
    z, _ = sample(100, 3)
    with pytest.warns(sc.FitWarning, match="one_sided"):
        cal = sc.Calibrator().fit(z, z.argmax(axis=1))
    assert cal.fitted_.map.kind == "scalar"
    assert cal.fitted_.map.temperature == 1


def test_a_search_that_does_not_converge_is_told(monkeypatch):
    monkeypatch.setattr(multinomial_fit, "_MAX_STEPS", 0)
    monkeypatch.setattr(Regression.minimise, "__kwdefaults__", {"steps": 0, "gain": 1e-9})
    z, y = sample(200, 3)
    with pytest.warns(sc.FitWarning, match="not_converged"):
        cal = sc.Calibrator().fit(z, y)
    assert cal.fitted_.map.kind == "scalar"


@pytest.mark.skipif(data_folder() is None, reason="needs the folder of real logits")
@pytest.mark.parametrize("seed", range(4))
def test_saturated_boosting_is_better_than_temperature_scaling(seed):
    arrays = cell("saturated/income9__hgb-lr20")
    rows = np.random.default_rng(seed).permutation(len(arrays["val_labels"]))[:1000]
    z, y = arrays["val_logits"][rows], arrays["val_labels"][rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal, plain = sc.Calibrator().fit(z, y), sc.TemperatureScaling().fit(z, y)
    assert log_loss(cal.predict_proba(z), y) < log_loss(plain.predict_proba(z), y) - 0.1
    test = arrays["test_logits"], arrays["test_labels"]
    assert log_loss(cal.predict_proba(test[0]), test[1]) < 2.15


def test_keeping_predictions_exchanges_two_probabilities():
    z, y = sample(400, 4, bias=1.5)
    free, kept = (sc.Calibrator(keep_predictions=keep).fit(z, y) for keep in (False, True))
    own = z.argmax(axis=1)
    p, q = free.predict_proba(z), kept.predict_proba(z)
    assert (free.predict(z) != own).any()
    assert (kept.predict(z) == own).all()
    assert (q.argmax(axis=1) == own).all()
    np.testing.assert_array_equal(np.sort(p), np.sort(q))
    rows = np.arange(len(y))
    np.testing.assert_array_equal(kept.confidence(z), p[rows, own])
    np.testing.assert_array_equal(free.confidence(z), p.max(axis=1))
    np.testing.assert_array_equal(free.confidence(z, predictions=own), p[rows, own])
    np.testing.assert_array_equal(kept.confidence(z, predictions=y), p[rows, y])


def test_confidence_names_bad_predictions():
    z, y = sample(100, 3)
    cal = sc.Calibrator().fit(z, y)
    with refused("labels-out-of-range"):
        cal.confidence(z, predictions=np.full(100, 7))


def test_saved_and_loaded_it_gives_the_same_bits(tmp_path):
    z, y = sample(150, 3)
    for keep in (False, True):
        cal = sc.Calibrator(keep_predictions=keep).fit(z, y)
        cal.save(tmp_path / "cal.json")
        again = sc.load(tmp_path / "cal.json")
        np.testing.assert_array_equal(again.predict_proba(z), cal.predict_proba(z))
        np.testing.assert_array_equal(again.confidence(z), cal.confidence(z))
        assert again.get_params()["keep_predictions"] is keep


def test_an_older_default_is_refused_with_the_command_that_refits(tmp_path):
    z, y = sample(150, 3)
    document = sc.TemperatureScaling().fit(z, y).to_dict()
    old = {**document, "version": 2, "correction": None, "tail_temperature": None}
    assert sc.calibrators.artefact.checked(old, source="x")["version"] == 3
    with refused("artefact-outdated"):
        sc.calibrators.artefact.checked({**old, "tail_temperature": 1.5}, source="x")
