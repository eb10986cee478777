"""Tables of groups: their temperatures, what one temperature leaves in them, who moves where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.clean import SPREAD, label_rows, number_of
from smallcal_lab.studies.tables.shift import at_severity, shifted_rows
from smallcal_lab.studies.tables.table import Number, Row, Table, heading_of

_FLOW = re.compile(r"flow_(\d+)_to_(\d+)")


def numbered(frame: Frame, pattern: str) -> list[int]:
    r"""Return the numbers in the names of metrics, such as those of groups, in order.

    Examples
    --------
    >>> rows = [{"metric": name} for name in ("temperature1", "temperature0", "temperature_low")]
    >>> numbered(Frame.of(rows), r"temperature(\d+)")
    [0, 1]
    """
    found = (re.fullmatch(pattern, name) for name in frame.unique("metric"))
    return sorted({int(one.group(1)) for one in found if one})


def temperatures(study: Study, frame: Frame) -> Table:
    """Show how far the temperatures of an entry's groups lie apart."""
    metrics = ("temperature_low", "temperature_high", "temperature_ratio")
    more = [m for m in ("hcfp90_of_all",) if m in frame.unique("metric")]
    rows = frame.where(set=CLEAN, metric=[*metrics, *more])

    def cells(own: Frame, label: str) -> Iterator[Row]:
        fitted = (number_of(own.values(metric, label), metric) for metric in metrics)
        others = (number_of(own.values(metric, label), metric) for metric in more)
        yield *(replace(number, digits=3) for number in fitted), *others

    note = f"Lowest and highest temperature of a fit's groups, and their ratio; {SPREAD}."
    if more:
        note += " High-confidence errors, of all: as a share of all samples, not of the errors."
    return Table(
        "temperatures",
        "Temperatures of groups",
        ("samples", "models", "method", "lowest T", "highest T", "ratio", *map(heading_of, more)),
        label_rows(rows, cells),
        note,
    )


def group_gaps(study: Study, frame: Frame) -> Table:
    """Show what one temperature leaves in each group, and what the group's own does."""
    rows = frame.where(set=CLEAN)
    groups = numbered(rows, r"accuracy_group(\d+)")

    def cells(own: Frame, label: str) -> Iterator[Row]:
        for group in groups:
            names = ("share_of_group", "temperature", "accuracy_group", "gap_one_group")
            metrics = [f"{name}{group}" for name in (*names, "gap_group")]
            if metrics[0] in own.unique("metric"):
                yield str(group), *(number_of(own.values(m, label), m) for m in metrics)

    return Table(
        "group-gaps",
        "Remaining gaps of groups",
        (
            *("samples", "models", "method", "group", "samples %", "T"),
            *("accuracy %", "gap at one T %", "gap %"),
        ),
        label_rows(rows, cells),
        "On the test split; groups are counted from 0, lowest risk first. Gap: confidence minus "
        "accuracy, at one temperature for all (tva-ts) and at the temperature of the group; "
        f"{SPREAD}.",
    )


def flow(study: Study, frame: Frame) -> Table:
    """Show from which group of the clean samples those of each group under shift came."""
    rows = shifted_rows(frame.where(metric=[m for m in frame.unique("metric") if _FLOW.match(m)]))
    groups = numbered(rows, r"flow_(\d+)_to_\d+")
    severities = sorted(rows.unique("severity"))

    def cells(own: Frame, label: str) -> Iterator[Row]:
        there = numbered(own, r"flow_(\d+)_to_\d+")
        for severity in severities:
            some = at_severity(own, severity)
            for start in there if len(some) else ():
                yield str(severity), str(start), *_flow_row(some, label, start, groups)

    return Table(
        "flow",
        "From the clean group to the shifted one",
        (
            *("samples", "models", "method", "severity", "clean group", "all %"),
            *(f"to group {group} %" for group in groups),
        ),
        label_rows(rows, cells),
        "Share of all samples, of paired sets: by the group of the clean version and that of "
        "the shifted sample. Groups are counted from 0, lowest scores first. Mean over the sets "
        f"of a severity, then {SPREAD}. Pairs are not needed, and not used, to apply a calibrator.",
    )


def _flow_row(frame: Frame, label: str, start: int, groups: list[int]) -> Iterator[Number]:
    """Yield the share of a clean group, and of what goes from it to each group."""
    parts = [frame.values(f"flow_{start}_to_{end}", label) for end in groups]
    known = [part for part in parts if part]
    whole = {
        cell: [sum(values) for values in zip(*(part[cell] for part in known), strict=True)]
        for cell in known[0]
    }
    for part in (whole, *parts):
        yield number_of(part, "flow")
