"""``smallcal adapt`` from the shell: rows or rates in, a calibrator or one line out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.io import npy

C = 4
NOW = np.array([0.55, 0.25, 0.15, 0.05])


def draw(seed, n, frequencies=None, scale=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(C, size=n, p=frequencies)
    return (scale * 1.8 * (rng.normal(size=(n, C)) + 1.8 * np.eye(C)[y])).astype(np.float32), y


@pytest.fixture
def cal(here):
    z, y = draw(0, 800)
    names = ["ham", "spam", "post", "bill"]
    sc.TemperatureScaling(class_names=names).fit(z, np.array(names)[y]).save("cal.json")
    np.save("rows.npy", draw(1, 1500, NOW)[0])
    np.save("same.npy", draw(4, 1500)[0])


def test_adapts_and_says_which_classes_moved(cal, cli):
    code, out, err = cli("adapt", "cal.json", "rows.npy", "-o", "new.json")
    assert (code, err) == (0, "")
    assert out.startswith("Adapted to 1,500 rows: class frequencies changed (p")
    assert out.splitlines()[4].startswith("ham ")
    assert "interval" in out
    assert "now have another predicted class." in out
    assert out.endswith("Wrote new.json.\n")
    code, out, _ = cli("adapt", "cal.json", "rows.npy", "-o", "new2.json", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["output"]) == (0, "moved", "new2.json")
    assert found["now"] == pytest.approx(NOW, abs=0.04)
    assert Path("new.json").read_bytes() == Path("new2.json").read_bytes()


def test_refuses_in_one_line_and_writes_nothing(cal, cli):
    np.save("few.npy", draw(2, 20)[0])
    np.save("other.npy", draw(2, 1500, NOW, scale=0.3)[0])
    for name, said in (
        ("same", "smallcal: Not adapted: class frequencies may be unchanged (p = "),
        ("few", "smallcal: Not adapted: class frequencies cannot be estimated from 20 rows"),
        ("other", "smallcal: Not adapted: rows differ in more than class frequencies"),
    ):
        code, out, err = cli("adapt", "cal.json", f"{name}.npy", "-o", "new.json")
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert err.startswith(said)
        assert not Path("new.json").exists()
    code, out, _ = cli("adapt", "cal.json", "same.npy", "-o", "new.json", "--json")
    assert (code, json.loads(out)["adapted"], json.loads(out)["output"]) == (1, False, None)
    code, out, _ = cli("adapt", "cal.json", "same.npy", "-o", "new.json", "--force")
    assert code == 0
    assert out.startswith("Adapted all the same, as asked: class frequencies may be unchanged")


def test_known_rates(cal, cli):
    Path("rates.csv").write_text("class,rate\nspam,0.02\nham,0.9\npost,0.05\nbill,0.03\n")
    code, out, err = cli("adapt", "cal.json", "--rates", "rates.csv", "-o", "new.json")
    assert (code, err) == (0, "")
    assert out.startswith("Adapted to the class frequencies that were given.")
    assert sc.load("new.json").fitted_.later[0].now == pytest.approx((0.9, 0.02, 0.05, 0.03))
    code, out, _ = cli("adapt", "cal.json", "rows.npy", "--rates", "rates.csv", "-o", "x.json")
    assert "of 1,500 rows" in out
    for text, said in (
        ("class,rate\nham,1\n", "rates.csv: rates lack 3 of the 4 classes: spam, post, bill"),
        ("class,rate\nham,1\nspam,1\npost,1\nbill,1\n", "rates must sum to 1; they sum to 4"),
        ("class,rate\nham,1\nspan,1\n", "does not have: span; did you mean 'spam'?"),
        ("class,part\nham,1\n", "no column 'rate'"),
    ):
        Path("rates.csv").write_text(text)
        for data in ((), ("rows.npy",)):
            code, _, err = cli("adapt", "cal.json", *data, "--rates", "rates.csv", "-o", "y.json")
            assert (code, err.count("\n")) == (2, 1)
            assert said in err
    assert not Path("y.json").exists()


def test_undo_gives_the_file_back(cal, cli):
    assert cli("adapt", "cal.json", "rows.npy", "-o", "new.json")[0] == 0
    code, out, _ = cli("adapt", "new.json", "--undo", "-o", "old.json")
    assert (code, out.splitlines()[-1]) == (0, "Wrote old.json.")
    assert Path("old.json").read_bytes() == Path("cal.json").read_bytes()
    code, _, err = cli("adapt", "cal.json", "--undo", "-o", "x.json")
    assert code == 2
    assert "cal.json: there is no adaptation to undo" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "x.json"), "there is nothing to adapt to: name DATA"),
        (("rows.npy",), "say where to write the calibrator: -o NEW.json"),
        (("rows.npy", "-o", "rows.npy"), "is an input and would be overwritten"),
        (("rows.npy", "--undo", "-o", "x.json"), "--undo needs nothing but CAL and -o"),
        (("nowhere.npy", "-o", "x.json"), "nowhere.npy"),
        (("rows.npy", "-o", "x.json", "--level", "95"), "confidence must be a number from 0.5"),
        (("rows.npy", "-o", "nowhere/x.json"), "nowhere"),
    ],
)
def test_one_line_for_what_will_not_do(cal, cli, words, said):
    before = Path("cal.json").read_bytes()
    code, out, err = cli("adapt", "cal.json", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert not Path("x.json").exists()
    assert Path("cal.json").read_bytes() == before


def test_rows_that_are_not_numbers_are_named(cal, cli, monkeypatch):
    monkeypatch.setattr(npy, "BLOCK_BYTES", 200 * 4 * C)
    rows = np.load("rows.npy")
    rows[777, 1] = np.nan
    np.save("bad.npy", rows)
    code, _, err = cli("adapt", "cal.json", "bad.npy", "-o", "x.json")
    assert code == 2
    assert "bad.npy" in err
    assert "row 777" in err


def test_files_of_every_kind_give_the_same(cal, cli, monkeypatch):
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    monkeypatch.setattr(npy, "BLOCK_BYTES", 333 * 4 * C)
    rows = np.load("rows.npy")
    np.savez("rows.npz", logits=rows, labels=np.zeros(len(rows), int))
    columns = {name: rows[:, i] for i, name in enumerate(("ham", "spam", "post", "bill"))}
    turned = {f"logit_{name}": columns[name] for name in ("bill", "ham", "spam", "post")}
    pq.write_table(pa.table(turned), "rows.parquet", row_group_size=400)
    assert cli("adapt", "cal.json", "rows.npy", "-o", "a.json")[0] == 0
    for other in ("rows.npz", "rows.parquet"):
        assert cli("adapt", "cal.json", other, "-o", "b.json")[0] == 0
        assert Path("a.json").read_bytes() == Path("b.json").read_bytes()


def test_scores(here, cli):
    rng = np.random.default_rng(1)

    def rows(n, rate):
        y = (rng.random(n) < rate).astype(int)
        return rng.normal(size=n) + 2.0 * y, y

    x, y = rows(1500, 0.5)
    np.savez("cal.npz", scores=x, outcomes=y)
    assert cli("fit", "cal.npz", "--input", "score", "-o", "cal.json")[0] == 0
    np.save("x.npy", rows(3000, 0.1)[0])
    code, out, err = cli("adapt", "cal.json", "x.npy", "-o", "new.json")
    assert (code, err) == (0, "")
    assert "outcome 1" in out
    assert sc.load("new.json").fitted_.later[0].now[1] == pytest.approx(0.1, abs=0.03)
    Path("rates.csv").write_text("class,rate\n0,0.95\n1,0.05\n")
    assert cli("adapt", "cal.json", "--rates", "rates.csv", "-o", "known.json")[0] == 0
    assert cli("apply", "known.json", "x.npy", "-o", "p.npy")[0] == 0
    assert np.load("p.npy").mean() < 0.12
