"""Every error has a code, which one page lists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from smallcal import errors
from smallcal.errors import CODES, SmallcalError

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "errors.md"


def test_every_code_that_is_given_is_listed_and_every_listed_one_is_given():
    files = [path for folder in ("src", "lab/src") for path in (ROOT / folder).rglob("*.py")]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    keywords = [
        node.value for node in nodes if isinstance(node, ast.keyword) and node.arg == "code"
    ]
    given = {value.value for value in keywords if isinstance(value, ast.Constant)} - {""}
    kinds = {kind.code for kind in (SmallcalError, *SmallcalError.__subclasses__())}
    assert given <= {*CODES}
    assert {*CODES} - given == kinds | {"usage", "file-access"}


def test_the_page_lists_every_code_with_its_meaning():
    rows = re.findall(r"(?m)^\| `([a-z-]+)` \| (.+) \|$", PAGE.read_text("utf-8"))
    assert rows == [*CODES.items()]


def test_an_error_that_is_told_in_other_words_keeps_its_code():
    error = errors.InputError("y is gone", code="no-labels", python="; pass y", shell="; --labels")
    for told in (error.about("a.npz"), error.calling("y", "labels")):
        assert (type(told), told.code) == (errors.InputError, "no-labels")
    assert errors.InputError.with_options("say --labels", code="no-labels").code == "no-labels"
    assert errors.missing_extra("pyarrow", "parquet", "reading").code == "missing-extra"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["fit", "gone.npz", "-o", "cal.json"], "file-missing"),
        (["fit", "a.npz", "--method", "magic", "-o", "cal.json"], "method-unknown"),
        (["evaluate", "a.npz", "--metrics", "magic"], "metric-unknown"),
        (["fit", "--magic"], "usage"),
        (["certify", "cal.txt", "a.npz", "--risk", "2"], "option-range"),
    ],
)
def test_the_command_line_prints_the_code(words, code, cli):
    status, out, err = cli(*words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f" [{code}]\n")
