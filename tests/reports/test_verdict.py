"""The verdict of a report: what is recommended on what, corrected, counted, shipped, explained."""

from __future__ import annotations

import json
import re
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES
from smallcal.calibrators.discipline import FLAGS
from smallcal.calibrators.summary import accuracy_line
from smallcal.metrics.units import PERCENT
from smallcal.reports.content import measure as measuring
from smallcal.reports.content import verdict as judging
from smallcal.reports.content.measure import Difference, chance_of
from smallcal.reports.content.shown import COMPARED, SHOWN
from smallcal.reports.content.verdict import beyond_chance
from smallcal.statistics.interval import interval_of
from support.simulated import simulate

DEFAULT = ALIASES["default"]


@cache
def biased():
    """Calibrate where two classes are preferred, test where they are not: the default overdoes."""
    z, y = simulate(800, 5, temperature=2.5, seed=2)
    cal = z + np.array([3.0, -3.0, 0.0, 0.0, 0.0]), y
    return cal, simulate(3000, 5, temperature=2.5, seed=3)


@cache
def report(*methods, n_boot=100, **options):
    return sc.report(*biased(), methods=methods, n_boot=n_boot, **options)


def test_the_default_stays_and_a_better_method_is_named_with_a_warning():
    found = report("ts-nll", "tva-ts", "default")
    verdict = found.content["verdict"]
    assert (found.recommended, verdict["basis"]) == (DEFAULT, "default")
    rival = verdict["rival"]
    assert rival["metric"] == "top_label_bce"
    assert rival["method"] in ("ts-nll", "tva-ts")
    assert rival["low"] < rival["value"] < rival["high"] < 0
    assert re.fullmatch(
        rf"On these test samples {rival['method']} is lower in top-label log-loss by [\d.]+ points "
        r"\(95 % interval [\d.]+ to [\d.]+\); check on new samples first\.",
        rival["text"],
    )
    assert {"level": "care", "text": rival["text"]} in verdict["findings"]
    points = {row["method"]: row["points"] for row in found.content["metrics"]["rows"]}
    gap = points[rival["method"]]["top_label_bce"] - points[DEFAULT]["top_label_bce"]
    assert rival["value"] == pytest.approx(gap)
    assert points[rival["method"]]["top_label_bce"] == min(
        points[name]["top_label_bce"] for name in ("ts-nll", "tva-ts")
    )


def test_without_the_default_the_choice_is_made_on_test_samples_and_said_so():
    found = report("ts-nll", "srts-bce")
    verdict = found.content["verdict"]
    assert verdict["basis"] == "test"
    assert found.recommended in ("ts-nll", "srts-bce")
    said = (
        "This was chosen on these test samples, which makes it look too good: check it on new "
        "samples."
    )
    assert verdict["headline"].endswith(said)
    assert said in found.to_markdown()
    assert verdict["rival"] is None


def test_a_default_that_fails_is_told_and_the_choice_made_on_test_samples(monkeypatch):
    fit = measuring._fit

    def failing(name, *args):
        if name == DEFAULT:
            raise RuntimeError("no luck")
        return fit(name, *args)

    monkeypatch.setattr(measuring, "_fit", failing)
    found = sc.report(*biased(), methods=["ts-nll", "default"], n_boot=100)
    verdict = found.content["verdict"]
    assert (found.recommended, verdict["basis"]) == ("ts-nll", "test")
    said = f"{DEFAULT} could not be fitted: RuntimeError: no luck"
    assert {"level": "care", "text": said} in verdict["findings"]


@pytest.mark.parametrize(
    ("verdicts", "headline"),
    [
        ({"ece15": "better", "top_label_bce": "better", "nll": "better"}, "beyond chance."),
        ({"nll": "better"}, "beyond chance in log-loss."),
        (
            {"ece15": "worse", "nll": "better"},
            "better than the uncalibrated model in log-loss and worse in ECE.",
        ),
        ({}, "They are tied within chance."),
    ],
)
def test_the_headline_says_in_what(verdicts, headline):
    told = {name: row(0.0, 1.0)._replace(verdict=word) for name, word in verdicts.items()}
    found = set(verdicts.values())
    result = "mixed" if len(found) > 1 else next(iter(found), "tie")
    choice = judging.Choice(DEFAULT, "default", "")
    assert judging._headline(choice, result, told).endswith(headline)


@pytest.mark.parametrize(
    ("value", "word"), [(0.0012, "close"), (0.012, "worse"), (-0.01, "better")]
)
def test_a_difference_that_hardly_matters_does_not_stop_anyone(value, word):
    told = {"top_label_bce": row(value, 1e-5)}
    measured = SimpleNamespace(
        fits={DEFAULT: SimpleNamespace(fitted=SimpleNamespace(flags={}))},
        result=SimpleNamespace(n_boot=100),
    )
    assert judging.outcome(measured, DEFAULT, told) == word
    if word == "close":
        choice = judging.Choice(DEFAULT, "default", "")
        said = judging._headline(choice, word, told)
        assert said.endswith("but by less than 0.5 points in top-label log-loss.")


def row(value, noise, n=400, seed=0):
    drawn = value + noise * np.random.default_rng(seed).normal(size=n)
    found = interval_of(value, drawn, unit="test samples")
    return Difference(found, found.verdict("lower"), chance_of(found))


def test_what_is_beyond_chance_is_so_after_correction_for_all_that_was_looked_at():
    clear, close, level = row(-5.0, 1.0), row(-2.3, 1.0), row(0.1, 1.0)
    assert [close.verdict, level.verdict] == ["better", "tie"]
    assert 0.01 < close.p_value < 0.05
    assert list(beyond_chance({"a": close}, 0.95)) == ["a"]
    many = {"clear": clear, "close": close, **{str(i): level for i in range(8)}}
    assert list(beyond_chance(many, 0.95)) == ["clear"]


def test_among_methods_that_differ_by_chance_alone_a_rival_is_rare():
    """Ten differences that are noise: without correction four in ten reports would name one."""
    rng = np.random.default_rng(0)
    named = 0
    for _ in range(300):
        noise = rng.normal(size=10)
        rows = {i: row(value, 1.0, seed=i) for i, value in enumerate(noise)}
        named += bool(beyond_chance(rows, 0.95))
    assert named / 300 < 0.09


def test_a_p_value_is_that_of_the_normal_law():
    drawn = np.random.default_rng(1).normal(size=4000)
    found = interval_of(2.0, 2.0 + drawn, unit="")
    assert chance_of(found) == pytest.approx(0.0455, abs=0.006)
    assert chance_of(interval_of(0.0, np.zeros(50), unit="")) == 1.0
    assert chance_of(interval_of(0.5, np.full(50, 0.5), unit="")) == 0.0


def test_findings_are_of_the_recommended_method_and_the_raw_model_only():
    """Two methods that do harm here, one of them for comparison only, are told as plain facts."""
    cal = simulate(600, 5, temperature=1.0, seed=2)
    test = simulate(2000, 5, temperature=1.0, seed=3)
    spoilt = simulate(600, 5, temperature=4.0, seed=2)[0], cal[1]
    found = sc.report(spoilt, test, methods=["ts-nll", "srts-bce", "default"], n_boot=100)
    verdict = found.content["verdict"]
    rival = verdict["rival"]["text"] if verdict["rival"] else ""
    for finding in verdict["findings"]:
        if finding["text"] != rival:
            assert "srts-bce" not in finding["text"]
            assert "ts-nll" not in finding["text"]
    said = "srts-bce is worse than the uncalibrated model"
    assert any(fact.startswith(said) for fact in verdict["facts"])
    page = found.to_markdown()
    assert page.index("srts-bce is worse") > page.index("## Details")


def test_the_two_numbers_are_ece_and_top_label_bce_before_and_after():
    found = report("ts-nll", "tva-ts", "default")
    rows = {r["method"]: r["cells"] for r in found.content["metrics"]["rows"]}
    changes = found.content["verdict"]["changes"]
    assert [entry["metric"] for entry in changes] == ["ece15", "top_label_bce"] == list(SHOWN[:2])
    for entry in changes:
        for key, method in (("before", "none"), ("after", DEFAULT)):
            cell = rows[method][entry["metric"]]
            assert entry[key] == {name: cell[name] for name in entry[key]}
            assert entry[key].keys() == {"value", "plain", "low", "high", "note"}
            assert cell["text"] in entry["text"]
            assert cell["interval_text"] in entry["text"]


def test_the_recommended_method_is_explained():
    (z, y), _ = biased()
    found = report("ts-nll", "srts-bce", "default", class_names=tuple("abcde"))
    entry = found.content["explained"]
    assert entry["method"] == DEFAULT
    fitted = sc.Calibrator().fit(z, y).fitted_
    assert entry["temperature"] == pytest.approx(1 / fitted.map.inverse_temperature)
    assert entry["accuracy_line"] == accuracy_line(fitted)
    assert entry["accuracy_line"].startswith("changes ")
    text = found.to_markdown()
    own = text.split(f"### How {DEFAULT} works")[1].split("\n### ")[0]
    assert "Logits are turned into probabilities by a multinomial regression" in own
    assert f"On the calibration samples, it {accuracy_line(fitted)}." in own
    assert "srts-bce" not in own
    assert "srts-bce" in text.split("### Temperatures of other methods")[1]


def test_changed_predictions_are_counted_and_their_accuracy_told():
    (z, y), (tz, ty) = biased()
    found = report("ts-nll", "srts-bce", "default")
    cal = sc.Calibrator().fit(z, y)
    said = {entry["text"]: entry["level"] for entry in found.content["verdict"]["findings"]}
    line = f"On the calibration samples, {DEFAULT} {accuracy_line(cal.fitted_)}."
    assert said[line] == "fine"
    before, after = (PERCENT.value((p == ty).mean()) for p in (tz.argmax(1), cal.predict(tz)))
    n = (tz.argmax(axis=1) != cal.predict(tz)).sum()
    assert n > 0
    line = (
        f"On the test samples, {DEFAULT} changes {n:,} of {len(ty):,} predictions: accuracy "
        f"{before} before, {after} after."
    )
    assert said[line] == "fine"


def test_with_keep_predictions_the_confidence_of_the_models_own_label_is_measured():
    (z, y), (tz, ty) = biased()
    found = sc.report((z, y), (tz, ty), methods=["default"], n_boot=100, keep_predictions=True)
    cal = sc.Calibrator(keep_predictions=True).fit(z, y)
    entry = found.content["metrics"]["rows"][-1]
    right, sure = tz.argmax(axis=1) == ty, cal.confidence(tz)
    loss = -np.log(np.where(right, sure, 1 - sure)).mean()
    assert entry["method"] == found.recommended == DEFAULT
    assert entry["points"]["accuracy"] == right.mean()
    assert entry["points"]["top_label_bce"] == pytest.approx(loss)
    assert entry["points"]["confidence_gap"] == pytest.approx(sure.mean() - right.mean())
    free = sc.Calibrator().fit(z, y).predict_proba(tz)
    nll = -np.log(free[np.arange(len(ty)), ty]).mean()
    assert entry["points"]["nll"] == pytest.approx(nll)
    verdict = found.content["verdict"]
    line = f"On the calibration samples, {DEFAULT} {accuracy_line(cal.fitted_)}."
    assert {"level": "care", "text": line} in verdict["findings"]
    assert "keep_predictions=True" in verdict["ship"]["text"]
    assert "keep_predictions=True" in found.content["reproduce"]["python"]
    bins = next(f for f in found.content["figures"] if f["id"] == "reliability")["data"][DEFAULT]
    accuracy = np.dot(bins["count"], bins["accuracy"]) / len(ty)
    assert accuracy == pytest.approx(right.mean())
    classes = {row["column"]: row["n"] for row in found.content["classes"]["rows"]}
    counts = np.bincount(tz.argmax(axis=1))
    assert classes == {int(i): int(counts[i]) for i in np.flatnonzero(counts)}


def test_figures_and_tables_of_groups_are_only_those_of_the_recommended_method():
    ids = {f["id"] for f in report("ts-nll", "srts-bce", "default").content["figures"]}
    assert {"matched-confidence", "group-residuals"}.isdisjoint(ids)
    assert "temperature" not in ids
    paper = report("srts-bce")
    assert paper.recommended == "srts-bce"
    titles = {f["id"]: f["title"] for f in paper.content["figures"]}
    assert titles["matched-confidence"] == "Groups of srts-bce at the same confidence"
    assert titles["temperature"] == "Temperatures of srts-bce"


def test_without_resamples_there_are_values_and_no_claims():
    z, y = simulate(300, 5, temperature=4.0, seed=9)
    found = report("ts-nll", "srts-bce", "default", n_boot=0)
    verdict = found.content["verdict"]
    assert (found.recommended, verdict["outcome"], verdict["rival"]) == (DEFAULT, "unknown", None)
    assert "the difference may be chance" in verdict["headline"]
    full = report("ts-nll", "srts-bce", "default")
    for mine, other in zip(
        found.content["metrics"]["rows"], full.content["metrics"]["rows"], strict=True
    ):
        assert mine["points"] == other["points"]
        for name, cell in mine["cells"].items():
            assert cell["value"] == cell["plain"] == other["cells"][name]["plain"]
            assert (cell["low"], cell["high"], cell["interval_text"]) == (None, None, "")
            assert cell["floor"] is None
    for entry in found.content["differences"][0]["rows"]:
        assert {cell["verdict"] for cell in entry["metrics"].values()} == {""}
    text = found.to_markdown()
    assert "interval" not in text.split("### Metrics")[1].split("### Figures")[0]
    assert "undefined" not in text
    json.loads(found.to_json(), parse_constant=lambda word: pytest.fail(word))
    ids = {f["id"] for f in found.content["figures"]}
    assert ids == {"reliability", "confidence-histogram"}
    shifted = sc.report(*biased(), methods=["default"], n_boot=0, shift={"night": (z, y)})
    night = shifted.content["shift"][0]["values"][DEFAULT]["ece15"]
    assert night["value"] > 0
    assert night["low"] is None
    chosen = report("ts-nll", "srts-bce", n_boot=0).content["verdict"]
    assert chosen["basis"] == "test"
    assert "chosen on these test samples" in chosen["headline"]


def test_without_resamples_the_page_is_drawn():
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    assert "Nothing was resampled" in report("ts-nll", "default", n_boot=0).to_html()


def test_the_columns_that_matter_come_first():
    assert SHOWN[:2] == COMPARED[:2] == ("ece15", "top_label_bce")


def test_a_split_without_errors_is_said_in_the_words_of_the_other_verbs():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 4)) + 6 * np.eye(4)[np.arange(400) % 4]
    cal, test = (z[:200], z[:200].argmax(axis=1)), (z[200:], z[200:].argmax(axis=1))
    found = sc.report(cal, test, n_boot=0).to_dict()["verdict"]["findings"]
    why = FLAGS["one_sided"]
    assert {"level": "care", "text": f"{DEFAULT}, one_sided: {why}."} in found
