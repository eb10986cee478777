"""Calibration errors without noise: how far off they are, by integration and by simulation."""

import math

import numpy as np
import pytest

from smallcal.metrics import Scored, ece
from smallcal.metrics.binned import equal_mass, equal_width
from smallcal.metrics.debiased import CUTS, binned_gaps, debiased_ece, estimate, without_noise
from support.refused import refused


def two_columns(confidence):
    """Probabilities whose first column is the prediction; confidences are at least 1/2."""
    return np.column_stack([confidence, 1 - confidence])


def labels_with_accuracy(accuracy, rng):
    """Labels for ``two_columns``: 0, which is correct, with the given chances."""
    return (rng.random(len(accuracy)) >= accuracy).astype(int)


def confidences(rng, n, profile):
    if profile == "even":
        return rng.uniform(0.5, 1, n)
    return 1 - 0.5 * rng.beta(0.6, 3, n)  # most above 0.9


def test_the_mean_over_noise_is_the_true_size_to_within_a_sixth_of_a_standard_error():
    x = np.linspace(-16, 16, 64_001)
    values = without_noise(x[:, None], np.ones(1))[:, 0]
    plain, found, spread = [], [], []
    for true in np.linspace(0, 8, 161):
        weight = np.exp(-((x - true) ** 2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
        mean = weight @ values
        plain.append(weight @ np.abs(x) - true)
        found.append(mean - true)
        spread.append(math.sqrt(weight @ values**2 - mean**2))
    assert max(plain) == pytest.approx(math.sqrt(2 / math.pi))  # what the absolute value is off by
    assert np.abs(found).max() < 0.16
    assert max(spread) < 1.61


def test_gaps_scale_turn_and_stay_as_they_are_where_noise_is_small():
    gaps, noise = np.array([0.3, -1.2, 2.5, -7.0, 0.4]), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    found = without_noise(gaps, noise)
    np.testing.assert_allclose(without_noise(-gaps, noise), found)
    np.testing.assert_allclose(without_noise(3 * gaps, 3 * noise), 3 * found)
    assert found[3:].tolist() == [7.0, 0.4]
    near = without_noise(np.array([4 - 1e-9, 4 + 1e-9]), np.ones(2))
    assert near == pytest.approx([4.0, 4.0])
    stacked = without_noise(np.stack([gaps, -2 * gaps]), noise)
    np.testing.assert_allclose(stacked[0], found)


@pytest.mark.parametrize("profile", ["even", "sure"])
@pytest.mark.parametrize("n", [250, 1000, 5000])
def test_of_a_calibrated_model_little_remains(n, profile):
    rng = np.random.default_rng(1)
    pairs = []
    for _ in range(200):
        confidence = confidences(rng, n, profile)
        y, p = labels_with_accuracy(confidence, rng), two_columns(confidence)
        pairs.append((estimate("ece15", Scored.of(y, p)), debiased_ece(y, p), ece(y, p)))
    free, cut, plain = np.mean(pairs, axis=0)
    assert abs(free) < 0.35 * plain
    assert cut < 0.5 * plain
    assert min(value for _, value, _ in pairs) == 0.0
    assert all(value == min(max(0.0, own), seen) for own, value, seen in pairs)


@pytest.mark.parametrize("profile", ["even", "sure"])
@pytest.mark.parametrize("n", [1000, 5000])
@pytest.mark.parametrize("signs", ["over", "both"])
def test_a_known_five_percent_is_found(n, profile, signs):
    """Accuracy 5 points below confidence everywhere, or below in the top half and above else."""
    rng = np.random.default_rng(2)
    values = []
    for _ in range(200):
        confidence = confidences(rng, n, profile)
        # 0.8 is an edge of the 15 bins, so that gaps of both signs do not meet in a bin.
        gap = np.where((confidence >= 0.8) | (signs == "over"), 0.05, -0.05)
        y = labels_with_accuracy(np.clip(confidence - gap, 0, 1), rng)
        values.append(debiased_ece(y, two_columns(confidence)))
    assert np.mean(values) == pytest.approx(0.05, abs=0.0075)


def test_both_cuts_are_the_sum_over_bins_written_as_a_loop():
    rng = np.random.default_rng(3)
    confidence = confidences(rng, 300, "even")
    scored = Scored.of(labels_with_accuracy(confidence - 0.1, rng), two_columns(confidence))
    for name, cut in (("ece15", equal_width), ("adaece15", equal_mass)):
        assert CUTS[name] is cut
        index = cut(scored.confidence, 15)
        shift, doubt = scored.residual.mean(), (confidence * (1 - confidence)).mean()
        variance = doubt / 300
        over = math.copysign(math.sqrt(max(0.0, shift**2 - variance)), shift)
        total = 0.0
        for b in set(index.tolist()):
            rows = np.flatnonzero(index == b)
            noise = 0.0
            for c in confidence[rows]:
                chance = min(max(c - over * c * (1 - c) / doubt, 0.0), 1.0)
                noise += chance * (1 - chance)
            gap = scored.residual[rows].sum()
            total += without_noise(np.array([gap]), np.array([math.sqrt(noise)]))[0] / 300
        assert estimate(name, scored) == pytest.approx(total, rel=1e-9)


def test_all_correct_by_luck_still_has_noise():
    confidence = np.full(10, 0.95)
    gap, noise, share = binned_gaps(confidence, confidence - 1)
    (here,) = np.flatnonzero(share)
    assert gap[here] == pytest.approx(-0.05)
    assert noise[here] == pytest.approx(0.95 * 0.05 / 10)
    assert debiased_ece([0], [[0.7, 0.3]]) < 0.3


def test_certain_models_are_told_as_they_are():
    certain = [[1.0, 0.0]] * 4
    assert debiased_ece([0] * 4, certain) == 0.0
    assert debiased_ece([1] * 4, certain) == 1.0
    with refused("option-range", "1"):
        debiased_ece([0], [[0.7, 0.3]], bins=0)
