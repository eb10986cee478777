"""Vector, matrix and Dirichlet scaling against plain references, known truth and symmetries."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax as scipy_log_softmax
from scipy.special import softmax as scipy_softmax
from sklearn.linear_model import LogisticRegression

from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import ScalarMap, Split, fit_temperature, loglinear
from smallcal.calibrators.maps.affine import (
    DIRICHLET_PENALTIES,
    AffineMap,
    fit_dirichlet,
    fit_matrix,
    fit_vector,
    log_softmax,
    softmax,
)
from smallcal.calibrators.maps.loglinear import Problem, Sample, class_folds
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from support.refused import refused
from support.simulated import simulate

FITS = {"vector": fit_vector, "matrix": fit_matrix, "dirichlet": fit_dirichlet}


def make_split(z, y, weight=None, **options):
    preds, discipline = Predictions.of(z, y, weight=weight), Discipline(**options)
    gaps, goal = Gaps.of(preds), objective("nll")
    pooled = fit_temperature(goal, gaps, bounds=discipline.bounds)
    return Split(preds, gaps, goal, pooled, np.zeros(len(z)), discipline)


def apply(fitted, z):
    z = np.asarray(z, dtype=np.float64)
    if isinstance(fitted.map, ScalarMap):
        return scipy_softmax(z / fitted.map.temperature, axis=1)
    return fitted.map.probabilities(z, np.zeros(len(z)))


def mean_nll(p, y, weight=None):
    return np.average(-np.log(p[np.arange(len(y)), y]), weights=weight)


def random_map(n_classes, form, seed=0):
    rng = np.random.default_rng(seed)
    if form == "vector":
        return AffineMap(rng.normal(size=n_classes))
    on = "logits" if form == "matrix" else "log_probabilities"
    return AffineMap(rng.normal(size=(n_classes, n_classes)), rng.normal(size=n_classes), on)


# The map.


def test_a_map_takes_the_nested_tuples_of_json():
    fitted = random_map(3, "matrix")
    document = json.loads(json.dumps([fitted.weight.tolist(), fitted.bias.tolist()]))
    again = AffineMap(tuple(document[0]), tuple(document[1]), "logits")
    np.testing.assert_array_equal(again.weight, fitted.weight)
    np.testing.assert_array_equal(again.bias, fitted.bias)
    assert again.weight.dtype == np.float64


def test_a_map_owns_its_numbers():
    weight = np.ones(3)
    fitted = AffineMap(weight)
    weight[0] = 7
    assert fitted.weight[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        fitted.weight[0] = 2


@pytest.mark.parametrize(
    ("weight", "bias", "on", "message"),
    [
        ([1.0], None, "logits", "weight must have shape"),
        (1.0, None, "logits", "weight must have shape"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], None, "logits", "weight must have shape"),
        ([[1.0, 0.0], [0.0]], None, "logits", "cannot be read"),
        (None, None, "logits", "must be finite"),
        ([1.0, np.nan], None, "logits", "weight must be finite"),
        ([1.0, 1.0], [0.0, np.inf], "logits", "bias must be finite"),
        ([1.0, 1.0], [0.0], "logits", "bias must have shape"),
        ([1.0, 1.0], None, "odds", "on must be one of"),
    ],
)
def test_a_bad_map_is_refused(weight, bias, on, message):
    with pytest.raises(InputError, match=message):
        AffineMap(weight, bias, on)


def test_logits_of_another_width_are_refused():
    with refused("columns-differ", "3"):
        AffineMap([1.0, 1.0, 1.0]).probabilities(np.zeros((2, 4)), np.zeros(2))


def test_parameters_are_counted():
    assert [random_map(5, form).n_parameters for form in FITS] == [5, 30, 30]
    assert AffineMap(np.ones(5), np.zeros(5)).n_parameters == 10
    assert not any(random_map(5, form).preserves_argmax for form in FITS)


@pytest.mark.parametrize("form", FITS)
@pytest.mark.parametrize("n_classes", [2, 3, 10, 101, 260])
def test_a_row_has_the_same_bits_in_every_batch(form, n_classes):
    z, _ = simulate(300, n_classes)
    fitted = random_map(n_classes, form)
    whole = fitted.probabilities(z, np.zeros(300))
    for start, size in [(0, 1), (7, 1), (299, 1), (13, 2), (100, 3), (1, 64), (33, 267)]:
        rows = slice(start, start + size)
        np.testing.assert_array_equal(fitted.probabilities(z[rows], np.zeros(size)), whole[rows])
    np.testing.assert_array_equal(fitted.probabilities(np.asfortranarray(z), None), whole)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(fitted.probabilities(z[order], None), whole[order])


@pytest.mark.parametrize("form", FITS)
def test_probabilities_follow_the_formula(form):
    z, _ = simulate(50, 6)
    fitted = random_map(6, form)
    x = scipy_log_softmax(z, axis=1) if form == "dirichlet" else z
    weight = np.diag(fitted.weight) if form == "vector" else fitted.weight
    bias = 0 if form == "vector" else fitted.bias
    expected = scipy_softmax(x @ weight.T + bias, axis=1)
    np.testing.assert_allclose(fitted.probabilities(z, None), expected, rtol=1e-11, atol=1e-300)


def test_the_scaled_identity_is_temperature_scaling():
    z, _ = simulate(200, 20)
    expected = softmax(z * (1 / 1.7))
    for weight in (np.full(20, 1 / 1.7), np.eye(20) * (1 / 1.7)):
        np.testing.assert_array_equal(AffineMap(weight).probabilities(z, None), expected)
    on_probabilities = AffineMap(np.eye(20) / 1.7, np.zeros(20), "log_probabilities")
    np.testing.assert_allclose(on_probabilities.probabilities(z, None), expected, rtol=1e-13)


def test_log_probabilities_ignore_a_constant_added_to_a_row():
    z, _ = simulate(100, 7)
    shift = np.random.default_rng(1).normal(scale=50, size=(100, 1))
    fitted = random_map(7, "dirichlet")
    moved = fitted.probabilities(z + shift, None)
    np.testing.assert_allclose(moved, fitted.probabilities(z, None), rtol=1e-9, atol=1e-300)
    on_logits = random_map(7, "matrix")
    assert np.abs(on_logits.probabilities(z + shift, None) - moved).max() > 0.1


def test_softmax_and_its_logarithm_hold_at_the_extremes():
    z = np.array([[1e6, -1e6, 0.0], [800.0, 800.0, -1e15], [0.0, -750.0, -1.0]])
    np.testing.assert_allclose(softmax(z), scipy_softmax(z, axis=1), rtol=1e-14)
    np.testing.assert_allclose(log_softmax(z), scipy_log_softmax(z, axis=1), rtol=1e-14)


def test_applying_needs_numpy_only():
    code = (
        "import sys, smallcal.calibrators.maps.affine, smallcal.calibrators.maps.mixture\n"
        "assert not {'scipy', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# The fit's derivatives.


def a_problem(form, n=40, n_classes=4, seed=0, weighted=True):
    z, y = simulate(n, n_classes, seed=seed)
    rng = np.random.default_rng(seed)
    weight = rng.random(n) if weighted else None
    preds = Predictions.of(z, y, weight=weight)
    x = log_softmax(z) if form == "dirichlet" else z
    sample = Sample.of(preds, x, bias=form != "vector")
    shape = (n_classes,) if form == "vector" else (n_classes, n_classes + 1)
    centre = np.full(n_classes, 0.6) if form == "vector" else np.eye(*shape) * 0.6
    problem = Problem(sample, rng.random(shape), centre)
    return problem, centre + 0.2 * rng.normal(size=shape)


@pytest.mark.parametrize("form", FITS)
def test_slopes_equal_finite_differences(form):
    problem, theta = a_problem(form)
    for loss in (problem, problem.sample):
        numeric = approx_fprime(
            theta.ravel(), lambda t, f=loss: f.loss_and_slope(t.reshape(theta.shape))[0], 1e-7
        )
        np.testing.assert_allclose(loss.loss_and_slope(theta)[1].ravel(), numeric, atol=2e-6)


@pytest.mark.parametrize("form", FITS)
def test_curvature_equals_differences_of_the_slope(form, monkeypatch):
    problem, theta = a_problem(form)
    sample, step = problem.sample, 1e-6

    def slope(t):
        return sample.loss_and_slope(t.reshape(theta.shape))[1].ravel()

    eye = np.eye(theta.size) * step
    hessian = np.array([(slope(theta.ravel() + e) - slope(theta.ravel() - e)) for e in eye])
    hessian /= 2 * step
    blocks = sample.curvature(theta)
    size = blocks.shape[-1]
    for k, block in enumerate(blocks):
        part = slice(k * size, (k + 1) * size)
        np.testing.assert_allclose(block, hessian[part, part], atol=1e-7)
    monkeypatch.setattr(loglinear, "_MAX_BLOCK_NUMBERS", 0)
    if form != "vector":
        np.testing.assert_allclose(sample.curvature(theta).ravel(), np.diagonal(hessian), atol=1e-7)


@pytest.mark.parametrize("form", FITS)
def test_whitening_makes_each_block_the_identity(form):
    problem, theta = a_problem(form)
    stretch = problem.whitening(theta)
    blocks = problem.sample.curvature(theta)
    blocks += 2 * np.stack([np.diag(s) for s in problem.strength.reshape(len(blocks), -1)])
    white = stretch.transpose(0, 2, 1) @ blocks @ stretch
    identity = np.broadcast_to(np.eye(blocks.shape[-1]), blocks.shape)
    np.testing.assert_allclose(white, identity, atol=1e-6)


# Fits against plain references.


def plain_fit(z, y, *, centre, strength, on, weight=None):
    """The same minimum by SciPy's BFGS with numerical slopes, from the formula."""
    x = scipy_log_softmax(z, axis=1) if on == "log_probabilities" else z

    def probabilities(theta, x=x):
        theta = theta.reshape(centre.shape)
        eta = x * theta if theta.ndim == 1 else x @ theta[:, :-1].T + theta[:, -1]
        return scipy_softmax(eta, axis=1)

    def loss(theta):
        penalty = (strength * (theta.reshape(centre.shape) - centre) ** 2).sum()
        return mean_nll(probabilities(theta), y, weight) + penalty

    found = minimize(loss, centre.ravel(), method="BFGS", options={"gtol": 1e-7})
    return found.x.reshape(centre.shape), probabilities(found.x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.01, 1.0])
def test_vector_equals_a_plain_search(penalty, weighted):
    z, y = simulate(150, 4)
    weight = np.random.default_rng(0).random(150) if weighted else None
    split = make_split(z, y, weight)
    got = fit_vector(split, penalties=[penalty])
    centre = np.full(4, 1 / split.pooled.value)
    theta, _ = plain_fit(z, y, centre=centre, strength=penalty, on="logits", weight=weight)
    np.testing.assert_allclose(got.map.weight, theta, atol=2e-5)
    assert got.map.bias is None
    assert got.map.on == "logits"
    assert got.counts == (150,)


@pytest.mark.parametrize(("lam", "mu"), [(0.01, 1.0), (1.0, 0.01), (100.0, 100.0)])
def test_dirichlet_equals_a_plain_search(lam, mu):
    z, y = simulate(150, 3)
    split = make_split(z, y)
    got = fit_dirichlet(split, lambdas=[lam], mus=[mu])
    strength = np.array([[0, lam, lam, mu], [lam, 0, lam, mu], [lam, lam, 0, mu]])
    centre = np.eye(3, 4) / split.pooled.value
    theta, p = plain_fit(z, y, centre=centre, strength=strength, on="log_probabilities")
    np.testing.assert_allclose(np.column_stack([got.map.weight, got.map.bias]), theta, atol=5e-5)
    np.testing.assert_allclose(apply(got, z), p, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_matrix_equals_unpenalised_logistic_regression(weighted):
    z, y = simulate(400, 4)
    weight = np.random.default_rng(0).random(400) if weighted else None
    got = apply(fit_matrix(make_split(z, y, weight)), z)
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(z, y, weight)
    expected = model.predict_proba(z)
    assert mean_nll(got, y, weight) == pytest.approx(mean_nll(expected, y, weight), abs=1e-6)
    np.testing.assert_allclose(got, expected, atol=2e-3)


def test_wide_matrices_are_fitted_without_blocks(monkeypatch):
    z, y = simulate(200, 4)
    split = make_split(z, y)
    expected = fit_dirichlet(split, lambdas=[0.1], mus=[0.1]).map
    monkeypatch.setattr(loglinear, "_MAX_BLOCK_NUMBERS", 0)
    got = fit_dirichlet(split, lambdas=[0.1], mus=[0.1]).map
    np.testing.assert_allclose(got.weight, expected.weight, atol=2e-5)


# Cross-validation.


@pytest.mark.parametrize(
    ("n", "n_classes", "seed", "weighted"), [(400, 3, 5, False), (200, 5, 0, True)]
)
def test_shortcuts_of_cross_validation_do_not_change_the_choice(n, n_classes, seed, weighted):
    """Warm starts, shared whitening and a loose stop, against cold and tight plain searches."""
    z, y = simulate(n, n_classes, seed=seed)
    split = make_split(z, y, np.random.default_rng(seed).random(n) if weighted else None)
    centre = np.eye(n_classes, n_classes + 1) / split.pooled.value
    grid = [(lam, mu) for lam in DIRICHLET_PENALTIES for mu in DIRICHLET_PENALTIES][::-1]
    is_bias = np.arange(n_classes + 1) == n_classes
    strengths = [np.where(is_bias, mu, lam * (centre == 0)) for lam, mu in grid]
    sample = Sample.of(split.preds, log_softmax(z), bias=True)
    fold = class_folds(y, 5, seed=0)

    quick = loglinear._held_out_losses(sample, centre, strengths, fold)
    slow = np.array([cold_held_out_loss(sample, s, centre, fold) for s in strengths])
    np.testing.assert_allclose(quick, slow, atol=2e-6)
    best = int(np.argmin(slow))
    assert int(np.argmin(quick)) == best

    lam, mu = grid[best]
    chosen = fit_dirichlet(split).map.weight
    np.testing.assert_array_equal(chosen, fit_dirichlet(split, lambdas=[lam], mus=[mu]).map.weight)


def cold_held_out_loss(sample, strength, centre, fold):
    """Held-out loss by SciPy's BFGS in plain variables, each fit from the start."""
    total = 0.0
    for k in range(fold.max() + 1):
        problem = Problem(sample.take(np.flatnonzero(fold != k)), strength, centre)
        options = {"gtol": 1e-9}
        found = minimize(flat, centre.ravel(), problem, "BFGS", jac=True, options=options)
        theta, held = found.x.reshape(centre.shape), sample.take(np.flatnonzero(fold == k))
        p = scipy_softmax(theta @ held.x, axis=0)
        total -= held.weight @ np.log(p[held.labels, np.arange(len(held.labels))])
    return total / sample.weight.sum()


def flat(theta, problem):
    loss, slope = problem.loss_and_slope(theta.reshape(problem.centre.shape))
    return loss, slope.ravel()


def test_folds_share_out_every_class():
    labels = np.random.default_rng(0).integers(12, size=203)
    fold = class_folds(labels, 5, 0)
    assert np.ptp(np.bincount(fold)) <= 1
    for label in range(12):
        assert np.ptp(np.bincount(fold[labels == label], minlength=5)) <= 1
    assert (class_folds(labels, 5, 0) == fold).all()
    assert (class_folds(labels, 5, 1) != fold).any()


@pytest.mark.parametrize("seed", range(5))
def test_folds_cope_with_rare_classes(seed):
    labels = np.array([0, 1, 2, 3, 4, 5, 5, 6, 6, 900])
    fold = class_folds(labels, 5, seed)
    assert (np.bincount(fold) == 2).all()
    assert fold[5] != fold[6]
    assert fold[7] != fold[8]
    assert sorted(class_folds(labels[:3], 5, seed)) == [0, 1, 2]


def test_folds_do_not_depend_on_how_classes_are_numbered():
    labels = np.random.default_rng(0).integers(6, size=80)
    renamed = np.array([4, 0, 5, 2, 1, 3])[labels]
    assert (class_folds(labels, 5, 0) == class_folds(renamed, 5, 0)).all()


def test_penalties_are_chosen_by_the_data():
    """Plenty of data let the scales go free; few samples hold them at the temperature."""
    z, y = simulate(250, 10, seed=1)
    few = fit_vector(make_split(z, y)).map.weight
    free = fit_vector(make_split(z, y), penalties=[0]).map.weight
    centre = 1 / make_split(z, y).pooled.value
    assert np.abs(few - centre).max() < 0.5 * np.abs(free - centre).max()


@pytest.mark.parametrize("bad", [[], [-1.0], [np.inf], [np.nan]])
def test_bad_penalties_are_refused(bad):
    split = make_split(*simulate(50, 3))
    with pytest.raises(InputError, match="penalties must be"):
        fit_vector(split, penalties=bad)
    with pytest.raises(InputError, match="lambdas must be"):
        fit_dirichlet(split, lambdas=bad)
    with pytest.raises(InputError, match="mus must be"):
        fit_dirichlet(split, mus=bad)


# Known truth.


def test_classwise_temperatures_are_recovered():
    rng = np.random.default_rng(0)
    true = np.array([0.4, 0.7, 1.0, 1.3])
    z = rng.normal(scale=2.5, size=(30_000, 4))
    y = (scipy_softmax(z * true, axis=1).cumsum(axis=1) > rng.random((30_000, 1))).argmax(axis=1)
    got = fit_vector(make_split(z, y), penalties=[0, 1e-3, 1])
    np.testing.assert_allclose(got.map.weight, true, atol=0.03)
    dirichlet = fit_dirichlet(make_split(*simulate(30_000, 3)), lambdas=[0.01], mus=[0.01])
    np.testing.assert_allclose(dirichlet.map.weight, np.eye(3) / 1.6, atol=0.03)


def test_a_strong_penalty_gives_the_pooled_temperature():
    split = make_split(*simulate(400, 8))
    weight = fit_vector(split, penalties=[1e6]).map.weight
    np.testing.assert_allclose(weight, 1 / split.pooled.value, rtol=1e-6)


# Properties of every fit.


def quick_fit(name, split):
    """Small grids: the whole one is no different, only slower."""
    if name == "dirichlet":
        return fit_dirichlet(split, lambdas=[0.01, 1, 100], mus=[0.01, 100])
    return FITS[name](split)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(("n", "n_classes", "temperature"), [(60, 2, 3.0), (300, 5, 0.5)])
def test_the_fit_is_never_worse_than_the_temperature(name, n, n_classes, temperature):
    for seed in range(3):
        z, y = simulate(n, n_classes, temperature=temperature, seed=seed)
        split = make_split(z, y)
        scalar = mean_nll(scipy_softmax(z / split.pooled.value, axis=1), y)
        assert mean_nll(apply(quick_fit(name, split), z), y) <= scalar + 1e-12


@pytest.mark.parametrize("name", FITS)
def test_renaming_the_classes_renames_the_result(name):
    z, y = simulate(300, 4)
    order = np.array([2, 0, 3, 1])
    straight = apply(quick_fit(name, make_split(z, y)), z)
    renamed = apply(quick_fit(name, make_split(z[:, order], np.argsort(order)[y])), z[:, order])
    np.testing.assert_allclose(renamed, straight[:, order], atol=1e-5)


@pytest.mark.parametrize("name", FITS)
def test_fits_are_repeatable(name):
    split = make_split(*simulate(200, 4))
    first, second = quick_fit(name, split).map, quick_fit(name, split).map
    np.testing.assert_array_equal(first.weight, second.weight)


@pytest.mark.parametrize("name", FITS)
def test_single_precision_gives_the_same_probabilities(name):
    z, y = simulate(400, 4)
    exact = apply(quick_fit(name, make_split(z, y)), z)
    rounded = z.astype(np.float32)
    single = apply(quick_fit(name, make_split(rounded, y)), rounded)
    np.testing.assert_allclose(single, exact, atol=1e-5)


@pytest.mark.parametrize("name", FITS)
def test_samples_without_weight_do_not_count(name):
    z, y = simulate(220, 4)
    weight = np.ones(220)
    weight[200:] = 0
    with_idle = quick_fit(name, make_split(z, y, weight)).map
    without = quick_fit(name, make_split(z[:200], y[:200])).map
    np.testing.assert_allclose(with_idle.weight, without.weight, rtol=1e-6)
    preds = Predictions.of(z, y, weight=weight)
    assert len(Sample.of(preds, z).labels) == 200  # so that folds share out the others only


@pytest.mark.parametrize("name", ["vector", "dirichlet"])
def test_weight_two_is_the_sample_twice(name):
    z, y = simulate(100, 3)
    twice = np.arange(100) < 30
    options = {"penalties": [0.1]} if name == "vector" else {"lambdas": [0.1], "mus": [0.1]}
    weighted = FITS[name](make_split(z, y, 1.0 + twice), **options).map
    both = np.vstack([z, z[twice]]), np.concatenate([y, y[twice]])
    np.testing.assert_allclose(
        weighted.weight, FITS[name](make_split(*both), **options).map.weight, atol=1e-6
    )


@pytest.mark.parametrize("name", FITS)
def test_adding_a_constant_to_a_row_is_seen_by_logits_only(name):
    z, y = simulate(200, 3)
    shift = np.random.default_rng(0).normal(size=(200, 1))
    straight = apply(quick_fit(name, make_split(z, y)), z)
    moved = apply(quick_fit(name, make_split(z + shift, y)), z + shift)
    same = np.abs(moved - straight).max() < 1e-6
    assert same == (name == "dirichlet")


# Too little data.


@pytest.mark.parametrize("name", FITS)
def test_ten_samples_are_enough(name):
    z, y = simulate(10, 3, seed=2)
    assert set(y) == {0, 1, 2}
    p = apply(FITS[name](make_split(z, y)), z)
    np.testing.assert_allclose(p.sum(axis=1), 1)


@pytest.mark.parametrize("name", ["matrix", "dirichlet"])
def test_a_missing_class_leaves_the_temperature(name):
    z, y = simulate(60, 40)
    split = make_split(z, y)
    assert len(np.unique(y)) < 40
    got = FITS[name](split)
    assert got.map == ScalarMap(split.pooled.value)
    assert got.counts == (60,)
    assert got.flags == {"missing_classes": []}


def test_vector_holds_a_missing_class_by_its_penalty():
    z, y = simulate(60, 40)
    split = make_split(z, y)
    got = fit_vector(split)
    assert np.abs(got.map.weight).max() < 10
    assert got.flags == {}
    assert fit_vector(split, penalties=[0]).flags == {"missing_classes": []}
    pulled = fit_vector(split, penalties=[0, 0.1]).map.weight
    np.testing.assert_array_equal(pulled, fit_vector(split, penalties=[0.1]).map.weight)


def test_a_class_that_only_idle_samples_have_is_missing():
    z, y = simulate(200, 4)
    weight = (y != 2).astype(float)
    assert fit_matrix(make_split(z, y, weight)).flags == {"missing_classes": []}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("n_odd", [0, 1])
@pytest.mark.parametrize("odd_ones", ["wrong", "right"])
def test_too_few_wrong_or_right_leave_the_temperature(name, n_odd, odd_ones):
    z, _ = simulate(40, 2)
    top = z.argmax(axis=1)
    odd = np.arange(40) < n_odd
    y = np.where(odd == (odd_ones == "wrong"), 1 - top, top)
    assert len(np.unique(y)) == 2
    split = make_split(z, y)
    got = FITS[name](split)
    assert got.map == ScalarMap(split.pooled.value)
    assert got.flags["scalar_fallback"] == []
    assert "missing_classes" not in got.flags
    assert ("unidentified" in got.flags) == (n_odd == 0)


def test_wrong_predictions_that_are_idle_do_not_help():
    z, y = simulate(200, 3)
    right = z.argmax(axis=1) == y
    assert "scalar_fallback" in fit_vector(make_split(z, y, right.astype(float))).flags


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("scale", [1e-4, 1e6])
def test_logits_of_any_scale_are_fitted_without_a_warning(name, scale):
    z, y = simulate(120, 3)
    p = apply(quick_fit(name, make_split(z * scale, y)), z * scale)
    assert np.isfinite(p).all()


def test_the_usual_grid_is_the_published_one():
    assert DIRICHLET_PENALTIES == (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
