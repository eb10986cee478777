"""Resampling samples, seeds, groups and calibration splits: against plain loops."""

import numpy as np
import pytest

import smallcal as sc
from smallcal.advice.refit_bootstrap import refit_bootstrap
from smallcal.io import threads
from smallcal.statistics import bootstrap
from smallcal.statistics.bootstrap import Run, counts_of_draws, interval, seed_samples
from smallcal.statistics.groups import by_group, holm
from smallcal.statistics.interval import Interval, interval_of
from support.refused import refused
from support.simulated import simulate

METRICS = ["accuracy", "nll", "brier", "top_label_bce", "auroc"]


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def runs(n_seeds=3, n=120):
    found = []
    for seed in range(n_seeds):
        z, y = simulate(n, 5, seed=seed)
        found.append(Run(y, {"raw": softmax(z), "scaled": softmax(z / 1.6)}))
    return found


def test_counts_are_draws_with_replacement_and_do_not_depend_on_blocks(monkeypatch):
    whole = np.vstack(list(counts_of_draws(50, 40, np.random.default_rng(1))))
    assert whole.shape == (40, 50)
    np.testing.assert_array_equal(whole.sum(axis=1), 50)
    monkeypatch.setattr(bootstrap, "_BLOCK_SIZE", 350)  # seven rows at a time
    parts = np.vstack(list(counts_of_draws(50, 40, np.random.default_rng(1))))
    np.testing.assert_array_equal(parts, whole)
    many = np.vstack(list(counts_of_draws(20, 4000, np.random.default_rng(2))))
    assert many.mean() == 1
    assert many.var() == pytest.approx(0.95, abs=0.03)  # binomial: n p (1 - p)


def test_clusters_are_drawn_whole_but_for_the_last():
    rng = np.random.default_rng(0)
    clusters = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 8, 12)))
    n = len(clusters)
    counts = np.vstack(list(counts_of_draws(n, 3_000, rng, clusters=clusters)))
    np.testing.assert_array_equal(counts.sum(axis=1), n)
    split = np.zeros(len(counts))
    for cluster in range(12):
        own = counts[:, clusters == cluster]
        assert (np.ptp(own, axis=1) <= 1).all()
        split += np.ptp(own, axis=1)
    assert (split <= 1).all()
    assert np.abs(counts.mean(axis=0) - 1).max() < 0.15
    alone = np.vstack(list(counts_of_draws(20, 4_000, rng, clusters=np.arange(20))))
    assert alone.var() == pytest.approx(0.95, abs=0.03)
    few = next(iter(counts_of_draws(9, 50, rng, clusters=np.repeat([0, 1], [8, 1]))))
    np.testing.assert_array_equal(few.sum(axis=1), 9)  # where many draws are needed


@pytest.mark.parametrize("metric", ["accuracy", "ece15", "auroc", "aurc", "selective_risk80"])
def test_copies_leave_the_interval_as_it_is_if_they_are_clusters(metric):
    rng = np.random.default_rng(3)
    p = rng.uniform(0.5, 1, 300)
    y = (rng.random(300) < 0.8 * p).astype(int)
    rows = np.repeat(np.arange(300), 4)

    def width(rows, **given):
        given |= {"metrics": [metric], "ci": True, "n_boot": 600}
        found = sc.evaluate(y[rows], p[rows], **given)[metric]
        return found.high - found.low, found

    (once, plain), (narrow, _) = width(np.arange(300)), width(rows)
    copied, found = width(rows, clusters=[f"item {row}" for row in rows])
    assert found.unit == "clusters of test samples"
    assert found.floor is None
    assert copied == pytest.approx(once, rel=0.15)
    assert narrow < 0.65 * once
    assert found.point == pytest.approx(plain.point, abs=0.003)


@pytest.mark.slow
def test_intervals_of_clusters_hold_the_truth():
    rng, truth, held = np.random.default_rng(4), 0.75, np.zeros(2)
    for _ in range(200):
        sizes = rng.integers(1, 12, 80)
        rows = np.repeat(np.arange(80), sizes)
        chance = rng.beta(3, 1, 80)[rows]
        y = (rng.random(len(rows)) < chance).astype(int)
        for way, clusters in enumerate((None, rows)):
            given = {"metrics": ["accuracy"], "ci": True, "n_boot": 200, "clusters": clusters}
            low, high = sc.evaluate(y, np.full(len(y), 0.75), **given)["accuracy"]
            held[way] += low <= truth <= high
    assert held[0] < 175
    assert 180 <= held[1] <= 199


def test_comparisons_draw_clusters_and_groups_take_none():
    run = runs(1, 100)[0]
    rows = np.repeat(np.arange(100), 5)
    y, probas = run.y_true[rows], {name: p[rows] for name, p in run.y_probas.items()}
    given = {"metrics": ["nll", "accuracy"], "n_boot": 500}
    once = sc.compare(run.y_true, run.y_probas, **given)
    found = sc.compare(y, probas, clusters=rows, **given)
    assert found.unit == found.paired("scaled", "raw", "nll").unit == "clusters of test samples"
    widths = [each.intervals["scaled"]["nll"] for each in (once, found)]
    assert np.ptp(list(widths[1])) == pytest.approx(np.ptp(list(widths[0])), rel=0.15)
    with refused("options-conflict"):
        sc.evaluate(y, probas["raw"], by=rows % 2, clusters=rows)
    with refused("rows-differ"):
        sc.compare(y, probas, clusters=rows[1:])


def test_resamples_do_not_depend_on_blocks(monkeypatch):
    run = runs(1, 60)[0]
    whole = sc.compare(run.y_true, run.y_probas, n_boot=12).intervals["scaled"]
    monkeypatch.setattr(bootstrap, "_BLOCK_SIZE", 60 * 5)
    monkeypatch.setattr(bootstrap, "_CHUNK", 3)
    found = sc.compare(run.y_true, run.y_probas, n_boot=12).intervals["scaled"]
    for metric, row in whole.items():
        np.testing.assert_allclose(found[metric].values, row.values, atol=1e-9, err_msg=metric)
        assert tuple(found[metric]) == pytest.approx(tuple(row), abs=1e-9, nan_ok=True)


def test_resamples_are_the_same_on_any_number_of_cores(monkeypatch):
    run = runs(1, 90)[0]
    monkeypatch.setattr(bootstrap, "_CHUNK", 4)
    found = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(threads, "cores", lambda own=cores: own)
        found.append(sc.compare(run.y_true, run.y_probas, n_boot=30))
    for other in found[1:]:
        for key, draws in found[0].drawn.items():
            np.testing.assert_array_equal(other.drawn[key].values, draws.values)
        assert other.value_intervals == found[0].value_intervals


def test_an_abandoned_iteration_leaves_no_thread_behind():
    import threading

    before = threading.active_count()
    draws = counts_of_draws(1000, 10**6, np.random.default_rng(0))
    next(draws)
    draws.close()
    assert threading.active_count() == before


def test_seed_by_sample_equals_a_plain_loop():
    data = runs()
    found = seed_samples(data, baseline="raw", metrics=METRICS, n_boot=25, random_state=4)
    rng = np.random.default_rng(4)
    slots = rng.integers(3, size=(25, 3))
    values = np.empty((25, 3, len(METRICS)))
    for seed, run in enumerate(data):
        places = np.argwhere(slots == seed)
        (counts,) = counts_of_draws(120, len(places), rng) if len(places) else ([],)
        for (b, slot), row in zip(places, counts, strict=True):
            again = np.repeat(np.arange(120), row.astype(int))
            own, base = (
                sc.evaluate(run.y_true[again], run.y_probas[name][again], metrics=METRICS)
                for name in ("scaled", "raw")
            )
            values[b, slot] = [own[m] - base[m] for m in METRICS]
    for i, metric in enumerate(METRICS):
        np.testing.assert_allclose(
            found["scaled"][metric].values, values[:, :, i].mean(axis=1), atol=1e-12
        )


def test_one_seed_works_and_says_what_it_cannot_see():
    found = seed_samples(runs(1), baseline="raw", metrics=["nll"], n_boot=50)["scaled"]["nll"]
    assert "one seed" in found.note
    with refused("empty"):
        seed_samples([], baseline="raw")
    with refused("unknown-choice", "'x'"):
        seed_samples(runs(2), baseline="x")
    odd = [*runs(1), Run([0, 1], {"raw": np.eye(2)})]
    with refused("rows-differ"):
        seed_samples(odd, baseline="raw")


def test_a_single_metric_with_its_interval():
    run = runs(1, 400)[0]
    found = interval(run.y_true, run.y_probas["raw"], "accuracy", n_boot=500)
    p = found.point
    width = 2 * 1.96 * np.sqrt(p * (1 - p) / 400)
    assert found.high - found.low == pytest.approx(width, rel=0.15)
    with refused("option-range", "n_boot", "1"):
        interval(run.y_true, run.y_probas["raw"], "nll", n_boot=0)


def test_methods_of_different_length_are_refused():
    views = {
        name: sc.metrics.Scored.of(np.zeros(n, dtype=int), np.tile([0.6, 0.4], (n, 1)))
        for name, n in (("a", 4), ("b", 5))
    }
    with refused("rows-differ", "4", "5"):
        bootstrap.resample(views, [], n_boot=3)


@pytest.mark.parametrize(
    ("low", "high", "better", "margin", "verdict"),
    [
        (-2, -1, "lower", None, "better"),
        (-2, -1, "higher", None, "worse"),
        (1, 2, "lower", None, "worse"),
        (1, 2, "higher", None, "better"),
        (-1, 1, "lower", None, "tie"),
        (0, 1, "lower", None, "tie"),
        (-1, 1, "lower", 1.5, "equivalent"),
        (-2, -1, "lower", 3, "equivalent"),
        (-2, -1, "lower", 1.5, "better"),
        (-2, -1, "zero", None, "tie"),
    ],
)
def test_verdicts(low, high, better, margin, verdict):
    found = Interval(0.0, low, high, 0.95, 10, "samples", 0.4, 0.6, 0.0)
    assert found.verdict(better, margin=margin) == verdict
    assert found.win_rate("lower") == 0.4
    assert found.win_rate("higher") == 0.6
    with refused("option-range"):
        found.verdict(margin=0.0)


def test_percentiles_and_direction_by_hand():
    values = np.arange(-10.0, 90.0)
    found = interval_of(30.0, values, unit="samples", level=0.9)
    low, high = np.quantile(values, [0.05, 0.95])
    assert tuple(found) == pytest.approx((low, high))
    assert (found.p_below, found.p_above) == (0.1, 0.89)


def test_resamples_without_a_value_count_in_no_share():
    values = np.array([-1.0, np.nan, 0.0, 2.0, 3.0, np.nan])
    found = interval_of(1.0, values, unit="samples", level=0.5)
    assert (found.p_below, found.p_above) == (0.25, 0.5)
    assert (found.n_boot, found.n_undefined) == (6, 2)
    assert tuple(found) == pytest.approx(np.quantile([-1.0, 0.0, 2.0, 3.0], [0.25, 0.75]))


def test_holm_is_the_step_down_rule():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}, 0.05) == ["d", "a"]
    assert holm({"a": 0.2}, 0.05) == []
    # Each name that falls makes the next one's bar lower: 0.05 / 3, / 2, / 1.
    assert holm({"a": 0.04, "b": 0.01, "c": 0.02}, 0.05) == ["b", "c", "a"]
    assert holm({"a": 0.0, "b": 0.0}, 0.05) == ["a", "b"]


def test_groups_are_measured_apart_and_the_odd_one_is_found():
    z, y = simulate(900, 5)
    p = softmax(z / 1.6)
    groups = np.repeat(["a", "b", "c"], 300)
    y = y.copy()
    y[groups == "c"] = (y[groups == "c"] + (np.arange(300) % 3 == 0)) % 5  # worse labels there
    table = by_group(y, p, groups, metrics=["accuracy", "nll"], n_boot=400)
    for name in "abc":
        rows = np.flatnonzero(groups == name)
        alone = sc.evaluate(y[rows], p[rows], metrics=["accuracy", "nll"])
        assert table[name]["nll"].interval.point == alone["nll"]
        assert table[name]["nll"].n == 300
    assert table["c"]["nll"].differs
    assert table["c"]["accuracy"].differs
    assert sc.evaluate(y, p, metrics=["nll"], by=groups, n_boot=50)["a"]["nll"].n == 300


@pytest.mark.slow
def test_equal_groups_are_rarely_called_different():
    rng = np.random.default_rng(0)
    false_alarms = 0
    for seed in range(60):
        z, y = simulate(300, 4, seed=seed)
        table = by_group(
            y, softmax(z / 1.6), rng.integers(3, size=300), metrics=["nll"], n_boot=200
        )
        false_alarms += any(row["nll"].differs for row in table.values())
    assert false_alarms <= 9  # 5 % of 60 is 3; the bootstrap is a little eager at n = 100


def test_bad_groups_are_refused():
    z, y = simulate(30, 4)
    with refused("groups-invalid", "30"):
        by_group(y, softmax(z), [0, 1])
    with refused("groups-invalid"):
        by_group(y, softmax(z), np.zeros(30))


def test_refits_show_more_than_the_test_samples_do():
    z, y = simulate(260, 6)
    z2, y2 = simulate(2000, 6, seed=1)
    options = {"metrics": ["top_label_bce"], "n_boot": 40}
    both = refit_bootstrap((z, y), (z2, y2), ["tva-ts", "srts-bce"], **options)
    cal_only = refit_bootstrap(
        (z, y), (z2, y2), ["tva-ts", "srts-bce"], resample_test=False, **options
    )
    fitted = sc.make("tva-ts").fit(z, y)
    point = both.values["tva-ts"]["top_label_bce"].point
    assert point == pytest.approx(
        sc.evaluate(y2, fitted.predict_proba(z2), metrics=["top_label_bce"])["top_label_bce"]
    )
    wide, narrow = (found.values["tva-ts"]["top_label_bce"] for found in (both, cal_only))
    assert wide.high - wide.low > narrow.high - narrow.low > 0
    assert set(both.differences) == {"srts-bce"}
    assert both.n_failed == 0
    again = refit_bootstrap((z, y), (z2, y2), ["tva-ts", "srts-bce"], **options)
    assert again.values == both.values


def test_refits_need_methods():
    z, y = simulate(40, 3)
    with refused("empty"):
        refit_bootstrap((z, y), (z, y), [], n_boot=5)
    with refused("option-range", "n_boot", "2", "1"):
        refit_bootstrap((z, y), (z, y), ["tva-ts"], n_boot=1)


def test_refits_count_what_could_not_be_fitted():
    z, y = simulate(8, 3)  # about five different rows in a resample, where a fit needs five
    found = refit_bootstrap((z, y), (z, y), ["tva-ts"], metrics=["nll"], n_boot=40)
    assert found.n_failed + found.values["tva-ts"]["nll"].n_boot == 40
    assert 0 < found.n_failed < 40
    with refused("too-few-samples"):
        refit_bootstrap((z[:5], y[:5]), (z, y), ["tva-ts"], metrics=["nll"], n_boot=5)
