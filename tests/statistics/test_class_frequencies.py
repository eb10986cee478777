"""Frequencies of classes without labels: the maximum, the test's size, the interval's coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from smallcal.statistics import moved_classes
from smallcal.statistics.class_frequencies import (
    Rows,
    factors,
    log_likelihood,
    resampled_factors,
)
from smallcal.statistics.moved_classes import Split, moved


def draw(rng, n, now, before, signal):
    """Probabilities that are right where classes are as frequent as before, and labels."""
    y = rng.choice(len(now), size=n, p=now)
    z = signal * (rng.normal(size=(n, len(now))) + signal * np.eye(len(now))[y]) + np.log(before)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), y


def split_of(p):
    """A split that is known row by row."""
    return Split(p.mean(axis=0), len(p), p, np.full(len(p), 1 / len(p)))


def plain_em(p, before, strength, steps=50_000):
    """Saerens' algorithm as it is written: share rows out among classes, and count."""
    now = before.copy()
    for _ in range(steps):
        shared = p * now / before
        shared /= shared.sum(axis=1, keepdims=True)
        better = (shared.sum(axis=0) + strength * before) / (len(p) + strength)
        if np.abs(better - now).max() < 1e-13:
            break
        now = better
    return now


CASES = [(2, 500, 1.5), (5, 400, 0.8), (20, 1000, 2.0), (40, 150, 2.5)]


@pytest.mark.parametrize(("n_classes", "n", "signal"), CASES)
@pytest.mark.parametrize("strength", [0.5, 20.0])
def test_newton_finds_what_em_climbs_to(n_classes, n, signal, strength):
    rng = np.random.default_rng(n)
    before, now = rng.dirichlet(np.full(n_classes, 5.0), size=2)
    p, _ = draw(rng, n, now, before, signal)
    found = before * factors(Rows.of(p), before, strength=strength)
    assert found == pytest.approx(plain_em(p, before, strength), abs=2e-6)


def test_scipy_finds_nothing_better():
    rng = np.random.default_rng(3)
    before, now = np.full(4, 0.25), np.array([0.6, 0.2, 0.15, 0.05])
    p, _ = draw(rng, 800, now, before, 1.2)

    def loss(q):
        prior = before @ np.log(q) / len(p)
        return -np.log(p @ (q / before)).mean() - prior

    rule = {"type": "eq", "fun": lambda q: q.sum() - 1}
    bounds = [(1e-6, 1)] * 4
    other = minimize(loss, before, bounds=bounds, constraints=rule, tol=1e-14)
    found = before * factors(Rows.of(p), before, strength=1.0)
    assert loss(found) <= loss(other.x / other.x.sum()) + 1e-12
    assert found == pytest.approx(other.x, abs=1e-4)


def test_agrees_with_inverted_confusions():
    """Lipton's estimate: the confusion matrix of a labelled split, inverted."""
    rng = np.random.default_rng(4)
    before, now = np.full(5, 0.2), np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    known, y = draw(rng, 20_000, before, before, 1.8)
    rows, _ = draw(rng, 20_000, now, before, 1.8)
    joint = np.zeros((5, 5))
    np.add.at(joint, (known.argmax(axis=1), y), 1 / len(y))
    predicted = np.bincount(rows.argmax(axis=1), minlength=5) / len(rows)
    inverted = np.linalg.solve(joint, predicted) * np.bincount(y) / len(y)
    found = known.mean(axis=0) * factors(Rows.of(rows), known.mean(axis=0), strength=1.0)
    assert found == pytest.approx(inverted, abs=0.015)
    assert found == pytest.approx(now, abs=0.015)


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(5, 60))
def test_invariants(seed, n_classes, n):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_classes, rng.choice([0.05, 1.0])), size=n)
    p[rng.random(p.shape) < 0.1] = 0.0  # options that a row does not have
    p[np.arange(n), rng.integers(n_classes, size=n)] += 1e-3
    p /= p.sum(axis=1, keepdims=True)
    before = rng.dirichlet(np.full(n_classes, 2.0)) * 0.9 + 0.1 / n_classes
    found = factors(Rows.of(p), before, strength=1.0)
    assert before @ found == pytest.approx(1)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    order = rng.permutation(n_classes)
    turned = factors(Rows.of(p[:, order]), before[order], strength=1.0)
    assert (turned * before[order]) == pytest.approx((found * before)[order], abs=1e-6)
    # The more the old frequencies are believed, the less is moved.
    held = factors(Rows.of(p), before, strength=50.0)
    assert log_likelihood(Rows.of(p), held) <= log_likelihood(Rows.of(p), found) + 1e-9


@given(st.integers(0, 10_000), st.integers(2, 30))
def test_the_rows_of_the_split_change_nothing(seed, n_classes):
    p = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.3), size=200) + 1e-9
    p /= p.sum(axis=1, keepdims=True)
    assert factors(Rows.of(p), p.mean(axis=0), strength=1.0) == pytest.approx(1, abs=1e-9)


def test_blocks_and_single_precision_give_the_same():
    rng = np.random.default_rng(5)
    before = np.full(6, 1 / 6)
    p, _ = draw(rng, 3000, rng.dirichlet(np.ones(6)), before, 1.5)
    whole = factors(Rows.of(p), before, strength=1.0)
    blocks = [p[:1000].astype(np.float32), p[1000:2500], p[2500:]]
    cut = factors(Rows(blocks, len(p), p[::7].copy()), before, strength=1.0)
    assert cut == pytest.approx(whole, abs=1e-5)
    assert Rows(blocks, len(p), p[::7]).mean == pytest.approx(p.mean(axis=0), abs=1e-7)


def test_resamples_are_fitted_as_if_one_by_one():
    rng = np.random.default_rng(6)
    before = np.full(5, 0.2)
    p, _ = draw(rng, 400, np.array([0.4, 0.3, 0.15, 0.1, 0.05]), before, 1.5)
    counts = rng.multinomial(400, np.full(400, 1 / 400), size=20)
    befores = rng.dirichlet(before * 2000, size=20)
    start = factors(Rows.of(p), before, strength=1.0)
    found = befores * resampled_factors(p, counts, befores, start, strength=1.0)
    for each, drawn, old in zip(found, counts, befores, strict=True):
        alone = old * factors(Rows.of(np.repeat(p, drawn, axis=0)), old, strength=1.0)
        assert each == pytest.approx(alone, abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "n", "n_split", "signal"), [(2, 300, 300, 1.5), (10, 500, 300, 2.0)]
)
def test_nothing_changed_is_rejected_as_rarely_as_it_says(n_classes, n, n_split, signal):
    rng, p_values = np.random.default_rng(7), []
    for seed in range(60):
        before = rng.dirichlet(np.full(n_classes, 5.0))
        split, rows = (draw(rng, k, before, before, signal)[0] for k in (n_split, n))
        p_values.append(moved(Rows.of(rows), split_of(split), level=0.95, random_state=seed)[3])
    assert np.mean(np.array(p_values) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
    assert 0.3 < np.mean(p_values) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "n", "n_split", "signal"), [(2, 400, 300, 1.5), (6, 800, 500, 1.5)]
)
def test_intervals_hold_the_truth(n_classes, n, n_split, signal):
    rng, held = np.random.default_rng(8), []
    for seed in range(50):
        before = rng.dirichlet(np.full(n_classes, 5.0))
        now = rng.dirichlet(np.full(n_classes, 3.0))
        split, _ = draw(rng, n_split, before, before, signal)
        rows, _ = draw(rng, n, now, before, signal)
        found = moved(Rows.of(rows), split_of(split), level=0.95, random_state=seed)
        held.append((found.low <= now) & (now <= found.high))
    assert 0.9 < np.mean(held) < 1.0


def test_a_sample_of_the_rows_gives_the_same_interval():
    rng = np.random.default_rng(9)
    before, now = np.full(4, 0.25), np.array([0.4, 0.3, 0.2, 0.1])
    split, _ = draw(rng, 5000, before, before, 1.5)
    rows, _ = draw(rng, 20_000, now, before, 1.5)
    whole = moved(Rows.of(rows), split_of(split), level=0.95, random_state=0)
    part = Rows((rows,), len(rows), rows[:2000])
    less = moved(part, split_of(split), level=0.95, random_state=0)
    assert less.now == pytest.approx(whole.now, abs=1e-6)
    assert less.high - less.low == pytest.approx(whole.high - whole.low, rel=0.35)


def test_a_class_that_no_row_has_may_still_come():
    p = np.tile([1 - 2e-6, 1e-6, 1e-6], (100, 1))
    split = split_of(np.eye(3)[np.arange(300) % 3])
    found = moved(Rows.of(p), split, level=0.95, random_state=0)
    assert found.high[1] >= 1 - 0.025 ** (1 / 100) - 1e-12


def test_draws_come_in_portions():
    assert sum(moved_classes._portions(10**9)) == moved_classes.DRAWS
    assert list(moved_classes._portions(10)) == [moved_classes.DRAWS]
