"""Errors are one line and a code; interrupts and closed pipes leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import smallcal as sc
from smallcal import cli as cli_module
from smallcal.cli import run

SOURCE = str(Path(sc.__file__).parents[1])


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=100)
    logits = (rng.normal(size=(100, 4)) + 2 * np.eye(4)[labels]).astype(np.float32)
    np.savez("cal.npz", logits=logits, labels=labels)
    sc.TemperatureScaling().fit(logits, labels).save("cal.json")
    return tmp_path


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "smallcal", *args]


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, "PYTHONWARNINGS": "ignore", **extra}


#: Words, the code of the error, and what its line must name.
BAD = [
    (["fit", "nothing.npz"], "file-missing", "nothing.npz"),
    (["fit", "."], "file-type", "."),
    (["fit", "cal.json"], "file-type", "cal.json"),
    (["fit", "cal.pkl"], "file-missing", "'cal.npz'"),
    (["fit", "whatever.pkl"], "file-type", ".npz"),
    (["fit", "cal.npz:val"], "file-column", "val"),
    (["fit", "cal.npz", "--method", "magic"], "method-unknown", "'magic'"),
    (["fit", "cal.npz", "--input", "odds"], "unknown-choice", "'odds'"),
    (["fit", "cal.npz", "--seed", "-1"], "usage", "--seed"),
    (["fit", "cal.npz", "-o", "no/where.json"], "file-missing", "the folder no"),
    (["fit", "cal.npz", "--labels", "gone.csv"], "file-missing", "gone.csv"),
    (
        ["fit", "nan.npz"],
        "not-finite",
        "nan.npz: logits must be finite; 1 of 100 rows are not: row 7",
    ),
    (["fit", "few.npz"], "too-few-samples", "few.npz: logits has 3 samples"),
    (["fit", "wide.npz"], "labels-out-of-range", "0 .. 3"),
    (["fit", "simplex.npz"], "probabilities-as-logits", "simplex.npz"),
    (["fit", "bare.npz"], "no-labels", "bare.npz"),
    (["fit"], "usage", "DATA"),
    (["fit", "cal.npz", "--nonsense"], "usage", "--nonsense"),
    (["nonsense"], "unknown-choice", "nonsense"),
    (["apply", "cal.npz", "cal.npz", "-o", "p.npz"], "file-type", "cal.npz"),
    (["apply", "gone.json", "cal.npz", "-o", "p.npz"], "file-missing", "gone.json"),
    (["apply", "cal.json", "cal.npz"], "usage", "-o"),
    (["evaluate", "probs.npz", "--calibrator", "cal.json"], "input-differs", "probs.npz"),
    (["evaluate", "cal.npz", "--metrics", "luck"], "metric-unknown", "'luck'"),
    (["inspect", "gone.json"], "file-missing", "gone.json"),
    (["demo", "--draws", "0"], "usage", "--draws"),
]


@pytest.mark.parametrize(("args", "code", "named"), BAD, ids=[" ".join(row[0]) for row in BAD])
def test_bad_input_is_one_line_and_code_2(args, code, named, here, capsys):
    with np.load("cal.npz") as arrays:
        z, y = arrays["logits"], arrays["labels"]
    np.savez("few.npz", logits=z[:3], labels=y[:3])
    np.savez("wide.npz", logits=z, labels=y + 4)
    np.savez("bare.npz", logits=z)
    np.savez("simplex.npz", logits=np.full((100, 4), 0.25), labels=y)
    np.savez("probs.npz", probs=np.full((100, 4), 0.25), labels=y)
    z[7, 2] = np.nan
    np.savez("nan.npz", logits=z, labels=y)
    before = {path: path.read_bytes() for path in here.iterdir()}
    capsys.readouterr()
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("smallcal: error: ")
    assert err.count("\n") == 1
    assert err.endswith(f" [{code}]\n")
    assert named in err
    assert {path: path.read_bytes() for path in here.iterdir()} == before


def test_a_defect_is_one_line_and_code_3(here, capsys, monkeypatch):
    def fail(args: object) -> int:
        raise KeyError("some\nthing")

    monkeypatch.delenv("SMALLCAL_DEBUG", raising=False)
    monkeypatch.setattr(cli_module, "_invoke", fail)
    assert run([]) == 3
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "unexpected KeyError" in err
    assert "SMALLCAL_DEBUG=1" in err
    monkeypatch.setenv("SMALLCAL_DEBUG", "1")
    assert run([]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_one_line_and_code_130(capsys, monkeypatch):
    def stop(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_module, "_invoke", stop)
    assert run([]) == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "extra", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb", "COLUMNS": "80"}], ids=" ".join
)
def test_nothing_is_coloured_without_a_terminal(extra, here, monkeypatch, capfd):
    for name, value in extra.items():
        monkeypatch.setenv(name, value)
    assert run(["inspect", "cal.json"]) == 0
    out, err = capfd.readouterr()
    assert "Logits are divided by" in out
    assert "\x1b" not in out
    assert err == ""


def test_the_module_runs_without_a_terminal(here):
    done = subprocess.run(
        command("inspect", "cal.json"), env=environment(LC_ALL="C"), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    done = subprocess.run(
        command("methods"), env=environment(PYTHONIOENCODING="ascii"), capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_errors_of_the_process_itself(here):
    done = subprocess.run(
        command("fit", "gone.npz"), env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "smallcal: error: cannot read gone.npz: No such file or directory [file-missing]\n"
    )


@pytest.mark.skipif(os.name == "nt", reason="pipes differ on Windows")
def test_a_closed_pipe_is_quiet(here):
    for args in (["methods"], ["methods", "--json"], ["inspect", "cal.json"]):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run(
            command(*args), env=environment(), stdout=write_end, stderr=subprocess.PIPE
        )
        os.close(write_end)
        assert done.stderr == b""
        assert done.returncode == 141


@pytest.mark.skipif(os.name == "nt", reason="signals differ on Windows")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_apply_leaves_the_old_file(number, code, here):
    rows = 2_000_000
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 4)}
    with open("big.npy", "wb") as file:  # sparse: 32 MB of zeros that take no space
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * 16)
    (here / "out.npy").write_bytes(b"the old file")
    # One slow step per block makes sure that the signal comes in the middle.
    slow = (
        "import time, sys, smallcal.cli as c\n"
        "from smallcal.calibrators.fitted import FittedCalibrator as F\n"
        "old = F.predict_proba\n"
        "F.predict_proba = lambda self, *x, **y: (time.sleep(0.2), old(self, *x, **y))[1]\n"
        "sys.argv = 'smallcal apply cal.json big.npy -o out.npy --part-rows 50000'.split()\n"
        "c.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", slow],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(list(here.glob("out.npy.parts/*.npy"))) < 2:
        assert time.monotonic() < deadline, "the command never began to write"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == ""
    assert err.count("\n") <= 1
    assert "Traceback" not in err
    assert (here / "out.npy").read_bytes() == b"the old file"
    left = {path.name for path in here.iterdir()} - {"big.npy", "cal.json", "out.npy"}
    assert "out.npy.parts" in left
    assert not [name for name in left if name.startswith(".out")]


def test_a_large_file_is_applied_in_little_memory(here):
    if not Path("/proc/self/status").exists():
        pytest.skip("measures memory by Linux's count: others count the parent's too")
    rows = 500_000
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 100)}
    with open("big.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * 400)
    y = np.arange(200) % 100
    z = np.random.default_rng(0).normal(size=(200, 100)) + 2 * np.eye(100)[y]
    sc.TemperatureScaling().fit(z, y).save("c100.json")
    code = (
        "import re, smallcal.calibrators.fitted; from smallcal.cli import run\n"
        "def peak():\n"
        "    with open('/proc/self/status') as file:\n"
        "        return 1024 * int(re.search(r'VmHWM:\\s*(\\d+)', file.read())[1])\n"
        "before = peak()\n"
        "assert run(['apply', 'c100.json', 'big.npy', '-o', 'p.npy']) == 0\n"
        "print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < 120e6  # the file has 200e6 bytes, the output as many
    assert (here / "p.npy").stat().st_size == (here / "big.npy").stat().st_size
