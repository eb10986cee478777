"""Metrics of resamples from counts, against plain loops over the same resampled rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smallcal.metrics import METRICS, Scored
from smallcal.metrics.debiased import CUTS
from smallcal.metrics.replicas import replicators
from support.simulated import simulate

#: Errors in bins are replicated without noise: tests/statistics/test_draws.py.
PLAIN = [name for name in METRICS if name not in CUTS]

#: What is not exact to rounding: thousands of times closer than resamples are to each other.
CLOSE = {"smece_exact": 2e-6}


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def hard_case():
    """Ties, saturated confidences and repeated rows, besides ordinary ones."""
    z, y = simulate(97, 6)
    p = softmax(z)
    p[:20] = p[20:40]
    p[5:8] = [1, 0, 0, 0, 0, 0]
    p[8] = 1 / 6
    return Scored.of(y, p)


def plain(metric, scored, counts):
    rows = (np.repeat(np.arange(scored.n), row.astype(int)) for row in counts)
    return np.array([metric.of(scored.take(row)) for row in rows])


@pytest.mark.parametrize("name", PLAIN)
def test_every_metric_equals_a_plain_loop(name):
    scored = hard_case()
    counts = np.random.default_rng(0).multinomial(97, np.full(97, 1 / 97), size=40).astype(float)
    got = replicators([METRICS[name]], scored)[name](counts)
    atol = CLOSE.get(name, 1e-12)
    np.testing.assert_allclose(got, plain(METRICS[name], scored, counts), atol=atol)


@pytest.mark.parametrize("name", PLAIN)
def test_a_resample_that_is_the_sample_gives_the_metric(name):
    scored = hard_case()
    got = replicators([METRICS[name]], scored)[name](np.ones((1, 97)))[0]
    assert got == pytest.approx(METRICS[name].of(scored), abs=CLOSE.get(name, 1e-12))


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_random_data_of_any_size_agree(seed):
    rng = np.random.default_rng(seed)
    n, n_classes = int(rng.integers(1, 30)), int(rng.integers(2, 5))
    p = np.round(rng.dirichlet(np.ones(n_classes), size=n), 1)  # rounding makes ties
    p[p.sum(axis=1) == 0] = 1
    p /= p.sum(axis=1, keepdims=True)
    scored = Scored.of(rng.integers(n_classes, size=n), p)
    counts = rng.multinomial(n, np.full(n, 1 / n), size=5).astype(float)
    for name, replicate in replicators([METRICS[name] for name in PLAIN], scored).items():
        expected, atol = plain(METRICS[name], scored, counts), CLOSE.get(name, 1e-12)
        np.testing.assert_allclose(replicate(counts), expected, atol=atol, err_msg=name)


def test_undefined_resamples_are_nan_not_an_error():
    scored = Scored.of([0, 0, 1], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    counts = np.array([[3.0, 0, 0], [0, 0, 3.0], [1, 1, 1]])
    auroc = replicators([METRICS["auroc"]], scored)["auroc"](counts)
    assert np.isnan(auroc[:2]).all()
    assert auroc[2] == 1.0
    hcfp = replicators([METRICS["hcfp90"]], scored)["hcfp90"](counts)
    assert np.isnan(hcfp[0])


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("n", [97, 11])  # of 15 bins, or of fewer samples than bins
def test_plain_errors_in_bins_equal_a_plain_loop_that_cuts_bins_anew(name, n):
    scored = hard_case().take(np.arange(n))
    # Equal confidences are cut apart in the order of the rows, here as in the loop.
    counts = np.random.default_rng(1).multinomial(n, np.full(n, 1 / n), size=40).astype(float)
    got = replicators([METRICS[name]], scored, plain=True)[name](counts)
    np.testing.assert_allclose(got, plain(METRICS[name], scored, counts), atol=1e-12)
