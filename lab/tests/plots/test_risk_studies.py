"""Plots of studies of the routing score: numbers of a plain loop, and what is drawn."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from smallcal.errors import InputError
from smallcal_lab import plots
from smallcal_lab.plots.figures import study_figures
from smallcal_lab.statistics.nested import nested
from smallcal_lab.studies import import_folder, study_named
from smallcal_lab.studies.frame import Frame
from support.figures import require_axes, require_same
from support.simulated import simulate

N_BOOT = 200
MODELS, SEEDS = (("toy", "a"), ("toy", "b")), (0, 1)


def cells_of(models=MODELS):
    for (dataset, backbone), seed in itertools.product(models, SEEDS):
        cell = f"{dataset}__{backbone}__s{seed}"
        yield {"cell": cell, "dataset": dataset, "backbone": backbone, "seed": seed, "budget": 400}


def run_of(name, rows):
    return replace(study_named(name), n_boot=N_BOOT), Frame.of(rows)


def margin_rows(sets=(("fog", 1), ("fog", 3), ("blur", 1), ("blur", 3))):
    rng = np.random.default_rng(0)
    parts = {"": 0.03, "_margin_low": 0.06, "_margin_mid": 0.02, "_margin_high": 0.01}
    rows = []
    for about, (kind, severity) in itertools.product(cells_of(), [("clean", 0), *sets]):
        where = {"set": kind, "severity": severity}
        for label, better in (("tva-ts", 1.0), ("margin-k3", 0.9), ("srts-bce", 0.5)):
            for part, size in parts.items():
                value = better * size * (1 + severity) + rng.normal(0, 0.001)
                one = {"label": label, "metric": f"ece15{part}", "value": value}
                rows.append({**about, **where, **one})
    return rows


def score_rows(models=MODELS, bins=20):
    """Rows of the study of the risk score, all numbers made up."""
    rng = np.random.default_rng(1)
    rows = []
    for about in cells_of(models):
        found = {"auroc_risk": rng.uniform(0.8, 0.9), "auroc_confidence": rng.uniform(0.7, 0.8)}
        for name in ("right", "wrong"):
            shares = rng.dirichlet(np.ones(bins))
            shares[3] = 0.0  # nothing there, which a scale of logarithms must bear
            shares /= shares.sum()
            found |= {f"share_of_{name}_bin{i:02d}": share for i, share in enumerate(shares)}
        for i in range(10):
            found |= {f"error_by_{name}{i}": rng.random() for name in ("risk", "confidence")}
            found[f"confidence_by_confidence{i}"] = 1 - 0.05 * i
            low, middle, high = np.sort(rng.random(3))
            found |= {f"risk_low_by_confidence{i}": low, f"risk_middle_by_confidence{i}": middle}
            found[f"risk_high_by_confidence{i}"] = high
        for group in range(3):
            found |= {f"{n}_group{group}": rng.random() for n in ("accuracy", "gap_one", "gap")}
            found |= {f"temperature{group}": 1 + group, f"share_of_group{group}": 1 / 3}
            for i in range(group, 10):  # the first has all bins, the others fewer
                at = f"group{group}_bin{i}"
                found |= {f"{name}_{at}": rng.random() for name in ("accuracy", "confidence")}
                found[f"share_of_{at}"] = 0.03
        about |= {"label": "srts-bce", "set": "clean"}
        rows += [{**about, "metric": name, "value": value} for name, value in found.items()]
    return rows


def flow_rows(paired=True):
    rng = np.random.default_rng(2)
    rows = []
    for about in cells_of():
        severities = (1, 5) if about["backbone"] == "a" else (1,)
        for severity in (0, *severities):
            kinds = ("fog", "blur") if severity else ("clean",)
            for kind in kinds:
                found = {"mean_risk": 0.1 + 0.05 * severity + 0.01 * about["seed"]}
                shares = rng.dirichlet(np.ones(9)).reshape(3, 3)
                found |= {f"share_of_group{j}": shares[:, j].sum() for j in range(3)}
                if severity and paired:
                    pairs = itertools.product(range(3), range(3))
                    found |= {f"flow_{i}_to_{j}": shares[i, j] for i, j in pairs}
                where = {"label": "srts-bce", "set": kind, "severity": severity}
                rows += [{**about, **where, "metric": n, "value": v} for n, v in found.items()]
    return rows


def temperature_rows(models=MODELS):
    rng = np.random.default_rng(3)
    rows = []
    for about, k in itertools.product(cells_of(models), (1, 2, 3)):
        found = {f"temperature{i}": rng.uniform(1, 2) for i in range(k)}
        found |= {"pooled_temperature": 1.0 + about["seed"], "ece15": 0.01}
        about = {**about, "label": f"K={k}", "set": "clean"}
        rows += [{**about, "metric": name, "value": value} for name, value in found.items()]
    return rows


def mean(rows, metric, **wanted):
    """Return the mean over cells of the mean over a cell's rows."""
    found = {}
    for row in rows:
        if row["metric"] == metric and all(row[key] == value for key, value in wanted.items()):
            found.setdefault(row["cell"], []).append(row["value"])
    return statistics.fmean(statistics.fmean(values) for values in found.values())


# Numbers.


def test_a_metric_within_a_margin_has_the_numbers_of_a_plain_loop():
    rows = margin_rows()
    found = plots.within_margin_data(run_of("within-margin", rows))
    assert (found.names, found.baseline) == (("low", "mid", "high"), "tva-ts")
    shifted = [row for row in rows if row["set"] != "clean"]
    for line, (i, part) in itertools.product(found.lines, enumerate(found.names)):
        name = f"ece15_margin_{part}"
        assert line.value[i] == pytest.approx(100 * mean(shifted, name, label=line.label))
    gaps = {}
    ours, theirs = (
        {(r["cell"], r["set"], r["severity"]): r["value"] for r in some}
        for some in (
            [r for r in shifted if r["metric"] == "ece15_margin_low" and r["label"] == label]
            for label in ("srts-bce", "tva-ts")
        )
    )
    for key in ours:
        gaps.setdefault(key[0].rpartition("__")[0], {}).setdefault(key[0], []).append(
            100 * (ours[key] - theirs[key])
        )
    tree = [list(seeds.values()) for seeds in gaps.values()]
    interval = nested(tree, n_boot=N_BOOT)
    line = found.line("srts-bce")
    assert (line.low[0], line.high[0]) == pytest.approx((interval.low, interval.high))
    assert line.verdict[0] == "better"
    clean = plots.within_margin_data(run_of("within-margin", rows), where={"set": "clean"})
    expected = 100 * mean(rows, "ece15_margin_low", label="tva-ts", set="clean")
    assert clean.line("tva-ts").value[0] == pytest.approx(expected)
    assert "clean samples" in clean.fitted
    assert "shifted sets" in found.fitted


def test_densities_are_means_over_cells():
    rows = score_rows()
    found = plots.risk_density_data(run_of("risk-score", rows))
    assert found.edges.tolist() == pytest.approx(np.linspace(0, 1, 21))
    for outcome in ("right", "wrong"):
        share = found.shares["srts-bce"][outcome]
        assert share.sum() == pytest.approx(100)
        for i in range(20):
            assert share[i] == pytest.approx(100 * mean(rows, f"share_of_{outcome}_bin{i:02d}"))
    assert found.auroc["srts-bce"] == pytest.approx(100 * mean(rows, "auroc_risk"))


def test_risk_by_confidence_and_groups_are_means_over_cells():
    rows = score_rows()
    found = plots.risk_confidence_data(run_of("risk-score", rows))
    for i in range(10):
        for name in ("low", "middle", "high"):
            expected = 100 * mean(rows, f"risk_{name}_by_confidence{i}")
            assert getattr(found, name)[i] == pytest.approx(expected)
        for name in ("risk", "confidence"):
            assert found.errors[name][i] == pytest.approx(100 * mean(rows, f"error_by_{name}{i}"))
    groups = plots.group_gaps_data(run_of("risk-score", rows))
    assert groups.temperature.tolist() == [1, 2, 3]
    for g in range(3):
        assert groups.gap_at_one[g] == pytest.approx(100 * mean(rows, f"gap_one_group{g}"))
        assert groups.gap[g] == pytest.approx(100 * mean(rows, f"gap_group{g}"))
        assert np.isnan(groups.accuracy[g, :g]).all()
        for i in range(g, 10):
            expected = 100 * mean(rows, f"accuracy_group{g}_bin{i}")
            assert groups.accuracy[g, i] == pytest.approx(expected)


def test_a_flow_is_of_the_cells_that_have_its_severity():
    rows = flow_rows()
    found = plots.risk_flow_data(run_of("risk-flow", rows))
    assert found.severity == 5
    assert found.shares.sum() == pytest.approx(100)
    for i, j in itertools.product(range(3), range(3)):
        expected = 100 * mean(rows, f"flow_{i}_to_{j}", severity=5)
        assert found.shares[i, j] == pytest.approx(expected)
    assert found.mean_risk == pytest.approx((0.105, 0.355))
    assert found.about.startswith("toy a, 2 seeds")
    first = plots.risk_flow_data(run_of("risk-flow", rows), severity=1)
    assert first.about.startswith("2 models, 4 cells")
    with pytest.raises(InputError, match=r"severity '2' was not measured.*it has 1, 5"):
        plots.risk_flow_data(run_of("risk-flow", rows), severity=2)
    with pytest.raises(InputError, match="the flow of 'hts' was not measured"):
        plots.risk_flow_data(run_of("risk-flow", rows), method="hts")


def test_temperatures_of_several_models_are_relative_to_one_for_all():
    rows = temperature_rows()
    found = plots.group_temperatures_data(run_of("k-ablation-nll", rows))
    assert (found.relative, found.pooled) == (True, 1.0)
    for k in (1, 2, 3):
        for i in range(k):
            each = [
                row["value"] / (1.0 + row["seed"])
                for row in rows
                if (row["label"], row["metric"]) == (f"K={k}", f"temperature{i}")
            ]
            expected = np.quantile(each, [0.5, 0.25, 0.75])
            assert found.temperatures[f"K={k}"][i] == pytest.approx(expected)
    one = plots.group_temperatures_data(run_of("k-ablation-nll", temperature_rows(MODELS[:1])))
    assert (one.relative, one.pooled) == (False, 1.5)
    assert 1 <= one.temperatures["K=3"][2, 0] <= 2


def test_a_method_alone_can_be_drawn():
    rows = [
        {**row, "label": "margin-k3"}
        for row in flow_rows()
        if row["metric"] != "mean_risk" and row["backbone"] == "a"
    ]
    run = run_of("risk-flow", [*flow_rows(), *rows])
    found = plots.risk_flow_data(run, where={"label": "margin-k3"})
    assert (found.label, found.about.partition(";")[0]) == ("margin-k3", "toy a, 2 seeds")
    assert np.isnan(found.mean_risk).all()
    other = plots.risk_flow_data(run, method="margin-k3")
    np.testing.assert_array_equal(other.shares, found.shares)
    scores = [{**row, "label": "features-k3"} for row in score_rows()]
    assert list(plots.risk_density_data(run_of("risk-score", scores)).shares) == ["features-k3"]


def test_what_a_run_does_not_have_is_one_line():
    bare = [
        {**about, "label": "tva-ts", "metric": "ece15", "value": 0.1, "set": "clean"}
        for about in cells_of()
    ]
    for draw, study, message in (
        (plots.within_margin_data, "within-margin", "no ece15 within thirds of the margin"),
        (plots.risk_density_data, "risk-score", "no bins of risk"),
        (plots.risk_confidence_data, "risk-score", "the risk of 'tva-ts' was not measured"),
        (plots.group_gaps_data, "risk-score", "groups of 'tva-ts' was not measured"),
        (plots.risk_flow_data, "risk-flow", "no shifted set that is paired"),
        (plots.group_temperatures_data, "k-ablation-nll", "no temperatures of groups"),
    ):
        about = replace(study_named(study), baseline="tva-ts")
        with pytest.raises(InputError, match=message) as told:
            draw((about, Frame.of(bare)))
        assert "\n" not in str(told.value)
    unpaired = run_of("risk-flow", flow_rows(paired=False))
    with pytest.raises(InputError, match="no shifted set that is paired"):
        plots.risk_flow_data(unpaired)


# What is drawn.

DRAWN = {
    "margin": (plots.within_margin, lambda: run_of("within-margin", margin_rows())),
    "density": (plots.risk_density, lambda: run_of("risk-score", score_rows())),
    "confidence": (plots.risk_confidence, lambda: run_of("risk-score", score_rows())),
    "gaps": (plots.group_gaps, lambda: run_of("risk-score", score_rows())),
    "flow": (plots.risk_flow, lambda: run_of("risk-flow", flow_rows())),
    "temperatures": (
        plots.group_temperatures,
        lambda: run_of("k-ablation-nll", temperature_rows()),
    ),
}


@pytest.mark.parametrize("case", DRAWN)
def test_a_figure_is_the_same_twice_with_its_own_colours(case):
    pytest.importorskip("matplotlib")
    require_same(*DRAWN[case])


@pytest.mark.parametrize("case", DRAWN)
def test_axes_that_are_given_are_used(case):
    pytest.importorskip("matplotlib")
    require_axes(*DRAWN[case])


def test_ribbons_are_as_wide_as_their_shares():
    pytest.importorskip("matplotlib")
    run = run_of("risk-flow", flow_rows())
    shares = plots.risk_flow_data(run).shares
    axes = plots.risk_flow(run)
    widths = []
    for ribbon in axes.collections:
        outline = ribbon.get_paths()[0].vertices
        left = outline[np.isclose(outline[:, 0], outline[:, 0].min())]
        widths.append(np.ptp(left[:, 1]))
    assert widths == pytest.approx(shares.ravel())


# The command.


def test_show_writes_the_figures_without_the_logits(cli, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    Path("data/shift").mkdir(parents=True)
    (z, y), (tz, ty) = simulate(300, 5, seed=0), simulate(300, 5, seed=1)
    arrays = {"val_logits": z, "val_labels": y, "test_logits": tz, "test_labels": ty}
    np.savez("data/a__mlp.npz", **arrays)
    np.savez("data/shift/a__mlp__fog-s2.npz", logits=0.5 * tz, labels=ty)
    import_folder("data", "data")
    names = {
        "risk-score": ["group-gaps", "risk-confidence", "risk-density"],
        "risk-flow": ["risk-flow"],
        "within-margin": ["within-margin"],
        "k-ablation-nll": ["group-temperatures", "k-ablation"],
    }
    for name in names:
        few = ("--methods", "margin-k3") if name == "within-margin" else ()
        assert cli("study", name, "data", "--out", name, "--n-boot", "20", *few)[0] == 0
    for file in Path("data").rglob("*.npz"):
        file.unlink()
    for name, figures in names.items():
        assert cli("study", "show", name, "--figures", f"f/{name}")[0] == 0
        assert set(figures) <= {path.stem for path in Path(f"f/{name}").iterdir()}
    assert [n for n, _ in study_figures(*run_of("risk-flow", flow_rows()))] == ["risk-flow"]
