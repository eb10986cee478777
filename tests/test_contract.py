"""What every method promises; each test runs for every name in the table."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import smallcal as sc
from simulated import simulate
from smallcal.catalogue import ALIASES, METHODS

CONTROLS = {"random-k3", "shuffled-k3"}
FITTED_OBJECTIVES = {"tva-ts": "top_label_bce", "ts-nll": "nll", "srts-bce": "top_label_bce"}


@pytest.fixture(params=[*METHODS, *ALIASES])
def name(request):
    return request.param


@pytest.fixture
def fitted(name, split):
    return sc.make(name).fit(*split)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_probabilities_are_finite_sum_to_one_and_keep_the_argmax(fitted):
    z, _ = simulate(500, 12, seed=9)
    for dtype, atol in ((np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 2e-2)):
        logits = z.astype(dtype)
        p = fitted.predict_proba(logits)
        assert p.dtype == dtype
        assert np.isfinite(p).all()
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, atol=atol)
        np.testing.assert_array_equal(p.argmax(axis=1), logits.argmax(axis=1))


def test_probabilities_are_the_softmax_at_the_stated_temperature(fitted):
    z, _ = simulate(300, 12, seed=4)
    t = fitted.temperature(z)
    np.testing.assert_allclose(fitted.predict_proba(z), softmax(z / t[:, None]), rtol=1e-10)
    np.testing.assert_array_equal(t, fitted.temperatures_[fitted.group(z)])


def test_float32_agrees_with_float64(fitted, name):
    z, _ = simulate(500, 12, seed=11)
    z = z.astype(np.float32)
    np.testing.assert_allclose(
        fitted.predict_proba(z), fitted.predict_proba(z.astype(np.float64)), atol=1e-5
    )


def test_a_fit_on_float32_agrees_with_a_fit_on_float64(name, split):
    z, y = split
    z = z.astype(np.float32)
    one = sc.make(name).fit(z, y)
    two = sc.make(name).fit(z.astype(np.float64), y)
    np.testing.assert_array_equal(one.temperatures_, two.temperatures_)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in CONTROLS])
def test_a_row_does_not_depend_on_its_batch(name, split):
    fitted = sc.make(name).fit(*split)
    z, _ = simulate(200, 12, seed=5)
    z[0] = np.linspace(0, 1, 12) / np.linspace(0, 1, 12).sum()  # looks like probabilities
    whole = fitted.predict_proba(z)
    for rows in (slice(0, 1), slice(3, 10), slice(199, 200)):
        np.testing.assert_array_equal(fitted.predict_proba(z[rows]), whole[rows])


def test_the_same_input_and_seed_give_the_same_bits(fitted, name, split):
    again = sc.make(name).fit(*split)
    z, _ = simulate(100, 12, seed=6)
    np.testing.assert_array_equal(again.predict_proba(z), fitted.predict_proba(z))


def test_the_global_random_state_is_neither_read_nor_written(name, split):
    np.random.seed(1)  # noqa: NPY002 the global state is what this test is about
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one = sc.make(name).fit(*split)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    np.testing.assert_array_equal(sc.make(name).fit(*split).temperatures_, one.temperatures_)


def test_saving_and_loading_changes_nothing(fitted, tmp_path):
    path = tmp_path / "cal.json"
    fitted.save(path)
    loaded = sc.load(path)
    z, _ = simulate(200, 12, seed=7)
    np.testing.assert_array_equal(loaded.predict_proba(z), fitted.predict_proba(z))
    assert loaded.to_dict() == fitted.to_dict()
    assert type(loaded) is type(fitted)
    refitted = clone(loaded).fit(*simulate(600, 12))
    np.testing.assert_array_equal(refitted.predict_proba(z), fitted.predict_proba(z))


def test_the_artefact_records_the_true_name(fitted, name):
    assert fitted.to_dict()["method"] == ALIASES.get(name, name)


def test_clone_and_params_follow_scikit_learn(fitted, name):
    fresh = clone(fitted)
    assert str(fresh.get_params()) == str(fitted.get_params())
    with pytest.raises(NotFittedError, match="not fitted yet; call fit"):
        fresh.predict_proba(np.zeros((3, 12)))
    for attribute in ("temperatures_", "flags_", "n_parameters_"):
        assert not hasattr(fresh, attribute)


def test_calibrator_by_name_is_the_same_estimator(fitted, name, split):
    by_name = sc.Calibrator(method=name).fit(*split)
    assert by_name.to_dict() == fitted.to_dict()


def test_a_class_missing_from_the_labels_is_legal(name):
    z, y = simulate(600, 12)
    keep = y != 3
    fitted = sc.make(name).fit(z[keep], y[keep])
    assert fitted.predict_proba(z).shape == z.shape


def test_two_classes_work(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        fitted = sc.make(name).fit(*simulate(400, 2, signal=1.0))
    p = fitted.predict_proba(simulate(50, 2, seed=3)[0])
    assert np.isfinite(p).all()


def test_probabilities_as_input_equal_their_logarithms(name, split):
    z, y = split
    p = softmax(z)
    by_proba = sc.make(name, input="probabilities").fit(p, y)
    by_log = sc.make(name).fit(np.log(p), y)
    np.testing.assert_array_equal(by_proba.temperatures_, by_log.temperatures_)
    np.testing.assert_allclose(by_proba.predict_proba(p), by_log.predict_proba(np.log(p)))


def test_class_permutation_permutes_the_probabilities(fitted, name, split):
    z, y = split
    order = np.random.default_rng(0).permutation(12)
    permuted = sc.make(name).fit(z[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(permuted.temperatures_, fitted.temperatures_, rtol=1e-6)


def test_wrong_columns_and_bad_rows_are_refused_at_prediction(fitted):
    with pytest.raises(sc.InputError, match="the 12 columns this calibrator was fitted on; got 5"):
        fitted.predict_proba(np.zeros((3, 5)))
    bad = np.zeros((3, 12))
    bad[2, 1] = np.nan
    with pytest.raises(sc.InputError, match=r"row 2 \(column 1"):
        fitted.predict_proba(bad)


def test_the_input_is_left_alone(fitted, name, split):
    z, y = (part.copy() for part in split)
    z.flags.writeable = y.flags.writeable = False
    sc.make(name).fit(z, y).predict_proba(z)
    np.testing.assert_array_equal(z, split[0])


@pytest.mark.parametrize("kind", ["all right", "all wrong", "one wrong", "ten samples", "constant"])
def test_a_split_that_tells_little_still_gives_a_usable_calibrator(name, kind):
    z, y = simulate(300, 5)
    if kind == "all right":
        y = z.argmax(axis=1)
    elif kind == "all wrong":
        y = (z.argmax(axis=1) + 1) % 5
    elif kind == "one wrong":
        y = z.argmax(axis=1)
        y[0] = (y[0] + 1) % 5
    elif kind == "ten samples":
        z, y = z[:10], y[:10]
    else:
        z = np.tile([2.0, 0, 0, 0, 1], (300, 1))
    if name == "none":
        fitted = sc.make(name).fit(z, y)
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = sc.make(name).fit(z, y)
        assert all(issubclass(w.category, sc.FitWarning) for w in caught)
        assert len(caught) == len(fitted.flags_)
        if kind in ("all right", "all wrong"):
            assert "unidentified" in fitted.flags_
    p = fitted.predict_proba(z)
    assert np.isfinite(p).all()
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


@pytest.mark.parametrize("name", sorted(FITTED_OBJECTIVES))
def test_the_fitted_objective_does_not_get_worse_on_the_calibration_split(name, split):
    report = sc.make(name).fit(*split).to_dict()["fit_metrics"]
    key = FITTED_OBJECTIVES[name]
    assert report["after"][key] <= report["before"][key] + 1e-9
