"""What a report is made of: sections of texts, tables, figures, facts, commands and downloads.

A block knows what it says. How that looks is for the renderers: ``templates/parts.html`` has one
macro for each kind, ``markdown`` one function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


class Block:
    """A part of a section; its kind, the class's name in small letters, says what writes it."""

    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()


@dataclass(frozen=True)
class Text(Block):
    """A paragraph; a ``note`` is smaller."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Points(Block):
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Heading(Block):
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Finding:
    """A sentence of the verdict; the ``word`` before it says what its level's colour shows."""

    level: str
    text: str
    word: str


@dataclass(frozen=True)
class Verdict(Block):
    """The sentence that matters most, and why."""

    headline: str
    why: str


@dataclass(frozen=True)
class Findings(Block):
    """What to take care of."""

    findings: Sequence[Finding]


@dataclass(frozen=True)
class Card:
    """A metric in large figures: its name, what it is, its value, and how sure that is."""

    name: str
    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Cards(Block):
    """The numbers that a reader wants first."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, unit, whether it holds numbers, its meaning, its metric."""

    label: str
    unit: str = ""
    number: bool = True
    help: str = ""
    key: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell: what is written, smaller lines below it, and what rows are sorted by."""

    text: str
    notes: Sequence[str] = ()
    value: float | None = None
    number: bool = False
    tone: str = ""
    best: bool = False
    verdict: str = ""

    @property
    def sort(self) -> str:
        """The value in full, or nothing where there is none."""
        return "" if self.value is None or not math.isfinite(self.value) else repr(self.value)


@dataclass(frozen=True)
class Row:
    """A row; the first cell is its head. The chosen row stands out."""

    cells: Sequence[Cell]
    chosen: bool = False


@dataclass(frozen=True)
class Table(Block):
    """A table with a caption; every column of the page's can be sorted."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure: what it shows, in words (``alt``) and as the ``data`` of a plot."""

    id: str
    title: str
    caption: str
    alt: str
    plot: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Figures(Block):
    """Figures side by side where there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Facts(Block):
    """Names and what they stand for."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Command(Block):
    """Lines to copy."""

    id: str
    text: str
    label: str


@dataclass(frozen=True)
class Download:
    """A file inside the page; where it is too large, ``data`` is empty and the note says so."""

    name: str
    label: str
    note: str
    data: str = ""


@dataclass(frozen=True)
class Downloads(Block):
    """Files to take away."""

    files: Sequence[Download]


@dataclass(frozen=True)
class Fold(Block):
    """Blocks behind a line that unfolds them; open on paper."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """A part of the report with a heading, which the list of contents names.

    What is not ``open`` is folded in the page, and stands below one more heading in Markdown.
    """

    id: str
    title: str
    blocks: Sequence[Block]
    open: bool = False


@dataclass(frozen=True)
class Document:
    """A whole report: its title, what it was made from, its sections, and by what version."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str
    version: str
