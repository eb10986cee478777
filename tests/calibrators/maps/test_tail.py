"""Top and tail: the exact split of the log-loss, and a mix that keeps the argmax."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

import smallcal as sc
from smallcal.calibrators.maps.tail import TAIL_SCALE, tail_temperature
from smallcal.calibrators.signals import row_blocks
from smallcal.calibrators.softmax import tailed_softmax
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.cases import fit
from support.simulated import simulate


def plain(z, t, tau):
    """The definition, row by row."""
    result = []
    for row, temperature in zip(z.astype(float), t, strict=True):
        top = int(row.argmax())
        p = np.exp((row - row.max()) / temperature)
        p /= p.sum()
        others = np.delete(row, top)
        r0, r = (np.exp((others - others.max()) / s) for s in (temperature, tau))
        r0, r = r0 / r0.sum(), r / r.sum()
        c = p[top]
        odds = c / max(1 - c, 1e-300)
        alpha = 1.0
        if r.max() > r0.max():
            alpha = min(1.0, max(0.0, (odds - r0.max()) / (r.max() - r0.max())))
        result.append(np.insert((1 - c) * (alpha * r + (1 - alpha) * r0), top, c))
    return np.array(result)


def tailed(z, t, tau):
    out = np.empty(z.shape, dtype=z.dtype)
    for block in row_blocks(z):
        tailed_softmax(block, t[block.rows], tau, out=out[block.rows])
    return out


rows = st.integers(3, 7).flatmap(
    lambda c: arrays(np.float64, (4, c), elements=st.floats(-15, 15, width=32))
)


@settings(max_examples=150)
@given(rows, st.floats(0.1, 8), st.floats(0.1, 8))
def test_the_runtime_is_the_definition(z, t, tau):
    temperature = np.full(4, t)
    got = tailed(z, temperature, tau)
    np.testing.assert_allclose(got, plain(z, temperature, tau), atol=1e-9)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(got.argmax(axis=1), z.argmax(axis=1))


def test_extreme_gaps_stay_finite():
    z = np.array([[1e4, 0.0, -1e4], [0.0, 0.0, 0.0], [5.0, 5.0, -800.0]])
    for t, tau in ((0.05, 20.0), (20.0, 0.05)):
        p = tailed(z, np.full(3, t), tau)
        assert np.isfinite(p).all()
        np.testing.assert_array_equal(p.argmax(axis=1), [0, 0, 0])


def test_equal_temperatures_change_nothing():
    z, _ = simulate(100, 6)
    expected = np.exp(z / 1.7 - (z / 1.7).max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tailed(z, np.full(100, 1.7), 1.7), expected, rtol=1e-10)


def test_the_tail_is_the_minimum_of_its_own_likelihood():
    z, y = simulate(800, 7, signal=2.0)
    preds = Predictions.of(z, y)
    found = tail_temperature(preds, 1.3, bounds=(0.05, 20.0))
    wrong = np.flatnonzero(~preds.correct)

    def loss(u):
        total = (u - np.log(1.3)) ** 2 / (2 * TAIL_SCALE**2)
        for i in wrong:
            others = z[i].copy()
            others[z[i].argmax()] = -np.inf
            scaled = others / np.exp(u)
            total -= scaled[y[i]] - np.logaddexp.reduce(scaled)
        return total

    best = minimize_scalar(loss, bounds=(-2, 3), method="bounded", options={"xatol": 1e-9})
    assert np.log(found) == pytest.approx(best.x, abs=1e-5)


@pytest.mark.parametrize("name", ["tva-ts", "srts-bce", "srts-shrunk", "signal-linear"])
def test_the_tail_leaves_confidences_alone_and_lowers_the_log_loss(name, split):
    z, y = split
    z = z * np.where(z == z.max(axis=1, keepdims=True), 1.0, 0.6)  # tails that are too flat
    without, with_tail = fit(name, z, y), fit(f"{name}+tail", z, y)
    p, q = without.predict_proba(z), with_tail.predict_proba(z)
    np.testing.assert_allclose(q.max(axis=1), p.max(axis=1), rtol=1e-12)
    metrics = ["ece15", "top_label_bce", "nll", "accuracy"]
    before, after = sc.evaluate(y, p, metrics=metrics), sc.evaluate(y, q, metrics=metrics)
    assert after["ece15"] == pytest.approx(before["ece15"], abs=1e-12)
    assert after["top_label_bce"] == pytest.approx(before["top_label_bce"], abs=1e-12)
    assert after["nll"] < before["nll"]
    assert with_tail.n_parameters_ == without.n_parameters_ + 1
    report = with_tail.to_dict()["fit_metrics"]["after"]
    assert report["nll"] == pytest.approx(after["nll"], rel=1e-9)


@pytest.mark.parametrize("name", ["tva-ts", "srts-bce", "class-linear"])
def test_a_calibrator_with_a_tail_gives_the_definition(name, split):
    cal = fit(f"{name}+tail", *split)
    z = split[0][:200]
    tau = cal.fitted_.tail_temperature
    assert abs(tau - cal.temperature(z)).min() > 1e-3
    np.testing.assert_allclose(cal.predict_proba(z), plain(z, cal.temperature(z), tau), atol=1e-9)


def test_two_classes_or_no_errors_have_no_tail_of_their_own():
    two = fit("tva-ts+tail", *simulate(300, 2, signal=1.0))
    assert two.fitted_.tail_temperature is None
    z, _ = simulate(100, 5)
    sure = fit("srts-shrunk+tail", z, z.argmax(axis=1))
    assert sure.fitted_.tail_temperature == pytest.approx(sure.pooled_temperature_)


def test_the_option_is_there_for_maps_of_one_temperature_and_refused_elsewhere():
    z, y = simulate(400, 5)
    assert fit("pwlinear-3", z, y, tail="nll").method_ == "pwlinear-3[tail=nll]"
    assert fit("srts-bce", z, y, tail="nll").method_ == "srts-bce+tail"
    assert sc.TemperatureScaling(objective="bce", tail="nll").fit(z, y).method_ == "tva-ts+tail"
    for name in ("vector-scaling", "meta-cal"):
        with pytest.raises(InputError, match="no option 'tail'"):
            fit(name, z, y, tail="nll")
    with pytest.raises(InputError, match="tail must be None, or 'nll'"):
        fit("srts-bce", z, y, tail="bce")
