"""``smallcal plan``: what it prints, its JSON, and its errors in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import smallcal as sc
from support.simulated import simulate

QUICK = ("--draws", "5", "--method", "tva-ts")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(250, 6, temperature=2.5)
    np.savez("pilot.npz", logits=z, labels=y)
    np.savez("few.npz", logits=z[:20], labels=y[:20])
    np.savez("easy.npz", logits=z, labels=z.argmax(axis=1))
    np.save("z.npy", z)
    np.save("y.npy", y)


def test_a_plan_is_two_tables_and_sentences_in_80_columns(cli):
    code, out, err = cli("plan", "pilot.npz", "--draws", "5", "--method", "srts-bce")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "pilot.npz: 250 samples, 6 classes. srts-bce fitted on 5 draws" in out
    lines = [line.split() for line in out.splitlines()]
    measured = [line[0] for line in lines if line[1:2] == ["measured"]]
    beyond = [line[0] for line in lines if line[1:2] == ["extrapolated"]]
    assert (measured, beyond) == (["50", "100", "200"], ["250", "500", "1,000"])
    assert [line[0] for line in lines if line[:1] in (["none"], ["tva-ts"], ["srts-bce"])]
    assert "With all 250 samples srts-bce is expected to show ECE" in out
    assert "Calibration lowers ECE" in out
    assert "Use smallcal, the default: it changes" in out


def test_json_is_the_plan_of_the_library(cli):
    args = ("--sizes", "100,1_000", "--target", "ece15=2%", "--target", "top_label_bce=0.4")
    code, out, _ = cli(
        "plan", "pilot.npz", *QUICK, *args, "--seed", "3", "--test-size", "700", "--json"
    )
    assert code == 0
    z, y = simulate(250, 6, temperature=2.5)
    found = sc.plan(
        z,
        y,
        method="tva-ts",
        draws=5,
        sizes=[100, 1000],
        target={"ece15": 0.02, "top_label_bce": 0.4},
        test_size=700,
        random_state=3,
    )
    assert json.loads(out) == {"data": "pilot.npz", **json.loads(json.dumps(found.to_dict()))}


def test_labels_may_have_a_file_of_their_own(cli):
    first = cli("plan", "z.npy", "--labels", "y.npy", *QUICK, "--sizes", "100", "--json")
    second = cli("plan", "pilot.npz", *QUICK, "--sizes", "100", "--json")
    assert first[0] == second[0] == 0
    assert first[1].replace("z.npy", "pilot.npz") == second[1]


def test_thin_evidence_is_a_note(cli):
    code, out, err = cli("plan", "easy.npz", *QUICK)
    assert code == 0
    assert err == (
        "smallcal: note: no prediction of the pilot is wrong: calibration cannot be fitted\n"
    )
    assert "nan" not in out


BAD = [
    (["gone.npz"], "cannot read gone.npz"),
    (["few.npz"], "few.npz: a plan needs at least 50 labelled samples"),
    (["z.npy"], "z.npy has no labels"),
    (["pilot.npz", "--method", "magic"], "error: unknown method 'magic'"),
    (["pilot.npz", "--method", "none"], "none fits nothing"),
    (["pilot.npz", "--sizes", "many"], "--sizes must be whole numbers with commas between"),
    (["pilot.npz", "--sizes", "1,2"], "each size must be a whole number of at least 5; got 1"),
    (["pilot.npz", "--draws", "1"], "--draws"),
    (["pilot.npz", "--target", "ece15"], "--target must look like ece15=0.02"),
    (["pilot.npz", "--target", "ece15=1e"], "--target must look like ece15=0.02"),
    (["pilot.npz", "--target", "ece15=3"], "a fraction: write 0.03 for 3 %"),
    (["pilot.npz", "--target", "luck=0.1"], "no target for 'luck'"),
    (["pilot.npz", "--test-size", "0"], "--test-size"),
    (["pilot.npz", "--level", "2"], "level must lie between 0 and 1"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_code_2(args, message, cli):
    code, out, err = cli("plan", *args)
    assert (code, out) == (2, "")
    assert err.startswith("smallcal: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_clusters(cli):
    data = np.load("pilot.npz")
    rows = np.repeat(np.arange(100), 3)
    np.savez("many.npz", logits=data["logits"][rows], labels=data["labels"][rows], site=rows)
    assert "only 100 of 300 samples differ" in cli("plan", "many.npz", *QUICK)[2]
    code, out, err = cli("plan", "many.npz", *QUICK, "--cluster", "site", "--json")
    assert (code, err) == (0, "")
    given = {"method": "tva-ts", "draws": 5, "clusters": rows}
    found = sc.plan(data["logits"][rows], data["labels"][rows], **given)
    assert json.loads(out)["rows"] == json.loads(json.dumps(found.to_dict()["rows"]))
    code, out, err = cli("fit", "many.npz", "--cluster", "site", "-o", "c.json")
    assert (code, err) == (0, "")
    code, out, err = cli("fit", "many.npz", "--cluster", "sit", "-o", "d.json")
    assert (code, out) == (2, "")
    assert "--cluster: many.npz has no 'sit'" in err
    code, out, err = cli("fit", "many.npz", "--cluster", "site", "--per", "site", "-o", "e")
    assert (code, out) == (2, "")
    assert "leave out --cluster" in err
