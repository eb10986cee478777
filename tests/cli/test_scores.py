"""Every verb on one number per row: what it says, what it writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import smallcal as sc
from smallcal.calibrators.catalogue import OF_SCORES
from smallcal.io import read
from support.judged import confidences, marks, write

#: Words of classes, which no sentence on scores may use.
CLASSES = re.compile(r"\b(class|classes|accuracy|prediction|predictions|predicted)\b")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with marks, confidences and calibrators of both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (s, y), (t, ty) = marks(200, 0), marks(300, 1)
    write("cal.csv", s, y)
    write("test.csv", t, ty)
    (p, o), (q, u) = confidences(150, 2), confidences(250, 3)
    np.savez("p.npz", val_scores=p, val_outcomes=o, test_scores=q, test_outcomes=u)
    np.save("new.npy", q.astype(np.float32))
    sc.Calibrator(input="score").fit(s, y).save("cal.json")
    sc.Calibrator(input="score").fit(p, o).save("p.json")
    return tmp_path


pytestmark = pytest.mark.usefixtures("here")


def spoken(text: str) -> str:
    """Return what is said, without the column of metrics' names."""
    return re.sub(r"^accuracy ", "", text, flags=re.MULTILINE)


def test_fit_says_what_scores_were_taken_for_and_inspect_says_it_again(cli):
    code, out, err = cli("fit", "cal.csv", "-o", "new.json")
    assert code == 0
    said = "scores are treated as plain numbers, and standardised"
    assert err == f"smallcal: note: score_as_number: {said}\n"
    assert "spline: fitted on 200 samples of one score and its outcome." in out
    assert "success rate" in out
    assert "probability of outcome 1" in " ".join(out.split())
    assert not CLASSES.search(out)
    assert sc.load("new.json").score_ == sc.load("cal.json").score_
    code, again, _ = cli("inspect", "new.json")
    assert (code, CLASSES.search(again)) == (0, None)
    assert "Flag score_as_number" in again
    told = json.loads(cli("inspect", "p.json", "--json")[1])
    assert (told["input"], told["score"]["kind"]) == ("score", "probability")


def test_fit_finds_that_successes_fall(cli):
    write("down.csv", *marks(200, 0, falling=True))
    code, out, err = cli("fit", "down.csv", "-o", "down.json")
    assert code == 0
    assert "falling: higher scores go with fewer" in err
    assert "Flag falling" in out
    low, high = sc.load("down.json").predict_score([1.0, 5.0])
    assert low > 0.7 > 0.4 > high


@pytest.mark.parametrize("out", ["o.csv", "o.npz", "o.json", "o.parquet"])
def test_apply_writes_one_probability_that_is_read_back_as_a_score(out, cli):
    if out.endswith("parquet"):
        pytest.importorskip("pyarrow")
    code, said, _ = cli("apply", "cal.json", "test.csv", "-o", out)
    assert (code, said) == (0, f"Wrote the probability of outcome 1 of 300 rows to {out}.\n")
    t, ty = marks(300, 1)
    expected = sc.load("cal.json").predict_score(t)
    back = read(out)
    assert back.input == "score"
    np.testing.assert_allclose(back.logits, expected, rtol=1e-12)
    assert np.asarray(back.labels).tolist() == ty.tolist()
    found = json.loads(cli("evaluate", out, "--json", "--n-boot", "0")[1])["metrics"]
    assert found["nll"] == pytest.approx(log_loss(ty, expected), rel=1e-6)
    assert found["auroc"] == pytest.approx(roc_auc_score(ty, expected))
    assert found["accuracy"] == pytest.approx(ty.mean())


def test_apply_streams_scores_in_parts(cli):
    pq = pytest.importorskip("pyarrow.parquet")
    expected = sc.load("p.json").predict_score(np.load("new.npy"))
    for out in ("o.npy", "o.parquet"):
        code, _, err = cli("apply", "p.json", "new.npy", "-o", out, "--part-rows", "100")
        assert (code, err) == (0, "")
    np.testing.assert_allclose(np.load("o.npy"), expected, rtol=1e-6)
    table = pq.read_table("o.parquet")
    assert table.column_names == ["probability"]
    np.testing.assert_allclose(table["probability"].to_numpy(), expected, rtol=1e-6)


def test_evaluate_measures_probabilities_and_what_a_calibrator_makes_of_marks(cli):
    q, u = confidences(250, 3)
    found = json.loads(cli("evaluate", "p.npz:test", "--json", "--n-boot", "0")[1])
    assert (found["input"], found["n"]) == ("score", 250)
    assert found["metrics"]["brier"] == pytest.approx(np.mean((q - u) ** 2), abs=1e-5)
    quick = ("--metrics", "accuracy,ece15,nll,auroc", "--n-boot", "100")
    code, out, _ = cli("evaluate", "test.csv", "--calibrator", "cal.json", *quick)
    assert code == 0
    assert "300 scores, calibrated by cal.json (spline)" in out
    assert not CLASSES.search(spoken(out))
    code, _, err = cli("evaluate", "test.csv")
    assert code == 2
    assert "not probabilities" in err


def test_evaluate_streams_scores_with_labels_of_their_own_file(cli):
    q, u = confidences(250, 3)
    np.save("outcomes.npy", u)
    asked = ("--labels", "outcomes.npy", "--n-boot", "0", "--json")
    found = json.loads(cli("evaluate", "new.npy", "--input", "score", *asked)[1])["metrics"]
    assert found["brier"] == pytest.approx(np.mean((q - u) ** 2), abs=1e-5)
    found = json.loads(cli("evaluate", "new.npy", "--calibrator", "p.json", *asked)[1])["metrics"]
    p = sc.load("p.json").predict_score(np.load("new.npy"))
    assert found["nll"] == pytest.approx(log_loss(u, p), rel=1e-9)


def test_compare_equals_fits_by_hand(cli):
    code, out, err = cli("compare", "cal.csv", "test.csv", "--json", "--n-boot", "0")
    assert code == 0
    assert err.count("score_as_number") == 1
    found = json.loads(out)
    assert (list(found["values"]), found["recommended"]) == (list(OF_SCORES), "spline")
    (s, y), (t, ty) = marks(200, 0), marks(300, 1)
    for name in OF_SCORES:
        p = sc.Calibrator(method=name, input="score").fit(s, y).predict_score(t)
        assert found["values"][name]["nll"] == pytest.approx(log_loss(ty, p), rel=1e-9)
        assert found["values"][name]["brier"] == pytest.approx(np.mean((p - ty) ** 2))
    code, out, _ = cli("compare", "p.npz", "--n-boot", "100")
    assert code == 0
    assert "Use spline, the default" in out


def test_select_names_the_command_that_fits_its_choice(cli):
    code, out, _ = cli("select", "cal.csv", "--repeats", "1", "-o", "chosen.json")
    assert code == 0
    assert "200 scores" in out
    assert "top_label_bce" not in out
    assert "the raw score" in " ".join(out.split())
    assert sc.load("chosen.json").fitted_.input == "score"
    assert not CLASSES.search(out)


def test_audit_and_plan_speak_of_outcomes(cli):
    _, y = marks(200, 0)
    code, out, err = cli("audit", "cal.csv", "--n-refits", "5", "--apply-to", "test.csv")
    assert (code, "has neither groups nor temperatures" in err) == (2, True)
    code, out, _ = cli("audit", "cal.csv", "--n-refits", "5", "--calibrator", "cal.json")
    assert code == 0
    assert f"200 scores, {int((y == 0).sum())} of them of outcome 0" in out
    assert not CLASSES.search(out)
    code, out, _ = cli("audit", "cal.csv", "--method", "ts-nll", "--apply-to", "test.csv", "--json")
    assert code == 0
    assert json.loads(out)["occupancy"] == {"test.csv": [1.0]}
    code, out, err = cli("plan", "cal.csv", "--draws", "5", "--sizes", "100,400")
    assert code == 0
    assert "the raw score shows ECE" in " ".join(out.split())
    assert not CLASSES.search(out + err)


def test_report_pages_have_the_words_of_scores(cli):
    for out in ("r.md", "r.html"):
        if out == "r.html":
            pytest.importorskip("jinja2")
            pytest.importorskip("matplotlib")
        quick = ("--methods", "none,default", "--n-boot", "100", "-o", out)
        code, said, err = cli("report", "cal.csv", "test.csv", *quick)
        assert (code, err) == (0, "")
        assert not CLASSES.search(said)
        text = Path(out).read_text(encoding="utf-8")
        body = re.sub(r"<script.*?</script>|<style.*?</style>|data:[^\"']*", "", text, flags=re.S)
        body = re.sub(r"<[^>]*>", " ", body)
        assert "success rate" in body.lower()
        assert not CLASSES.search(body), CLASSES.search(body)
    assert "smallcal fit cal.csv -o cal.json" in said


def test_report_says_what_the_raw_score_is_and_condemns_by_its_own_default(cli):
    code, out, _ = cli(
        *("report", "p.npz", "--n-boot", "0", "--json", "--fail-if", "spline:ece15>0.0001%")
    )
    found = json.loads(out)
    assert code == 1
    assert (found["verdict"]["recommended"], found["data"]["input"]) == ("spline", "score")
    assert found["data"]["flags"] == ["score_as_probability"]
    assert found["classes"]["rows"] == found["routing"] == []
    saved = next(entry for entry in found["artefacts"] if entry["method"] == "spline")
    assert saved["document"]["score"]["kind"] == "probability"
    out = cli("report", "cal.csv", "test.csv", "--n-boot", "0")[1]
    assert "sigmoid((score - mean) / sd)" in out


def test_monitor_counts_outcomes(cli):
    t, ty = marks(300, 1)
    code, out, _ = cli("monitor", "cal.json", "test.csv", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["accuracy"] == pytest.approx(ty.mean())
    p = sc.load("cal.json").predict_score(t)
    assert found["calibration"]["gap"] == pytest.approx((ty - p).mean(), abs=1e-6)
    write("far.csv", np.full(400, 5.0), np.zeros(400, dtype=np.int64))
    code, out, _ = cli("monitor", "cal.json", "far.csv")
    assert code == 1
    assert "Probability does not match success rate" in " ".join(out.split())
    assert not CLASSES.search(out)
    assert (
        "Success rate of labelled rows."
        in cli("monitor", "cal.json", "test.csv", "--prometheus")[1]
    )


def test_a_score_meets_a_calibrator_of_logits_in_one_line(cli):
    sc.Identity().fit(np.eye(2)[[0, 1] * 20] * 3, [0, 1] * 20).save("two.json")
    code, _, err = cli("evaluate", "test.csv", "--calibrator", "two.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "this calibrator was fitted on logits" in err


BAD = {
    "nan": (lambda s, y: (np.where(np.arange(len(s)) == 3, np.nan, s), y), "must not be NaN"),
    "few": (lambda s, y: (s[:4], y[:4]), "4 samples; fitting needs at least 5"),
    "other": (lambda s, y: (s, y + 1), "outcomes must be 0 or 1"),
    "swapped": (lambda s, y: (y, s / 10), "outcomes must be 0 or 1"),
}
VERBS = (
    ("fit",),
    ("select", "--repeats", "1"),
    ("audit", "--n-refits", "2"),
    ("plan", "--draws", "5"),
    ("compare", "test.csv", "--n-boot", "0"),
    ("report", "test.csv", "--n-boot", "0"),
)


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_bad_scores_are_refused_in_one_line(verb, what, cli):
    spoil, said = BAD[what]
    write("bad.csv", *spoil(*marks(100, 0)))
    code, out, err = cli(verb[0], "bad.csv", *verb[1:])
    errors = [line for line in err.splitlines() if "error" in line]
    assert (code, out, len(errors)) == (2, "", 1)
    assert said in errors[0]


ODD = {
    "one_outcome": lambda s, y: (s, np.ones_like(y)),
    "constant_score": lambda s, y: (np.full_like(s, 3.0), y),
    "score_percent": lambda s, y: (20 * s, y),
    "score_infinite": lambda s, y: (np.where(s == 5, np.inf, s), y),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_odd_scores_are_fitted_and_flagged(verb, what, cli):
    write("odd.csv", *ODD[what](*marks(100, 0)))
    code, out, err = cli(verb[0], "odd.csv", *verb[1:])
    assert code == 0, err
    assert "nan" not in out.lower()
    if verb[0] in ("fit", "compare", "audit", "report"):
        assert what in (out + err).replace("\\_", "_")
