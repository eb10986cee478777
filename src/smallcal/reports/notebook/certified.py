"""Certified thresholds in a notebook: what is promised, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from smallcal.advice.certify_words import Certificate, Certification, Certified, level_of, percent
from smallcal.data.claims import CLAIMS
from smallcal.metrics.units import PERCENT, SHARE
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import (
    Safe,
    beside,
    label,
    named,
    said,
    table,
    tag,
    title,
)
from smallcal.reports.notebook.pictures import Axis, Bar


def certification_view(found: Certification) -> Iterator[Safe]:
    """Show each risk: the promise or why there is none, the counts, and the bounds."""
    method = found.calibrator.method
    yield title("Certified thresholds", f"of {method}")
    for each in found.certificates:
        yield from _certificate(each)
    if found.together:
        yield said(found.together, kind="note")


def _certificate(found: Certificate) -> Iterator[Safe]:
    level = ("fine", "certified") if found.found else ("care", "none qualifies")
    yield said(tag("b", f"Risk {percent(found.risk)}"), label(*level))
    yield said(*found.sentences)
    if found.found:
        yield beside(_rows(found), _bounds(found))


def _rows(found: Certificate) -> Safe:
    claim = CLAIMS[found.input]
    who = "samples" if found.by == "all" else found.by
    sure = f"{claim.confidence} from"
    heads = [who, sure, "labelled", "accepted", "share", claim.failed, "at most"]
    rows = (
        [
            named(row.name or "all"),
            "never" if row.threshold is None else level_of(row.threshold),
            f"{row.n:,}",
            f"{row.accepted:,}",
            SHARE.value(row.coverage),
            f"{row.errors:,}",
            "" if row.bound is None else PERCENT.value(row.bound),
        ]
        for row in _largest_first(found)
    )
    more = "groups" if found.by == "group" else "classes"
    return table(heads, rows, total=len(found.rows), more=more)


def _largest_first(found: Certificate) -> list[Certified]:
    return sorted(found.rows, key=lambda row: -row.n)


def _bounds(found: Certificate) -> Safe:
    """Draw the share of errors that was seen, up to its bound, against the risk."""
    able = [row for row in _largest_first(found) if row.bound is not None and _tried(found, row)]
    rows = []
    for row in able[: pictures.MOST_ROWS]:
        seen, bound, name = row.errors / _tried(found, row), row.bound or 0.0, row.name or "all"
        told = f"{name}: {PERCENT.value(seen)} seen, at most {PERCENT.value(bound)}"
        rows.append(Bar(name, seen, seen, bound, told))
    claim = CLAIMS[found.input]
    axis = Axis(f"{claim.rate} seen, to its bound (%)", line=found.risk, percent=True)
    words = f"Risk {percent(found.risk)}. " + "; ".join(row.tip for row in rows)
    return pictures.bars(rows, axis, total=len(able), words=words)


def _tried(found: Certificate, row: Certified) -> int:
    """Return the rows that errors are a share of."""
    return row.accepted if found.rule == "accepted" else row.n
