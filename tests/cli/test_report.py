"""``smallcal report``: formats, conditions, shifted sets, and one line for what is wrong."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES
from smallcal.cli.verbs.report import condition_of, shifted_files
from support.refused import refused
from support.simulated import simulate

DEFAULT = ALIASES["default"]
QUICK = ("--methods", "ts-nll,default", "--n-boot", "100")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (z, y), (tz, ty) = simulate(300, 4, temperature=2.5), simulate(400, 4, temperature=2.5, seed=1)
    np.savez("cal.npz", logits=z, labels=y)
    np.savez("test.npz", logits=tz, labels=ty)
    np.savez("both.npz", val_logits=z, val_labels=y, test_logits=tz, test_labels=ty)
    np.savez("bare.npz", logits=tz)
    np.savez("wide.npz", logits=np.zeros((40, 6)), labels=np.zeros(40, dtype=int))
    Path("shift").mkdir()
    for severity in (1, 3):
        sz, sy = simulate(200, 4, temperature=3.0 + severity, seed=severity)
        np.savez(f"shift/fog-s{severity}.npz", logits=sz, labels=sy)
    Path("shift/readme.txt").write_text("not data")
    Path("names.txt").write_text("<b>cat</b>\nd|g\nfish\nfowl\n")
    Path("empty").mkdir()
    return tmp_path


def test_it_writes_what_the_suffix_says_and_prints_the_verdict(cli):
    for name in ("a.md", "a.json"):
        code, out, err = cli("report", "cal.npz", "test.npz", *QUICK, "-o", name)
        assert (code, err) == (0, "")
        assert f"Use {DEFAULT}" in " ".join(out.split())
        assert out.endswith(f"Wrote {name}.\n")
        assert max(map(len, out.splitlines())) <= 80
    content = json.loads(Path("a.json").read_text())
    text = Path("a.md").read_text()
    assert content["verdict"]["headline"] in text.replace("\\", "")
    with np.load("cal.npz") as cal, np.load("test.npz") as test:
        found = sc.report(
            (cal["logits"], cal["labels"]),
            (test["logits"], test["labels"]),
            methods=["ts-nll", "default"],
            n_boot=100,
        )
    # Files are shipped by a command, arrays by Python.
    assert (content["verdict"].pop("ship")["language"]) == "sh"
    verdict = dict(found.content["verdict"])
    assert (verdict.pop("ship")["language"]) == "python"
    assert content["verdict"] == verdict
    same = ("metrics", "differences", "figures", "explained", "routing", "classes", "artefacts")
    assert {key: content[key] for key in same} == {key: found.content[key] for key in same}
    assert content["data"]["test"]["source"] == "test.npz"
    assert len(content["data"]["test"]["file_sha256"]) == 64


def test_without_a_file_markdown_or_json_goes_to_stdout(cli):
    code, out, err = cli("report", "both.npz", *QUICK)
    assert (code, err) == (0, "")
    assert out.startswith("# Calibration of both.npz:test\n")
    code, out, _ = cli("report", "both.npz", *QUICK, "--format", "json", "--title", "Mine")
    assert code == 0
    assert json.loads(out)["title"] == "Mine"


def test_json_goes_to_stdout_and_the_file_stays_what_it_is(cli):
    code, out, err = cli("report", "both.npz", *QUICK, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["format"] == "smallcal-report"
    code, out, err = cli("report", "both.npz", *QUICK, "--json", "-o", "a.md")
    assert (code, err) == (0, "")
    assert json.loads(out)["verdict"] == found["verdict"]
    assert Path("a.md").read_text().startswith("# Calibration of both.npz:test\n")
    code, out, _ = cli("report", "both.npz", *QUICK, "--json", "--fail-if", "none:ece15>1%")
    assert code == 1
    assert json.loads(out)["verdict"] == found["verdict"]


def test_no_resamples_are_no_intervals(cli):
    code, out, err = cli("report", "both.npz", "--methods", "ts-nll,default", "--n-boot", "0")
    assert (code, err) == (0, "")
    assert "Without resamples, the difference may be chance." in out
    code, out, err = cli("report", "both.npz", *QUICK[:2], "--n-boot", "0", "-o", "a.json")
    assert (code, err) == (0, "")
    row = json.loads(Path("a.json").read_text())["metrics"]["rows"][0]
    assert row["cells"]["ece15"]["low"] is None


def test_the_lines_that_ship_it_can_be_pasted(cli):
    """They fit and apply what was measured, whatever options the files need to be read."""
    with np.load("both.npz") as both:
        arrays = {name: both[name] for name in both.files}
    soft = {
        name: sc.Identity().fit(z, np.arange(len(z)) % 4).predict_proba(z)
        for name, z in arrays.items()
        if name.endswith("logits")
    }
    np.savez("a file.npz", logits=soft["val_logits"], labels=arrays["val_labels"])
    np.savez("b file.npz", logits=soft["test_logits"], labels=arrays["test_labels"])
    asked = [
        (["both.npz"], ["smallcal fit both.npz:val -o cal.json"]),
        (["cal.npz", "test.npz", "--seed", "2", "--methods", "srts-bce"],
         ["smallcal fit cal.npz --method srts-bce --seed 2 -o cal.json"]),
        (["cal.npz", "test.npz", "--calibrator", "certified.json"],
         ["smallcal fit cal.npz -o cal.json",
          "smallcal apply cal.json test.npz -o probabilities.npy"]),
        (["a file.npz", "b file.npz", "--input", "probabilities", "--class-names", "names.txt"],
         ["smallcal fit 'a file.npz' --input probabilities --class-names names.txt -o cal.json",
          "smallcal apply cal.json 'b file.npz' --input probabilities -o probabilities.npy"]),
    ]  # fmt: skip
    assert cli("fit", "cal.npz", "-o", "cal.json")[0] == 0
    assert cli("certify", "cal.json", "test.npz", "--risk", "90%", "-o", "certified.json")[0] == 0
    for args, wanted in asked:
        quick = QUICK if "--methods" not in args else QUICK[2:]
        code, out, err = cli("report", *args, *quick, "-o", "a.json")
        assert (code, err) == (0, "")
        content = json.loads(Path("a.json").read_text())
        lines = content["verdict"]["ship"]["text"].splitlines()
        assert lines[: len(wanted)] == wanted
        assert f"Ship it:\n  {lines[0]}\n  {lines[1]}\n" in out
        for line in lines:
            assert cli(*shlex.split(line)[1:])[0] == 0
        rows = {row["method"]: row["points"] for row in content["metrics"]["rows"]}
        proba = np.load("probabilities.npy")
        labels = arrays["test_labels"]
        found = sc.evaluate(labels, proba, metrics=["nll"])["nll"]
        assert found == pytest.approx(rows[content["verdict"]["recommended"]]["nll"], rel=1e-6)


def test_the_verdict_is_printed(cli):
    code, out, _ = cli("report", "cal.npz", "test.npz", *QUICK, "-o", "a.md")
    assert code == 0
    said = " ".join(out.split())
    for words in (
        "Use smallcal",
        "ECE ",
        "Top-label log-loss ",
        "Above 90 % confidence: ",
        "Ship it:",
    ):
        assert words in said
    assert "smallcal fit cal.npz -o cal.json" in out


def test_the_command_in_the_report_makes_the_same_bytes(cli):
    args = ("both.npz", *QUICK, "--shift", "shift", "--class-names", "names.txt")
    assert cli("report", *args, "--fail-if", "ece15>90%", "-o", "a b.json")[0] == 0
    before = Path("a b.json").read_bytes()
    command = json.loads(before)["reproduce"]["command"]
    Path("a b.json").unlink()
    program, *again = shlex.split(command)
    assert program == "smallcal"
    assert cli(*again)[0] == 0
    assert Path("a b.json").read_bytes() == before


def test_conditions_are_checked_after_the_report_is_written(cli):
    base = ("report", "cal.npz", "test.npz", *QUICK, "-o", "a.json")
    checks = ("--fail-if", "none:ece15>1%", "--fail-if", "accuracy<1", "--fail-if", "nll>99")
    code, _, err = cli(*base, *checks)
    assert code == 1
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("smallcal: check failed: none: ece15 is 0.")
    assert lines[1].startswith(f"smallcal: check failed: {DEFAULT}: accuracy is 0.")
    assert Path("a.json").exists()
    assert cli(*base, "--fail-if", "default:nll>99")[0] == 0


def test_shifted_files_are_named_by_kind_and_severity(cli):
    code, out, err = cli("report", "both.npz", *QUICK, "--shift", "shift", "--format", "json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["shift"]
    assert [(row["kind"], row["severity"], row["n"]) for row in rows] == [
        ("fog", "1", 200),
        ("fog", "3", 200),
    ]
    assert rows[0]["source"] == "shift/fog-s1.npz"
    assert (
        rows[1]["values"]["none"]["ece15"]["value"] > rows[1]["values"][DEFAULT]["ece15"]["value"]
    )


def test_of_a_folder_with_many_models_only_the_own_files_are_taken(here):
    for name in ("net__fog-s1.npz", "net__fog-s2.npz", "other__fog-s1.npz"):
        Path("empty", name).touch()
    found = shifted_files(["empty"], model="net")
    assert sorted(found) == [("fog", "1"), ("fog", "2")]
    with refused("file-ambiguous", "1"):
        shifted_files(["empty"], model="third")


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("cifar10__akamaster-resnet20__brightness-s1.npz", ("brightness", "1")),
        ("banking77__tfidf-mlp-seed0__typo05.npz", ("typo", "05")),
        ("fog_3.csv", ("fog", "3")),
        ("gaussian_noise-severity5.npz", ("gaussian_noise", "5")),
        ("villages.npz", ("villages", "")),
        ("2024.npz", ("2024", "")),
    ],
)
def test_conditions_are_read_from_names(name, condition):
    assert condition_of(Path(name)) == condition


def test_class_names_are_shown_as_text(cli):
    code, out, _ = cli("report", "both.npz", *QUICK, "--class-names", "names.txt")
    assert code == 0
    assert "\\<b\\>cat\\</b\\>" in out
    assert "d\\|g" in out
    assert "<b>" not in out


def test_a_method_that_fails_is_told_and_leaves_with_1(cli):
    args = ("--methods", "ts-nll,features-k3", "--n-boot", "100", "-o", "a.md")
    code, out, err = cli("report", "both.npz", *args)
    assert code == 1
    assert err.startswith("smallcal: features-k3 failed: ")
    assert err.count("\n") == 1
    assert "Wrote a.md" in out
    code, _, err = cli("report", "both.npz", *args, "--fail-if", "features-k3:ece15>3%")
    assert code == 1
    assert "check failed: features-k3: ece15>3% cannot be checked" in err


BAD = [
    (["both.npz", "--fail-if", "luck>1"], "unknown metric 'luck'; choose from accuracy, ece15"),
    (["both.npz", "--fail-if", "ece15"], "--fail-if 'ece15': must look like"),
    (["both.npz", "--fail-if", "ece15>3"], "write ece15>3%"),
    (["both.npz", "--fail-if", "tva-ts:ece15>3%"], "no method 'tva-ts' here"),
    (["both.npz", "--fail-if", "magic:ece15>3%"], "no method 'magic' here"),
    (["both.npz", "--methods", "magic"], "unknown method 'magic'"),
    (["both.npz", "--n-boot", "10"], "--n-boot"),
    (["both.npz", "--level", "2"], "level must lie between 0 and 1"),
    (["both.npz", "--format", "pdf"], "--format must be one of html, md, json"),
    (["both.npz", "--format", "html"], "-o report.html"),
    (["both.npz", "--format", "md", "--json"], "name a file for the md: -o report.md"),
    (["both.npz", "-o", "a.pdf"], "end the name in .html"),
    (["both.npz", "-o", "no/a.md"], "the folder no does not exist"),
    (["cal.npz"], "smallcal report CAL_DATA TEST_DATA"),
    (["cal.npz", "bare.npz"], "bare.npz has no labels"),
    (["cal.npz", "wide.npz"], "both must come from one model"),
    (["cal.npz", "gone.npz"], "cannot read gone.npz"),
    (["both.npz", "--shift", "gone.npz"], "cannot read gone.npz"),
    (["both.npz", "--shift", "empty"], "--shift empty: no file there"),
    (["both.npz", "--shift", "wide.npz"], "wide.npz has 6 columns"),
    (["both.npz", "--shift", "bare.npz"], "bare.npz has no labels"),
    (["both.npz", "--class-names", "gone.txt"], "cannot read gone.txt"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_code_2(args, message, cli, here):
    before = sorted(here.iterdir())
    quick = [] if {"--n-boot", "--methods"} & set(args) else QUICK
    code, out, err = cli("report", *args, *quick)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(here.iterdir()) == before


def test_the_demo_ends_with_a_report(cli):
    code, out, err = cli("demo", "--draws", "1", "--budget", "250", "--report", "mine.json")
    assert (code, err) == (0, "")
    assert "Wrote mine.json: the full report, with all 1,250 samples." in out
    content = json.loads(Path("mine.json").read_text())
    assert content["data"]["test"]["n"] == 3000
    assert content["title"] == "Calibration of the demo's drawing classifier"
    assert content["verdict"]["outcome"] == "better"


def test_without_the_extra_demo_and_report_say_what_to_install(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, out, err = cli("demo", "--draws", "1", "--budget", "250")
    assert (code, err) == (0, "")
    said = "No report was written: writing an HTML report needs the package 'jinja2'"
    assert said in " ".join(out.split())
    assert not Path("smallcal-report.html").exists()
    code, _, err = cli("report", "both.npz", "-o", "a.html")
    assert code == 2
    assert "pip install 'smallcal[report]'" in err


@pytest.mark.parametrize("file", ["mine.pdf", "no/mine.html"])
def test_the_demo_refuses_a_report_it_could_not_write(cli, file):
    code, out, err = cli("demo", "--report", file)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_the_page_is_one_file(cli):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    code, out, err = cli("report", "both.npz", *QUICK, "-o", "a.html", "--shift", "shift")
    assert (code, err) == (0, "")
    assert "Wrote a.html." in out
    page = Path("a.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert DEFAULT in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
