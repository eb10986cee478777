"""Applying the default: against a plain loop over rows, in any batch, precision and layout."""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import smallcal as sc
from smallcal.calibrators import by_row
from smallcal.calibrators.signals import STATISTICS, logit_statistics
from smallcal.calibrators.signals.statistic import SIGNAL_LIMIT
from smallcal.calibrators.softmax import keep_argmax, keep_predictions

CLASSES = (3, 10, by_row.FEW_CLASSES, by_row.FEW_CLASSES + 1, 100)


def drawn(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, n_classes))
    z[np.arange(n), rng.integers(n_classes, size=n)] += 10 * rng.random(n)
    # Classes that the model is biased for: a correction has something to do.
    biased = z / 1.5 - np.linspace(0, 2, n_classes)
    return z, (biased + rng.gumbel(size=z.shape)).argmax(axis=1)


@cache
def fitted(n_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)  # free predictions would be better
        found = sc.Calibrator().fit(*drawn(600, n_classes)).fitted_
    assert found.correction is not None
    assert found.tail_temperature is not None
    assert found.map.kind == "class_regressed"
    assert found.keep_predictions
    return found


def hostile(n_classes):
    """Return rows as they come, and ties, near ties, large and saturated logits, and masks."""
    z, _ = drawn(60, n_classes, seed=1)
    z[0] = 0
    z[1, :2] = z[1].max()
    z[2, -1] = np.nextafter(z[2].max(), np.inf)
    z[3] *= 40
    z[4] = np.where(np.arange(n_classes) == 1, 500.0, -500.0)
    z[5, 2:] = -np.inf
    z[6, 0] = -np.inf
    z[7] += 50
    return z


def plain_row(found, z):
    """Return the probabilities of one row, each step as it is defined; no masks."""
    part, route = found.correction, found.signal
    moved = z + np.array(part.bias)
    if part.reads:
        moved = moved + np.array(part.writes).T @ (np.array(part.reads) @ z)
    log_p, order = log_softmax(moved), np.sort(moved)
    p = np.exp(log_p)
    best = np.sort(p)[::-1]
    entropy = -(p * log_p).sum()
    six = [best[0], order[-1] - order[-2], best[0] - best[1], entropy]
    six += [np.linalg.norm(moved), order[-1]]
    six = np.array(six)[[STATISTICS.index(name) for name in route.statistics]]
    scores = np.clip((six - route.mean) / route.scale, -SIGNAL_LIMIT, SIGNAL_LIMIT)
    top = int(moved.argmax())
    linear = found.map.intercept + found.map.effects[top] + scores @ found.map.coefficients
    temperature = np.clip(np.exp(-linear), found.map.low, found.map.high)
    confidence = softmax(moved / temperature)[top]
    others = np.delete(moved, top)
    at_row, at_tail = (softmax(others / t) for t in (temperature, found.tail_temperature))
    share, odds = 1.0, confidence / max(1 - confidence, 1e-300)
    if at_tail.max() > at_row.max():
        share = np.clip((odds - at_row.max()) / (at_tail.max() - at_row.max()), 0, 1)
    rest = (1 - confidence) * (share * at_tail + (1 - share) * at_row)
    result = np.insert(rest, top, confidence)[None]
    keep_predictions(result, np.array([z.argmax()]))
    return result[0]


@pytest.mark.parametrize("n_classes", CLASSES)
def test_the_default_is_applied_as_it_is_defined(n_classes):
    found, z = fitted(n_classes), hostile(n_classes)
    there = np.isfinite(z).all(axis=1)
    want = np.array([plain_row(found, row) for row in z[there]])
    np.testing.assert_allclose(found.predict_proba(z[there]), want, atol=1e-9)


@pytest.mark.parametrize("n_classes", CLASSES)
def test_precision_changes_little_and_no_prediction(n_classes):
    found = fitted(n_classes)
    z = hostile(n_classes).astype(np.float32)
    exact = found.predict_proba(z.astype(np.float64))
    for kind, slack in ((np.float16, 1e-3), (np.float32, 1e-6), (np.float64, 1e-6)):
        out = np.empty(z.shape, dtype=kind)
        found.predict_proba(z, out=out)
        np.testing.assert_allclose(out, exact, atol=slack)
        np.testing.assert_allclose(out.sum(axis=1, dtype=np.float64), 1, atol=10 * slack)
        np.testing.assert_array_equal(out.argmax(axis=1), z.argmax(axis=1))
        assert not out[~np.isfinite(z)].any()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", CLASSES)
def test_a_row_does_not_depend_on_the_rows_beside_it(n_classes, kind, monkeypatch):
    found, z = fitted(n_classes), hostile(n_classes).astype(kind)
    whole = found.predict_proba(z)
    alone = np.concatenate([found.predict_proba(row[None]) for row in z])
    np.testing.assert_array_equal(alone, whole)
    np.testing.assert_array_equal(found.predict_proba(np.asfortranarray(z)), whole)
    np.testing.assert_array_equal(found.predict_proba(z[::-1]), whole[::-1])
    monkeypatch.setattr(logit_statistics, "_BLOCK_ROWS", 7)
    np.testing.assert_array_equal(found.predict_proba(z[:29]), whole[:29])
    np.testing.assert_array_equal(found.correction(z[:1]), found.correction(z)[:1])


@pytest.mark.parametrize("scale", [1.0, 1e-3, 60.0])
@pytest.mark.parametrize("n_classes", [2, 3, 30, 60])
def test_reductions_over_classes_are_numpys(n_classes, scale):
    rng = np.random.default_rng(n_classes)
    for n in (1, 2, 5, 33):
        array = by_row.laid_out(scale * rng.integers(-4, 5, (n, n_classes)), np.dtype(np.float64))
        other = by_row.laid_out(rng.standard_normal(array.shape), array.dtype)
        np.testing.assert_allclose(by_row.sums(array), array.sum(axis=1), atol=1e-9)
        np.testing.assert_allclose(by_row.sums(array, other), (array * other).sum(axis=1))
        np.testing.assert_allclose(by_row.weighted(array, other[0]), array @ other[0])
        np.testing.assert_array_equal(by_row.largest(array), array.max(axis=1))
        column, top = by_row.first_largest(array)
        np.testing.assert_array_equal(column, array.argmax(axis=1))  # of equal ones the first
        np.testing.assert_array_equal(top, array.max(axis=1))
        reads, writes = rng.standard_normal((2, n_classes)), rng.standard_normal((3, n_classes))
        got = by_row.low_rank(array, reads, writes, out=by_row.empty(n, n_classes, array.dtype))
        np.testing.assert_allclose(got, array @ reads.T @ writes[:2] + writes[2], atol=1e-9)
        for target in (array, np.ascontiguousarray(array), np.zeros((n, 2 * n_classes))[:, ::2]):
            by_row.put(target, column, 99.0)
            np.testing.assert_array_equal(target[np.arange(n), column], 99.0)
            assert (target == 99).sum() == n


def test_undone_ties_are_those_of_a_plain_loop():
    rng = np.random.default_rng(0)
    for kind in (np.float16, np.float32, np.float64):
        p = (rng.integers(1, 4, (200, 5)) / 8).astype(kind)
        top = rng.integers(5, size=200)
        want = p.copy()
        for row in np.flatnonzero(p.argmax(axis=1) != top):
            value = want[row, top[row]]
            earlier, later = want[row, : top[row]], want[row, top[row] + 1 :]
            earlier[earlier >= value] = np.nextafter(value, kind(0))
            later[later > value] = value
        keep_argmax(p, top)
        np.testing.assert_array_equal(p, want)
        np.testing.assert_array_equal(p.argmax(axis=1), top)
