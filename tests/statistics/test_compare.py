"""Side-by-side comparison against plain loops, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

import smallcal as sc
from smallcal.metrics import METRICS, Scored
from smallcal.statistics.bootstrap import counts_of_draws, resample
from smallcal.statistics.noise import noise_floor
from support.refused import refused
from support.simulated import simulate


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
    result = sc.compare(y, probas, baseline="tva-ts", n_boot=0)
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
    quick = [name for name in METRICS if not METRICS[name].biased]
    result = sc.compare(y, probas, baseline="none", metrics=quick, n_boot=30)
    (counts,) = counts_of_draws(400, 30, np.random.default_rng(0))
    rows = [np.repeat(np.arange(400), row.astype(int)) for row in counts]
    looped = {
        name: [sc.evaluate(y[again], p[again], metrics=quick) for again in rows]
        for name, p in probas.items()
    }
    for name in ("tva-ts", "srts-bce"):
        for metric in quick:
            own, base = (np.array([row[metric] for row in looped[key]]) for key in (name, "none"))
            found = result.intervals[name][metric]
            drawn = result.drawn[name, metric].values
            np.testing.assert_allclose(drawn, own, atol=1e-12)
            np.testing.assert_allclose(result.drawn["none", metric].values, base, atol=1e-12)
            if not found.note:
                np.testing.assert_allclose(found.values, own - base, atol=1e-12)
                np.testing.assert_allclose(
                    tuple(found), np.quantile(own - base, [0.025, 0.975]), atol=1e-12
                )
        assert not result.intervals[name]["nll"].note
        assert result.intervals[name]["accuracy"].note == "no prediction differs"


def test_every_metric_has_an_interval_of_as_many_resamples_as_were_asked_for(three):
    y, probas = three
    result = sc.compare(y, probas, n_boot=210)
    assert set(result.intervals["srts-bce"]) == set(METRICS)
    for found in result.intervals["srts-bce"].values():
        assert found.n_boot == 210
    assert result.n_boot == 210
    assert sc.compare(y, probas, n_boot=0).intervals == {}


def test_evaluate_with_intervals_and_floors(three):
    y, probas = three
    names = ["accuracy", "ece15", "adaece15", "nll"]
    found = sc.evaluate(y, probas["none"], metrics=names, ci=True, n_boot=200)
    plain = sc.evaluate(y, probas["none"], metrics=names)
    for name, row in found.items():
        assert row.plain == plain[name]
        assert row.low <= row.point <= row.high
    assert found["ece15"].floor > 0
    assert found["nll"].floor is None
    assert found["ece15"].point < found["ece15"].plain  # without the noise
    assert found["nll"].point == found["nll"].plain
    again = json.loads(json.dumps(found["ece15"].to_dict()))
    assert again["floor"] == found["ece15"].floor
    assert "values" not in again


def test_a_verdict_never_calls_an_interval_with_zero_in_it_a_change(three):
    y, probas = three
    result = sc.compare(y, probas, baseline="tva-ts", metrics=["ece15", "nll", "accuracy"])
    for name, row in result.intervals.items():
        words = result.verdict(name)
        for metric, found in row.items():
            if not found.excludes_zero:
                assert f"lowers {metric}" not in words
                assert f"raises {metric}" not in words
                assert found.verdict(METRICS[metric].better) == "tie"
    assert "raises log-loss by" in result.verdict("none")
    wide = result.verdict("srts-bce", margin={"nll": 10.0})
    assert "log-loss equivalent within the margin" in wide
    with refused("no-interval", "'x'"):
        result.verdict("x")


def test_the_floor_is_the_mean_that_a_calibrated_model_shows(three):
    y, probas = three
    found = sc.evaluate(y, probas["none"], metrics=["ece15"], ci=True, n_boot=5, random_state=3)
    floor = noise_floor(probas["none"], metrics=["ece15"], random_state=3)["ece15"]
    assert found["ece15"].floor == floor.mean < floor.high


def test_another_seed_gives_other_resamples(three):
    y, probas = three
    drawn = [
        sc.compare(y, probas, metrics=["nll"], n_boot=20, random_state=seed).intervals
        for seed in (0, 0, 1)
    ]
    first, same, other = (row["tva-ts"]["nll"].values for row in drawn)
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()


def test_the_comparison_is_plain_data(three):
    y, probas = three
    result = sc.compare(y, probas, metrics=["nll", "ece15"], n_boot=20)
    again = json.loads(json.dumps(result.to_dict()))
    assert again["values"] == result.values
    low, high = result.intervals["tva-ts"]["nll"]
    assert (again["intervals"]["tva-ts"]["nll"]["low"], high) == (low, high)
    assert again["verdicts"]["tva-ts"] == result.verdict("tva-ts")


def test_a_metric_that_some_resamples_leave_undefined_is_counted():
    y, p = np.zeros(12, dtype=int), np.tile([0.8, 0.2], (12, 1))
    p[0] = [0.3, 0.7]  # one error: a third of the resamples miss it
    (view, metric) = Scored.of(y, p), METRICS["auroc"]
    drawn = resample({"": view}, [metric], n_boot=300)["", "auroc"]
    found = replace(drawn, wrong=np.inf, right=np.inf).interval(unit="test samples", level=0.95)
    assert 50 < found.n_undefined < 200
    assert f"undefined in {found.n_undefined} of them" in found.text()
    assert np.isfinite(found.low)
    never = sc.evaluate(y, np.tile([0.8, 0.2], (12, 1)), metrics=["auroc"], ci=True, n_boot=20)
    assert never["auroc"].n_undefined == 20
    assert "no interval: undefined in every resample" in never["auroc"].text()
    assert never["auroc"].to_dict()["low"] is None
    assert not never["auroc"].excludes_zero


@pytest.mark.slow
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
        ({"n_boot": -1}, "n_boot must be a whole number of at least 0; got -1"),
        ({"n_boot": 2.5}, "n_boot must be a whole number of at least 0; got 2.5"),
        ({"level": 1.0}, "level must lie between 0 and 1; got 1.0"),
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
    with refused("empty", "y_probas"):
        sc.compare(y, {})
    with refused("rows-differ", "399", "400"):
        sc.compare(y, {**probas, "short": probas["none"][:-1]})
