"""The section about what can be promised of confident rows."""

from __future__ import annotations

from collections.abc import Iterator

from smallcal.advice.certify_words import level_of, percent, rounded
from smallcal.metrics.units import PERCENT
from smallcal.reports.render import cells
from smallcal.reports.render.blocks import Block, Cell, Column, Command, Heading, Table, Text
from smallcal.reports.render.cells import Content, Filled, between, claim_of, table_of, words

#: What became of a promise; the words tell it, not a colour.
_VERDICTS = {
    "kept": ("kept", "better"),
    "above": ("above, within chance", ""),
    "broken": ("broken beyond chance", "worse"),
    "none": ("none accepted", ""),
}
#: Classes or groups that a table shows.
_MOST = 40


def promise(content: Content) -> Iterator[Block]:
    """Say how a certified threshold did, or what thresholds could be promised."""
    entry = content.get("promise")
    if not entry:
        return
    for number_of, decision in enumerate(entry["checked"]):
        yield from _checked(content, decision, number_of)
    if entry["checked"]:
        return
    if entry["calibrator"] is not None:
        yield Text(f"{entry['calibrator'] or 'The calibrator'} has no certified threshold.")
    if entry["flattered"] == "same":
        yield Text("Calibration and test samples are the same: they can guarantee nothing.")
        return
    yield Text(_introduced(content, entry))
    yield _table(content, entry)
    if any(row["threshold"] is not None for row in entry["rows"]):
        yield Text(
            "Samples that were used to find a threshold cannot check it: test it on others, or let "
            "smallcal monitor watch it."
        )
    if entry["command"]:
        yield Command("certify", entry["command"], "Certify it")


def _introduced(content: Content, entry: Content) -> str:
    claim = claim_of(content)
    said = (
        f"A model may decide alone from some {claim.confidence} on, and leave the rest to others. "
        f"Exact tests on the {entry['n']:,} test samples, which {entry['method']} was not fitted "
        f"on, can promise this with {percent(entry['confidence'])} confidence, each risk on its "
        "own."
    )
    if entry["flattered"] == "chosen":
        said += " The method was chosen on these samples, so its results are slightly too good."
    return said


def _table(content: Content, entry: Content) -> Table:
    claim = claim_of(content)
    return table_of(
        "promise",
        f"What {entry['method']} could promise: at most this share of the accepted samples "
        f"{claim.are_wrong}.",
        [
            (Column("At most", number=False), lambda row: Cell(percent(row["risk"]))),
            (Column(f"{claim.confidence.capitalize()} from", number=False), _from),
            (Column("Accepted", "%", help="share of the test samples"), _accepted),
            (
                Column(claim.errors.capitalize(), number=False, help="among the accepted ones"),
                _errors,
            ),
            (
                Column("Bound", "%", help="the true share is at most this"),
                lambda row: cells.percent(row["bound"]),
            ),
        ],
        entry["rows"],
    )


def _from(row: Content) -> Cell:
    """Return the threshold, or why there is none."""
    if row["threshold"] is not None:
        return Cell(level_of(row["threshold"]), value=row["threshold"])
    return Cell("none qualifies", (f"best reachable: {rounded(row['best'])}",))


def _accepted(row: Content) -> Cell:
    if row["threshold"] is None:
        return cells.number(None)
    return cells.percent(row["coverage"], notes=[between(row["low"], row["high"], PERCENT)])


def _errors(row: Content) -> Cell:
    return (
        Cell("–") if row["threshold"] is None else Cell(f"{row['errors']:,} of {row['accepted']:,}")
    )


def _checked(content: Content, decision: Content, number_of: int) -> Iterator[Block]:
    """Show one certified threshold, and what it did to the test samples."""
    claim = claim_of(content)
    yield Heading(f"{decision['column']}: at most {percent(decision['risk'])}")
    said = decision["promise"]
    if decision["same_rows"]:
        said += " These test samples are those it was certified on, so they do not check it."
    if not decision["rows"]:
        said += " No test sample is of a group with a threshold, so this is not checked."
    elif decision["without_group"]:
        said += f" {decision['without_group']:,} test samples are of no group with a threshold."
    yield Text(said)
    if not decision["rows"]:
        return
    by = decision["by"]
    name: list[Filled] = [] if by == "all" else [words(by.capitalize(), "name")]
    rows = sorted(decision["rows"], key=lambda row: -row["n"])
    shown = rows[:_MOST]
    what = "accepted" if decision["rule"] == "accepted" else "all"
    among = "among these" if decision["rule"] == "accepted" else "among them, as a share of all"
    yield table_of(
        f"checked-{number_of}",
        f"On the test samples: those accepted, and {claim.errors} {among}.",
        [
            *name,
            (Column(f"{claim.confidence.capitalize()} from", number=False), _level),
            (Column("Accepted", "%", help="share of the test samples"), _share),
            (Column(claim.errors.capitalize(), number=False), _errors),
            (Column(claim.rate.capitalize(), "%", help=f"of {what} samples"), _rate),
            (Column("Promise", number=False), _verdict),
        ],
        shown,
        note=f"{len(rows) - _MOST:,} of fewer samples are not shown." if len(rows) > _MOST else "",
    )


def _level(row: Content) -> Cell:
    return Cell("never" if row["threshold"] is None else level_of(row["threshold"]))


def _share(row: Content) -> Cell:
    ends = between(row["low"], row["high"], PERCENT)
    return cells.percent(row["share"], notes=[f"of {row['n']:,}", ends])


def _rate(row: Content) -> Cell:
    return cells.percent(row["rate"], notes=[between(row["rate_low"], row["rate_high"], PERCENT)])


def _verdict(row: Content) -> Cell:
    text, tone = _VERDICTS[row["verdict"]]
    return Cell(text, tone=tone)
