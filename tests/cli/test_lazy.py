"""Verbs are listed without being imported, and what the listing says is what they say."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import smallcal.cli.verbs
from smallcal.cli.app import Verbs
from smallcal_lab.cli.study import Studies
from smallcal_lab.studies import STUDIES

OWN = {**Verbs.verbs, **{f"study {name}": verb for name, verb in Studies.verbs.items()}}
FUNCTIONS = [name for name in OWN if name not in {f"study {study}" for study in STUDIES}]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_listing_says_what_the_docstring_says(name):
    found = OWN[name].load(name)
    said = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert said.splitlines()[0] == OWN[name].help


def test_a_study_is_listed_by_its_question():
    for name, study in STUDIES.items():
        assert Studies.verbs[name].help == study.question


def test_there_is_one_module_for_each_verb():
    folder = Path(smallcal.cli.verbs.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    targets = {verb.target.partition(":")[0].rpartition(".")[2] for verb in Verbs.verbs.values()}
    assert modules == targets - {""}


@pytest.mark.parametrize(
    ("args", "most"),
    [
        (["-h"], set()),
        (["--version"], set()),
        (["methods"], {"methods"}),
        (["study", "list"], {"study"}),
    ],
)
def test_only_the_verb_that_is_called_is_imported(args, most):
    code = (
        f"import sys; from smallcal.cli import run; run({args!r})\n"
        "homes = ('smallcal.cli.verbs.', 'smallcal_lab.cli.')\n"
        "print(*(name for name in sys.modules if name.startswith(homes)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.splitlines()[-1].split()
    assert {name.rpartition(".")[2] for name in names} == most


def test_a_slip_of_the_finger_is_told(cli):
    code, _, err = cli("fitt", "x.npz")
    assert (code, err) == (
        2,
        "smallcal: error: unknown verb 'fitt'; did you mean 'fit'? [unknown-choice]\n",
    )
