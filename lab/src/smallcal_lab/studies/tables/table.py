"""Tables of a study: as data, and written as Markdown, LaTeX (booktabs) and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smallcal.data.plain import plain
from smallcal.data.shown import latex, markdown
from smallcal.io.atomic import atomic_path
from smallcal.metrics import METRICS
from smallcal.metrics.units import PERCENT, PLAIN, Unit, written
from smallcal.statistics.interval import Better
from smallcal_lab.studies.study import Study, given_text

#: What tables are written as, beside the rows of a run.
TABLE_FILES = ("tables.md", "tables.tex", "tables.json")

#: How the names of probes' numbers begin that are shares.
_SHARES = (
    *("accuracy", "coverage", "risk", "gap", "selective", "changed", "share", "auroc", "flow"),
    "error_by",
)
#: What follows a metric's name where it is measured in a way of its own.
_WAYS = re.compile(r"_(requantized|paired_clean|margin_(low|mid|high)|of_all)$")


@dataclass(frozen=True)
class Number:
    """A number in a table, in the units of its column.

    ``spread`` is a standard deviation (ddof = 0), ``low`` and ``high`` an interval, shown with
    signs where the number is a difference. ``of`` is what a count is out of, ``best`` is bold,
    and ``below`` is the share of resamples in which a difference is below zero.
    """

    value: float = math.nan
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    digits: int = 2
    best: bool = False
    signed: bool = True
    of: int | None = None
    below: float | None = None

    @classmethod
    def in_units(cls, value: float, unit: Unit, digits: int | None = None) -> Number:
        """Return a number in a unit, such as a share in percent."""
        return cls(float(unit.scale * value), digits=unit.digits if digits is None else digits)

    def text(self) -> str:
        """Return the number as a table shows it.

        Examples
        --------
        >>> Number(1.234, spread=0.1).text(), Number(-0.5, low=-1.0, high=0.25).text()
        ('1.23 ±0.10', '-0.50 [-1.00, +0.25]')
        """
        if math.isnan(self.value):
            return "–"
        if self.of is not None:
            return f"{self.value:.0f} of {self.of:,}"
        if self.low is not None and self.high is not None:
            numbers = (self.value, self.low, self.high)
            value, low, high = (written(n, self.digits, signed=self.signed) for n in numbers)
            return f"{value} [{low}, {high}]"
        shown = written(self.value, self.digits)
        return shown if self.spread is None else f"{shown} ±{written(self.spread, self.digits)}"

    def document(self) -> dict[str, Any]:
        """Return what is known of the number as plain data."""
        names = ("value", "spread", "low", "high", "of", "below")
        known = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return {**plain(known), "best": self.best}


#: A row of a table: words, then numbers.
Row = tuple[str | Number, ...]


@dataclass(frozen=True)
class Table:
    """A table: words and numbers."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    sentences: tuple[str, ...] = ()

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [f"## {markdown(self.title)}", ""]
        if self.rows:
            header, rule = " | ".join(map(markdown, self.header)), "|" + "---|" * len(self.header)
            lines += [f"| {header} |", rule]
            lines += [f"| {' | '.join(map(_markdown, row))} |" for row in self.rows]
        else:
            lines.append("Nothing was measured.")
        lines += ["", markdown(self.note)] * bool(self.note)
        said = [f"- {markdown(sentence)}" for sentence in self.sentences]
        return "\n".join([*lines, *["", *said] * bool(said)])

    def latex(self) -> str:
        """Return the table in LaTeX, for booktabs."""
        words = sum(isinstance(cell, str) for cell in self.rows[0]) if self.rows else 1
        head, *rows = (" & ".join(map(_latex, row)) + r" \\" for row in (self.header, *self.rows))
        return "\n".join(
            [
                r"\begin{table}[t]",
                r"\centering",
                rf"\begin{{tabular}}{{{'l' * words + 'r' * (len(self.header) - words)}}}",
                *(r"\toprule", head, r"\midrule", *rows, r"\bottomrule"),
                r"\end{tabular}",
                rf"\caption{{{latex(' '.join([self.title + '.', self.note]).strip())}}}",
                rf"\label{{tab:{self.name}}}",
                r"\end{table}",
            ]
        )

    def document(self) -> dict[str, Any]:
        """Return the table as plain data."""
        rows = [[c if isinstance(c, str) else c.document() for c in row] for row in self.rows]
        about = {"name": self.name, "title": self.title, "note": self.note}
        lists = {"header": list(self.header), "rows": rows, "sentences": list(self.sentences)}
        return {**about, **lists}


def _markdown(cell: str | Number) -> str:
    if isinstance(cell, str):
        return markdown(cell)
    return f"**{cell.text()}**" if cell.best else cell.text()


def _latex(cell: str | Number) -> str:
    if isinstance(cell, str):
        return latex(cell)
    # A hyphen is no minus: the dash of a missing number is put in after it.
    text = cell.text().replace("-", "$-$").replace("±", r"$\pm$").replace("–", "--")
    return rf"\textbf{{{text}}}" if cell.best else text


def write_tables(folder: Path, study: Study, tables: Sequence[Table]) -> None:
    """Write a run's tables in every form."""
    said = given_text(study.given)
    head = f"# {study.title}\n\n{study.question}\n\n" + f"{markdown(said)}\n\n" * bool(said)
    asked = {"set": study.document()["set"]} if said else {}
    document = {"study": study.name, **asked, "tables": [table.document() for table in tables]}
    texts = (
        head + "\n\n".join(table.markdown() for table in tables) + "\n",
        f"% {said}\n" * bool(said) + "\n\n".join(table.latex() for table in tables) + "\n",
        json.dumps(document, indent=2, ensure_ascii=False) + "\n",
    )
    for name, text in zip(TABLE_FILES, texts, strict=True):
        with atomic_path(folder / name) as path:
            path.write_text(text, encoding="utf-8")


def unit_of(metric: str) -> Unit:
    """Return how a metric, or a number that a probe gave, is written.

    Examples
    --------
    >>> unit_of("nll").sign, unit_of("gap_at80").sign, unit_of("temperature_1").sign
    ('x100', '%', '')
    """
    base = _WAYS.sub("", metric)
    if base in METRICS:
        return METRICS[base].unit
    return PERCENT if base.startswith(_SHARES) else PLAIN


def heading_of(metric: str, *, difference: bool = False) -> str:
    """Return a metric's heading, with its unit."""
    return unit_of(metric).heading(title_of(metric), difference=difference)


def changes(metrics: Iterable[str]) -> list[str]:
    """Return the headings of differences in metrics."""
    return [heading_of(metric, difference=True) for metric in metrics]


def title_of(metric: str) -> str:
    """Return what people call a metric; a number that only a probe gives keeps its own name.

    Examples
    --------
    >>> title_of("ece15"), title_of("nll_requantized"), title_of("gap_at80")
    ('ECE', 'log-loss, requantized', 'gap_at80')
    """
    base = _WAYS.sub("", metric)
    if base not in METRICS:
        return metric
    way = metric.removeprefix(base).replace("_", " ").strip()
    return f"{METRICS[base].title}, {way}" if way else METRICS[base].title


def better_of(metric: str) -> Better:
    """Return which values of a metric are good; "zero" where neither low nor high ones are."""
    if metric in METRICS:
        return METRICS[metric].better
    return "zero" if metric.startswith(("gap", "coverage", "parameters", "share")) else "lower"
