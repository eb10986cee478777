"""What the README says can be checked: its numbers, commands, tables and links."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.calibrators.maps.temperature import ScalarMap
from smallcal.cli.app import Verbs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEMO = (ROOT / "docs" / "start" / "demo.md").read_text(encoding="utf-8")


def one_line(text):
    return " ".join(text.split())


def test_there_are_some_sixty_methods():
    own = [name for name in METHODS if ":" not in name]
    assert 50 <= len(own) <= len(METHODS) <= 65


#: The rows of the paper's tables, as they are called there.
IN_THE_PAPER = {
    "NoTS": "none",
    "TS-NLL": "ts-nll",
    "TvA-TS": "tva-ts",
    "TvA-Brier": "ts-brier",
    "SRTS-BCE": "srts-bce",
    "SRTS-NLL": "srts-nll",
    "SRTS-Brier": "srts-brier",
    "SRTS-SoftECE": "srts-softece",
    "SRTS-Mixed": "srts-mixed",
    "SRTS, features": "features-k3",
    "SRTS, temphead": "temphead-k3",
    "Margin-K3": "margin-k3",
    "Confidence-only": "confidence-k3",
    "Prob-margin-only": "probmargin-k3",
    "Confidence + logit-margin": "confmargin-k3",
    "Random": "random-k3",
    "Shuffled": "shuffled-k3",
    "True-label risk": "oracle-risk",
    "Correctness oracle": "oracle-correctness",
    "Signed residual": "signed-residual-k3",
    "Absolute residual": "abs-residual-k3",
    "LinearRiskTemp": "linear-risk",
    "PWLinear-3": "pwlinear-3",
    "SplineRiskTemp": "spline-risk",
    "HTS-NLL": "hts-nll",
    "HTS-BCE": "hts-bce",
    "QaTS-NLL": "qats-nll",
    "QaTS-BCE": "qats-bce",
    "SMART+BCE": "smart-bce",
    "SMART": "smart-softece",
    "LTS-scalar": "lts-scalar",
    "LTS-feature": "lts-feature",
    "SATS-Logit": "sats-logit-nll",
    "Feature-SATS": "sats-features-nll",
    "SATS-Logit-BCE": "sats-logit-bce",
    "Feature-SATS-BCE": "sats-features-bce",
    "Frozen-feature UTempH": "utemphead",
    "Vector Scaling": "vector-scaling",
    "Dirichlet (ODIR)": "dirichlet-odir",
}


def test_every_post_hoc_method_of_the_papers_tables_is_there():
    rows = {name: METHODS[ALIASES.get(name, name)] for name in IN_THE_PAPER.values()}
    assert all(row.paper for row in rows.values())
    # And what the table calls the paper's is in it, or cited there.
    said = {name for name, row in METHODS.items() if row.paper not in ("", "Related work")}
    assert said == {ALIASES.get(name, name) for name in rows}


def test_python_and_the_extras_are_those_of_the_package():
    tomllib = pytest.importorskip("tomllib", reason="came with Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.10"
    named = set(re.findall(r"'\.\[(\w+)\]'", README))
    assert {"formats", "report"} <= named <= set(project["optional-dependencies"])
    core = {re.match(r"[\w-]+", entry)[0].lower() for entry in project["dependencies"]}
    assert not core & {"torch", "matplotlib", "pandas", "pyarrow", "onnx", "h5py"}


def test_the_demo_is_as_large_as_it_is_said_to_be():
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    assert (cal.logits.shape, test.logits.shape) == ((1250, 345), (3000, 345))


def shell(*args, cwd):
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "smallcal", *args]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=True, env=environment
    )


def test_the_line_of_shell_runs(tmp_path):
    (line,) = [line for line in README.splitlines() if line.startswith("smallcal fit cal.npz")]
    shell("demo", "--export", ".", cwd=tmp_path)
    np.save(tmp_path / "new.npy", sc.load_demo("test").logits)
    for command in line.split("&&"):
        shell(*command.split()[1:], cwd=tmp_path)
    assert np.load(tmp_path / "probabilities.npy").shape == (3000, 345)


@pytest.mark.filterwarnings("ignore::smallcal.FitWarning")
def test_the_sentences_beside_the_picture_are_true():
    val, test = sc.load_demo("cal"), sc.load_demo("test")

    def found(name):
        p = sc.make(name).fit(val.logits, val.labels).predict_proba(test.logits)
        return sc.evaluate(test.labels, p, metrics=["nll", "accuracy"])

    raw, one, ours = map(found, ("none", "ts-nll", "smallcal"))
    assert 6.5 < (raw["nll"] - ours["nll"]) / (raw["nll"] - one["nll"]) < 7.5
    said = f"from {100 * raw['accuracy']:.1f} to {100 * ours['accuracy']:.1f} %"
    assert said in one_line(README)


def test_kept_predictions_have_their_calibrated_confidence():
    val, test = sc.load_demo("cal"), sc.load_demo("test")
    kept = sc.Calibrator(keep_predictions=True).fit(val.logits, val.labels)
    plain = sc.Calibrator().fit(val.logits, val.labels)
    own = test.logits.argmax(axis=1)
    np.testing.assert_array_equal(kept.predict(test.logits), own)
    wanted = plain.confidence(test.logits, predictions=own)
    np.testing.assert_allclose(kept.confidence(test.logits), wanted, rtol=1e-6)


def test_a_split_without_errors_is_temperature_scaling_with_a_warning():
    val = sc.load_demo("cal")
    right = val.logits.argmax(axis=1) == val.labels
    with pytest.warns(sc.FitWarning, match="one_sided"):
        cal = sc.Calibrator().fit(val.logits[right], val.labels[right])
    assert isinstance(cal.fitted_.map, ScalarMap)
    assert "one_sided" in cal.flags_


def test_fit_says_the_accuracies_of_the_demo(tmp_path):
    shell("demo", "--export", ".", cwd=tmp_path)
    done = shell("fit", "cal.npz", "-o", "cal.json", cwd=tmp_path)
    said = one_line(done.stdout + done.stderr)
    (gain,) = re.search(r"accuracy (\+[\d.]+) points there", one_line(DEMO)).groups()
    assert f"accuracy {gain} points" in said
    val, test = sc.load_demo("cal"), sc.load_demo("test")
    right = (sc.Calibrator().fit(val.logits, val.labels).predict(test.logits) == test.labels).mean()
    assert f"to {100 * right:.1f} % on the test samples" in one_line(DEMO)


def test_the_demo_fits_80_columns(tmp_path):
    done = shell("demo", "--draws", "2", "--report", "none", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("SRTS-BCE  " in line for line in lines) == 3  # one row for each size


#: Rows of the README's table: the kind's heading in no-harm.md, and its best rival there.
KINDS = {
    "27 fine-tuned classifiers": ("Fine-tuned", "probmetrics:svs"),
    "14 language models, multiple choice": ("Options", "vector-scaling"),
    "18 tabular models": ("Tabular", "probmetrics:sms"),
    "6 saturated tabular models": ("Saturated", "probmetrics:sms"),
}
RIVALS = ("vector-scaling", "probmetrics:svs", "probmetrics:sms")


def pairs(text):
    """Return log-loss and ECE of each cell, with the mark of a tie where there is one."""
    return re.findall(r"(\d+\.\d\d(?: [=<])?) / (\d+\.\d\d(?: [=<])?)", text)


def readme_row(kind):
    (line,) = [line for line in README.splitlines() if line.startswith(f"| {kind} |")]
    return pairs(line)


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_models_is_that_of_the_studies(kind):
    """Each number of the README's table stands on the page of its study, in its place."""
    heading, rival = KINDS[kind]
    page = (ROOT / "docs" / "explanation" / "no-harm.md").read_text(encoding="utf-8")
    table = page.split(f"### {heading}, 250 samples")[1].split("<details>")[0]
    row = r"^\| `([\w:-]+)` \| ([\d.]+(?: [=<])?) \|[^|]+\| ([\d.]+(?: [=<])?) \|"
    found = {name: (nll, ece) for name, ece, nll in re.findall(row, table, flags=re.MULTILINE)}
    assert rival == min(RIVALS, key=lambda name: float(found[name][0].strip(" =<")))
    names = ("none", "ts-nll", rival, "smallcal")
    assert readme_row(kind) == [found[name] for name in names]


def test_the_row_of_scores_is_that_of_the_study():
    page = (ROOT / "docs" / "explanation" / "score-maps.md").read_text(encoding="utf-8")

    def at_250(metric):
        table = page.split(f"| {metric} |")[1].split("\n\n")[0]
        rows = re.findall(r"^\| ([^|]+) \|(.*)\|$", table, flags=re.MULTILINE)
        found = {name: cells.split("|")[3].strip() for name, cells in rows}
        # A star there is a map that is worse: the others but the default's own are ties.
        assert not any(cell.endswith("!") for cell in found.values())
        return {
            name: cell.strip("*") if "*" in cell or name == "spline" else f"{cell} ="
            for name, cell in found.items()
        }

    loss, ece = at_250("Log-loss x 100"), at_250("ECE x 100")
    rivals = ("Platt, plain", "beta, plain", "venn-abers", "isotonic (isotonic regression)")
    best = min(rivals, key=lambda name: float(loss[name].strip(" =")))
    assert loss[best].strip(" =") == loss["beta, plain"].strip(" =")
    names = ("none (the score as it is)", "ts-nll (temperature scaling)", "beta, plain", "spline")
    assert readme_row("14 sets of answer scores") == [(loss[name], ece[name]) for name in names]


def test_the_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= 120
    assert max(len(line) for line in lines if line.startswith("|")) <= 120


def test_commands_that_are_named_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"\bmake ([a-z][a-z-]+)\b", re.sub(r"```sh", "", README)))
    assert {"demo", "test", "docs", "study-no-harm"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
    prose = re.sub(r"^smallcal (makes|is|also)", "", README, flags=re.MULTILINE)
    verbs = set(re.findall(r"(?:`|^|&& )smallcal ([a-z]+)", prose, flags=re.MULTILINE))
    assert {"fit", "apply", "monitor", "report"} <= verbs <= set(Verbs.verbs)


def test_what_is_linked_is_there():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)|<img src=\"([^\"]+)\"", README)
    local = [one or other for one, other in links if "://" not in (one or other)]
    assert len(local) >= 20
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_json_of_the_demo_names_what_its_page_recommends(tmp_path):
    found = json.loads(shell("demo", "--draws", "1", "--json", cwd=tmp_path).stdout)
    assert f"The default (`{found['recommended']}`)" in DEMO
