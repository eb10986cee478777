"""Side-by-side comparison against plain loops, and what it refuses."""

import numpy as np
import pytest

import smallcal as sc
from simulated import simulate
from smallcal.metrics import METRICS


@pytest.fixture(scope="module")
def three():
    z, y = simulate(800, 8)
    probas = {
        name: sc.make(name).fit(z[:400], y[:400]).predict_proba(z[400:])
        for name in ("none", "tva-ts", "srts-bce")
    }
    return y[400:], probas


def test_values_and_differences_are_those_of_evaluate(three):
    y, probas = three
    result = sc.compare(y, probas, baseline="tva-ts")
    base = sc.evaluate(y, probas["tva-ts"])
    assert set(result.differences) == {"none", "srts-bce"}
    for name, p in probas.items():
        assert result.values[name] == sc.evaluate(y, p)
    for name, row in result.differences.items():
        for metric, difference in row.items():
            expected = result.values[name][metric] - base[metric]
            assert difference == pytest.approx(expected, nan_ok=True)
    assert result.intervals == {}
    assert (result.n, result.n_boot, result.baseline) == (400, 0, "tva-ts")


def test_intervals_equal_a_plain_loop_over_the_same_resamples(three):
    y, probas = three
    result = sc.compare(y, probas, baseline="none", metrics=["nll", "accuracy"], n_boot=50)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(400, np.full(400, 1 / 400), size=50)
    for name in ("tva-ts", "srts-bce"):
        differences = []
        for row in counts:
            again = np.repeat(np.arange(400), row)
            pair = [
                sc.evaluate(y[again], probas[method][again], metrics=["nll"])["nll"]
                for method in (name, "none")
            ]
            differences.append(pair[0] - pair[1])
        expected = np.quantile(differences, [0.025, 0.975])
        np.testing.assert_allclose(result.intervals[name]["nll"], expected, rtol=1e-9)
        assert result.intervals[name]["accuracy"] == (0.0, 0.0)  # the argmax never changes


def test_only_averages_over_samples_get_an_interval(three):
    y, probas = three
    result = sc.compare(y, probas, n_boot=20)
    means = {name for name, metric in METRICS.items() if metric.values is not None}
    assert set(result.intervals["srts-bce"]) == means
    nothing = sc.compare(y, probas, metrics=["ece15"], n_boot=20)
    assert nothing.intervals == {}


def test_resampling_in_batches_changes_nothing_but_the_memory(three, monkeypatch):
    y, probas = three
    whole = sc.compare(y, probas, n_boot=30, random_state=5)
    monkeypatch.setattr("smallcal.evaluation._BATCH", 1)
    single = sc.compare(y, probas, n_boot=30, random_state=5)
    for name, row in whole.intervals.items():
        for metric, pair in row.items():
            assert single.intervals[name][metric] == pytest.approx(pair, rel=1e-12)


def test_the_comparison_is_plain_data(three):
    import json

    y, probas = three
    result = sc.compare(y, probas, metrics=["nll", "ece15"], n_boot=20)
    again = json.loads(json.dumps(result.to_dict()))
    assert again["values"] == result.values
    assert again["intervals"]["tva-ts"]["nll"] == list(result.intervals["tva-ts"]["nll"])


def test_an_interval_covers_the_true_difference_about_as_often_as_it_says():
    """The population difference of two constant forecasts of a coin is known."""
    rng = np.random.default_rng(0)
    p, q, truth = 0.6, 0.7, 0.6
    expected = -(truth * np.log(q) + 0.4 * np.log(1 - q)) + (
        truth * np.log(p) + 0.4 * np.log(1 - p)
    )
    hits = 0
    for trial in range(200):
        y = (rng.random(150) >= truth).astype(int)
        probas = {"p": np.tile([p, 1 - p], (150, 1)), "q": np.tile([q, 1 - q], (150, 1))}
        result = sc.compare(y, probas, metrics=["nll"], n_boot=200, random_state=trial)
        low, high = result.intervals["q"]["nll"]
        hits += low <= expected <= high
    assert 180 <= hits <= 199


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": "x"}, "baseline 'x' is not among none, tva-ts, srts-bce"),
        ({"n_boot": -1}, "n_boot must not be negative; got -1"),
        ({"metrics": ["x"]}, "unknown metric 'x'; choose from accuracy"),
        ({"metrics": "nll"}, "metrics must be a list of names; got the string 'nll'"),
    ],
)
def test_bad_requests_are_refused(three, change, message):
    y, probas = three
    with pytest.raises(sc.InputError, match=message):
        sc.compare(y, probas, **change)


def test_nothing_to_compare_and_lengths_that_differ_are_refused(three):
    y, probas = three
    with pytest.raises(sc.InputError, match="y_probas is empty"):
        sc.compare(y, {})
    with pytest.raises(sc.InputError, match="one entry per row: 399 rows, 400"):
        sc.compare(y, {**probas, "short": probas["none"][:-1]})
