"""A monitor in a notebook: what to do, why, and how rows differ from those of the fit."""

from __future__ import annotations

from collections.abc import Iterator

from smallcal.data.claims import CLAIMS
from smallcal.deploy.monitor.monitor import Monitor
from smallcal.deploy.monitor.report import Report, Stream, p_value
from smallcal.metrics.units import PERCENT
from smallcal.reports.notebook import pictures
from smallcal.reports.notebook.markup import Safe, beside, label, said, table, tag, title

_LEVELS = {"fine": "fine", "label": "care", "certify": "bad", "refit": "bad"}


def monitor_view(monitor: Monitor) -> Iterator[Safe]:
    """Show what a monitor knows so far."""
    return report_view(monitor.report())


def report_view(report: Report) -> Iterator[Safe]:
    """Show the verdict, the findings in words, and the evidence."""
    about = f"of {report.method}: {report.rows:,} rows, {report.labelled:,} with labels"
    yield title("Monitor", about, label(_LEVELS[report.verdict], report.verdict))
    yield tag("ul", *(tag("li", sentence) for sentence in report.sentences[1:]))
    if report.rows:
        yield beside(_checks(report), _picture(report))


def _checks(report: Report) -> Safe:
    """Return each thing that is watched, and how sure it is that it changed."""
    rows = [
        [_called(report, each.name), f"{sum(each.counts):,}", _chance(each.log_e)]
        for each in report.streams
    ]
    rows.append(["all inputs", f"{report.rows:,}", _chance(report.drift_log_e)])
    if report.labelled:
        claim = CLAIMS[report.input]
        what = f"{claim.accuracy} against {claim.confidence}"
        rows.append([what, f"{report.labelled:,}", _chance(report.gap_log_e)])
    caption = f"Alarm where p is at most {report.alpha:g}, however often one looks"
    gap = report.gap
    told = ""
    if gap.gap is not None:
        ends = PERCENT.interval(gap.low, gap.high, signed=True)
        told = f"Gap {PERCENT.difference(gap.gap)} ({ends}), {100 * report.tolerance:g} allowed."
    note = said(told, kind="note") if told else ""
    return Safe(table(["watched", "rows", "p"], rows, caption=caption) + note)


def _called(report: Report, name: str) -> str:
    return CLAIMS[report.input].confidence if name == "confidence" else name


def _chance(log_e: float) -> str:
    p = p_value(log_e)
    return f"{p:.2g}" if p > 1e-99 else "below 1e-99"


def _picture(report: Report) -> Safe:
    """Draw the confidences of the rows seen, in tenths of the calibration split."""
    stream: Stream = report.streams[0]
    shares = [
        [each / max(sum(counts), 1) for each in counts]
        for counts in (stream.counts, stream.reference)
    ]
    what = _called(report, stream.name)
    pairs = zip(*shares, strict=True)
    each = [f"{100 * now:.1f} % (was {100 * then:.1f} %)" for now, then in pairs]
    words = f"Share of rows in parts of the calibration split by {what}, lowest first: "
    label = f"tenths of the split by {what}, lowest first"
    return pictures.steps(*shares, label=label, words=words + ", ".join(each))
