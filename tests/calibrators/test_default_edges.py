"""The default where a split is extreme: it fits, says what it must, and can be saved."""

import warnings

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
def test_logits_of_any_size_give_a_calibrator(n_classes, size, right):
    z, y = drawn(60, n_classes, size, right=right)
    cal = quietly(z, y)
    np.testing.assert_allclose(cal.predict_proba(z).sum(axis=1), 1)
    assert cal.temperature(z).min() > 0


@pytest.mark.parametrize("seed", range(3))
def test_heavy_tails_and_more_classes_than_samples_are_served(seed):
    rng = np.random.default_rng(seed)
    z, y = rng.standard_t(1, size=(30, 200)), rng.integers(200, size=30)
    assert np.isfinite(quietly(z, y).predict_proba(z)).all()


def test_a_thousand_classes_with_random_labels_get_no_large_biases():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(250, 1000)), rng.integers(1000, size=250)
    cal = quietly(z, y)
    fresh = rng.normal(size=(500, 1000))
    before, after = (p.max(axis=1).mean() for p in (softmax(fresh), cal.predict_proba(fresh)))
    assert after < before + 0.01


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def test_a_split_of_which_nothing_is_right_can_be_saved(tmp_path):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(12, 100)), rng.integers(100, size=12)
    cal = quietly(z, y)
    cal.save(tmp_path / "cal.json")
    np.testing.assert_array_equal(
        sc.load(tmp_path / "cal.json").predict_proba(z), cal.predict_proba(z)
    )


def test_the_order_in_memory_does_not_matter():
    z, y = drawn(200, 5, 3.0)
    cal = quietly(z, y)
    np.testing.assert_array_equal(cal.predict_proba(np.asfortranarray(z)), cal.predict_proba(z))


def test_rows_may_stand_in_any_order():
    rng = np.random.default_rng(0)
    z, y = drawn(300, 5, 3.0)
    order = rng.permutation(300)
    np.testing.assert_allclose(
        quietly(z[order], y[order]).predict_proba(z), quietly(z, y).predict_proba(z), atol=1e-4
    )


def test_what_is_neither_true_nor_false_is_refused():
    z, y = drawn(60, 4, 3.0)
    with pytest.raises(sc.InputError, match="keep_predictions must be True or False; got 'no'"):
        sc.Calibrator(keep_predictions="no").fit(z, y)


@pytest.mark.parametrize("options", [{}, {"keep_predictions": True}])
def test_a_loaded_default_is_written_as_it_was_made(options, tmp_path):
    z, y = drawn(200, 4, 3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        cal = sc.Calibrator(**options).fit(z, y)
    cal.save(tmp_path / "cal.json")
    loaded = sc.load(tmp_path / "cal.json")
    assert loaded.method == "smallcal"
    assert loaded.keep_predictions is options.get("keep_predictions", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        again = loaded.fit(z, y)
    np.testing.assert_array_equal(again.predict_proba(z), cal.predict_proba(z))
