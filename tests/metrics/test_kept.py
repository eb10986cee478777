"""What is kept of predictions gives the same metrics as the probabilities, to the bit."""

import numpy as np
import pytest

from smallcal.metrics import METRICS, Scored
from smallcal.metrics.kept import LOST, Kept, each, require_kept, value
from smallcal.metrics.replicas import SLOW, replicators
from support.refused import refused
from support.simulated import simulate


@pytest.fixture
def scored():
    z, y = simulate(150, 5)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p[:4] = [1, 0, 0, 0, 0]  # no doubt at all
    return Scored.of(y, p / p.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", [name for name in METRICS if name not in LOST])
def test_metrics_and_their_resamples_are_those_of_the_probabilities(name, scored):
    kept, metric = Kept.from_scored(scored), METRICS[name]
    assert value(metric, kept) == value(metric, scored) == metric.of(scored)
    counts = np.random.default_rng(0).multinomial(150, np.full(150, 1 / 150), size=5).astype(float)
    if name not in SLOW:
        for plain in (True, False):
            ours, theirs = (
                replicators([metric], view, plain=plain)[name](counts) for view in (kept, scored)
            )
            np.testing.assert_array_equal(ours, theirs)


def test_what_is_not_kept_is_refused_not_made_up(scored):
    with refused("metric-unknown"):
        require_kept(["ece15", "cwece15"])
    with refused("metric-unknown"):
        each(METRICS["ece15"], scored)
