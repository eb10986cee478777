"""The report: its numbers against other routes, its words against known truths, its files."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import smallcal as sc
from smallcal import plots
from smallcal.calibrators.catalogue import ALIASES
from smallcal.data.plain import plain
from smallcal.data.predictions import Predictions
from smallcal.data.shown import markdown as escaped
from smallcal.data.shown import visible
from smallcal.metrics import METRICS, Scored
from smallcal.metrics.debiased import debiased_ece
from smallcal.reports.content import gather as content_module
from smallcal.reports.content.groups import worst
from smallcal.reports.content.measure import measure
from smallcal.reports.content.shown import COMPARED, SHOWN
from smallcal.reports.render.blocks import Cell, Column, Command, Download, Figure, Row, Table
from smallcal.reports.render.markdown import code, render, table
from smallcal.reports.render.sections import document_of
from smallcal.reports.samples import samples_of
from smallcal.reports.settings import Settings
from smallcal.statistics.gaps import exact_p_values, gaps_of
from support.refused import refused
from support.simulated import simulate

METHODS = ("none", "ts-nll", "srts-bce", "default")
DEFAULT = ALIASES["default"]
NASTY = ["<script>alert(1)</script>", "a|b", "two\nlines", "`x` *y* _z_", "[l](http://e)"]


@cache
def samples():
    """Calibration and test samples of an over-confident model of five classes."""
    return simulate(400, 5, temperature=2.5, seed=0), simulate(700, 5, temperature=2.5, seed=1)


@cache
def made(**options):
    settings = {"methods": METHODS, "n_boot": 100, "class_names": tuple(NASTY), **options}
    return sc.report(*samples(), **settings)


def row_of(report, method):
    return next(r for r in report.content["metrics"]["rows"] if r["method"] == method)


def probas():
    (z, y), (tz, _) = samples()
    return {
        name: sc.Calibrator(method=name).fit(z, y).predict_proba(tz)
        for name in Settings(methods=METHODS).names
    }


def texts(report):
    verdict = report.content["verdict"]
    return " ".join([*(f["text"] for f in verdict["findings"]), *verdict["facts"]])


def test_the_keys_are_those_that_the_module_documents():
    documented = re.findall(r"^``(\w+)``(?:, ``(\w+)``)?", content_module.__doc__, re.MULTILINE)
    names = [name for pair in documented for name in pair if name]
    assert names == list(made().content)


def test_metrics_and_intervals_are_those_of_compare():
    _, (_, ty) = samples()
    found = sc.compare(ty, probas(), baseline="none", metrics=SHOWN, n_boot=100)
    for name in Settings(methods=METHODS).names:
        row = row_of(made(), name)
        assert row["points"] == pytest.approx(sc.evaluate(ty, probas()[name]), rel=1e-12)
        for metric in SHOWN:
            cell, interval = row["cells"][metric], found.value_intervals[name][metric]
            assert [cell["value"], cell["low"], cell["high"]] == [interval.point, *interval]


def test_measuring_scores_the_predictions_of_each_method_once(monkeypatch):
    cal, test = (samples_of(given, role="samples") for given in samples())
    names = Settings(methods=METHODS).names
    built, start = [], Scored.__init__

    def counted(self, **arrays):
        built.append(arrays["proba"].shape)
        start(self, **arrays)

    monkeypatch.setattr(Scored, "__init__", counted)
    found = measure(names, cal, test, bootstrap=(100, 0.95, 0))
    assert built == [test.preds.logits.shape] * len(names)
    assert list(found.fits) == list(names)


@pytest.mark.parametrize("baseline", ["none", "ts-nll"])
def test_differences_from_either_baseline_are_those_of_compare(baseline):
    _, (_, ty) = samples()
    found = sc.compare(ty, probas(), baseline=baseline, metrics=COMPARED, n_boot=100)
    entry = next(e for e in made().content["differences"] if e["baseline"] == baseline)
    assert {row["method"] for row in entry["rows"]} == set(found.intervals)
    for row in entry["rows"]:
        for metric, cell in row["metrics"].items():
            interval = found.intervals[row["method"]][metric]
            assert cell["value"] == pytest.approx(interval.point, abs=1e-15)
            ends = [math.nan if end is None else end for end in (cell["low"], cell["high"])]
            assert ends == pytest.approx(list(interval), abs=1e-15, nan_ok=True)
            assert cell["note"] == interval.note
            one_side = interval.excludes_zero
            assert (cell["verdict"] != "tie") == one_side
            if one_side:
                good = (cell["value"] < 0) == (METRICS[metric].better == "lower")
                assert cell["verdict"] == ("better" if good else "worse")


def test_floors_are_those_of_a_calibrated_model():
    """Labels drawn from the probabilities show, on average, the floor that is reported."""
    proba = probas()["ts-nll"]
    rng = np.random.default_rng(5)
    drawn = []
    for _ in range(200):
        y = (proba.cumsum(axis=1) > rng.random((len(proba), 1))).argmax(axis=1)
        drawn.append(sc.evaluate(y, proba, metrics=["ece15"])["ece15"])
    cell = row_of(made(), "ts-nll")["cells"]["ece15"]
    assert cell["floor"] == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / math.sqrt(200))
    assert cell["floor_high"] > cell["floor"]
    assert row_of(made(), "ts-nll")["cells"]["nll"]["floor"] is None


def test_an_overconfident_model_is_called_so_and_calibrated():
    report = made()
    assert report.content["verdict"]["outcome"] == "better"
    assert report.recommended == DEFAULT
    assert report.content["verdict"]["asked"] == "default"
    assert "The uncalibrated model is overconfident" in texts(report)
    assert report.content["verdict"]["headline"].startswith(f"Use {DEFAULT}")
    assert "before these test samples were used" in report.content["verdict"]["reason"]
    assert "Only 700 test samples" in texts(report)


def test_an_underconfident_model_is_called_so():
    report = sc.report(
        simulate(400, 5, temperature=0.5, seed=2),
        simulate(700, 5, temperature=0.5, seed=3),
        methods=["tva-ts"],
        n_boot=100,
    )
    assert "The uncalibrated model is underconfident" in texts(report)
    assert report.recommended == "tva-ts"
    assert "fewest parameters" in report.content["verdict"]["reason"]


def test_an_honest_model_is_kept():
    cal, test = (
        simulate(400, 5, temperature=1.0, seed=2),
        simulate(2000, 5, temperature=1.0, seed=3),
    )
    report = sc.report(cal, test, methods=["ts-nll", "default"], n_boot=100)
    assert "no more than noise" in texts(report)
    assert report.content["verdict"]["outcome"] == "tie"
    headline = report.content["verdict"]["headline"]
    assert headline.startswith(f"Use {DEFAULT} or the uncalibrated model")
    plain_names = sc.report(cal, test, methods=["ts-nll"], n_boot=100)
    assert plain_names.recommended == "none"
    assert "no method here beats" in plain_names.content["verdict"]["reason"]


def test_harm_is_told_and_nothing_is_chosen_on_the_test_samples():
    """Calibrated where the model was far too sure, used where it is honest: calibration hurts."""
    report = sc.report(
        simulate(600, 5, temperature=3.0, seed=2),
        simulate(1500, 5, temperature=1.0, seed=3),
        methods=["ts-nll", "default"],
        n_boot=100,
    )
    verdict = report.content["verdict"]
    assert (report.recommended, verdict["basis"], verdict["outcome"]) == (
        DEFAULT,
        "default",
        "worse",
    )
    assert verdict["headline"].startswith(f"Do not ship {DEFAULT} yet.")
    assert verdict["ship"] is None
    assert verdict["rival"] is None or verdict["rival"]["method"] == "ts-nll"
    assert "is left" not in texts(report)
    assert "Judged: " in report.to_markdown()
    (bad,) = [f["text"] for f in verdict["findings"] if f["level"] == "bad"]
    assert bad.startswith("Worse than the uncalibrated model beyond chance: ECE (+")
    said = "ts-nll is worse than the uncalibrated model in"
    assert any(fact.startswith(said) for fact in verdict["facts"])


def test_the_same_samples_twice_are_told():
    cal, _ = samples()
    report = sc.report(cal, cal, methods=["ts-nll"], n_boot=100)
    bad = [f for f in report.content["verdict"]["findings"] if f["level"] == "bad"]
    assert "the same, so every result is too good" in bad[0]["text"]


def test_small_splits_are_told():
    z, y = simulate(60, 3, seed=4)
    report = sc.report((z, z.argmax(axis=1)), (z, y), methods=["ts-nll"], n_boot=100)
    assert "Only 60 calibration samples" in texts(report)
    assert "Only 0 of 60 calibration samples are predicted wrong" in texts(report)
    assert "ts-nll (group 0), unidentified: " in texts(report)


@given(
    n=st.integers(1, 60),
    share=st.floats(0, 1),
    confidence=st.floats(0.01, 0.99),
)
def test_gaps_are_exact_by_scipys_own_test(n, share, confidence):
    right = round(share * n)
    proba = np.tile([confidence, 1 - confidence], (n, 1))
    top = int(confidence < 0.5)
    labels = np.where(np.arange(n) < right, top, 1 - top)
    view = Scored.of(labels, proba)
    sure = max(confidence, 1 - confidence)
    (row,) = gaps_of(view, view, np.zeros(n, dtype=np.int64), ["all"], level=0.9)
    limits = binomtest(right, n).proportion_ci(0.9, method="exact")
    assert (row.low, row.high) == pytest.approx((sure - limits.high, sure - limits.low), abs=1e-7)
    law = [math.comb(n, k) * sure**k * (1 - sure) ** (n - k) for k in range(n + 1)]
    twice = 2 * min(sum(law[: right + 1]), sum(law[right:]))
    assert row.p_value == pytest.approx(min(1.0, twice), rel=1e-6, abs=1e-12)
    assert (row.n, row.n_correct, row.raw_gap) == (n, right, pytest.approx(sure - right / n))


@given(n=st.integers(1, 200), share=st.floats(0, 1), chance=st.floats(0.02, 0.98))
def test_the_exact_test_and_the_exact_interval_agree(n, share, chance):
    right = round(share * n)
    (p,) = exact_p_values(np.array([float(right)]), np.array([n]), np.array([chance]))
    limits = binomtest(right, n).proportion_ci(0.95, method="exact")
    margin = min(abs(limits.low - chance), abs(limits.high - chance))
    if margin > 1e-6:
        assert (p < 0.05) == (not limits.low < chance < limits.high)


def test_classes_add_up_and_a_bad_one_is_found():
    z, y = simulate(3000, 4, temperature=1.0, seed=7)
    predicted = z.argmax(axis=1)
    bad = predicted == 2
    y = np.where(bad & (np.random.default_rng(0).random(3000) < 0.5), (predicted + 1) % 4, y)
    honest = simulate(400, 4, temperature=1.0, seed=8)
    report = sc.report(honest, (z, y), methods=["none"], n_boot=100, class_names=list("abcd"))
    rows = report.content["classes"]["rows"]
    assert rows[0]["group"] == "c"
    assert rows[0]["off"]
    assert rows[0]["gap"] > 0.3
    assert sum(row["n"] for row in rows) == sum(row["n_true"] for row in rows) == 3000
    total = sum(row["n"] * row["gap"] for row in rows) / 3000
    assert total == pytest.approx(row_of(report, "none")["points"]["confidence_gap"], abs=1e-12)
    assert [row["p_value"] for row in rows] == sorted(row["p_value"] for row in rows)
    assert {"by": "predicted class", "group": "c"}.items() <= (
        report.content["groups"]["worst"][0].items()
    )


def test_groups_are_those_of_the_calibrator():
    (z, y), (tz, ty) = samples()
    srts = sc.SRTS().fit(z, y)
    paper = sc.report((z, y), (tz, ty), methods=["srts-bce"], n_boot=100)
    assert paper.recommended == "srts-bce"
    tables = {t["by"]: t["rows"] for t in paper.content["groups"]["tables"]}
    proba = srts.predict_proba(tz)
    for i, row in enumerate(tables["groups of srts-bce"]):
        member = srts.group(tz) == i
        assert row["n"] == member.sum()
        assert row["gap"] == pytest.approx(
            proba.max(axis=1)[member].mean() - (tz.argmax(axis=1) == ty)[member].mean()
        )
        assert row["ece15"] == pytest.approx(
            sc.evaluate(ty[member], proba[member], metrics=["ece15"])["ece15"]
        )
        told = row["ece15_note"] or row["ece15_low"] <= row["ece15_high"]
        assert told in ("too few errors to tell", "too few right predictions to tell", True)
    tables = {t["by"]: t["rows"] for t in made().content["groups"]["tables"]}
    proba = probas()[DEFAULT]
    assert list(tables) == [f"confidence of {DEFAULT}"]
    bands = tables[f"confidence of {DEFAULT}"]
    low = proba.max(axis=1) < 0.5
    assert [row["n"] for row in bands if row["group"] == "0 to 50 %"] == [low.sum()]


def test_worst_groups_are_only_those_beyond_chance():
    rows = [{"group": str(i), "gap": g, "off": i != 1} for i, g in enumerate([0.1, 0.9, -0.3])]
    found = worst([{"by": "x", "rows": rows}], [], limit=5)
    assert [row["group"] for row in found] == ["2", "0"]
    assert worst([{"by": "x", "rows": rows}], [], limit=1) == found[:1]


def test_routing_shows_thresholds_temperatures_occupancy_and_weights():
    (z, y), (tz, _) = samples()
    srts = sc.SRTS().fit(z, y)
    entry = next(e for e in made().content["routing"] if e["method"] == "srts-bce")
    assert [band["temperature"] for band in entry["bands"]] == srts.temperatures_.tolist()
    assert [band["to"] for band in entry["bands"][:-1]] == srts.thresholds_.tolist()
    assert [band["test_share"] for band in entry["bands"]] == pytest.approx(
        (np.bincount(srts.group(tz), minlength=3) / len(tz)).tolist()
    )
    assert sum(band["calibration_share"] for band in entry["bands"]) == pytest.approx(1)
    assert [w["weight"] for w in entry["weights"]] == srts.coef_.tolist()
    assert sum(w["share"] for w in entry["weights"]) == pytest.approx(1)
    assert entry["intercept"] == srts.intercept_
    (regressed,) = made(methods=("class-linear",)).content["routing"]
    fitted = sc.Calibrator(method="class-linear").fit(z, y)
    median = np.median(fitted.temperature(tz))
    assert regressed["test_temperature"]["0.5"] == pytest.approx(median)
    assert regressed["class_effects"]["low"] <= regressed["class_effects"]["high"]
    assert {e["class"] for e in regressed["class_effects"]["strongest"]} <= set(NASTY)
    others = {"none", "ts-nll", DEFAULT}
    assert others.isdisjoint(e["method"] for e in made().content["routing"])


def test_shifted_samples_are_measured_with_the_same_fits():
    cal, _ = samples()
    z, y = simulate(300, 5, temperature=4.0, seed=9)
    report = made(shift=None)
    assert report.content["shift"] is None
    report = sc.report(
        *samples(), methods=METHODS, n_boot=100, shift={("fog", 3): (z, y), "night": (z, y)}
    )
    fog, night = report.content["shift"]
    assert (fog["kind"], fog["severity"], night["kind"], night["severity"]) == (
        *("fog", "3"),
        *("night", ""),
    )
    fitted = sc.Calibrator().fit(*cal)
    after = sc.evaluate(y, fitted.predict_proba(z))
    before = sc.evaluate(y, sc.Identity().fit(*cal).predict_proba(z))
    assert fog["values"][DEFAULT]["ece15"]["plain"] == pytest.approx(after["ece15"])
    assert fog["differences"]["nll"]["value"] == pytest.approx(after["nll"] - before["nll"])
    assert fog["differences"]["nll"]["verdict"] == "better"
    assert fog["accuracy"] == before["accuracy"]
    halves = zip(fog["occupancy"], fog["calibration_occupancy"], strict=True)
    assert fog["moved"] == pytest.approx(sum(abs(a - b) for a, b in halves) / 2)
    assert "## Under shift" in report.to_markdown()
    figure = report.content["figures"][-1]
    assert (figure["id"], list(figure["data"])) == ("shift-errors", ["none", DEFAULT])
    drawn = figure["data"][DEFAULT]
    assert drawn["sets"] == ["fog 3", "night"]
    assert drawn["error"] == pytest.approx([debiased_ece(y, fitted.predict_proba(z))] * 2)
    assert drawn["accuracy"] == pytest.approx([after["accuracy"]] * 2)


def test_figures_hold_what_the_plots_would_draw_and_say_it_in_words():
    _, (_, ty) = samples()
    figures = {figure["id"]: figure for figure in made().content["figures"]}
    shown = {name: probas()[name] for name in ("none", "ts-nll", DEFAULT)}
    for name, row in plots.reliability_data(ty, shown).items():
        assert figures["reliability"]["data"][name]["accuracy"] == pytest.approx(
            row.accuracy.tolist()
        )
    assert len({figure["id"] for figure in made().content["figures"]}) == len(figures) == 6
    for figure in figures.values():
        assert getattr(plots, figure["plot"])
        assert re.search(r"\d", figure["alt"])
        assert figure["title"]
        assert figure["caption"]
    value = row_of(made(), "none")["cells"]["ece15"]["text"]
    assert f"none {value}" in figures["reliability"]["alt"]


def test_a_report_of_the_raw_model_alone_has_nothing_to_compare():
    report = sc.report(*samples(), methods=["none"], n_boot=100)
    assert report.recommended == "none"
    assert report.content["differences"] == [
        {"baseline": "none", "metrics": list(COMPARED), "rows": []}
    ]
    assert "## Differences" not in report.to_markdown()
    assert not [f for f in report.content["figures"] if f["plot"] == "forest"]


def test_the_same_input_gives_the_same_bytes_and_json_holds_no_nan():
    again = sc.report(*samples(), methods=METHODS, n_boot=100, class_names=tuple(NASTY))
    assert again.to_json() == made().to_json()
    assert again.to_markdown() == made().to_markdown()
    loaded = json.loads(made().to_json(), parse_constant=lambda text: pytest.fail(text))
    assert loaded == made().to_dict()
    other = sc.report(*samples(), methods=METHODS, n_boot=100, random_state=1)
    cell = row_of(other, "none")["cells"]["nll"]
    assert cell["low"] != row_of(made(), "none")["cells"]["nll"]["low"]


def test_an_undefined_metric_is_none_and_fails_its_check():
    cal, (tz, _) = samples()
    report = sc.report(cal, (tz, tz.argmax(axis=1)), methods=["ts-nll"], n_boot=100)
    assert row_of(report, "none")["cells"]["auroc"]["value"] is None
    assert report.check("auroc<0.5")["failed"]
    assert "is undefined (all predictions are right" in report.check("auroc<0.5")["reason"]
    assert "undefined" in report.to_markdown()


def test_checks_are_of_the_recommended_method_or_of_another():
    report = made()
    value = row_of(report, DEFAULT)["points"]["ece15"]
    assert report.check(f"ece15>{value - 1e-6:.9f}")["failed"]
    assert not report.check(f"ece15>{value + 1e-6:.9f}")["failed"]
    assert report.check("none:ece15>5%")["method"] == "none"
    assert report.check("none: ece15 > 5%")["reason"].startswith("none: ece15 is 0.")
    assert report.check("default:accuracy<1")["method"] == DEFAULT
    assert report.check("smece>=0")["failed"]
    with refused("condition-invalid", "'tva-ts'"):
        report.check("tva-ts:ece15>0.1")
    with refused("condition-invalid", "'luck'"):
        report.check("luck>1")
    with refused("condition-invalid", "0.03"):
        report.check("default:ece15=1")


def test_artefacts_are_the_calibrators_that_were_measured(tmp_path):
    _, (tz, ty) = samples()
    entries = made().content["artefacts"]
    assert [entry["method"] for entry in entries] == list(Settings(methods=METHODS).names)
    for entry in entries:
        assert re.fullmatch(r"[a-z0-9-]+\.json", entry["file_name"])
        file = tmp_path / entry["file_name"]
        file.write_text(json.dumps(entry["document"]))
        proba = sc.load(file).predict_proba(tz)
        expected = row_of(made(), entry["method"])["points"]["nll"]
        assert sc.evaluate(ty, proba, metrics=["nll"])["nll"] == pytest.approx(expected, rel=1e-12)


def test_probabilities_in_give_a_calibrator_of_probabilities(tmp_path):
    (z, y), (tz, ty) = samples()
    p, tp = (sc.Identity().fit(z, y).predict_proba(a) for a in (z, tz))
    report = sc.report((p, y), (tp, ty), methods=["ts-nll"], n_boot=100, input="probabilities")
    assert report.content["data"]["input"] == "probabilities"
    document = report.content["artefacts"][1]["document"]
    (tmp_path / "a.json").write_text(json.dumps(document))
    proba = sc.load(tmp_path / "a.json").predict_proba(tp)
    found = row_of(report, "ts-nll")["points"]["nll"]
    assert sc.evaluate(ty, proba, metrics=["nll"])["nll"] == pytest.approx(found)
    assert found == pytest.approx(row_of(made(), "ts-nll")["points"]["nll"], rel=1e-6)


def test_samples_may_be_pairs_records_or_files(tmp_path):
    (z, y), (tz, ty) = samples()
    np.savez(tmp_path / "both.npz", val_logits=z, val_labels=y, test_logits=tz, test_labels=ty)
    given = [(z, y), Predictions.of(z, y), f"{tmp_path}/both.npz:val"]
    found = [samples_of(entry, role="calibration") for entry in given]
    assert len({entry.preds.sha256() for entry in found}) == 1
    assert [entry.source for entry in found[:2]] == ["calibration", "calibration"]
    assert found[0].facts["file_sha256"] is None
    weighted = Predictions.of(z, y, weight=np.arange(len(y)))
    assert samples_of(weighted, role="calibration").preds.weight is None
    assert (
        found[2].facts["file_sha256"]
        == hashlib.sha256((tmp_path / "both.npz").read_bytes()).hexdigest()
    )
    demo = samples_of(sc.load_demo("test"), role="test")
    assert demo.class_names == sc.load_demo("test").class_names


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calibration": 3}, "calibration must be a pair"),
        ({"test": ([[1.0, np.nan]], [0])}, "test: logits must be finite"),
        ({"test": simulate(50, 4)}, "both must come from one model"),
        ({"methods": ["magic"]}, "unknown method 'magic'"),
        ({"methods": "none"}, "methods must be a list"),
        ({"n_boot": 10}, "n_boot must be a whole number of at least 100"),
        ({"level": 1.5}, "level must lie between 0 and 1"),
        ({"class_names": ["a"]}, "class_names"),
        ({"shift": {3: simulate(50, 5)}}, "shift must map"),
        ({"shift": {"fog": simulate(50, 4)}}, "fog has 4 columns"),
        ({"calibration": (np.eye(4, 5), np.zeros(4, dtype=int))}, "needs at least 5"),
    ],
)
def test_bad_input_is_named(change, message):
    cal, test = samples()
    options = {"calibration": cal, "test": test, "methods": ["none"], "n_boot": 100, **change}
    with pytest.raises(sc.InputError, match=message):
        sc.report(options.pop("calibration"), options.pop("test"), **options)


def test_a_method_that_cannot_be_fitted_is_a_reason_not_the_end():
    report = sc.report(*samples(), methods=["ts-nll", "features-k3"], n_boot=100)
    assert "needs features" in report.content["failures"]["features-k3"]
    assert [row["name"] for row in report.content["methods"]] == ["none", "ts-nll"]
    assert "features-k3 could not be fitted" in texts(report)


def test_markdown_shows_class_names_as_they_are_and_tables_stay_whole():
    text = made().to_markdown()
    assert "<script" not in text.replace("\\<script", "")
    assert "two lines" in text
    lines = text.splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 30
    for line, following in pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert _cells(line) == _cells(following)


def _cells(line):
    return len(re.findall(r"(?<!\\)\|", line))


@given(st.text(max_size=40))
def test_escaped_text_is_one_line_without_live_marks(text):
    found = escaped(text)
    assert "\n" not in found
    assert "\r" not in found
    bare = re.sub(r"\\[\\`*_{}\[\]<>#|~$&:.)+-]", "", found)
    assert not set(bare) & set("\\`*_{}[]<>#|~$&")
    assert found.replace("\\", "") == visible(" ".join(text.split())).replace("\\", "")


def test_code_is_fenced_by_more_backticks_than_it_holds():
    assert code("a ``` b").startswith("````\n")


def test_a_markdown_table_has_a_caption_units_notes_and_what_stands_out():
    cells = [Cell("x|"), Cell("−1.0", ("−2.0 to 0.5", "floor 1.2"), best=True, number=True)]
    shown = Table("t", "What it is.", [Column("a", number=False), Column("b", "%")], [Row(cells)])
    assert table(shown).splitlines() == [
        *("What it is.", ""),
        *("| a | b (%) |", "| --- | ---: |", "| x\\| | **-1.0** (-2.0 to 0.5, floor 1.2) |"),
    ]
    chosen = Row([Cell("a−b"), Cell("+1.0", verdict="worse", number=True)], chosen=True)
    text = table(Table("t", "", shown.columns, [chosen], note="More.")).splitlines()
    assert text[2:] == ["| **a−b** | +1.0 worse |", "", "More."]


def test_markdown_and_the_page_say_the_same_sections():
    """Every paragraph, cell and list item that the page is made of is in the Markdown too."""
    text = made().to_markdown()
    document = document_of(made().content)
    lines = text.splitlines()
    heads = [line.lstrip("# ") for line in lines if line.startswith(("## ", "### "))]
    assert [line for line in lines if line.startswith("## ")] == ["## Verdict", "## Details"]
    assert heads == ["Verdict", "Details", *(section.title for section in document.sections[1:])]
    assert [section.open for section in document.sections] == [True, *[False] * (len(heads) - 2)]
    shown = list(words_of([block for section in document.sections for block in section.blocks]))
    assert len(shown) > 400
    for words in shown:
        assert escaped(words).replace("−", "-") in text.replace("−", "-")


def words_of(found):
    """All text in blocks, however deep, but for ids, keys of styles, data and tooltips."""
    for block in found:
        if isinstance(block, str):
            yield block
        elif isinstance(block, tuple | list):
            yield from words_of(block)
        elif isinstance(block, Command):
            assert block.text in made().to_markdown()
        elif is_dataclass(block):
            silent = {"id", "kind", "key", "help", "tone", "level", "word", "caption"}
            if not isinstance(block, Figure):
                silent.remove("caption")
            if isinstance(block, Figure | Download):
                silent |= {"plot", "data", "name"}
            names = [field.name for field in fields(block) if field.name not in silent]
            yield from words_of([getattr(block, name) for name in names])


def test_markdown_says_every_part():
    text = render(made().content)
    differences = ("Differences from the uncalibrated model", "Differences from ts-nll")
    for heading in ("Metrics", *differences):
        assert f"## {heading}\n" in text
    for heading in ("Groups", "Classes", "Methods", "Make it again"):
        assert f"## {heading}\n" in text
    assert made().content["data"]["test"]["sha256"] in text
    assert made().content["verdict"]["headline"] in text.replace("\\", "")


def test_files_are_written_by_suffix(tmp_path):
    report = made()
    for name, text in (("a.md", report.to_markdown()), ("a.json", report.to_json())):
        report.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    with refused("file-type"):
        report.save(tmp_path / "a.pdf")
    with refused("unknown-choice"):
        report.text("pdf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "a.md"]


def test_plain_data_has_no_nan():
    found = plain({"a": np.array([1.0, np.nan]), 3: (np.float64("inf"), np.int64(2))})
    assert found == {"a": [1.0, None], "3": [None, 2]}


def test_markdown_and_json_need_no_extra():
    program = (
        "import sys, numpy as np, smallcal as sc; rng = np.random.default_rng(0);"
        "z = rng.normal(size=(60, 3)); y = rng.integers(3, size=60);"
        "import warnings; warnings.simplefilter('ignore');"
        "sys.modules['matplotlib'] = sys.modules['jinja2'] = None;"
        "r = sc.report((z, y), (z, y), methods=['ts-nll'], n_boot=100);"
        "r.to_markdown(); r.to_json(); print(r.recommended)"
    )
    source = str(Path(sc.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-500:]


def test_without_the_extra_a_page_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with refused("missing-extra", "'smallcal[report]'"):
        made().to_html()


def test_real_logits_tell_a_story(real_cell):
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(real_cell["val_labels"]))[:1000]
    report = sc.report(
        (real_cell["val_logits"][rows], real_cell["val_labels"][rows]),
        (real_cell["test_logits"][:2000], real_cell["test_labels"][:2000]),
        methods=["ts-nll", "default"],
        n_boot=100,
    )
    ece = {row["method"]: row["points"]["ece15"] for row in report.content["metrics"]["rows"]}
    assert ece[report.recommended] <= ece["none"] + 0.01
    assert report.content["verdict"]["outcome"] in ("raw", "better", "tie", "mixed")
