"""The default where a split is extreme: it fits, says what it must, and can be saved."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc


def quietly(z, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.Calibrator().fit(z, y, **options)


def drawn(n, n_classes, size, *, seed=0, right=0.5):
    rng = np.random.default_rng(seed)
    z = size * rng.normal(size=(n, n_classes))
    return z, np.where(rng.random(n) < right, z.argmax(axis=1), rng.integers(n_classes, size=n))


@pytest.mark.parametrize("n_classes", [2, 3, 40])
@pytest.mark.parametrize("size", [1e-3, 0.03, 3.0, 300.0, 3000.0, 1e6])
@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
def test_logits_of_any_size_give_a_calibrator_that_keeps_predictions(n_classes, size, right):
    z, y = drawn(60, n_classes, size, right=right)
    p = quietly(z, y).predict_proba(z)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


def test_logits_too_far_apart_are_not_corrected():
    z, y = drawn(60, 4, 1e6)
    assert not np.any(quietly(z, y).fitted_.correction.bias)


@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_and_more_classes_than_samples_are_served(seed):
    rng = np.random.default_rng(seed)
    z, y = rng.standard_t(1, size=(30, 200)), rng.integers(200, size=30)
    assert np.isfinite(quietly(z, y).predict_proba(z)).all()


def test_a_thousand_classes_with_random_labels_get_no_large_biases():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(250, 1000)), rng.integers(1000, size=250)
    cal = quietly(z, y)
    correction = cal.fitted_.correction
    assert np.abs(correction(z) - z).max() < 5
    fresh = rng.normal(size=(500, 1000))
    before, after = (p.max(axis=1).mean() for p in (softmax(fresh), cal.predict_proba(fresh)))
    assert after < before + 0.01


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 7])
@pytest.mark.parametrize("n", [12, 276])
@pytest.mark.parametrize("keep", [True, False])
def test_a_split_without_errors_leaves_the_model_alone(n_classes, n, keep, tmp_path):
    z = 1.5 * np.random.default_rng(n).normal(size=(n, n_classes))
    cal = sc.Calibrator(keep_predictions=keep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal.fit(z, z.argmax(axis=1))
    np.testing.assert_allclose(cal.predict_proba(z), softmax(z), rtol=1e-12)
    assert list(cal.fitted_.flags) == ["kept_raw"]
    assert cal.fitted_.n_parameters == 0
    cal.save(tmp_path / "cal.json")
    np.testing.assert_array_equal(
        sc.load(tmp_path / "cal.json").predict_proba(z), cal.predict_proba(z)
    )
    assert "no prediction is wrong" in cal.fitted_.flag_text("kept_raw")


def test_a_split_of_which_nothing_is_right_can_be_saved(tmp_path):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(12, 100)), rng.integers(100, size=12)
    cal = quietly(z, y)
    assert cal.fitted_.fit_metrics["free_accuracy"]["low"] >= 0
    cal.save(tmp_path / "cal.json")
    np.testing.assert_array_equal(
        sc.load(tmp_path / "cal.json").predict_proba(z), cal.predict_proba(z)
    )


def test_accuracies_in_the_warning_are_weighted_alike():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(600, 5))
    y = (z + np.array([2, 0, 0, 0, 0]) + rng.gumbel(size=z.shape)).argmax(axis=1)
    right = z.argmax(axis=1) == y
    weight = np.where(right, 0.1, 1.0)
    before = 100 * np.average(right, weights=weight)
    with pytest.warns(sc.FitWarning, match=f"would raise accuracy from {before:.1f} to"):
        sc.Calibrator().fit(z, y, sample_weight=weight)


def test_directions_read_nothing_of_a_constant():
    """Logits of one direction only: what is added to a row must not be read as if it meant it."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=200)[:, None] * 2 * np.array([2, -1, -1.0])
    y = (z + np.array([0, 1, 0]) + rng.gumbel(size=z.shape)).argmax(axis=1)
    correction = quietly(z, y).fitted_.correction
    np.testing.assert_allclose(np.sum(correction.reads, axis=1), 0, atol=1e-9)
    np.testing.assert_allclose(correction(z + 50), correction(z) + 50, atol=1e-9)


def test_the_order_in_memory_does_not_matter():
    z, y = drawn(200, 5, 3.0)
    cal = quietly(z, y)
    np.testing.assert_array_equal(cal.predict_proba(np.asfortranarray(z)), cal.predict_proba(z))


def test_rows_may_stand_in_any_order():
    rng = np.random.default_rng(0)
    z, y = drawn(300, 5, 3.0)
    order = rng.permutation(300)
    np.testing.assert_allclose(
        quietly(z[order], y[order]).predict_proba(z), quietly(z, y).predict_proba(z), rtol=1e-6
    )


def test_what_is_neither_true_nor_false_is_refused():
    z, y = drawn(60, 4, 3.0)
    with pytest.raises(sc.InputError, match="keep_predictions must be True, False or None; got 'n"):
        sc.Calibrator(keep_predictions="no").fit(z, y)


@pytest.mark.parametrize("options", [{}, {"keep_predictions": False}])
def test_a_loaded_default_is_written_as_it_was_made(options, tmp_path):
    z, y = drawn(200, 4, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator(**options).fit(z, y)
    cal.save(tmp_path / "cal.json")
    loaded = sc.load(tmp_path / "cal.json")
    assert loaded.method == cal.method_
    assert loaded.keep_predictions is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        again = loaded.fit(z, y)
    np.testing.assert_array_equal(again.predict_proba(z), cal.predict_proba(z))


@pytest.mark.parametrize("name", ["shuffled-k3", "srts-bce"])
def test_signals_of_corrected_logits_are_asked_of_corrected_logits(name):
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(900, 4))
    y = (z / 2 + np.array([2, 0, 0, 0]) + rng.gumbel(size=z.shape)).argmax(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        fitted = sc.make(name).fit(z, y).fitted_
    correction = quietly(z, y).fitted_.correction
    moved = replace(fitted, correction=correction)
    np.testing.assert_array_equal(moved.scores(z), fitted.scores(correction(z)))
    np.testing.assert_allclose(moved.predict_proba(z), fitted.predict_proba(correction(z)))
