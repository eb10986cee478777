"""The engine: the same bytes whatever happens on the way."""

import importlib.util
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal.errors import FileError, InputError, SmallcalError
from smallcal.io import pool
from smallcal.io.pool import run_tasks
from smallcal_lab.studies import engine, load_collection
from smallcal_lab.studies import run as checked_run
from smallcal_lab.studies.collection import draw_rows
from smallcal_lab.studies.probes import Site
from smallcal_lab.studies.study import Entry, Task
from support import small_study
from support.small_study import N_TASKS, STUDY, leftovers, parts, results, write_collection
from support.small_tasks import killing

pytest.importorskip("pyarrow", reason="runs are kept as Parquet: pip install 'smallcal[parquet]'")

#: One of the collection's names is no name of a file, to see that nothing minds; check does.
run = partial(checked_run, force=True)

MANY = 8  # draws of the runs that something happens to: 27 tasks
posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups are POSIX")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A collection, and the bytes of runs that nothing happened to, by number of draws."""
    folder = tmp_path_factory.mktemp("shared")
    collection = write_collection(folder / "collection")
    wanted = {}
    for draws in (2, MANY):
        run(replace(STUDY, draws=draws), collection, folder / str(draws))
        wanted[draws] = results(folder / str(draws))
    return collection, wanted


@pytest.fixture
def own(tmp_path):
    """A collection of one's own, to do harm to."""
    return write_collection(tmp_path / "collection")


LAB = Path(__file__).parents[2] / "src"


def program(*arguments):
    """Start the study in a process, and group of processes, of its own."""
    paths = [
        str(Path(small_study.__file__).parents[1]),
        str(Path(sc.__file__).parents[1]),
        str(LAB),
    ]
    return subprocess.Popen(
        [sys.executable, small_study.__file__, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
    )


def answer(*arguments, timeout=300):
    process = program(*arguments)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        end_group(process)
    assert process.returncode == 0, err
    return json.loads(out)


def end_group(process):
    """Leave nothing behind, also when a test fails."""
    with suppress(ProcessLookupError, AttributeError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(holds, seconds=180):
    """Wait as long as a busy machine may need; nothing waits this long where all is well."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def is_gone(pid, kill=os.kill):
    try:
        kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_rows_are_what_a_plain_loop_finds(shared, tmp_path):
    collection, _ = shared
    outcome = run(STUDY, collection, tmp_path / "run")
    wanted = {}
    for number, cell in enumerate(collection.cells):
        with np.load(collection.folder / f"{number}.npz") as file:
            z, y, z_test, y_test = (
                file[name] for name in ("val_logits", "val_labels", "test_logits", "test_labels")
            )
        for budget, draw in ((100, 0), (100, 1), (300, 0)):
            rows = draw_rows(y, budget, seed=cell.seed, draw=draw)
            for label in ("none", "tva-ts", "srts-bce"):
                cal = sc.make(label)
                if "random_state" in cal.get_params():
                    cal.set_params(random_state=cell.seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", sc.FitWarning)
                    cal.fit(z[rows], y[rows])
                scores = sc.evaluate(y_test, cal.predict_proba(z_test), metrics=STUDY.metrics)
                for metric, value in scores.items():
                    wanted[cell.name, budget, draw, label, metric] = value
    found = {
        (row["cell"], row["budget"], row["draw"], row["label"], row["metric"]): row["value"]
        for row in outcome.frame.rows()
    }
    assert found == pytest.approx(wanted, rel=1e-12)
    assert outcome.failures == outcome.notes == ()


def test_the_order_of_the_tasks_does_not_matter(shared, tmp_path, monkeypatch):
    collection, wanted = shared
    monkeypatch.setattr(
        "smallcal_lab.studies.engine.run_tasks",
        lambda work, todo, **options: run_tasks(work, todo[::-1], **options),
    )
    run(STUDY, collection, tmp_path / "run")
    assert results(tmp_path / "run") == wanted[2]


def test_a_finished_run_does_nothing_again(shared, tmp_path, monkeypatch):
    collection, wanted = shared
    run(STUDY, collection, tmp_path / "run")
    monkeypatch.setattr(engine, "measure", None)
    seen = []
    run(STUDY, collection, tmp_path / "run", advance=seen.append)
    assert seen == [N_TASKS]
    assert results(tmp_path / "run") == wanted[2]


def test_progress_counts_what_was_there_and_then_each_task(shared, tmp_path):
    collection, wanted = shared
    run(STUDY, collection, tmp_path / "run")
    for path in parts(tmp_path / "run")[::2]:
        path.unlink()
    seen = []
    run(STUDY, collection, tmp_path / "run", advance=seen.append)
    assert seen == [N_TASKS // 2] + [1] * (N_TASKS - N_TASKS // 2)
    assert results(tmp_path / "run") == wanted[2]


def test_a_damaged_part_is_done_again_with_a_note(shared, tmp_path):
    collection, wanted = shared
    run(STUDY, collection, tmp_path / "run")
    cut, garbage = parts(tmp_path / "run")[1:3]
    cut.write_bytes(cut.read_bytes()[:-100])
    garbage.write_bytes(b"PAR1" + bytes(900) + b"PAR1")
    seen = []
    outcome = run(STUDY, collection, tmp_path / "run", advance=seen.append)
    assert seen == [N_TASKS - 2, 1, 1]
    assert sorted(note.split()[0] for note in outcome.notes) == [str(cut), str(garbage)]
    assert results(tmp_path / "run") == wanted[2]


# What fails.


def test_a_unit_that_fails_is_recorded_and_the_others_go_on(shared, tmp_path):
    collection, _ = shared
    broken = Entry("broken", "srts-bce", {"n_groups": -1})
    study = replace(STUDY, entries=(*STUDY.entries, broken))
    outcome = run(study, collection, tmp_path / "run")
    assert len(outcome.failures) == N_TASKS
    assert "toy__a__s0, broken, budget 100, draw 0: InputError: " in outcome.failures[0]
    whole = outcome.frame.where(metric=list(STUDY.metrics))
    assert whole.unique("label") == ["none", "tva-ts", "srts-bce"]
    assert len(whole) == N_TASKS * 3 * len(STUDY.metrics)
    assert "broken" not in (tmp_path / "run" / "tables.md").read_text()
    again = run(study, collection, tmp_path / "run")
    assert again.failures == outcome.failures


def test_a_budget_that_a_cell_does_not_have_fails_there_only(shared, tmp_path):
    collection, _ = shared
    outcome = run(replace(STUDY, budgets=(100, 1000)), collection, tmp_path / "run")
    assert len(outcome.failures) == 3 * 2 * 3
    assert all("1,000 samples cannot be drawn from 300" in line for line in outcome.failures)
    assert len(outcome.frame.where(budget=100, label="tva-ts", metric="nll")) == 3 * 2


def test_a_file_that_cannot_be_used_fails_its_cell_only(own, tmp_path):
    (own.folder / "1.npz").write_bytes(b"no arrays")
    outcome = run(STUDY, load_collection(own.folder), tmp_path / "run")
    assert {line.partition(",")[0] for line in outcome.failures} == {"toy__a__s1"}
    assert len(outcome.failures) == 3 * 3


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), MemoryError("no memory")])
def test_what_the_machine_cannot_do_is_not_taken_for_a_result(shared, tmp_path, monkeypatch, error):
    collection, wanted = shared
    real, calls = engine.measure, []

    def tired(study, cell, task, kept):
        calls.append(task)
        if len(calls) == 4:
            raise error
        return real(study, cell, task, kept)

    monkeypatch.setattr(engine, "measure", tired)
    with pytest.raises(SmallcalError, match="run the same command to resume") as caught:
        run(STUDY, collection, tmp_path / "run")
    assert len(str(caught.value).splitlines()) == 1
    assert len(parts(tmp_path / "run")) == 3
    seen = []
    run(STUDY, collection, tmp_path / "run", advance=seen.append)
    assert seen[0] == 3
    assert results(tmp_path / "run") == wanted[2]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), MemoryError("no memory")])
def test_nor_when_it_gives_out_in_the_middle_of_a_fit(shared, tmp_path, monkeypatch, error):
    def tired(site, entry):
        raise error

    monkeypatch.setattr(Site, "fit", tired)
    with pytest.raises(SmallcalError, match="run the same command to resume"):
        run(STUDY, shared[0], tmp_path / "run")
    assert parts(tmp_path / "run") == []


# What changes.


def rewrite(folder, number, *, flip):
    """Change a cell's labels on disk."""
    with np.load(folder / f"{number}.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["test_labels"] = (arrays["test_labels"] + flip) % 5
    np.savez(folder / f"{number}.npz", **arrays)


def test_changed_files_and_options_are_refused(own, tmp_path):
    out = tmp_path / "run"
    run(STUDY, own, out)
    before = results(out)
    with pytest.raises(InputError, match=r"holds another run \(study draws: 2, now 3\)"):
        run(replace(STUDY, draws=3), own, out)
    with pytest.raises(InputError, match="cells"):
        run(STUDY, own.only(["s1"]), out)
    swapped = replace(own.cells[0], calibration=own.cells[0].test, test=own.cells[0].calibration)
    with pytest.raises(InputError, match=r"\(splits toy__a__s0\)"):
        run(STUDY, replace(own, cells=(swapped, *own.cells[1:])), out)
    rewrite(own.folder, 1, flip=1)
    with pytest.raises(InputError, match=r"\(inputs 1\.npz\)"):
        run(STUDY, own, out)
    assert results(out) == before


def test_an_alias_that_means_another_method_is_another_run(own, tmp_path, monkeypatch):
    monkeypatch.setattr("smallcal.calibrators.catalogue.ALIASES", {"default": "ts-nll"})
    run(replace(STUDY, entries=(*STUDY.entries, Entry("default"))), own, tmp_path / "run")
    monkeypatch.setattr("smallcal.calibrators.catalogue.ALIASES", {"default": "ts-brier"})
    other = replace(STUDY, entries=(*STUDY.entries, Entry("default")))
    with pytest.raises(InputError, match="holds another run"):
        run(other, own, tmp_path / "run")


def test_new_files_are_read_anew_by_the_same_process(own, tmp_path):
    old = run(STUDY, own, tmp_path / "old")
    rewrite(own.folder, 1, flip=1)
    new = run(STUDY, own, tmp_path / "new")
    rewrite(own.folder, 1, flip=-1)
    back = run(STUDY, own, tmp_path / "back")
    cell = {"cell": "toy__a__s1", "label": "none", "metric": "nll"}
    assert np.all(old.frame.where(**cell)["value"] < new.frame.where(**cell)["value"])
    assert old.frame["value"].tolist() == back.frame["value"].tolist()


def test_files_that_change_while_the_study_runs_are_noticed(own, tmp_path):
    seen = []

    def advance(n):
        seen.append(n)
        if len(seen) == 3:
            rewrite(own.folder, 2, flip=1)

    with pytest.raises(FileError, match="changed while the study ran"):
        run(STUDY, own, tmp_path / "run", advance=advance)
    assert not (tmp_path / "run" / "tables.md").exists()


def test_a_description_under_another_name_is_enough(own, tmp_path, shared):
    (own.folder / "collection.toml").rename(own.folder / "mine.toml")
    run(STUDY, load_collection(own.folder / "mine.toml"), tmp_path / "run")
    assert results(tmp_path / "run") == shared[1][2]


def test_a_relative_folder_will_do(own, tmp_path, shared, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(STUDY, load_collection("collection"), "run")
    assert results("run") == shared[1][2]


def test_the_number_of_threads_does_not_matter(shared, tmp_path):
    from threadpoolctl import threadpool_info, threadpool_limits

    inside = []
    real = engine.measure

    def watched(study, cell, task, kept):
        inside.extend(pool["num_threads"] for pool in threadpool_info())
        return real(study, cell, task, kept)

    with pytest.MonkeyPatch.context() as patch, threadpool_limits(4):
        patch.setattr(engine, "measure", watched)
        run(STUDY, shared[0], tmp_path / "run")
    assert set(inside) == {1}
    assert results(tmp_path / "run") == shared[1][2]


# Kills.


@pytest.mark.slow
@posix
def test_killed_while_any_file_is_written(shared, tmp_path):
    """At the manifest, predictions, parts, rows and tables: half of it on disk, and all of it."""
    collection, _ = shared
    told = answer("kills", collection.folder, tmp_path / "kills")
    assert told["wrong"] == []
    assert told["points"] == 2 * (1 + 4 + 4)


@pytest.mark.slow
@posix
def test_killed_and_interrupted_at_any_moment(shared, tmp_path):
    """With two jobs: no process is left behind, and the last run has the same bytes."""
    collection, wanted = shared
    out = tmp_path / "run"
    rng = random.Random(1)
    there = 0
    for blow in (signal.SIGINT, signal.SIGKILL):
        process = program("plain", collection.folder, out, MANY, 2)
        try:
            goal = there + rng.randint(1, 3)
            wait_until(lambda goal=goal: len(parts(out)) >= goal)
            time.sleep(0.02 * rng.random())
            # Ctrl-C reaches a whole group of processes; a kill only one.
            (os.killpg if blow == signal.SIGINT else os.kill)(process.pid, blow)
            _, err = process.communicate(timeout=180)
            wait_until(lambda group=process.pid: is_gone(group, os.killpg))
        finally:
            end_group(process)
        if blow == signal.SIGINT:
            assert (process.returncode, err) == (130, "")
        else:
            assert process.returncode == -signal.SIGKILL
        there = len(parts(out))
        assert there < 3 * (MANY + 1)
        assert not (out / "tables.md").exists()
    seen = []
    outcome = run(replace(STUDY, draws=MANY), collection, out, advance=seen.append)
    assert seen == [there] + [1] * (3 * (MANY + 1) - there)
    assert outcome.notes == outcome.failures == ()
    assert results(out) == wanted[MANY]
    assert leftovers(out) == []


@pytest.mark.slow
@posix
def test_a_worker_that_the_system_kills_is_replaced_and_none_outlives_an_error(shared, tmp_path):
    collection, wanted = shared
    seen, killed = [], []

    def advance(n):
        seen.append(n)
        if len(seen) == 4:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)
        if len(seen) == 15:
            raise FileError("cannot write: no space left")

    study = replace(STUDY, draws=MANY)
    with pytest.raises(FileError, match="no space left"):
        run(study, collection, tmp_path / "run", jobs=2, advance=advance)
    assert is_gone(killed[0])
    assert multiprocessing.active_children() == []
    # Processes write what they finish: all that was told of is there, and perhaps what the
    # processes before the kill and those at the end had been given.
    there = len(parts(tmp_path / "run"))
    assert 14 <= there <= 15 + 2 * (pool.AHEAD * 2)
    outcome = run(study, collection, tmp_path / "run", advance=seen.append)
    assert seen[15:] == [there] + [1] * (3 * (MANY + 1) - there)
    assert outcome.failures == ()
    assert results(tmp_path / "run") == wanted[MANY]


@posix
def test_workers_that_never_finish_anything_are_one_line(shared, tmp_path):
    collection, wanted = shared
    with (
        killing(0.01),
        pytest.raises(SmallcalError, match="a process ended before") as caught,
    ):
        run(STUDY, collection, tmp_path / "run", jobs=2)
    assert len(str(caught.value).splitlines()) == 1
    run(STUDY, collection, tmp_path / "run")
    assert results(tmp_path / "run") == wanted[2]


def test_two_processes_do_not_work_on_one_run(shared, tmp_path):
    collection, wanted = shared
    errors = []

    def advance(n):
        if not errors:
            with pytest.raises(InputError, match="another process is working on") as caught:
                run(STUDY, collection, tmp_path / "run")
            errors.append(caught.value)

    run(STUDY, collection, tmp_path / "run", advance=advance)
    assert len(errors) == 1
    assert results(tmp_path / "run") == wanted[2]


# Dask.

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="Dask is not installed: pip install 'smallcal[dask]'",
)


@pytest.mark.slow
@posix
@needs_dask
def test_on_dask_with_a_worker_killed(shared, tmp_path):
    collection, wanted = shared
    told = answer("dask", collection.folder, tmp_path / "run", MANY)
    assert told["done"] == 3 * (MANY + 1)
    assert told["failures"] == []
    assert len(told["pids"]) == 3  # two, and the one that took the place of the killed
    assert all(is_gone(pid) for pid in told["pids"])
    assert results(tmp_path / "run") == wanted[MANY]


@needs_dask
def test_no_scheduler_is_one_line(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "PATIENCE", "200ms")
    for address in ("tcp://127.0.0.1:1", "nonsense://x", "not an address"):
        with pytest.raises(InputError, match="no Dask scheduler answers at") as caught:
            run(STUDY, shared[0], tmp_path / "run", dask=address)
        assert len(str(caught.value).splitlines()) == 1


@needs_dask
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("CancelledError", "the connection to the Dask scheduler was lost"),
        ("KilledWorker", "could not run toy__n100__d0 (KilledWorker: "),
    ],
)
def test_a_cluster_that_gives_up_is_one_line(error, said):
    import distributed

    class Lost:
        def result(self):
            raise getattr(distributed, error)("work-1", FakeWorker, 3)

    class FakeWorker:
        address = "tcp://x"

    with pytest.raises(SmallcalError) as caught:
        pool._result(distributed, Lost(), Task("toy", 100, 0).key)
    assert said in str(caught.value)
    assert "run the same command to resume" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_without_dask_the_extra_is_named(shared, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(sc.MissingExtraError, match=r"smallcal\[dask\]"):
        run(STUDY, shared[0], tmp_path / "run", dask="tcp://127.0.0.1:1")


def test_a_worker_with_other_software_or_files_says_so(own):
    work, task = partial(engine.work, STUDY, frozenset()), STUDY.tasks(own)[0]
    with pytest.raises(InputError, match=r"smallcal 99\.0"):
        pool._away("99.0", work, (own.cells[0], task))
    elsewhere = replace(own.cells[0], folder=Path("/nowhere"))
    with pytest.raises(FileError, match="a worker cannot find"):
        work((elsewhere, task))


def test_jobs_must_be_positive(shared, tmp_path):
    with pytest.raises(InputError, match="jobs must be at least 1"):
        run(STUDY, shared[0], tmp_path / "run", jobs=0)


def test_a_collection_with_errors_is_run_only_when_forced(own, tmp_path):
    """As ``smallcal study`` does: nothing is begun, and the error says how to go on."""
    with pytest.raises(InputError, match=r"invalidate a study: toy.* continue with force=True"):
        checked_run(STUDY, own, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert checked_run(STUDY, own, tmp_path / "run", force=True).frame
