"""``smallcal monitor``: what it prints, its exit codes, and many processes on one state."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators.decision import Threshold
from support.cases import fit
from support.simulated import simulate

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with a calibrator and data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(500, 6)
    fit("srts-bce", z, y).save("cal.json")
    fit("tva-ts", z, y).save("other.json")
    np.savez("cal.npz", logits=z, labels=y)
    z, y = simulate(600, 6, seed=1)
    np.savez("new.npz", logits=z)
    np.savez("labelled.npz", logits=z, labels=y)
    np.savez("drifted.npz", logits=0.4 * z)
    np.savez("wrong.npz", logits=z, labels=(y + 1) % 6)
    other, y_other = simulate(600, 6, seed=2)
    np.savez("other.npz", logits=other, labels=y_other)
    np.savez("other-wrong.npz", logits=other, labels=(y_other + 1) % 6)
    np.save("y.npy", y)
    np.savez("narrow.npz", logits=z[:, :4])
    document = json.loads(Path("cal.json").read_text())
    del document["reference"]
    Path("old.json").write_text(json.dumps(document))
    return tmp_path


def test_a_calm_stream_is_code_0_and_a_state_goes_on(cli):
    code, out, err = cli("monitor", "cal.json", "new.npz", "--state", "s.json")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "srts-bce: 600 rows seen, 0 with labels." in out
    assert "no drift detected" in out
    code, out, _ = cli("monitor", "cal.json", "new.npz", "--seen", "--labels", "y.npy",
                       "--state", "s.json", "--json")  # fmt: skip
    found = json.loads(out)
    assert (code, found["rows"], found["labelled"]) == (0, 600, 600)
    monitor, data = sc.Monitor(sc.load("cal.json")), np.load("labelled.npz")
    monitor.update(data["logits"])
    report = monitor.update(data["logits"], data["labels"], seen=True)
    assert found == {"calibrator": "cal.json", "data": "new.npz",
                     **json.loads(json.dumps(report.to_dict()))}  # fmt: skip
    assert json.loads(Path("s.json").read_text()) == monitor.to_dict()


def test_drift_and_wrong_confidence_are_code_1(cli):
    code, out, _ = cli("monitor", "cal.json", "drifted.npz")
    assert code == 1
    assert "Inputs have drifted" in out
    assert "more rows to find out whether a refit is needed" in " ".join(out.split())
    more = "More than class frequencies changed: calibration has likely got worse."
    assert more in " ".join(out.split())
    code, out, _ = cli("monitor", "cal.json", "drifted.npz", "--json")
    shift = json.loads(out)["drift"]["class_shift"]
    assert (code, shift["kind"], shift["sentence"], len(shift["now"])) == (1, "more", more, 6)
    code, out, _ = cli("monitor", "cal.json", "wrong.npz", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["drift"]["alarm"]) == (1, "refit", False)
    code, out, _ = cli("monitor", "cal.json", "wrong.npz", "--prometheus")
    assert code == 1
    assert 'smallcal_monitor_alarm{method="srts-bce",check="calibration"} 1.0' in out.splitlines()


def test_states_of_workers_are_looked_at_together(cli):
    cli("monitor", "cal.json", "new.npz", "--state", "a.json")
    cli("monitor", "cal.json", "other.npz", "--state", "b.json")
    before = Path("a.json").read_text()
    code, out, _ = cli("monitor", "cal.json", "--merge", "a.json", "--merge", "b.json", "--json")
    found = json.loads(out)
    assert (code, found["rows"], found["labelled"]) == (0, 1200, 600)
    assert Path("a.json").read_text() == before


def test_a_calibrator_without_counts_takes_its_split(cli):
    code, out, err = cli("monitor", "old.json", "new.npz")
    assert (code, out) == (2, "")
    assert "--reference" in err
    old = cli("monitor", "old.json", "new.npz", "--reference", "cal.npz", "--json")
    new = cli("monitor", "cal.json", "new.npz", "--json")
    assert old[1].replace("old.json", "cal.json") == new[1]


BAD = [
    (["gone.json"], "cannot read gone.json"),
    (["cal.json", "gone.npz"], "cannot read gone.npz"),
    (["cal.json", "narrow.npz"], "narrow.npz: logits must have the 6 columns"),
    (["cal.json", "--labels", "y.npy"], "say something about DATA"),
    (["cal.json", "--seen"], "say something about DATA"),
    (["cal.json"], "nothing to look at: name DATA"),
    (["cal.json", "--state", "none.json"], "nothing to look at: name DATA"),
    (["cal.json", "new.npz", "--seen"], "add nothing without labels"),
    (["cal.json", "new.npz", "--json", "--prometheus"], "choose one"),
    (["cal.json", "--state", "s.json", "--merge", "t.json"], "--merge only looks"),
    (["cal.json", "--merge", "t.json"], "cannot read t.json"),
    (["cal.json", "--merge", "cal.json"], "cal.json is not the state of a monitor"),
    (["cal.json", "--alpha", "0"], "alpha must be a number up to 0.5"),
    (["cal.json", "--tolerance", "nan"], "tolerance must be a number up to 0.5"),
    (["cal.json", "new.npz", "--state", "gone/s.json"], "cannot write to gone/s.json"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_code_2(args, message, cli):
    code, out, err = cli("monitor", *args)
    assert (code, out) == (2, "")
    assert err.startswith("smallcal: error: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_state_keeps_its_calibrator_and_settings(cli):
    cli("monitor", "cal.json", "new.npz", "--state", "s.json", "--alpha", "0.02")
    kept = Path("s.json").read_text()
    code, _, err = cli("monitor", "other.json", "new.npz", "--state", "s.json")
    assert (code, "s.json: the state is of another calibrator" in err) == (2, True)
    code, _, err = cli("monitor", "cal.json", "new.npz", "--state", "s.json", "--alpha", "0.05")
    assert (code, "begun with --alpha 0.02" in err) == (2, True)
    assert Path("s.json").read_text() == kept


def test_a_file_that_is_given_again_is_refused(cli):
    cli("monitor", "cal.json", "new.npz", "--state", "s.json")
    kept = Path("s.json").read_text()
    for again in ("new.npz", "labelled.npz"):  # with labels or without, the rows are the same
        code, out, err = cli("monitor", "cal.json", again, "--state", "s.json")
        assert (code, out) == (2, "")
        assert f"{again}: rows of this batch were counted before" in err
        assert err.count("\n") == 1
    assert Path("s.json").read_text() == kept
    cli("monitor", "cal.json", "new.npz", "--state", "t.json")
    code, _, err = cli("monitor", "cal.json", "--merge", "s.json", "--merge", "t.json")
    assert (code, "would count twice" in err) == (2, True)


@pytest.mark.slow
def test_many_processes_lose_nothing(here):
    program = (
        "import sys, numpy as np, smallcal as sc\n"
        "folder = sys.argv[1]\n"
        "z = np.load(folder + '/new.npz')['logits']\n"
        "monitor = sc.Monitor(sc.load(folder + '/cal.json'))\n"
        "monitor.update(z[:7])\n"
        "for _ in range(25):\n"
        "    monitor.add_to(folder + '/shared.json')\n"
    )
    command = [sys.executable, "-c", program, str(here)]
    workers = [subprocess.Popen(command, cwd=ROOT) for _ in range(4)]
    assert [worker.wait() for worker in workers] == [0] * 4
    monitor = sc.Monitor(sc.load("cal.json"))
    monitor.update(np.load("new.npz")["logits"][:7])
    found = json.loads(Path("shared.json").read_text())
    assert found["rows"] == 4 * 25 * 7
    assert found["confidence"] == [100 * n for n in monitor.to_dict()["confidence"]]
    assert sorted(path.name for path in here.glob("*shared*")) == [
        "shared.json",
        "shared.json.lock",
    ]


def decided(path, **changes):
    """Give the calibrator of the folder a threshold, and save it."""
    known = {"risk": 0.1, "confidence": 0.95, "rule": "accepted", "by": "all", "names": ("",)}
    counts = {"thresholds": (0.8,), "n": (500,), "accepted": (300,), "errors": (9,)}
    rest = {"bounds": (0.06,), "cross": False, "sha256": "0" * 64, "promise": ""}
    rule = Threshold(**{**known, **counts, **rest, **changes})
    replace(runtime.load("other.json"), decisions=(rule,)).save(path)


def test_thresholds_are_watched_and_a_broken_promise_is_code_1(cli, here):
    decided("decided.json")
    code, out, err = cli("monitor", "decided.json", "labelled.npz", "--state", "s.json")
    assert (code, err) == (0, "")
    assert "Accepted at a risk of 10 %" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli("monitor", "decided.json", "other-wrong.npz", "--state", "s.json",
                       "--json")  # fmt: skip
    found = json.loads(out)
    assert (code, found["decisions"][0]["alarm"], found["alarm"]) == (1, True, True)
    code, out, _ = cli("monitor", "decided.json", "wrong.npz", "--tolerance", "0.5")
    assert code == 1
    assert "the guarantee is broken" in " ".join(out.split())
    # The state of the calibrator before it was certified goes on, and the other way round.
    code, out, _ = cli("monitor", "other.json", "cal.npz", "--state", "s.json", "--json")
    assert json.loads(out)["rows"] == 1700
    assert "decisions" not in json.loads(out)


def test_thresholds_by_group_take_groups_from_the_file(cli, here):
    two = {"by": "group", "names": ("a", "b"), "thresholds": (0.8, 0.9), "n": (250, 250)}
    two |= {"accepted": (150, 150), "errors": (4, 5), "bounds": (0.06, 0.07)}
    decided("decided.json", **two)
    known = np.load("labelled.npz")
    names = np.where(np.arange(600) % 2, "a", "b")
    np.savez("grouped.npz", **known, site=names)
    code, out, err = cli("monitor", "decided.json", "labelled.npz")
    assert (code, out) == (2, "")
    assert "--group" in err
    code, out, err = cli("monitor", "decided.json", "grouped.npz", "--group", "site", "--json")
    assert (code, err) == (0, "")
    monitor = sc.Monitor(sc.load("decided.json"))
    report = monitor.update(known["logits"], known["labels"], groups=names)
    assert json.loads(out)["decisions"] == json.loads(json.dumps(report.to_dict()))["decisions"]
