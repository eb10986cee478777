"""A report in a notebook: its verdict and key numbers; the page itself is a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from smallcal.metrics import METRICS
from smallcal.plots.redraw import redraw
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import (
    Safe,
    beside,
    findings,
    label,
    said,
    shortened,
    small,
    table,
    tag,
    title,
)

if TYPE_CHECKING:
    from smallcal.reports.document import Report


def report_view(report: Report) -> Iterator[Safe]:
    """Show what to use, what it changes, what to take care of, and where the page is."""
    content = report.content
    judged = content["verdict"]
    yield title("Report", shortened(content["title"], 120))
    yield said(tag("b", judged["headline"]))
    word = "Judged" if judged["outcome"] == "worse" else "Recommended"
    yield said(f"{word}: {judged['recommended']}: {judged['reason']}.")
    yield findings((entry["level"], entry["text"]) for entry in judged["findings"])
    yield beside(_changes(content), _reliability(content))
    yield said(_measured_on(content), kind="note")
    yield _saved(report)


def _changes(content: Mapping[str, Any]) -> Safe:
    """Return the metrics that matter, before and after."""
    rows = []
    for entry in content["verdict"]["changes"]:
        unit = METRICS[entry["metric"]].unit
        verdict = entry.get("verdict") or ""
        said = label(verdict) if verdict in ("better", "worse", "tie") else tag("span", verdict)
        before, after = (_cell(unit, entry[key]) for key in ("before", "after"))
        rows.append([entry["called"], before, after, said])
    chosen = content["verdict"]["recommended"]
    return table(["metric", "uncalibrated", chosen, ""], rows, words=(0, 3))


def _cell(unit: Any, entry: Mapping[str, Any]) -> Safe:
    value = tag("span", unit.value(entry["plain"]))
    low, high = entry["low"], entry["high"]
    return value if low is None or high is None else Safe(value + small(unit.interval(low, high)))


def _reliability(content: Mapping[str, Any]) -> Safe:
    for figure in content["figures"]:
        if figure["plot"] == "reliability":
            drawn = partial(_on, figure)
            return pictures.reliability(drawn, words=figure["alt"])
    return Safe("")


def _on(figure: Mapping[str, Any], ax: Any) -> None:
    redraw(figure["plot"], figure["data"], ax=ax)


def _measured_on(content: Mapping[str, Any]) -> str:
    cal, test = content["data"]["calibration"], content["data"]["test"]
    return (
        f"Fitted on {cal['n']:,} samples from {shortened(cal['source'])}, measured on "
        f"{test['n']:,} from {shortened(test['source'])}."
    )


def _saved(report: Report) -> Safe:
    """Say where the page is, or how to have it."""
    if report.saved:
        return said("Saved as", tag("code", shortened(report.saved[-1], 300)), ".")
    how = tag("code", 'report.save("report.html")')
    return said("Not saved yet:", how, "writes the whole page, with all tables and figures.")
