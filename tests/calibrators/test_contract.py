"""What every method promises; each test runs for every name in the table."""

import functools
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.calibrators.discipline import NOTES
from smallcal.calibrators.maps import TemperatureMap
from smallcal.calibrators.maps.multinomial import MultinomialMap
from support.cases import (
    DEPLOYABLE,
    QUICK,
    RANDOM_CONTROLS,
    answers_of,
    drawn,
    fit,
    fitted_once,
    inputs_of,
    make,
    predict,
    refit,
    require_package,
    trains_a_head,
)
from support.refused import refused
from support.simulated import simulate

FITTED_OBJECTIVES = {
    "tva-ts": "top_label_bce",
    "ts-nll": "nll",
    "srts-bce": "top_label_bce",
    "linear-risk": "top_label_bce",
    "hts-nll": "nll",
    "hts-bce": "top_label_bce",
    "qats-nll": "nll",
    "qats-bce": "top_label_bce",
}


@pytest.fixture(params=[*METHODS, "default"])
def name(request):
    return request.param


@pytest.fixture
def fitted(name):
    return fitted_once(name)


@pytest.fixture
def split(name):
    return drawn(name, 600)


@functools.cache
def fitted_again(name):
    """The same fit once more, on arrays that cannot be written to; and the global random state."""
    z, y = drawn(name, 600, 12)
    z.flags.writeable = y.flags.writeable = False
    np.random.seed(1)  # noqa: NPY002 the global state is what a test is about
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    cal = fit(name, z, y)
    return cal, z, before, np.random.get_state()[1].copy()  # noqa: NPY002


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_probabilities_are_finite_sum_to_one_and_keep_their_promise_on_the_argmax(fitted):
    z, _ = simulate(500, fitted.fitted_.n_classes, seed=9)
    for dtype, atol in ((np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 1e-5)):
        logits = z.astype(dtype)
        p = predict(fitted, logits)
        assert p.dtype == np.promote_types(dtype, np.float32)
        assert np.isfinite(p).all()
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, atol=atol)
        if fitted.preserves_argmax_:
            np.testing.assert_array_equal(p.argmax(axis=1), logits.argmax(axis=1))


def test_the_number_of_changed_predictions_is_told(fitted, split):
    z, _y = split
    changed = (predict(fitted, z).argmax(axis=1) != z.argmax(axis=1)).sum()
    assert fitted.n_changed_ == changed
    assert not (fitted.preserves_argmax_ and changed)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.parameters])
def test_the_number_of_parameters_is_the_one_in_the_table(name, split):
    formula = METHODS[name].parameters.replace("²", "**2").replace("·", "*")
    stated = eval(formula, {"C": split[0].shape[1], "d": 4})
    if name not in QUICK or trains_a_head(name):  # length of training adds no parameter
        fitted = fitted_once(name)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sc.FitWarning)
            fitted = refit(sc.make(name), *split)
    assert fitted.n_parameters_ == stated


def test_probabilities_are_the_softmax_at_the_stated_temperature(fitted):
    z, _ = simulate(300, fitted.fitted_.n_classes, seed=4)
    if isinstance(fitted.fitted_.map, MultinomialMap):
        assert fitted.temperature(z).shape == (300,)
        return
    if not isinstance(fitted.fitted_.map, TemperatureMap):
        with refused("method-unsuitable"):
            fitted.temperature(z, **inputs_of(fitted, z))
        return
    t = fitted.temperature(z, **inputs_of(fitted, z))
    np.testing.assert_allclose(predict(fitted, z), softmax(z / t[:, None]), rtol=1e-10)
    if fitted.fitted_.map.steps:
        np.testing.assert_array_equal(
            t, fitted.temperatures_[fitted.group(z, **inputs_of(fitted, z))]
        )
    else:
        assert not hasattr(fitted, "temperatures_")
        with refused("method-unsuitable"):
            fitted.group(z, **inputs_of(fitted, z))


def test_float32_agrees_with_float64(fitted):
    z, _ = simulate(500, fitted.fitted_.n_classes, seed=11)
    z = z.astype(np.float32)
    p32, p64 = (predict(fitted, part) for part in (z, z.astype(np.float64)))
    np.testing.assert_allclose(p32, p64, atol=1e-5)


def test_a_fit_on_float32_agrees_with_a_fit_on_float64(name, split):
    z, y = (part[:300] for part in split)
    z = z.astype(np.float32)
    one, two = fit(name, z, y), fit(name, z.astype(np.float64), y)
    z, _ = drawn(name, 100, 12, seed=6)
    np.testing.assert_array_equal(predict(one, z), predict(two, z))


@pytest.mark.parametrize("name", [name for name in METHODS if name not in RANDOM_CONTROLS])
def test_a_row_does_not_depend_on_its_batch(name):
    fitted = fitted_once(name)
    z, _ = drawn(name, 200, 12, seed=5)
    share = np.linspace(0, 1, z.shape[1])
    z[0] = 1.1 * share / share.sum()  # nearly looks like probabilities, which are refused
    whole = predict(fitted, z)
    for rows in (slice(0, 1), slice(3, 10), slice(199, 200)):
        alone = predict(fitted, z[rows])
        if fitted.fitted_.map.saved:
            np.testing.assert_array_equal(alone, whole[rows])
        else:
            np.testing.assert_allclose(alone, whole[rows], atol=1e-9)


def test_the_same_input_and_seed_give_the_same_bits(fitted, name):
    again, *_ = fitted_again(name)
    z, _ = drawn(name, 100, 12, seed=6)
    np.testing.assert_array_equal(predict(again, z), predict(fitted, z))


def test_the_global_random_state_is_neither_read_nor_written(fitted, name):
    one, _, before, after = fitted_again(name)
    np.testing.assert_array_equal(after, before)
    z, _ = drawn(name, 100, 12, seed=6)
    np.testing.assert_array_equal(predict(one, z), predict(fitted, z))


@pytest.mark.parametrize("name", [*DEPLOYABLE, "default"])
def test_saving_and_loading_changes_nothing(name, tmp_path):
    fitted = fitted_once(name)
    path = tmp_path / "cal.json"
    fitted.save(path)
    loaded = sc.load(path)
    z, _ = drawn(name, 200, 12, seed=7)
    np.testing.assert_array_equal(predict(loaded, z), predict(fitted, z))
    assert loaded.to_dict() == fitted.to_dict()
    assert type(loaded) is type(fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        refitted = refit(clone(loaded), *drawn(name, 600, 12))
    np.testing.assert_array_equal(predict(refitted, z), predict(fitted, z))


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(DEPLOYABLE)))
def test_what_cannot_be_deployed_refuses_to_be_saved(name, tmp_path):
    path = tmp_path / "cal.json"
    with pytest.raises(sc.InputError, match=f"{name} is for comparison only and cannot be saved"):
        fitted_once(name).save(path)
    assert not path.exists()


def test_the_artefact_records_the_true_name(fitted, name):
    assert fitted.method_.partition("[")[0] == ALIASES.get(name, name)
    if name not in QUICK:
        assert fitted.method_ == ALIASES.get(name, name)


def test_clone_and_params_follow_scikit_learn(fitted):
    fresh = clone(fitted)
    assert str(fresh.get_params()) == str(fitted.get_params())
    with pytest.raises(NotFittedError, match="not fitted yet; call fit"):
        fresh.predict_proba(np.zeros((3, fitted.fitted_.n_classes)))
    for attribute in ("temperatures_", "flags_", "n_parameters_"):
        assert not hasattr(fresh, attribute)


def test_calibrator_by_name_is_the_same_estimator(fitted, name, split):
    require_package(name)
    by_name = sc.Calibrator(method=name, options=QUICK.get(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        refit(by_name, *split)
    if fitted.fitted_.map.saved:
        assert by_name.to_dict() == fitted.to_dict()
    else:
        z, _ = drawn(name, 100, 12, seed=6)
        np.testing.assert_array_equal(predict(by_name, z), predict(fitted, z))


def test_a_class_missing_from_the_labels_is_legal(name):
    z, y = drawn(name, 600, 12)
    keep = y != 3
    fitted = fit(name, z[keep], y[keep])
    p = predict(fitted, z)
    assert p.shape == z.shape
    assert np.isfinite(p).all()


def test_two_classes_work(name):
    fitted = fit(name, *drawn(name, 400, 2, signal=1.0))
    p = predict(fitted, drawn(name, 50, 2, seed=3)[0])
    assert np.isfinite(p).all()


@pytest.mark.parametrize("name", [n for n, row in METHODS.items() if "features" not in row.needs])
def test_probabilities_as_input_equal_their_logarithms(name, split):
    z, y = (part[:300] for part in split)
    p = softmax(z)
    by_proba, by_log = fit(name, p, y, input="probabilities"), fit(name, np.log(p), y)
    if by_log.fitted_.map.steps:
        np.testing.assert_array_equal(by_proba.temperatures_, by_log.temperatures_)
    given = {key: answers_of(p) for key in inputs_of(by_log, p)}
    np.testing.assert_allclose(
        by_proba.predict_proba(p, **given), by_log.predict_proba(np.log(p), **given), rtol=1e-9
    )


# A network of logits starts from random weights for each class; peers promise nothing.
@pytest.mark.parametrize(
    "name", [n for n, row in METHODS.items() if row.signal != "logits" and row.map != "peer"]
)
def test_class_permutation_permutes_the_probabilities(name, split):
    fitted = fitted_once(name)
    z, y = split
    order = np.random.default_rng(0).permutation(z.shape[1])
    permuted = fit(name, z[:, order], np.argsort(order)[y])
    fresh, _ = drawn(name, 100, 12, seed=6)
    given = inputs_of(fitted, fresh)
    expected = fitted.predict_proba(fresh, **given)[:, order]
    if "y" in given:
        given["y"] = np.argsort(order)[given["y"]]
    got = permuted.predict_proba(fresh[:, order], **given)
    if fitted.fitted_.map.steps:
        np.testing.assert_allclose(permuted.temperatures_, fitted.temperatures_, rtol=1e-6)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_wrong_columns_and_bad_rows_are_refused_at_prediction(fitted):
    n = fitted.fitted_.n_classes
    with pytest.raises(sc.InputError, match=f"the {n} columns this calibrator was fitted on; g"):
        fitted.predict_proba(np.zeros((3, 5)))
    bad = np.zeros((3, n))
    good = inputs_of(fitted, bad)
    bad[2, 1] = np.nan
    with refused("not-finite", "row 2", "1"):
        fitted.predict_proba(bad, **good)


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.needs])
def test_what_a_method_needs_beside_logits_is_asked_for(name):
    fitted = fitted_once(name)
    (need,) = METHODS[name].needs
    with pytest.raises(sc.InputError, match=f"needs {need} as well as logits: pass {need}="):
        fitted.predict_proba(np.zeros((3, 12)))
    if need == "features":
        with refused("features-missing"):
            make(name).fit(*drawn(name, 600, 12))
        with refused("features-missing", "4"):
            fitted.predict_proba(np.zeros((3, 12)), features=np.zeros((3, 2)))


def test_the_input_is_left_alone(name, split):
    again, z, *_ = fitted_again(name)
    predict(again, z)
    np.testing.assert_array_equal(z, split[0])


@pytest.mark.parametrize("kind", ["all right", "all wrong", "one wrong", "ten samples", "constant"])
def test_a_split_that_tells_little_still_gives_a_usable_calibrator(name, kind):
    z, y = drawn(name, 300, 5)
    if kind == "all right":
        y = z.argmax(axis=1)
    elif kind == "all wrong":
        y = (z.argmax(axis=1) + 1) % z.shape[1]
    elif kind == "one wrong":
        y = z.argmax(axis=1)
        y[0] = (y[0] + 1) % z.shape[1]
    elif kind == "ten samples":
        z, y = z[:10], y[:10]
    else:
        z = np.tile([2.0, 0, 0, 0, 1][: z.shape[1]], (300, 1))
    require_package(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = refit(make(name), z, y)
    assert all(issubclass(w.category, sc.FitWarning) for w in caught)
    assert len(caught) == len(set(fitted.flags_) - set(NOTES))
    row = METHODS[ALIASES.get(name, name)]
    held = row.options.get("prior_scale") is not None or row.binary
    told = name != "none" and fitted.fitted_.map.saved and not held  # a prior identifies
    if kind in ("all right", "all wrong") and told:
        assert {"unidentified", "one_sided"} & set(fitted.flags_)
    p = predict(fitted, z)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    if fitted.preserves_argmax_:
        np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))


def test_few_samples_for_many_parameters_are_told_with_the_number_needed(name):
    z, y = drawn(name, 60, 12)
    require_package(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = refit(make(name), z, y)
    told = [str(w.message) for w in caught if str(w.message).startswith("few_samples")]
    free = fitted.n_parameters_ - fitted.fitted_.map.n_held  # a prior holds the others
    assert bool(told) == (free > 6)
    for message in told:
        assert f"ten for each would be {10 * free:,}" in message


@pytest.mark.parametrize("name", sorted(FITTED_OBJECTIVES))
def test_the_fitted_objective_does_not_get_worse_on_the_calibration_split(name):
    report = fitted_once(name).to_dict()["fit_metrics"]
    key = FITTED_OBJECTIVES[name]
    assert report["after"][key] <= report["before"][key] + 1e-9
