"""Applying the default: against a plain loop over rows, in any batch, precision and layout."""

import warnings
from functools import cache

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators import by_row
from smallcal.calibrators.signals import logit_statistics
from smallcal.calibrators.softmax import keep_argmax
from support.refused import refused

CLASSES = (3, 10, by_row.FEW_CLASSES, by_row.FEW_CLASSES + 1, 100)


def drawn(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, n_classes))
    z[np.arange(n), rng.integers(n_classes, size=n)] += 10 * rng.random(n)
    # Classes that the model is biased for.
    biased = z / 1.5 - np.linspace(0, 2, n_classes)
    return z, (biased + rng.gumbel(size=z.shape)).argmax(axis=1)


@cache
def fitted(n_classes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        found = sc.Calibrator().fit(*drawn(600, n_classes)).fitted_
    assert found.map.kind == "multinomial"
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


@pytest.mark.parametrize("n_classes", CLASSES)
def test_precision_changes_little(n_classes):
    found = fitted(n_classes)
    z = hostile(n_classes).astype(np.float32)
    exact = found.predict_proba(z.astype(np.float64))
    for kind, slack in ((np.float32, 1e-6), (np.float64, 1e-6)):
        out = np.empty(z.shape, dtype=kind)
        found.predict_proba(z, out=out)
        np.testing.assert_allclose(out, exact, atol=slack)
        np.testing.assert_allclose(out.sum(axis=1, dtype=np.float64), 1, atol=10 * slack)
        assert not out[~np.isfinite(z)].any()


@pytest.mark.parametrize("method", ["none", "ts-nll", "default"])
def test_float16_logits_lose_nothing_more_on_the_way(method):
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=3000)
    z = (rng.normal(size=(3000, 10)) + 12.0 * np.eye(10)[y]).astype(np.float16)
    y[:30] = 9 - y[:30]  # sure and wrong: what rounding to 0 makes infinitely bad
    losses = []
    for kind in (np.float16, np.float64):
        given = z.astype(kind)
        p = sc.make(method).fit(given, y).predict_proba(given)
        losses.append(sc.evaluate(y, p, metrics=["nll"])["nll"])
        assert (p < 1).all()
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    with refused("array-shape"):
        sc.make(method).fit(z, y).predict_proba(z, out=np.empty(z.shape, np.float16))


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
