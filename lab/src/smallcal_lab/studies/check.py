"""Look at a collection before any work is spent on it: everything that would spoil a study."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from smallcal.data.checks import probabilities_like
from smallcal.data.predictions import FloatArray, IntArray, Predictions
from smallcal.errors import InputError, SmallcalError
from smallcal.io.paths import split_path
from smallcal.io.reading import read_labels
from smallcal_lab.studies.collection import Cell, Collection, ShiftSet
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.portions import COLUMNS, FIXED

ERROR = "error"
NOTE = "note"

#: Real data hold a few equal rows by chance (a text said twice); from this share on it is a leak.
LEAK_SHARE = 0.01

#: A cell's problem: file, what, severity.
Flaw = tuple[str, str, str]


@dataclass(frozen=True)
class Problem:
    """Something wrong, or worth knowing, about one cell.

    ``file`` is as ``collection.toml`` names it, empty where it is not about one file. A problem
    whose ``severity`` is "error" would invalidate results; a "note" would not.
    """

    cell: str
    file: str
    what: str
    severity: str = ERROR

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.cell, self.file, self.what)))


def require_sound(collection: Collection) -> None:
    """Raise :class:`~smallcal.errors.InputError` that names the first error and counts the rest."""
    errors = [problem for problem in check_collection(collection) if problem.severity == ERROR]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InputError(
            f"{collection.folder} has errors that would invalidate a study: {errors[0]}{more}; ",
            python="fix it (check_collection lists all problems), or continue with force=True",
            shell="fix it (smallcal study check lists all problems)",
        )


def check_collection(
    collection: Collection, *, advance: Callable[[int], object] = lambda cells: None
) -> list[Problem]:
    """Return what is wrong with a collection, in the order of its cells.

    A file that cannot be read is a problem, never an exception. ``advance`` is called as each cell
    is done.
    """
    found: list[Problem] = []
    used: dict[object, tuple[str, Cell]] = {}
    for cell in collection.cells:
        flaws = chain(_names(cell), _reuse(cell, used), _content(cell))
        # Both halves of a split are read from one file, and have what is wrong with it in common.
        found += [Problem(cell.name, *flaw) for flaw in dict.fromkeys(flaws)]
        advance(1)
    # Seeds of a split share their files: a note about one is made once.
    notes = {(one.file, one.what): one for one in reversed(found) if one.severity == NOTE}
    return [p for p in found if p.severity != NOTE or notes[p.file, p.what] is p]


def _names(cell: Cell) -> Iterator[Flaw]:
    """Names that files and tables cannot tell apart."""
    if set(cell.name) & set('/\\\0:*?"<>|'):
        yield "", "data set and backbone must be valid in file names", ERROR
    for (kind, severity), times in Counter((s.kind, s.severity) for s in cell.shifts).items():
        if times > 1:
            yield "", f"shift {kind}, severity {severity}, occurs twice", ERROR
        if kind == CLEAN:
            yield "", f"no shift may be called {CLEAN}: that is the test split", ERROR


def _reuse(cell: Cell, used: dict[object, tuple[str, Cell]]) -> Iterator[Flaw]:
    """One split in two places: a model tested on what it was calibrated on, or counted twice.

    One file may be split in many ways, and seen with other classes by another cell. Shifted sets
    may be shared by the seeds of a split: these are draws of one model.
    """
    own: dict[object, str] = {}
    for which in cell.sets:
        shift = which if isinstance(which, ShiftSet) else None
        role = f"shift {shift.kind}-{shift.severity}" if shift else f"{which} split"
        path, prefix = split_path(cell.folder / cell.file(which))
        with suppress(OSError, ValueError):  # no such name can exist, which reading it will tell
            path = Path(os.path.realpath(path))
        place, at = f"the {role} of {cell.name}", (str(path), prefix)
        first = own.setdefault(at, place)
        if first == place or (cell.split and not shift):
            first, other = used.setdefault((at, _seen(cell, which)), (place, cell))
            same_model = (cell.dataset, cell.backbone) == (other.dataset, other.backbone)
            if shift and same_model and cell.split and other.split:
                continue
        if first != place:
            yield cell.file(which), f"used as {role}, but it is already {first}", ERROR


def _seen(cell: Cell, which: str | ShiftSet) -> object:
    """Return what of a file a cell sees, so that two that see the same of it are found."""
    shift = which if isinstance(which, ShiftSet) else None
    classes = (shift and shift.classes) or cell.classes
    if cell.split is None or (shift and not shift.paired):
        return classes
    seed = None if cell.split.draw in FIXED else cell.seed
    return classes, cell.split, "test" if shift else which, seed


def _content(cell: Cell) -> Iterator[Flaw]:
    """Read a cell's files, no more than three at a time, and compare them."""
    read: dict[str, Predictions] = {}
    for which in cell.sets:
        file = cell.file(which)
        try:  # not kept in memory, unlike a study's
            preds = cell.load(which)
        except (SmallcalError, OSError, ValueError, MemoryError) as error:
            said = " ".join(str(error).split())
            folder = f"{cell.folder.absolute()}{os.sep}"
            given = "" if cell.folder == Path() else f"{cell.folder}{os.sep}"
            yield file, said.removeprefix(f"{folder}{file}: ").replace(folder, given), ERROR
            continue
        columns = cell.columns(which)
        counted = which.labels if isinstance(which, ShiftSet) else COLUMNS
        if columns and counted == COLUMNS and not (cell.split and which == "test"):
            yield from _left_out(file, read_labels(cell.folder / file), columns)
        yield from _compared(cell, which, preds, read)
        if isinstance(which, str):
            read[which] = preds


def _compared(
    cell: Cell, which: str | ShiftSet, preds: Predictions, read: dict[str, Predictions]
) -> Iterator[Flaw]:
    """Yield what is wrong with a split, alone and beside those that were read before."""
    file = cell.file(which)
    if probabilities_like(preds.logits):
        yield file, "logits look like probabilities; name the array probabilities", ERROR
    for split, first in list(read.items())[:1]:
        if preds.n_classes != first.n_classes:
            columns = f"has {preds.n_classes} columns; the {split} split has {first.n_classes}"
            yield file, columns, ERROR
    if which == "calibration":
        try:
            preds.require_fittable()
        except InputError as error:
            yield file, str(error), ERROR
        if missing := preds.n_classes - len(np.unique(preds.labels)):
            yield file, f"{missing} of {preds.n_classes} classes have no sample", NOTE
    elif which == "test" and "calibration" in read:
        yield from _leak(file, read["calibration"], preds)
    elif isinstance(which, ShiftSet) and "test" in read:
        yield from _pairs(cell, which, preds, read["test"])


def _left_out(file: str, given: object, columns: tuple[int, ...]) -> Iterator[Flaw]:
    """Rows that are left out, and labels that seem to count the chosen classes already."""
    labels = np.asarray(given)
    out = int((~np.isin(labels, columns)).sum())
    if out and labels.max() < len(columns) <= max(columns):
        what = (
            f"classes: the largest label is {labels.max():.0f}, as if labels counted the "
            f"{len(columns)} classes and not the columns; if they do in a shifted set, set "
            'labels = "classes" there'
        )
        yield file, what, ERROR
    elif out:
        what = f"classes: {out:,} of {len(labels):,} samples belong to other classes"
        yield file, f"{what} and are left out", NOTE


def _leak(file: str, calibration: Predictions, test: Predictions) -> Iterator[Flaw]:
    """Rows of the test split that the calibration split holds too; scores may well be equal."""
    if calibration.score is not None or test.score is not None:
        return
    rows = shared_rows(calibration.logits, test.logits)
    if len(rows):
        what = f"{len(rows):,} of {test.n:,} rows have logits that the calibration split has too"
        severity = ERROR if len(rows) >= LEAK_SHARE * test.n else NOTE
        yield file, f"{what}: {_shown(rows)}", severity


def shared_rows(ours: FloatArray, theirs: FloatArray) -> IntArray:
    """Return the rows of ``theirs`` that are also rows of ``ours``."""
    kind = np.promote_types(ours.dtype, theirs.dtype)
    # Plus zero: -0.0 and 0.0 are one number with two spellings.
    known = {(row + kind.type(0)).tobytes() for row in ours.astype(kind)}
    found = [(row + kind.type(0)).tobytes() in known for row in theirs.astype(kind)]
    return np.flatnonzero(found)


def _pairs(cell: Cell, shift: ShiftSet, preds: Predictions, test: Predictions) -> Iterator[Flaw]:
    """Rows that are the test split's and do not say so, or say so and are not."""
    same = np.array_equal(preds.labels, test.labels)
    if not shift.paired and cell.split:
        if np.array_equal(preds.labels, cell.load("test", whole=True).labels):
            what = (
                "labels are those of the file that is split, in order: versions of the "
                "calibration samples are measured too; paired = true leaves them out"
            )
            yield shift.file, what, NOTE
    elif not shift.paired and same:
        what = "labels are those of the test split, in order; set paired = true if its rows are too"
        yield shift.file, what, NOTE
    elif shift.paired and preds.n != test.n:
        what = f"paired, but it has {preds.n:,} rows and the test split {test.n:,}"
        yield shift.file, what, ERROR
    elif shift.paired and not same:
        rows = np.flatnonzero(preds.labels != test.labels)
        what = f"paired, but {len(rows):,} labels differ from the test split's: {_shown(rows)}"
        yield shift.file, what, ERROR


def _shown(rows: IntArray) -> str:
    """Name the first few rows, counted from 0."""
    first = ", ".join(map(str, rows[:5]))
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return f"row{'s' if len(rows) > 1 else ''} {first}{more}"
