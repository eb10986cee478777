"""The report as Markdown, for a model card or a pull request: one function per kind of block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smallcal.data.shown import markdown, visible
from smallcal.reports.render import blocks
from smallcal.reports.render.sections import document_of


def render(content: Mapping[str, Any]) -> str:
    """Return the whole report.

    Parameters
    ----------
    content : mapping
        See :mod:`smallcal.reports.content.gather`.
    """
    document = document_of(content)
    parts = [f"# {markdown(document.title)}", markdown(document.lead)]
    first = next((section for section in document.sections if not section.open), None)
    for section in document.sections:
        parts += ["## Details"] if section is first else []
        parts.append(f"{'##' if section.open else '###'} {markdown(section.title)}")
        parts.extend(map(written, section.blocks))
    return "\n\n".join([*parts, markdown(document.footer)]) + "\n"


def code(text: str) -> str:
    """Return a block of code, fenced by more backticks than it holds."""
    text = visible(text, keep="\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def table(block: blocks.Table) -> str:
    """Return a table below its caption; columns of numbers are set to the right."""
    heads = [
        markdown(f"{column.label} ({column.unit})" if column.unit else column.label)
        for column in block.columns
    ]
    sides = ["---:" if column.number else "---" for column in block.columns]
    rows = [list(map(_cell, row.cells)) for row in block.rows]
    for row, cells in zip(block.rows, rows, strict=True):
        cells[0] = f"**{cells[0]}**" if row.chosen else cells[0]
    lines = _lines([heads, sides, *rows])
    return "\n\n".join(filter(None, [markdown(block.caption), lines, markdown(block.note)]))


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _cell(cell: blocks.Cell) -> str:
    """Return a cell in one line: what stands below it in the page follows in brackets."""
    text = f"**{markdown(cell.text)}**" if cell.best else markdown(cell.text)
    notes = f"({markdown(', '.join(cell.notes))})" if cell.notes else ""
    found = " ".join(filter(None, [text, notes, cell.verdict]))
    # Numbers are often copied from Markdown, and a program knows no true minus sign.
    return found.replace("−", "-") if cell.number else found


def _findings(block: blocks.Findings) -> str:
    return _list(
        (f"**{finding.word.capitalize()}:** " if finding.word else "") + markdown(finding.text)
        for finding in block.findings
    )


def _cards(block: blocks.Cards) -> str:
    rows = [map(markdown, (card.name, card.label, card.value, card.note)) for card in block.cards]
    heads = ["Number", "What it is", "Before → after", "How sure"]
    return _lines([heads, ["---"] * len(heads), *rows])


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _list(f"{markdown(name)}: {markdown(text)}" for name, text in pairs)


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "text": lambda block: markdown(block.text),
    "points": lambda block: _list(map(markdown, block.items)),
    "heading": lambda block: f"#### {markdown(block.text)}",
    "verdict": lambda block: f"**{markdown(block.headline)}**\n\n{markdown(block.why)}",
    "findings": _findings,
    "cards": _cards,
    "table": table,
    "figures": lambda block: (
        "Figures in words:\n\n" + _pairs((figure.title, figure.alt) for figure in block.figures)
    ),
    "facts": lambda block: _pairs(block.pairs),
    "command": lambda block: code(block.text),
    "downloads": lambda block: _pairs((file.label, file.note) for file in block.files),
    "fold": lambda block: "\n\n".join(
        [f"**{markdown(block.summary)}**", *map(written, block.blocks)]
    ),
}


def written(block: blocks.Block) -> str:
    """Return a block of any kind."""
    return _WRITERS[block.kind](block)
