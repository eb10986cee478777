"""Exports of refreshed calibrators agree with the calibrator."""

from __future__ import annotations

import functools
import warnings
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.later import with_later
from smallcal.deploy.export.translate import program_of
from support.backends import BACKENDS, module_of, wanted
from support.cases import features_of
from support.program_numpy import run
from support.scored import drawn, new_scores
from support.simulated import simulate

METHODS = ("default", "ts-nll", "srts-bce", "vector-scaling", "features-logits-k3")
#: Mild, steep, flat, with others sharper and as far as it goes.
SHIFTS = (
    (0.7, -0.2, 0.8),
    (2.5, 0.5, 1.0),
    (0.1, -3.0, 2.0),
    (1.0, 0.0, 0.5),
    (3.0, 10.0, 5.0),
    (0.05, -10.0, 0.2),
)


@functools.cache
def fitted_once(method):
    z, y = simulate(600, 5, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(method).fit(z, y, features=features_of(z)).fitted_


def shifted(method, shift=SHIFTS[0]):
    return with_later(fitted_once(method), ConfidenceShift(*shift))


def rows(n=60):
    z = simulate(n, 5, seed=4)[0]
    rng = np.random.default_rng(4)
    z[: n // 4] = rng.normal(scale=30, size=(n // 4, 5))  # as sure as can be
    z[-3:] = 0.0  # ties
    return z


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("method", METHODS)
def test_the_program_is_what_is_applied(method, shift):
    fitted, z = shifted(method, shift), rows()
    found, _ = run(program_of(fitted), z, features_of(z))
    expected = fitted.predict_proba(z, **wanted(fitted, z))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    before = fitted_once(method).predict_proba(z, **wanted(fitted, z))
    np.testing.assert_array_equal(expected.argmax(axis=1), before.argmax(axis=1))
    np.testing.assert_array_equal(found.argmax(axis=1), before.argmax(axis=1))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("method", METHODS)
def test_every_backend_agrees(method, name):
    if not BACKENDS[name].there:
        pytest.skip(f"needs {BACKENDS[name].needs}")
    z, y = simulate(200, 5, seed=5)
    fitted = fitted_once(method)
    extra = {"features": features_of(z)} if fitted.signal.n_features else {}
    found = sc.refresh(fitted, 2.5 * z, y, **extra)
    assert found.applied
    z = rows(20)
    expected = found.calibrator.predict_proba(z, **wanted(fitted, z))
    np.testing.assert_allclose(BACKENDS[name].run(found.calibrator, z), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_float32_agrees(name):
    if not BACKENDS[name].there:
        pytest.skip(f"needs {BACKENDS[name].needs}")
    for shift in SHIFTS:
        fitted, z = shifted("ts-nll", shift), rows().astype(np.float32)
        found = BACKENDS[name].run(fitted, z)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, fitted.predict_proba(z.astype(float)), atol=1e-5)


@pytest.mark.parametrize("kind", ["number", "probability"])
@pytest.mark.parametrize("shift", SHIFTS)
def test_scores(shift, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        before = sc.Calibrator(input="score").fit(*drawn(300, kind=kind)).fitted_
    fitted = with_later(before, ConfidenceShift(*shift))
    x = new_scores(kind)
    expected = fitted.predict_score(x)
    np.testing.assert_allclose(expected, fitted.predict_proba(x)[:, 1], atol=1e-15)
    from smallcal.deploy.export import to_python

    found = module_of(to_python(fitted))["calibrate_rows"](x.tolist())
    np.testing.assert_allclose(np.array(found).reshape(len(x), -1)[:, -1], expected, atol=1e-9)
    p = before.predict_score(x)
    odds = np.log(p) - np.log1p(-p)
    slope, bias, _ = shift
    wanted_odds = odds + (slope - 1) * np.clip(odds, -20, 20) + bias
    np.testing.assert_allclose(expected, 1 / (1 + np.exp(-wanted_odds)), atol=1e-9)


def test_after_frequencies_of_classes():
    now = ClassFrequencies((0.2,) * 5, (0.4, 0.3, 0.1, 0.1, 0.1))
    fitted = with_later(with_later(fitted_once("ts-nll"), now), ConfidenceShift(*SHIFTS[0]))
    z = rows()
    found, _ = run(program_of(fitted), z)
    np.testing.assert_allclose(found, fitted.predict_proba(z), atol=1e-6)


def test_options_that_a_row_does_not_have():
    z, y = simulate(300, 4, seed=1)
    z[::3, 3] = -np.inf
    y = np.where(np.isinf(z[np.arange(300), y]), 0, y)
    before = sc.TemperatureScaling().fit(z, y).fitted_
    few = np.array([[900.0, -np.inf, -np.inf, -900.0], [1.0, 0.5, -np.inf, 0.0]])
    for shift in SHIFTS:
        fitted = with_later(before, ConfidenceShift(*shift))
        expected = fitted.predict_proba(few)
        assert expected[0].tolist() == [1.0, 0.0, 0.0, 0.0]
        assert expected[1, 2] == 0 < expected[1, 3]
        found, _ = run(program_of(fitted), np.vstack([few, z]))
        np.testing.assert_allclose(found[:2], expected, atol=1e-6)
        np.testing.assert_allclose(found[2:], fitted.predict_proba(z), atol=1e-6)


def test_what_does_nothing_is_not_written_down():
    before = fitted_once("ts-nll")
    still = with_later(before, ConfidenceShift(1.0, 0.0))
    assert len(list(program_of(still).values())) == len(list(program_of(before).values()))
    z = rows()
    np.testing.assert_array_equal(still.predict_proba(z), before.predict_proba(z))
    assert replace(still, later=()).predict_proba(z).tolist() == still.predict_proba(z).tolist()
