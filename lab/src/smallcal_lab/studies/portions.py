"""Which columns and rows of a file a cell sees.

First the columns of its classes: labels are renumbered, rows of other classes are left out. Then
its rows: a draw, or what a draw left over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smallcal.data.checks import FloatArray, IntArray, as_labels
from smallcal.errors import FileError, InputError
from smallcal_lab.studies.frame import ALL

#: How rows are drawn: at random with the shares of the classes, at random and as many of each
#: class, the first of each class, the first of the file.
WAYS = ("stratified", "per-class", "first-per-class", "first")
#: Ways that give the same rows whatever the seed and the draw.
FIXED = ("first-per-class", "first")

#: What labels count: all columns of their file, or the classes that were chosen.
COLUMNS, CLASSES = "columns", "classes"
#: Every column, for a shifted set whose file has no others.
EVERY = "all"
#: Columns as a description names them: numbers, a range, a text file, or "all".
Classes = str | tuple[int, ...]

_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")


def draw_rows(
    labels: IntArray, budget: int, *, seed: int, draw: int, way: str = "stratified"
) -> IntArray:
    """Return the rows of one draw, in order; a budget of 0 is all of them.

    The random state is ``seed x 10**6 + budget x 10**3 + draw``, the paper's. Stratified draws of
    fewer samples than classes, or with a class of one sample, are drawn without strata.

    Examples
    --------
    >>> labels = np.arange(100) % 4
    >>> np.bincount(labels[draw_rows(labels, 20, seed=0, draw=1)]).tolist()
    [5, 5, 5, 5]
    """
    n = len(labels)
    if budget in (ALL, n):
        return np.arange(n)
    if not 0 < budget <= n:
        raise InputError(f"a budget of {budget:,} samples cannot be drawn from {n:,}")
    if way == "first":
        return np.arange(budget)
    state = seed * 10**6 + budget * 10**3 + draw
    rng = np.random.default_rng(state)
    classes, counts = np.unique(labels, return_counts=True)
    if way != "stratified":
        each, over = divmod(budget, len(classes))
        if over:
            raise InputError(
                f"{budget:,} samples cannot be divided equally among {len(classes):,} classes; "
                f"{each * len(classes):,} or {(each + 1) * len(classes):,} can"
            )
        if counts.min() < each:
            rare = f"class {classes[counts.argmin()]} has only {counts.min():,} samples"
            raise InputError(f"{each:,} of each class: {rare}")
        own = [np.flatnonzero(labels == one) for one in classes]
        if way == "first-per-class":
            return np.sort(np.concatenate([rows[:each] for rows in own]))
        return np.sort(np.concatenate([rng.choice(rows, each, replace=False) for rows in own]))
    if counts.min() >= 2 and min(budget, n - budget) >= len(counts):
        from sklearn.model_selection import train_test_split

        rows, _ = train_test_split(
            np.arange(n), train_size=budget, stratify=labels, random_state=state % 2**32
        )
        return np.sort(rows)
    return np.sort(rng.choice(n, budget, replace=False))


@dataclass(frozen=True)
class Split:
    """One file as calibration and test split: ``samples`` or ``per_class`` rows, and all others."""

    file: str
    samples: int = 0
    per_class: int = 0
    draw: str = "stratified"

    def rows(self, labels: IntArray, *, seed: int, part: str) -> IntArray:
        """Return the rows of "calibration", or the others."""
        size = self.samples or self.per_class * len(np.unique(labels))
        if size >= len(labels):
            raise InputError(f"split takes {size:,} of {len(labels):,} samples: none is left")
        try:
            taken = draw_rows(labels, size, seed=seed, draw=0, way=self.draw)
        except InputError as error:
            raise error.about("split") from error
        return taken if part == "calibration" else np.delete(np.arange(len(labels)), taken)


def rows_of_classes(
    scores: FloatArray, labels: object, columns: tuple[int, ...], *, counted: str
) -> tuple[IntArray, IntArray]:
    """Return the rows that belong to these classes, and their labels among them."""
    n, there = scores.shape
    if max(columns) >= there:
        raise InputError(f"classes: there is no column {max(columns)}, only 0 .. {there - 1}")
    if counted == CLASSES:
        return np.arange(n), as_labels(labels, n=n, n_classes=len(columns))
    number = np.full(there, -1)
    number[list(columns)] = np.arange(len(columns))
    own = number[as_labels(labels, n=n, n_classes=there)]
    rows = np.flatnonzero(own >= 0)
    if not len(rows):
        raise InputError("classes: no sample belongs to any of them")
    return rows, own[rows]


def class_file(classes: Classes) -> str:
    """Return the text file of columns that ``classes`` names, or nothing."""
    named = isinstance(classes, str) and classes != EVERY and not _RANGE.fullmatch(classes)
    return str(classes) if named else ""


def columns_of(classes: Classes, folder: Path) -> tuple[int, ...] | None:
    """Return the columns that ``classes`` stands for; None for all.

    Examples
    --------
    >>> columns_of("2-5", Path()), columns_of((7, 1), Path()), columns_of("all", Path())
    ((2, 3, 4, 5), (7, 1), None)
    """
    if classes in ("", EVERY):
        return None
    if isinstance(classes, str):
        ends = _RANGE.fullmatch(classes)
        whole = range(int(ends[1]), int(ends[2]) + 1) if ends else _numbers_in(folder / classes)
        columns = tuple(whole)
    else:
        columns = classes
    if len(columns) < 2 or min(columns) < 0:
        raise InputError(f"classes: give at least two columns, from 0; got {list(columns)[:5]}")
    if len(set(columns)) < len(columns):
        twice = next(one for one in columns if columns.count(one) > 1)
        raise InputError(f"classes: column {twice} occurs twice")
    return columns


def _numbers_in(file: Path) -> tuple[int, ...]:
    """Read a text file of whole numbers; what follows a # is a comment."""
    try:
        with file.open(encoding="utf-8", errors="replace") as handle:
            text = handle.read(16 * 1024 * 1024)  # more is no list of class numbers
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"classes: cannot read {file}: {why}") from None
    words = re.sub(r"#.*|,", " ", text).split()
    if wrong := next((word for word in words if not re.fullmatch(r"\d{1,9}", word)), ""):
        raise FileError(f"classes: {file} must hold column numbers only; it holds {wrong[:40]!r}")
    return tuple(map(int, words))
