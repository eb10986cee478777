"""The report as Markdown, for a model card or a pull request: one function per kind of block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smallcal.reports.render import blocks
from smallcal.reports.render.sections import document_of

#: What Markdown or HTML would read as more than text.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


def render(content: Mapping[str, Any]) -> str:
    """Return the whole report.

    Parameters
    ----------
    content : mapping
        See :mod:`smallcal.reports.content.gather`.
    """
    document = document_of(content)
    parts = [f"# {escaped(document.title)}", escaped(document.lead)]
    first = next((section for section in document.sections if not section.open), None)
    for section in document.sections:
        parts += ["## Details"] if section is first else []
        parts.append(f"{'##' if section.open else '###'} {escaped(section.title)}")
        parts.extend(map(written, section.blocks))
    return "\n\n".join([*parts, escaped(document.footer)]) + "\n"


def escaped(text: object) -> str:
    r"""Return text that Markdown shows as it is, in one line.

    Examples
    --------
    >>> print(escaped("a|b\n<script>"))
    a\|b \<script\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def code(text: str) -> str:
    """Return a block of code, fenced by more backticks than it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def table(block: blocks.Table) -> str:
    """Return a table below its caption; columns of numbers are set to the right."""
    heads = [
        escaped(f"{column.label} ({column.unit})" if column.unit else column.label)
        for column in block.columns
    ]
    sides = ["---:" if column.number else "---" for column in block.columns]
    rows = [list(map(_cell, row.cells)) for row in block.rows]
    for row, cells in zip(block.rows, rows, strict=True):
        cells[0] = f"**{cells[0]}**" if row.chosen else cells[0]
    lines = _lines([heads, sides, *rows])
    return "\n\n".join(filter(None, [escaped(block.caption), lines, escaped(block.note)]))


def _lines(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _cell(cell: blocks.Cell) -> str:
    """Return a cell in one line: what stands below it in the page follows in brackets."""
    text = f"**{escaped(cell.text)}**" if cell.best else escaped(cell.text)
    notes = f"({escaped(', '.join(cell.notes))})" if cell.notes else ""
    found = " ".join(filter(None, [text, notes, cell.verdict]))
    # Numbers are often copied from Markdown, and a program knows no true minus sign.
    return found.replace("−", "-") if cell.number else found


def _findings(block: blocks.Findings) -> str:
    return _list(
        (f"**{finding.word.capitalize()}:** " if finding.word else "") + escaped(finding.text)
        for finding in block.findings
    )


def _cards(block: blocks.Cards) -> str:
    rows = [map(escaped, (card.name, card.label, card.value, card.note)) for card in block.cards]
    heads = ["Number", "What it is", "Before → after", "How sure"]
    return _lines([heads, ["---"] * len(heads), *rows])


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return _list(f"{escaped(name)}: {escaped(text)}" for name, text in pairs)


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "text": lambda block: escaped(block.text),
    "points": lambda block: _list(map(escaped, block.items)),
    "heading": lambda block: f"#### {escaped(block.text)}",
    "verdict": lambda block: f"**{escaped(block.headline)}**\n\n{escaped(block.why)}",
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
        [f"**{escaped(block.summary)}**", *map(written, block.blocks)]
    ),
}


def written(block: blocks.Block) -> str:
    """Return a block of any kind."""
    return _WRITERS[block.kind](block)
