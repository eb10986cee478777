"""Numbers as cells of tables, and tables as columns that say how to fill themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from smallcal.data.claims import CLAIMS, Claim
from smallcal.metrics import METRICS, units
from smallcal.metrics.debiased import CUTS
from smallcal.metrics.units import PERCENT, Unit
from smallcal.reports.render.blocks import Cell, Column, Row, Table

Content = Mapping[str, Any]

#: A column, and what a row of the content shows in it.
Filled = tuple[Column, Callable[[Content], Cell]]


def table_of(
    id: str,
    caption: str,
    columns: Iterable[Filled],
    rows: Iterable[Content],
    *,
    chosen: Callable[[Content], bool] = lambda row: False,
    note: str = "",
) -> Table:
    """Return a table with one row for each of the content's.

    Examples
    --------
    >>> filled = [words("Group", "group"), (Column("n"), lambda row: number(row["n"], 0))]
    >>> [cell.text for cell in table_of("a", "", filled, [{"group": "x", "n": 3}]).rows[0].cells]
    ['x', '3']
    """
    filled = list(columns)
    shown = [Row([fill(row) for _, fill in filled], chosen=chosen(row)) for row in rows]
    return Table(id, caption, [column for column, _ in filled], shown, note)


def words(label: str, key: str) -> Filled:
    """Return a column of words: what the rows have under a key."""
    return Column(label, number=False), lambda row: Cell(str(row[key]))


def numbers(
    label: str, key: str, digits: int = 4, *, help: str = "", signed: bool = False
) -> Filled:
    """Return a column of numbers: what the rows have under a key."""
    return Column(label, help=help), lambda row: number(row[key], digits, signed=signed)


def shares(
    label: str, key: str, *, unit: str = "%", help: str = "", signed: bool = False
) -> Filled:
    """Return a column of fractions in percent, or of differences of such in points."""
    return Column(label, unit, help=help), lambda row: percent(row[key], signed=signed)


def number(
    value: float | None, digits: int = 2, *, notes: Iterable[str] = (), signed: bool = False
) -> Cell:
    """Return a cell with a number; one that is missing or undefined says so.

    Examples
    --------
    >>> number(1234.5678).text, number(-0.5, 1, signed=True).text, number(float("nan")).text
    ('1,234.57', '−0.5', 'undefined')
    """
    if value is None:
        return Cell("–", number=True)
    if not math.isfinite(value):
        return Cell("undefined", number=True)
    text = written(value, digits, signed=signed)
    return Cell(text, tuple(filter(None, notes)), float(value), number=True)


def percent(value: float | None, *, notes: Iterable[str] = (), signed: bool = False) -> Cell:
    """Return a cell with a fraction in percent.

    Examples
    --------
    >>> percent(0.1234).text, percent(0.1234).sort
    ('12.34', '12.34')
    """
    scaled = None if value is None else PERCENT.scale * value
    return number(scaled, PERCENT.digits, notes=notes, signed=signed)


def written(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """Write a number with a true minus sign and thousands apart."""
    return units.written(value, digits, signed=signed).replace("-", "−")


def between(low: float | None, high: float | None, unit: Unit) -> str:
    """Write an interval.

    Examples
    --------
    >>> between(-0.01, 0.02, PERCENT)
    '−1.00 to 2.00'
    """
    if low is None or high is None or not math.isfinite(low + high):
        return ""
    return unit.interval(low, high).replace("-", "−")


def claim_of(content: Content) -> Claim:
    """Return the words for what is claimed of a row."""
    return CLAIMS[content["data"]["input"]]


def level_of(content: Content) -> str:
    """Return the level of the intervals."""
    return f"{100 * content['settings']['level']:g} %"


def metric_cell(
    name: str, row: Content, *, signed: bool = False, best: float | None = None
) -> Cell:
    """Return a metric with its interval, and where there are such its noise floor and verdict."""
    unit = METRICS[name].unit
    notes = [between(row.get("low"), row.get("high"), unit) or row.get("note", "")]
    if row.get("floor") is not None:
        notes.append(f"floor {unit.number(row['floor'])}")
    if notes[0] and name in CUTS and not signed:
        notes.insert(0, f"debiased {unit.number(row['value'])}")
    shown = row["value"] if signed else row["plain"]
    # The content is JSON, which has no NaN: None is a value that the data leave undefined.
    value = math.nan if shown is None else shown
    cell = number(unit.scale * value, unit.digits, notes=notes, signed=signed)
    return replace(cell, verdict=row.get("verdict", ""), best=value == best)


def metric_column(name: str, *, difference: bool = False, kind: str = "logits") -> Column:
    """Return the head of a metric's column, with its unit."""
    metric = METRICS[name]
    unit = metric.unit.change if difference else metric.unit.sign
    return Column(metric.title, unit, help=metric.told(kind), key=name)
