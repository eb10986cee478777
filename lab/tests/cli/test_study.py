"""``smallcal study``: what it prints and writes, how it stops and goes on, and its help."""

from __future__ import annotations

import doctest
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import study_table
from smallcal_lab.cli.study import MOST_ROWS, chosen_rows, parts
from smallcal_lab.studies import STUDIES, engine, import_folder, load_collection, run
from smallcal_lab.studies.tables.table import Number, Table
from support.simulated import simulate

pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet, which needs pyarrow")

ROOT = Path(__file__).parents[3]
QUICK = ("--methods", "tva-ts,ts-nll", "--n-boot", "60")
FULL = ("study", "proper-scores", "--data", "data", "--out", "run", *QUICK)
BUDGET = (*FULL, "--budgets", "60,all", "--draws", "3")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("data/shift").mkdir(parents=True)
    for seed in (0, 1):
        (z, y), (tz, ty) = simulate(150, 5, seed=seed), simulate(200, 5, seed=10 + seed)
        np.savez(
            f"data/a__mlp-seed{seed}.npz",
            val_logits=z,
            val_labels=y,
            test_logits=tz,
            test_labels=ty,
        )
        np.savez(f"data/shift/a__mlp-seed{seed}__fog-s2.npz", logits=0.5 * tz, labels=ty)
    import_folder("data", "data")
    return tmp_path


def spoil(seed=1):
    """Make every fit of a cell fail: its logits prefer no class."""
    with np.load(f"data/a__mlp-seed{seed}.npz") as old:
        arrays = dict(old)
    arrays["val_logits"] = np.ones_like(arrays["val_logits"])
    np.savez(f"data/a__mlp-seed{seed}.npz", **arrays)


# Help and lists.


@pytest.mark.parametrize("name", ["import", "check", "show", "list", *STUDIES])
def test_every_command_and_study_has_help_in_80_columns(name, cli):
    code, out, err = cli("study", name, "-h")
    assert (code, err) == (0, "")
    assert f"smallcal study {name} [OPTIONS]" in out
    assert max(map(len, out.splitlines())) <= 80
    if name in STUDIES:
        assert STUDIES[name].question.split()[-1] in out
        assert "--budgets" in out


def test_help_lists_every_study(cli):
    for args in (["study", "-h"], ["study"]):
        code, out, _ = cli(*args)
        assert code == 0
        assert all(f" {name} " in out for name in ("import", "check", "show", "list", *STUDIES))
        assert "NAME " not in out.replace("NAME DIR", "")


def test_list_says_what_each_study_asks(cli):
    code, out, _ = cli("study", "list")
    assert code == 0
    text = " ".join(out.split())
    assert all(f"{name} {study.question.split()[0]}" in text for name, study in STUDIES.items())
    document = json.loads(cli("study", "list", "--json")[1])["studies"]
    assert list(document) == list(STUDIES)
    assert document["budget"]["budgets"] == list(STUDIES["budget"].budgets)


def test_the_list_in_the_docs_is_up_to_date():
    page = study_table.PAGE.read_text(encoding="utf-8")
    assert study_table.updated(page) == page, "run python scripts/study_table.py"


def test_the_examples_in_the_docs_run():
    results = doctest.testfile(
        str(study_table.PAGE),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
    )
    assert results.attempted >= 12
    assert results.failed == 0


# Import and check.


def test_import_writes_a_collection_and_says_what_to_do_next(cli):
    code, out, err = cli("study", "import", "data", "-o", "new")
    assert (code, err) == (0, "")
    assert out == (
        "Wrote new/collection.toml: 2 cells, 2 shifted sets.\nNext: smallcal study check new\n"
    )
    code, out, err = cli("study", "import", "data", "-o", "new")
    assert (code, out) == (2, "")
    assert "already exists; --force replaces it" in err
    np.savez("data/odd.npz", logits=np.eye(3))
    code, out, err = cli("study", "import", "data", "-o", "new", "--force", "--json")
    assert code == 0
    assert err.startswith("smallcal: note: left out: data/odd.npz: not called")
    assert json.loads(out)["cells"] == ["a__mlp__s0", "a__mlp__s1"]


def test_import_takes_calarenas_files(cli):
    h5py = pytest.importorskip("h5py", reason=".h5 needs h5py")
    with h5py.File("bench.h5", "w") as file:
        for split, n in (("cal", 40), ("test", 50)):
            p = np.random.default_rng(n).dirichlet(np.ones(3), size=n)
            file[f"birds/cnn/probas_{split}"] = p
            file[f"birds/cnn/labels_{split}"] = p.argmax(axis=1)
    code, out, _ = cli("study", "import", "bench.h5", "-o", "arena")
    assert code == 0
    assert "Wrote arena/collection.toml: 1 cell, 0 shifted sets." in out
    assert cli("study", "check", "arena")[0] == 0


def test_check_is_quiet_about_a_good_collection(cli):
    assert cli("study", "check", "data") == (
        0,
        "data: 2 cells, 2 shifted sets; 0 errors, 0 notes.\n",
        "",
    )


def test_check_lists_errors_and_leaves_with_1(cli):
    spoil()
    os.remove("data/shift/a__mlp-seed0__fog-s2.npz")
    code, out, err = cli("study", "check", "data")
    assert code == 1
    assert out.splitlines()[0] == "a__mlp__s0:"
    assert "  error: shift/a__mlp-seed0__fog-s2.npz: cannot read" in out
    assert "  error: a__mlp-seed1.npz:val: logits are constant in every row" in out
    assert out.endswith("data: 2 cells, 2 shifted sets; 2 errors, 0 notes.\n")
    assert err == "smallcal: data: 2 errors\n"
    code, out, _ = cli("study", "check", "data", "--json")
    document = json.loads(out)
    assert (code, document["errors"]) == (1, 2)
    assert [problem["cell"] for problem in document["problems"]] == ["a__mlp__s0", "a__mlp__s1"]


def test_a_note_does_not_fail_the_check(cli):
    with np.load("data/a__mlp-seed0.npz") as old:
        arrays = dict(old)
    arrays["test_logits"][3] = arrays["val_logits"][5]
    np.savez("data/a__mlp-seed0.npz", **arrays)
    code, out, err = cli("study", "check", "data")
    assert (code, err) == (0, "")
    assert "  note: a__mlp-seed0.npz:test: 1 of 200 rows" in out


# Running.


def test_a_study_prints_its_tables_and_keeps_them(cli):
    code, out, err = cli(*FULL)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    text = " ".join(out.split())
    assert text.startswith(
        "Proper scores. How much do proper scores improve over the uncalibrated model?"
    )
    assert "Differences from none:" in text
    assert "Tables: run/tables.md, tables.tex, tables.json" in text
    assert sorted(os.listdir("run")) == [
        *(".lock", "manifest.json", "parts", "rows.parquet"),
        *("tables.json", "tables.md", "tables.tex"),
    ]
    document = json.loads(Path("run/tables.json").read_text())
    value = document["tables"][0]["rows"][0][3]["value"]
    assert f"{value:.2f}" in text


def test_json_and_files_are_what_the_library_gives(cli):
    code, out, err = cli(*BUDGET, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    study = STUDIES["proper-scores"].with_options(
        budgets=(60, 0), draws=3, methods=("tva-ts", "ts-nll"), n_boot=60
    )
    outcome = run(study, load_collection("data"), "other")
    assert document["tables"] == json.loads(json.dumps([t.document() for t in outcome.tables]))
    assert (document["study"], document["tasks"]) == ("proper-scores", 2 * (3 + 1))
    assert document["failures"] == []
    for name in ("tables.md", "tables.tex", "tables.json", "rows.parquet"):
        assert Path("run", name).read_bytes() == Path("other", name).read_bytes()


def test_cells_can_be_chosen(cli):
    code, _, _ = cli(*FULL, "--cells", "s1,nothing")
    assert code == 0
    assert json.loads(Path("run/manifest.json").read_text())["cells"] == ["a__mlp__s1"]
    code, _, err = cli(*FULL[:5], "new", "--cells", "nothing")
    assert code == 2
    assert "no cell is called like nothing" in err


def stop_after(monkeypatch, tasks, error=KeyboardInterrupt):
    """Let the work be interrupted after some tasks."""
    real, calls = engine.measure, []

    def measured(*args):
        calls.append(args)
        if len(calls) > tasks:
            raise error
        return real(*args)

    monkeypatch.setattr(engine, "measure", measured)
    return calls


def test_an_interrupted_study_says_how_to_go_on_and_does(cli, monkeypatch):
    assert cli(*BUDGET)[0] == 0
    whole = {name: Path("run", name).read_bytes() for name in ("tables.md", "rows.parquet")}
    begin = [*BUDGET, "--cells", "s0", "--cells", "mlp"]
    begin[begin.index("run")] = "half way"
    with monkeypatch.context() as patch:
        stop_after(patch, 5)
        code, out, err = cli(*begin)
    assert (code, out) == (130, "")
    first, second = err.splitlines()
    assert first.startswith("smallcal: note: 5 of 8 tasks are done and kept; run the same command")
    assert second == "smallcal: error: interrupted; no partial file was left"
    assert not Path("half way/tables.md").exists()
    command = shlex.split(first.partition("to resume: ")[2])
    assert command[0] == "smallcal"
    calls = stop_after(monkeypatch, 99)
    code, out, err = cli(*command[1:])
    assert (code, err) == (0, "smallcal: note: 5 of 8 tasks were done before\n")
    assert len(calls) == 3
    assert "Differences from none" in out
    for name, content in whole.items():
        assert Path("half way", name).read_bytes() == content


def test_show_prints_what_the_run_printed_without_the_logits(cli, here):
    code, before, _ = cli(*BUDGET)
    assert code == 0
    (here / "data").rename(here / "gone")
    files = {path: path.read_bytes() for path in Path("run").rglob("*.*")}
    assert cli("study", "show", "run") == (0, before, "")
    assert {path: path.read_bytes() for path in Path("run").rglob("*.*")} == files
    document = json.loads(cli("study", "show", "run", "--json")[1])
    assert document["tables"] == json.loads(Path("run/tables.json").read_text())["tables"]


def test_show_refuses_what_is_no_finished_run(cli, monkeypatch):
    code, _, err = cli("study", "show", "data")
    assert code == 2
    assert "data holds no run" in err
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        cli(*BUDGET)
    code, out, err = cli("study", "show", "run")
    assert (code, out) == (2, "")
    assert "run is not complete: 7 of 8 tasks are missing" in err
    Path("run/manifest.json").write_text('{"study": {"name": "clean"}, "cells": []}')
    code, _, err = cli("study", "show", "run")
    assert code == 2
    assert "does not describe a study" in err
    Path("run/manifest.json").write_text("{}")
    assert "does not describe a study" in cli("study", "show", "run")[2]


def test_the_folder_is_an_argument_as_it_is_of_check_and_show(cli):
    assert cli(*FULL)[0] == 0
    as_argument = ("study", "proper-scores", "data", "--out", "other", *QUICK)
    code, _, err = cli(*as_argument)
    assert (code, err) == (0, "")
    assert Path("other/tables.md").read_bytes() == Path("run/tables.md").read_bytes()
    assert cli(*FULL[:2], "data", *FULL[2:])[0] == 0  # named twice, and the same
    found = json.loads(cli(*as_argument, "--json")[1])
    assert found["data"] == "data"


def test_a_collection_with_errors_stops_a_study_that_is_not_forced(cli, here):
    spoil()
    os.remove("data/shift/a__mlp-seed0__fog-s2.npz")
    for more in ([], ["--json"]):
        code, out, err = cli(*FULL, *more)
        assert (code, out) == (2, "")
        first, second, last = err.splitlines()
        assert first.startswith(
            "smallcal: error: a__mlp__s0: shift/a__mlp-seed0__fog-s2.npz: cannot read "
        )
        assert second.startswith(
            "smallcal: error: a__mlp__s1: a__mlp-seed1.npz:val: logits are constant in every row"
        )
        assert last == (
            "smallcal: error: data has 2 errors that would invalidate a study: fix them, or "
            "continue with --force"
        )
    assert not Path("run").exists()
    # Cells that are not asked for need not be sound.
    code, _, err = cli(*FULL, "--cells", "s1")
    assert (code, len(err.splitlines())) == (2, 2)
    spoil(0)
    import_folder("data", "data", force=True)
    code, out, err = cli(*FULL, "--cells", "s0", "--force")
    assert code == 1
    assert err.splitlines()[0] == (
        "smallcal: note: data has 1 error (smallcal study check data lists them): forced"
    )


def test_a_study_goes_on_when_it_is_forced_and_says_so_again(cli, monkeypatch):
    spoil()
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        code, _, err = cli(*FULL, "--force")
    assert code == 130
    command = shlex.split(err.splitlines()[1].partition("to resume: ")[2])
    assert command[-1] == "--force"
    assert cli(*command[1:])[0] == 1
    assert Path("run/tables.md").exists()


def test_a_note_does_not_stop_a_study(cli):
    with np.load("data/a__mlp-seed0.npz") as old:
        arrays = dict(old)
    arrays["test_logits"][3] = arrays["val_logits"][5]
    np.savez("data/a__mlp-seed0.npz", **arrays)
    assert cli(*FULL)[::2] == (0, "")


def test_failures_are_listed_and_the_code_says_so(cli):
    spoil()
    code, out, err = cli(*FULL, "--force")
    assert code == 1
    assert "Differences from none" in out
    lines = err.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("smallcal: failed: a__mlp__s1, none, budget 150, draw 0: Input")
    seven = ("--budgets", "60", "--draws", "7", "--json")
    code, out, err = cli(*FULL[:5], "new", *QUICK, *seven, "--force")
    assert code == 1
    assert len(json.loads(out)["failures"]) == 21
    assert err.count("smallcal: failed: ") == 10
    assert err.endswith("smallcal: 11 more failures: see the errors in new/rows.parquet\n")


def test_another_study_in_the_same_folder_is_refused(cli):
    assert cli(*FULL)[0] == 0
    code, out, err = cli(*FULL, "--draws", "2")
    assert (code, out) == (2, "")
    assert "run holds another run (study draws: 1, now 2)" in err


def test_a_stored_run_must_be_found_again(cli):
    def maps(out, *more):
        """Run other maps on the draws of the stored run."""
        draws = ("--budgets", "60", "--draws", "2", "--n-boot", "50")
        run = ("study", "matched-maps", "data", "--out", out, *draws)
        return cli(*run, "--methods", "linear-risk", "--gate", "run", *more)

    assert cli(*BUDGET)[0] == 0
    code, out, err = maps("same")
    assert (code, err) == (0, "")
    assert "12 values of tva-ts, in 4 draws of cells" in " ".join(out.split())
    assert json.loads(maps("same", "--json")[1])["gate"]["failures"] == []
    with np.load("data/a__mlp-seed1.npz") as old:  # the same names, another model
        arrays = dict(old)
    np.savez("data/a__mlp-seed1.npz", **{**arrays, "test_logits": 1.01 * arrays["test_logits"]})
    code, out, err = maps("other")
    assert code == 1
    assert "not as in run: a__mlp__s1, tva-ts, budget 60, draw 0, nll: 0." in err
    assert "6 differ by more than 1e-06" in " ".join(out.split())
    assert Path("other/tables.md").exists()


def test_runs_with_nothing_in_common_are_told_before_any_fit(cli):
    assert cli(*FULL, "--cells", "s0")[0] == 0
    code, out, err = cli(*FULL[:5], "other", *QUICK, "--cells", "s1", "--gate", "run")
    assert (code, out) == (2, "")
    assert "the two runs have no method in common on the same cell" in err
    assert not Path("other").exists()


BAD = [
    (["luck"], "unknown study 'luck'; choose from import, check, show, list, reproduce, clean"),
    (["NAME"], "unknown study 'NAME'"),
    (["clean", "--out", "run"], "name the folder with collection.toml: smallcal study clean DIR"),
    (["clean", "data", "--data", "other", "--out", "run"], "the folder is named twice"),
    (["clean", "gone", "--out", "run"], "smallcal study import"),
    (["clean", "--data", "data"], "--out"),
    (["clean", "--data", "gone", "--out", "run"], "smallcal study import"),
    ([*FULL[1:5], "run", "--budgets", "many"], "--budgets must be numbers of samples, or all"),
    ([*FULL[1:5], "run", "--budgets", "0"], "--budgets must be numbers of samples, or all"),
    ([*FULL[1:5], "run", "--budgets", ","], "--budgets names none"),
    ([*FULL[1:5], "run", "--methods", "luck"], "unknown method 'luck'"),
    ([*FULL[1:5], "run", "--draws", "0"], "--draws"),
    ([*FULL[1:5], "run", "--jobs", "0"], "--jobs"),
    (["check", "gone"], "smallcal study import"),
    (["import", "gone", "-o", "x"], "gone is neither a folder nor an .h5 file"),
    (["import", "data"], "-o"),
    (["show", "gone"], "gone holds no run"),
    ([*FULL[1:5], "run", "--gate", "gone"], "gone holds no run"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_one_line_and_code_2(args, message, cli, here):
    before = sorted(here.iterdir())
    code, out, err = cli("study", *args)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(here.iterdir()) == before


# Processes.


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_no_process_is_left_and_none_but_the_first_speaks(number, here):
    slow = ["--budgets", "60", "--draws", "400", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "smallcal", *FULL, *slow],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    children: list[int] = []
    try:
        task = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while len(children) < 4:  # two workers, and two that clean up after them
            assert process.poll() is None
            time.sleep(0.02)
            children = [int(child) for child in task.read_text().split()]
        if number == signal.SIGINT:  # the terminal tells the whole group
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)
        _, err = process.communicate(timeout=30)
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert "Traceback" not in err
            assert "tasks are done and kept" in err
        end = time.monotonic() + 10
        while any(Path(f"/proc/{child}/cwd").exists() for child in children):
            assert time.monotonic() < end, "a worker outlives the run"
            time.sleep(0.05)
    finally:
        for one in [process.pid, *children]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue


# Tables on a terminal.


def test_long_tables_show_the_rows_of_all_models():
    rows = tuple(
        (str(n), model, Number(1.0)) for n in range(10) for model in (*map(str, range(9)), "all")
    )
    table = Table("t", "T", ("samples", "models", "x"), rows)
    assert [row[0] for row in chosen_rows(table)] == [str(n) for n in range(10)]
    lonely = Table("t", "T", ("samples", "x"), tuple((str(n), Number(1.0)) for n in range(99)))
    assert len(chosen_rows(lonely)) == MOST_ROWS
    short = Table("t", "T", ("samples", "models", "x"), rows[:20])
    assert chosen_rows(short) == rows[:20]


def test_columns_are_cut_into_parts_that_fit():
    header = ["samples", "method", "verdict", *(f"metric{i}" for i in range(6))]
    row = ["250", "tva-ts", "better: " + "x" * 60, *["+0.10 [-0.20, +0.30]"] * 6]
    found = parts(header, [row], {0, 1, 2}, 80)
    assert found == [[0, 1, 3, 4], [0, 1, 5, 6], [0, 1, 7, 8], [0, 1, 2]]
    assert sorted({j for part in found for j in part}) == list(range(9))
    assert parts(["a"], [["b"]], {0}, 80) == [[0]]
