"""Names that would act on a terminal: in files, classes, data sets, columns and methods."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from smallcal import io
from smallcal.cli import terminal
from smallcal.io import progress as progress_module
from support.nasty_names import NASTY, RAW
from support.simulated import simulate

EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
Z, Y = simulate(200, 3)


@pytest.fixture
def evil(here):
    names = np.array([f"{EVIL}{i}" for i in range(3)])
    np.savez(f"{EVIL}.npz", logits=Z, labels=Y, class_names=names)
    return f"{EVIL}.npz"


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "?", "-o", f"{EVIL}.json", "--method", "ts-nll"],
        ["evaluate", "?", "--n-boot", "0"],
        ["evaluate", "?", "--n-boot", "0", "--json"],
        ["evaluate", f"gone{EVIL}.npz"],
        ["evaluate", "?", "--labels-key", EVIL],
        ["evaluate", "?", "--metrics", EVIL],
        ["fit", "?", "-o", "a.json", "--method", EVIL],
        ["fit", "?", f"--{EVIL}"],
        ["compare", "?", "?", "--methods", "none,ts-nll", "--n-boot", "100"],
        ["report", "?", "?", "--methods", "none,ts-nll", "--n-boot", "100"],
        ["report", "?", "?", "--methods", "none,ts-nll", "--n-boot", "100", "--json"],
        ["study", "check", EVIL],
        ["demo", "--export", EVIL],
        [EVIL],
    ],
)
def test_no_verb_prints_them_raw(words, evil, cli):
    code, out, err = cli(*(evil if word == "?" else word for word in words))
    assert code in (0, 1, 2)
    assert not RAW.search(out + err)
    assert code == 2 or out
    if "--json" in words:
        json.loads(out)


def test_a_line_break_in_a_name_begins_no_line(here, cli):
    name = "a\nsmallcal: error: forged.npz"
    np.savez(name, logits=Z, labels=Y)
    code, out, _ = cli("evaluate", name, "--n-boot", "0")
    assert code == 0
    assert "a\\nsmallcal: error: forged.npz" in " ".join(out.split())
    assert not re.search("^smallcal: error", out, re.MULTILINE)


def test_headers_and_cells_of_tables_are_clean(capsys):
    terminal.show_table(["a", *NASTY], [["x", *NASTY]])
    terminal.say(*NASTY)
    terminal.note(*NASTY)
    told = capsys.readouterr()
    assert not RAW.search(told.out + told.err)
    assert len(told.err.splitlines()) == len(NASTY)


def test_the_title_of_a_bar_is_clean(monkeypatch, capsys):
    monkeypatch.setattr(progress_module.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    with progress_module.progress(f"Reading {EVIL} [red]x[/red] [/]", 2) as advance:
        advance(2)
    assert "\x1b]0;owned" not in capsys.readouterr().err


def test_json_keeps_names_exact(evil, cli):
    assert cli("fit", evil, "-o", "cal.json", "--method", "ts-nll")[0] == 0
    code, out, _ = cli("evaluate", evil, "--n-boot", "0", "--json")
    assert code == 0
    assert not RAW.search(out)
    assert json.loads(out)["data"] == evil
    assert json.loads(Path("cal.json").read_text())["class_names"] == [
        f"{EVIL}{i}" for i in range(3)
    ]


def test_columns_with_line_breaks_are_classes(here, cli):
    rows = "\n".join(f"{a},{b},{c},{y}" for (a, b, c), y in zip(Z, Y, strict=True))
    Path("a.csv").write_text(f'logit_a,logit_b,"logit_c\nd",label\n{rows}\n')
    code, out, err = cli("fit", "a.csv", "-o", "cal.json", "--method", "ts-nll")
    assert (code, err) == (0, "")
    assert "3 classes" in out
    assert json.loads(Path("cal.json").read_text())["class_names"] == ["a", "b", "c\nd"]
    for target in ("p.csv", "p.tsv", "p.jsonl", "p.npz", "p.json"):
        assert cli("apply", "cal.json", "a.csv", "-o", target)[0] == 0
        assert io.read(target).class_names == ("a", "b", "c\nd")


def test_a_plugin_with_such_a_name_is_told_of_cleanly(monkeypatch, capsys):
    import warnings

    with terminal.noted_warnings():
        warnings.warn(f"left out: the plugin {EVIL}", RuntimeWarning, stacklevel=1)
    assert not RAW.search(capsys.readouterr().err)


def test_a_study_with_such_names(here, cli):
    pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet, which needs pyarrow")
    Path("data").mkdir()
    name = r"\input{x}$y$ 100%_a&b#~^|`c`<b>"
    arrays = {"val_logits": Z, "val_labels": Y, "test_logits": Z[::-1], "test_labels": Y[::-1]}
    np.savez(f"data/{name}__mlp.npz", **arrays)
    assert cli("study", "import", "data", "-o", "data")[0] == 0
    args = ["--methods", "none,ts-nll", "--budgets", "all", "--n-boot", "60", "--force"]
    code, out, err = cli("study", "proper-scores", "data", "--out", "run", *args)
    assert code == 0, err
    assert not RAW.search(out + err)
    tex, md = (Path(f"run/tables.{kind}").read_text() for kind in ("tex", "md"))
    assert r"\input" not in tex
    assert "<b>" not in md
    code, _, err = cli("study", "show", "run", "--figures", "pictures")
    assert code in (0, 2), err
