"""The gate: evidence by another route, and a model that is left alone when there is too little."""

import warnings

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.maps.gate import evidence, evidence_needed
from smallcal.calibrators.maps.temperature import ScalarMap
from smallcal.calibrators.objectives import Gaps
from smallcal.data.predictions import Predictions
from smallcal.data.special import softmax
from smallcal.errors import InputError
from support.cases import fit
from support.simulated import simulate

GATED = "class-linear+tail+gate"


def honest(n, n_classes, *, seed, temperature=1.0):
    """Logits whose softmax, at that temperature, is what labels are drawn from."""
    rng = np.random.default_rng(seed)
    z = 2.5 * rng.normal(size=(n, n_classes))
    steps = softmax(z / temperature).cumsum(axis=1)
    return z, (steps > steps[:, -1:] * rng.random((n, 1))).argmax(axis=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("t", [0.5, 1.0, 3.0])
def test_evidence_is_the_log_likelihood_ratio_of_right_and_wrong(t, weighted):
    z, y = simulate(120, 5)
    weight = np.random.default_rng(1).integers(1, 4, 120).astype(float) if weighted else None
    got = evidence(Gaps.of(Predictions.of(z, y, weight=weight)), ScalarMap(t), np.zeros(120))
    total = 0.0
    for i, row in enumerate(np.asarray(z, dtype=float)):
        top = int(row.argmax())
        before, after = (float(softmax(row[None] / s)[0, top]) for s in (1.0, t))
        if top == y[i]:
            gain = np.log(after) - np.log(before)
        else:
            gain = np.log1p(-after) - np.log1p(-before)
        total += gain * (1.0 if weight is None else weight[i])
    assert got == pytest.approx(total, rel=1e-9, abs=1e-9)


def test_more_samples_need_more_evidence_and_the_least_is_fifteen_to_one():
    needed = [evidence_needed(n) for n in (1, 20, 150, 151, 400, 2500, 10**6)]
    assert needed == sorted(needed)
    assert needed[0] == needed[1] == pytest.approx(np.log(15))
    # Three parameters at half a log n each: ten times the samples, 31.6 times the ratio.
    assert evidence_needed(25_000) - evidence_needed(2_500) == pytest.approx(1.5 * np.log(10))


def test_a_calibrated_model_is_left_alone_and_a_miscalibrated_one_is_not():
    kept = ["kept_raw" in fit(GATED, *honest(200, 8, seed=seed)).flags_ for seed in range(60)]
    assert np.mean(kept) >= 0.95
    for seed in range(20):
        assert "kept_raw" not in fit(GATED, *honest(400, 8, seed=seed, temperature=2.5)).flags_


@pytest.mark.parametrize(
    ("name", "options"),
    [(GATED, {}), ("srts-bce", {"gate": "evidence"}), ("tva-ts+tail", {"gate": "evidence"})],
)
def test_a_model_left_alone_gives_the_bits_of_the_raw_one(name, options, tmp_path):
    z, y = honest(300, 6, seed=3)
    cal = fit(name, z, y, **options)
    assert list(cal.flags_) == ["kept_raw"]
    assert cal.n_parameters_ == 0
    assert cal.pooled_temperature_ == 1
    raw = sc.Identity().fit(z, y)
    for kind in (np.float32, np.float64):
        new = 3 * np.random.default_rng(0).normal(size=(50, 6)).astype(kind)
        np.testing.assert_array_equal(cal.predict_proba(new), raw.predict_proba(new))
    cal.save(tmp_path / "cal.json")
    again = sc.load(tmp_path / "cal.json")
    assert again.get_params() == cal.get_params()
    np.testing.assert_array_equal(again.predict_proba(new), cal.predict_proba(new))


def test_a_model_that_is_not_left_alone_is_calibrated_as_without_the_gate():
    z, y = honest(2000, 10, seed=0, temperature=2.0)
    gated, free = fit(GATED, z, y), fit("class-linear", z, y)
    np.testing.assert_array_equal(gated.temperature(z), free.temperature(z))
    # One temperature made these labels: a second one for the tail has not earned its place.
    assert gated.fitted_.tail_temperature is None
    assert fit("class-linear+tail", z, y).fitted_.tail_temperature is not None
    np.testing.assert_array_equal(gated.predict_proba(z), free.predict_proba(z))


def test_a_tail_that_is_off_gets_its_temperature():
    rng = np.random.default_rng(0)
    z, y = honest(2000, 10, seed=0, temperature=2.0)
    wrong = np.flatnonzero(z.argmax(axis=1) != y)
    others = np.argsort(z[wrong], axis=1)[:, :-1]
    y[wrong] = others[np.arange(len(wrong)), rng.integers(9, size=len(wrong))]  # any of them
    gated, free = fit(GATED, z, y), fit("class-linear+tail", z, y)
    assert gated.fitted_.tail_temperature == free.fitted_.tail_temperature > 4
    np.testing.assert_array_equal(gated.predict_proba(z), free.predict_proba(z))


@pytest.mark.parametrize("name", ["tva-ts", "tva-ts+tail"])
@pytest.mark.parametrize("temperature", [1.15, 1.3])
def test_a_weight_of_two_is_a_sample_twice(name, temperature):
    z, y = honest(160, 8, seed=4, temperature=temperature)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        once = sc.make(name, gate="evidence").fit(z, y, sample_weight=np.full(160, 2.0))
    twice = fit(name, np.tile(z, (2, 1)), np.tile(y, 2), gate="evidence")
    assert set(once.flags_) == set(twice.flags_)
    np.testing.assert_allclose(once.predict_proba(z), twice.predict_proba(z), rtol=1e-6)


def with_odd_tail(n, seed):
    """Labels of which some wrong ones are any class, likely or not."""
    rng = np.random.default_rng(seed)
    z, y = honest(n, 8, seed=seed, temperature=2.0)
    wrong = np.flatnonzero(z.argmax(axis=1) != y)
    wrong = wrong[rng.random(len(wrong)) < 0.6]
    others = np.argsort(z[wrong], axis=1)[:, :-1]
    y[wrong] = others[np.arange(len(wrong)), rng.integers(7, size=len(wrong))]
    return z, y


def test_a_tail_is_earned_by_weight_as_by_copies():
    """Splits so small that their weights decide whether the tail gets a temperature."""
    tails, unweighted = [], []
    for seed in range(16):
        z, y = with_odd_tail(60, seed)
        weight = np.random.default_rng(seed).integers(1, 6, size=60)
        again = np.repeat(np.arange(60), weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cal = sc.make("tva-ts+tail", gate="evidence").fit(z, y, sample_weight=weight)
        copied = fit("tva-ts+tail", z[again], y[again], gate="evidence")
        tail, expected = cal.fitted_.tail_temperature, copied.fitted_.tail_temperature
        assert tail == (None if expected is None else pytest.approx(expected, rel=1e-6))
        tails.append(tail is not None)
        alone = fit("tva-ts+tail", z, y, gate="evidence").fitted_.tail_temperature
        unweighted.append(alone is not None)
    assert 0 < sum(unweighted) < sum(tails) < 16


def test_the_gate_is_for_temperatures_and_has_one_spelling():
    with pytest.raises(InputError, match="gate must be None, or 'evidence' or 'weight' where one"):
        sc.TemperatureScaling(gate="yes").fit(*simulate(100, 4))
    with pytest.raises(InputError, match="no option 'gate'"):
        sc.make("ets", gate="evidence")
    assert sc.SRTS(gate="evidence").fit(*simulate(900, 5)).method_ == "srts-bce[gate=evidence]"


def test_on_real_logits_the_default_is_not_worse_than_the_raw_model(real_cell):
    for draw in range(3):
        rows = np.random.default_rng(draw).choice(len(real_cell["val_labels"]), 250, replace=False)
        cal = fit("default", real_cell["val_logits"][rows], real_cell["val_labels"][rows])
        found = [
            sc.evaluate(real_cell["test_labels"], p, metrics=["top_label_bce"])["top_label_bce"]
            for p in (cal.predict_proba(real_cell["test_logits"]), raw_of(real_cell))
        ]
        assert found[0] <= found[1] + 0.005


def raw_of(cell):
    z = cell["test_logits"]
    return sc.Identity().fit(z, cell["test_labels"]).predict_proba(z)
