"""Plans: what is measured equals a plain loop, predictions come true where the truth is known."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import norm

import smallcal as sc
from smallcal.advice.plan import _search, count_steps, plan_sizes
from smallcal.advice.plan_fits import (
    SizeFits,
    _common_shift,
    draw_rows,
    fit_at_size,
    sizes_to_fit,
    uncalibrated,
)
from smallcal.advice.plan_forecast import (
    PRIOR_SCALE,
    RAW_SCALE,
    SCENARIOS,
    WIDER,
    Forecast,
    MetricForecast,
    continued,
    fit_curve,
    systematic_gaps,
)
from smallcal.advice.plan_words import Target, _target
from smallcal.data.predictions import Predictions
from support import real
from support.cases import true_name
from support.refused import refused
from support.simulated import simulate

BINS = 15


def quiet(name, z, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return sc.make(name).fit(z, y)


def losses(y, p):
    """Top-label BCE of each row, written out."""
    top = p.max(axis=1)
    right = p.argmax(axis=1) == y
    others = np.array([row.sum() - row.max() for row in p])
    return -np.log(np.maximum(np.where(right, top, others), 1e-12)), top, right


def numbers(value):
    """Every number in a nest of dicts and lists."""
    if isinstance(value, dict):
        return [x for entry in value.values() for x in numbers(entry)]
    if isinstance(value, list | tuple):
        return [x for entry in value for x in numbers(entry)]
    return [value] if isinstance(value, int | float) else []


# --- the curve -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_the_curve_is_the_one_that_nnls_fits(seed):
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.uniform(20, 2000, size=6))
    # Rising, falling and steep curves, so that each bound binds in some.
    truth = rng.choice([0.0, 0.4]) + rng.choice([-3.0, 0.0, 30.0]) / sizes
    values = np.maximum(truth + rng.normal(0, 0.05, size=(4, 6)), 0)
    weight = rng.uniform(0.1, 10, size=6)
    level, slope = fit_curve(sizes, values, weight)
    design = np.column_stack([np.ones(6), -np.ones(6), 1 / sizes]) * np.sqrt(weight)[:, None]
    for row in range(4):
        up, down, expected = nnls(design, (values[row] - 0.2) * np.sqrt(weight))[0]
        np.testing.assert_allclose(slope[row], expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(level[row] - 0.2, up - down, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_beyond_the_last_size_a_curve_never_rises(seed):
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.uniform(20, 2000, size=6))
    values = rng.normal(size=(50, 6))
    for factor in (1.0, 1.25, 100.0, math.inf):
        found = continued(sizes, values, np.ones(6), factor * sizes[-1])
        assert (found <= values[:, -1] + 1e-12).all()


# --- what is measured ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tva-ts", "srts-bce", "vector-scaling"])
def test_measured_rows_equal_a_plain_loop(method):
    z, y = simulate(200, 6, seed=3)
    found = sc.plan(z, y, method=method, sizes=[60, 150], draws=6)
    for size in (60, 150):
        row = found.row(size)
        assert row.measured
        each = [[] for _ in y]
        raw, _, _ = losses(y, quiet("none", z, y).predict_proba(z))
        for draw in range(6):
            rows, left = draw_rows(200, size, draw, seed=0)
            assert len(rows) == size
            assert not set(rows) & set(left)
            loss, _, _ = losses(y[left], quiet(method, z[rows], y[rows]).predict_proba(z[left]))
            for i, value in zip(left, loss, strict=True):
                each[i].append(value - raw[i])
        # What fits change on rows they did not see, added to the uncalibrated model on all rows.
        expected = raw.mean() + np.mean([np.mean(entry) for entry in each if entry])
        assert row.metrics["top_label_bce"].value == pytest.approx(expected, rel=1e-9)


def test_the_raw_model_is_measured_on_all_rows():
    z, y = simulate(200, 6, seed=3)
    found = sc.plan(z, y, method="tva-ts", sizes=[60], draws=5)
    p = quiet("none", z, y).predict_proba(z)
    raw = found.row(0, "none")
    expected = sc.evaluate(y, p, metrics=["top_label_bce"])["top_label_bce"]
    assert raw.metrics["top_label_bce"].value == pytest.approx(expected, rel=1e-12)
    assert raw.metrics["top_label_bce"].spread == raw.metrics["ece15"].spread == 0


def test_every_seed_size_and_draw_has_rows_of_its_own():
    drawn = [
        draw_rows(200, size, draw, seed=seed)
        for seed in (0, 1)
        for size in (60, 61)
        for draw in range(4)
    ]
    for rows, left in drawn:
        np.testing.assert_array_equal(np.sort([*rows, *left]), np.arange(200))
    assert len({tuple(rows[:50]) for rows, _ in drawn}) == len(drawn)
    # Each row is in a draw as often as any other: 60 times of 200, give or take.
    times = sum(np.bincount(draw_rows(200, 60, i, seed=3)[0], minlength=200) for i in range(400))
    assert abs(times - 120).max() < 5 * np.sqrt(400 * 0.3 * 0.7)


def test_fits_of_one_size_are_what_its_loops_say():
    z, y = simulate(150, 5, seed=4)
    size, draws = 90, 8
    found = fit_at_size(Predictions.of(z, y), "tva-ts", size, draws=draws, seed=0)
    fits = []
    for draw in range(draws):
        rows, left = draw_rows(150, size, draw, seed=0)
        loss, top, right = losses(y[left], quiet("tva-ts", z[rows], y[rows]).predict_proba(z[left]))
        fits.append({i: (t, t - r, v) for i, t, r, v in zip(left, top, right, loss, strict=True)})
    held = {i: [fit[i] for fit in fits if i in fit] for i in range(150)}
    mean = {i: np.mean(entry, axis=0) for i, entry in held.items() if entry}
    gap = [[] for _ in range(BINS)]
    for top, residual, _ in mean.values():
        gap[min(int(top * BINS), BINS - 1)].append(residual)
    for b in range(BINS):
        assert found.share[b] == pytest.approx(len(gap[b]) / len(mean))
        assert found.gap[b] == pytest.approx(np.mean(gap[b]) if gap[b] else 0)
    lifts, shifts = [], []
    for draw, fit in enumerate(fits):
        shift = [[] for _ in range(BINS)]
        lift = []
        for i, (top, residual, loss) in fit.items():
            k = len(held[i])
            fair = math.sqrt(k / (k - 1)) if k > 1 else 0
            shift[min(int(top * BINS), BINS - 1)].append((residual - mean[i][1]) * fair)
            lift.append((loss - mean[i][2]) * fair)
        lifts.append(np.mean(lift))
        shifts.append(shift)
        for b in range(BINS):
            assert found.weight[draw, b] == pytest.approx(len(shift[b]) / len(fit))
    assert found.draw_sd == pytest.approx(np.std(lifts, ddof=1) / (1 + size / 150))
    # What rows of a bin differ by within a draw is taken off: one-way analysis of variance.
    for b in range(BINS):
        parts = {draw: shift[b] for draw, shift in enumerate(shifts) if shift[b]}
        mean = np.mean([x for part in parts.values() for x in part]) if parts else 0
        between = sum(len(part) * (np.mean(part) - mean) ** 2 for part in parts.values())
        inside = sum(len(part) * np.var(part) for part in parts.values())
        free = sum(len(part) - 1 for part in parts.values())
        chance = (len(parts) - 1) * inside / max(free, 1)
        left = math.sqrt(max(0, 1 - chance / between)) if between else 0
        for draw in range(draws):
            own = mean + left * (np.mean(parts[draw]) - mean) if draw in parts else 0
            expected = own / math.sqrt(1 - size / 150)
            assert found.shift[draw, b] == pytest.approx(expected, abs=1e-12)


def test_rows_that_differ_do_not_look_like_draws_that_differ():
    """Draws shift all rows by 0.02, rows differ by 0.1 beside: a mean of five shows 0.049."""
    rng = np.random.default_rng(0)
    shifts = rng.normal(0, 0.02, size=(4000, 1)) + rng.normal(0, 0.1, size=(4000, 5))
    count, total = np.full((4000, 1), 5.0), shifts.sum(axis=1)[:, None]
    assert (total / 5).std() == pytest.approx(np.sqrt(0.02**2 + 0.1**2 / 5), rel=0.05)
    found = _common_shift(count, total, (shifts**2).sum(axis=1)[:, None])
    assert found.std() == pytest.approx(0.02, rel=0.15)
    alike = rng.normal(0, 0.1, size=(4000, 5))
    found = _common_shift(count, alike.sum(axis=1)[:, None], (alike**2).sum(axis=1)[:, None])
    assert found.std() < 0.01


# --- systematic gaps -----------------------------------------------------------------------------


def fits_with(gap, noise, share=None, size=50):
    gap, noise = np.array(gap, float), np.array(noise, float)
    share = np.full(len(gap), 1 / len(gap)) if share is None else np.array(share)
    zeros = np.zeros((1, len(gap)))
    return SizeFits(
        size=size,
        n=100,
        loss=np.full(100, 0.5),
        draw_sd=0.0,
        gap=gap,
        noise=noise,
        share=share,
        shift=zeros,
        weight=share[None],
    )


@pytest.mark.parametrize("size", [50, 0])
def test_lasting_gaps_have_the_moments_that_a_fine_grid_gives(size):
    """Gaps of the uncalibrated model (size 0) have a mean of their own; of a method, mean 0."""
    gap, noise = np.array([0.06, -0.01, 0.05]), np.array([0.03, 0.02, 0.05]) ** 2
    fits = fits_with(gap, noise, size=size)
    drawn = np.concatenate([systematic_gaps(fits, np.random.default_rng(s)) for s in range(150)])
    tau = np.linspace(1e-4, 0.5, 2000)[:, None, None]
    mu = np.linspace(-1, 1, 1001)[:, None] if size == 0 else np.zeros((1, 1))
    scale = RAW_SCALE if size == 0 else PRIOR_SCALE
    seen = norm.pdf(gap, mu, np.sqrt(tau**2 + noise)).prod(axis=2, keepdims=True)
    chance = seen / (1 + (tau / scale) ** 2)
    chance /= chance.sum()
    trust = tau**2 / (tau**2 + noise)
    mean = mu + trust * (gap - mu)
    first = (chance * mean).sum(axis=(0, 1))
    second = (chance * (mean**2 + trust * noise)).sum(axis=(0, 1))
    np.testing.assert_allclose(drawn.mean(axis=0), first, atol=0.001)
    np.testing.assert_allclose((drawn**2).mean(axis=0), second, rtol=0.04)


def test_many_rows_leave_the_gaps_as_they_are_and_few_rows_shrink_them():
    gap = np.array([0.1, -0.2, 0.15])
    sure = systematic_gaps(fits_with(gap, [1e-8] * 3), np.random.default_rng(0))
    np.testing.assert_allclose(sure.mean(axis=0), gap, atol=1e-3)
    vague = systematic_gaps(fits_with(gap / 10, [0.01] * 3), np.random.default_rng(0))
    assert (np.abs(vague.mean(axis=0)) < np.abs(gap) / 20).all()


def test_an_empty_bin_is_known_by_the_others_alone():
    fits = fits_with([0.1, -0.1, 0], [1e-6] * 3, [0.5, 0.5, 0])
    drawn = systematic_gaps(fits, np.random.default_rng(0))
    assert drawn.shape == (SCENARIOS, 3)
    assert abs(drawn[:, 2].mean()) < 0.03
    assert 0.05 < drawn[:, 2].std() < 0.4


# --- known truth ---------------------------------------------------------------------------------


def population_bce(temperatures, z, true_p):
    """Expected top-label BCE at each temperature, labels never drawn."""
    top = z.argmax(axis=1)
    chance = true_p[np.arange(len(z)), top]
    found = []
    for t in temperatures:
        p = np.exp((z - z.max(axis=1, keepdims=True)) / t)
        p /= p.sum(axis=1, keepdims=True)
        c = p.max(axis=1)
        found.append(-(chance * np.log(c) + (1 - chance) * np.log1p(-c)).mean())
    return np.array(found)


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def truth():
    """Population TopBCE of tva-ts over independent draws, by size; true temperature 1.6."""
    z, _ = simulate(20_000, 8, seed=99)
    true_p = softmax(z / 1.6)

    def at(size, draws=60):
        fitted = [quiet("tva-ts", *simulate(size, 8, seed=[5, size, d])) for d in range(draws)]
        values = population_bce([cal.temperatures_[0] for cal in fitted], z, true_p)
        return values.mean(), values.std(ddof=1)

    return at


@pytest.mark.slow
def test_predicted_top_label_bce_holds_the_truth_at_four_times_the_pilot(truth):
    mean, _ = truth(1200)
    inside, errors = 0, []
    for seed in range(20):
        found = sc.plan(*simulate(300, 8, seed=seed), method="tva-ts", sizes=[1200])
        row = found.row(1200).metrics["top_label_bce"]
        assert not found.row(1200).measured
        inside += row.low <= mean <= row.high
        errors.append(row.value - mean)
    assert inside >= 5
    # The pilot's level is uncertain by 0.5 / sqrt(300); six of them by less.
    assert abs(np.mean(errors)) < 0.04


def test_predicted_spreads_are_those_of_independent_draws(truth):
    """Draws of half a pilot overlap, and are measured on the other half: both are allowed for."""
    _, spread = truth(150)
    found = [
        fit_at_size(
            Predictions.of(*simulate(300, 8, seed=[7, seed])), "tva-ts", 150, draws=20, seed=0
        )
        for seed in range(12)
    ]
    draw_sd = np.sqrt(np.mean([fits.draw_sd**2 for fits in found]))
    assert draw_sd == pytest.approx(spread, rel=0.4)


def test_predicted_ece_is_that_of_independent_draws_and_falls():
    """The method is right here, so nothing lasts: ECE is the luck of the draw and the noise."""
    big, labels = simulate(6000, 8, seed=[8, 1])
    shown = {}
    for size in (150, 1200):
        fitted = [quiet("tva-ts", *simulate(size, 8, seed=[9, size, d])) for d in range(40)]
        values = [
            sc.evaluate(labels, cal.predict_proba(big), metrics=["ece15"])["ece15"]
            for cal in fitted
        ]
        shown[size] = np.mean(values), np.std(values, ddof=1)
    plans = [
        sc.plan(
            *simulate(300, 8, seed=[10, seed]), method="tva-ts", sizes=[150, 1200], test_size=6000
        )
        for seed in range(6)
    ]
    for size, (mean, spread) in shown.items():
        rows = [found.row(size).metrics["ece15"] for found in plans]
        assert np.mean([row.value for row in rows]) == pytest.approx(mean, abs=0.006)
        assert np.mean([row.spread for row in rows]) == pytest.approx(spread, rel=0.5)
        assert sum(row.low <= mean <= row.high for row in rows) >= 4
    for found in plans:
        values = [row.metrics["ece15"].value for row in found.rows]
        assert values[-1] < values[0]
        assert found.more["ece15"].point < 0


def forecast_of(*curve, test_size=1000):
    return Forecast(list(curve), test_size=test_size, seed=0)


@pytest.mark.parametrize("test_size", [100, 400])
def test_the_chance_of_a_pilot_and_of_a_test_set_are_two_and_add_up(test_size):
    """A mean over n rows has the variance s² / n; an independent one over m rows adds s² / m."""
    loss = np.random.default_rng(0).exponential(size=100)
    fits = replace(fits_with([0.0], [0.01]), loss=loss)
    found = forecast_of(fits, replace(fits, size=80), test_size=test_size).of("top_label_bce", 50)
    expected = loss.std() * np.sqrt(WIDER**2 / 100 + 1 / test_size)
    assert found.point == pytest.approx(loss.mean())
    assert found.values.std() == pytest.approx(expected, rel=0.12)


def test_what_a_draw_adds_falls_with_the_root_of_its_size():
    """No lasting gap, no noise: a draw of four times the size is off by half as much."""
    fits = replace(fits_with([0.0], [1e-12]), shift=np.array([[0.08], [-0.04]]))
    fits = replace(fits, weight=np.ones((2, 1)))
    found = forecast_of(fits, replace(fits, size=100, shift=fits.shift / np.sqrt(2)))
    for size in (200, 800):
        metric = found.of("debiased_ece15", size)
        assert metric.point == pytest.approx(0.06 * np.sqrt(50 / size), rel=0.02)
        assert metric.spread == pytest.approx(0.02 * np.sqrt(50 / size), rel=0.25)


@pytest.mark.parametrize("size", [50, 80])
def test_draws_that_share_rows_leave_a_band_as_wide_as_the_luck_of_few(size):
    """A hundred draws of 80 rows of 100 are hardly more than one: their mean is not known."""
    rng = np.random.default_rng(0)
    shift = np.abs(rng.normal(0.1, 0.02, size=(100, 1)))
    fits = replace(fits_with([0.0], [1e-12], size=size), shift=shift, weight=np.ones((100, 1)))
    found = forecast_of(fits, replace(fits, size=size + 1)).of("debiased_ece15", size)
    share = size / 100
    expected = WIDER * shift.std(ddof=1) * math.sqrt(share + (1 - share) / 100)
    assert found.point == pytest.approx(shift.mean(), rel=0.02)
    assert found.values.std() == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("level", "factor"), [(0.5, 4**0.25), (0.9, 4**0.45)])
def test_a_targets_band_leaves_out_half_of_the_rest_at_each_end(level, factor):
    """Worlds in which a loss is a / size, a from 50 to 200; sizes are rounded up to two digits."""

    class Worlds:
        curve = (fits_with([0.0], [0.01]),)

        def of(self, metric, size):
            return MetricForecast(100 / size, np.geomspace(50, 200, 401) / size, 0.0)

    found = _search(Worlds(), "top_label_bce", 0.102, level)
    assert found.size == pytest.approx(1000 / 1.02, rel=0.08)
    assert found.low == pytest.approx(1000 / 1.02 / factor, rel=0.08)
    assert found.high == pytest.approx(1000 / 1.02 * factor, rel=0.08)


class Falling:
    """A loss that falls to 3 points, at a pace, and then does not; four draws tell it to 0.02."""

    curve = (replace(fits_with([0.0], [0.01]), shift=np.zeros((4, 1))),)

    def __init__(self, pace):
        self.pace = pace

    def of(self, metric, size):
        point = 0.03 + self.pace * math.log(1000 / min(size, 1000)) - 0.0001 * (size > 1000)
        return MetricForecast(point, np.full(20, point), 0.0004)


def test_a_hair_does_not_move_the_answer_where_the_curve_is_flat():
    """By itself the size would jump: what is told is where the curve may pass the target."""
    above, below = (_search(Falling(1e-4), "ece15", 0.03 + hair, 0.9) for hair in (1e-6, 1.5e-4))
    assert above.size > 4 * below.size
    assert above.flat
    assert below.flat
    # Each end lies where the curve, moved by two hundredths of a point, comes to stay below.
    assert above.earliest == pytest.approx(1000 * math.exp(-2), rel=0.1)
    assert above.latest is None
    assert (below.earliest, below.latest) == (50, pytest.approx(1000, rel=0.2))
    steep = _search(Falling(0.02), "ece15", 0.04, 0.9)
    assert not steep.flat
    assert steep.earliest <= steep.size <= steep.latest


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((400, 1200), "between about 400 and 1,200 samples, the curve is flat there (160 or more)"),
        ((400, None), "between about 400 and far more samples, the curve is flat there"),
        ((400, 790), "about 600 samples (160 or more)"),
        ((None, None), "about 600 samples (160 or more)"),
    ],
)
def test_a_flat_curve_is_told_as_a_range(ends, said):
    z, y = simulate(100, 4)
    found = sc.plan(z, y, method="tva-ts", sizes=[50], draws=5)
    target = Target("ece15", 0.03, 600, 160, None, 0.02, *ends)
    assert said in _target(found, target)
    easy = replace(target, size=50)
    assert "at most 50 samples" in _target(found, easy)


# --- shape, options, words -----------------------------------------------------------------------


@given(st.integers(50, 20_000), st.lists(st.integers(10, 50_000), max_size=5))
def test_a_ladder_leaves_rows_to_measure_on(n, wanted):
    steps = sizes_to_fit(n, wanted)
    assert steps == sorted(set(steps))
    assert len(steps) >= 2
    assert steps[0] >= 10
    assert steps[-1] <= 0.8 * n
    assert set(steps) >= {size for size in wanted if size <= int(0.8 * n)}
    sizes = plan_sizes(n, wanted or None)
    assert n in sizes
    assert set(wanted) <= set(sizes)


@pytest.fixture(scope="module")
def small():
    return sc.plan(*simulate(300, 6), method="default", draws=8)


def test_a_plan_names_the_true_method_and_all_sizes(small):
    assert small.method == true_name("default")
    assert [row.size for row in small.rows] == [50, 100, 200, 300, 500, 1000]
    assert [row.measured for row in small.rows] == [True] * 3 + [False] * 3
    assert {row.method for row in small.references} == {"none", "tva-ts"}
    for row in (*small.rows, *small.references):
        shown, true = row.metrics["ece15"], row.metrics["debiased_ece15"]
        assert true.value < shown.value
        for entry in row.metrics.values():
            assert entry.low <= entry.value <= entry.high
            assert entry.spread >= 0
    assert all(math.isfinite(x) for x in numbers(json.loads(json.dumps(small.to_dict()))))
    with refused("unknown-choice", "77"):
        small.row(77, "tva-ts")


def test_the_same_seed_gives_the_same_plan():
    z, y = simulate(150, 4)
    first = sc.plan(z, y, method="srts-bce", draws=5, sizes=[100])
    again = sc.plan(z, y, method="srts-bce", draws=5, sizes=[100])
    assert first.to_dict() == again.to_dict()
    other = sc.plan(z, y, method="srts-bce", draws=5, sizes=[100], random_state=1)
    assert other.to_dict() != first.to_dict()


def test_gains_are_paired_with_the_raw_model():
    z, y = simulate(400, 6)
    found = sc.plan(z, y, method="tva-ts", draws=8, sizes=[200])
    row, raw = found.row(200), found.row(0, "none")
    for metric, gain in row.gains.items():
        value = row.metrics[metric].value - raw.metrics[metric].value
        # Of ECE on the rows that were left out, not on all.
        assert gain.point == pytest.approx(value, abs=1e-9 if metric == "top_label_bce" else 0.005)
    preds = Predictions.of(z, y)
    rows = fit_at_size(preds, "tva-ts", 200, draws=8, seed=0).loss - uncalibrated(preds).loss
    # Rows of the pilot and rows of the test set both vary; the draws hardly add to it.
    width = 2 * norm.ppf(0.95) * np.nanstd(rows) * math.sqrt(WIDER**2 / 400 + 1 / 5000)
    gain = row.gains["top_label_bce"]
    assert gain.high - gain.low == pytest.approx(width, rel=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_forecasts_never_rise_above_the_last_size_measured(seed):
    z, y = simulate(250, 6, seed=[20, seed])
    found = sc.plan(z, y, draws=5, sizes=[100, 200, 220, 1000, 5000])
    values = [row.metrics["top_label_bce"].value for row in found.rows if row.size >= 200]
    assert values == sorted(values, reverse=True)


def test_a_larger_test_set_shows_less_noise():
    z, y = simulate(200, 6)
    shown = [
        sc.plan(z, y, method="tva-ts", draws=5, sizes=[100], test_size=m).row(100).metrics["ece15"]
        for m in (100, 1000, 100_000)
    ]
    values = [entry.value for entry in shown]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[2] + 0.02


def test_the_progress_is_told_as_often_as_promised():
    z, y = simulate(200, 6)
    for method in ("srts-bce", "tva-ts"):
        told = []
        sc.plan(z, y, method=method, draws=5, advance=told.append)
        assert sum(told) == count_steps(200, None, method)


def test_probabilities_give_the_plan_of_their_logarithms():
    z, y = simulate(120, 4)
    p = softmax(z)
    options = {"method": "tva-ts", "draws": 5, "sizes": [60]}
    first = sc.plan(p, y, input="probabilities", **options)
    second = sc.plan(np.log(p), y, **options)
    np.testing.assert_allclose(numbers(first.to_dict()), numbers(second.to_dict()), rtol=1e-9)


def test_targets_lie_on_the_curve():
    z, y = simulate(300, 8)
    preds = Predictions.of(z, y)
    curve = [
        fit_at_size(preds, "tva-ts", size, draws=10, seed=0) for size in sizes_to_fit(300, [100])
    ]
    forecast = Forecast(curve, test_size=5000, seed=0)
    aim = forecast.of("ece15", 700).point
    (found,) = sc.plan(z, y, method="tva-ts", sizes=[100], draws=10, target={"ece15": aim}).targets
    assert found.size == pytest.approx(700, rel=0.05)
    assert found.low <= found.size
    assert found.high is None or found.high >= found.size
    assert found.floor < aim


def test_targets_out_of_reach_and_within_easy_reach_are_said_to_be():
    z, y = simulate(300, 8)
    found = sc.plan(
        z,
        y,
        method="tva-ts",
        draws=5,
        target={"ece15": 0.001, "debiased_ece15": 0.5, "top_label_bce": 0.01},
    )
    hard, easy, never = found.targets
    assert hard.size is never.size is None
    assert hard.floor > 0.001
    assert easy.size == 50
    text = " ".join(found.sentences)
    assert "ECE of 0.10 % on 5,000 test rows: not expected with tva-ts" in text
    assert "debiased ECE of 50.00 %: at most 50 samples" in text
    assert "top-label log-loss of 1.00 x100: not expected" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"method": "none"}, "none fits nothing"),
        ({"method": "features-k3"}, "needs features and cannot be planned"),
        ({"method": "oracle-risk"}, "needs labels and cannot be planned"),
        ({"sizes": [4]}, "each size must be a whole number of at least 5; got 4"),
        ({"sizes": [100.5]}, "each size must be a whole number"),
        ({"sizes": []}, "sizes names none"),
        ({"draws": 2}, "draws must be a whole number of at least 5"),
        ({"test_size": 0}, "test_size must be a whole number"),
        ({"level": 1.5}, "level must lie between 0 and 1"),
        ({"target": {"auroc": 0.9}}, "no target for 'auroc'"),
        ({"target": {"ece15": 2.0}}, "a fraction: write 0.02 for 2 %"),
        ({"target": {"ece15": -1.0}}, "must be a number above 0"),
        ({"target": {"ece15": math.nan}}, "must be a number above 0"),
        ({"input": "odds"}, "input must be one of"),
    ],
)
def test_bad_options_are_told_before_any_fit(options, message):
    z, y = simulate(100, 4)
    with pytest.raises(sc.InputError, match=message):
        sc.plan(z, y, advance=lambda fits: pytest.fail("a fit was made"), **options)


def one_wrong(z, y):
    answers = z.argmax(axis=1)
    answers[7] = (answers[7] + 1) % z.shape[1]
    return z, answers


#: Odd pilots, made of an ordinary one, and what is noted about them.
KINDS = {
    "all right": (lambda z, y: (z, z.argmax(axis=1)), "no prediction of the pilot is wrong"),
    "all wrong": (lambda z, y: (z, z.argmin(axis=1)), "no prediction of the pilot is right"),
    "one wrong": (one_wrong, "only 1 prediction of the pilot is wrong"),
    "two classes": (lambda z, y: simulate(120, 2, seed=1), ""),
    "many classes": (lambda z, y: simulate(100, 1000, seed=1, signal=12.0), ""),
    "missing class": (lambda z, y: (z[y != 2], y[y != 2]), ""),
    "sure of everything": (lambda z, y: (1000 * z, y), ""),
    "small": (lambda z, y: (z[:50], y[:50]), "a pilot of 50 samples says little"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_odd_pilots_give_numbers_and_sensible_words(kind):
    change, note = KINDS[kind]
    z, y = change(*simulate(120, 5, seed=1))
    found = sc.plan(z, y, draws=5, target={"ece15": 0.02})
    # A target that may never be reached has no size; everything else is a number.
    assert all(math.isfinite(x) for x in numbers(found.to_dict()))
    assert all("nan" not in sentence and "inf" not in sentence for sentence in found.sentences)
    assert note in " ".join(found.notes)


def test_a_pilot_that_is_too_small_is_refused_in_words():
    z, y = simulate(20, 4)
    with refused("too-few-samples", "50", "20"):
        sc.plan(z, y)


def test_constant_logits_are_refused():
    with refused("logits-constant"):
        sc.plan(np.zeros((100, 3)), np.arange(100) % 3)


def test_a_calibrated_model_is_said_to_gain_nothing():
    z, y = simulate(400, 6, temperature=1.0, seed=5)
    found = sc.plan(z, y, method="tva-ts", draws=10)
    assert "The gain of calibration cannot be measured" in found.sentences[1]
    assert not any("tva-ts)" in sentence for sentence in found.sentences)  # not against itself


def test_a_miscalibrated_model_is_said_to_gain():
    z, y = simulate(400, 6, temperature=3.0, seed=5)
    found = sc.plan(z, y, method="srts-bce", draws=10, sizes=[100, 5000])
    assert "Calibration helps" in found.sentences[1]
    assert found.sentences[0].startswith("With all 400 samples srts-bce is expected to show ECE ")
    assert "5,000 would give" in found.sentences[0]
    assert "4,600 more would lower ECE by" in found.sentences[3]
    assert "5,000 samples are more than ten times the pilot" in found.notes[0]


def test_the_raw_ece_is_predicted_with_little_shrinkage():
    """Small gaps that all point one way are no noise; the mean over pilots must not miss them."""
    z, y = simulate(20_000, 8, temperature=1.8, seed=[11, 0])
    p = quiet("none", z, y).predict_proba(z)
    truth = sc.evaluate(y, p, metrics=["ece15"])["ece15"]
    found = []
    for seed in range(30):
        fits = uncalibrated(Predictions.of(*simulate(300, 8, temperature=1.8, seed=[11, 1, seed])))
        found.append(Forecast([fits], test_size=20_000, seed=0).of("ece15", 0))
    # Bins of 20 rows are drawn towards their mean: 15.2 points come out as 13.7.
    assert np.mean([entry.point for entry in found]) == pytest.approx(truth, abs=0.02)
    bands = [np.quantile(entry.values, [0.05, 0.95]) for entry in found]
    assert sum(low <= truth <= high for low, high in bands) >= 24


def test_the_raw_model_has_one_size():
    fits = uncalibrated(Predictions.of(*simulate(100, 4)))
    assert (fits.size, fits.draw_sd) == (0, 0.0)
    assert not fits.shift.any()
    assert not np.isnan(fits.loss).any()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    real.there(
        "cifar100__ce-resnet20", "cifar10__akamaster-resnet56", "banking77__tfidf-mlp-seed0"
    )[1:],
)
def test_plans_of_real_logits_come_true(name):
    """Pilots of 500 rows; the truth is measured on half of all rows."""
    real_cell = real.cell(name)
    z = np.concatenate([real_cell["val_logits"], real_cell["test_logits"]])
    y = np.concatenate([real_cell["val_labels"], real_cell["test_labels"]])
    held, errors = [], []
    for seed in range(20):
        val, test = np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)
        pilot, full = val[:500], val[-2000:]
        found = sc.plan(
            z[pilot], y[pilot], method="tva-ts", sizes=[len(full)], draws=10, test_size=len(test)
        )
        p = quiet("tva-ts", z[full], y[full]).predict_proba(z[test])
        truth = sc.evaluate(y[test], p, metrics=["ece15", "top_label_bce"])
        expected = found.row(len(full)).metrics
        loss = expected["top_label_bce"]
        held.append(loss.low <= truth["top_label_bce"] <= loss.high)
        errors.append(expected["ece15"].value - truth["ece15"])
    assert sum(held) >= 15  # of 20, where 18 should
    assert abs(np.mean(errors)) < 0.012


def test_clusters_are_drawn_whole():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, 60)
    clusters = rng.permutation(np.repeat(np.arange(60), sizes))
    n = len(clusters)
    seen = np.zeros(n)
    for draw in range(200):
        rows, left = draw_rows(n, n // 2, draw, 0, clusters)
        assert len(rows) == n // 2
        assert not set(clusters[rows]) & set(clusters[left])
        assert n - len(rows) - len(left) < 5  # of the last cluster drawn
        seen[rows] += 1
    assert np.abs(seen / 200 - 0.5).max() < 0.15
    for alone, plain in zip(
        draw_rows(n, 40, 3, 0, np.arange(n)), draw_rows(n, 40, 3, 0), strict=True
    ):
        np.testing.assert_array_equal(alone, plain)


def test_a_plan_of_copies_knows_no_more_than_one_of_single_rows():
    z, y = simulate(150, 5, temperature=2.5)
    rows = np.repeat(np.arange(150), 4)
    given = {"method": "tva-ts", "draws": 10, "sizes": [600]}
    widths = {}
    for name, clusters in (("copies", None), ("clusters", rows)):
        found = sc.plan(z[rows], y[rows], clusters=clusters, **given)
        band = found.row(600).metrics["top_label_bce"]
        widths[name] = band.high - band.low
    found = sc.plan(z, y, **{**given, "sizes": [150]}).row(150).metrics["top_label_bce"]
    assert widths["clusters"] == pytest.approx(found.high - found.low, rel=0.3)
    assert widths["copies"] < 0.7 * widths["clusters"]
    with refused("clusters-invalid", "300", "600"):
        sc.plan(z[rows], y[rows], clusters=rows * (rows >= 75), **given)
