"""Look at a collection before any work is spent on it: everything that would spoil a study."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
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
from smallcal_lab.studies.portions import CLASSES, FIXED, Portion

ERROR = "error"
NOTE = "note"

#: Real data hold a few equal rows by chance (a text said twice); from this share on it is a leak.
LEAK_SHARE = 0.01

_SHOWN_ROWS = 5

#: A cell's problem: file, what, severity.
Flaw = tuple[str, str, str]
#: What was read where: file and portion, by the place that has it.
Used = dict[tuple[str, str | None, object], tuple[str, Cell]]


@dataclass(frozen=True)
class Problem:
    """Something wrong, or worth knowing, about one cell.

    Attributes
    ----------
    cell : str
        The cell's name.
    file : str
        As ``collection.toml`` names it; empty where it is not about one file.
    what : str
        What is wrong, in words.
    severity : {"error", "note"}
        An error would invalidate results; a note would not.
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
    if not errors:
        return
    others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    raise InputError(
        f"{collection.folder} has problems that would invalidate a study: {errors[0]}{others}; ",
        python="fix it (check_collection lists all problems), or continue with force=True",
        shell="fix it (smallcal study check lists all problems)",
    )


def check_collection(
    collection: Collection, *, advance: Callable[[int], object] = lambda cells: None
) -> list[Problem]:
    """Return what is wrong with a collection; an empty list for nothing.

    Parameters
    ----------
    collection : Collection
    advance : callable, optional
        Called as each cell is done.

    Returns
    -------
    list of Problem
        In the order of the cells. A file that cannot be read is a problem, never an exception.

    Examples
    --------
    >>> from smallcal_lab.studies.collection import collection_of
    >>> cell = {"dataset": "a", "backbone": "b", "calibration": "no.npz:val", "test": "no.npz:test"}
    >>> found = check_collection(collection_of({"cell": [cell]}, Path(), source="an example"))
    >>> found[0].severity, found[0].what
    ('error', 'cannot read no.npz: No such file or directory')
    """
    found: list[Problem] = []
    used: Used = {}
    for cell in collection.cells:
        flaws = chain(_check_description(cell), _check_reuse(cell, used), _check_content(cell))
        # Both halves of a split are read from one file, and have what is wrong with it in common.
        found += [Problem(cell.name, *flaw) for flaw in dict.fromkeys(flaws)]
        advance(1)
    # Seeds of a split share their files: a note about one is made once.
    notes = {(one.file, one.what): one for one in reversed(found) if one.severity == NOTE}
    return [p for p in found if p.severity != NOTE or notes[p.file, p.what] is p]


def _check_description(cell: Cell) -> Iterator[Flaw]:
    """Names that files and tables cannot tell apart."""
    if set(cell.name) & set('/\\\0:*?"<>|'):
        yield "", "data set and backbone must be valid in file names", ERROR
    for (kind, severity), times in Counter((s.kind, s.severity) for s in cell.shifts).items():
        if times > 1:
            yield "", f"shift {kind}, severity {severity}, occurs twice", ERROR
        if kind == CLEAN:
            yield "", f"no shift may be called {CLEAN}: that is the test split", ERROR


def _check_reuse(cell: Cell, used: Used) -> Iterator[Flaw]:
    """One split in two places: a model tested on what it was calibrated on, or counted twice.

    One file may be split in many ways, and seen with other classes by another cell. Shifted sets
    may be shared by the seeds of a split: these are draws of one model.
    """
    own: dict[tuple[str, str | None], str] = {}
    roles: list[tuple[str, str | ShiftSet]] = [
        ("calibration split", "calibration"),
        ("test split", "test"),
        *((f"shift {shift.kind}-{shift.severity}", shift) for shift in cell.shifts),
    ]
    for role, which in roles:
        shifted = isinstance(which, ShiftSet)
        file = cell.file(which)
        path, prefix = split_path(cell.folder / file)
        with suppress(OSError, ValueError):  # no such name can exist, which reading it will tell
            path = Path(os.path.realpath(path))
        place, at = f"the {role} of {cell.name}", (str(path), prefix)
        first = own.setdefault(at, place)
        if first == place or (cell.split and not shifted):
            first, other = used.setdefault((*at, _seen_as(cell, which)), (place, cell))
            draws_of_one = (cell.dataset, cell.backbone) == (other.dataset, other.backbone) and (
                cell.split and other.split
            )
            if shifted and draws_of_one:
                continue
        if first != place:
            yield file, f"used as {role}, but it is already {first}", ERROR


def _seen_as(cell: Cell, which: str | ShiftSet) -> object:
    """Return what of a file a cell sees, so that two that see the same of it are found."""
    if isinstance(which, ShiftSet):
        classes, part, divided = which.classes or cell.classes, "test", which.paired
    else:
        classes, part, divided = cell.classes, which, True
    if cell.split is None or not divided:
        return classes
    return classes, cell.split, part, None if cell.split.draw in FIXED else cell.seed


def _check_content(cell: Cell) -> Iterator[Flaw]:
    """Read a cell's files, no more than three at a time, and compare them."""
    read: dict[str, Predictions] = {}
    order: tuple[str | ShiftSet, ...] = ("calibration", "test", *cell.shifts)
    for which in order:
        preds = yield from _read(cell, which)
        if preds is None:
            continue
        file = cell.file(which)
        if probabilities_like(preds.logits):
            yield file, "logits look like probabilities; name the array probabilities", ERROR
        for split, first in list(read.items())[:1]:
            if preds.n_classes != first.n_classes:
                columns = f"has {preds.n_classes} columns; the {split} split has {first.n_classes}"
                yield file, columns, ERROR
        if isinstance(which, ShiftSet):
            if "test" in read:
                yield from _check_pairs(cell, which, preds, read["test"])
            continue
        read[which] = preds
        if which == "calibration":
            yield from _check_calibration(file, preds)
        elif "calibration" in read:
            yield from _check_leak(file, read["calibration"], preds)


def _read(cell: Cell, which: str | ShiftSet) -> Generator[Flaw, None, Predictions | None]:
    """Return a split, or yield why there is none; not kept in memory, unlike a study's."""
    file = cell.file(which)
    try:
        portion = cell.portion(which)
        preds = portion.read()
    except (SmallcalError, OSError, ValueError, MemoryError) as error:
        said = " ".join(str(error).split())
        said = said.removeprefix(f"{cell.folder.absolute() / file}: ")
        given = "" if cell.folder == Path() else f"{cell.folder}{os.sep}"
        yield file, said.replace(f"{cell.folder.absolute()}{os.sep}", given), ERROR
        return None
    if portion.columns is not None and not (cell.split and which == "test"):
        yield from _check_classes(file, portion, portion.columns)
    return preds


def _check_classes(file: str, portion: Portion, columns: tuple[int, ...]) -> Iterator[Flaw]:
    """Rows that are left out, and labels that seem to count the chosen classes already."""
    labels = np.asarray(read_labels(portion.path))
    out = 0 if portion.labels == CLASSES else int((~np.isin(labels, columns)).sum())
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


def _check_calibration(file: str, calibration: Predictions) -> Iterator[Flaw]:
    try:
        calibration.require_fittable()
    except InputError as error:
        yield file, str(error), ERROR
    missing = calibration.n_classes - len(np.unique(calibration.labels))
    if missing:
        yield file, f"{missing} of {calibration.n_classes} classes have no sample", NOTE


def _check_leak(file: str, calibration: Predictions, test: Predictions) -> Iterator[Flaw]:
    """Rows of the test split that the calibration split holds too; scores may well be equal."""
    if calibration.score is not None or test.score is not None:
        return
    rows = shared_rows(calibration.logits, test.logits)
    if len(rows):
        what = f"{len(rows):,} of {test.n:,} rows have logits that the calibration split has too"
        severity = ERROR if len(rows) >= LEAK_SHARE * test.n else NOTE
        yield file, f"{what}: {_shown(rows)}", severity


def shared_rows(ours: FloatArray, theirs: FloatArray) -> IntArray:
    """Return the rows of ``theirs`` that are also rows of ``ours``.

    Examples
    --------
    >>> shared_rows(np.array([[1.0, 2.0]]), np.array([[3.0, 2.0], [1.0, 2.0]])).tolist()
    [1]
    """
    kind = np.promote_types(ours.dtype, theirs.dtype)
    # Plus zero: -0.0 and 0.0 are one number with two spellings.
    known, found = (
        [hash((row + kind.type(0)).tobytes()) for row in rows.astype(kind)]
        for rows in (ours, theirs)
    )
    return np.flatnonzero(np.isin(found, known))


def _check_pairs(
    cell: Cell, shift: ShiftSet, preds: Predictions, test: Predictions
) -> Iterator[Flaw]:
    """Rows that are the test split's and do not say so, or say so and are not."""
    same = np.array_equal(preds.labels, test.labels)
    if not shift.paired:
        if cell.split and np.array_equal(preds.labels, cell.portion("test").whole().labels):
            what = (
                "labels are those of the file that is split, in order: versions of the "
                "calibration samples are measured too; paired = true leaves them out"
            )
            yield shift.file, what, NOTE
        elif same and not cell.split:
            what = "labels are those of the test split, in order; set paired = true if its rows are"
            yield shift.file, f"{what} too", NOTE
    elif preds.n != test.n:
        what = f"paired, but it has {preds.n:,} rows and the test split {test.n:,}"
        yield shift.file, what, ERROR
    elif not same:
        rows = np.flatnonzero(preds.labels != test.labels)
        what = f"paired, but {len(rows):,} labels differ from the test split's: {_shown(rows)}"
        yield shift.file, what, ERROR


def _shown(rows: IntArray) -> str:
    """Name the first few rows, counted from 0."""
    first = ", ".join(str(row) for row in rows[:_SHOWN_ROWS])
    more = len(rows) - _SHOWN_ROWS
    return f"row{'s' if len(rows) > 1 else ''} {first}" + (f" and {more:,} more" * (more > 0))
