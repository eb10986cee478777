"""Plots of studies: their numbers against plain loops and the tables, and what is drawn."""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smallcal.errors import InputError
from smallcal.plots import forest_data
from smallcal_lab import plots
from smallcal_lab.plots.curves import BASELINE
from smallcal_lab.plots.figures import FIGURES, study_figures
from smallcal_lab.plots.given import open_run
from smallcal_lab.statistics.nested import nested
from smallcal_lab.studies import STUDIES, Outcome, import_folder, study_named
from smallcal_lab.studies.frame import Frame
from smallcal_lab.studies.tables.catalogue import tables_of
from smallcal_lab.studies.tables.clean import differences, means
from smallcal_lab.studies.tables.shift import rank_interval
from support.figures import require_axes, require_same
from support.simulated import simulate

ROOT = Path(__file__).parents[3]
N_BOOT = 300
MODELS = (("toy", "a"), ("toy", "b"))
SEEDS, DRAWS, BUDGETS = (0, 1), 3, (100, 400)
METHODS = {"tva-ts": 0.030, "none": 0.080, "srts-bce": 0.025}


def a_row(model, seed, label, value, **more):
    cell = f"{model[0]}__{model[1]}__s{seed}"
    about = {"cell": cell, "dataset": model[0], "backbone": model[1], "seed": seed}
    return {**about, "label": label, "metric": "ece15", "value": value, "set": "clean", **more}


def budget_rows(seed=0):
    """Two models of two seeds, three draws, two budgets, three methods; values are noise."""
    rng = np.random.default_rng(seed)
    places = itertools.product(BUDGETS, MODELS, SEEDS, range(DRAWS), METHODS)
    return [
        a_row(model, s, label, METHODS[label] + rng.normal(0, 0.01), budget=n, draw=draw)
        for n, model, s, draw, label in places
    ]


def quick(name):
    return replace(study_named(name), n_boot=N_BOOT)


def budget_run(rows=None):
    return quick("budget"), Frame.of(budget_rows() if rows is None else rows)


KINDS, SEVERITIES = ("fog", "noise", "blur", "jpeg", "snow"), (1, 3, 5)


def shift_rows(seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for model, s, label in itertools.product(MODELS, SEEDS, METHODS):
        for place, kind in enumerate(("clean", *KINDS)):
            for severity in (0,) if kind == "clean" else SEVERITIES:
                value = METHODS[label] * (1 + severity + place) + rng.normal(0, 0.002)
                rows.append(a_row(model, s, label, value, set=kind, severity=severity))
                if label == "srts-bce":
                    share = 0.3 + 0.05 * severity + 0.01 * s
                    for group, part in enumerate((1 - share, share)):
                        where = {"set": kind, "severity": severity}
                        name = f"share_of_group{group}"
                        rows.append(a_row(model, s, label, part, **where) | {"metric": name})
    return rows


def signed_rows(seed=0):
    """Rows under shift with signed gaps, which have an order of their own."""
    rng = np.random.default_rng(seed + 1)
    extra = [
        row | {"metric": "confidence_gap", "value": rng.normal(0, 0.05)}
        for row in shift_rows(seed)
        if row["metric"] == "ece15"
    ]
    return shift_rows(seed) + extra


def k_rows(seed=0):
    rng = np.random.default_rng(seed)
    return [
        a_row(model, s, f"K={k}", 0.03 / k + rng.normal(0, 0.002), budget=500 + 10 * place)
        for (place, model), s, k in itertools.product(enumerate(MODELS), SEEDS, (1, 2, 3, 10))
    ]


def by_cell(rows, **wanted):
    """Return the values of each cell that a plain loop finds."""
    found = {}
    for row in rows:
        if row["metric"] == "ece15" and all(row.get(k, 0) == v for k, v in wanted.items()):
            found.setdefault(row["cell"], []).append(row["value"])
    return found


def mean_and_spread(rows, **wanted):
    each = [statistics.fmean(values) for values in by_cell(rows, **wanted).values()]
    return 100 * statistics.fmean(each), 100 * statistics.pstdev(each)


def gaps_of(rows, label, **wanted):
    ours, theirs = (by_cell(rows, label=name, **wanted) for name in (label, "tva-ts"))
    return {c: [a - b for a, b in zip(ours[c], theirs[c], strict=True)] for c in ours}


def tree_of(gaps):
    """Put cells' differences under their models."""
    models = {}
    for cell, values in gaps.items():
        models.setdefault(cell.rpartition("__")[0], []).append(values)
    return list(models.values())


def columns_of(rows):
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row[name] for row in rows] for name in names if all(name in r for r in rows)}


# Numbers.


def test_a_budget_curve_has_the_numbers_of_a_plain_loop():
    rows = budget_rows()
    found = plots.budget_curve_data(budget_run())
    assert found.x.tolist() == list(BUDGETS)
    assert (found.names, found.models, found.n_cells) == (("100", "400"), ("toy a", "toy b"), 4)
    assert [line.label for line in found.lines] == list(METHODS)
    for line, (i, budget) in itertools.product(found.lines, enumerate(BUDGETS)):
        expected = mean_and_spread(rows, label=line.label, budget=budget)
        assert (line.value[i], line.spread[i]) == pytest.approx(expected)
        if line.label == "tva-ts":
            assert line.verdict[i] == BASELINE
            assert math.isnan(line.difference[i])
            continue
        gaps = gaps_of(rows, line.label, budget=budget)
        interval = nested(tree_of(gaps), n_boot=N_BOOT)
        ends = (line.difference[i], line.low[i], line.high[i])
        assert ends == pytest.approx([100 * v for v in (interval.point, *interval)])
        flat = [gap for values in gaps.values() for gap in values]
        assert line.wins[i] == pytest.approx(100 * sum(gap < 0 for gap in flat) / len(flat))
        low, high = interval
        expected = "tie" if low <= 0 <= high else "worse" if low > 0 else "better"
        assert line.verdict[i] == expected
    assert {v for line in found.lines for v in line.verdict} >= {BASELINE, "worse", "tie"}


def test_curves_are_the_tables():
    study, frame = budget_run()
    one = replace(study, metrics=("ece15",))
    found = plots.budget_curve_data((study, frame))
    for table, value in ((means(one, frame), "value"), (differences(one, frame), "difference")):
        rows = [r for r in table.rows if "models" not in table.header or r[1] == "all"]
        for row in rows:
            label = row[table.header.index("method")]
            i = found.names.index(row[0])
            assert getattr(found.line(label), value)[i] == row[-1].value
    assert len(rows) == 4


def test_a_band_holds_the_baseline_in_a_tie_and_only_then():
    found = plots.budget_curve_data(budget_run())
    base = found.line("tva-ts").value
    for line in found.lines[1:]:
        low, high = line.band
        holds = (low <= base) & (base <= high)
        assert holds.tolist() == [verdict == "tie" for verdict in line.verdict]


@given(st.floats(-1, 1), st.integers(0, 5))
@settings(max_examples=15)
def test_a_constant_added_to_all_changes_no_difference(constant, seed):
    rows = budget_rows(seed)
    moved = [{**row, "value": row["value"] + constant} for row in rows]
    before, after = (plots.budget_curve_data(budget_run(r)) for r in (rows, moved))
    for a, b in zip(before.lines, after.lines, strict=True):
        assert b.value == pytest.approx(a.value + 100 * constant, abs=1e-9)
        assert b.low == pytest.approx(a.low, abs=1e-9, nan_ok=True)
        assert b.high == pytest.approx(a.high, abs=1e-9, nan_ok=True)


def test_a_cell_that_lacks_a_budget_is_in_no_point():
    rows = budget_rows()
    gone = "toy__b__s1"
    cut = [row for row in rows if (row["cell"], row["budget"]) != (gone, 400)]
    found = plots.budget_curve_data(budget_run(cut))
    assert found.left_out == (gone,)
    whole = [row for row in rows if row["cell"] != gone]
    expected = mean_and_spread(whole, label="none", budget=100)[0]
    assert found.line("none").value[0] == pytest.approx(expected)
    assert found.n_cells == 3
    # Values that are not there count as little as rows that are not there.
    undefined = [
        {**row, "value": math.nan} if (row["cell"], row["budget"]) == (gone, 400) else row
        for row in rows
    ]
    assert plots.budget_curve_data(budget_run(undefined)).left_out == (gone,)


def test_the_whole_split_is_one_budget_whatever_its_size():
    rows = [
        {**row, "budget": 900 + len(row["cell"]) + row["seed"]} if row["budget"] == 400 else row
        for row in budget_rows()
    ]
    study, frame = budget_run(rows)
    found = plots.budget_curve_data((replace(study, budgets=(100, 0)), frame))
    assert found.names == ("100", "all")
    expected = mean_and_spread(budget_rows(), label="none", budget=400)[0]
    assert found.line("none").value[1] == pytest.approx(expected)


def test_a_severity_curve_has_the_numbers_of_a_plain_loop():
    rows = shift_rows()
    run = (quick("shift"), Frame.of(rows))
    found = plots.severity_curve_data(run)
    curves = found.curves
    assert (curves.x.tolist(), curves.names) == ([0, 1, 3, 5], ("clean", "1", "3", "5"))
    for line, (i, severity) in itertools.product(curves.lines, enumerate(curves.x)):
        expected = mean_and_spread(rows, label=line.label, severity=severity)
        assert (line.value[i], line.spread[i]) == pytest.approx(expected)
        if line.label != "tva-ts":
            gaps = gaps_of(rows, line.label, severity=severity)
            interval = nested(tree_of(gaps), n_boot=N_BOOT)
            assert (line.low[i], line.high[i]) == pytest.approx([100 * v for v in interval])
    assert found.occupancy.label == "srts-bce"
    high = [100 * (0.3 + 0.05 * s + 0.005) for s in (0, *SEVERITIES)]
    assert found.occupancy.shares[:, 1].tolist() == pytest.approx(high)
    assert found.occupancy.shares.sum(axis=1).tolist() == pytest.approx([100] * 4)


def test_a_corruption_that_lacks_a_severity_is_in_no_point():
    rows = [row for row in shift_rows() if (row["set"], row["severity"]) != ("fog", 3)]
    found = plots.severity_curve_data((quick("shift"), Frame.of(rows))).curves
    assert len(found.left_out) == 4
    assert set(found.left_out) == {f"toy__{b}__s{s} fog" for b in "ab" for s in SEEDS}
    kept = [row for row in rows if row["set"] != "fog"]
    expected = mean_and_spread(kept, label="none", severity=5)[0]
    assert found.line("none").value[3] == pytest.approx(expected)


def test_a_severity_curve_without_clean_rows_begins_with_the_first_severity():
    run = (quick("shift"), Frame.of(shift_rows()))
    whole = plots.severity_curve_data(run)
    found = plots.severity_curve_data(run, where={"severity": [1, 5]})
    assert found.curves.names == ("1", "5")
    line = found.curves.line("none")
    assert line.value == pytest.approx(whole.curves.line("none").value[[1, 3]])
    assert line.low == pytest.approx(whole.curves.line("none").low[[1, 3]])
    assert found.occupancy.shares == pytest.approx(whole.occupancy.shares[[1, 3]])


def test_a_run_without_groups_has_no_occupancy():
    rows = [row for row in shift_rows() if row["metric"] == "ece15"]
    assert plots.severity_curve_data((quick("shift"), Frame.of(rows))).occupancy is None


def test_corruption_gains_have_the_numbers_of_a_plain_loop():
    rows = shift_rows()
    found = plots.corruption_gain_data((quick("heterogeneity"), Frame.of(rows)))
    assert (found.method, found.baseline, found.raw) == ("srts-bce", "tva-ts", "none")
    for model, (_, backbone) in zip(found.models, MODELS, strict=True):
        mine = [row for row in rows if row["backbone"] == backbone]
        assert set(model.corruptions) == set(KINDS)
        for i, kind in enumerate(model.corruptions):
            value = {m: mean_and_spread(mine, label=m, set=kind)[0] for m in METHODS}
            assert model.x[i] == pytest.approx(value["none"])
            assert model.gain[i] == pytest.approx(value["tva-ts"] - value["srts-bce"])
        assert (np.diff(model.x) > 0).all()
        assert model.rank[0] == pytest.approx(stats.spearmanr(model.x, model.gain)[0])
        pairs = itertools.combinations(range(len(KINDS)), 2)
        slopes = [(model.gain[j] - model.gain[i]) / (model.x[j] - model.x[i]) for i, j in pairs]
        assert model.slope == pytest.approx(statistics.median(slopes))
        middle = statistics.median(model.gain) - model.slope * statistics.median(model.x)
        assert model.intercept == pytest.approx(middle)


@pytest.mark.parametrize(("against", "label"), [("raw_gap", "none"), ("baseline_gap", "tva-ts")])
def test_gains_can_be_drawn_against_a_signed_gap(against, label):
    rows = signed_rows()
    run = (quick("heterogeneity"), Frame.of(rows))
    found = plots.corruption_gain_data(run, against=against)
    plain = plots.corruption_gain_data(run)
    gaps = [r | {"metric": "ece15"} for r in rows if r["metric"] == "confidence_gap"]
    for model, usual, (_, backbone) in zip(found.models, plain.models, MODELS, strict=True):
        mine = [row for row in gaps if row["backbone"] == backbone]
        expected = [mean_and_spread(mine, label=label, set=kind)[0] for kind in model.corruptions]
        assert model.x == pytest.approx(np.array(expected))
        assert model.gain == pytest.approx(usual.gain)
        assert model.rank[0] == pytest.approx(stats.spearmanr(expected, model.gain)[0])
    assert found.axis == f"gap of {label}: mean confidence minus accuracy, points"
    with pytest.raises(InputError, match=f"run has no confidence_gap of {label}: measure it"):
        plots.corruption_gain_data((quick("shift"), Frame.of(shift_rows())), against=against)
    with pytest.raises(InputError, match="unknown against 'gap'; "):
        plots.corruption_gain_data(run, against="gap")


def test_the_method_and_the_baseline_of_a_gain_can_be_chosen():
    run = (quick("shift"), Frame.of(shift_rows()))
    there = plots.corruption_gain_data(run, method="tva-ts", baseline="srts-bce")
    back = plots.corruption_gain_data(run)
    assert there.models[0].gain == pytest.approx(-back.models[0].gain)


def test_the_interval_of_a_rank_correlation_holds_the_truth_as_often_as_it_says():
    # For normal pairs of correlation r, Spearman's is 6 / pi asin(r / 2).
    rng = np.random.default_rng(0)
    for r, n in ((-0.7, 19), (0.4, 12)):
        truth, held = 6 / math.pi * math.asin(r / 2), 0
        for _ in range(1000):
            a, noise = rng.normal(size=(2, n))
            _, low, high = rank_interval(a, r * a + math.sqrt(1 - r * r) * noise)
            held += low <= truth <= high
        assert 0.92 < held / 1000 < 0.98


def test_a_rank_correlation_without_an_interval_has_none():
    a = np.arange(5.0)
    assert rank_interval(a, a)[0] == pytest.approx(1)
    assert all(map(math.isnan, rank_interval(a, a)[1:]))
    assert all(map(math.isnan, rank_interval(a, np.ones(5))))
    assert all(map(math.isnan, rank_interval(a[:3], np.array([1.0, 3.0, 2.0]))[1:]))


def test_numbers_of_groups_are_read_from_labels_or_options():
    rows = k_rows()
    found = plots.k_ablation_data(columns_of(rows))
    curves = found.curves
    assert curves.x.tolist() == [1, 2, 3, 10]
    (line,) = curves.lines
    assert line.verdict[0] == BASELINE
    for i, k in enumerate((1, 2, 3, 10)):
        expected = mean_and_spread(rows, label=f"K={k}")
        assert (line.value[i], line.spread[i]) == pytest.approx(expected)
        for _, backbone in MODELS:
            mine = [row for row in rows if row["backbone"] == backbone]
            alone = mean_and_spread(mine, label=f"K={k}")[0]
            assert found.by_model[f"toy {backbone}"][i] == pytest.approx(alone)
    renamed = [{**row, "label": row["label"].replace("K=10", "ten")} for row in rows]
    assert plots.k_ablation_data(columns_of(renamed)).curves.x.tolist() == [1, 2, 3]
    study = quick("k-ablation")
    ten = replace(study.entries[4], label="ten")
    study = replace(study, entries=(*study.entries[:4], ten))
    again = plots.k_ablation_data((study, Frame.of(renamed))).curves
    assert again.x.tolist() == [1, 2, 3, 10]


@pytest.mark.parametrize("seed", range(6))
def test_differences_and_verdicts_are_those_of_the_table(seed):
    rows = budget_rows(seed)
    found = plots.difference_rows(budget_run(rows), where={"budget": 100})
    assert [row["label"] for row in found] == ["none", "srts-bce"]
    drawn = forest_data(found).rows
    study, frame = budget_run(rows)
    one = replace(study, metrics=("ece15",))
    table = {row[1]: row[2:] for row in differences(one, frame.where(budget=100)).rows}
    curve = plots.budget_curve_data((study, frame))
    for row, mark in zip(found, drawn, strict=True):
        near = nested(tree_of(gaps_of(rows, row["label"], budget=100)), n_boot=N_BOOT)
        assert set(row) == {"label", "value", "low", "high"}
        ends = [row[name] for name in ("value", "low", "high")]
        assert ends == pytest.approx([100 * v for v in (near.point, *near)])
        verdict, number = table[row["label"]]
        assert ends == [number.value, number.low, number.high]
        assert (mark.wide_low, mark.wide_high) == (number.low, number.high)
        line = curve.line(row["label"])
        assert ends == [line.difference[0], line.low[0], line.high[0]]
        assert f"{mark.verdict}: ECE" == verdict == f"{line.verdict[0]}: ECE"
    labels = [row["label"] for row in plots.difference_rows(budget_run(rows))]
    assert labels[0] == "none, 100 samples"
    assert len(labels) == 4


def test_whole_splits_of_any_size_are_one_interval_in_tables_and_figures():
    rows = k_rows()
    run = (quick("k-ablation"), Frame.of(rows))
    (table,) = (t for t in tables_of(*run) if t.name == "differences")
    found = plots.difference_rows(run, metric="ece15")
    assert [row[1] for row in table.rows] == [row["label"] for row in found]
    numbers = [[row[3].value, row[3].low, row[3].high] for row in table.rows]
    assert numbers == [[row[name] for name in ("value", "low", "high")] for row in found]


def test_a_difference_of_a_single_fit_has_no_interval():
    rows = [row for row in budget_rows() if row["backbone"] == "a" and row["budget"] == 100]
    single = [row for row in rows if row["seed"] == 0 and row["draw"] == 0]
    assert plots.difference_rows(budget_run(single)) == []


def test_a_rank_correlation_is_the_same_in_the_table_and_the_figure():
    pytest.importorskip("matplotlib")
    run = (quick("heterogeneity"), Frame.of(shift_rows()))
    (table,) = tables_of(*run)
    legend = plots.corruption_gain(run).get_legend()
    for text in legend.get_texts():
        model, _, correlation = text.get_text().partition(": ")
        assert re.fullmatch(r"[-+]\d\.\d\d( \[[-+]\d\.\d\d, [-+]\d\.\d\d\])?", correlation)
        (said,) = (line for line in table.sentences if line.startswith(f"{model}, "))
        assert said.endswith(f"its rank correlation with the raw error is {correlation}.")


# What figures say they are of.


BOOT = f"95 % intervals from {N_BOOT} resamples of models, of seeds in each, of"

FEW = " Of so few models they are too narrow."


def caption_of(axes):
    return " ".join(axes.get_title(loc="left").split())


def figures_of(name, rows):
    found = dict(study_figures(quick(name), Frame.of(rows)))
    found.pop("group-temperatures", None)  # these rows have none
    return {figure: draw() for figure, draw in found.items()}


def test_figures_name_budget_models_and_intervals():
    pytest.importorskip("matplotlib")
    found = figures_of("budget", budget_rows())
    who = "2 models, 4 cells"
    texts = {name: caption_of(axes) for name, axes in found.items()}
    assert texts == {
        "budget-curve": f"{who}; 3 draws of each budget Bands: {BOOT} draws in each.{FEW}",
        "differences-100": f"{who}; 3 draws of 100 samples Bars: {BOOT} draws in each.{FEW}",
        "differences-400": f"{who}; 3 draws of 400 samples Bars: {BOOT} draws in each.{FEW}",
    }
    for row in (sized := signed_rows()):
        row["budget"] = 1250
    whole = "fitted on whole splits of 1,250 samples"
    (axes,) = figures_of("shift", sized).values()
    assert caption_of(axes) == f"{who}; {whole} Bands: {BOOT} sets in each.{FEW}"
    found = figures_of("k-ablation", k_rows())
    split = "fitted on whole splits of 500 to 510 samples"
    assert caption_of(found["k-ablation"]) == (
        f"{who}; {split} Band, of the difference: {BOOT} draws in each.{FEW} "
        "Dashed: K=1; hollow: tie with it."
    )
    assert caption_of(found["differences"]) == f"{who}; {split} Bars: {BOOT} draws in each.{FEW}"
    found = figures_of("heterogeneity", sized)
    for name, axes in found.items():
        x = "gap" if name.endswith("gap") else "error"
        assert axes.get_legend().get_title().get_text() == (
            f"2 models; {whole}\nrank correlation of gain and {x} [95 % interval]"
        )


def test_a_figure_without_intervals_says_so():
    pytest.importorskip("matplotlib")
    single = [row for row in budget_rows() if (row["seed"], row["draw"]) == (0, 0)]
    rows = [row for row in single if row["backbone"] == "a"]
    axes = plots.budget_curve(budget_run(rows))
    assert caption_of(axes) == "toy a No intervals: each difference is of a single fit."


# What is given.


def test_rows_columns_outcomes_and_pairs_say_the_same():
    study, frame = budget_run()
    asked = {"where": {"budget": 100, "label": ["tva-ts", "none"]}}
    ways = [
        frame,
        Outcome(frame, (), ()),
        columns_of(budget_rows()),
        (study, Outcome(frame, (), ())),
    ]
    for way in ways:
        found = plots.budget_curve_data(way, **asked)
        assert [line.label for line in found.lines] == ["tva-ts", "none"]
        expected = mean_and_spread(budget_rows(), label="none", budget=100)[0]
        assert found.line("none").value.tolist() == pytest.approx([expected])


def test_another_baseline_turns_the_difference_round():
    one = plots.budget_curve_data(budget_run()).line("none")
    other = plots.budget_curve_data(budget_run(), baseline="none").line("tva-ts")
    assert other.difference == pytest.approx(-one.difference)


WRONG = {
    "a number": (lambda: 3, {}, "run must be a run's folder, its rows"),
    "no rows": (lambda: Frame.of([]), {}, "run has no rows"),
    "no folder": (lambda: "nowhere", {}, "nowhere holds no run"),
    "few columns": (
        lambda: {"cell": ["a"]},
        {},
        "run has the columns cell; it needs cell, dataset",
    ),
    "odd columns": (
        lambda: {**columns_of(budget_rows()), "colour": ["red"]},
        {},
        "run has the columns .*, colour; it needs cell",
    ),
    "lengths": (lambda: {**columns_of(budget_rows()), "draw": [1]}, {}, "differ in length"),
    "metric": (budget_run, {"metric": "nll"}, "metric 'nll' was not measured.*it has ece15"),
    "baseline": (budget_run, {"baseline": "x"}, "baseline 'x' was not measured.*it has tva-ts, no"),
    "where": (budget_run, {"where": {"size": 1}}, "where names 'size'; the columns are cell"),
    "where none": (budget_run, {"where": {"budget": 7}}, "run has no rows where {'budget': 7}"),
    "never all": (
        lambda: budget_run(
            [r for r in budget_rows() if (r["label"], r["budget"]) != ("none", 400)]
        ),
        {},
        "nothing was measured with every method at every budget",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_drawn_is_refused_in_one_line(case):
    if case == "no folder":
        pytest.importorskip("pyarrow")
    make, options, message = WRONG[case]
    with pytest.raises(ValueError, match=message) as caught:
        plots.budget_curve_data(make(), **options)
    assert "\n" not in str(caught.value)


def test_plots_along_something_else_ask_for_one_budget_and_for_what_they_draw():
    rows = [{**row, "budget": n} for n in (100, 250) for row in shift_rows()]
    two = (quick("shift"), Frame.of(rows))
    for draw in (plots.severity_curve_data, plots.corruption_gain_data):
        with pytest.raises(InputError, match=r"budgets 100, 250: choose one.*'budget': 250"):
            draw(two)
        with pytest.raises(InputError, match="has no shifted sets"):
            draw((quick("shift"), Frame.of(budget_rows())), where={"budget": 100})
        assert draw(two, where={"budget": 250}) is not None
    shifted = Frame.of([row for row in shift_rows() if row["set"] != "clean"])
    for draw in (plots.budget_curve_data, plots.k_ablation_data):
        with pytest.raises(InputError, match="shifted sets only; this plot is of clean samples"):
            draw((quick("shift"), shifted))
    with pytest.raises(InputError, match=r"says a number of groups, as K=3 does; it has tva-ts"):
        plots.k_ablation_data(budget_run(), where={"budget": 100})
    with pytest.raises(InputError, match="method 'hts' was not measured"):
        plots.corruption_gain_data(two, method="hts", where={"budget": 100})
    with pytest.raises(InputError, match="the uncalibrated model 'none' was not measured"):
        plots.corruption_gain_data(two, where={"budget": 100, "label": ["tva-ts", "srts-bce"]})


def test_failed_fits_are_not_drawn():
    failed = a_row(MODELS[0], 0, "srts-bce", math.nan, budget=250) | {"metric": "error", "set": ""}
    assert len(open_run(budget_run([*budget_rows(), failed]), "budget").frame) == len(budget_rows())


def test_the_twins_need_no_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plots.budget_curve_data(budget_run())
    plots.k_ablation_data(columns_of(k_rows()))
    with pytest.raises(ImportError, match=r"pip install 'smallcal\[plots\]'"):
        plots.budget_curve(budget_run())


# What is drawn.

DRAWN = {
    "budget": (plots.budget_curve, budget_run),
    "shift": (plots.severity_curve, lambda: (quick("shift"), Frame.of(shift_rows()))),
    "gain": (plots.corruption_gain, lambda: (quick("shift"), Frame.of(shift_rows()))),
    "groups": (plots.k_ablation, lambda: (quick("k-ablation"), Frame.of(k_rows()))),
}


@pytest.mark.parametrize("case", DRAWN)
def test_a_figure_is_the_same_twice_with_its_own_colours(case):
    pytest.importorskip("matplotlib")
    require_same(*DRAWN[case])


@pytest.mark.parametrize("case", DRAWN)
def test_axes_that_are_given_are_used(case):
    pytest.importorskip("matplotlib")
    require_axes(*DRAWN[case])
    draw, make = DRAWN[case]
    with pytest.raises(InputError, match="ax must be matplotlib axes"):
        draw(make(), ax=3)


@pytest.mark.parametrize("case", DRAWN)
def test_a_figure_makes_room_for_a_title_that_is_added(case):
    pytest.importorskip("matplotlib")
    draw, make = DRAWN[case]
    axes = draw(make())
    tops = []
    for title in ("", "of all"):
        axes.figure.suptitle(title)
        axes.figure.draw_without_rendering()
        tops.append(axes.get_position().y1)
    assert tops[1] < tops[0] - 0.01


def marks_of(axes, *, hollow):
    return [
        point
        for line in axes.lines
        if line.get_linestyle() == "None" and (line.get_markerfacecolor() == "none") == hollow
        for point in line.get_xydata().tolist()
    ]


def test_marks_are_hollow_in_a_tie_and_stand_where_the_numbers_are():
    pytest.importorskip("matplotlib")
    found = plots.budget_curve_data(budget_run())
    axes = plots.budget_curve(budget_run())
    for hollow in (False, True):
        expected = [
            [x, value]
            for line in found.lines
            for x, value, verdict in zip(found.x, line.value, line.verdict, strict=True)
            if (verdict == "tie") == hollow
        ]
        assert np.array(sorted(marks_of(axes, hollow=hollow))) == pytest.approx(
            np.array(sorted(expected))
        )
        assert expected


def test_a_method_far_from_the_others_leaves_the_scale_and_is_named():
    pytest.importorskip("matplotlib")
    rows = []
    for row in budget_rows():
        far = 0.5 if row["label"] == "none" else 0.0
        rows.append({**row, "value": row["value"] + far})
        if row["label"] == "srts-bce":
            rows.append({**row, "label": "hts-bce", "value": row["value"] + 0.001})
    gaps = plots.budget_curve(budget_run(rows)).figure.axes[1]
    assert gaps.get_title() == "off this scale: none"
    assert gaps.get_ylim()[1] < 10


def test_the_default_has_the_name_that_it_had_when_it_was_fitted():
    pytest.importorskip("matplotlib")
    rows = [
        {**row, "label": "default", "method": "some-method"} if row["label"] == "none" else row
        for row in budget_rows()
    ]
    legend = plots.budget_curve(budget_run(rows)).get_legend()
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["tva-ts (baseline)", "some-method", "srts-bce", "tie with tva-ts"]
    labels = [row["label"] for row in plots.difference_rows(budget_run(rows))]
    assert labels[0] == "some-method, 100 samples"


def test_what_is_asked_for_as_default_is_smallcal():
    rows = [
        {**row, "label": "smallcal"} if row["label"] == "none" else row for row in budget_rows()
    ]
    found = plots.budget_curve_data(budget_run(rows), baseline="default")
    assert found.baseline == "smallcal"
    for names in ("default", ["default", "tva-ts"]):
        some = plots.budget_curve_data(budget_run(rows), where={"label": names}, baseline="default")
        assert some.line("smallcal").label == "smallcal"
    shifted = [
        {**row, "label": "smallcal"} if row["label"] == "srts-bce" else row for row in shift_rows()
    ]
    run = (quick("shift"), Frame.of(shifted))
    assert plots.corruption_gain_data(run, method="default").method == "smallcal"


def test_intervals_of_many_methods_are_bars_side_by_side():
    pytest.importorskip("matplotlib")
    rows = [
        {**row, "label": f"{row['label']}{copy or ''}"}
        for copy in range(3)
        for row in budget_rows(copy)
    ]
    few, many = (plots.budget_curve(budget_run(some)).figure for some in (budget_rows(), rows))
    found = plots.budget_curve_data(budget_run(rows))
    bars = [c for c in many.axes[1].collections if hasattr(c, "get_segments")]
    drawn = [segment[:, 1].tolist() for bar in bars for segment in bar.get_segments()]
    expected = [
        [low, high]
        for line in found.lines[1:]
        for low, high in zip(line.low, line.high, strict=True)
    ]
    assert np.array(drawn) == pytest.approx(np.array(expected))
    assert not any(hasattr(c, "get_segments") for c in few.axes[1].collections)
    places = [bar.get_transform().transform((100.0, 0.0))[0] for bar in bars]
    assert np.diff(places) == pytest.approx(np.full(len(bars) - 1, np.diff(places)[0]))
    assert places[1] > places[0]


def test_many_models_share_one_look():
    pytest.importorskip("matplotlib")
    rows = [
        {**row, "backbone": f"{row['backbone']}{n}", "cell": f"{row['cell']}{n}"}
        for n in range(5)
        for row in shift_rows(n)
    ]
    axes = plots.corruption_gain((quick("shift"), Frame.of(rows)))
    assert axes.get_legend() is None
    assert re.match(r"10 models; rank correlations \S+ to \S+, median ", axes.get_title("left"))


# Which studies have which figures.


def test_every_study_with_a_table_that_can_be_drawn_has_a_figure():
    found = {
        name: [key for key, figure in FIGURES.items() if figure.suits(study)]
        for name, study in STUDIES.items()
    }
    assert found["budget"] == ["budget-curve", "differences"]
    assert found["shift"] == ["severity-curve"]
    gains = ["corruption-gain", "corruption-gain-raw-gap", "corruption-gain-baseline-gap"]
    assert found["heterogeneity"] == gains
    assert found["k-ablation"] == ["k-ablation", "group-temperatures", "differences"]
    assert found["k-ablation-nll"] == found["k-ablation"]
    assert found["audit"] == ["group-temperatures"]
    assert found["within-margin"] == ["within-margin"]
    assert found["risk-score"] == ["risk-density", "risk-confidence", "group-gaps"]
    assert found["risk-flow"] == ["risk-flow"]
    assert found["efficiency"] == []
    for name, study in STUDIES.items():
        assert ("differences" in study.tables) == ("differences" in found[name])
    page = (ROOT / "docs" / "lab" / "studies.md").read_text()
    for name in FIGURES:
        assert f"`{name}`" in page


def test_figures_that_are_of_one_budget_are_drawn_for_each():
    study, frame = budget_run()
    names = [name for name, _ in study_figures(study, frame)]
    assert names == ["budget-curve", "differences-100", "differences-400"]
    with pytest.raises(InputError, match="the study 'efficiency' has no figures"):
        next(study_figures(quick("efficiency"), frame))


# The command.


@pytest.fixture
def run_folder(cli, here):
    """A finished run of the study of budgets on two small models."""
    pytest.importorskip("pyarrow")
    Path("data").mkdir()
    for seed in (0, 1):
        (z, y), (tz, ty) = simulate(150, 5, seed=seed), simulate(200, 5, seed=10 + seed)
        arrays = {"val_logits": z, "val_labels": y, "test_logits": tz, "test_labels": ty}
        np.savez(f"data/a__mlp-seed{seed}.npz", **arrays)
    import_folder("data", "data")
    options = ("--budgets", "60,all", "--draws", "2", "--methods", "ts-nll", "--n-boot", "60")
    assert cli("study", "budget", "--data", "data", "--out", "run", *options)[0] == 0
    return "run"


def test_show_writes_the_figures_of_a_run(cli, run_folder):
    pytest.importorskip("matplotlib")
    names = ["budget-curve", "differences-60", "differences-all"]
    code, before, _ = cli("study", "show", run_folder)
    code, out, err = cli("study", "show", run_folder, "--figures", "new/figures")
    assert (code, err) == (0, "")
    files = [f"new/figures/{name}.svg" for name in names]
    assert out == before + "".join(f"Figure: {file}\n" for file in files)
    assert sorted(map(str, Path("new/figures").iterdir())) == files
    text = Path(files[0]).read_text()
    assert text.startswith("<svg")
    found = plots.budget_curve_data(run_folder)
    assert found.names == ("60", "all")
    asked = ("--figures", "png", "--format", "png", "--metric", "nll", "--json")
    code, out, _ = cli("study", "show", run_folder, *asked)
    assert code == 0
    assert json.loads(out)["figures"] == [f"png/{name}.png" for name in names]
    assert Path("png/budget-curve.png").read_bytes().startswith(b"\x89PNG")


REFUSED = [
    (["--figures", "f", "--format", "gif"], "--format must be one of svg, png; got 'gif'"),
    (["--metric", "nll"], "--metric is of figures; name a folder for them with --figures"),
    (["--figures", "f", "--metric", "luck"], "metric 'luck' was not measured in this run"),
    (["--figures", "data/a__mlp-seed0.npz"], "cannot make the folder data/a__mlp-seed0.npz"),
]


def test_figures_that_cannot_be_written_are_one_line(cli, run_folder, monkeypatch):
    pytest.importorskip("matplotlib")
    for options, message in REFUSED:
        code, _, err = cli("study", "show", run_folder, *options)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    assert not Path("f").exists()

    def fail(figure):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("smallcal_lab.cli.study_show.to_svg", fail)
    code, _, err = cli("study", "show", run_folder, "--figures", "f")
    assert code == 2
    assert "cannot write f/budget-curve.svg: No space left on device" in err
    assert list(Path("f").iterdir()) == []


def test_without_matplotlib_the_command_says_what_to_install(cli, run_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, out, err = cli("study", "show", run_folder, "--figures", "f")
    assert (code, out) == (2, "")
    assert err.endswith(
        "needs the package 'matplotlib': pip install 'smallcal[plots]' [missing-extra]\n"
    )
    assert not Path("f").exists()


def test_a_figure_that_cannot_be_drawn_is_told_and_the_others_are_written(cli, here):
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    Path("data").mkdir()
    (z, y), (tz, ty) = simulate(150, 5, seed=0), simulate(200, 5, seed=10)
    arrays = {"val_logits": z, "val_labels": y, "test_logits": tz, "test_labels": ty}
    np.savez("data/a__mlp.npz", **arrays)
    import_folder("data", "data")
    options = ("--budgets", "60,all", "--draws", "2", "--methods", "ts-nll", "--n-boot", "60")
    assert cli("study", "budget", "--data", "data", "--out", "run", *options)[0] == 0
    code, _, err = cli("study", "show", "run", "--figures", "f")
    assert code == 0
    assert "no figure differences-all: no difference has an interval" in err
    assert sorted(path.name for path in Path("f").iterdir()) == [
        "budget-curve.svg",
        "differences-60.svg",
    ]
