"""The sections with results: the verdict, metrics, differences, figures, and what shift does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smallcal.metrics import METRICS
from smallcal.reports.render.blocks import (
    Block,
    Card,
    Cards,
    Cell,
    Column,
    Facts,
    Figure,
    Figures,
    Finding,
    Fold,
    Heading,
    Table,
    Text,
    Verdict,
)
from smallcal.reports.render.cells import (
    Content,
    Filled,
    between,
    level_of,
    metric_cell,
    metric_column,
    number,
    numbers,
    percent,
    table_of,
    words,
)
from smallcal.reports.settings import RAW

#: What the cards at the top show.
_CARDS = ("ece15", "top_label_bce", "accuracy")

#: What a finding begins with: a colour alone would not tell everybody.
_WORDS = {"care": "take care", "bad": "warning"}

#: How the metrics are put beside one another: five columns fit a page, and a sheet of paper.
_ABREAST = 5


def verdict(content: Content) -> Iterator[Block]:
    """Say which method to use, and what that rests on."""
    judged = content["verdict"]
    findings = [
        Finding(entry["level"], entry["text"], _WORDS.get(entry["level"], ""))
        for entry in judged["findings"]
    ]
    yield Verdict(judged["headline"], findings)
    yield Cards([_card(content, name) for name in _CARDS])
    asked = judged["asked"]
    also = f" (asked for as {asked})" if asked != judged["recommended"] else ""
    yield Text(f"Recommended: {judged['recommended']}{also}. Why: {judged['reason']}.", "note")


def _card(content: Content, name: str) -> Card:
    """Return a metric before and after, and how sure the change is."""
    chosen = content["verdict"]["recommended"]
    rows = {row["method"]: row["cells"][name] for row in content["metrics"]["rows"]}
    before, after = (metric_cell(name, rows[key]) for key in (RAW, chosen))
    unit = f" {METRICS[name].unit.sign}"
    value = f"{before.text} → {after.text}{unit}"
    if before.text == after.text:
        value = after.text + unit
    note = f"{level_of(content)} interval {', '.join(after.notes)}"
    if chosen != RAW:
        note = _change(content, chosen, name)
    return Card(name, METRICS[name].summary, value, note)


def _change(content: Content, chosen: str, name: str) -> str:
    table = next(table for table in content["differences"] if table["baseline"] == RAW)
    row = next(row for row in table["rows"] if row["method"] == chosen)["metrics"][name]
    if row["value"] == row["low"] == row["high"] == 0:
        return "the same predictions"
    interval = between(row["low"], row["high"], METRICS[name].unit)
    return f"{row['verdict']}; change {interval}, {level_of(content)} interval"


def metrics(content: Content) -> Iterator[Block]:
    """Show every metric of every method, the best of each column in bold."""
    level, note = level_of(content), content["metrics"]["note"]
    yield Text(f"Each value has its {level} interval. The best of a column is bold. {note}")
    columns = content["metrics"]["columns"]
    for number_of, names in enumerate(_abreast([column["name"] for column in columns])):
        yield _metric_table(content, names, number_of)
    facts = Facts([(column["name"], column["summary"]) for column in columns])
    yield Fold("What the metrics are", [facts])


def _abreast(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _ABREAST):
        yield names[start : start + _ABREAST]


def _metric_table(content: Content, names: Sequence[str], number_of: int) -> Table:
    rows, chosen = content["metrics"]["rows"], content["verdict"]["recommended"]
    best = {name: _best(rows, name) for name in names}

    def filled(name: str) -> Filled:
        column = metric_column(name)
        return column, lambda row: metric_cell(name, row["cells"][name], best=best[name])

    caption = "Further metrics" if number_of else "Metrics on the test samples"
    return table_of(
        f"metrics-{number_of}",
        f"{caption}: value, interval, noise floor.",
        [words("Method", "method"), *map(filled, names)],
        rows,
        chosen=lambda row: row["method"] == chosen,
    )


def _best(rows: Sequence[Content], name: str) -> float | None:
    values = [row["cells"][name]["value"] for row in rows]
    known = [float(value) for value in values if value is not None]
    # Where all are the same, none stands out.
    if len(set(known)) < 2:
        return None
    better = METRICS[name].better
    if better == "zero":
        return min(known, key=abs)
    return max(known) if better == "higher" else min(known)


def differences(content: Content, forest: Sequence[Figure]) -> Iterator[Block]:
    """Show what each method changes, against the raw model and against temperature scaling."""
    compared = [table for table in content["differences"] if table["rows"]]
    if not compared:
        return
    yield Text(
        "Each method minus the one it is compared with, paired by sample. A difference is called "
        "better or worse only where its interval lies on one side of zero (for calibration errors "
        "the basic interval, too); otherwise it is a tie."
    )
    yield from figures(forest)
    for number_of, table in enumerate(compared):
        base = "the raw model" if table["baseline"] == RAW else table["baseline"]
        yield Heading(f"Differences from {base}")
        for part, names in enumerate(_abreast(table["metrics"])):
            yield table_of(
                f"differences-{number_of}-{part}",
                f"Method minus {base}, with {level_of(content)} intervals paired by sample.",
                [words("Method", "method"), *map(_difference, names)],
                table["rows"],
            )


def _difference(name: str) -> Filled:
    column = metric_column(name, difference=True)
    return column, lambda row: metric_cell(name, row["metrics"][name], signed=True)


def figures(shown: Sequence[Figure]) -> Iterator[Block]:
    """Show figures side by side, if there are any."""
    if shown:
        yield Figures(shown)


def shift(content: Content, shown: Sequence[Figure]) -> Iterator[Block]:
    """Show what becomes of accuracy and calibration on shifted samples."""
    if not content["shift"]:
        return
    yield Text(
        "The same fits on samples from other conditions; nothing was fitted again. Where many "
        "samples moved to groups that were small in calibration, the fit rests on few."
    )
    yield from figures(shown)
    chosen = content["verdict"]["recommended"]
    yield table_of(
        "shift",
        f"Under shift: the raw model, and after {chosen}, on the same samples.",
        [
            words("Shift", "kind"),
            words("Severity", "severity"),
            numbers("n", "n", 0),
            _value("Accuracy", "accuracy", RAW),
            _value("Raw ece15", "ece15", RAW),
            _value("After ece15", "ece15", chosen),
            (Column("Difference", "points", help="paired by sample"), _shift_difference),
            (Column("Verdict", number=False), _shift_verdict),
            (
                Column("Moved between groups", "%", help="samples in other groups than before"),
                lambda row: percent(row["moved"] if row["occupancy"] else None),
            ),
        ],
        content["shift"],
    )


def _value(label: str, metric: str, method: str) -> Filled:
    return Column(label, "%"), lambda row: metric_cell(metric, row["values"][method][metric])


def _shift_difference(row: Content) -> Cell:
    change = row["differences"].get("ece15")
    return metric_cell("ece15", {**change, "verdict": ""}, signed=True) if change else number(None)


def _shift_verdict(row: Content) -> Cell:
    """Return a verdict; a word, and not only a colour."""
    change = row["differences"].get("ece15")
    return Cell(change["verdict"], tone=change["verdict"]) if change else Cell("–")
