"""``smallcal certify``: what it prints and writes, its exit codes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import smallcal as sc
from support.cases import fit
from support.simulated import simulate


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a folder with calibrators of logits and of scores, and rows to certify on."""
    folder = tmp_path_factory.mktemp("certify")
    z, y = simulate(2_400, 6)
    fit("tva-ts", z[:400], y[:400]).save(folder / "cal.json")
    np.savez(folder / "fit.npz", logits=z[:400], labels=y[:400])
    site = np.where(np.arange(2_000) % 3, "south", "north")
    np.savez(folder / "new.npz", logits=z[400:], labels=y[400:], site=site)
    np.savez(folder / "few.npz", logits=z[400:420], labels=y[400:420])
    np.savez(folder / "bare.npz", logits=z[400:])
    rng = np.random.default_rng(0)
    x = rng.normal(1.5, 1.5, 2_000)
    came = (rng.random(2_000) < expit(1.5 * x)).astype(int)
    sc.Calibrator(input="score").fit(x[:400], came[:400]).save(folder / "marks.json")
    lines = (f"{a!r},{b}\n" for a, b in zip(x[400:].tolist(), came[400:].tolist(), strict=True))
    (folder / "marks.csv").write_text("score,outcome\n" + "".join(lines))
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """Stand in a copy of it."""
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


pytestmark = pytest.mark.usefixtures("here")


def test_a_threshold_is_shown_and_written(cli):
    code, out, err = cli("certify", "cal.json", "new.npz", "--risk", "10%", "-o", "new.json")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "new.npz: 2,000 labelled samples" in out
    assert "at most 10 % are predicted wrong" in " ".join(out.split())
    assert out.endswith("Wrote new.json.\n")
    data = np.load("new.npz")
    (rule,) = sc.load("new.json").fitted_.decisions
    assert sc.load("new.json").accept(data["logits"]).sum() == rule.accepted[0]
    found = sc.certify(sc.load("cal.json"), data["logits"], data["labels"], risk=0.1)
    assert found.calibrator.decisions == (rule,)


def test_nothing_is_written_unless_asked(cli):
    before = {file.name for file in Path().iterdir()}
    code, out, _ = cli("certify", "cal.json", "new.npz", "--risk", "0.1")
    assert code == 0
    assert "Nothing was written" in out
    assert {file.name for file in Path().iterdir()} == before


def test_in_place_and_several_risks(cli):
    code, out, err = cli("certify", "cal.json", "new.npz", "--risk", "10%", "--risk", "20%,0.2",
                         "-o", "cal.json")  # fmt: skip
    assert (code, err) == (0, "")
    assert "Each risk is guaranteed separately" in out
    assert [each.risk for each in sc.load("cal.json").fitted_.decisions] == [0.1, 0.2]


def test_what_is_read_is_not_written_onto_but_for_the_calibrator(cli):
    before = Path("new.npz").read_bytes()
    code, _, err = cli("certify", "cal.json", "new.npz", "--risk", "10%", "-o", "new.npz")
    assert code == 2
    assert "is an input and would be overwritten" in err
    assert Path("new.npz").read_bytes() == before


def test_none_qualifies_is_code_1_and_writes_nothing(cli):
    before = Path("cal.json").read_bytes()
    code, out, err = cli("certify", "cal.json", "few.npz", "-o", "cal.json")
    assert code == 1
    assert "None qualifies for 2 %: the best bound reachable here is" in out
    assert err == "smallcal: None qualifies for 2 %; cal.json was not written\n"
    assert Path("cal.json").read_bytes() == before


def test_some_risks_qualify(cli):
    code, _, err = cli("certify", "cal.json", "new.npz", "--risk", "0.1%,20%", "-o", "some.json")
    assert (code, err) == (1, "smallcal: None qualifies for 0.1 %\n")
    assert [each.risk for each in sc.load("some.json").fitted_.decisions] == [0.2]


def test_json_has_all_of_it(cli):
    code, out, _ = cli("certify", "cal.json", "new.npz", "--risk", "10%", "--json")
    told = json.loads(out)
    data = np.load("new.npz")
    found = sc.certify(sc.load("cal.json"), data["logits"], data["labels"], risk=0.1)
    assert code == 0
    assert told == {
        **{"calibrator": "cal.json", "data": "new.npz", "by": None, "output": None},
        **found.to_dict(),
    }


def test_by_class_and_by_group(cli):
    code, out, _ = cli("certify", "cal.json", "new.npz", "--risk", "20%", "--by", "class")
    assert code == 0
    assert "predicted class" in out
    code, out, _ = cli("certify", "cal.json", "new.npz", "--risk", "15%", "--by", "site",
                       "--correction", "bonferroni", "-o", "site.json")  # fmt: skip
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[-5:-3]] == ["north", "south"]
    assert sc.load("site.json").fitted_.decisions[0].names == ("north", "south")
    code, _, err = cli("certify", "cal.json", "new.npz", "--by", "place")
    assert code == 2
    assert err.startswith("smallcal: error: --by: new.npz has no 'place'")


def test_scores_and_sets(cli):
    code, out, _ = cli("certify", "marks.json", "marks.csv", "--risk", "5%", "--sets", "10%",
                       "-o", "both.json")  # fmt: skip
    assert code == 0
    assert "have outcome 0" in out
    assert [each.kind for each in sc.load("both.json").fitted_.decisions] == ["threshold", "set"]
    code, out, _ = cli("certify", "cal.json", "new.npz", "--sets", "10%,20%", "-o", "sets.json")
    assert code == 0
    assert "predicted wrong" not in out
    assert [each.kind for each in sc.load("sets.json").fitted_.decisions] == ["set", "set"]


def test_the_rows_of_the_fit(cli):
    code, _, err = cli("certify", "cal.json", "fit.npz", "-o", "x.json")
    assert code == 2
    assert err.startswith("smallcal: error: fit.npz: these are the rows that the calibrator was")
    assert err.endswith("--cross [rows-of-the-fit]\n")
    code, out, _ = cli("certify", "cal.json", "fit.npz", "--risk", "25%", "--cross", "-o", "x.json")
    assert code == 0
    assert "approximate" in out
    assert sc.load("x.json").fitted_.decisions[0].cross
    code, _, err = cli("certify", "cal.json", "new.npz", "--cross")
    assert (code, "not the rows of the fit" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--risk", "0"], "risk 0: no number of samples can show"),
        (["--risk", "0%"], "risk 0: no number of samples can show"),
        (["--risk", "5"], "write 0.05 for 5 %"),
        (["--risk", "few"], "--risk takes a share such as 2% or 0.02; got 'few'"),
        (["--risk", "nan"], "--risk takes a share"),
        (["--risk", ","], "--risk names none"),
        (["--confidence", "30%"], "at least 0.5 and below 1"),
        (["--confidence", "90%,95%"], "--confidence takes one share"),
        (["--rule", "al"], "did you mean 'all'"),
        (["--correction", "sidak"], "choose from holm, bonferroni"),
        (["--sets", "10%", "--cross"], "leave out --cross"),
        (["-o", "nowhere/cal.json"], "does not exist"),
    ],
)
def test_bad_options_are_one_line_and_code_2(cli, options, words):
    code, out, err = cli("certify", "cal.json", "new.npz", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_bad_files_are_one_line_and_code_2(cli):
    for calibrator, data, words in (
        ("cal.json", "bare.npz", "has no labels"),
        ("cal.json", "marks.csv", "this calibrator was fitted on logits"),
        ("new.npz", "new.npz", "new.npz"),
        ("cal.json", "gone.npz", "gone.npz"),
    ):
        code, out, err = cli("certify", calibrator, data, "-o", "out.json")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert words in err
        assert not Path("out.json").exists()


def test_one_field_says_the_group(cli):
    data = np.load("new.npz")
    z, y, site = data["logits"], data["labels"], data["site"]
    sc.TemperatureScaling().fit(z[:500], y[:500], groups=site[:500]).save("grouped.json")
    np.savez("rest.npz", logits=z[500:], labels=y[500:], site=site[500:], kind=site[500:])
    code, _, err = cli("certify", "grouped.json", "rest.npz", "--by", "kind", "--group", "site")
    assert code == 2
    assert "--by kind and --group site must name the same" in err
    code, _, _ = cli("certify", "grouped.json", "rest.npz", "--by", "site", "--risk", "25%")
    assert code == 0


def test_clusters(cli):
    data = np.load("new.npz")
    rows = np.repeat(np.arange(500), 4)
    np.savez("many.npz", logits=data["logits"][rows], labels=data["labels"][rows], item=rows)
    call = ("certify", "cal.json", "many.npz", "--risk", "15%")
    code, _, err = cli(*call)
    assert code == 0
    assert "only 500 of 2,000 samples differ" in err
    assert "--cluster" in err
    code, out, err = cli(*call, "--cluster", "item")
    assert (code, err) == (0, "")
    assert "at most one from each of 500 clusters" in " ".join(out.split())
    code, out, _ = cli(*call, "--cluster", "item", "--json")
    (told,) = json.loads(out)["certificates"]
    assert (told["clusters"], told["rows"][0]["n"]) == (500, 500)
    code, out, err = cli(*call, "--cluster", "itm")
    assert (code, out) == (2, "")
    assert "--cluster: many.npz has no 'itm'" in err
    code, out, err = cli(*call, "--cluster", "item", "--sets", "10%")
    assert (code, out) == (2, "")
    assert "leave out --cluster" in err
