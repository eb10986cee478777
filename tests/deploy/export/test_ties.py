"""Rows that lie exactly on a step: every place must put them on the same side as the runtime."""

from dataclasses import replace

import numpy as np
import pytest

from smallcal.calibrators.maps import GroupMap
from smallcal.calibrators.maps.curves import LinearMap
from smallcal.calibrators.signals.statistic import ConfidenceRank, Statistic
from support.backends import BACKENDS
from support.cases import fitted_once

EVERYWHERE = pytest.mark.parametrize("place", BACKENDS)


def probabilities(place, fitted, z):
    backend = BACKENDS[place]
    if not backend.there:
        pytest.skip(f"{backend.needs} is not installed")
    return backend.run(fitted, z)


def with_parts(**parts):
    """A calibrator of three classes made by hand."""
    base = fitted_once("tva-ts").fitted_
    return replace(base, n_classes=3, reference=None, group_counts=(1,), **parts)


@EVERYWHERE
def test_a_score_on_a_threshold_goes_up(place):
    thresholds, temperatures = (1.0, 2.5), (0.5, 1.0, 4.0)
    steps = GroupMap(thresholds, temperatures)
    fitted = replace(with_parts(signal=Statistic("top_logit"), map=steps), group_counts=(1, 1, 1))
    top = np.array([np.nextafter(1.0, 0), 1.0, np.nextafter(2.5, 0), 2.5, 3.0])
    z = np.column_stack([top, top - 1.0, top - 2.0])
    expected = np.exp((z - top[:, None]) / np.array([0.5, 1.0, 1.0, 4.0, 4.0])[:, None])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities(place, fitted, z), expected, rtol=1e-6)
    np.testing.assert_array_equal(fitted.group(z), [0, 1, 1, 2, 2])


@EVERYWHERE
def test_a_confidence_that_the_split_had_counts_as_reached(place):
    """Two classes alike, one far below: a confidence of exactly a half, the second of three."""
    fitted = with_parts(
        signal=ConfidenceRank((0.25, 0.5, 0.75)), map=LinearMap((1.0, 1.0), "identity")
    )
    z = np.array([[0.0, 0.0, -40.0], [0.0, -40.0, 0.0]])
    temperature = 1 + (1 - 2 / 3)
    np.testing.assert_allclose(fitted.temperature(z), temperature)
    found = probabilities(place, fitted, z)
    np.testing.assert_allclose(found.min(axis=1), np.exp(-40 / temperature) / 2, rtol=1e-6)
