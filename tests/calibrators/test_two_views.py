"""One fit, two views: predictions kept, or free to change; and what keeping them does to a row."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators import artefact
from smallcal.calibrators.catalogue import METHODS
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.softmax import keep_predictions
from smallcal.deploy.export.translate import program_of
from smallcal.errors import ArtefactError
from support import program_numpy
from support.backends import BACKENDS
from support.cases import fit
from support.simulated import simulate

BIAS = np.array([2.0, 0.0, 0.0, 0.0, 0.0])
VIEWS = ("adaptive", "adaptive-free")


def biased(n, *, seed, bias=BIAS):
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, 5))
    return z, (z + bias + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def views():
    """Both views of one split with a strong bias, and new rows of which it would change many."""
    z, y = biased(500, seed=0)
    kept, free = (fit(name, z, y) for name in VIEWS)
    return kept, free, biased(400, seed=1)[0]


def test_both_views_come_from_the_same_numbers(views):
    kept, free, _ = (getattr(view, "fitted_", None) for view in views)
    for name in ("correction", "map", "signal", "tail_temperature", "pooled_temperature"):
        assert getattr(kept, name) == getattr(free, name), name
    assert kept.keep_predictions
    assert not free.keep_predictions
    assert (kept.preserves_argmax, free.preserves_argmax) == (True, False)
    assert kept.fit_metrics["weight"] == free.fit_metrics["weight"]
    assert kept.fit_metrics["free_accuracy"] == free.fit_metrics["free_accuracy"]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_one_view_keeps_every_prediction_and_the_other_becomes_it_when_told_to(views, kind):
    kept, free, z = views
    z = z.astype(kind)
    p, q = kept.predict_proba(z), free.predict_proba(z)
    assert p.dtype == q.dtype == kind
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    changed = q.argmax(axis=1) != z.argmax(axis=1)
    assert 20 < changed.sum() < 300
    # Rows that nothing overtook are the same bits in both.
    np.testing.assert_array_equal(p[~changed], q[~changed])
    told = replace(free.fitted_, keep_predictions=True)
    np.testing.assert_array_equal(told.predict_proba(z), p)
    assert told.preserves_argmax


def test_free_predictions_are_right_more_often_as_the_warning_says():
    z, y = biased(500, seed=0)
    with pytest.warns(sc.FitWarning, match="would raise accuracy from") as told:
        cal = sc.Calibrator().fit(z, y)
    (text,) = (str(each.message) for each in told if "better_free" in str(each.message))
    found = cal.fitted_.fit_metrics["free_accuracy"]
    value, low, high = (100 * found[key] for key in ("value", "low", "high"))
    before = 100 * (z.argmax(axis=1) == y).mean()
    assert f"from {before:.1f} to {value:.1f} %" in text
    assert f"95 % interval {low:.1f} to {high:.1f}" in text
    # The same number by fitting ten times without a tenth of the rows.
    right = np.zeros(500, dtype=bool)
    for fold in range(10):
        out = np.arange(500) % 10 == fold
        free = fit("adaptive-free", z[~out], y[~out])
        right[out] = free.predict(z[out]) == y[out]
    assert value == pytest.approx(100 * right.mean(), abs=3)
    # And on new rows it is within the interval.
    new, truth = biased(4000, seed=9)
    accuracy = 100 * (fit("adaptive-free", z, y).predict(new) == truth).mean()
    assert low < accuracy < high


def test_without_a_bias_nothing_is_promised():
    promised = 0
    for seed in range(10):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            sc.Calibrator().fit(*biased(500, seed=seed, bias=0.0))
        promised += any("would raise accuracy" in str(each.message) for each in told)
    assert promised == 0


def test_the_view_that_is_free_already_is_not_told_to_be():
    fitted = fit("adaptive-free", *biased(500, seed=0)).fitted_
    assert "better_free" not in fitted.flags
    assert fitted.fit_metrics["changed_predictions"] > 0
    kept = fit("adaptive", *biased(500, seed=0)).fitted_
    assert "better_free" in kept.flags
    assert kept.fit_metrics["changed_predictions"] == 0


def fitted_quietly(z, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.Calibrator(**options).fit(z, y)


def test_the_estimator_names_the_view_it_was_asked_for():
    z, y = biased(300, seed=2)
    asked = {None: "adaptive", True: "adaptive", False: "adaptive-free"}
    for keep, name in asked.items():
        cal = fitted_quietly(z, y, keep_predictions=keep)
        assert cal.method_ == name
        assert cal.preserves_argmax_ == (keep is not False)
        assert METHODS[name].keep_predictions == cal.fitted_.keep_predictions
    # What cannot change predictions has nothing to be told.
    assert fitted_quietly(z, y, method="tva-ts", keep_predictions=True).method_ == "tva-ts"


@pytest.mark.parametrize("name", ["vector-scaling", "dirichlet-odir"])
def test_other_methods_that_change_predictions_can_be_told_not_to(name):
    z, y = biased(400, seed=3)
    options = {"lambdas": (0.01,), "mus": (0.01,)} if name == "dirichlet-odir" else None
    free = fitted_quietly(z, y, method=name, options=options)
    kept = fitted_quietly(z, y, method=name, options=options, keep_predictions=True)
    assert (free.preserves_argmax_, kept.preserves_argmax_) == (False, True)
    new = biased(300, seed=4)[0]
    p, q = free.predict_proba(new), kept.predict_proba(new)
    top = new.argmax(axis=1)
    changed = p.argmax(axis=1) != top
    assert changed.sum() > 10
    np.testing.assert_array_equal(q.argmax(axis=1), top)
    np.testing.assert_array_equal(q[~changed], p[~changed])
    assert (kept.n_changed_, free.n_changed_ > 0) == (0, True)
    assert kept.method_.startswith(f"{name}[")
    assert "keep_predictions=True" in kept.method_


@pytest.mark.parametrize("view", VIEWS)
def test_both_views_are_saved_and_loaded_bit_for_bit(views, view, tmp_path):
    cal, z = views[VIEWS.index(view)], views[2]
    cal.save(tmp_path / "cal.json")
    for again in (sc.load(tmp_path / "cal.json"), runtime.load(tmp_path / "cal.json")):
        np.testing.assert_array_equal(again.predict_proba(z), cal.predict_proba(z))
    again = sc.load(tmp_path / "cal.json")
    assert again.method_ == view
    assert again.fitted_.to_dict() == cal.fitted_.to_dict()
    assert again.fitted_.correction == cal.fitted_.correction


def as_version_1(fitted):
    document = json.loads(artefact.text_of(fitted.to_dict()))
    del document["correction"], document["keep_predictions"]
    return document | {"version": 1}


@pytest.mark.parametrize("name", ["srts-bce", "vector-scaling", "class-linear+tail"])
def test_an_artefact_of_version_1_still_loads_and_predicts_the_same_bits(name, tmp_path):
    z, y = simulate(900, 5)
    cal = fit(name, z, y)
    path = tmp_path / "old.json"
    path.write_text(json.dumps(as_version_1(cal.fitted_)))
    old = sc.load(path)
    np.testing.assert_array_equal(old.predict_proba(z), cal.predict_proba(z))
    assert old.fitted_.to_dict() == cal.fitted_.to_dict()
    assert old.preserves_argmax_ == cal.preserves_argmax_
    old.save(tmp_path / "new.json")
    assert json.loads((tmp_path / "new.json").read_text())["version"] == 2


def test_only_a_document_that_says_1_is_taken_for_an_old_one():
    document = as_version_1(fit("srts-bce", *simulate(900, 5)).fitted_)
    for version in (2, True, 0, 3, "1", None):
        with pytest.raises(ArtefactError, match=r"version|lacks"):
            artefact.parse(json.dumps(document | {"version": version}), source="here")


def test_an_artefact_whose_correction_has_other_classes_is_refused(views):
    document = json.loads(artefact.text_of(views[0].fitted_.to_dict()))
    document["correction"] = {"kind": "classes", "bias": [0.0, 1.0], "reads": [], "writes": []}
    document["n_parameters"] -= views[0].fitted_.correction.n_parameters - 1
    checked = artefact.parse(json.dumps(document), source="here")
    with pytest.raises(ArtefactError, match="the correction is for 2 classes, not 5"):
        FittedCalibrator.from_dict(checked, source="here")


@pytest.mark.parametrize("place", BACKENDS)
@pytest.mark.parametrize("view", VIEWS)
def test_every_place_gives_the_probabilities_of_both_views(views, view, place):
    backend = BACKENDS[place]
    if not backend.there:
        pytest.skip(f"{backend.needs} is not installed")
    kept, free, z = views
    overtaken = free.predict(z) != z.argmax(axis=1)
    rows = np.concatenate([z[overtaken][:12], z[~overtaken][:8]])
    assert len(rows) == 20
    cal = kept if view == "adaptive" else free
    found = backend.run(cal.fitted_, rows)
    np.testing.assert_allclose(found, cal.predict_proba(rows), rtol=1e-6, atol=1e-9)
    if view == "adaptive":
        np.testing.assert_array_equal(found.argmax(axis=1), rows.argmax(axis=1))
    else:
        assert (found.argmax(axis=1) != rows.argmax(axis=1)).sum() == 12


def test_the_program_shares_as_the_runtime_does_where_several_classes_overtake(views):
    kept, _, z = views
    strong = replace(
        kept.fitted_, correction=replace(kept.fitted_.correction, bias=(6.0, 5.0, 4.0, 0.0, -3.0))
    )
    free = replace(strong, keep_predictions=False).predict_proba(z)
    top = free[np.arange(len(z)), z.argmax(axis=1)]
    assert ((free > top[:, None]).sum(axis=1) >= 2).sum() > 50
    found, _ = program_numpy.run(program_of(strong), z)
    np.testing.assert_allclose(found, strong.predict_proba(z), rtol=1e-6, atol=1e-9)


rows_of_probabilities = st.tuples(st.integers(0, 10**6), st.integers(2, 5), st.floats(0.3, 3))


def probabilities(seed, n_classes, spread, n=4):
    rng = np.random.default_rng(seed)
    p = np.exp(spread * rng.normal(size=(n, n_classes)))
    return p / p.sum(axis=1, keepdims=True), rng.integers(n_classes, size=n)


@settings(max_examples=100)
@given(rows_of_probabilities, st.sampled_from([np.float32, np.float64]))
def test_keeping_predictions_moves_only_what_overtook(case, kind):
    p, top = probabilities(*case)
    p = p.astype(kind)
    kept = p.copy()
    keep_predictions(kept, top)
    np.testing.assert_allclose(kept.sum(axis=1), 1, rtol=4 * np.finfo(kind).eps)
    np.testing.assert_array_equal(kept.argmax(axis=1), top)
    fine = p.argmax(axis=1) == top
    np.testing.assert_array_equal(kept[fine], p[fine])
    at_top = p[np.arange(4), top]
    below = p < at_top[:, None]  # never overtook, and keep what they have
    np.testing.assert_allclose(kept[below], p[below], rtol=1e-5)
    again = kept.copy()
    keep_predictions(again, top)
    np.testing.assert_array_equal(again, kept)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(3, 5), st.floats(0.3, 1.5))
def test_keeping_predictions_is_the_nearest_by_kullback_and_leibler(seed, n_classes, spread):
    p, top = probabilities(seed, n_classes, spread, n=1)
    p, top = p[0], int(top[0])
    kept = p.copy()[None]
    keep_predictions(kept, np.array([top]))

    def divergence(q):
        return float(p @ np.log(p / q))

    limits = [{"type": "eq", "fun": lambda q: q.sum() - 1}]
    limits.append({"type": "ineq", "fun": lambda q: q[top] - np.delete(q, top)})
    found = minimize(
        divergence,
        np.full(n_classes, 1 / n_classes),
        jac=lambda q: -p / q,
        bounds=[(1e-9, 1)] * n_classes,
        constraints=limits,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert divergence(kept[0]) <= found.fun + 1e-9
    np.testing.assert_allclose(kept[0], found.x, atol=2e-4)
