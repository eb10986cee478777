"""A run's folder: damaged parts, other runs, other processes."""

import errno
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smallcal._version import versions
from smallcal.errors import FileError, InputError
from smallcal.io.lock import FILE_NAME, alone_in
from smallcal.io.resumable import read_manifest
from smallcal_lab.studies.engine import rows_of, run_in
from smallcal_lab.studies.frame import read_parquet, write_parquet
from smallcal_lab.studies.study import Task, file_name

pytest.importorskip("pyarrow", reason="runs are kept as Parquet: pip install 'smallcal[parquet]'")

TASKS = [Task("toy__a__s0", 100, 0), Task("toy__a__s0", 100, 1), Task("toy__B/16__s0", 0, 0)]
ASKED = {"study": {"draws": 2, "budgets": [100, 0]}, "inputs": {"a.npz": "1" * 64}}


def asked(**changes):
    return {**ASKED, "versions": versions("pyarrow"), **changes}


def some_rows(task, n=4):
    return [
        {"cell": task.cell, "draw": task.draw, "label": "none", "metric": "nll", "value": i / 3}
        for i in range(n)
    ]


@pytest.fixture
def store(tmp_path):
    """A run with three finished tasks."""
    made = run_in(tmp_path / "run")
    with made.claimed(parents=True):
        made.begin(asked())
        for task in TASKS:
            write_parquet(made.part(task), some_rows(task))
    return made


def part(store, number):
    return store.parts / f"{file_name(TASKS[number].key)}.parquet"


def test_rows_come_back_in_the_order_of_the_tasks(store):
    assert store.missing(TASKS) == []
    cells = [row["cell"] for row in rows_of(store, TASKS[::-1])]
    assert cells == 4 * [TASKS[2].cell] + 8 * [TASKS[0].cell]
    assert [row["value"] for row in rows_of(store, TASKS)] == 3 * [0, 1 / 3, 2 / 3, 1]
    assert store.notes == []


def test_equal_rows_give_equal_bytes(store, tmp_path):
    write_parquet(tmp_path / "again.parquet", some_rows(TASKS[0]))
    assert (tmp_path / "again.parquet").read_bytes() == part(store, 0).read_bytes()


def _cut(file, share):
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])


DAMAGE = {
    "empty": lambda file: file.write_bytes(b""),
    "cut short": lambda file: _cut(file, 0.6),
    "end missing": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "garbage": lambda file: file.write_bytes(os.urandom(3000)),
    "zeros, as after a power cut": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "of another task": lambda file: write_parquet(file, some_rows(TASKS[0])),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_part_is_to_be_done_again_with_a_note(store, kind):
    DAMAGE[kind](part(store, 1))
    assert store.missing(TASKS) == [TASKS[1]]
    assert part(store, 1).exists()  # `study show` asks too, and only looks
    assert len(store.notes) == 1
    assert str(part(store, 1)) in store.notes[0]
    assert "it will be computed again" in store.notes[0]


def test_other_columns_are_no_rows_of_a_study(store):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"cell": ["a"]}), part(store, 1))
    assert store.missing(TASKS) == [TASKS[1]]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_wrong_bit_is_found_or_does_no_harm(tmp_path, place, bit):
    file = tmp_path / "part.parquet"
    wanted = some_rows(TASKS[0], 40)
    write_parquet(file, wanted)
    before = read_parquet(file)
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    file.write_bytes(data)
    try:
        found = read_parquet(file)
    except FileError:
        return
    assert found == before


def test_what_a_killed_process_had_not_finished_is_swept_away(store):
    left = [
        store.parts / f".{part(store, 0).stem[:40]}-ab_cd012.parquet",
        store.folder / ".manifest-ab_cd012.json",
        store.folder / ".rows-ab_cd012.parquet",
        store.folder / ".tables-ab_cd012.md",
    ]
    own = [
        *(store.folder / name for name in (".notes", ".rows-backup.parquet", ".tables-old.md")),
        *(store.parts / name for name in (".mine.parquet", ".rows-ab_cd012.parquet", "mine")),
    ]
    for path in [*left, *own]:
        path.write_bytes(b"half")
    with store.claimed():
        store.sweep(TASKS)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in own)
    assert store.missing(TASKS) == []


def reopened(store, **changes):
    again = run_in(store.folder)
    with again.claimed():
        again.begin(asked(**changes))
    return again


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"study": {"draws": 5, "budgets": [100, 0]}}, "study draws: 2, now 5"),
        ({"study": {"draws": 2, "budgets": [100]}}, "study budgets: [100, 0], now [100]"),
        ({"inputs": {"a.npz": "2" * 64}}, "inputs a.npz"),
        ({"inputs": {"a.npz": "1" * 64, "b.npz": "2" * 64}}, "inputs b.npz"),
        ({"cells": ["toy"]}, 'cells: null, now ["toy"]'),
    ],
)
def test_another_run_is_refused_in_one_line(store, changes, said):
    before = (store.folder / "manifest.json").read_bytes()
    with pytest.raises(InputError) as caught:
        reopened(store, **changes)
    assert f"({said})" in str(caught.value)
    assert "--out" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert (store.folder / "manifest.json").read_bytes() == before


def test_many_changes_stay_one_line(store):
    with pytest.raises(InputError, match="and 6 more"):
        reopened(store, inputs={f"{i}.npz": "2" * 64 for i in range(8)})


def test_another_smallcal_is_another_run(store, monkeypatch):
    monkeypatch.setattr("smallcal._version.__version__", "99.0")
    with pytest.raises(InputError, match=r'versions smallcal: ".+", now "99\.0"'):
        reopened(store)


def test_another_numpy_is_noted_once_and_kept_on_record(store, monkeypatch):
    then, known = versions("pyarrow"), metadata.version
    newer = {"numpy": "99.0"}
    monkeypatch.setattr(metadata, "version", lambda name: newer.get(name) or known(name))
    again = reopened(store)
    assert again.notes == [
        f"the run was started with other versions: numpy {then['numpy']}, now 99.0"
    ]
    assert read_manifest(again.manifest)["versions"] == then
    assert read_manifest(again.manifest)["resumed_with"] == [{**then, "numpy": "99.0"}]
    assert reopened(store).notes == []
    with pytest.raises(InputError, match="draws"):
        reopened(store, study={"draws": 3})
    assert again.missing(TASKS) == []


def test_the_same_words_go_on_and_write_nothing(store):
    before = (store.folder / "manifest.json").stat().st_mtime_ns
    assert reopened(store, study={"budgets": (100, 0), "draws": 2}).notes == []
    assert (store.folder / "manifest.json").stat().st_mtime_ns == before


def test_parts_without_a_manifest_are_not_taken_for_this_run(store):
    (store.folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="no manifest"):
        reopened(store)


@pytest.mark.parametrize("text", ["", "{", "[]", '"a"', "\x00"])
def test_a_damaged_manifest_is_one_line(store, text):
    (store.folder / "manifest.json").write_text(text)
    with pytest.raises(FileError) as caught:
        reopened(store)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("found", [{}, {"versions": [1]}, {"name": "an app", "icons": []}])
def test_a_foreign_manifest_is_another_run(store, found):
    (store.folder / "manifest.json").write_text(json.dumps(found))
    with pytest.raises(InputError, match="holds another run"):
        reopened(store)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "run").write_text("")
    made = run_in(tmp_path / "run")
    with pytest.raises(FileError, match="cannot make"), made.claimed(parents=True):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from smallcal.io.lock import alone_in
with alone_in(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_only_one_process_at_a_time_and_none_after_its_death(store):
    command = [sys.executable, "-c", HOLDER, str(store.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "held\n"
            with pytest.raises(InputError) as caught, store.claimed():
                pass
            assert f"another process is working on this run (process {other.pid} on" in str(
                caught.value
            )
            assert len(str(caught.value).splitlines()) == 1
        finally:
            other.kill()
    # Its file is still there, and names a process that is dead.
    assert str(other.pid) in (store.folder / FILE_NAME).read_text()
    with store.claimed():
        assert str(os.getpid()) in (store.folder / FILE_NAME).read_text()


def test_the_number_of_a_live_process_does_not_make_a_lock(tmp_path):
    (tmp_path / FILE_NAME).write_text(f"process {os.getppid()} on here")
    with alone_in(tmp_path) as certain:
        assert certain


@pytest.mark.skipif(os.name != "posix", reason="other systems lock by other means")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_nothing_is_swept(store, monkeypatch, number):
    def no_locks(handle, how):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", no_locks)
    half = store.parts / ".toy-abc.parquet"
    half.write_bytes(b"half")
    with store.claimed():
        assert half.exists()


@given(st.lists(st.text(min_size=1, max_size=120), min_size=2, max_size=6, unique=True))
def test_names_of_files_are_safe_and_differ_also_where_case_does_not_count(keys):
    names = [file_name(key) for key in keys]
    assert len({name.casefold() for name in names}) == len(keys)
    for name in names:
        assert Path(name).name == name
        assert not name.startswith(".")
        assert len(name.encode()) <= 100
