"""Resamples of calibration errors: what they are, by plain loops, and the intervals they give."""

import numpy as np
import pytest

import smallcal as sc
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.debiased import CUTS, estimate, summed_gaps, without_noise
from smallcal.metrics.replicas import replicators
from smallcal.statistics.bootstrap import Run, counts_of_draws, resample, seed_samples
from smallcal.statistics.draws import REPEATS, Draws
from support.simulated import simulate


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def views(n=200, seed=0):
    z, y = simulate(n, 5, seed=seed)
    return {name: Scored.of(y, softmax(z / t)) for name, t in (("raw", 1.0), ("cooler", 1.7))}


@pytest.mark.parametrize("name", CUTS)
def test_resamples_are_those_of_a_loop_over_rows_with_bins_and_noise_as_they_are(name):
    scored = views()["raw"]
    index = CUTS[name](scored.confidence, 15)
    _, noise = summed_gaps(scored, index)
    (counts,) = counts_of_draws(200, 20, np.random.default_rng(1))
    looped = []
    for row in counts:
        sums = np.zeros(15)
        for i in np.repeat(np.arange(200), row.astype(int)):
            sums[index[i]] += scored.residual[i] / 200
        looped.append(without_noise(sums, noise).sum())
    found = replicators([METRICS[name]], scored)[name](counts)
    np.testing.assert_allclose(found, looped, atol=1e-12)
    itself = replicators([METRICS[name]], scored)[name](np.ones((1, 200)))[0]
    assert itself == pytest.approx(estimate(name, scored), abs=1e-12)


@pytest.mark.parametrize("n_boot", [1, 7, 2 * REPEATS + 30])
def test_a_resample_of_a_resample_has_its_counts_and_the_deviations_of_another(n_boot):
    both = views()
    metrics = [METRICS[name] for name in (*CUTS, "nll")]
    drawn = resample(both, metrics, n_boot=n_boot, random_state=4)
    (counts,) = counts_of_draws(200, n_boot, np.random.default_rng(4))
    k = min(REPEATS, n_boot // 2)
    for (name, metric), draws in drawn.items():
        if metric == "nll":
            assert draws.again is None
            assert draws.around_point() is draws.values
            continue
        side = min(8, k // 2)
        assert draws.again.shape == (k + side**2, k)
        how = replicators([METRICS[metric]], both[name])[metric]
        for i in range(0, k, 17):
            again = how(counts[i] + counts[k : 2 * k] - 1)
            np.testing.assert_allclose(draws.again[i], again, atol=1e-12)
        for i, j in ((0, 0), (side - 1, side // 2)) if side else ():
            thrice = how(counts[i] + counts[side + j] + counts[k : 2 * k] - 2)
            np.testing.assert_allclose(draws.again[k + side * i + j], thrice, atol=1e-12)


def test_resamples_stand_around_the_estimate_and_noise_is_taken_off_their_spread():
    rng = np.random.default_rng(0)
    values, again = rng.normal(3, 1, 500), rng.normal(3, 1.1, (REPEATS + 64, REPEATS))
    draws = Draws(plain=0.5, point=0.2, shown=0.2, values=values, again=again)
    inner = values[REPEATS : 2 * REPEATS]
    second = again[:REPEATS].var(axis=1).mean() / inner.var()
    third = again[REPEATS:].var(axis=1).mean() / again[:16].var(axis=1).mean() * second
    ratio = 2.5 - 2 * second + 0.5 * third
    expected = 0.2 + 1.12 * np.sqrt(ratio) * (values - values.mean())
    np.testing.assert_allclose(draws.around_point(), expected)
    for far, bound in ((1.6, 0.35), (0.0, 2.5)):  # noise is not believed to do more
        wild = Draws(0.5, 0.2, 0.2, values, again * far).around_point()
        assert wild.std() == pytest.approx(1.12 * np.sqrt(bound) * values.std())
    found = draws.interval(unit="samples", level=0.9, least=0.0)
    assert (found.plain, found.point, found.low) == (0.5, 0.2, 0.0)
    assert found.high == pytest.approx(np.quantile(expected, 0.95))
    below = Draws(0.5, -9.0, 0.0, values, again).interval(unit="samples", level=0.9, least=0.0)
    assert (below.low, below.point, below.high) == (0.0, 0.0, 0.0)


def test_differences_are_taken_resample_by_resample():
    drawn = resample(views(), [METRICS["ece15"]], n_boot=150)
    one, other = drawn["raw", "ece15"], drawn["cooler", "ece15"]
    gap = one - other
    assert (gap.plain, gap.point) == (one.plain - other.plain, one.point - other.point)
    np.testing.assert_array_equal(gap.values, one.values - other.values)
    np.testing.assert_array_equal(gap.again, one.again - other.again)
    there, back = (d.interval(unit="", level=0.95) for d in (gap, other - one))
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    assert one.shown == min(max(one.point, 0.0), one.plain)
    nothing = (one - one).interval(unit="", level=0.95)
    assert (nothing.low, nothing.point, nothing.high) == (0.0, 0.0, 0.0)


def test_intervals_of_the_other_errors_hold_percentiles_and_their_mirror_image():
    y = views()["raw"].labels
    probas = {name: view.proba for name, view in views().items()}
    names = [name for name, row in METRICS.items() if row.biased and name not in CUTS]
    assert names == ["cwece15", "smece", "smece_exact"]
    result = sc.compare(y, probas, metrics=names, n_boot=60)
    for metric in names:
        for row in (result.value_intervals["raw"][metric], result.intervals["cooler"][metric]):
            low, high = np.quantile(row.values, [0.025, 0.975])
            mirrored = 2 * row.point - high, 2 * row.point - low
            assert row.high == pytest.approx(max(high, mirrored[1]))
            assert row.low <= min(low, max(mirrored[0], 0.0)) + 1e-12
            assert row.low <= row.point == row.plain <= row.high


@pytest.mark.parametrize("seed", range(5))
def test_every_estimate_lies_in_its_interval(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), size=150)
    y = (p.cumsum(axis=1) > rng.random((150, 1))).argmax(axis=1)  # calibrated: mostly noise
    names = [name for name, row in METRICS.items() if row.biased]
    flat = 0.5 * p + 0.125
    result = sc.compare(y, {"honest": p, "flat": flat}, metrics=names, n_boot=100)
    rows = [*result.value_intervals.values(), *result.intervals.values()]
    for row in (entry for table in rows for entry in table.values()):
        assert row.low <= row.point <= row.high
    groups = sc.evaluate(y, p, metrics=["ece15"], by=np.arange(150) % 2, n_boot=100)
    for row in groups.values():
        found = row["ece15"].interval
        assert found.low <= found.point <= found.high
    order = rng.permutation(150)
    again = sc.evaluate(y[order], p[order], metrics=["ece15"], ci=True, n_boot=100)["ece15"]
    here = result.value_intervals["honest"]["ece15"]
    assert again.point == pytest.approx(here.point, abs=1e-12)


def test_seeds_are_drawn_and_their_resamples_stand_around_their_estimates():
    data = []
    for seed in range(3):
        both = views(120, seed)
        data.append(Run(both["raw"].labels, {name: view.proba for name, view in both.items()}))
    found = seed_samples(data, baseline="raw", metrics=["ece15"], n_boot=400, random_state=4)
    row = found["cooler"]["ece15"]
    gaps = [
        [f(Scored.of(run.y_true, run.y_probas[name])) for name in ("cooler", "raw")]
        for f in (lambda view: estimate("ece15", view), METRICS["ece15"].of)
        for run in data
    ]
    points = [own - base for own, base in gaps]
    assert row.values.mean() == pytest.approx(np.mean(points[:3]), abs=3 * row.values.std() / 20)
    assert row.plain == pytest.approx(np.mean(points[3:]))
    assert row.low <= row.point <= row.high
