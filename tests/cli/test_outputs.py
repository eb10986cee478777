"""Outputs: nothing is lost that smallcal did not write, and nothing is written over an input."""

from __future__ import annotations

import importlib.util
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import smallcal as sc
from smallcal.cli.app import Verbs, app
from smallcal.cli.outputs import READ, WRITTEN
from smallcal.io import WRITERS, read, write_arrays
from smallcal_lab.cli.study import Studies
from support.simulated import simulate

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and devices of a POSIX system")
NEEDS = {".parquet": "pyarrow", ".arrow": "pyarrow", ".h5": "h5py", ".pt": "torch"}
NEEDS[".safetensors"] = "safetensors"

#: Every verb that writes a file, with X for it.
WRITING = (
    ("fit", "d.npz", "--method", "ts-nll", "-o", "X"),
    ("apply", "cal.json", "z.npy", "-o", "X"),
    ("apply", "cal.json", "d.npz", "-o", "X"),
    ("export", "cal.json", "--to", "sql", "-o", "X"),
    (
        "report",
        "d.npz",
        "d.npz",
        "--methods",
        "ts-nll",
        "--n-boot",
        "0",
        "--format",
        "md",
        "-o",
        "X",
    ),
    ("select", "d.npz", "--candidates", "none,ts-nll", "-o", "X"),
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    z, y = simulate(200, 4)
    np.savez("d.npz", logits=z, labels=y)
    np.save("z.npy", z)
    np.save("y.npy", y)
    sc.TemperatureScaling().fit(z, y).save("cal.json")
    return tmp_path


def content(folder="."):
    """Every file below a folder with its bytes; folders and links as what they are."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
        found[str(path)] = path.read_bytes() if kind == "file" else kind
    return found


def made(command, output):
    return [output if word == "X" else word for word in command]


def refused(cli, args, *said):
    """Whether a command ends with code 2 and one line, and touches nothing."""
    before = content()
    code, out, err = cli(*args)
    assert (code, out, len(err.splitlines())) == (2, "", 1), (args, out, err)
    assert all(text in err for text in said), err
    assert content() == before, args


# 1. Look before you touch.


@pytest.mark.parametrize("output", ["mine", "mine.npy"])
def test_a_folder_called_like_the_parts_is_not_touched(cli, output):
    own = Path(f"{output}.parts")
    for name in (".env", ".git/config", "a/b/.hidden", "notes.txt"):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("the user's")
    refused(cli, ("apply", "cal.json", "z.npy", "-o", output), "is not a folder of parts")


def test_a_lock_that_is_not_ours_stays(cli):
    pytest.importorskip("pyarrow")
    Path("mine.parts").mkdir()
    Path("mine.parts/.lock").write_text("the user's")
    refused(cli, ("apply", "cal.json", "z.npy", "-o", "mine"), "is not a lock file of smallcal")


def test_what_a_user_puts_beside_the_parts_stays(cli, monkeypatch):
    from smallcal.deploy import apply_in_parts

    command = ("apply", "cal.json", "z.npy", "-o", "p.npy", "--part-rows", "50")
    real, calls = apply_in_parts.write_part, []

    def stop(*args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(apply_in_parts, "write_part", stop)
        assert cli(*command)[0] == 130
    own = [
        Path("p.npy.parts") / name for name in (".hidden", ".z-backup.npy", "sub/.keep", "a.txt")
    ]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text("the user's")
    Path("p.npy.parts/empty").mkdir()
    half = Path("p.npy.parts") / f".{calls[2][0].stem}-ab_cd012.npy"
    half.write_bytes(b"half")
    assert cli(*command)[0] == 0
    assert np.load("p.npy").shape == (200, 4)
    left = {path for path in Path("p.npy.parts").rglob("*") if path.is_file()}
    assert left == set(own)
    assert Path("p.npy.parts/empty").is_dir()


def test_a_damaged_manifest_is_not_removed(cli):
    Path("p.npy.parts").mkdir()
    Path("p.npy.parts/_smallcal.json").write_text("{")
    before = content()
    code, _, err = cli("apply", "cal.json", "z.npy", "-o", "p.npy")
    assert (code, len(err.splitlines())) == (2, 1)
    after = content()
    after.pop("p.npy.parts/.lock")
    assert after == before


@pytest.fixture
def collection(here):
    pytest.importorskip("pyarrow")
    (z, y), (tz, ty) = simulate(80, 3), simulate(80, 3, seed=1)
    Path("data").mkdir()
    arrays = {"val_logits": z, "val_labels": y, "test_logits": tz, "test_labels": ty}
    np.savez("data/a__mlp.npz", **arrays)
    from smallcal_lab.studies.importers import import_folder

    import_folder("data", "data")
    return ("study", "clean", "data", "--methods", "ts-nll", "--n-boot", "10", "--out")


@pytest.mark.parametrize("name", ["rows.parquet", "tables.md", "tables.tex", "parts/a.txt"])
def test_a_study_writes_over_no_file_of_others(collection, cli, name):
    for file in (name, ".tables-old.md", ".rows-x.parquet"):
        Path("own", file).parent.mkdir(parents=True, exist_ok=True)
        Path("own", file).write_text("the user's")
    refused(cli, (*collection, "own"), "no manifest to say of which run")


def test_a_study_keeps_hidden_files_and_may_run_again(collection, cli):
    assert cli(*collection, "run")[0] == 0
    Path("run/.tables-old.md").write_text("the user's")
    assert cli(*collection, "run")[0] == 0
    assert Path("run/.tables-old.md").exists()
    part = next(Path("run/parts").iterdir())
    part.write_bytes(b"damaged")
    refused(cli, ("study", "show", "run"), "is not complete")


def test_what_was_drawn_is_drawn_anew_and_nothing_else(collection, cli):
    pytest.importorskip("matplotlib")
    assert cli(*collection, "run")[0] == 0
    show = ("study", "show", "run", "--figures", "run/figures")
    for kind in ("svg", "png"):
        assert cli(*show, "--format", kind)[0] == 0
        assert cli(*show, "--format", kind)[0] == 0
        for file in Path("run/figures").glob(f"*.{kind}"):
            file.write_text("the user's")
        refused(cli, (*show, "--format", kind), "no figure of a study")


def test_a_reproduction_of_others_stays(cli):
    pytest.importorskip("pyarrow")
    Path("run").mkdir()
    Path("run/reproduction.json").write_text('{"mine": 1}')
    refused(cli, ("study", "reproduce", "--frozen", "--out", "run"), "smallcal did not make it")


def test_the_demo_writes_over_no_data_of_others(cli):
    assert cli("demo", "--export", "demo")[0] == 0
    assert cli("demo", "--export", "demo")[0] == 0
    np.savez("demo/test.npz", logits=np.eye(3), labels=np.arange(3))
    refused(cli, ("demo", "--export", "demo"), "demo/test.npz is there already")


def test_permissions_of_a_file_are_kept(cli):
    Path("cal.json").chmod(0o640)
    assert cli("fit", "d.npz", "--method", "ts-nll", "-o", "cal.json")[0] == 0
    assert stat.S_IMODE(Path("cal.json").stat().st_mode) == 0o640


# 2. Devices, pipes, streams and links.


def device(name, minor):
    try:
        os.mknod(name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    except (OSError, AttributeError):
        pytest.skip("only root on Linux makes devices")
    return name


@posix
@pytest.mark.parametrize("command", WRITING, ids=lambda words: " ".join(words[:3]))
def test_devices_are_written_to_and_stay(command, cli):
    for name, minor, code in (("null", 3, 0), ("full", 7, 2)):
        device(name, minor)
        before = sorted(os.listdir())
        found, _, err = cli(*made(command, name))
        assert found == code, err
        assert Path(name).is_char_device()
        assert sorted(os.listdir()) == before
    assert "cannot write full: No space left on device" in err.splitlines()[-1]


def piped(cli, command, name):
    """Return what comes out of a pipe that a command writes to."""
    os.mkfifo(name)
    taken = []
    reader = threading.Thread(target=lambda: taken.append(Path(name).read_bytes()), daemon=True)
    reader.start()
    code, _, err = cli(*made(command, name))
    if code:  # nobody opened the other end
        os.close(os.open(name, os.O_RDWR | os.O_NONBLOCK))
    reader.join(20)
    assert code == 0, err
    assert Path(name).is_fifo()
    return taken[0]


@posix
@pytest.mark.parametrize("command", WRITING, ids=lambda words: " ".join(words[:3]))
def test_a_pipe_takes_what_a_file_would(command, cli):
    suffix = Path(command[2]).suffix if command[0] == "apply" else ".json"
    assert cli(*made(command, f"whole{suffix}"))[0] == 0
    if command[0] == "report":
        assert piped(cli, command, "pipe").startswith(b"#")
    else:
        assert piped(cli, command, "pipe") == Path(f"whole{suffix}").read_bytes()


@posix
@pytest.mark.parametrize("suffix", [".npz", ".csv.gz", *NEEDS])
def test_every_type_goes_through_a_pipe(suffix, cli):
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix])
    Path(f"copy{suffix}").write_bytes(
        piped(cli, ("apply", "cal.json", "d.npz", "-o", "X"), f"pipe{suffix}")
    )
    np.testing.assert_array_equal(read(f"copy{suffix}").labels, np.load("y.npy"))


@posix
@pytest.mark.parametrize("command", WRITING, ids=lambda words: " ".join(words[:3]))
def test_links_are_followed_and_stay(command, cli):
    suffix = Path(command[2]).suffix if command[0] == "apply" else ".json"
    for folder in ("near", "far"):
        Path(folder).mkdir()
    Path(f"far/old{suffix}").write_text("old")
    for name in ("old", "new"):  # one leads to a file, one to a name that is free
        link = Path(f"near/{name}{suffix}")
        link.symlink_to(f"../far/{name}{suffix}")
        assert cli(*made(command, str(link)))[0] == 0
        assert link.is_symlink()
        assert Path(f"far/{name}{suffix}").stat().st_size > 50
    assert sorted(os.listdir("near")) == sorted(os.listdir("far"))
    assert len(os.listdir("far")) == 2
    Path("near/lost.json").symlink_to("../gone/cal.json")
    refused(cli, ("fit", "d.npz", "-o", "near/lost.json"), "gone does not exist")
    Path("near/loop.json").symlink_to("loop.json")
    refused(cli, ("fit", "d.npz", "-o", "near/loop.json"), "cannot write")


@posix
def test_a_link_to_a_folder_that_is_not_there_yet(cli):
    pytest.importorskip("pyarrow")
    Path("far").mkdir()
    Path("out").symlink_to("far/out")
    assert cli("apply", "cal.json", "z.npy", "-o", "out")[0] == 0
    assert Path("out").is_symlink()
    assert "_smallcal.json" in os.listdir("far/out")


def shell(command, **more):
    return subprocess.run(
        ["bash", "-c", command.replace("smallcal", f"{sys.executable} -m smallcal")],
        capture_output=True,
        timeout=120,
        **more,
    )


@posix
def test_standard_output_takes_the_result_alone(here):
    done = shell("smallcal fit d.npz --method ts-nll -o /dev/stdout")
    assert json.loads(done.stdout)["method"] == "ts-nll"
    assert b"Wrote /dev/stdout." in done.stderr
    shell("smallcal apply cal.json z.npy -o /dev/stdout > p.npy")
    assert np.load("p.npy").shape == (200, 4)
    shell("echo first > log.txt; smallcal export cal.json --to sql -o /dev/fd/1 >> log.txt")
    assert Path("log.txt").read_text().startswith("first\n--")
    done = shell("smallcal fit d.npz --method ts-nll -o >(cat > copy.json); sleep 0.3")
    assert json.loads(Path("copy.json").read_text())["method"] == "ts-nll"


# 3. No output onto an input.

ONTO = (
    ("fit", "d.npz", "-o", "d.npz"),
    ("fit", "d.npz", "-o", "./sub/../d.npz"),
    ("fit", "d.npz", "-o", "link.npz"),
    ("fit", "link.npz", "-o", "d.npz"),
    ("fit", "d.npz", "-o", "hard.npz"),
    ("fit", "z.npy", "--labels", "y.npy", "-o", "y.npy"),
    ("fit", "d.npz", "--class-names", "names.txt", "-o", "names.txt"),
    ("fit", "s.npz:val", "-o", "s.npz"),
    ("apply", "cal.json", "z.npy", "-o", "z.npy"),
    ("apply", "cal.json", "d.npz", "-o", "hard.npz"),
    ("apply", "cal.json", "d.npz", "-o", "cal.json"),
    ("export", "cal.json", "--to", "sql", "-o", "cal.json"),
    ("export", "cal.json", "--append", "m.onnx", "-o", "m.onnx"),
    ("report", "d.npz", "d.npz", "--format", "md", "-o", "d.npz"),
    ("report", "d.npz", "s.npz:test", "--format", "md", "-o", "s.npz"),
    ("report", "d.npz", "d.npz", "--shift", "z.npy", "--format", "md", "-o", "z.npy"),
    ("report", "d.npz", "d.npz", "--shift", "sub", "-o", "sub/report.json"),
    ("select", "d.npz", "-o", "d.npz"),
    ("certify", "cal.json", "d.npz", "-o", "d.npz"),
    ("certify", "cal.json", "z.npy", "--labels", "y.npy", "-o", "y.npy"),
    ("monitor", "cal.json", "d.npz", "--state", "d.npz"),
    ("monitor", "cal.json", "d.npz", "--state", "cal.json"),
    ("monitor", "cal.json", "z.npy", "--labels", "y.npy", "--state", "y.npy"),
    ("apply", "cal.json", "sub", "-o", "sub/out"),
    ("apply", "cal.json", "sub", "-o", "sub"),
    ("study", "clean", "sub", "--out", "sub"),
    ("study", "clean", "--data", "sub", "--out", "sub/run"),
    ("study", "reproduce", "sub", "--out", "sub/run"),
    ("study", "reproduce", "sub", "--reference", "cal.json", "--out", "cal.json"),
)


@posix
@pytest.mark.parametrize("command", ONTO, ids=" ".join)
def test_no_output_lies_on_an_input(command, cli):
    Path("sub").mkdir()
    Path("link.npz").symlink_to("d.npz")
    os.link("d.npz", "hard.npz")
    Path("s.npz").write_bytes(Path("d.npz").read_bytes())
    Path("m.onnx").write_bytes(b"a model")
    Path("names.txt").write_text("a\nb\nc\nd\n")
    refused(cli, command, "name another")


@posix
def test_standard_input_is_an_input_too(here):
    before = content()
    done = shell("smallcal fit - -o d.npz < d.npz")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert content() == before


def test_a_state_is_updated_in_place(cli):
    z, y = simulate(200, 4, seed=1)
    np.savez("later.npz", logits=z, labels=y)
    for batch in ("d.npz", "later.npz"):
        assert cli("monitor", "cal.json", batch, "--state", "s.json")[0] in (0, 1)
    assert json.loads(Path("s.json").read_text())["rows"] == 400


#: What is neither read nor written, of those that take some text or path.
NEITHER = {"A,B,...", "N", "P", "NAME", "NAME=VALUE", "TEXT", "CONDITION", "ADDRESS", "GAP"}


def test_every_path_of_every_verb_is_known_as_read_or_written():
    commands = {name: verb.command(name) for name, verb in Verbs.verbs.items() if name != "study"}
    commands |= {name: verb.command(name) for name, verb in Studies.verbs.items()}
    unknown = {
        (verb, param.name)
        for verb, command in commands.items()
        for param in command.params
        if {"FILE", "DIR", "FOLDER", "DATA", "CAL", "RUN", "PATH", "MODEL", "CAL_DATA", "TEST_DATA"}
        & set((param.metavar or "").strip("[]").replace("|", " ").split())
        and param.name not in {*READ, *WRITTEN}
    }
    assert unknown == set()
    assert get_command(app) is not None


# 4. Full disks and long names.


@posix
@pytest.mark.parametrize("suffix", sorted({*WRITERS} - {".pth", ".hdf5", ".feather", ".ipc"}))
def test_a_full_disk_is_one_line_for_every_type(suffix, here):
    if suffix in NEEDS:
        pytest.importorskip(NEEDS[suffix])
    z = np.random.default_rng(0).normal(size=(2000, 4))
    write_arrays("big.npz", {"logits": z})
    before = sorted(os.listdir())
    limited = (
        "import resource, signal, sys; from smallcal.cli import run; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY)); "
        "sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, "apply", "cal.json", "big.npz", "-o", f"p{suffix}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"cannot write p{suffix}" in done.stderr
    assert sorted(os.listdir()) == before


PRINTING = (
    ("--help",),
    ("--version",),
    ("methods",),
    ("methods", "--json"),
    ("help", "fit"),
    ("fit", "--help"),
    ("fit", "d.npz", "--method", "ts-nll"),
    ("fit", "d.npz", "--method", "ts-nll", "--json"),
    ("apply", "cal.json", "z.npy", "-o", "p.npy", "--json"),
    ("evaluate", "d.npz", "--n-boot", "0"),
    ("evaluate", "d.npz", "--n-boot", "0", "--json"),
    ("compare", "d.npz", "d.npz", "--n-boot", "0", "--methods", "none,ts-nll"),
    ("select", "d.npz", "--candidates", "none,ts-nll"),
    ("audit", "d.npz", "--method", "ts-nll", "--n-refits", "5", "--n-null", "0"),
    ("report", "d.npz", "d.npz", "--methods", "ts-nll", "--n-boot", "0"),
    ("export", "cal.json", "--to", "python"),
    ("inspect", "cal.json"),
    ("monitor", "cal.json", "d.npz"),
    ("monitor", "cal.json", "d.npz", "--prometheus"),
    ("demo", "--export", "demo"),
    ("study", "list"),
    ("study", "--help"),
)

ONE_BY_ONE = """
import json, os, pkgutil, sys
import scipy.interpolate, scipy.optimize, scipy.sparse
from importlib import import_module
from smallcal import cli
from smallcal.cli import verbs
for verb in pkgutil.iter_modules(verbs.__path__):  # once, not in every fork
    import_module(f"smallcal.cli.verbs.{verb.name}")
found = []
for args in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        full = os.open("full", os.O_WRONLY)
        said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(full, 1), os.dup2(said, 2)
        sys.argv[1:] = args
        cli.main()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found.append([args, code, open("said").read()])
print(json.dumps(found))
"""


@posix
def test_standard_output_on_a_full_disk_is_one_line(here):
    device("full", 7)
    command = [sys.executable, "-c", ONE_BY_ONE, json.dumps(PRINTING)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    for args, code, said in json.loads(done.stdout):
        errors = [line for line in said.splitlines() if "smallcal: note:" not in line]
        assert (code, len(errors)) == (2, 1), (args, code, said)
        assert errors[0].startswith("smallcal: error: cannot write to standard output: No space")
        assert errors[0].endswith(" [file-access]")


@posix
def test_completion_on_a_full_disk_and_no_standard_output_at_all(here):
    device("full", 7)
    asked = {**os.environ, "_SMALLCAL_COMPLETE": "complete_bash", "COMP_WORDS": "smallcal fi"}
    done = shell("smallcal > full", env={**asked, "COMP_CWORD": "1"})
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    done = shell("smallcal fit d.npz --method ts-nll -o c.json >&- 2>&-")
    assert done.returncode == 0
    assert json.loads(Path("c.json").read_text())["method"] == "ts-nll"


LONG = "a" * 300
TOO_LONG = (
    ("fit", f"{LONG}.npz"),
    ("fit", f"{LONG}.npz:val"),
    ("fit", "d.npz", "--labels", f"{LONG}.txt"),
    ("fit", "d.npz", "--class-names", LONG),
    ("fit", "d.npz", "-o", f"{LONG}.json"),
    ("apply", "cal.json", "z.npy", "-o", f"{LONG}.npy"),
    ("apply", "cal.json", "d.npz", "-o", f"{LONG}.npz"),
    ("apply", "cal.json", "z.npy", "-o", LONG),
    ("apply", "cal.json", f"{LONG}.npy", "-o", "p.npy"),
    ("apply", LONG, "z.npy", "-o", "p.npy"),
    ("export", "cal.json", "-o", f"{LONG}.sql"),
    ("report", "d.npz", "d.npz", "-o", f"{LONG}.md"),
    ("report", "d.npz", "y.npy", "--shift", f"{LONG}.npz", "-o", f"{LONG}.md"),
    ("inspect", LONG),
    ("evaluate", f"{LONG}.npz"),
    ("monitor", "cal.json", "d.npz", "--state", LONG),
    ("monitor", "cal.json", "--merge", LONG),
    ("demo", "--export", LONG),
    ("demo", "--report", f"{LONG}.html"),
    ("study", "check", LONG),
    ("study", "show", LONG),
    ("study", "import", LONG, "-o", "x"),
    ("study", "import", ".", "-o", LONG),
    ("study", "clean", LONG, "--out", "run"),
    ("study", "reproduce", "--frozen", "--out", LONG),
)


@pytest.mark.parametrize("command", TOO_LONG, ids=lambda words: " ".join(words).replace(LONG, "L"))
def test_a_name_that_is_too_long_is_one_line(command, cli):
    if command[0] == "study" and importlib.util.find_spec("pyarrow") is None:
        pytest.skip("studies need pyarrow")
    refused(cli, command)


def test_a_long_name_that_is_allowed_is_written(cli):
    for name in ("a" * 250 + ".json", "a." + "b" * 250):
        assert cli("fit", "d.npz", "--method", "ts-nll", "-o", name)[0] == 0
        assert Path(name).is_file()
