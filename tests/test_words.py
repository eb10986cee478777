"""One spelling for each metric and method, and the field's words: in help, reports and docs."""

from __future__ import annotations

import ast
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import smallcal
import smallcal as sc
from smallcal import cli
from smallcal.calibrators.catalogue import METHODS
from smallcal.cli.app import Verbs
from smallcal.metrics import METRICS
from smallcal_lab.cli.study import Studies
from support.vocabulary import PHRASES, SPELLINGS, hits, prose

ROOT = Path(__file__).parents[1]
SOURCE = Path(smallcal.__file__).parent
#: Pages that people wrote, not what a build of the site left; one quotes the titles of papers.
BUILT = {"_build", "gallery", "_generated"}
PAGES = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if not BUILT & {*path.relative_to(ROOT).parts} and path.name != "cite.md"
)
GLOSSARY = ROOT / "docs" / "glossary.md"
VERBS = [*([name] for name in Verbs.verbs), *(["study", name] for name in Studies.verbs)]


def complain(found):
    assert not found, "\n" + "\n".join(map(str, found))


@pytest.mark.parametrize("verb", [[], *VERBS], ids=" ".join)
def test_the_help_of_every_verb_has_one_spelling(verb, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with redirect_stdout(io.StringIO()) as shown:
        assert cli.run([*verb, "--help"]) == 0
    text = re.sub(r"[│╭╮╰╯─]", " ", shown.getvalue())
    assert "Usage: smallcal" in text
    complain(list(hits(text, " ".join(["smallcal", *verb, "--help"]))))


@pytest.fixture(scope="module")
def report():
    cal, test = sc.load_demo("cal"), sc.load_demo("test")
    return sc.report(cal, test, methods=["none", "ts-nll", "srts-bce", "smallcal"], n_boot=100)


def test_the_report_has_one_spelling_and_friendly_names_of_metrics(report):
    text = report.to_markdown()
    complain(list(hits(prose(text), "report.md")))
    tables = [line for line in text.splitlines() if line.startswith("| Method")]
    assert tables
    for line in tables:
        assert not {cell.strip().split()[0] for cell in line.split("|")[2:-1] if cell.strip()} & {
            *METRICS
        } - {"accuracy"}
    for name in ("ece15", "top_label_bce", "nll", "brier"):
        assert METRICS[name].title in text


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_page_has_one_spelling(page):
    found = hits(prose(page.read_text(encoding="utf-8")), page.relative_to(ROOT).as_posix())
    complain(list(found))


def strings(path):
    """Yield the strings of a module that people read, with their line: not its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_every_sentence_of_the_program_has_one_spelling():
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {hit.word!r}; write {hit.right!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, text in strings(path)
        if " " in text.strip()
        for hit in hits(text, path.name)
    ]
    complain(found)


def test_titles_differ_and_are_the_words_of_the_glossary():
    for rows in (METRICS, METHODS):
        titles = [row.title for row in rows.values()]
        assert all(titles)
        assert len(set(titles)) == len(titles)
    page = GLOSSARY.read_text(encoding="utf-8")
    terms = re.findall(r"(?m)^### (.+)$", page)
    assert len(terms) >= 60
    assert len(set(terms)) == len(terms)
    for row in METRICS.values():
        assert f"| {row.title} | `{row.name}` |" in page


def test_no_title_is_a_spelling_that_is_forbidden():
    said = [*(row.title for row in METRICS.values()), *(row.title for row in METHODS.values())]
    said += [row.summary for row in (*METRICS.values(), *METHODS.values())]
    complain([hit for text in said for hit in hits(text, "title")])


@pytest.mark.parametrize(
    ("text", "word", "right"),
    [
        ("A\nlower ECE-15 is", "ECE-15", "ECE"),
        ("in top-label\nBCE", "top-label BCE", "top-label log-loss"),
        ("the logloss of", "logloss", "log-loss"),
        ("would know no doubt", "know no doubt", "would have zero width"),
    ],
)
def test_a_hit_says_where_what_and_what_to_write(text, word, right):
    (hit,) = hits(text, "page.md")
    assert (hit.word, hit.right, hit.where) == (word, right, "page.md")
    assert hit.line == text[: text.replace("\n", " ").index(word)].count("\n") + 1
    assert str(hit).startswith(f"page.md:{hit.line}: {word!r}; write ")


def test_code_is_not_prose_and_prose_around_it_is():
    page = "`ece15` and `TopBCE` are\n```py\nlogloss = 1\n```\nand $Ece$, but logloss\n"
    (hit,) = hits(prose(page), "page.md")
    assert (hit.line, hit.word) == (5, "logloss")


def test_every_rule_can_fail():
    for wrong in (*SPELLINGS, *PHRASES):
        assert re.compile(wrong)
    assert not list(hits("ECE, log-loss, Brier score and top-label log-loss", "page.md"))
