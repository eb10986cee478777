"""Decisions from the shell: written beside probabilities, shown, exported, and refused in words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators.class_frequencies import ClassFrequencies
from smallcal.calibrators.confidence_shift import ConfidenceShift
from smallcal.calibrators.later import with_later
from smallcal.calibrators.prediction_set import PredictionSet
from smallcal.deploy.decided_rows import PREDICTIONS
from smallcal.io import read
from support.decided import threshold, with_decisions
from support.simulated import simulate

SITES = np.array(["north", "south", "west"])
NAMES = ("ant", "bee", "cow", "dog")
BY_SITE = threshold(0.5, 0.9, by="group", names=("north", "south"), risk=0.1)
SETS = PredictionSet(
    alpha=0.1,
    score="lac",
    quantiles=(0.7,),
    penalty=0.0,
    k_reg=0,
    empty=False,
    n=(300,),
    sha256="cd" * 32,
    promise="The set of a new row contains the class with a probability of at least 90 %.",
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand in a folder with new rows, and calibrators with decisions of each sort."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(500, 4, seed=0)
    fitted = sc.TemperatureScaling(class_names=NAMES).fit(z, y).fitted_
    fitted.save("plain.json")
    with_decisions(fitted, threshold(0.7)).save("one.json")
    two = with_decisions(fitted, threshold(0.7), threshold(0.9, risk=0.005))
    two.save("two.json")
    with_decisions(fitted, BY_SITE).save("sites.json")
    with_decisions(fitted, threshold(0.7), SETS).save("sets.json")
    new, labels = simulate(200, 4, seed=1)
    np.savez("new.npz", logits=new, labels=labels, groups=SITES[np.arange(200) % 3])
    np.save("new.npy", new)
    header = ",".join([*(f"logit_{name}" for name in reversed(NAMES)), "site"])
    rows = zip(new[:, ::-1].tolist(), SITES[np.arange(200) % 3], strict=True)
    text = "".join(f"{','.join(map(repr, row))},{site}\n" for row, site in rows)
    Path("turned.csv").write_text(f"{header}\n{text}")
    return tmp_path


def new():
    return simulate(200, 4, seed=1)[0]


@pytest.mark.usefixtures("here")
class TestApply:
    @pytest.mark.parametrize("suffix", ["npz", "json", "csv", "tsv", "jsonl", "csv.gz"])
    def test_every_type_has_the_column(self, cli, suffix):
        code, _, err = cli("apply", "two.json", "new.npz", "--with-decision", "-o", f"p.{suffix}")
        assert (code, err) == (0, "")
        columns = flags_of(Path(f"p.{suffix}"))
        fitted = runtime.load("two.json")
        assert list(columns) == ["accepted_at_2pct", "accepted_at_0_5pct"]
        for name, risk in (("accepted_at_2pct", 0.02), ("accepted_at_0_5pct", 0.005)):
            wanted = fitted.accept(new(), risk=risk)
            assert 0.1 < wanted.mean() < 0.9
            np.testing.assert_array_equal(columns[name], wanted)
        back = read(f"p.{suffix}")  # what is written can be measured
        np.testing.assert_allclose(back.logits, fitted.predict_proba(new()), atol=1e-12)

    @pytest.mark.parametrize("suffix", ["parquet", "arrow"])
    def test_in_parts_as_in_one(self, cli, suffix):
        pa = pytest.importorskip("pyarrow")
        call = ("apply", "sets.json", "new.npy", "--with-decision")
        assert cli(*call, "-o", "whole.npz")[0] == 0
        for output, more in ((f"p.{suffix}", ["--part-rows", "70"]), ("folder", ["--jobs", "2"])):
            assert cli(*call, "-o", output, *more)[0] == 0
            table = table_of(pa, output)
            whole = np.load("whole.npz")
            assert table.schema.field("accepted").type == pa.bool_()
            np.testing.assert_array_equal(table["accepted"].to_numpy(), whole["accepted"])
            sets = np.column_stack([table[f"in_set_{name}"].to_numpy() for name in NAMES])
            np.testing.assert_array_equal(sets, whole["in_set"])
        # Asked otherwise it is another result, and what is there is not taken for it.
        code, _, err = cli("apply", "sets.json", "new.npy", "-o", f"p.{suffix}")
        assert "accepted" not in table_of(pa, f"p.{suffix}").column_names
        assert code == 0, err

    def test_sets_say_of_each_class_whether_it_is_in(self, cli):
        assert cli("apply", "sets.json", "new.npz", "--with-decision", "-o", "p.csv")[0] == 0
        header = Path("p.csv").read_text().split("\n", 1)[0].split(",")
        assert header[4:13] == [*PREDICTIONS, "accepted", *(f"in_set_{name}" for name in NAMES)]
        assert cli("apply", "sets.json", "new.npz", "--with-decision", "-o", "p.npz")[0] == 0
        wanted = runtime.load("sets.json").predict_set(new())
        np.testing.assert_array_equal(np.load("p.npz")["in_set"], wanted)
        assert 1 < wanted.sum(axis=1).mean() < 3

    def test_columns_in_another_order(self, cli):
        code, _, err = cli("apply", "sets.json", "turned.csv", "--with-decision", "-o", "p.csv")
        assert code == 0, err
        rows = [line.split(",") for line in Path("p.csv").read_text().split()]
        header, cells = rows[0], np.array(rows[1:])
        fitted, at = runtime.load("sets.json"), header.index
        np.testing.assert_array_equal(cells[:, at("accepted")] == "True", fitted.accept(new()))
        sets = np.column_stack([cells[:, at(f"in_set_{name}")] == "True" for name in NAMES])
        np.testing.assert_array_equal(sets, fitted.predict_set(new()))

    def test_thresholds_by_group(self, cli):
        call = ("apply", "sites.json", "turned.csv", "--with-decision", "-o", "p.npz")
        code, _, err = cli(*call)
        assert code == 2
        assert "turned.csv: this decision has a threshold for each group; name the column" in err
        code, _, err = cli(*call, "--group", "site")
        assert code == 0
        assert "66 of 200 rows have no threshold for their group: none of them is accepted" in err
        found = np.load("p.npz")
        wanted = threshold_by_hand(SITES[np.arange(200) % 3])
        np.testing.assert_array_equal(found["accepted"], wanted)
        assert list(found["groups"][:3]) == SITES.tolist()
        assert cli("apply", "sites.json", "turned.csv", "-o", "p.npz")[0] == 0  # nobody asked

    def test_what_cannot_be(self, cli):
        code, _, err = cli("apply", "plain.json", "new.npz", "--with-decision", "-o", "p.npz")
        assert code == 2
        line = "plain.json has no decision; find one with smallcal certify plain.json DATA -o NEW"
        assert line in err
        for output in ("p.npy", "P.NPY"):
            code, _, err = cli("apply", "one.json", "new.npy", "--with-decision", "-o", output)
            assert code == 2
            assert "--with-decision: a .npy file holds one array; write to .npz or .csv" in err
        assert not list(Path().glob("[pP].np*"))

    def test_scores(self, cli):
        rng = np.random.default_rng(0)
        marks = rng.integers(1, 11, size=400)
        cal = sc.Calibrator(input="score").fit(marks, rng.random(400) < marks / 11)
        with_decisions(cal.fitted_, threshold(0.6), SETS).save("judge.json")
        Path("marks.csv").write_text("score\n" + "".join(f"{m}\n" for m in range(1, 11)))
        code, _, err = cli("apply", "judge.json", "marks.csv", "--with-decision", "-o", "p.csv")
        assert code == 0, err
        rows = [line.split(",") for line in Path("p.csv").read_text().split()]
        assert rows[0] == ["probability", "accepted", "in_set_0", "in_set_1"]
        marked = np.arange(1, 11)
        fitted = runtime.load("judge.json")
        accepted = [row[1] == "True" for row in rows[1:]]
        assert (
            accepted
            == fitted.accept(marked).tolist()
            == (cal.predict_score(marked) >= 0.6).tolist()
        )
        sets = [[cell == "True" for cell in row[2:]] for row in rows[1:]]
        assert sets == fitted.predict_set(marked).tolist()


def flags_of(path):
    """Return the columns of decisions in a file, as truth values."""
    if path.suffix == ".npz":
        return {name: a for name, a in np.load(path).items() if name.startswith("accepted")}
    if path.suffix == ".json":
        content = json.loads(path.read_text())
        return {name: a for name, a in content.items() if name.startswith("accepted")}
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        names = [name for name in rows[0] if name.startswith("accepted")]
        return {name: [row[name] for row in rows] for name in names}
    import gzip

    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    header, *rows = [
        line.split("\t" if path.suffix == ".tsv" else ",") for line in text.splitlines()
    ]
    return {
        name: [row[i] == "True" for row in rows]
        for i, name in enumerate(header)
        if name.startswith("accepted")
    }


def table_of(pa, output):
    import pyarrow.parquet as pq

    if output.endswith(".arrow"):
        with pa.ipc.open_file(output) as file:
            return file.read_all()
    return pq.read_table(output)


def threshold_by_hand(sites):
    p = runtime.load("plain.json").predict_proba(new()).max(axis=1)
    limits = {"north": 0.5, "south": 0.9}
    return np.array(
        [site in limits and x >= limits[site] for x, site in zip(p, sites, strict=True)]
    )


@pytest.mark.parametrize("scored", [False, True], ids=["options", "scores"])
def test_a_folder_of_calibrators(cli, scored):
    rng = np.random.default_rng(0)
    answers, lines = rng.integers(0, 3, size=300), []
    for i, answer in enumerate(answers.tolist()):
        logits = rng.normal(size=3)
        logits[answer] += 2
        row = {"model": "ab"[i % 2], "logits": logits.tolist(), "label": answer}
        if scored:
            mark = float(rng.normal() + answer)
            row = {"model": "ab"[i % 2], "score": mark, "outcome": int(answer > 0)}
        lines.append(json.dumps(row))
    Path("log.jsonl").write_text("\n".join(lines) + "\n")
    kind = ["--input", "score"] if scored else []
    code, _, err = cli(
        "fit", "log.jsonl", "--per", "model", "--method", "ts-nll", *kind, "-o", "cals"
    )
    assert code == 0, err
    call = ("apply", "cals", "log.jsonl", *kind, "--with-decision", "-o", "p.npz")
    code, _, err = cli(*call)
    assert code == 2
    assert "a.json has no decision; find one with smallcal certify" in err
    for name, level in (("a", 0.6), ("b", 0.8)):
        fitted = runtime.load(f"cals/{name}.json")
        with_decisions(fitted, threshold(level)).save(f"cals/{name}.json")
    code, _, err = cli(*call)
    assert code == 0, err
    found = np.load("p.npz")
    sure = found["probability"] if scored else found["probabilities"].max(axis=1)
    levels = np.where(np.arange(300) % 2, 0.8, 0.6)
    np.testing.assert_array_equal(found["accepted"], sure >= levels)
    fitted = runtime.load("cals/b.json")
    with_decisions(fitted, threshold(0.6), threshold(0.8, risk=0.1)).save("cals/b.json")
    code, _, err = cli(*call)
    assert code == 2
    assert "b.json has other decisions than the calibrators before it" in err
    assert "certify all of them with the same risks" in err


@pytest.mark.usefixtures("here")
class TestShown:
    def test_inspect_says_what_is_promised(self, cli):
        code, out, err = cli("inspect", "two.json")
        assert (code, err) == (0, "")
        text = " ".join(out.split())
        assert "Decision (accepted_at_2pct): At most 2 % of accepted rows are wrong" in text
        assert "from confidence 0.7000 on: 300 of 500 (60.0 %), 1 of them wrong" in text
        assert "the true rate is at most 1.57 %" in text
        code, out, _ = cli("inspect", "two.json", "--json")
        first, second = json.loads(out)["decisions"]
        assert (first["risk"], first["thresholds"], first["kind"]) == (0.02, [0.7], "threshold")
        assert second["risk"] == 0.005
        assert json.loads(cli("inspect", "plain.json", "--json")[1])["decisions"] == []

    def test_groups_are_a_table(self, cli):
        fitted = runtime.load("plain.json")
        limits = threshold(0.5, None, by="group", names=("north\n", "south"))
        with_decisions(fitted, limits).save("some.json")
        _, out, _ = cli("inspect", "some.json")
        rows = [line.split() for line in out.splitlines()]
        assert ["group", "confidence", "from", "rows", "accepted", "wrong", "at", "most"] in rows
        assert ["south", "never", "500", "0", "0"] in rows
        never = with_decisions(fitted, threshold(None))
        never.save("never.json")
        assert "none of 500 rows is accepted" in " ".join(cli("inspect", "never.json")[1].split())

    def test_sets_and_what_was_learned_later(self, cli):
        _, out, _ = cli("inspect", "sets.json")
        assert "Prediction sets (in_set): The set of a new row contains the class" in out
        fitted = runtime.load("sets.json")
        later = with_later(fitted, ClassFrequencies((0.25,) * 4, (0.4, 0.3, 0.2, 0.1)))
        later.save("later.json")
        _, out, _ = cli("inspect", "later.json")
        assert "Learned after the fit: classes count by how frequent they became." in out
        assert ["ant", "25.00", "%", "40.00", "%"] in [line.split() for line in out.splitlines()]
        assert "Decision" not in out  # it was set aside
        (said,) = json.loads(cli("inspect", "later.json", "--json")[1])["later"]
        assert said["kind"] == "frequencies"
        assert "aside" not in said

    def test_new_labels_are_told(self, cli):
        fitted = runtime.load("plain.json")
        with_later(fitted, ConfidenceShift(slope=0.5, bias=0.25, tail=0.9)).save("shift.json")
        text = " ".join(cli("inspect", "shift.json")[1].split())
        assert "Log-odds times 0.500, plus +0.250; other classes' proportions" in text
        (said,) = json.loads(cli("inspect", "shift.json", "--json")[1])["later"]
        assert said == {"kind": "shift", "slope": 0.5, "bias": 0.25, "tail": 0.9, "tail_spread": 0}
        with_later(fitted, ConfidenceShift(slope=1.0, bias=0.0)).save("shift.json")
        assert "They call for no change so far" in cli("inspect", "shift.json")[1]

    def test_export_says_that_sets_stay_behind(self, cli):
        code, _, err = cli("export", "sets.json", "-o", "cal.py")
        assert code == 0
        assert "the export holds no prediction sets" in err
        assert "def accepted(logits):" in Path("cal.py").read_text()
        assert cli("export", "one.json", "-o", "cal.py")[2] == ""


@pytest.mark.usefixtures("here")
def test_a_service_accepts_with_numpy_alone():
    np.save("wanted.npy", runtime.load("one.json").accept(new()))
    program = (
        "import sys\n"
        "for name in ('scipy', 'sklearn', 'pandas', 'torch', 'pyarrow'): sys.modules[name] = None\n"
        "import numpy as np\n"
        "from smallcal.runtime import load\n"
        "print((load('one.json').accept(np.load('new.npy')) == np.load('wanted.npy')).all())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
