"""What a run gave: its rows, its tables, and what failed."""

from __future__ import annotations

from dataclasses import dataclass

from smallcal.studies.frame import FAILED, Frame, Rows
from smallcal.studies.study import Study
from smallcal.studies.tables.catalogue import tables_of
from smallcal.studies.tables.table import Table


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run gave.

    Attributes
    ----------
    frame : Frame
        Every row.
    tables : tuple of Table
    failures : tuple of str
        One line for each unit that failed.
    notes : tuple of str
        What the reader should know of how it was made, such as parts that had to be done again.
    """

    frame: Frame
    tables: tuple[Table, ...]
    failures: tuple[str, ...]
    notes: tuple[str, ...] = ()


def outcome_of(study: Study, rows: Rows, *, notes: tuple[str, ...] = ()) -> Outcome:
    """Make the tables of all rows of a run, and list what failed."""
    failures = tuple(
        f"{row['cell']}, {row['label']}, budget {row['budget']}, draw {row['draw']}: {row['error']}"
        for row in rows
        if row["metric"] == FAILED
    )
    frame = Frame.of(rows)
    return Outcome(frame, tables_of(study, frame), failures, notes)
