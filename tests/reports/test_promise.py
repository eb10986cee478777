"""What a report says can be promised, and how it checks what was promised."""

from __future__ import annotations

import json

import numpy as np
import pytest

import smallcal as sc
from smallcal.data.predictions import Predictions
from smallcal.reports import Report
from support.decided import threshold, with_decisions
from support.refused import refused
from support.simulated import simulate

SITES = np.array(["north", "south", "west"])


def samples():
    return simulate(400, 4, seed=0), simulate(1500, 4, seed=1)


def judged(n, seed):
    rng = np.random.default_rng(seed)
    marks = rng.normal(size=n)
    return marks, (rng.logistic(size=n) < 3 * marks).astype(int)


@pytest.fixture(scope="module")
def made():
    return sc.report(*samples(), methods=["ts-nll"], n_boot=0)


def section(report):
    """Return the Markdown of the section."""
    return report.to_markdown().split("### Guarantees on error rates")[1].split("\n### ")[0]


def test_the_table_is_what_certify_finds_on_the_test_samples(made):
    (z, y), (tz, ty) = samples()
    cal = sc.make("ts-nll").fit(z, y)
    said = made.content["promise"]
    assert (said["method"], said["n"], said["confidence"]) == ("ts-nll", 1500, 0.95)
    found = sc.certify(cal, tz, ty, risk=[row["risk"] for row in said["rows"]])
    for row, certificate in zip(said["rows"], found.certificates, strict=True):
        (wanted,) = certificate.rows
        for key in ("threshold", "accepted", "errors", "bound", "coverage", "best"):
            assert row[key] == getattr(wanted, key), key
    found = [row["threshold"] for row in said["rows"]]
    assert found[0] is None
    assert found[-1] is not None
    text = section(made)
    assert "none qualifies (best reachable: " in text
    assert f"{said['rows'][-1]['errors']} of {said['rows'][-1]['accepted']}" in text
    assert said["command"] is None  # of arrays there is no line of shell
    assert "chosen on these samples, so its results are slightly too good" in text


def test_the_same_samples_promise_nothing():
    (z, y), _ = samples()
    found = sc.report((z, y), (z, y), methods=["ts-nll"], n_boot=0)
    assert found.content["promise"]["rows"] == []
    assert "they can guarantee nothing" in section(found)


def test_files_have_a_line_to_certify_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (z, y) in zip(("cal", "test"), samples(), strict=True):
        np.savez(f"{name}.npz", logits=z, labels=y)
    found = sc.report("cal.npz", "test.npz", methods=["default"], n_boot=0)
    line = found.content["promise"]["command"]
    risk = min(r["risk"] for r in found.content["promise"]["rows"] if r["threshold"] is not None)
    assert line == f"smallcal certify cal.json test.npz --risk {100 * risk:g}% -o certified.json"
    assert line in section(found)


@pytest.mark.parametrize(
    ("risk", "verdict", "word"),
    [(0.5, "kept", "kept"), (0.001, "broken", "broken beyond chance")],
)
def test_a_certified_threshold_is_checked(risk, verdict, word):
    (z, y), (tz, ty) = samples()
    fitted = with_decisions(sc.make("ts-nll").fit(z, y).fitted_, threshold(0.6, risk=risk))
    found = sc.report((z, y), (tz, ty), methods=["default"], n_boot=0, calibrator=fitted, level=0.9)
    (checked,) = found.content["promise"]["checked"]
    (row,) = checked["rows"]
    accepted = fitted.accept(tz)
    wrong = fitted.predict_proba(tz).argmax(axis=1) != ty
    assert row["n"] == 1500
    assert row["accepted"] == accepted.sum()
    assert row["errors"] == (accepted & wrong).sum()
    assert row["rate_low"] < row["rate"] < row["rate_high"]
    assert (row["verdict"], checked["same_rows"]) == (verdict, False)
    text = section(found)
    assert word in text
    assert "At most 2 % of accepted rows are wrong" in text  # the promise as it stands in the file


def test_above_the_risk_within_chance_is_not_broken():
    (z, y), (tz, ty) = samples()
    fitted = sc.make("ts-nll").fit(z, y).fitted_
    accepted, wrong = (
        fitted.predict_proba(tz).max(axis=1) >= 0.6,
        fitted.predict_proba(tz).argmax(axis=1) != ty,
    )
    rate = (accepted & wrong).sum() / accepted.sum()
    fitted = with_decisions(fitted, threshold(0.6, risk=rate - 1e-3))
    found = sc.report((z, y), (tz, ty), methods=["default"], n_boot=0, calibrator=fitted)
    assert found.content["promise"]["checked"][0]["rows"][0]["verdict"] == "above"
    assert "above, within chance" in section(found)


def test_the_rows_it_was_certified_on_do_not_check_it():
    (z, y), (tz, ty) = samples()
    cal = sc.make("ts-nll").fit(z, y)
    certified = sc.certify(cal, tz, ty, risk=0.2).calibrator
    found = sc.report((z, y), (tz, ty), methods=["default"], n_boot=0, calibrator=certified)
    assert found.content["promise"]["checked"][0]["same_rows"]
    assert "those it was certified on, so they do not check it" in section(found)


def test_by_class_and_by_group():
    (z, y), (tz, ty) = samples()
    fitted = sc.make("ts-nll").fit(z, y).fitted_
    fitted = with_decisions(
        fitted,
        threshold(0.5, 0.6, None, 0.7, by="class", names="abcd", risk=0.3),
        threshold(0.5, 0.6, by="group", names=("north", "east"), risk=0.4),
    )
    test = Predictions.of(tz, ty, groups=SITES[np.arange(1500) % 3])
    found = sc.report((z, y), test, methods=["default"], n_boot=0, calibrator=fitted)
    classes, groups = found.content["promise"]["checked"]
    assert [row["name"] for row in classes["rows"]] == list("abcd")
    assert sum(row["n"] for row in classes["rows"]) == 1500
    assert classes["rows"][2]["verdict"] == "none"
    assert [(row["name"], row["n"]) for row in groups["rows"]] == [("north", 500)]
    assert groups["without_group"] == 1000
    assert "1,000 test samples are of no group with a threshold" in section(found)
    bare = sc.report((z, y), (tz, ty), methods=["default"], n_boot=0, calibrator=fitted)
    assert "No test sample is of a group with a threshold" in section(bare)


def test_scores_speak_of_outcomes(tmp_path):
    cal = sc.Calibrator(input="score").fit(*judged(300, 0))
    certified = sc.certify(cal, *judged(2000, 1), risk=0.1).calibrator
    certified.save(tmp_path / "judge.json")
    pair = judged(250, 5), judged(2000, 2)  # standardised by others than the calibrator's were
    found = sc.report(*pair, input="score", n_boot=0, calibrator=tmp_path / "judge.json")
    (row,) = found.content["promise"]["checked"][0]["rows"]
    marks, outcomes = pair[1]
    accepted = certified.accept(marks)
    assert row["accepted"] == accepted.sum()
    assert row["errors"] == (accepted & (outcomes == 0)).sum()
    text = section(found)
    assert "| Probability from |" in text
    assert "Failure rate" in text
    plain = section(sc.report(*pair, input="score", n_boot=0))
    assert "at most this share of the accepted samples have outcome 0" in plain


def test_what_cannot_be_checked():
    (z, y), test = samples()
    other = sc.make("ts-nll").fit(*simulate(300, 3, seed=0)).fitted_
    with refused("input-differs", "3", "4"):
        sc.report((z, y), test, methods=["default"], n_boot=0, calibrator=other)
    with refused("option-type"):
        sc.report((z, y), test, methods=["default"], n_boot=0, calibrator=3)
    marks = Predictions.of(*judged(300, 2), input="score")
    judge = sc.Calibrator(input="score").fit(*judged(300, 0))
    with refused("input-differs"):
        sc.report(judged(250, 5), marks, input="score", n_boot=0, calibrator=judge)
    plain = sc.make("ts-nll").fit(z, y)
    found = sc.report((z, y), test, methods=["default"], n_boot=0, calibrator=plain)
    assert "The calibrator has no certified threshold." in section(found)


def test_every_form_has_it_and_old_documents_do_without(made):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    page = made.to_html()
    assert 'id="promise"' in page
    assert "Guarantees on error rates" in page
    content = json.loads(made.to_json())
    assert content["promise"]["rows"][-1]["risk"] == 0.1
    del content["promise"]
    assert "Guarantees on error rates" not in Report(content).to_markdown()


def test_the_verb_checks_a_calibrator(cli):
    for name, (z, y) in zip(("cal", "test"), samples(), strict=True):
        np.savez(f"{name}.npz", logits=z, labels=y)
    fitted = sc.make("ts-nll").fit(*samples()[0]).fitted_
    fitted.save("plain.json")
    with_decisions(fitted, threshold(0.6, risk=0.5)).save("certified.json")
    call = ("report", "cal.npz", "test.npz", "--methods", "ts-nll", "--n-boot", "0", "-o", "r.json")
    code, _, err = cli(*call, "--calibrator", "plain.json")
    assert code == 2
    assert "plain.json has no decision; find one with smallcal certify plain.json" in err
    code, _, err = cli(*call, "--calibrator", "certified.json")
    assert code == 0, err
    with open("r.json") as file:
        content = json.load(file)
    assert content["promise"]["calibrator"] == "certified.json"
    assert content["promise"]["checked"][0]["rows"][0]["verdict"] == "kept"
