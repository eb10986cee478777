"""The fit of a correction: its derivatives, its optimum, its scales, and truths it must find."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from smallcal.calibrators.maps import correction_fit, correction_scales
from smallcal.calibrators.maps.correction_fit import (
    _leading_directions,
    _Model,
    _search,
    fit_correction,
)
from smallcal.calibrators.maps.temperature import ANCHOR_SCALE
from smallcal.data.predictions import Predictions
from smallcal.data.special import softmax
from support.cases import fit

#: Planted on the first of five classes.
BIAS = np.array([2.0, 0.0, 0.0, 0.0, 0.0])


def drawn(logits, rng):
    """Labels of which each class is as likely as the softmax of the logits says."""
    return (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def planted(n, n_classes, *, seed, bias=0.0, scale=1.0, mix=None):
    """Logits and labels; the labels follow the logits scaled, mixed and moved by a bias."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, n_classes))
    mixed = z if mix is None else z + z @ mix.T
    return z, drawn(scale * mixed + bias, rng)


def model_of(z, y, weight=None):
    return _Model(Predictions.of(z, y, weight=weight), np.asarray(z, dtype=np.float64))


def plain_loss(model, theta, rows=slice(None)):
    """Minus the log-likelihood, from the formula alone."""
    v, n_biases = model.directions, len(model.counts)
    bias = np.zeros(model.n_classes)
    bias[model.counts] = theta[1 : 1 + n_biases]
    mixing = theta[1 + n_biases :].reshape(v.shape[1], v.shape[1])
    z, y, weight = model.z[rows], model.labels[rows], model.weight[rows]
    logits = np.exp(theta[0]) * z + bias + z @ v @ mixing.T @ v.T
    at_label = logits[np.arange(len(z)), y]
    return float(weight @ (np.logaddexp.reduce(logits, axis=1) - at_label))


def numeric_slope(function, theta, step=1e-5):
    steps = step * np.eye(len(theta))
    return np.array([(function(theta + s) - function(theta - s)) / (2 * step) for s in steps])


def somewhere(model, seed, u=0.2):
    rng = np.random.default_rng(seed)
    return np.append(u, 0.3 * rng.normal(size=sum(model.sizes[1:])))


CASES = [(2, False, None), (3, False, None), (3, True, 1), (7, True, None), (7, False, 4)]


def case(n_classes, weighted, missing):
    """A small split, with weights or a class that never occurs."""
    rng = np.random.default_rng(n_classes)
    z = 1.5 * rng.normal(size=(40, n_classes))
    y = rng.integers(n_classes, size=40)
    if missing is not None:
        y[y == missing] = 0
    return model_of(z, y, rng.uniform(0.2, 3.0, size=40) if weighted else None)


@pytest.mark.parametrize(("n_classes", "weighted", "missing"), CASES)
def test_loss_and_slope_are_those_of_the_formula(n_classes, weighted, missing):
    model = case(n_classes, weighted, missing)
    for seed in range(3):
        theta = somewhere(model, seed)
        (part,) = model.look(theta).parts
        assert part.loss == pytest.approx(plain_loss(model, theta), rel=1e-12)
        expected = numeric_slope(lambda at: plain_loss(model, at), theta)
        np.testing.assert_allclose(part.slope, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("n_classes", "weighted", "missing"), CASES)
def test_curvature_is_the_slope_of_the_slope_but_for_what_bends_downwards(
    n_classes, weighted, missing
):
    model = case(n_classes, weighted, missing)
    signs = set()
    for seed, u in enumerate((-2.5, -1.0, 0.4)):
        theta = somewhere(model, seed, u)
        slope, curvature = model.look(theta).total()
        expected = numeric_slope(lambda at: model.look(at).total()[0], theta)
        expected[0, 0] -= min(slope[0], 0)  # left out where it is negative
        np.testing.assert_allclose(curvature, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(curvature, curvature.T, atol=1e-10)
        assert np.linalg.eigvalsh(curvature).min() > -1e-9 * np.abs(curvature).max()
        signs.add(np.sign(slope[0]))
    assert 1 in signs  # the term that is kept was there to be seen


def test_blocks_and_folds_add_up_to_the_whole(monkeypatch):
    whole = case(7, True, None)
    monkeypatch.setattr(correction_fit, "_BLOCK_SIZE", 7 * 9)
    parts = case(7, True, None)
    assert (len(whole.blocks), len(parts.blocks)) == (1, 5)
    theta = somewhere(whole, 0)
    for ours, theirs in zip(parts.look(theta).total(), whole.look(theta).total(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    by_fold = whole.slopes_by_fold(theta)
    assert len(by_fold) == correction_fit.N_FOLDS
    np.testing.assert_allclose(by_fold.sum(axis=0), whole.look(theta).total()[0], atol=1e-12)


@pytest.mark.parametrize("size", [1, 7, 7 * 3, 10**6])
def test_what_is_looked_at_together_does_not_matter(size, monkeypatch):
    z, y = planted(90, 7, seed=1, bias=np.linspace(0, 1, 7))
    preds = Predictions.of(z, y, weight=np.linspace(0.5, 2, 90))
    whole, moved = fit_correction(preds, 1.0)
    monkeypatch.setattr(correction_fit, "_BLOCK_SIZE", size)
    parts, moved_in_parts = fit_correction(preds, 1.0)
    np.testing.assert_allclose(parts.bias, whole.bias, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moved_in_parts, moved, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 47, 48, 49, 200, 371])
def test_a_system_is_solved_with_the_diagonal_of_its_inverse(size):
    rng = np.random.default_rng(size)
    half, target = rng.normal(size=(size, size + 5)), rng.normal(size=size)
    matrix = half @ half.T + 0.1 * np.eye(size)
    solution, diagonal = correction_scales._solved(matrix, target)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, target), rtol=1e-8)
    np.testing.assert_allclose(diagonal, np.diag(np.linalg.inv(matrix)), rtol=1e-8)
    # What rounding has bent downwards is solved all the same.
    odd = matrix - 2 * np.linalg.eigvalsh(matrix)[0] * np.eye(size)
    solution, diagonal = correction_scales._solved(odd, target)
    np.testing.assert_allclose(odd @ solution, target, atol=1e-6)


def test_folds_share_rows_out_evenly_whatever_their_number():
    for n in (2, 19, 20, 47):
        model = model_of(*planted(n, 3, seed=n))
        sizes = [len(range(n)[rows]) for rows in model.folds]
        assert sum(sizes) == n
        assert max(sizes) - min(sizes) <= 1
        assert sorted(model.order.tolist()) == list(range(n))


@pytest.mark.parametrize(("n_classes", "weighted", "missing"), CASES)
def test_what_is_handed_out_gives_the_likelihood_that_was_fitted(n_classes, weighted, missing):
    model = case(n_classes, weighted, missing)
    theta = somewhere(model, 1, u=-0.7)
    correction = model.correction(theta)
    # As a constant on every row is nothing to a softmax, it is nothing to the correction.
    logits = np.exp(theta[0]) * correction(model.z + 3.0)
    p = softmax(logits)[np.arange(len(logits)), model.labels]
    assert -model.weight @ np.log(p) == pytest.approx(plain_loss(model, theta), rel=1e-9)
    moves = model.moves(theta, slice(None))
    np.testing.assert_allclose(correction(model.z), model.z + moves, atol=1e-10)


@pytest.mark.parametrize(
    ("n", "n_classes", "rank"), [(60, 4, 3), (60, 9, 5), (20, 60, 5), (3, 9, 3)]
)
def test_directions_are_the_leading_singular_vectors_whichever_side_is_longer(n, n_classes, rank):
    rng = np.random.default_rng(n)
    z, weight = rng.normal(size=(n, n_classes)), rng.uniform(0.5, 2.0, size=n)
    found = _leading_directions(z, weight)
    centred = (z - z.mean(axis=1, keepdims=True)) * np.sqrt(weight)[:, None]
    expected = np.linalg.svd(centred)[2][:rank].T
    assert found.shape == (n_classes, rank)
    np.testing.assert_allclose(np.abs(found.T @ expected), np.eye(rank), atol=1e-7)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-7)
    assert (found.max(axis=0) == np.abs(found).max(axis=0)).all()  # their signs are settled


def best(model, penalty, start, keep=None):
    """The penalised optimum by a search of SciPy's, of all rows or of some."""
    rows = slice(None) if keep is None else keep

    def loss(theta):
        return plain_loss(model, theta, rows) + penalty @ theta**2 / 2

    def slope(theta):
        return numeric_slope(loss, theta)

    return minimize(loss, start, jac=slope, method="BFGS", options={"gtol": 1e-5}).x


@pytest.mark.parametrize(
    ("n", "n_classes", "bias"), [(300, 2, 1.0), (500, 4, 0.0), (500, 5, BIAS), (150, 8, 0.0)]
)
def test_the_fit_is_the_optimum_of_its_penalised_likelihood(n, n_classes, bias):
    given = np.resize(bias, n_classes) * (np.arange(n_classes) == 0)
    model = model_of(*planted(n, n_classes, seed=n, bias=given, scale=0.7))
    theta, penalty, curvature = _search(model, 0.0)
    slope, here = model.look(theta).total()
    left = slope + penalty * theta
    whole = here + np.diag(penalty)
    assert left @ np.linalg.solve(whole, left) / 2 < 1e-3  # log-likelihood still to gain
    sd = np.sqrt(np.diag(np.linalg.inv(whole)))
    assert np.abs((theta - best(model, penalty, theta * 0)) / sd).max() < 0.05
    # Returned for the folds: beside the optimum, not far from it.
    np.testing.assert_allclose(curvature, here, atol=0.15 * np.abs(here).max())


def log_evidence(model, log_scales, start):
    """Laplace's approximation at given scales, with what was seen of scales beforehand."""
    n_biases, entries = model.sizes[1:]
    precision = np.exp(-2 * np.asarray(log_scales))
    penalty = np.concatenate([[ANCHOR_SCALE**-2], *map(np.full, (n_biases, entries), precision)])
    theta = start
    for _ in range(30):
        slope, curvature = model.look(theta).total()
        theta = theta - np.linalg.solve(curvature + np.diag(penalty), slope + penalty * theta)
    _, curvature = model.look(theta).total()
    found = -plain_loss(model, theta) - penalty @ theta**2 / 2 + np.log(penalty).sum() / 2
    found -= np.linalg.slogdet(curvature + np.diag(penalty))[1] / 2
    seen = np.array([correction_scales._BIAS_SEEN, correction_scales._MIXING_SEEN])
    return found + correction_scales._SEEN / 2 * (np.log(precision) - precision * seen**2).sum()


@pytest.mark.parametrize(("seed", "spread"), [(0, 0.0), (1, 0.5), (2, 1.5)])
def test_the_scales_are_those_of_the_largest_evidence(seed, spread, monkeypatch):
    monkeypatch.setattr(correction_scales, "_DEGREES", 1e12)  # Student's prior is then normal
    rng = np.random.default_rng(seed)
    mix = 0.2 * spread * rng.normal(size=(5, 5))
    model = model_of(*planted(400, 5, seed=seed, bias=spread * rng.normal(size=5), mix=mix))
    theta, penalty, _ = _search(model, 0.0)
    found = -np.log(penalty[[1, -1]]) / 2
    np.testing.assert_allclose(penalty[1:6], penalty[1], rtol=1e-9)
    np.testing.assert_array_equal(penalty[6:], penalty[-1])
    wanted = minimize(
        lambda at: -log_evidence(model, at, theta),
        found + np.array([0.5, -0.5]),
        method="Nelder-Mead",
        options={"xatol": 0.01, "fatol": 1e-4},
    )
    assert np.abs(found - wanted.x).max() < 0.15
    assert log_evidence(model, found, theta) > -wanted.fun - 0.05
    # No local maximum: far scales are worse.
    for away in ((1.5, 0), (-1.5, 0), (0, 1.5), (0, -1.5)):
        assert log_evidence(model, found + away, theta) < -wanted.fun


def test_students_prior_holds_a_large_bias_less_and_the_others_as_firmly():
    bias = np.zeros(12)
    bias[0] = 4.0
    model = model_of(*planted(600, 12, seed=3, bias=bias))
    theta, penalty, _ = _search(model, 0.0)
    held = penalty[1:13]
    assert held[0] < 0.2 * np.median(held)
    assert np.abs(theta[2:13] - np.median(theta[1:13])).max() < 0.8
    assert theta[1] - np.median(theta[1:13]) > 3.2


def test_a_planted_bias_is_found_and_raises_accuracy():
    for seed in range(3):
        z, y = planted(500, 5, seed=seed, bias=BIAS)
        correction, _ = fit_correction(Predictions.of(z, y), 1.0)
        found = np.array(correction.bias)
        assert found[0] - np.median(found[1:]) == pytest.approx(2.0, abs=0.5)
        assert np.ptp(found[1:]) < 0.5
        new, truth = planted(4000, 5, seed=100 + seed, bias=BIAS)
        before, after = ((s.argmax(axis=1) == truth).mean() for s in (new, correction(new)))
        assert after > before + 0.03


@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_where_no_bias_is_planted_little_is_found(scale):
    for seed in range(5):
        z, y = planted(500, 5, seed=seed, scale=scale)
        correction, moved = fit_correction(Predictions.of(z, y), 1 / scale)
        assert np.abs(correction.bias).max() < 0.25
        assert np.abs(moved - z).max() < 0.15 * np.abs(z).max() + 0.25


def test_a_planted_confusion_is_found(monkeypatch):
    mix = np.zeros((5, 5))
    mix[0, 1] = mix[1, 0] = 0.8  # what speaks for one of them speaks for the other
    mix[0, 0] = mix[1, 1] = -0.8
    z, y = planted(500, 5, seed=1, mix=mix)
    new, truth = planted(4000, 5, seed=2, mix=mix)

    def log_loss():
        correction, _ = fit_correction(Predictions.of(z, y), 1.0)
        p = softmax(correction(new))
        return -np.log(p[np.arange(len(new)), truth]).mean(), len(correction.reads)

    with_matrix, rank = log_loss()
    monkeypatch.setattr(correction_fit, "RANK", 0)
    without, none = log_loss()
    assert (rank, none) == (4, 0)
    assert with_matrix < without - 0.05


def unseen(n, seed):
    """Labels in which class 2 never occurs, though the model expects it about ten times."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.normal(size=(n, 6))
    z[:, 2] -= 1.5
    expected = softmax(z)[:, 2].sum()
    without = z.copy()
    without[:, 2] = -np.inf
    return z, drawn(without, rng), expected


def test_a_class_that_should_have_occurred_and_never_does_is_thought_absent(monkeypatch):
    z, y, expected = unseen(130, 0)
    assert 8 < expected < 14
    correction, moved = fit_correction(Predictions.of(z, y), 1.0)
    bias = np.array(correction.bias)
    others = np.delete(bias, 2)
    assert bias[2] < np.median(others) - 3
    assert np.abs(others - np.median(others)).max() < 1
    # The rows that it was fitted on are moved as new ones are.
    gone = (moved - z)[:, 2] - np.delete(moved - z, 2, axis=1).mean(axis=1)
    assert gone.max() < -2.5
    # That is not the prior's doing: it is more than the biases alone would say.
    monkeypatch.setattr(_Model, "absent", lambda self, *_: np.zeros(sum(self.sizes)))
    alone = np.array(fit_correction(Predictions.of(z, y), 1.0)[0].bias)
    assert alone[2] > bias[2] + 1


def test_a_class_that_is_hardly_expected_and_does_not_occur_has_no_bias():
    z, y, _ = unseen(130, 1)
    z[:, 2] -= 12
    correction, _ = fit_correction(Predictions.of(z, y), 1.0)
    assert correction.bias[2] == 0
    assert np.count_nonzero(correction.bias) == 5


@pytest.mark.parametrize(("scale", "temperature"), [(1.0, 1.0), (0.0, 20.0)])
def test_a_thousand_classes_and_few_rows_without_biases_stay_tame(scale, temperature):
    z, y = planted(250, 1000, seed=0, scale=scale)
    correction, moved = fit_correction(Predictions.of(z, y), temperature)
    assert np.isfinite(moved).all()
    if scale:
        assert np.abs(correction.bias).max() < 0.1
        assert np.abs(moved - z).max() < 0.1
    new, truth = planted(2000, 1000, seed=1, scale=scale)
    losses = [
        -np.log(softmax(logits / temperature)[np.arange(2000), truth]).mean()
        for logits in (new, correction(new))
    ]
    assert losses[1] < losses[0] + 0.05


def test_logits_so_far_apart_that_nothing_can_be_corrected_are_left_alone():
    z, y = planted(60, 4, seed=0)
    z[7, 1] = -2e4
    correction, moved = fit_correction(Predictions.of(z, y), 1.0)
    assert correction.bias == (0.0,) * 4
    assert correction.reads == ()
    np.testing.assert_array_equal(moved, z)


def test_rows_are_corrected_as_by_a_fit_without_their_fold():
    z, y = planted(300, 4, seed=5, bias=np.array([1.5, 0, 0, -0.5]), scale=0.8)
    preds = Predictions.of(z, y)
    correction, moved = fit_correction(preds, 1.0)
    model = model_of(z, y)
    theta, penalty, _ = _search(model, 0.0)
    exact = np.empty_like(z)
    for rows in model.folds:
        inside = np.zeros(300, dtype=bool)
        inside[rows] = True
        left_out = best(model, penalty, theta, keep=~inside)
        exact[model.order[rows]] = model.moves(left_out, rows)
    ours, in_fold = moved - z, correction(z) - z
    # What matters is how far rows move apart from the fit that has seen them.
    ours, exact = ours - in_fold, exact - in_fold
    assert np.corrcoef(ours.ravel(), exact.ravel())[0, 1] > 0.98
    assert np.abs(ours - exact).max() < 0.25 * np.abs(exact).max()


def test_a_rows_own_label_does_not_pull_its_own_correction_towards_it():
    z, y = planted(200, 4, seed=8)
    rows = np.arange(200)
    correction, moved = fit_correction(Predictions.of(z, y), 1.0)

    def rise(logits):
        p = softmax(logits)[rows, y], softmax(z)[rows, y]
        return np.log(p[0]).sum() - np.log(p[1]).sum()

    # In fold a correction gains by construction; out of fold, where nothing is planted, it loses.
    assert rise(correction(z)) > 0 > rise(moved)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 7))
def test_permuting_classes_permutes_the_correction(seed, n_classes):
    rng = np.random.default_rng(seed)
    z, y = planted(80, n_classes, seed=seed, bias=rng.normal(size=n_classes))
    order = rng.permutation(n_classes)
    correction, moved = fit_correction(Predictions.of(z, y), 1.0)
    other, other_moved = fit_correction(Predictions.of(z[:, order], np.argsort(order)[y]), 1.0)
    np.testing.assert_allclose(other.bias, np.array(correction.bias)[order], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other(z[:, order]), correction(z)[:, order], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(other_moved, moved[:, order], rtol=1e-6, atol=1e-7)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(2, 7))
def test_the_order_of_rows_does_not_matter(seed, n_classes):
    rng = np.random.default_rng(seed)
    z, y = planted(80, n_classes, seed=seed, bias=rng.normal(size=n_classes))
    order = rng.permutation(80)
    correction, moved = fit_correction(Predictions.of(z, y), 1.0)
    other, other_moved = fit_correction(Predictions.of(z[order], y[order]), 1.0)
    np.testing.assert_allclose(other.bias, correction.bias, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other(z), correction(z), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(other_moved, moved[order], rtol=1e-6, atol=1e-7)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.floats(-30, 30))
def test_a_constant_on_every_row_does_not_change_the_correction(seed, constant):
    z, y = planted(120, 4, seed=seed, bias=np.array([1.0, 0, 0, 0]))
    rng = np.random.default_rng(seed)
    added = constant + rng.normal(size=(120, 1))
    found = fit_correction(Predictions.of(z, y), 1.0)
    other = fit_correction(Predictions.of(z + added, y), 1.0)
    np.testing.assert_allclose(other[0].bias, found[0].bias, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(other[1] - added, found[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[0](z + added) - added, found[0](z), rtol=1e-6, atol=1e-6)


def test_a_weight_of_two_is_a_row_twice():
    z, y = planted(150, 5, seed=2, bias=BIAS)
    once, _ = fit_correction(Predictions.of(z, y, weight=np.full(150, 2.0)), 1.0)
    twice, _ = fit_correction(Predictions.of(np.tile(z, (2, 1)), np.tile(y, 2)), 1.0)
    np.testing.assert_allclose(once.bias, twice.bias, rtol=1e-6)
    np.testing.assert_allclose(once(z), twice(z), rtol=1e-6, atol=1e-8)


def test_rows_of_no_weight_might_as_well_not_be_there():
    z, y = planted(200, 5, seed=4, bias=BIAS)
    weight = (np.arange(200) < 120).astype(float)
    some, _ = fit_correction(Predictions.of(z, y, weight=weight), 1.0)
    fewer, _ = fit_correction(Predictions.of(z[:120], y[:120]), 1.0)
    np.testing.assert_allclose(some.bias, fewer.bias, rtol=1e-6)


def test_the_default_finds_the_bias_on_the_way():
    z, y = planted(500, 5, seed=0, bias=BIAS)
    fitted = fit("default", z, y).fitted_
    assert fitted.method == "adaptive"
    bias = np.array(fitted.correction.bias)
    assert bias[0] - np.median(bias[1:]) == pytest.approx(2.0, abs=0.5)
    moved = fit("default", z + 10, y).fitted_
    assert fitted.fit_metrics["weight"] > 0.999
    np.testing.assert_allclose(moved.correction.bias, bias, rtol=1e-6, atol=1e-6)
