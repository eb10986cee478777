"""Plots show exactly what their twins return, and the twins are right."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

import smallcal as sc
from smallcal import plots
from smallcal.metrics import Scored
from smallcal.metrics.debiased import debiased_ece
from smallcal.metrics.smooth import reflected_smooth
from smallcal.plots import style
from smallcal.statistics.interval import binomial_interval
from smallcal_lab.studies.simulate import World
from support.cases import fit
from support.simulated import simulate

pytest.importorskip("matplotlib", reason="draws: pip install 'smallcal[plots]'")

from matplotlib.figure import Figure

from support.refused import refused

SVG = "{http://www.w3.org/2000/svg}"


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sample(n=400, n_classes=6, seed=0):
    """Labels, over-confident probabilities, and honest ones."""
    z, y = simulate(n, n_classes, temperature=1.8, seed=seed)
    return y, softmax(z), softmax(z / 1.8)


def calibrated(n, rng):
    """Two classes, confidence uniform in [0.5, 1], true by construction."""
    c = rng.uniform(0.5, 1, size=n)
    return (rng.random(n) > c).astype(int), np.column_stack([c, 1 - c])


@pytest.fixture(scope="module")
def routed():
    """A grouped calibrator and a test split with known structure."""
    world = World(n_classes=10, accuracy=0.75, temperature=1.5, structure=0.3)
    cal, test = world.draw(900), world.draw(1500, split="test")
    return fit("srts-bce", cal.logits, cal.labels), test.logits, test.labels, cal


# --- intervals -----------------------------------------------------------------------------


@given(n=st.integers(1, 400), share=st.floats(0, 1), level=st.sampled_from([0.8, 0.95, 0.99]))
def test_the_binomial_interval_is_scipys_exact_one(n, share, level):
    k = round(share * n)
    low, high = binomial_interval(np.array([float(k)]), np.array([float(n)]), level=level)
    exact = binomtest(k, n).proportion_ci(level, method="exact")
    assert low[0] == pytest.approx(exact.low, abs=1e-9)
    assert high[0] == pytest.approx(exact.high, abs=1e-9)


# --- reliability ---------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["width", "mass"])
def test_reliability_is_a_plain_loop_over_bins(strategy):
    y, p, _ = sample()
    c, right = p.max(axis=1), p.argmax(axis=1) == y
    if strategy == "width":
        members = [
            [i for i in range(len(c)) if k / 15 <= c[i] < (k + 1) / 15 or (k == 14 and c[i] == 1)]
            for k in range(15)
        ]
    else:
        members = [list(part) for part in np.array_split(np.argsort(c, kind="stable"), 15)]
    members = [rows for rows in members if rows]
    row = plots.reliability_data(y, p, strategy=strategy)["probs"]
    assert row.count.tolist() == [len(rows) for rows in members]
    assert row.confidence == pytest.approx([c[rows].mean() for rows in members])
    assert row.accuracy == pytest.approx([right[rows].mean() for rows in members])
    exact = [binomtest(int(right[r].sum()), len(r)).proportion_ci(0.95) for r in members]
    assert row.low == pytest.approx([e.low for e in exact])
    assert row.high == pytest.approx([e.high for e in exact])
    name = "ece15" if strategy == "width" else "adaece15"
    assert row.ece == pytest.approx(sc.evaluate(y, p, metrics=[name])[name])
    assert row.spread.tolist() == np.histogram(c, np.linspace(0, 1, 16))[0].tolist()


def test_reliability_bands_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(120):
        y, p = calibrated(300, rng)
        row = plots.reliability_data(y, p, bins=10, level=0.9)["probs"]
        # Calibrated: a bin's true accuracy is its mean confidence.
        held += ((row.low <= row.confidence) & (row.confidence <= row.high)).tolist()
    assert 0.9 <= np.mean(held) <= 0.97


def test_reliability_draws_its_twin():
    y, p, q = sample()
    found = plots.reliability_data(y, {"raw": p, "honest": q})
    ax = plots.reliability(y, {"raw": p, "honest": q})
    for marks, row in zip(ax.collections[1::2], found.values(), strict=True):
        assert (
            marks.get_offsets().data.tolist()
            == np.column_stack([row.confidence, row.accuracy]).tolist()
        )
    bands = [band.get_paths()[0].vertices for band in ax.collections[::2]]
    for corners, row in zip(bands, found.values(), strict=True):
        for x, low, high in zip(row.confidence, row.low, row.high, strict=True):
            here = corners[corners[:, 0] == x, 1]
            assert here.min() == low
            assert here.max() == high
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [f"{name}, ECE {100 * row.ece:.2f} %" for name, row in found.items()]
    (strip,) = ax.child_axes
    assert [patch.get_data().values.tolist() for patch in strip.patches] == [
        row.spread.tolist() for row in found.values()
    ]


# --- smooth reliability --------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.01, 0.07, 0.5])
def test_reflected_smoothing_is_a_sum_over_mirror_images(width):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(40), [0.0, 1.0, 1.0]])
    mass = rng.normal(size=len(x))
    t = np.linspace(0, 1, 8193)[::512]
    plain = np.zeros(len(t))
    for place, weight in zip(x, mass, strict=True):
        for mirror in range(-8, 9):
            for image in (place, -place):
                gap = (t - image - 2 * mirror) / width
                plain += weight * np.exp(-(gap**2) / 2) / (np.sqrt(2 * np.pi) * width)
    smooth = reflected_smooth(x, mass, width, nodes=8193)[::512]
    assert smooth == pytest.approx(plain, abs=2e-4 * np.abs(plain).max())


def test_the_smooth_curve_is_that_of_relplot():
    kernels = pytest.importorskip("relplot.kernels", reason="compares with relplot")
    # Its kernel ends at half the axis, and what lies on the very ends counts half in it: stay
    # with small widths, and away from 1.
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 0.93, size=1200)
    y, p = (rng.random(1200) > c - 0.06).astype(int), np.column_stack([c, 1 - c])
    row = plots.smooth_reliability_data(y, p, n_boot=2)["probs"]
    assert 0.04 < row.width < 0.09
    assert row.width == row.smece == pytest.approx(sc.evaluate(y, p)["smece_exact"])
    view = Scored.of(y, p)
    t = row.confidence
    kernel = kernels.ReflectedGaussianKernel(row.width)
    residual, _ = kernel.smooth(view.confidence, -view.residual, t)
    assert row.accuracy == pytest.approx(t + residual, abs=2e-4)


def test_the_smooth_band_is_the_wider_of_gathered_resamples_and_exact_intervals():
    z, y = simulate(200, 6, temperature=1.0)
    p = softmax(z)
    row = plots.smooth_reliability_data(y, p, n_boot=30, random_state=3)["probs"]
    rng, view = np.random.default_rng(3), Scored.of(y, p)
    nodes = np.rint(row.confidence * 8192).astype(int)
    drawn = []
    for _ in range(30):
        part = view.take(rng.integers(200, size=200, dtype=np.uint32).astype(np.int64))
        residual = reflected_smooth(part.confidence, -part.residual, row.width, nodes=8193)
        density = reflected_smooth(part.confidence, np.ones(200), row.width, nodes=8193)
        drawn.append(row.confidence + residual[nodes] / density[nodes])
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    for place, a, b, from_draws, to_draws in zip(
        row.confidence, row.low, row.high, low, high, strict=True
    ):
        images = [view.confidence, -view.confidence, 2 - view.confidence]
        weight = sum(np.exp(-(((place - x) / row.width) ** 2) / 2) for x in images)
        count = weight.sum() ** 2 / (weight**2).sum()
        hits = count * (weight @ view.correct) / weight.sum()
        centre = place - (weight @ view.confidence) / weight.sum()
        exact = beta.ppf([0.025, 0.975], [hits, hits + 1], [count - hits + 1, count - hits])
        assert a == pytest.approx(np.clip(min(from_draws, centre + exact[0]), 0, 1), abs=3e-4)
        assert b == pytest.approx(np.clip(max(to_draws, centre + exact[1]), 0, 1), abs=3e-4)


@pytest.mark.parametrize(("level", "least", "most"), [(0.95, 0.9, 1.0), (0.5, 0.46, 0.76)])
def test_smooth_bands_hold_the_truth(level, least, most):
    """Places of one draw hang together, so that few draws say little: bounds are three errors wide.

    100 other draws gave 0.965 (standard deviation 0.076 from draw to draw) and 0.61 (0.16). The
    lower level is there to fail where bands are too wide.
    """
    rng = np.random.default_rng(2)
    held = []
    for seed in range(13):
        y, p = calibrated(400, rng)
        found = plots.smooth_reliability_data(y, p, level=level, n_boot=40, random_state=seed)
        row = found["probs"]
        held.append(((row.low <= row.confidence) & (row.confidence <= row.high)).mean())
    assert least <= np.mean(held) <= most


def test_the_smooth_curve_has_no_line_where_there_are_no_samples():
    # Calibrated at two confidences: the width is the least, and there is nothing in between.
    y = np.concatenate([np.arange(200) >= 110, np.arange(200) >= 190]).astype(int)
    p = np.repeat([[0.55, 0.45], [0.95, 0.05]], 200, axis=0)
    row = plots.smooth_reliability_data(y, p, n_boot=10)["probs"]
    near = np.minimum(np.abs(row.confidence - 0.55), np.abs(row.confidence - 0.95))
    assert row.width == 0.005
    assert near.max() < 4 * row.width
    assert row.confidence.max() < 0.95 + row.step
    assert np.isfinite([row.accuracy, row.low, row.high]).all()
    ax = plots.smooth_reliability(y, p, n_boot=10)
    lines = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) > 1]
    assert not any(line[0] < 0.6 and line[-1] > 0.9 for line in lines[1:])
    assert len(lines) == 3  # the diagonal and two parts


# --- histogram -----------------------------------------------------------------------------


def test_the_histogram_counts_confidences():
    y, p, q = sample()
    found = plots.confidence_histogram_data(y, {"raw": p, "honest": q}, bins=8)
    ax = plots.confidence_histogram(y, {"raw": p, "honest": q}, bins=8)
    for name, proba in (("raw", p), ("honest", q)):
        row, c = found[name], proba.max(axis=1)
        assert row.count.tolist() == np.histogram(c, np.linspace(0, 1, 9))[0].tolist()
        assert row.confidence == pytest.approx(c.mean())
        assert row.accuracy == pytest.approx((proba.argmax(axis=1) == y).mean())
    outlines = [patch.get_data().values.tolist() for patch in ax.patches]
    assert outlines == [row.share.tolist() for row in found.values()]
    upright = {line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 2}
    assert upright == {found["raw"].confidence, found["honest"].confidence, found["raw"].accuracy}


# --- groups --------------------------------------------------------------------------------


def test_matched_confidence_is_a_loop_over_groups_and_bins(routed):
    cal, z, y, _ = routed
    scalar = softmax(z.astype(float) / cal.pooled_temperature_)
    c, right, group = scalar.max(axis=1), scalar.argmax(axis=1) == y, cal.group(z)
    found = plots.matched_confidence_data(y, z, calibrator=cal, bins=8, least=5)
    assert len(found) == 3
    for g, row in enumerate(found.values()):
        cells = {}
        for i in range(len(y)):
            if group[i] == g:
                cells.setdefault(min(int(c[i] * 8), 7), []).append(i)
        cells = {k: cells[k] for k in sorted(cells) if len(cells[k]) >= 5}
        assert row.bin.tolist() == list(cells)
        assert row.count.tolist() == [len(rows) for rows in cells.values()]
        assert row.confidence == pytest.approx([c[r].mean() for r in cells.values()], rel=1e-6)
        assert row.accuracy == pytest.approx([right[r].mean() for r in cells.values()])
        exact = [binomtest(int(right[r].sum()), len(r)).proportion_ci() for r in cells.values()]
        assert row.low == pytest.approx([e.low for e in exact])
        assert row.high == pytest.approx([e.high for e in exact])
        assert row.temperature == cal.temperatures_[g]


def test_groups_part_where_miscalibration_depends_on_risk_and_not_where_it_does_not():
    """The paper's motivating figure, in worlds where the truth is known."""
    apart = {}
    for structure in (0.0, 0.45):
        world = World(n_classes=10, accuracy=0.7, temperature=1.4, structure=structure)
        cal, test = world.draw(4000), world.draw(20000, split="test")
        srts = fit("srts-bce", cal.logits, cal.labels)
        found = plots.group_residuals_data(test.labels, test.logits, calibrator=srts)
        one = found["one temperature"]
        outside = int(((one.low > 0) | (one.high < 0)).sum())
        sizes = {stage: np.abs(row.residual).mean() for stage, row in found.items()}
        apart[structure] = outside, sizes["one temperature"], sizes["srts-bce"]
    assert apart[0.0][0] == 0
    assert apart[0.45][0] == 3
    assert apart[0.45][2] < apart[0.45][1] / 2


def test_group_residuals_are_a_loop_over_groups(routed):
    cal, z, y, _ = routed
    group = cal.group(z)
    stages = {
        "raw": softmax(z.astype(float)),
        "one temperature": softmax(z.astype(float) / cal.pooled_temperature_),
        "srts-bce": cal.predict_proba(z),
    }
    found = plots.group_residuals_data(y, z, calibrator=cal)
    assert list(found) == list(stages)
    ax = plots.group_residuals(y, z, calibrator=cal)
    lines = [line for line in ax.lines if line.get_label() in stages]
    for line, (stage, p) in zip(lines, stages.items(), strict=True):
        row = found[stage]
        for g in range(3):
            rows = np.flatnonzero(group == g)
            right = p[rows].argmax(axis=1) == y[rows]
            confidence = p[rows].max(axis=1).mean()
            exact = binomtest(int(right.sum()), len(rows)).proportion_ci()
            assert row.residual[g] == pytest.approx(right.mean() - confidence, abs=1e-6)
            assert row.low[g] == pytest.approx(exact.low - confidence, abs=1e-6)
            assert row.high[g] == pytest.approx(exact.high - confidence, abs=1e-6)
        assert line.get_ydata().tolist() == row.residual.tolist()
    ticks = [text.get_text() for text in ax.get_xticklabels()]
    for tick, temperature in zip(ticks, cal.temperatures_, strict=True):
        assert f"T = {temperature:.3g}" in tick


def test_calibrators_that_read_features_or_answers_can_be_drawn(split):
    z, y = split
    oracle = fit("oracle-risk-k3", z, y) if "oracle-risk-k3" in sc.methods() else None
    by_features = sc.SRTS(signal="feature_risk").fit(z, y, features=z[:, :3])
    found = plots.group_residuals_data(y, z, calibrator=by_features, features=z[:, :3])
    assert found["raw"].count.sum() == len(y)
    with refused("features-missing"):
        plots.group_residuals_data(y, z, calibrator=by_features)
    if oracle is not None:
        assert len(plots.group_residuals_data(y, z, calibrator=oracle)) == 3


def test_a_calibrator_without_groups_is_refused_in_one_line(split):
    z, y = split
    for name in ("signal-linear", "vector-scaling"):
        with refused("method-unsuitable"):
            plots.matched_confidence(y, z, calibrator=fit(name, z, y))
    with refused("option-type"):
        plots.group_residuals(y, z, calibrator="srts-bce")


# --- temperatures --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "label"),
    [
        ("srts-bce", "steps", "risk of being wrong (%)"),
        ("margin-k3", "steps", "logit margin"),
        ("confidence-k3", "steps", "confidence (%)"),
        ("tva-ts", "steps", "confidence of the uncalibrated model (%)"),
        ("linear-risk", "curve", "risk of being wrong (%)"),
        ("spline-risk", "curve", "risk of being wrong (%)"),
        ("hts-bce", "curve", "log entropy score"),
        ("signal-linear", "cloud", "confidence of the uncalibrated model (%)"),
        ("class-linear", "cloud", "confidence of the uncalibrated model (%)"),
        ("smallcal", "cloud", "confidence of the uncalibrated model (%)"),
    ],
)
def test_temperatures_are_those_applied(split, name, kind, label):
    z, y = split
    cal = fit(name, z, y)
    found = plots.temperature_signal_data(cal, z)
    assert (found.kind, found.label) == (kind, label)
    assert found.temperature.tolist() == cal.temperature(z).tolist()
    assert found.pooled == cal.pooled_temperature_
    if kind == "curve":
        drawn = np.interp(found.score, found.line_score, found.line_temperature)
        assert drawn == pytest.approx(found.temperature, rel=2e-3)
    if kind == "steps":
        inner = np.repeat(cal.thresholds_, 2)
        assert found.line_score[1:-1].tolist() == inner.tolist()
        where = np.searchsorted(cal.thresholds_, found.score, side="right")
        assert found.line_temperature[2 * where].tolist() == found.temperature.tolist()
    ax = plots.temperature_signal(cal, z)
    assert ax.get_xlabel() == label
    if kind != "cloud":
        (line,) = [line for line in ax.lines if line.get_label() == cal.method_]
        assert line.get_ydata().tolist() == found.line_temperature.tolist()
    (strip,) = ax.child_axes
    assert sum(bar.get_height() for bar in strip.patches) == len(y)


def test_what_has_no_temperature_cannot_show_one(split):
    z, y = split
    with refused("method-unsuitable"):
        plots.temperature_signal(fit("vector-scaling", z, y), z)


# --- risk and coverage ---------------------------------------------------------------------


def test_risks_are_selective_risks():
    from smallcal.metrics import selective_risk

    y, p, _ = sample(250)
    p[:40] = p[0]  # ties
    row = plots.risk_coverage_data(y, p, n_boot=20)["probs"]
    assert row.kept[-1] == 250
    plain = [selective_risk(y, p, coverage=k / 250) for k in row.kept]
    assert row.risk == pytest.approx(plain)
    assert (row.low <= row.risk).all()
    assert (row.risk <= row.high).all()


def test_risk_bands_are_the_wider_of_resamples_and_exact_intervals():
    from smallcal.metrics.selective import selective_risks_of

    y, p, _ = sample(120)
    row = plots.risk_coverage_data(y, p, n_boot=60, random_state=5)["probs"]
    rng, view = np.random.default_rng(5), Scored.of(y, p)
    drawn = [
        selective_risks_of(view.take(rng.integers(120, size=120, dtype=np.uint32).astype(int)))
        for _ in range(60)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)[:, row.kept - 1]
    exact = [
        binomtest(round(r * k), int(k)).proportion_ci()
        for r, k in zip(row.risk, row.kept, strict=True)
    ]
    assert row.low == pytest.approx(np.minimum(low, [e.low for e in exact]), abs=1e-9)
    assert row.high == pytest.approx(np.maximum(high, [e.high for e in exact]), abs=1e-9)


def test_risk_bands_hold_the_truth():
    """Confidence c uniform in [0.5, 1] is true: keeping a share s has the risk s / 4."""
    rng = np.random.default_rng(4)
    held = []
    for seed in range(80):
        y, p = calibrated(300, rng)
        row = plots.risk_coverage_data(y, p, n_boot=100, random_state=seed)["probs"]
        truth = row.coverage / 4
        held.append((row.low <= truth) & (truth <= row.high))
    share = np.mean(held, axis=0)
    assert share.min() > 0.9
    assert share.mean() < 0.995


# --- forest --------------------------------------------------------------------------------


def test_a_forest_of_a_comparison_says_what_the_comparison_says():
    y, p, q = sample(800)
    found = sc.compare(
        y, {"raw": p, "honest": q, "same": p}, metrics=["nll", "ece15", "accuracy"], n_boot=200
    )
    forest = plots.forest_data(found, metric="nll")
    for row in forest.rows:
        interval = found.intervals[row.label]["nll"]
        ends = (interval.point, interval.low, interval.high)
        assert (row.value, row.low, row.high) == tuple(100 * end for end in ends)
        assert (row.wide_low, row.wide_high) == (row.low, row.high)
        assert row.verdict == interval.verdict("lower")
    assert [row.verdict for row in forest.rows] == ["better", "tie"]
    for row in plots.forest_data(found, metric="ece15").rows:
        interval = found.intervals[row.label]["ece15"]
        assert row.value == pytest.approx(100 * interval.point)
        assert (row.verdict != "tie") == interval.excludes_zero
    assert plots.forest_data(found).xlabel == "log-loss, difference from raw (points)"
    with refused("no-interval"):
        plots.forest_data(found, metric="accuracy")


def test_a_forest_draws_its_rows_from_the_top():
    rows = [
        {"label": "a", "value": -1, "low": -2, "high": -0.5, "wide_low": -3, "wide_high": 0.5},
        {"label": "b", "value": 1, "low": 0.5, "high": 2},
        {"label": "c", "value": -1, "low": -2, "high": -0.5},
    ]
    ax = plots.forest(rows)
    assert [row.verdict for row in plots.forest_data(rows).rows] == ["tie", "worse", "better"]
    higher = plots.forest_data(rows, better="higher").rows
    assert [row.verdict for row in higher] == ["tie", "better", "worse"]
    drawn = {
        line.get_label(): line.get_xydata().tolist()
        for line in ax.lines
        if line.get_marker() not in ("None", "", None)
    }
    assert drawn == {"tie": [[-1, 2]], "worse": [[1, 1]], "better": [[-1, 0]]}
    ends = [path.vertices[:, 0].tolist() for art in ax.collections for path in art.get_paths()]
    assert [-3, 0.5] in ends
    assert ends.count([-2, -0.5]) == 3
    texts = ax.get_yticklabels()
    names = {tick: text.get_text() for tick, text in zip(ax.get_yticks(), texts, strict=True)}
    assert names == {2: "a", 1: "b", 0: "c"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "empty"),
        ([{"label": "a", "value": 1}], "row 0"),
        ([{"label": "a", "value": 1, "low": float("nan"), "high": 2}], "not finite"),
        ([{"label": "a", "value": 1, "low": 3, "high": 2}], "low is above high"),
        ([{"label": "a", "value": "x", "low": 3, "high": 2}], "not a number"),
        ({"label": "a"}, "must be a comparison"),
        (3, "must be a comparison"),
    ],
)
def test_bad_rows_are_told_in_one_line(rows, message):
    with pytest.raises(sc.InputError, match=message) as caught:
        plots.forest(rows)
    assert "\n" not in str(caught.value)


# --- all of them ---------------------------------------------------------------------------


def draw_all(routed, ax_of=lambda: None):
    """Every plot, on small data."""
    cal, z, y, other = routed
    z, y = z[:300], y[:300]
    p, q = softmax(z.astype(float)), cal.predict_proba(z).astype(float)
    both = {"raw": p, "SRTS & <co>": q}
    curve = fit("linear-risk", other.logits, other.labels)
    rows = sc.compare(y, both, metrics=["ece15"], n_boot=50)
    return {
        "reliability": plots.reliability(y, both, ax=ax_of()),
        "reliability-one": plots.reliability(y, p, strategy="mass", ax=ax_of()),
        "smooth_reliability": plots.smooth_reliability(y, both, n_boot=10, ax=ax_of()),
        "confidence_histogram": plots.confidence_histogram(y, both, ax=ax_of()),
        "matched_confidence": plots.matched_confidence(y, z, calibrator=cal, ax=ax_of()),
        "group_residuals": plots.group_residuals(y, z, calibrator=cal, ax=ax_of()),
        "temperature_signal": plots.temperature_signal(cal, z, ax=ax_of()),
        "temperature-curve": plots.temperature_signal(curve, z, ax=ax_of()),
        "risk_coverage": plots.risk_coverage(y, both, n_boot=10, ax=ax_of()),
        "shift_errors": plots.shift_errors(
            {"fog": y}, {name: {"fog": p} for name, p in both.items()}, n_boot=10, ax=ax_of()
        ),
        "forest": plots.forest(rows, ax=ax_of()),
        "cost_curve": plots.cost_curve(
            y, both, costs=sc.Costs(wrong=10, review=2), n_boot=10, ax=ax_of()
        ),
        "net_benefit": plots.net_benefit(
            y > 2, {name: p[:, 3:].sum(axis=1) for name, p in both.items()}, n_boot=10, ax=ax_of()
        ),
    }


@pytest.fixture(scope="module")
def drawn(routed):
    return draw_all(routed)


@pytest.fixture(scope="module")
def svgs(drawn):
    """Every plot as SVG, its ids prefixed with its name."""
    return {name: plots.to_svg(ax.figure, prefix=f"{name}-") for name, ax in drawn.items()}


def marks_in(group):
    """The marks of a group of the SVG: what is drawn outside of definitions."""
    count = 0
    for child in group:
        if child.tag in (SVG + "use", SVG + "path"):
            count += 1
        elif child.tag != SVG + "defs":
            count += marks_in(child)
    return count


def test_every_mark_has_its_text_in_the_svg(drawn, svgs):
    for name, ax in drawn.items():
        tree = ET.fromstring(svgs[name])
        groups = {node.get("id"): node for node in tree.iter(SVG + "g") if node.get("id")}
        tips = plots.tips_of(ax.figure, prefix=f"{name}-")
        assert tips, name
        for gid, texts in tips.items():
            assert re.fullmatch(r"[a-z0-9-]+", gid.removeprefix(f"{name}-"))
            assert marks_in(groups[gid]) == len(texts)
            assert all(texts)


def test_svg_is_ready_for_a_page(drawn, svgs):
    everything = []
    for name, text in svgs.items():
        assert text == plots.to_svg(drawn[name].figure, prefix=f"{name}-")
        assert text.startswith("<svg")
        assert "<?xml" not in text
        assert "<!DOCTYPE" not in text
        assert "<metadata" not in text
        assert "(%)" in text or "points" in text  # text is text
        colours = set(re.findall(r"#[0-9a-f]{6}\b", text))
        assert colours <= set(style.COLOURS), colours
        ids = re.findall(r'<[^>]+?\sid="([^"]+)"', text)
        assert len(set(ids)) == len(ids)
        wanted = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
        assert wanted <= set(ids)
        everything += ids
    assert len(set(everything)) == len(everything)


def test_svg_does_not_depend_on_when_a_figure_is_drawn(routed, drawn):
    again = draw_all(routed)
    for name in ("reliability", "matched_confidence", "forest"):
        assert plots.to_svg(again[name].figure) == plots.to_svg(drawn[name].figure)


def test_axes_are_labelled_and_readable(drawn):
    for name, ax in drawn.items():
        assert ax.get_xlabel(), name
        assert ax.get_ylabel() or name == "forest"
        figure = ax.figure
        figure.draw_without_rendering()
        texts = [t for t in figure.findobj(lambda a: hasattr(a, "get_fontsize")) if t.get_text()]
        assert min(text.get_fontsize() for text in texts) >= 8
        # Nothing is cut off.
        figure.draw_without_rendering()
        box, page = ax.get_tightbbox(), figure.bbox
        assert box.x0 >= page.x0 - 1, name
        assert box.x1 <= page.x1 + 1, name
        assert box.y0 >= page.y0 - 1, name
        assert box.y1 <= page.y1 + 1, name


def test_axes_that_are_given_are_used(routed):
    figure = Figure(figsize=(24, 20))
    axes = iter(figure.subplots(4, 4).ravel())
    made = draw_all(routed, lambda: next(axes))
    assert all(ax.figure is figure for ax in made.values())
    assert list(made.values()) == list(figure.axes[:13])
    tips = plots.tips_of(figure)
    ids = re.findall(r'<[^>]+?\sid="([^"]+)"', plots.to_svg(figure))
    assert set(tips) <= set(ids)


def test_a_subfigure_is_fine():
    figure = Figure(figsize=(8, 4))
    left, _ = figure.subfigures(1, 2)
    y, p, _ = sample(100)
    plots.reliability(y, p, ax=left.subplots())
    assert list(plots.tips_of(figure)) == ["tip-reliability-probs-0"]


def test_in_grey_series_still_differ():
    looks = [style.look(i) for i in range(42)]
    assert len({(entry.color, entry.marker) for entry in looks}) == 42
    first = looks[: len(style.PALETTE)]
    for i, one in enumerate(first):
        for other in first[:i]:
            assert one.marker != other.marker or one.linestyle != other.linestyle
    assert first[0].linestyle != first[1].linestyle


def test_nothing_global_is_touched(routed):
    import matplotlib

    before = dict(matplotlib.rcParams)
    y, p, _ = sample(100)
    plots.to_svg(plots.reliability(y, p).figure)
    assert dict(matplotlib.rcParams) == before
    program = (
        "import sys, numpy as np; from smallcal import plots;"
        "p = np.array([[0.9, 0.1], [0.7, 0.3]]);"
        "plots.to_svg(plots.reliability([0, 1], p).figure);"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_without_matplotlib_twins_work_and_plots_say_what_to_install():
    program = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from smallcal import plots, MissingExtraError\n"
        "p, y = [[0.9, 0.1], [0.7, 0.3]] * 20, [0, 1] * 20\n"
        "names = 'reliability', 'smooth_reliability', 'confidence_histogram', 'risk_coverage'\n"
        "names += ('net_benefit',)\n"
        "for name in names:\n"
        "    assert getattr(plots, name + '_data')(y, p)\n"
        "    try:\n"
        "        getattr(plots, name)(y, p)\n"
        "    except MissingExtraError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    said = "drawing needs the package 'matplotlib': pip install 'smallcal[plots]'"
    assert done.stdout.splitlines() == [said] * 5, done.stderr


def test_public_names_are_lazy_and_whole():
    assert sorted(dir(plots)) == sorted(plots.__all__)
    for name in plots.__all__:
        assert callable(getattr(plots, name))
    twins = {name for name in plots.__all__ if name.endswith("_data")}
    assert {f"{name}_data" for name in plots.__all__ if f"{name}_data" in twins} == twins
    with pytest.raises(AttributeError):
        _ = plots.nothing


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, p: plots.reliability(y, {}), "probs is empty"),
        (lambda y, p: plots.reliability(y, {"a": p, "b": p[:-1]}), r"probs\['b'\]"),
        (lambda y, p: plots.reliability(y, p, bins=0), "bins"),
        (lambda y, p: plots.reliability(y, p, strategy="other"), "strategy"),
        (lambda y, p: plots.reliability(y, p, level=1.5), "level"),
        (lambda y, p: plots.reliability(y, p, ax="here"), "ax must be"),
        (lambda y, p: plots.reliability(y, p * 3), "y_proba"),
        (lambda y, p: plots.smooth_reliability(y, p, n_boot=1), "n_boot"),
        (lambda y, p: plots.risk_coverage(y, p, n_boot=0), "n_boot"),
        (lambda y, p: plots.net_benefit(y, p), "two classes or a score; there are "),
        (lambda y, p: plots.net_benefit(y > 1, p[:, 0], n_boot=1), "n_boot"),
        (lambda y, p: plots.cost_curve(y, p, costs=3), r"costs must be sc.Costs\(...\); got int"),
        (lambda y, p: plots.cost_curve(y, p, costs=sc.Costs(wrong=3)), "name review as well"),
        (
            lambda y, p: plots.cost_curve(
                y > 1, {"a": p[:, 0], "b": p[:, :2]}, costs=sc.Costs(wrong=3)
            ),
            r"probs\['b'\]",
        ),
        (lambda y, p: plots.forest(sc.compare(y, {"a": p}, n_boot=0)), "no intervals"),
        (
            lambda y, p: plots.forest(
                sc.compare(y, {"a": p, "b": p}, metrics=["nll"], n_boot=5), metric="brier"
            ),
            "was not compared",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    y, p, _ = sample(60)
    with pytest.raises(sc.InputError, match=message) as caught:
        call(y, p)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n", [1, 2])
def test_one_sample_can_be_drawn(n):
    y, p = [0, 1][:n], [[0.9, 0.1], [0.7, 0.3]][:n]
    for draw in (plots.reliability, plots.confidence_histogram):
        draw(y, p).figure.draw_without_rendering()
    for draw in (plots.smooth_reliability, plots.risk_coverage):
        draw(y, p, n_boot=5).figure.draw_without_rendering()


@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), bins=st.integers(1, 20))
def test_bins_hold_every_sample_once_and_order_does_not_matter(seed, n, bins):
    rng = np.random.default_rng(seed)
    p, y = rng.dirichlet([0.5, 0.5, 0.5], size=n), rng.integers(3, size=n)
    row = plots.reliability_data(y, p, bins=bins)["probs"]
    assert row.count.sum() == row.spread.sum() == n
    assert ((row.low <= row.accuracy) & (row.accuracy <= row.high)).all()
    order = rng.permutation(n)
    other = plots.reliability_data(y[order], p[order], bins=bins)["probs"]
    assert other.count.tolist() == row.count.tolist()
    assert other.accuracy.tolist() == row.accuracy.tolist()


def test_tips_must_match_their_marks():
    ax = style.axes_or_new(None)
    (line,) = ax.plot([0, 1, np.nan], [0, 1, 2], "o")
    with pytest.raises(sc.InputError, match="3 texts for 2 marks"):
        style.with_tips(line, ["a", "b", "c"], name="x")
    style.with_tips(line, ["a", "b"], name="Some Name!")
    bars = ax.bar([0, 1], [1, 2], color=style.PALETTE[0])
    style.with_tips(list(bars), ["first", "second"], name="bars")
    assert plots.tips_of(ax.figure) == {
        "tip-some-name-0": ["a", "b"],
        "tip-bars-1": ["first"],
        "tip-bars-2": ["second"],
    }


# --- the pictures of the docs --------------------------------------------------------------


def test_the_docs_show_every_picture_that_the_script_draws():
    from pathlib import Path

    import make_figures

    root = Path(__file__).parents[2]
    files = sorted((root / "docs" / "figures").glob("*"))
    assert [file.name for file in files] == sorted(f"{name}.svg" for name in make_figures.FIGURES)
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for file in files:
        assert f"figures/{file.name}" in text
        assert file.stat().st_size < 200_000


def test_a_picture_of_the_docs_is_drawn_on_white():
    import make_figures

    text = make_figures.svg_of("reliability")
    assert ET.fromstring(text)[0].get("fill") == "#ffffff"


# Shifted sets


def test_errors_under_shift_are_those_of_each_set():
    z, y = simulate(600, 5)
    sets = {"clean": slice(0, 300), "fog 3": slice(300, 600)}
    labels = {name: y[rows] for name, rows in sets.items()}
    probs = {
        name: {key: softmax(z[rows] / t) for key, rows in sets.items()}
        for name, t in (("raw", 1.0), ("cooler", 1.6))
    }
    found = plots.shift_errors_data(labels, probs, n_boot=50, random_state=3, level=0.9)
    assert list(found) == ["raw", "cooler"]
    for name, row in found.items():
        assert row.sets == ("clean", "fog 3")
        for i, key in enumerate(row.sets):
            p = probs[name][key]
            assert row.accuracy[i] == (p.argmax(axis=1) == labels[key]).mean()
            assert row.error[i] == pytest.approx(debiased_ece(labels[key], p), abs=1e-12)
            interval = sc.evaluate(
                labels[key], p, metrics=["ece15"], ci=True, n_boot=50, random_state=3, level=0.9
            )["ece15"]
            assert (row.low[i], row.high[i]) == pytest.approx((interval.low, interval.high))
    ax = plots.shift_errors(labels, probs, n_boot=50)
    drawn = [c.get_offsets() for c in ax.collections if len(c.get_offsets()) == 2]
    np.testing.assert_allclose(drawn[0][:, 1], found["raw"].error)
    with refused("rows-differ", "3"):
        plots.shift_errors_data(labels, {"raw": {"clean": probs["raw"]["clean"]}})
    with refused("empty"):
        plots.shift_errors_data({}, {})
