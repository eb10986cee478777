"""The sections with results: the verdict, metrics, differences, figures, and what shift does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from smallcal.metrics import METRICS
from smallcal.metrics.debiased import CUTS
from smallcal.reports.render.blocks import (
    Block,
    Card,
    Cards,
    Cell,
    Column,
    Command,
    Facts,
    Figure,
    Figures,
    Finding,
    Findings,
    Fold,
    Heading,
    Points,
    Table,
    Text,
    Verdict,
)
from smallcal.reports.render.cells import (
    Content,
    Filled,
    between,
    claim_of,
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

#: What a finding begins with: a colour alone would not tell everybody.
_WORDS = {"care": "take care", "bad": "warning"}

#: How the metrics are put beside one another: five columns fit a page, and a sheet of paper.
_ABREAST = 5


def verdict(content: Content) -> Iterator[Block]:
    """Say on one screen what to use, what it changes, how to ship it, what to take care of."""
    judged = content["verdict"]
    asked = judged["asked"]
    also = f" (asked for as {asked})" if asked != judged["recommended"] else ""
    word = "Judged" if judged["outcome"] == "worse" else "Recommended"
    yield Verdict(judged["headline"], f"{word}: {judged['recommended']}{also}: {judged['reason']}.")
    numbers = [_card(content, entry) for entry in judged["changes"]]
    yield Cards([*numbers, _threshold(content)])
    findings = [
        Finding(entry["level"], entry["text"], _WORDS.get(entry["level"], ""))
        for entry in judged["findings"]
    ]
    if findings:
        yield Findings(findings)
    if judged["ship"]:
        yield Command("ship", judged["ship"]["text"], "Ship it")


def _card(content: Content, entry: Content) -> Card:
    """Return a metric before and after, with intervals, and what the change amounts to."""
    name = entry["metric"]
    unit = METRICS[name].unit
    ends = [between(entry[key]["low"], entry[key]["high"], unit) for key in ("before", "after")]
    note = entry["before"]["note"]
    if ends[0]:
        note = f"{level_of(content)} interval {ends[0]}"
        if entry["difference"]:
            note = f"{entry['verdict']}; {level_of(content)} intervals {ends[0]} → {ends[1]}"
        if name in CUTS:
            note += ", debiased"
    value = _arrow(entry, lambda row: unit.number(row["plain"]))
    summary = METRICS[name].told(content["data"]["input"])
    return Card(entry["called"], summary, f"{value} {unit.sign}", note)


def _arrow(entry: Content, said: Callable[[Content], str]) -> str:
    """Return what is said of before and after; once where it is the same."""
    both = [said(entry[key]) for key in ("before", "after")]
    return " → ".join(dict.fromkeys(both))


def _threshold(content: Content) -> Card:
    entry, claim = content["verdict"]["threshold"], claim_of(content)
    wrong = _arrow(entry, lambda row: f"{row['n_wrong']:,} of {row['n']:,}")
    rates = _arrow(entry, lambda row: percent(row["error_rate"]).text)
    some = entry["before"]["n"] or entry["after"]["n"]
    return Card(
        f"Above {100 * entry['confidence']:g} % {claim.confidence}",
        f"share of the test samples, and {claim.errors} among them",
        f"{_arrow(entry, lambda row: percent(row['share']).text)} %",
        f"{claim.failed} among them: {wrong} ({rates} %)"
        if some
        else "no test sample has such a confidence",
    )


def findings(content: Content) -> Iterator[Block]:
    """Say what lies behind the verdict, and what was found of the other methods."""
    yield Points(content["verdict"]["facts"])


def metrics(content: Content) -> Iterator[Block]:
    """Show every metric of every method, the best of each column in bold."""
    level, note = level_of(content), content["metrics"]["note"]
    said = f"Each value has its {level} interval. " if content["settings"]["n_boot"] else ""
    yield Text(f"{said}The best of a column is bold. {note if said else ''}".strip())
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
        column = metric_column(name, kind=content["data"]["input"])
        return column, lambda row: metric_cell(name, row["cells"][name], best=best[name])

    caption = "Further metrics" if number_of else "Metrics on the test samples"
    return table_of(
        f"metrics-{number_of}",
        f"{caption}: value, interval, noise floor."
        if content["settings"]["n_boot"]
        else f"{caption}.",
        [words("Method", "method"), *map(filled, names)],
        rows,
        chosen=lambda row: row["method"] == chosen,
    )


def _best(rows: Sequence[Content], name: str) -> float | None:
    values = [row["cells"][name]["plain"] for row in rows]
    known = [float(value) for value in values if value is not None]
    # Where all are the same, none stands out.
    if len(set(known)) < 2:
        return None
    better = METRICS[name].better
    if better == "zero":
        return min(known, key=abs)
    return max(known) if better == "higher" else min(known)


def differences(content: Content, forest: Sequence[Figure]) -> Iterator[Block]:
    """Show what each method changes, against the uncalibrated model and temperature scaling."""
    compared = [table for table in content["differences"] if table["rows"]]
    if not compared:
        return
    boot = content["settings"]["n_boot"]
    rule = (
        " A difference is called better or worse only where its own interval lies on one side of "
        "zero; otherwise it is a tie. Differences in ECE and adaptive ECE are debiased. The "
        "verdict "
        "also corrects for the number of comparisons."
    )
    yield Text(
        "Each method minus the one it is compared with, paired by sample." + (rule if boot else "")
    )
    yield from figures(forest)
    for number_of, table in enumerate(compared):
        base = claim_of(content).raw if table["baseline"] == RAW else table["baseline"]
        yield Heading(f"Differences from {base}")
        for part, names in enumerate(_abreast(table["metrics"])):
            yield table_of(
                f"differences-{number_of}-{part}",
                f"Method minus {base}, with {level_of(content)} intervals paired by sample."
                if boot
                else f"Method minus {base}.",
                [words("Method", "method"), *(_difference(content, name) for name in names)],
                table["rows"],
            )


def _difference(content: Content, name: str) -> Filled:
    column = metric_column(name, difference=True, kind=content["data"]["input"])
    return column, lambda row: metric_cell(name, row["metrics"][name], signed=True)


def figures(shown: Sequence[Figure]) -> Iterator[Block]:
    """Show figures side by side, if there are any."""
    if shown:
        yield Figures(shown)


def shift(content: Content, shown: Sequence[Figure]) -> Iterator[Block]:
    """Show what becomes of accuracy and calibration on shifted samples."""
    if not content["shift"]:
        return
    claim, score = claim_of(content), content["data"]["input"] == "score"
    few = (
        "Where many samples move to groups that were small in calibration, their temperature is "
        "based on few samples."
    )
    again = "The same fits on samples from other conditions; nothing was fitted again."
    yield Text(again if score else f"{again} {few}")
    yield from figures(shown)
    chosen = content["verdict"]["recommended"]
    yield table_of(
        "shift",
        f"Under shift: {claim.raw}, and after {chosen}, on the same samples.",
        [
            words("Shift", "kind"),
            words("Severity", "severity"),
            numbers("n", "n", 0),
            _value(claim.accuracy.capitalize(), "accuracy", RAW),
            _value("Raw ECE", "ece15", RAW),
            _value("ECE after", "ece15", chosen),
            (Column("Difference", "points", help="paired by sample"), _shift_difference),
            (Column("Verdict", number=False), _shift_verdict),
            *([] if score else [_MOVED]),
        ],
        content["shift"],
    )


_MOVED: Filled = (
    Column("Moved between groups", "%", help="samples in other groups than before"),
    lambda row: percent(row["moved"] if row["occupancy"] else None),
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
