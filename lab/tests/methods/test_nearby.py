"""Losses near a temperature: what the kernel gives, to rounding, wherever the samples go."""

import numpy as np
import pytest

from smallcal.calibrators.maps.base import loss_and_slope
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal_lab.methods.nearby import NearbyLoss
from support.simulated import simulate


def require_agreement(goal, gaps, temperatures):
    """Ask one after the other, as a fit does; both numbers are per unit of relative temperature."""
    goal = objective(goal)
    loss_at = NearbyLoss(goal, gaps)
    for temperature in temperatures:
        loss, slope = loss_at(temperature)
        expected, plain = loss_and_slope(goal, gaps, temperature)
        np.testing.assert_allclose(loss, expected, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(
            slope * temperature, plain * temperature, rtol=1e-11, atol=1e-12 / gaps.n
        )


def walk(n, *, steps=40, stride=0.03, seed=0):
    rng = np.random.default_rng(seed)
    steps = rng.uniform(-stride, stride, (steps, n)) + rng.choice([-1, 0, 1], n) * stride / 2
    return rng.uniform(0.2, 4, n) * np.exp(np.cumsum(steps, axis=0))


@pytest.mark.parametrize("goal", ["bce", "nll", "brier", "softece", "mixed(0.3)"])
@pytest.mark.parametrize("n_classes", [2, 3, 10, 100, 1500])
def test_it_agrees_with_the_kernel_on_a_walk(goal, n_classes):
    z, y = simulate(120, n_classes, seed=1)
    weight = np.random.default_rng(2).random(120)
    weight[:5] = 0
    for scale in (0.3, 1.0, 8.0):
        gaps = Gaps.of(Predictions.of(scale * z, y, weight=weight))
        require_agreement(goal, gaps, walk(120))


@pytest.mark.parametrize("n_classes", [3, 50, 2000])
def test_it_agrees_where_the_logarithm_is_steepest(n_classes):
    # As many classes below as make up for the distance: the nearest complex zero of the sum.
    z = np.full((60, n_classes), -np.log(n_classes - 1))
    z[:, 0] = 0
    z += np.random.default_rng(0).normal(size=z.shape) * 1e-3
    y = np.arange(60) % 3
    gaps = Gaps.of(Predictions.of(z, y))
    require_agreement("bce", gaps, 1 + walk(60, stride=0.02) / 100)
    require_agreement("nll", gaps, walk(60))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("case", ["ties", "saturated", "masked", "one class wins", "one row"])
def test_hostile_rows(case, dtype):
    z, y = simulate(80, 6, seed=3)
    if case == "ties":
        z = np.round(z)
        z[:10] = 0
    if case == "saturated":
        z *= 2000 if dtype == np.float16 else 1e6
    if case == "masked":
        z[::3, 4:] = -np.inf
        y = np.where(y >= 4, 0, y)
    if case == "one class wins":
        z[:, 0] += 500
        y[:] = 0
    if case == "one row":
        z, y = z[:1], y[:1]
    gaps = Gaps.of(Predictions.of(z.astype(dtype), y))
    require_agreement("bce", gaps, walk(len(y)))
    require_agreement("nll", gaps, walk(len(y)))


def test_samples_may_jump_anywhere():
    z, y = simulate(90, 12, seed=4)
    rng = np.random.default_rng(5)
    gaps = Gaps.of(Predictions.of(3 * z, y))
    require_agreement("bce", gaps, np.exp(rng.uniform(-4, 4, (30, 90))))


def test_a_sample_does_not_depend_on_the_others():
    z, y = simulate(90, 12, seed=6)
    gaps, some = Gaps.of(Predictions.of(z, y)), np.arange(0, 90, 7)
    temperatures = walk(90, steps=1)
    whole = NearbyLoss(objective("bce"), gaps)(temperatures[0])[1]
    part = NearbyLoss(objective("bce"), gaps.take(some))(temperatures[0, some])[1]
    np.testing.assert_allclose(part * len(some), whole[some] * 90, rtol=1e-13)
