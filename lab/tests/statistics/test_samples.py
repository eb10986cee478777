"""The paper's bootstraps of test samples, against plain loops over the same resamples."""

import numpy as np
import pytest

from smallcal.errors import InputError
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.kept import Kept
from smallcal.statistics.bootstrap import counts_of_draws
from smallcal_lab.statistics.samples import (
    mean_over_units,
    pooled_samples,
    seeds_then_samples,
    together,
)
from support.simulated import simulate

NAMES = ("ece15", "adaece15", "nll", "eaurc")


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def unit(seed, n=90, *, views=1, labels=None):
    """Return two methods' predictions of one seed."""
    z, y = simulate(n, 4, seed=seed)
    y = y if labels is None else labels
    return {
        name: [Scored.of(y, softmax(z * scale * (1 + 0.2 * i))) for i in range(views)]
        for name, scale in (("raw", 1.0), ("scaled", 0.5))
    }


def metrics_of(views, rows):
    return np.mean([[METRICS[m].of(view.take(rows)) for m in NAMES] for view in views], axis=0)


def gap(own, rows):
    return metrics_of(own["scaled"], rows) - metrics_of(own["raw"], rows)


def rows_of(counts):
    return np.repeat(np.arange(len(counts)), counts.astype(int))


def check(found, points, values):
    for i, name in enumerate(NAMES):
        interval = found.interval("scaled", name, minus="raw")
        assert interval.point == pytest.approx(points[i], abs=1e-12)
        np.testing.assert_allclose(interval.values, values[:, i], atol=1e-12)
        low, high = np.quantile(values[:, i], [0.025, 0.975])
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)
        assert interval.p_below == (values[:, i] < 0).mean()


def test_seeds_then_samples_is_a_plain_loop():
    units = [unit(0), unit(1, 70), unit(2)]
    found = seeds_then_samples(units, NAMES, n_boot=25, random_state=4)
    rng = np.random.default_rng(4)
    slots = rng.integers(3, size=(25, 3))
    values = np.empty((25, 3, len(NAMES)))
    for seed, own in enumerate(units):
        places = np.argwhere(slots == seed)
        (counts,) = counts_of_draws(own["raw"][0].n, len(places), rng)
        for (b, slot), row in zip(places, counts, strict=True):
            values[b, slot] = gap(own, rows_of(row))
    points = np.mean([gap(own, np.arange(own["raw"][0].n)) for own in units], axis=0)
    check(found, points, values.mean(axis=1))
    assert found.unit == "seeds x samples"


def test_pooled_samples_are_one_heap_of_each_seeds_resamples():
    units = [unit(0), unit(1, 70)]
    found = pooled_samples(units, NAMES, n_boot=20, random_state=4)
    rng = np.random.default_rng(4)
    values = np.empty((20, 2, len(NAMES)))
    for seed, own in enumerate(units):
        (counts,) = counts_of_draws(own["raw"][0].n, 20, rng)
        values[:, seed] = [gap(own, rows_of(row)) for row in counts]
    points = np.mean([gap(own, np.arange(own["raw"][0].n)) for own in units], axis=0)
    check(found, points, values.reshape(-1, len(NAMES)))
    assert found.unit == "samples, pooled"
    assert pooled_samples(units[:1], ["nll"], n_boot=5).unit == "samples"


def test_seeds_tested_on_the_same_samples_are_resampled_together():
    labels = simulate(90, 4, seed=0)[1]
    units = [unit(seed, views=2, labels=labels) for seed in range(3)]
    (one,) = together(units)
    assert len(one["raw"]) == 6
    found = mean_over_units([one], NAMES, n_boot=20, random_state=4)
    (counts,) = counts_of_draws(90, 20, np.random.default_rng(4))
    values = np.array([gap(one, rows_of(row)) for row in counts])
    check(found, gap(one, np.arange(90)), values)
    # Others are not, and their mean is less certain than one of them.
    apart = [unit(seed) for seed in range(3)]
    assert len(together(apart)) == 3
    wide, narrow = (
        mean_over_units(some, ["nll"], n_boot=2000).interval("raw", "nll")
        for some in (apart[:1], apart)
    )
    assert narrow.high - narrow.low < 0.75 * (wide.high - wide.low)


def test_bad_input_is_one_clear_line():
    with pytest.raises(InputError, match="no predictions were given"):
        pooled_samples([], ["nll"])
    with pytest.raises(InputError, match="every seed must have the same methods"):
        pooled_samples([unit(0), {"raw": unit(1)["raw"]}], ["nll"])
    kept = [{name: [Kept.from_scored(v) for v in own] for name, own in unit(0).items()}]
    with pytest.raises(InputError, match="cwece15 needs the probabilities of all classes"):
        pooled_samples(kept, ["cwece15"])
