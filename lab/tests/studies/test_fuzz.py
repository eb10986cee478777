"""Folders with odd contents as collections: described, checked or refused in one line."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal_lab.studies.tables.table import Number, Table
from support.fuzzing import command, contents, standing_in, thrown
from support.nasty_names import NASTY, ODD_NAMES, RAW
from support.simulated import simulate
from support.small_study import write_collection

TEXT = st.one_of(
    st.sampled_from([*NASTY, *ODD_NAMES.values()]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)


def cell(seed=0, n=60):
    arrays = {}
    for place, split in enumerate(("val", "test")):
        z, y = simulate(n, 3, seed=10 * seed + place)
        arrays |= {f"{split}_logits": z, f"{split}_labels": y}
    return arrays


FILE_NAMES = st.one_of(
    st.sampled_from(["a__b.npz", "a__b-seed1.npz", "__.npz", "a__.npz", "__b.npz", "a__b__c.npz"]),
    st.sampled_from(
        ["a__b-seed99999999999999999999.npz", ".npz", "x.npz", "notes.txt", "A__b.npz"]
    ),
    st.sampled_from(["shift/a__b__fog-s1.npz", "shift/a__b__fog-s0.npz", "shift/x.npz", "shift"]),
    st.sampled_from(["collection.toml", "-x__y.npz", " __ .npz", "a__b.npz.npz", ".hidden__x.npz"]),
    TEXT.map(lambda name: f"{name}__m.npz"),
    TEXT.map(lambda name: f"d__{name}.npz"),
    st.just(os.fsdecode(b"\xff__m.npz")),
)
WAYS = ["sound", "sound", "empty", "text", "folder", "link", "half", "loop", "other"]


def put(file: Path, way: str) -> None:
    """Put something under a name; where that cannot be, nothing."""
    with contextlib.suppress(OSError, ValueError):
        file.parent.mkdir(parents=True, exist_ok=True)
        if way == "folder":
            file.mkdir()
        elif way in ("link", "loop"):
            file.symlink_to(file if way == "loop" else "/nowhere/at/all")
        elif not file.exists():
            with file.open("wb") as handle:
                if way in ("sound", "half"):
                    np.savez(handle, **cell())
                elif way == "other":
                    np.savez(handle, logits=np.zeros((2, 2, 2)), x=np.array(["a"]))
                elif way == "text":
                    handle.write(b"[[cell]]\nname = 3\n")
            if way == "half":
                file.write_bytes(file.read_bytes()[:300])


@thrown(30, shrink=False)
@given(files=st.lists(st.tuples(FILE_NAMES, st.sampled_from(WAYS)), max_size=4))
def test_folders_with_odd_contents(files):
    with standing_in() as here:
        (here / "data").mkdir()
        for name, way in files:
            if "\0" not in name and not name.startswith("/") and ".." not in Path(name).parts:
                put(here / "data" / name, way)
        command("study", "check", "data", folder=here)
        made = command(
            "study", "import", "data", "-o", "made", folder=here, outputs=[here / "made"]
        )
        if made[0] == 0:
            assert command("study", "check", "made", folder=here)[0] in (0, 1, 2)


VALUES = st.one_of(
    st.sampled_from(
        ['""', '"x"', "3", "-1", "1e999", "true", "[]", "{}", "nan", "[[", '"\\u0000"']
    ),
    st.sampled_from(['"../../../../etc/passwd"', '"0.npz"', '"0.npz:nope"', '"/"', "1979-05-27"]),
    st.sampled_from(['"gone.npz:val"', '"\\u001b[2J"', '"a" * 3', "99999999999999999999999"]),
)


@thrown(30, shrink=False)
@given(
    lines=st.lists(
        st.tuples(
            st.sampled_from(["name", "dataset", "backbone", "seed", "calibration", "test", "file"]),
            VALUES,
        ),
        max_size=4,
    ),
    more=st.sampled_from(["", "[[cell]]\n", "[[cell.shift]]\n", "[cell]\n", "[x]\n", "\x00", "="]),
    keep=st.one_of(st.just(1.0), st.floats(0.1, 1.0)),
)
def test_descriptions_with_odd_values(lines, more, keep):
    with standing_in() as here:
        write_collection(here / "data", n=40, n_classes=3)
        file = here / "data" / "collection.toml"
        text = file.read_text().replace("B/16", "B16")
        for key, value in lines:
            begin = text.find(f"{key} = ")
            end = text.find("\n", begin)
            text = text[:begin] + f"{key} = {value}" + text[end:] if begin >= 0 else text
        text = (text + more)[: max(1, int(keep * len(text + more)))]
        file.write_text(text)
        before = contents(here)
        command("study", "check", "data", folder=here)
        run = ["study", "proper-scores", "data", "--out", "run", "--methods", "none,ts-nll"]
        code, _, _ = command(*run, "--budgets", "all", "--n-boot", "20")
        assert code in (0, 2)
        assert {path: data for path, data in contents(here).items() if path in before} == before


@thrown(60)
@given(cells=st.lists(TEXT, min_size=1, max_size=4), title=TEXT, note=TEXT)
def test_any_names_in_the_tables_of_a_study(cells, title, note):
    rows = tuple((name, Number(1.0, spread=0.5)) for name in cells)
    table = Table("t", title, (note, "nll"), rows, note=note, sentences=tuple(cells))
    for text in (table.markdown(), table.latex()):
        assert not RAW.search(text.replace("\t", ""))
    lines = table.latex().split("\n")
    assert len(lines) == 11 + len(rows)
    assert len([line for line in lines if line.endswith(r"\\")]) == len(rows) + 1
    assert_latex_is_only_text("\n".join(lines[4:6] + lines[6 : 6 + len(rows)]))
    body = [line for line in table.markdown().split("\n") if line.startswith("|")]
    assert len(body) == 2 + len(rows)
    for line in body:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 3


def assert_latex_is_only_text(text):
    """No command but those that stand for a character."""
    import re

    known = r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar)\{\}"
    known += r"|\\[&%$#_{}]|\\\\|\$\\(?:pm|to)\$|\$-\$|\\textbf|\\midrule|\\toprule|\{[\[\]*]\}"
    rest = re.sub(known, "", text)
    assert "\\" not in rest
    assert not set(rest) & set("%$#_{}~^")


def test_a_file_whose_name_is_no_text_is_left_out_by_name(tmp_path):
    for name in ("a__b.npz", os.fsdecode(b"\xff__m.npz")):
        try:
            np.savez(tmp_path / name, **cell())
        except OSError:
            pytest.skip("this file system keeps text only")
    code, _, err = command("study", "import", tmp_path, "-o", tmp_path / "made")
    assert code == 0
    assert "\\udcff__m.npz: its path is not valid UTF-8; rename it" in err


@pytest.mark.parametrize("name", [r"\input{/etc/passwd}", "a & b % c $d$ #e _f {g} ~h ^i \\j"])
def test_latex_prints_names_as_they_are(name):
    text = Table("t", name, (name, "x"), ((name, Number(1.0)),), note=name).latex()
    assert r"\input" not in text
    assert text.count(r"\textbackslash{}") == 3 + text.count("caption") * 1
    for sign in "&%$#_{}":
        if sign in name:
            assert f"\\{sign}" in text
