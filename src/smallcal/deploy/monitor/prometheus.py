"""What a monitor has found in Prometheus' text format."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from smallcal.data.claims import CLAIMS
from smallcal.data.shown import visible

if TYPE_CHECKING:
    from smallcal.deploy.monitor.report import Report

Metric = tuple[str, str, list[tuple[dict[str, str], float]]]


def text(report: Report) -> str:
    """Return the findings of a report in Prometheus' text format."""
    lines: list[str] = []
    for name, about, values in _metrics(report):
        full = f"smallcal_monitor_{name}"
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {full} {about}", f"# TYPE {full} {kind}"]
        for labels, value in values:
            tags = {"method": report.method, **labels}
            inner = ",".join(f'{key}="{_escaped(tag)}"' for key, tag in tags.items())
            lines.append(f"{full}{{{inner}}} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _metrics(report: Report) -> Iterator[Metric]:
    """Yield name, help and values of each metric; a counter's name ends in ``_total``."""
    checks = [
        ("drift", report.drifted, report.drift_log_e),
        ("calibration", report.miscalibrated, report.gap_log_e),
    ]
    if report.decisions:
        most = max(each.log_e for each in report.decisions)
        checks.append(("decisions", report.broken, most))
    yield "rows_total", "Rows seen.", [({}, report.rows)]
    yield "labelled_rows_total", "Rows seen with labels.", [({}, report.labelled)]
    text = "1 where a check failed: drift, a gap beyond the tolerance, or a broken guarantee."
    yield "alarm", text, [({"check": name}, float(failed)) for name, failed, _ in checks]
    text = "Evidence of each check, base 10; the alarm is at -log10(alpha)."
    evidence = [({"check": name}, log_e / math.log(10)) for name, _, log_e in checks]
    yield "log10_e_value", text, evidence
    text = "Evidence of drift in each monitored quantity, base 10."
    evidence = [({"stream": s.name}, s.log_e / math.log(10)) for s in report.streams]
    yield "stream_log10_e_value", text, evidence
    yield from _shares(report)
    yield from _levels(report)
    yield from _decisions(report)


def _shares(report: Report) -> Iterator[Metric]:
    for stream in report.streams:
        if stream.name != "groups" or not report.rows:
            continue
        for name, counts, text in (
            ("group_share", stream.counts, "Share of rows in each group, lowest scores first."),
            ("group_reference_share", stream.reference, "The same in the calibration split."),
        ):
            total = sum(counts)
            shares = [({"group": str(i)}, count / total) for i, count in enumerate(counts)]
            yield name, text, shares


def _levels(report: Report) -> Iterator[Metric]:
    claim = CLAIMS[report.input]
    if report.confidence is not None:
        yield "confidence", f"Mean calibrated {claim.confidence}.", [({}, report.confidence)]
    if report.accuracy is not None:
        text = f"{claim.accuracy.capitalize()} of labelled rows."
        yield "accuracy", text, [({}, report.accuracy)]
    rows = [("all", report.gap), *((str(i), gap) for i, gap in enumerate(report.gaps))]
    known = [(group, gap) for group, gap in rows if gap.gap is not None]
    if known:
        text = (
            f"{claim.accuracy.capitalize()} minus mean calibrated {claim.confidence} of labelled "
            "rows, by group."
        )
        yield "gap", text, [({"group": g}, gap.gap or 0.0) for g, gap in known]
        for name, end in (("low", "Lower"), ("high", "Upper")):
            text = f"{end} end of the gap's interval, valid at all times."
            values = [({"group": g}, float(getattr(gap, name))) for g, gap in known]
            yield f"gap_{name}", text, values


def _decisions(report: Report) -> Iterator[Metric]:
    for name, about in (
        ("broken", "1 where a decision's guarantee is shown to be broken."),
        ("risk", "Error rate that a decision guarantees."),
        ("rate", "Error rate among the labelled rows that the guarantee covers."),
        ("low", "Lower end of that rate, valid at all times."),
        ("share", "Share of rows that a decision accepts."),
        ("share_before", "The same when it was certified."),
    ):
        found = [(each.name, getattr(each, name)) for each in report.decisions]
        values = [({"decision": of}, float(value)) for of, value in found if value is not None]
        if values:
            yield f"decision_{name}", about, values


def _escaped(text: str) -> str:
    return visible(text, keep="\n").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
