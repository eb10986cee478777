"""Bigger than memory: any input in parts, the same bytes however it was done, never half."""

from __future__ import annotations

import importlib.util
import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import smallcal as sc
from smallcal.deploy import apply_in_parts
from smallcal.io import memory, open_source, read
from smallcal.io import npy as stream_module
from smallcal.metrics import METRICS
from smallcal.metrics.blocks import evaluate_blocks
from support.refused import refused
from support.simulated import simulate
from support.small_tasks import killing

pa = pytest.importorskip("pyarrow", reason="Parquet and Arrow need pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")

#: How many runs have their processes killed; a night's work is `SMALLCAL_STRESS=60`.
ROUNDS = int(os.environ.get("SMALLCAL_STRESS", "1"))

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of a POSIX system")
C = 4
ROWS = 900


@pytest.fixture
def cal(here):
    z, y = simulate(300, C)
    fitted = sc.SRTS().fit(z, y)
    fitted.save("cal.json")
    return fitted


@pytest.fixture
def rows():
    z, y = simulate(ROWS, C, seed=1)
    return z.astype(np.float32), y


def table(z, y, layout="list"):
    ids = pa.array([f"row {i}" for i in range(len(z))])
    kind = pa.array(np.array(["even", "odd"])[np.arange(len(z)) % 2]).dictionary_encode()
    carried = {"id": ids, "label": pa.array(y), "kind": kind}
    if layout == "columns":
        return pa.table({f"logit_{i}": z[:, i] for i in range(C)} | carried)
    flat = pa.array(np.ascontiguousarray(z).reshape(-1))
    if layout == "fixed":
        return pa.table(carried | {"logits": pa.FixedSizeListArray.from_arrays(flat, C)})
    return pa.table(carried | {"logits": pa.array(list(z))})


def write(data, path, size=100):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    if str(path).endswith(".parquet"):
        pq.write_table(data, path, row_group_size=size)
        return
    with pa.OSFile(str(path), "wb") as handle, pa.ipc.new_file(handle, data.schema) as writer:
        # An Arrow file has one dictionary for each column.
        writer.write_table(data.unify_dictionaries(), max_chunksize=size)


def content(path):
    path = Path(path)
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return path.read_bytes()


def result(path):
    """Probabilities of a written table, and the table."""
    path = Path(path)
    files = sorted(path.rglob("*.*")) if path.is_dir() else [path]
    files = [file for file in files if not file.name.startswith("_")]
    load = pq.read_table if files[0].suffix == ".parquet" else pa.feather.read_table
    found = pa.concat_tables([load(file) for file in files])
    if "probabilities" in found.column_names:
        flat = found["probabilities"].combine_chunks().flatten().to_numpy()
        return flat.reshape(-1, C), found
    return np.column_stack([found[f"prob_{i}"].to_numpy() for i in range(C)]), found


@pytest.mark.parametrize("layout", ["list", "fixed", "columns"])
@pytest.mark.parametrize("source", ["d.parquet", "d.arrow", "d.feather"])
@pytest.mark.parametrize("target", ["p.parquet", "p.arrow", "out"])
def test_every_layout_is_applied_and_other_columns_are_carried(
    cal, rows, cli, layout, source, target, monkeypatch
):
    import pyarrow.feather  # noqa: F401

    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 70 * 4 * C)
    z, y = rows
    write(table(z, y, layout), source)
    code, out, err = cli("apply", "cal.json", source, "-o", target, "--part-rows", "250")
    assert (code, err) == (0, "")
    assert out == f"Wrote {ROWS} rows of {C} probabilities to {target}.\n"
    proba, found = result(target)
    np.testing.assert_array_equal(proba, cal.predict_proba(z))
    assert proba.dtype == np.float32
    assert found["id"].to_pylist() == [f"row {i}" for i in range(ROWS)]
    assert found["kind"].to_pylist()[:3] == ["even", "odd", "even"]
    np.testing.assert_array_equal(found["label"].to_numpy(), y)
    assert not list(Path().glob("*.parts"))
    if Path(target).is_dir():
        assert len(list(Path(target).iterdir())) == 4  # three parts and the manifest
    assert cli("evaluate", target, "--n-boot", "0")[0] == 0


def test_npy_goes_to_any_target(cal, rows, cli):
    np.save("z.npy", rows[0])
    wanted = cal.predict_proba(rows[0])
    for target in ("p.parquet", "p.arrow", "out/"):
        code, _, _ = cli("apply", "cal.json", "z.npy", "-o", target, "--part-rows", "400")
        assert code == 0
        np.testing.assert_array_equal(result(target)[0], wanted)
    for size in ("350", "899", "5000"):
        assert cli("apply", "cal.json", "z.npy", "-o", "p.npy", "--part-rows", size)[0] == 0
        np.testing.assert_array_equal(np.load("p.npy"), wanted)


def test_a_folder_keeps_the_names_of_its_files(cal, rows, cli):
    z, y = rows
    write(table(z[:500], y[:500]), "data/day=1/a.parquet", size=1000)
    write(table(z[500:], y[500:]), "data/day=2/a.parquet", size=1000)
    Path("data/_SUCCESS").write_text("")
    code, _, _ = cli("apply", "cal.json", "data", "-o", "out", "--with-temperature")
    assert code == 0
    assert sorted(content("out")) == ["_smallcal.json", "day=1/a.parquet", "day=2/a.parquet"]
    proba, found = result("out")
    np.testing.assert_array_equal(proba, cal.predict_proba(z))
    np.testing.assert_array_equal(found["temperature"].to_numpy(), cal.temperature(z))
    before = content("out")
    code, _, err = cli("apply", "cal.json", "data", "-o", "out", "--with-temperature")
    assert code == 0
    assert "900 of 900 rows were done before" in err
    assert content("out") == before
    code, _, err = cli("apply", "cal.json", "data", "-o", "out")
    assert code == 2
    assert "changed since: --with-temperature" in err
    Path("own").mkdir()
    assert (
        "exists already and was not written by smallcal"
        in cli("apply", "cal.json", "data", "-o", "own")[2]
    )


COMMAND = ("apply", "cal.json", "data.parquet", "-o", "p.parquet", "--part-rows", "100")


def stop_after(monkeypatch, parts, error=KeyboardInterrupt):
    real, calls = apply_in_parts.write_part, []

    def write_part(*args):
        calls.append(args)
        if len(calls) > parts:
            raise error
        return real(*args)

    monkeypatch.setattr(apply_in_parts, "write_part", write_part)
    return calls


def test_a_stopped_run_goes_on_and_does_nothing_twice(cal, rows, cli, monkeypatch):
    write(table(*rows), "data.parquet")
    assert cli(*COMMAND)[0] == 0
    whole = content("p.parquet")
    Path("p.parquet").unlink()
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        assert cli(*COMMAND)[0] == 130
    assert not Path("p.parquet").exists()
    assert len(list(Path("p.parquet.parts").glob("*.arrow"))) == 4
    # A part that was damaged meanwhile is done again.
    damaged = sorted(Path("p.parquet.parts").glob("*.arrow"))[1]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (Path("p.parquet.parts") / f".{damaged.stem}-ab_cd012.arrow").write_bytes(b"half")
    with monkeypatch.context() as patch:
        calls = stop_after(patch, 99)
        code, _, err = cli(*COMMAND)
    assert code == 0
    assert len(calls) == 6
    assert "300 of 900 rows were done before" in err
    assert "is damaged; it will be computed again" in err
    assert content("p.parquet") == whole
    assert not Path("p.parquet.parts").exists()


def test_parts_of_something_else_are_refused_and_stay(cal, rows, cli, monkeypatch):
    z, y = rows
    write(table(z, y), "data.parquet")
    with monkeypatch.context() as patch:
        stop_after(patch, 4)
        assert cli(*COMMAND)[0] == 130
    kept = content("p.parquet.parts")
    text = Path("cal.json").read_text()
    sc.TemperatureScaling().fit(*simulate(300, C)).save("cal.json")
    code, _, err = cli(*COMMAND)
    assert code == 2
    assert "p.parquet.parts holds parts of another run (changed since: calibrator)" in err
    Path("cal.json").write_text(text)
    write(table(z + 1, y), "data.parquet")
    code, _, err = cli(*COMMAND)
    assert (code, len(err.splitlines())) == (2, 1)
    assert "(changed since: input files)" in err
    now = content("p.parquet.parts")
    now[".lock"] = kept[".lock"]
    assert now == kept


def test_a_file_that_changes_while_it_is_read_is_noticed(cal, rows, cli, monkeypatch):
    write(table(*rows), "data.parquet")
    real = apply_in_parts.calibrated

    def meddle(*args):
        os.utime("data.parquet", (1, 1))
        return real(*args)

    monkeypatch.setattr(apply_in_parts, "calibrated", meddle)
    code, _, err = cli(*COMMAND)
    assert code == 2
    assert "data.parquet was changed while it was read" in err
    assert not Path("p.parquet").exists()


def test_bad_rows_are_named_by_file_and_row(cal, rows, cli):
    z, y = rows
    z[777, 2] = np.nan
    write(table(z[:400], y[:400]), "data/a.parquet")
    write(table(z[400:], y[400:]), "data/b.parquet")
    for output in ("out", "p.npy"):
        code, _, err = cli("apply", "cal.json", "data", "-o", output, "--part-rows", "100")
        assert (code, len(err.splitlines())) == (2, 1)
        assert "data/b.parquet: logits must be finite" in err
        assert "row 377 " in err
        assert sorted(path.name for path in Path().iterdir()) == ["cal.json", "data"]
    assert "row 377 " in cli("evaluate", "data", "--n-boot", "0")[2]
    z[777, 2] = 0
    holes = table(z, y).set_column(3, "logits", pa.array([*list(z[:850]), *[None] * 50]))
    write(holes, "holes.parquet")
    err = cli("apply", "cal.json", "holes.parquet", "-o", "p.parquet")[2]
    assert "column 'logits' has missing values, first in row 850" in err


def test_damaged_files_are_one_line(cal, rows, cli):
    for suffix in ("parquet", "arrow"):
        write(table(*rows), f"d.{suffix}")
        data = Path(f"d.{suffix}").read_bytes()
        rng = np.random.default_rng(0)
        for keep in (0, 4, 50, len(data) // 2, len(data) - 1):
            Path(f"d.{suffix}").write_bytes(data[:keep])
            code, _, err = cli("apply", "cal.json", f"d.{suffix}", "-o", "p.npy")
            assert (code, len(err.splitlines())) == (2, 1)
            assert f"d.{suffix}" in err
        for _ in range(10):
            broken = np.frombuffer(data, np.uint8).copy()
            broken[rng.integers(len(data), size=200)] = rng.integers(256, size=200)
            Path(f"d.{suffix}").write_bytes(broken.tobytes())
            code, _, err = cli("apply", "cal.json", f"d.{suffix}", "-o", "p.npy")
            assert code in (0, 2), err
            assert len(err.splitlines()) == code // 2


def test_data_sets_that_do_not_fit_together(cal, rows, cli):
    z, y = rows
    write(table(z, y), "mixed/a.parquet")
    write(table(z, y), "mixed/b.arrow")
    assert "holds both Parquet and Arrow files" in cli("apply", "cal.json", "mixed", "-o", "o")[2]
    write(table(z, y), "other/a.parquet")
    write(table(z, y, "columns"), "other/b.parquet")
    assert "b.parquet has other columns than" in cli("apply", "cal.json", "other", "-o", "o")[2]
    Path("empty").mkdir()
    assert "folder without Parquet or Arrow" in cli("apply", "cal.json", "empty", "-o", "o")[2]
    write(table(z, y).append_column("probabilities", pa.array(y)), "twice.parquet")
    err = cli("apply", "cal.json", "twice.parquet", "-o", "o")[2]
    assert "has a column called 'probabilities' already" in err
    write(table(z, y).slice(0, 0), "none.parquet")
    assert "has no rows" in cli("apply", "cal.json", "none.parquet", "-o", "o")[2]
    np.savez("a.npz", logits=z)
    err = cli("apply", "cal.json", "a.npz", "-o", "p.npz", "--jobs", "2")[2]
    assert "cannot be applied to p.npz in parts" in err
    assert not Path("o").exists()
    assert not Path("o.parts").exists()


def test_processes_give_the_same_bytes(cal, rows, cli):
    write(table(*rows), "data.parquet")
    assert cli(*COMMAND)[0] == 0
    assert cli(*COMMAND[:4], "q.parquet", *COMMAND[5:], "--jobs", "2")[0] == 0
    assert content("q.parquet") == content("p.parquet")


@pytest.mark.slow
@posix
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killed_processes_are_one_line_at_most_and_nothing_is_lost(cal, rows, cli, seed):
    z, y = rows
    write(table(np.tile(z, (4, 1)), np.tile(y, 4)), "data.parquet")
    command = [*COMMAND[:4], "p.npy", "--part-rows", "40"]
    assert cli(*command)[0] == 0
    whole = content("p.npy")
    Path("p.npy").unlink()
    for _ in range(10):
        with killing(0.4, most=2, seed=seed):
            code, _, err = cli(*command, "--jobs", "3")
        assert multiprocessing.active_children() == []
        if code == 0:
            break
        assert (code, len(err.splitlines())) == (2, 1)
        assert "a process ended before it had finished a task" in err
    assert cli(*command)[0] == 0
    assert content("p.npy") == whole


def helper(way, folder, output, timeout=300):
    script = Path(__file__).parents[1] / "support" / "small_apply.py"
    command = [sys.executable, str(script), way, folder, output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@posix
@pytest.mark.parametrize(("output", "least"), [("p.npy", 8), ("p.parquet", 8), ("out", 6)])
def test_killed_at_any_write(cal, rows, here, output, least):
    write(table(*(part[:120] for part in rows)), "data.parquet", size=50)
    told = helper("kills", str(here), output)
    assert told["wrong"] == []
    assert told["tried"] >= least


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="Dask is not installed: pip install 'smallcal[dask]'",
)
@posix
def test_on_dask_with_a_worker_killed(cal, rows, here):
    write(table(*rows), "data.parquet", size=50)
    told = helper("dask", str(here), "p.parquet")
    assert told == {"same": True, "killed": 1}


def begin(*args):
    command = [sys.executable, "-m", "smallcal", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@posix
def test_killed_at_random_moments_and_two_at_once(cal, rows, cli):
    z, y = rows
    write(table(np.tile(z, (20, 1)), np.tile(y, 20)), "data.parquet", size=2000)
    assert cli(*COMMAND)[0] == 0
    whole = content("p.parquet")
    Path("p.parquet").unlink()
    chance = random.Random(0)
    for _ in range(3):
        with begin(*COMMAND) as process:
            deadline = time.monotonic() + 60
            while not Path("p.parquet.parts").exists() and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
        assert not Path("p.parquet").exists() or content("p.parquet") == whole
    with begin(*COMMAND) as one, begin(*COMMAND) as two:
        said = [process.communicate()[1] for process in (one, two)]
    assert 0 in (one.returncode, two.returncode)
    for code, err in zip((one.returncode, two.returncode), said, strict=True):
        assert code == 0 or "another process" in err
    assert content("p.parquet") == whole
    assert not Path("p.parquet.parts").exists()


FULL = """
import resource, sys
from smallcal.cli import run
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))
sys.exit(run(sys.argv[1:]))
"""


@posix
@pytest.mark.parametrize("output", ["p.npy", "p.parquet", "out"])
def test_a_full_disk_is_one_line_and_leaves_no_half_file(cal, rows, output):
    write(table(*rows), "data.parquet")
    command = [sys.executable, "-c", FULL, *COMMAND[:4], output, "--part-rows", "800"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert sorted(path.name for path in Path().iterdir()) == ["cal.json", "data.parquet"]


def test_metrics_of_blocks_are_those_of_the_whole(rows):
    z, y = rows
    proba = softmax(z.astype(np.float64), axis=1)
    edges = [0, 1, 300, 650, ROWS]
    blocks = [(y[a:b], proba[a:b]) for a, b in itertools.pairwise(edges)]
    values, n = evaluate_blocks(blocks)
    assert n == ROWS
    assert list(values) == list(METRICS)
    for name, value in sc.evaluate(y, proba).items():
        assert values[name] == pytest.approx(value, rel=1e-10, nan_ok=True), name
    with refused("empty"):
        evaluate_blocks([])


def test_evaluate_and_fit_take_the_same_inputs(cal, rows, cli, monkeypatch):
    z, y = rows
    monkeypatch.setattr(stream_module, "BLOCK_BYTES", 70 * 4 * C)
    write(table(z[:500], y[:500]), "data/a.parquet")
    write(table(z[500:], y[500:]), "data/b.parquet")
    np.savez("all.npz", logits=z, labels=y)
    np.save("z.npy", z)
    np.save("y.npy", y)
    loaded = read("data")
    np.testing.assert_array_equal(loaded.logits, z)
    np.testing.assert_array_equal(loaded.labels, y)
    for extra in ((), ("--calibrator", "cal.json")):
        options = (*extra, "--n-boot", "0", "--json")
        wanted = json.loads(cli("evaluate", "all.npz", *options)[1])["metrics"]
        for data in (("data",), ("z.npy", "--labels", "y.npy")):
            found = json.loads(cli("evaluate", *data, *options)[1])
            assert found["n"] == ROWS
            assert found["metrics"] == pytest.approx(wanted, rel=1e-6)
    for data, out in (("all.npz", "one.json"), ("data", "two.json")):
        assert cli("fit", data, "--method", "srts-bce", "-o", out)[0] == 0
    assert json.loads(Path("one.json").read_text()) == json.loads(Path("two.json").read_text())


def test_data_that_do_not_fit_in_memory(cal, rows, cli, monkeypatch):
    write(table(*rows), "data/a.parquet")
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000)
    code, _, err = cli("fit", "data", "-o", "new.json")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "data needs about 0.0 GB of memory" in err
    code, out, err = cli("evaluate", "data", "--metrics", "ece15")
    assert code == 0
    assert "does not fit in memory: values without intervals" in err
    assert "interval" not in out


def test_memory_is_asked_of_the_system():
    free = memory.free_memory()
    assert free is None or free > 10**6


def test_parts_cover_every_row_once(here):
    np.save("z.npy", np.zeros((1000, 3)))
    for size in (1, 3, 333, 999, 1000, 1001):
        parts = open_source(Path("z.npy")).parts(size)
        assert [part.start for part in parts] == list(range(0, 1000, size))
        assert sum(part.rows for part in parts) == 1000
