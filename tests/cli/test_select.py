"""``smallcal select``: what it prints and writes, and one line for whatever is wrong."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.cli.verbs.select import parsed
from support.simulated import simulate


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(300, 5, temperature=2.5, seed=1)
    np.savez("cal.npz", logits=z, labels=y)
    honest, truth = simulate(300, 5, temperature=1.0, seed=3)
    np.savez("honest.npz", logits=honest, labels=truth)
    np.savez("both.npz", val_logits=z, val_labels=y, test_logits=z, test_labels=y)
    np.savez("right.npz", logits=z, labels=z.argmax(axis=1))
    np.savez("few.npz", logits=z[:60], labels=y[:60])
    np.savez("flat.npz", logits=np.ones((60, 5)), labels=np.arange(60) % 5)
    np.savez("simplex.npz", logits=np.full((60, 4), 0.25), labels=np.arange(60) % 4)
    np.savez("named.npz", logits=z, labels=np.array(list("abcde"))[y])
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\ne\n")
    return tmp_path


QUICK = ("--candidates", "none,tva-ts,signal-linear", "--repeats", "2")


def test_help_names_the_options_in_80_columns(cli):
    code, out, err = cli("select", "-h")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "srts-bce[n_groups=5]" in " ".join(out.replace("│", " ").split())
    assert "select" in cli("-h")[1]


def test_it_prints_tables_a_reason_and_the_next_command(cli):
    code, out, err = cli("select", "cal.npz", *QUICK)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    assert "cal.npz: 300 samples, 5 classes, cut into 5 folds 2 times." in text
    row = json.loads(cli("select", "cal.npz", *QUICK, "--json")[1])["table"][1]
    size = f"{100 * row['gain']:.2f}"
    assert f"tva-ts none +{size} {100 * row['standard_error']:.2f} " in text
    reason = f"Reason: tva-ts lowers the held-out top-label log-loss by {size} points compared"
    assert f"Choice: tva-ts. {reason}" in text
    assert "Next: smallcal fit cal.npz --method tva-ts -o cal.json" in text


def test_keeping_the_uncalibrated_model_is_an_answer(cli):
    code, out, _ = cli("select", "honest.npz", *QUICK)
    text = " ".join(out.split())
    assert code == 0
    assert "Reason: not enough evidence: keep the uncalibrated model" in text
    assert "Nothing to fit: use the model's own probabilities" in text


def test_json_holds_what_the_library_gives(cli):
    code, out, err = cli("select", "cal.npz", *QUICK, "--seed", "4", "--level", "0.9", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    with np.load("cal.npz") as arrays:
        found = sc.select(
            arrays["logits"],
            arrays["labels"],
            candidates=["none", "tva-ts", "signal-linear"],
            n_repeats=2,
            random_state=4,
            level=0.9,
        )
    assert document.pop("data") == "cal.npz"
    assert document.pop("output") is None
    assert document == json.loads(json.dumps(found.to_dict()))


def test_output_is_the_choice_fitted_on_all_samples(cli):
    code, out, _ = cli("select", "cal.npz", *QUICK, "-o", "new.json", "--seed", "2")
    assert code == 0
    assert "Wrote new.json: tva-ts, fitted on all 300 samples." in out
    cal = sc.load("new.json")
    with np.load("cal.npz") as arrays:
        again = sc.make("tva-ts").fit(arrays["logits"], arrays["labels"])
    assert cal.method_ == "tva-ts"
    assert cal.temperature_ == again.temperature_
    assert cli("select", "honest.npz", *QUICK, "-o", "same.json")[0] == 0
    assert sc.load("same.json").method_ == "none"


def test_options_of_a_candidate_and_the_papers_rules(cli):
    paper = ("--candidates", "tva-ts,srts-bce[n_groups=2,C=0.5],srts-bce", "--repeats", "2")
    for rule in ("repeat", "fold", "holdout"):
        code, out, err = cli("select", "both.npz:val", *paper, "--rule", rule, "--json")
        assert (code, err) == (0, "")
        document = json.loads(out)
        assert document["rule"] == rule
        assert document["table"][1]["candidate"] == "srts-bce[n_groups=2,C=0.5]"
    ece = ("--rule", "holdout", "--loss", "ece15")
    code, out, _ = cli("select", "both.npz:val", *paper, *ece)
    assert code == 0
    assert "a fifth held out once" in " ".join(out.split())
    assert "--method" in pasted(out)


def test_the_next_command_repeats_the_options_and_runs(cli):
    one = ("--candidates", "srts-bce[n_groups=2,bounds=0.1,10]", "--repeats", "2")
    code, out, _ = cli("select", "cal.npz", *one)
    assert code == 0
    command = pasted(out)
    assert command[-1] == "cal.json"
    assert cli(*command)[0] == 0
    assert sc.load("cal.json").bounds == (0.1, 10)


def pasted(out):
    """Return the arguments of the command that stands alone on the last line."""
    *_, said, line = out.splitlines()
    assert said == "Next:"
    first, *command = shlex.split(line)
    assert first == "smallcal"
    return command


def test_the_next_command_can_be_pasted_whatever_the_names(cli, here):
    """File names with spaces, an option of the method that a shell would read, the labels."""
    folder = here / "my long folder of logits and labels that no terminal has room for"
    folder.mkdir()
    p = np.load("cal.npz")["logits"]
    np.save(folder / "the scores.npy", np.exp(p) / np.exp(p).sum(axis=1, keepdims=True))
    names = np.array(list("abcde"))[np.load("cal.npz")["labels"]]
    (folder / "it's labels.txt").write_text("\n".join(names) + "\n")
    data = str(folder / "the scores.npy")
    given = ["--labels", str(folder / "it's labels.txt"), "--input", "probabilities"]
    given += ["--class-names", "names.txt"]
    one = ["--candidates", "srts-bce[objective=mixed(3),n_groups=2]", "--repeats", "2"]
    code, out, err = cli("select", data, *given, *one, "--seed", "7")
    assert (code, err) == (0, "")
    command = pasted(out)
    chosen = ["--method", "srts-bce", "--set", "objective=mixed(3)", "--set", "n_groups=2"]
    assert command == ["fit", data, *given, *chosen, "--seed", "7", "-o", "cal.json"]
    assert cli("select", data, *given, *one, "--seed", "7", "-o", "same.json")[0] == 0
    source = str(Path(__file__).parents[2] / "src")
    shell = subprocess.run(
        ["sh", "-c", f'smallcal() {{ "$PYTHON" -m smallcal "$@"; }}\n{out.splitlines()[-1]}'],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert shell.returncode == 0, shell.stderr
    fitted, same = sc.load("cal.json"), sc.load("same.json")
    assert (fitted.method_, fitted.input) == (same.method_, "probabilities")
    assert fitted.temperatures_.tolist() == same.temperatures_.tolist()
    assert fitted.class_names == tuple("abcde")


def test_candidates_are_parsed_with_their_options():
    assert parsed("none, srts-bce[n_groups=5] ,tva-ts") == [
        ("none", {}),
        ("srts-bce", {"n_groups": 5}),
        ("tva-ts", {}),
    ]
    assert parsed("srts-bce[bounds=0.1,10,n_groups=2]") == [
        ("srts-bce", {"bounds": (0.1, 10), "n_groups": 2})
    ]


def test_class_names_and_probabilities(cli):
    code, _, err = cli("select", "named.npz", "--class-names", "names.txt", *QUICK, "-o", "n.json")
    assert (code, err) == (0, "")
    assert sc.load("n.json").class_names == ("a", "b", "c", "d", "e")
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=80)
    np.savez("p.npz", probs=p, labels=p.argmax(axis=1))
    code, out, _ = cli("select", "p.npz", *QUICK, "--json")
    assert (code, json.loads(out)["input"]) == (0, "probabilities")


def test_no_errors_keeps_the_uncalibrated_model(cli):
    code, out, err = cli("select", "right.npz", *QUICK)
    assert (code, err) == (0, "")
    assert "keep the uncalibrated model, for no prediction of 300 is wrong" in " ".join(out.split())


def test_what_was_left_out_or_failed_is_told(cli):
    code, out, _ = cli("select", "few.npz", "--repeats", "1")
    assert code == 0
    assert "srts-bce: left out: 60 samples for 10 fitted parameters" in " ".join(out.split())
    assert "Choice: smallcal." in out
    code, out, _ = cli("select", "cal.npz", "--candidates", "none,features-k3", "--repeats", "1")
    assert code == 0
    told = "features-k3: failed in 5 of 5 fits: features-k3 needs features"
    assert told in " ".join(out.split())


BAD = [
    (["both.npz"], "holds several splits"),
    (["gone.npz"], "cannot read gone.npz"),
    (["flat.npz"], "flat.npz: logits are constant in every row"),
    (["simplex.npz"], "simplex.npz: logits look like probabilities"),
    (["cal.npz", "--rule", "luck"], "rule must be one of sample, repeat, fold, holdout"),
    (["cal.npz", "--loss", "luck"], "unknown metric 'luck'"),
    (["cal.npz", "--loss", "ece15"], "a mean over samples"),
    (["cal.npz", "--folds", "1"], "--folds"),
    (["cal.npz", "--repeats", "1", "--rule", "repeat"], "--repeats of at least 2"),
    (["cal.npz", "--candidates", "luck"], "unknown method 'luck'"),
    (["cal.npz", "--candidates", ","], "--candidates names none"),
    (["cal.npz", "--candidates", "srts-bce[colour=3]"], "colour"),
    (["cal.npz", "--candidates", "oracle-risk"], "reads the labels"),
    (["cal.npz", "-o", "no/where.json"], "the folder no does not exist"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_code_2(args, message, cli, here):
    before = sorted(here.iterdir())
    code, out, err = cli("select", *args)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(here.iterdir()) == before
