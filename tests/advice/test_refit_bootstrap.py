"""Refitting on resamples of the calibration split: against a plain loop over the same draws."""

import math

import numpy as np
import pytest

import smallcal as sc
from smallcal.advice.refit_bootstrap import refit_bootstrap, resample_counts
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.debiased import estimate
from smallcal.statistics.bootstrap import counts_of_draws
from support.simulated import simulate

NAMES = ["brier", "nll"]


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
@pytest.mark.parametrize("resample_test", [True, False])
@pytest.mark.parametrize("seed", [0, 5])
def test_every_number_is_that_of_a_plain_loop(seed, resample_test):
    (z, y), (z2, y2) = simulate(240, 5), simulate(240, 5, seed=1)  # as many rows in both
    found = refit_bootstrap(
        (z, y),
        (z2, y2),
        ["tva-ts", "margin-k3"],
        metrics=NAMES,
        n_boot=10,
        level=0.8,
        resample_test=resample_test,
        random_state=seed,
    )
    (draws,) = counts_of_draws(240, 10, np.random.default_rng(seed))
    tests = np.random.default_rng([seed, 1])  # a stream of its own: luck must not be shared
    values = {name: [] for name in ("tva-ts", "margin-k3")}
    for counts in draws:
        rows = np.flatnonzero(counts)
        picked = tests.integers(240, size=240) if resample_test else np.arange(240)
        for name, taken in values.items():
            options = {}
            if name == "margin-k3":
                options["min_group_size"] = math.ceil(50 * len(rows) / 240)
            cal = sc.make(name, **options).fit(z[rows], y[rows], sample_weight=counts[rows])
            p = cal.predict_proba(z2)[picked]
            taken.append(list(sc.evaluate(y2[picked], p, metrics=NAMES).values()))
    drawn = {name: np.array(taken) for name, taken in values.items()}
    points = {
        name: sc.evaluate(y2, sc.make(name).fit(z, y).predict_proba(z2), metrics=NAMES)
        for name in drawn
    }
    for i, metric in enumerate(NAMES):
        for name in drawn:
            row = found.values[name][metric]
            np.testing.assert_allclose(row.values, drawn[name][:, i], rtol=1e-9)
            assert row.point == pytest.approx(points[name][metric])
        row = found.differences["margin-k3"][metric]
        difference = drawn["margin-k3"][:, i] - drawn["tva-ts"][:, i]
        np.testing.assert_allclose(row.values, difference, atol=1e-12)
        assert row.point == pytest.approx(points["margin-k3"][metric] - points["tva-ts"][metric])
        assert tuple(row) == pytest.approx(tuple(np.quantile(difference, [0.1, 0.9])))


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_errors_in_bins_are_refitted_without_noise():
    (z, y), (z2, y2) = simulate(240, 5), simulate(240, 5, seed=1)
    found = refit_bootstrap((z, y), (z2, y2), ["none", "tva-ts"], metrics=["ece15"], n_boot=30)
    for row in (*found.values.values(), *found.differences.values()):
        ece = row["ece15"]
        assert ece.low <= ece.point <= ece.high
    scored = Scored.of(y2, sc.make("tva-ts").fit(z, y).predict_proba(z2))
    ece = found.values["tva-ts"]["ece15"]
    assert ece.plain == METRICS["ece15"].of(scored)
    assert ece.values.mean() == pytest.approx(estimate("ece15", scored))


def test_a_size_draws_that_many_rows_once():
    drawn = list(resample_counts(50, 6, size=20, random_state=3))
    assert [counts.sum() for counts in drawn] == [20] * 6
    assert {value for counts in drawn for value in counts} == {0.0, 1.0}
    assert len({tuple(counts) for counts in drawn}) == 6
    again = list(resample_counts(50, 6, size=20, random_state=4))
    assert (drawn[0] != again[0]).any()
