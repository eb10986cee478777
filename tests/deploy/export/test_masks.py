"""Rows that no fit saw: options that are not there, huge logits, and rows that are none.

Every way to apply a calibrator gives NumPy's probabilities, or refuses what NumPy refuses.
"""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import smallcal as sc
from smallcal.deploy.export import to_onnx
from support.backends import BACKENDS, session_of
from support.cases import (
    EXPORTABLE,
    drawn,
    fitted_once,
    missing_package,
    predict,
    refit,
)
from support.cases import make as made

EXPORTED = [name for name in EXPORTABLE if not missing_package(name)]
#: One for each way to make probabilities; ``make test-slow`` looks at the others.
QUICK = ["ts-nll", "srts-bce", "smallcal", "matrix-scaling", "scaling-binning", "platt"]
#: What comes beside usual numbers: no option, and numbers that are huge, too large, or none.
ODD = [-np.inf, -np.inf, -1e30, -1e12, -3e8, 1e6, 3e8, 1e12]
NONE = [np.inf, np.nan, 1e30]


@cache
def with_masks(name):
    """Return a calibrator that was fitted on masked rows, where the method takes more classes."""
    z, y = drawn(name, 600)
    gone = (np.arange(600) % 3 == 0)[:, None] & (np.arange(z.shape[1]) > z.shape[1] // 2)
    gone[np.arange(600), y] = False
    if z.shape[1] > 2:
        z = np.where(gone, -np.inf, z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return refit(made(name), z, y)


def odd_rows(name):
    """Return rows that one can calibrate and rows that one cannot, and which are which."""
    z = drawn(name, 40, seed=3)[0]
    n, n_classes = z.shape
    rng = np.random.default_rng(len(name))
    z[:5] *= np.array([1e6, 3e8, 1e9, 1e12, 1e-30])[:, None]
    odd = rng.random(z.shape) < rng.choice([0.0, 0.1, 0.5], size=(n, 1))
    z[odd] = rng.choice(ODD, size=int(odd.sum()))
    for row, number in enumerate(NONE, start=5):
        z[row, rng.integers(n_classes)] = number
    z[8, 1:], z[9] = -np.inf, -np.inf
    if n_classes > 2:
        z[10, 2:] = -np.inf
    z = z.astype(np.float32).astype(np.float64)  # the same numbers in both types
    return z, (z <= 1e15).all(axis=1) & ((z >= -1e15).sum(axis=1) >= 2)


def require_refused(run, z):
    """Each row is one error of a line; none is taken for a defect."""
    for row in z:
        with pytest.raises(Exception, match="logits") as found, np.errstate(invalid="ignore"):
            run(row[None])
        assert found.type.__name__ in ("InputError", "ValueError", "InvalidInputException")


@pytest.mark.parametrize("fit", [fitted_once, with_masks])
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.hard) for name in EXPORTED],
)
def test_every_place_agrees_or_refuses(name, fit):
    cal = fit(name)
    z, usable = odd_rows(name)
    require_refused(lambda rows: predict(cal, rows), z[~usable])
    expected = predict(cal, z[usable])
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-9)
    assert (expected[z[usable] < -1e15] == 0).all()
    single = predict(cal, z[usable].astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=3e-7, atol=2e-6)
    alone = [predict(cal, row[None])[0] for row in z[usable]]
    np.testing.assert_allclose(alone, expected, rtol=1e-12)
    for place, backend in BACKENDS.items():
        if not backend.there:
            continue
        if place in ("torch", "onnx"):
            for kind, slack in ((np.float64, 1e-9), (np.float32, 1e-6)):
                found = backend.run(cal.fitted_, z.astype(kind))
                assert np.isnan(found[~usable]).all(), place
                np.testing.assert_allclose(
                    found[usable], expected, rtol=3e-7, atol=slack, err_msg=place
                )
        else:
            require_refused(lambda rows, run=backend.run: run(cal.fitted_, rows), z[~usable])
            found = backend.run(cal.fitted_, z[usable])
            np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-9, err_msg=place)


@cache
def learned_later(what):
    """Return the default with something that was chosen or learned after the fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator(keep_predictions=what == "kept").fit(*drawn("smallcal", 600))
    z, y = drawn("smallcal", 600, seed=2)
    if what == "refreshed":
        return sc.refresh(cal, 1.3 * z, y).calibrator
    if what == "adapted":
        return sc.adapt(cal, rates=np.arange(1, 13) / 78).calibrator
    return sc.certify(cal, z, y, risk=0.5).calibrator


@pytest.mark.parametrize("place", BACKENDS)
@pytest.mark.parametrize("what", ["kept", "refreshed", "adapted"])
def test_what_was_learned_later_masks_too(what, place):
    if not BACKENDS[place].there:
        pytest.skip(f"needs {BACKENDS[place].needs}")
    fitted = learned_later(what)
    z, usable = odd_rows("smallcal")
    expected = fitted.predict_proba(z[usable])
    assert (expected[z[usable] < -1e15] == 0).all()
    found = BACKENDS[place].run(fitted, z[usable])
    np.testing.assert_allclose(found, expected, rtol=3e-7, atol=1e-9)


def test_onnx_accepts_no_row_that_is_none():
    pytest.importorskip("onnxruntime")
    fitted = learned_later("kept")
    z, usable = odd_rows("smallcal")
    session = session_of(to_onnx(fitted, dtype="float64"))
    confidence, accepted = session.run(["confidence", "accepted"], {"logits": z})
    assert np.isnan(confidence[~usable]).all()
    assert not accepted[~usable].any()
    np.testing.assert_allclose(confidence[usable], fitted.confidence(z[usable]), rtol=3e-7)
    np.testing.assert_array_equal(accepted[usable], fitted.accept(z[usable]))
