"""Groups by the temperature of an unrestricted head: against heads that are trained one by one."""

import sys
import warnings

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.signals.crossfit import stratified_folds
from smallcal.calibrators.signals.heads import HeadTemperature, LogitHeadTemperature
from smallcal.errors import InputError, MissingExtraError
from support.cases import features_of
from support.simulated import simulate

pytest.importorskip("torch", reason="the heads are trained by torch")

EPOCHS = 40


@pytest.fixture(scope="module")
def split():
    z, y = simulate(300, 6)
    return z, y, features_of(z)


def fit(name, z, y, features, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(name, epochs=EPOCHS, **options).fit(z, y, features=features)


def test_new_rows_are_grouped_by_the_temperature_of_the_head_itself(split):
    routed, head = fit("temphead-k3", *split), fit("utemphead", *split)
    new = simulate(200, 6, seed=5)[0]
    temperature = head.temperature(new, features=features_of(new))
    np.testing.assert_array_equal(
        routed.fitted_.scores(new, features=features_of(new)), temperature
    )
    groups = np.searchsorted(routed.thresholds_, temperature, side="right")
    np.testing.assert_array_equal(routed.group(new, features=features_of(new)), groups)
    assert routed.n_parameters_ == head.n_parameters_ + 3 == 128 * 4 + 260


def test_thresholds_and_temperatures_come_from_heads_that_did_not_see_the_sample(split):
    z, y, features = split
    routed = fit("temphead-k3", *split)
    fold = stratified_folds(z.argmax(axis=1) != y, 5, 0)
    scores = np.empty(len(z))
    for k in range(5):
        seen, own = fold != k, fold == k
        head = fit("utemphead", z[seen], y[seen], features[seen])
        scores[own] = head.temperature(z[own], features=features[own])
    np.testing.assert_allclose(routed.thresholds_, np.quantile(scores, [1 / 3, 2 / 3]), rtol=1e-3)
    group = np.searchsorted(routed.thresholds_, scores, side="right")
    for k, temperature in enumerate(routed.temperatures_):
        alone = sc.make("tva-ts").fit(z[group == k], y[group == k])
        assert alone.temperature_ == pytest.approx(temperature, rel=0.05)


def test_a_head_of_logits_needs_no_features(split):
    z, y, _ = split
    routed = fit("temphead-k3", z, y, None, signal="logit_head_temperature")
    head = fit("sats-logit-nll", z, y, None, protocol="fixed")
    assert routed.method_ == "temphead-k3[signal=logit_head_temperature,epochs=40]"
    assert isinstance(routed.fitted_.signal, LogitHeadTemperature)
    new = simulate(50, 6, seed=5)[0]
    np.testing.assert_array_equal(routed.fitted_.scores(new), head.temperature(new))


def test_what_is_saved_is_the_head_and_loads_with_its_options(split, tmp_path):
    routed = fit("temphead-k3", *split)
    routed.save(tmp_path / "cal.json")
    again = sc.load(tmp_path / "cal.json")
    assert isinstance(again.fitted_.signal, HeadTemperature)
    assert again.get_params()["options"] == {"epochs": EPOCHS}
    z, _, features = split
    np.testing.assert_array_equal(
        again.predict_proba(z, features=features), routed.predict_proba(z, features=features)
    )


@pytest.mark.parametrize("n_wrong", [0, 1, 2, 3])
def test_too_few_errors_to_train_heads_without_some_of_them_give_one_temperature(n_wrong):
    z, _ = simulate(60, 4)
    y = z.argmax(axis=1)
    y[:n_wrong] = z[:n_wrong].argmin(axis=1)
    routed = fit("temphead-k3", z, y, features_of(z))
    # Of three errors each of three parts leaves out one, and two are enough.
    assert ("no_router" in routed.flags_) == (n_wrong < 3)
    assert ("fewer_folds" in routed.flags_) == (n_wrong == 3)


def test_a_head_whose_layers_do_not_fit_is_refused():
    with pytest.raises(InputError, match="layer 0 has 2 outputs and 2 biases, but 3 values"):
        HeadTemperature(([[1.0], [1.0]], [[1.0, 1.0, 1.0]]), ([0.0, 0.0], [0.0]))


def test_without_torch_the_error_says_what_to_install(split, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"needs the package 'torch': pip install .*torch"):
        fit("temphead-k3", *split)


def test_options_of_a_signal_reach_it_through_make(split):
    z, y, features = split
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        plain, odds = (
            sc.make("features-k3", **options).fit(z, y, features=features)
            for options in ({}, {"scale": "logit"})
        )
    assert odds.method_ == "features-k3[scale=logit]"
    # Probabilities and their log-odds have the same order; quantiles between samples differ.
    p = plain.fitted_.scores(z, features=features)
    np.testing.assert_allclose(
        odds.fitted_.scores(z, features=features), np.log(p / (1 - p)), rtol=1e-9
    )
    with pytest.raises(InputError, match="features-k3 has no option 'epochs'"):
        sc.make("features-k3", epochs=5)
