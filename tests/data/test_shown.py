"""Names from outside: shown as they are by a terminal, LaTeX, Markdown, JSON and a shell."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smallcal.data.shown import command, in_json, latex, markdown, one_line, visible
from support.nasty_names import NASTY, ODD_NAMES, RAW

NAMES = [*NASTY, *ODD_NAMES.values()]


@pytest.mark.parametrize(
    "sign", ["\x00", "\x07", "\x08", "\x1b", "\r", "\n", "\x7f", "\x85", "\x9b", "\u202e", "\u2066"]
)
def test_what_acts_on_a_terminal_is_spelled_out(sign):
    found = visible(f"a{sign}b")
    assert sign not in found
    assert found.isprintable()
    assert found.encode("ascii").decode("unicode_escape") == f"a{sign}b"


@given(st.text())
def test_no_text_reaches_a_terminal_raw(text):
    assert not RAW.search(visible(text))
    assert len(one_line(text).splitlines()) <= 1
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("text", ["plain", "été", "猫 😀", "नमस्ते", "a\u200db", "tab-less"])
def test_text_that_people_write_stays(text):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("sign", "written"),
    [
        *((sign, f"\\{sign}") for sign in "&%$#_{}"),
        ("~", r"\textasciitilde{}"),
        ("^", r"\textasciicircum{}"),
        ("\\", r"\textbackslash{}"),
    ],
)
def test_the_ten_signs_of_latex(sign, written):
    assert latex(f"a{sign}b") == f"a{written}b"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("- a", r"\- a"),
        ("1. a", r"1\. a"),
        ("---", r"\---"),
        ("-0.50", "-0.50"),
        ("![x](y)", r"!\[x\](y)"),
        ("# a", r"\# a"),
        ("http://a.b", r"http\://a.b"),
        ("www.a.b", r"www\.a.b"),
        ("a\n\n# b", r"a \# b"),
    ],
)
def test_marks_of_markdown(text, written):
    assert markdown(text) == written


@pytest.mark.parametrize("name", NAMES)
def test_json_means_the_same(name):
    text = in_json(json.dumps({"name": name}, ensure_ascii=False, indent=1))
    assert json.loads(text) == {"name": name}
    assert not RAW.search(text)


@pytest.mark.parametrize("name", [name for name in NAMES if "\0" not in name])
def test_a_shell_reads_a_command_back(name):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    line = f"printf %s {command([name])}"
    assert not RAW.search(line)
    told = subprocess.run([bash, "-c", line], capture_output=True, check=True)
    assert told.stdout.decode() == name
