"""Shells complete verbs, options, names and files, at once: no verb is imported for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import completion_table
import smallcal as sc
from smallcal.calibrators.catalogue import ALIASES, METHODS
from smallcal.cli.app import Verbs
from smallcal.cli.complete import TABLE, outline
from smallcal.metrics import METRICS
from smallcal_lab.studies import STUDIES

SOURCE = str(Path(sc.__file__).parents[1])
HEAVY = ("numpy", "scipy", "sklearn", "torch", "pandas", "smallcal.cli.verbs.fit")


def asked(line: str, *, shell: str = "bash", program: tuple[str, ...] = ("-m", "smallcal")) -> str:
    """Return what a shell is told when Tab is pressed at the end of a line."""
    words = line.split(" ")
    environment = {
        **os.environ,
        "PYTHONPATH": SOURCE,
        "_SMALLCAL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, *program], env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.rstrip("\n")


def test_the_table_is_that_of_the_verbs():
    assert TABLE.read_text(encoding="utf-8") == completion_table.text(), (
        "run python scripts/completion_table.py"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("smallcal f", {"fit"}),
        ("smallcal ", {*Verbs.verbs}),
        ("smallcal help ev", {"evaluate"}),
        ("smallcal fit --k", {"--keep-predictions"}),
        ("smallcal fit x.npz --method sm", {"smallcal", "smart-bce", "smart-softece", "sms"}),
        ("smallcal fit x.npz --method ", {*METHODS, *ALIASES}),
        (
            "smallcal compare a b --methods none,tempe",
            {"none,temperature", "none,temperature-scaling"},
        ),
        (
            "smallcal evaluate x.npz --metrics nll,ece",
            {f"nll,{m}" for m in METRICS if m[:3] == "ece"},
        ),
        ("smallcal fit x.npz --input ", {"logits", "probabilities", "score"}),
        ("smallcal select x.npz --rule f", {"fold"}),
        ("smallcal study b", {"budget"}),
        ("smallcal study budget --da", {"--data", "--dask"}),
        # Nothing is what makes a shell offer files.
        ("smallcal fit ca", {""}),
        ("smallcal fit x.npz -o ca", {""}),
        ("smallcal apply cal.json ca", {""}),
        ("smallcal nonsense x", {""}),
        ("smallcal study nonsense x", {""}),
    ],
)
def test_what_may_follow(line, expected):
    assert set(asked(line).split("\n")) == expected


def test_other_shells_get_help_or_files():
    assert asked("smallcal study bud", shell="fish").startswith("budget\tHow does each method")
    assert '"fit":"Fit a calibrator' in asked("smallcal fi", shell="zsh")
    assert asked("smallcal fit ca", shell="zsh") == "_files"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script_that_is_printed(tmp_path):
    program = tmp_path / "smallcal"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m smallcal "$@"\n')
    program.chmod(0o755)
    (tmp_path / "calib.npz").touch()
    script = (
        f'cd "{tmp_path}"; PATH="{tmp_path}:$PATH"\n'
        'eval "$(_SMALLCAL_COMPLETE=source_bash smallcal)"\n'
        "complete -p smallcal\n"
        "COMP_WORDS=(smallcal fit x --method srts-b); COMP_CWORD=4\n"
        '_smallcal_completion smallcal; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    listed, *found = done.stdout.splitlines()
    assert "-o default" in listed  # files, where nothing is offered
    assert found == ["srts-bce", "srts-brier"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_that_is_installed_completes_in_the_next_bash(tmp_path):
    program = tmp_path / "smallcal"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m smallcal "$@"\n')
    program.chmod(0o755)
    asks = (
        'source "$HOME/.bashrc"; COMP_WORDS=(smallcal doc); COMP_CWORD=1\n'
        '_smallcal_completion smallcal; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PYTHONPATH": SOURCE, "HOME": str(tmp_path), "PATH": path}
    said = [
        subprocess.run(["bash", "--norc", "-c", line], env=env, capture_output=True, text=True)
        for line in ("smallcal --install-completion; true", asks)
    ]
    assert "bash completion installed" in said[0].stdout, said[0].stderr
    assert (said[1].stdout, said[1].stderr) == ("doctor\n", "")


def test_completing_imports_neither_verbs_nor_numpy():
    code = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print(*(m for m in {HEAVY!r} if m in sys.modules)))\n"
        "sys.argv = ['smallcal']\n"
        "from smallcal.cli import main; main()"
    )
    for line in ("smallcal fit x --method srts-bc", "smallcal fit --metho", "smallcal study budge"):
        found, *loaded = asked(line, program=("-c", code)).split("\n")
        assert found in ("srts-bce", "--method", "budget")
        assert loaded == []


def test_completion_can_be_installed(cli):
    code, out, _ = cli("-h")
    assert code == 0
    assert "--install-completion" in out
    assert "--show-completion" in out


def test_an_outline_takes_what_the_verb_takes():
    for name, verb in Verbs.verbs.items():
        if name == "study":
            assert {*STUDIES} <= set(outline(name).commands)
            continue
        real, sketch = verb.command(name), outline(name)
        assert [one.opts for one in sketch.params] == [one.opts for one in real.params], name
        assert [one.nargs for one in sketch.params] == [one.nargs for one in real.params], name


# Help.


def test_help_is_what_the_option_says(cli):
    for words in ([], ["fit"], ["study"], ["study", "budget"], ["help"]):
        code, out, err = cli("help", *words)
        assert (code, err) == (0, "")
        assert out.strip() == cli(*words, "-h")[1].strip()
    assert cli("help", "fit", "data.npz")[1] == cli("help", "fit")[1]
