"""Smooth errors of many resamples at once, against one at a time."""

import numpy as np
import pytest

from smallcal.metrics import Scored
from smallcal.metrics import smooth_many as module
from smallcal.metrics.smooth import reflected_smooth, smece, smece_exact
from smallcal.metrics.smooth_many import ManyExact, ManyReleased, ReflectedSmooth


def drawn(confidence, chance, seed=0):
    rng = np.random.default_rng(seed)
    correct = rng.random(len(confidence)) < chance
    proba = np.column_stack([confidence, 1 - confidence])
    return Scored.of(np.where(correct, 0, 1), proba)


def evenly(n, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1, n)


CASES = {
    "off": drawn(evenly(300), evenly(300) ** 2),
    "calibrated": drawn(evenly(3000), evenly(3000)),  # widths below 0.01 have grids of their own
    "calibrated and many": drawn(evenly(40_000), evenly(40_000)),
    "both ways": drawn(evenly(500), np.where(evenly(500) < 0.75, 0.9, 0.6)),
    "one confidence": drawn(np.full(200, 0.8), 0.79),
    "two confidences": drawn(np.repeat([0.6, 1.0], 100), np.repeat([0.5, 0.97], 100)),
    "saturated": drawn(np.minimum(evenly(300) + 0.4, 1.0), 0.9),
    "all right": drawn(np.ones(50), 2.0),
    "all wrong": drawn(np.ones(50), -1.0),
    "one sample": drawn(np.array([0.7]), 0.0),
    "two samples": drawn(np.array([0.9, 0.7]), np.array([2.0, -1.0])),
}


def resamples(scored, k):
    rng = np.random.default_rng(1)
    counts = rng.multinomial(scored.n, np.full(scored.n, 1 / scored.n), size=k).astype(float)
    return np.asfortranarray(counts)


def looped(metric, scored, counts):
    rows = (np.repeat(np.arange(scored.n), row.astype(int)) for row in counts)
    return np.array([metric.of(scored.take(row)) for row in rows])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ["F", "C"])
def test_the_released_error_is_that_of_a_loop(name, order):
    scored = CASES[name]
    counts = np.array(resamples(scored, 6), order=order)
    found = ManyReleased(scored.confidence)(counts * scored.residual, counts)
    np.testing.assert_allclose(found, looped(smece, scored, counts), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("guess", [None, 1.0, 0.0])
def test_the_exact_error_is_that_of_a_loop_whatever_the_guess(name, guess):
    scored = CASES[name]
    counts = resamples(scored, 6)
    many = ManyExact(scored.confidence, guess=smece_exact.of(scored) if guess is None else guess)
    found = many(counts * scored.residual / scored.n)
    np.testing.assert_allclose(found, looped(smece_exact, scored, counts), atol=3e-6)


@pytest.mark.parametrize("name", ["off", "calibrated"])
def test_a_row_does_not_depend_on_the_others(name):
    scored = CASES[name]
    counts = resamples(scored, 40)
    released, exact = ManyReleased(scored.confidence), ManyExact(scored.confidence, guess=0.02)
    whole = released(counts * scored.residual, counts)
    width = exact(counts * scored.residual / scored.n)
    for i in range(0, 40, 7):
        part = np.asfortranarray(counts[i : i + 3])
        np.testing.assert_allclose(
            released(part * scored.residual, part), whole[i : i + 3], rtol=1e-12
        )
        found = exact(part * scored.residual / scored.n)
        np.testing.assert_allclose(found, width[i : i + 3], atol=1e-7)


def test_little_memory_gives_the_same(monkeypatch):
    scored = CASES["calibrated"]
    counts = resamples(scored, 10)
    many = ManyExact(scored.confidence, guess=0.0)
    whole = ManyReleased(scored.confidence)(counts * scored.residual, counts)
    width = many(counts * scored.residual / scored.n)
    monkeypatch.setattr(module, "_AT_ONCE", 3 * 4096)
    parts = ManyReleased(scored.confidence)(counts * scored.residual, counts)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)
    np.testing.assert_allclose(many(counts * scored.residual / scored.n), width, atol=1e-7)


def test_weights_of_one_row_are_those_of_all():
    scored = CASES["off"]
    masses = np.asfortranarray(np.stack([scored.residual, -scored.residual / 2]))
    many = ManyReleased(scored.confidence)
    one, all_ = many(masses, np.ones((1, scored.n))), many(masses, np.ones(masses.shape))
    np.testing.assert_array_equal(one, all_)
    assert one[0] == pytest.approx(smece.of(scored), rel=1e-12)


def test_many_masses_are_smoothed_as_one_is():
    rng = np.random.default_rng(0)
    position, masses = rng.random(50), rng.normal(size=(3, 50))
    found = ReflectedSmooth(position, nodes=257)(masses, 0.03)
    for row, mass in zip(found, masses, strict=True):
        plain = reflected_smooth(position, mass, 0.03, nodes=257)
        np.testing.assert_allclose(row, plain, atol=1e-10)
