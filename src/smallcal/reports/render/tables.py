"""The report's numbers as tables of the page: each function turns one part of the content."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smallcal.metrics import METRICS
from smallcal.reports.render.blocks import Cell, Column, Row, Table

Content = Mapping[str, Any]

#: Rows of a long table that the page shows; the JSON of the report has them all.
MOST_ROWS = 40

_HELP_GAP = "mean confidence minus accuracy; positive where the model is too sure"


def number(value: float | None, digits: int = 2, *, note: str = "", signed: bool = False) -> Cell:
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
    return Cell(written(value, digits, signed=signed), note, float(value), number=True)


def written(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """Write a number with a true minus sign and thousands apart."""
    text = f"{value:{'+' if signed else ''},.{digits}f}"
    # A rounded nothing has no sign.
    if signed and not float(text.replace(",", "")):
        text = text.lstrip("+-")
    return text.replace("-", "−")


def percent(value: float | None, *, note: str = "", signed: bool = False) -> Cell:
    """Return a cell with a fraction in percent.

    Examples
    --------
    >>> percent(0.1234).text, percent(0.1234).sort
    ('12.34', '12.34')
    """
    return number(None if value is None else 100 * value, note=note, signed=signed)


def between(low: float | None, high: float | None, digits: int = 2, *, scale: float = 1.0) -> str:
    """Write an interval.

    Examples
    --------
    >>> between(-0.01, 0.02, scale=100)
    '−1.00 to 2.00'
    """
    if low is None or high is None or not math.isfinite(low + high):
        return ""
    return f"{written(scale * low, digits)} to {written(scale * high, digits)}"


def scale_of(name: str) -> tuple[float, int]:
    """Return what a metric is multiplied by, and the digits after its point.

    Examples
    --------
    >>> scale_of("ece15"), scale_of("nll")
    ((100.0, 2), (1.0, 4))
    """
    # Averaged over classes that most samples are not of, it is tiny.
    if name.startswith("cwece"):
        return 100.0, 4
    return (100.0, 2) if METRICS[name].percent else (1.0, 4)


def metric_cell(name: str, row: Content, *, signed: bool = False, best: bool = False) -> Cell:
    """Return a metric with its interval, and the noise floor where there is one."""
    scale, digits = scale_of(name)
    note = between(row.get("low"), row.get("high"), digits, scale=scale)
    if row.get("floor") is not None:
        note += f"\nfloor {written(scale * row['floor'], digits)}"
    value = row["value"]
    cell = number(None if value is None else scale * value, digits, note=note, signed=signed)
    return Cell(cell.text, cell.note, cell.value, number=True, best=best)


def metric_column(name: str) -> Column:
    """Return the head of a metric's column."""
    return Column(name, "%" if METRICS[name].percent else "", help=METRICS[name].summary, key=name)


def metric_table(metrics: Content, names: Sequence[str], chosen: str, *, number_of: int) -> Table:
    """Return some metrics of all methods, the best of each column in bold."""
    best = {name: _best(metrics, name) for name in names}
    rows = []
    for row in metrics["rows"]:
        cells = [
            metric_cell(name, row["cells"][name], best=row["cells"][name]["value"] == best[name])
            for name in names
        ]
        rows.append(Row([Cell(row["method"]), *cells], chosen=row["method"] == chosen))
    columns = [Column("Method", number=False), *map(metric_column, names)]
    caption = "Metrics on the test samples" if number_of == 0 else "Further metrics"
    return Table(f"metrics-{number_of}", f"{caption}: value, interval, noise floor.", columns, rows)


def _best(metrics: Content, name: str) -> float | None:
    values = [row["cells"][name]["value"] for row in metrics["rows"]]
    known = [float(value) for value in values if value is not None]
    # Where all are the same, none stands out.
    if len(set(known)) < 2:
        return None
    better = METRICS[name].better
    if better == "zero":
        return min(known, key=abs)
    return max(known) if better == "higher" else min(known)


def difference_table(
    table: Content, names: Sequence[str], *, level: str, number_of: tuple[int, int]
) -> Table:
    """Return differences from one method with their intervals and verdicts."""
    rows = [
        Row([Cell(row["method"]), *(difference_cell(name, row["metrics"][name]) for name in names)])
        for row in table["rows"]
    ]
    columns = [Column("Method", number=False), *map(_change_column, names)]
    base = "the raw model" if table["baseline"] == "none" else table["baseline"]
    caption = f"Method minus {base}, with {level} intervals paired by sample."
    return Table("differences-{}-{}".format(*number_of), caption, columns, rows)


def _change_column(name: str) -> Column:
    return Column(
        name, "points" if METRICS[name].percent else "", help=METRICS[name].summary, key=name
    )


def difference_cell(name: str, row: Content) -> Cell:
    """Return a difference with its interval and verdict."""
    cell = metric_cell(name, row, signed=True)
    return Cell(cell.text, cell.note, cell.value, number=True, verdict=row["verdict"])


def method_table(methods: Sequence[Content], chosen: str) -> Table:
    """Return what was fitted."""
    columns = [
        Column("Method", number=False),
        Column("What it is", number=False),
        Column("Fitted numbers"),
        Column("Predicted class", number=False),
    ]
    rows = [
        Row(
            [
                Cell(row["name"], note="" if row["asked"] == row["name"] else f"as {row['asked']}"),
                Cell(row["summary"]),
                number(row["n_parameters"], 0),
                Cell("kept" if row["preserves_argmax"] else "may change"),
            ],
            chosen=row["name"] == chosen,
        )
        for row in methods
    ]
    return Table("methods-fitted", "What was fitted.", columns, rows)


def class_table(rows: Sequence[Content], *, level: float) -> Table:
    """Return gaps by predicted class."""
    columns = [
        Column("Predicted class", number=False),
        Column("n", help="test samples that were given this class"),
        Column("n true", help="test samples that are of this class"),
        *_GAP_COLUMNS,
    ]
    shown = [
        Row([Cell(row["group"]), number(row["n"], 0), number(row["n_true"], 0), *_gap_cells(row)])
        for row in rows[:MOST_ROWS]
    ]
    more = len(rows) - len(shown)
    note = f"{more:,} more classes are in the report's JSON." if more > 0 else ""
    caption = (
        f"Gap between confidence and accuracy by predicted class, the least likely by chance "
        f"first, with exact {100 * level:g} % intervals."
    )
    return Table("classes", caption, columns, shown, note)


_GAP_COLUMNS = (
    Column("Accuracy", "%"),
    Column("Confidence", "%"),
    Column("Gap", "points", help=_HELP_GAP),
    Column("Raw gap", "points", help="the same of the raw model"),
    Column("Beyond chance", number=False, help="after Holm's correction for all rows"),
)


def _gap_cells(row: Content) -> list[Cell]:
    return [
        percent(row["accuracy"]),
        percent(row["confidence"]),
        percent(row["gap"], note=between(row["low"], row["high"], scale=100), signed=True),
        percent(row["raw_gap"], signed=True),
        Cell("yes", tone="worse") if row["off"] else Cell("no", tone="tie"),
    ]


def group_table(table: Content, number_of: int, *, level: float) -> Table:
    """Return gaps and errors in the groups of one grouping."""
    columns = [
        Column("Group", number=False),
        Column("n"),
        *_GAP_COLUMNS,
        metric_column("ece15"),
    ]
    rows = [
        Row([Cell(row["group"]), number(row["n"], 0), *_gap_cells(row), _group_error(row)])
        for row in table["rows"]
    ]
    caption = f"By {table['by']}: gaps with exact {100 * level:g} % intervals."
    return Table(f"groups-{number_of}", caption, columns, rows)


def _group_error(row: Content) -> Cell:
    keys = {"value": "ece15", "low": "ece15_low", "high": "ece15_high"}
    return metric_cell("ece15", {name: row.get(key) for name, key in keys.items()})


def worst_table(rows: Iterable[Content], *, level: float) -> Table:
    """Return the groups of any kind that are off beyond chance."""
    columns = [
        Column("Group", number=False),
        Column("By", number=False),
        Column("n"),
        *_GAP_COLUMNS[:4],
    ]
    shown = [
        Row([Cell(row["group"]), Cell(row["by"]), number(row["n"], 0), *_gap_cells(row)[:4]])
        for row in rows
    ]
    caption = (
        f"Groups whose confidence is off beyond chance after Holm's correction, largest gaps "
        f"first, with exact {100 * level:g} % intervals."
    )
    return Table("worst", caption, columns, shown)


def band_table(routing: Content, number_of: int) -> Table:
    """Return the groups of a calibrator: where they begin, their temperature, their share."""
    by = routing["banded_by"]
    columns = [
        Column("Group", number=False),
        Column(f"From {by}"),
        Column(f"To {by}"),
        Column("Temperature", help="median over the calibration samples of the group"),
        Column("Calibration", "%", help="share of the calibration samples"),
        Column("Test", "%", help="share of the test samples"),
    ]
    rows = [
        Row(
            [
                Cell(str(band["group"])),
                number(band["from"], 4),
                number(band["to"], 4),
                number(band["temperature"], 4),
                percent(band["calibration_share"]),
                percent(band["test_share"]),
            ]
        )
        for band in routing["bands"]
    ]
    kind = "Groups by score" if by == "score" else "Thirds by temperature"
    caption = f"{kind} of {routing['method']}, and how the samples fall into them."
    return Table(f"bands-{number_of}", caption, columns, rows)


def weight_table(routing: Content, number_of: int) -> Table:
    """Return what each statistic adds to a score or to a log-temperature."""
    what = routing["weights_of"]
    columns = [
        Column("Statistic", number=False),
        Column("Weight", help=f"added to the {what} for one standard deviation more"),
        Column("Share", "%", help="size of the weight among them all"),
    ]
    rows = [
        Row(
            [
                Cell(row["statistic"]),
                number(row["weight"], 4, signed=True),
                percent(row["share"]),
            ]
        )
        for row in routing["weights"]
    ]
    caption = (
        f"What one standard deviation more of each statistic adds to the {what} of "
        f"{routing['method']}. Statistics go together, so a weight is no cause."
    )
    return Table(f"weights-{number_of}", caption, columns, rows)


def effect_table(routing: Content, number_of: int) -> Table:
    """Return the classes that move the temperature most."""
    columns = [Column("Predicted class", number=False), Column("Factor on the temperature")]
    rows = [
        Row([Cell(row["class"]), number(row["factor"], 4)])
        for row in routing["class_effects"]["strongest"]
    ]
    caption = f"Classes that move the temperature of {routing['method']} most."
    return Table(f"effects-{number_of}", caption, columns, rows)


def shift_table(rows: Sequence[Content], chosen: str) -> Table:
    """Return what becomes of accuracy and calibration on shifted samples."""
    columns = [
        Column("Shift", number=False),
        Column("Severity", number=False),
        Column("n"),
        Column("Accuracy", "%"),
        Column("Raw ece15", "%"),
        Column("After ece15", "%"),
        Column("Difference", "points", help="paired by sample"),
        Column("Verdict", number=False),
        Column("Moved", "%", help="samples that fall into other groups than in calibration"),
    ]
    return Table(
        "shift",
        f"Under shift: the raw model, and after {chosen}, on the same samples.",
        columns,
        [Row(_shift_cells(row, chosen)) for row in rows],
    )


def _shift_cells(row: Content, chosen: str) -> list[Cell]:
    raw, ours = row["values"]["none"], row["values"].get(chosen, row["values"]["none"])
    change = row["differences"].get("ece15")
    return [
        Cell(row["kind"]),
        Cell(str(row["severity"])),
        number(row["n"], 0),
        metric_cell("accuracy", raw["accuracy"]),
        metric_cell("ece15", raw["ece15"]),
        metric_cell("ece15", ours["ece15"]),
        metric_cell("ece15", change, signed=True) if change else number(None),
        verdict_cell(change["verdict"]) if change else Cell("–"),
        percent(row["moved"]) if row["occupancy"] else number(None),
    ]


def verdict_cell(verdict: str) -> Cell:
    """Return a verdict; a word, and not only a colour."""
    return Cell(verdict, tone=verdict if verdict in ("better", "worse") else "tie")
