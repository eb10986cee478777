"""What a page is made of: sections of texts, tables, figures, facts, commands and downloads.

A block knows what it says, and ``templates/parts.html`` how that looks: one macro for each kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar


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
    """A cell: what is written, a smaller line below it, and what rows are sorted by."""

    text: str
    note: str = ""
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
class Text:
    """Paragraphs; a ``note`` is smaller, an ``alert`` stands out."""

    kind: ClassVar[str] = "text"
    paragraphs: Sequence[str]
    tone: str = ""


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    kind: ClassVar[str] = "points"
    items: Sequence[str]


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Table:
    """A table with a caption; every column can be sorted."""

    kind: ClassVar[str] = "table"
    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure: SVG that is safe to put in a page, with a title and a caption."""

    id: str
    title: str
    caption: str
    svg: str
    wide: bool = False


@dataclass(frozen=True)
class Figures:
    """Figures side by side where there is room."""

    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Facts:
    """Names and what they stand for."""

    kind: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Command:
    """Lines to copy."""

    kind: ClassVar[str] = "command"
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
class Downloads:
    """Files to take away."""

    kind: ClassVar[str] = "downloads"
    files: Sequence[Download]


@dataclass(frozen=True)
class Fold:
    """Blocks behind a line that unfolds them; open on paper."""

    kind: ClassVar[str] = "fold"
    summary: str
    blocks: Sequence[Block]


Block = Text | Points | Heading | Table | Figures | Facts | Command | Downloads | Fold


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading, which the list of contents names."""

    id: str
    title: str
    blocks: Sequence[Block] = field(default_factory=tuple)
