"""The last step of a fit: how far it goes, and what it says of predictions that might change."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal.calibrators.finish import HELD_BACK, Made, Seen, accuracy_if_free
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.maps.correction import Correction
from smallcal.calibrators.maps.gate import weight_of_change
from smallcal.calibrators.maps.temperature import ScalarMap
from smallcal.calibrators.signals import NoSignal
from smallcal.data.predictions import Predictions
from smallcal.data.special import softmax
from support.cases import fit


def drawn(logits, rng):
    return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def honest(n, *, seed, n_classes=5, temperature=1.0, bias=0.0):
    """Labels that follow the logits at a temperature, moved by a bias."""
    rng = np.random.default_rng(seed)
    z = 2.5 * rng.normal(size=(n, n_classes))
    return z, drawn(z / temperature + bias, rng)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e3), st.floats(0, 50))
def test_the_weight_rises_with_the_gain_and_falls_with_the_parameters(gain, freedom, more):
    weight = weight_of_change(gain, freedom)
    assert 0 <= weight <= 1
    assert (
        weight_of_change(gain + more, freedom) >= weight >= weight_of_change(gain, freedom + more)
    )


def test_the_weight_is_akaikes():
    """That of two models, by exp(-AIC / 2), where the raw one has no parameter."""
    for gain, freedom in ((0.0, 1.0), (3.0, 3.0), (7.5, 4.2), (-2.0, 1.5)):
        fitted, raw = math.exp(gain - freedom), 1.0
        assert weight_of_change(gain, freedom) == pytest.approx(fitted / (fitted + raw))
    assert weight_of_change(1e308, 5.0) == 1
    assert 0 <= weight_of_change(-1e308, 5.0) < 1e-300
    assert weight_of_change(0.0, 1e308) < 1e-300


def test_a_calibrated_model_is_held_back_on_a_few_rows_and_a_bad_one_is_not_on_many():
    held = []
    for seed in range(20):
        fitted = fit("default", *honest(60, seed=seed)).fitted_
        assert ("held_back" in fitted.flags) == (fitted.fit_metrics["weight"] < HELD_BACK)
        held.append("held_back" in fitted.flags)
        if held[-1]:
            percent = f"{100 * fitted.fit_metrics['weight']:.0f} %"
            assert fitted.flag_text("held_back").endswith(f"is applied only in part: {percent}")
    assert np.mean(held) >= 0.8
    for seed in range(5):
        bad = fit("default", *honest(600, seed=seed, temperature=2.5)).fitted_
        assert "held_back" not in bad.flags
        assert bad.fit_metrics["weight"] > 0.999


def made(n=200, *, seed=0, freedom, scalar=2.0, tail=1.7, shift=1.0, temperature=2.0):
    """A fit put together by hand: a temperature, a tail's, and a bias of the first class."""
    z, y = honest(n, seed=seed, temperature=temperature)
    seen = Seen.of(Predictions.of(z, y))
    correction = Correction((shift, 0.0, 0.0, 0.0, 0.0))
    moved = seen.moved(correction(z))
    fitted = FittedCalibrator(
        method="custom",
        objective="bce",
        signal=NoSignal(),
        map=ScalarMap(scalar),
        tail_temperature=tail,
        pooled_temperature=scalar,
        n_classes=5,
        group_counts=(n,),
    )
    p = softmax(moved.preds.logits / scalar).max(axis=1)
    return Made(fitted, correction, moved, np.log(p / (1 - p)), freedom), seen


def plain_gain(each, seen):
    """By how much it is likelier that the model is right where it is, from probabilities."""
    z, y = seen.preds.logits, seen.preds.labels
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    after = each.fitted.predict_proba(each.moved.preds.logits)[rows, top]
    before = softmax(z)[rows, top]
    right = top == y
    return float(
        np.log(np.where(right, after, 1 - after)).sum()
        - np.log(np.where(right, before, 1 - before)).sum()
    )


@pytest.mark.parametrize("above", [-3.0, -0.5, 0.0, 2.0])
def test_what_the_fit_changes_is_taken_at_the_share_of_its_weight(above):
    each, seen = made(freedom=1.0)
    gain = plain_gain(each, seen)
    assert (each.moved.preds.predicted != seen.preds.predicted).any()
    finished = replace(each, freedom=gain - above).finished(seen)
    weight = finished.fit_metrics["weight"]
    assert weight == pytest.approx(1 / (1 + math.exp(-above)), rel=1e-6)
    zero = np.zeros(3)
    np.testing.assert_allclose(np.log(finished.map(zero)), weight * np.log(2.0))
    assert np.log(finished.tail_temperature) == pytest.approx(weight * np.log(1.7))
    assert finished.correction.bias == pytest.approx((weight, 0, 0, 0, 0))
    assert ("held_back" in finished.flags) == (weight < HELD_BACK)


def test_without_a_gate_nothing_is_weighed():
    each, seen = made(freedom=None)
    finished = each.finished(seen)
    assert finished.fit_metrics["weight"] == 1
    assert finished.flags == {}
    assert finished.correction == each.correction
    assert finished.map == each.fitted.map
    assert finished.tail_temperature == 1.7


def test_the_losses_of_a_finished_fit_are_those_of_its_probabilities():
    each, seen = made(freedom=None)
    finished = each.finished(seen)
    z, y = seen.preds.logits, seen.preds.labels
    p, metrics = finished.predict_proba(z), finished.fit_metrics
    rows, top = np.arange(len(z)), p.argmax(axis=1)
    assert metrics["after"]["nll"] == pytest.approx(-np.log(p[rows, y]).mean())
    bet = np.where(top == y, p[rows, top], 1 - p[rows, top])
    assert metrics["after"]["top_label_bce"] == pytest.approx(-np.log(bet).mean())
    assert metrics["after"]["mean_confidence"] == pytest.approx(p.max(axis=1).mean())
    assert metrics["changed_predictions"] == (top != z.argmax(axis=1)).sum() > 0
    assert metrics["accuracy"] == (z.argmax(axis=1) == y).mean()
    assert metrics["before"]["nll"] == pytest.approx(-np.log(softmax(z)[rows, y]).mean())


def test_the_accuracy_if_free_has_wilsons_interval_and_that_of_a_paired_difference():
    rng = np.random.default_rng(0)
    z, y = honest(150, seed=1, bias=np.array([2.0, 0, 0, 0, 0]))
    moved = z + np.array([2.0, 0, 0, 0, 0])
    found = accuracy_if_free(Predictions.of(z, y), moved)
    right, before = moved.argmax(axis=1) == y, z.argmax(axis=1) == y
    assert found["value"] == pytest.approx(right.mean())
    # Wilson's ends are where the distance from the share found is 1.96 of their own errors.
    for end in (found["low"], found["high"]):
        away = abs(end - right.mean()) / np.sqrt(end * (1 - end) / 150)
        assert away == pytest.approx(1.96, abs=1e-4)
    assert found["low"] < found["value"] < found["high"]
    gained = right.astype(float) - before
    expected = gained.mean() - 1.959964 * gained.std() / np.sqrt(150)
    assert found["gain_low"] == pytest.approx(expected)
    # Weights that are all alike, and rows that have none.
    alike = accuracy_if_free(Predictions.of(z, y, weight=np.full(150, 3.0)), moved)
    assert alike == pytest.approx(found)
    more = np.concatenate([moved, rng.normal(size=(50, 5))])
    weight = np.append(np.ones(150), np.zeros(50))
    both = Predictions.of(np.concatenate([z, z[:50]]), np.append(y, y[:50]), weight=weight)
    assert accuracy_if_free(both, more) == pytest.approx(found)
