"""``smallcal refresh``: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from support.cases import fit
from support.scored import drawn
from support.simulated import simulate


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with calibrators and data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(500, 6)
    fit("ts-nll", z, y).save("cal.json")
    np.savez("cal.npz", logits=z, labels=y)
    groups = np.array(["north", "south"])[np.arange(500) % 2]
    shown = np.where(groups == "north", z.argmax(axis=1), y)
    sc.TemperatureScaling().fit(z, shown, groups=groups).save("grouped.json")
    z, y = simulate(300, 6, seed=1)
    np.savez("new.npz", logits=2 * z, labels=y, region=groups[:300])
    np.savez("first.npz", logits=2 * z[:100], labels=y[:100])
    np.savez("second.npz", logits=2 * z[100:], labels=y[100:])
    np.savez("one.npz", logits=z[:1], labels=y[:1])
    np.savez("bare.npz", logits=z)
    np.savez("narrow.npz", logits=z[:, :4], labels=y % 4)
    np.savez("unknown.npz", logits=z, labels=y + 6)
    np.savez("swapped.npz", logits=z, labels=(z.argmax(axis=1) + 1) % 6)
    x, outcome = drawn(300)
    sc.Calibrator(input="score").fit(x, outcome).save("score.json")
    x, outcome = drawn(200, seed=1)
    np.savez("scores.npz", scores=x, outcomes=1 - outcome)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_what_changed_is_said_and_written(cli):
    code, out, err = cli("refresh", "cal.json", "new.npz", "-o", "new.json")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for said in ("300 new rows, 300 since the fit on 500.", "have drifted", "Confidence: new;",
                 "temperature", "Mean confidence on the new rows", "Wrote new.json."):  # fmt: skip
        assert said in out
    data = np.load("new.npz")
    expected = sc.refresh(sc.load("cal.json"), data["logits"], data["labels"]).calibrator
    found = sc.load("new.json")
    np.testing.assert_array_equal(
        found.predict_proba(data["logits"]), expected.predict_proba(data["logits"])
    )


@pytest.mark.usefixtures("here")
def test_two_files_one_after_another_are_both_at_once(cli):
    assert cli("refresh", "cal.json", "second.npz", "-o", "a.json")[0] == 0
    code, out, _ = cli("refresh", "a.json", "first.npz", "-o", "b.json", "--json")
    told = json.loads(out)
    assert (code, told["rows"], told["rows_in_all"], told["output"]) == (0, 100, 300, "b.json")
    assert cli("refresh", "cal.json", "new.npz", "-o", "whole.json")[0] == 0
    b, whole = (json.loads(Path(name).read_text())["later"] for name in ("b.json", "whole.json"))
    b[0].pop("batches"), whole[0].pop("batches")
    assert b == whole


@pytest.mark.usefixtures("here")
def test_scores_groups_and_one_row(cli):
    code, out, _ = cli("refresh", "score.json", "scores.npz", "-o", "s.json")
    assert code == 0
    assert "Probability: new; log-loss" in out
    code, out, _ = cli("refresh", "grouped.json", "new.npz", "-o", "g.json", "--group", "region")
    assert code == 0
    code, out, _ = cli("refresh", "cal.json", "one.npz", "-o", "1.json")
    assert code == 0
    assert "1 new row, 1 since the fit on 500." in out


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("calibrator", "data", "said"),
    [
        ("cal.json", "bare.npz", "has no labels"),
        ("cal.json", "cal.npz", "fitted on"),
        ("cal.json", "narrow.npz", "6 columns"),
        ("cal.json", "unknown.npz", "labels"),
        ("cal.json", "swapped.npz", "--force"),
        ("cal.json", "scores.npz", "holds score"),
        ("grouped.json", "new.npz", "--group"),
        ("cal.json", "none.npz", "none.npz"),
        ("none.json", "new.npz", "none.json"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(cli, calibrator, data, said):
    code, out, err = cli("refresh", calibrator, data, "-o", "out.json")
    assert code == 2
    assert out == ""
    assert said in " ".join(err.split())
    assert "Traceback" not in err
    assert not Path("out.json").exists()


@pytest.mark.usefixtures("here")
def test_not_onto_the_rows_nor_twice(cli):
    before = Path("new.npz").read_bytes()
    code, _, err = cli("refresh", "cal.json", "new.npz", "-o", "new.npz")
    assert code == 2
    assert "is an input and would be overwritten" in err
    assert Path("new.npz").read_bytes() == before
    cli("refresh", "cal.json", "new.npz", "-o", "new.json")
    code, _, err = cli("refresh", "new.json", "new.npz", "-o", "again.json")
    assert code == 2
    assert "300 rows were used by an earlier refresh" in " ".join(err.split())


@pytest.mark.usefixtures("here")
def test_in_place(cli):
    cli("refresh", "cal.json", "new.npz", "-o", "new.json")
    assert cli("refresh", "cal.json", "new.npz", "-o", "cal.json")[0] == 0
    assert Path("cal.json").read_bytes() == Path("new.json").read_bytes()


def test_processes_that_refresh_one_file_lose_no_rows(here):
    """Four at once, 75 rows each: one after another, with or without a link in between."""
    data = np.load("new.npz")
    for i in range(4):
        rows = slice(75 * i, 75 * i + 75)
        np.savez(f"part{i}.npz", logits=data["logits"][rows], labels=data["labels"][rows])
    Path("link.json").symlink_to("cal.json")
    names = ["cal.json", "link.json"] * 2
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "smallcal", "refresh", name, f"part{i}.npz", "-o", name]
        )
        for i, name in enumerate(names)
    ]
    assert [worker.wait() for worker in workers] == [0] * 4
    (later,) = json.loads(Path("cal.json").read_text())["later"]
    whole = sc.refresh(sc.load("cal.json"), data["logits"][:9], data["labels"][:9])
    assert whole.rows_in_all == 309
    assert len(later["batches"]) == 4
    assert Path("link.json").is_symlink()
