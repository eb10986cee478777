"""What a study is made of: entries, units of work, and the rows they give.

A unit is one fit: a method on one draw of one cell's calibration split. It depends on nothing but
its own fields and the cell's files, so units can run in any order, anywhere, and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smallcal.data.predictions import IntArray
from smallcal.errors import InputError

#: Columns of the tidy table, with their types; every row has them all.
COLUMNS: Mapping[str, type] = {
    "cell": str,
    "dataset": str,
    "backbone": str,
    "seed": int,
    "budget": int,
    "draw": int,
    "label": str,
    "method": str,
    "set": str,
    "severity": int,
    "metric": str,
    "value": float,
    "error": str,
}

#: A budget that stands for the whole calibration split.
ALL = 0
#: The name of the test set that is not shifted.
CLEAN = "clean"
#: The metric of a row that says why a unit failed.
FAILED = "error"


@dataclass(frozen=True)
class Entry:
    """A method in a study: its label in tables, its name, its options."""

    label: str
    method: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The method's name; the label where none is given."""
        return self.method or self.label


@dataclass(frozen=True)
class Task:
    """All entries of a study on one draw of one cell: they share the data, so they go together."""

    cell: str
    budget: int
    draw: int

    @property
    def key(self) -> str:
        """A name for its file."""
        return f"{self.cell}__n{self.budget}__d{self.draw}"


def draw_rows(labels: IntArray, budget: int, *, seed: int, draw: int) -> IntArray:
    """Return the rows of one draw, in order: stratified by class where that can be done.

    The seed is ``seed x 10**6 + budget x 10**3 + draw``, the paper's. With fewer samples than
    classes, or a class with one sample, rows are drawn without strata. A budget that is the whole
    split takes it as it is.

    Examples
    --------
    >>> draw_rows(np.arange(100) % 4, 20, seed=0, draw=1).shape
    (20,)
    >>> np.bincount(np.arange(100)[draw_rows(np.arange(100) % 4, 20, seed=0, draw=1)] % 4).tolist()
    [5, 5, 5, 5]
    """
    n = len(labels)
    if budget in (ALL, n):
        return np.arange(n)
    if not 0 < budget <= n:
        raise InputError(f"a budget of {budget:,} samples cannot be drawn from {n:,}")
    state = seed * 10**6 + budget * 10**3 + draw
    counts = np.unique(labels, return_counts=True)[1]
    if counts.min() >= 2 and min(budget, n - budget) >= len(counts):
        from sklearn.model_selection import train_test_split

        taken, _ = train_test_split(
            np.arange(n), train_size=budget, stratify=labels, random_state=state % 2**32
        )
        return np.sort(taken)
    rng = np.random.default_rng(state)
    return np.sort(rng.choice(n, budget, replace=False))


class Frame:
    """The tidy table as columns; small enough for plain NumPy.

    Examples
    --------
    >>> rows = [{"cell": "a", "metric": "nll", "value": v} for v in (1.0, 2.0)]
    >>> Frame.of(rows).where(cell="a")["value"].tolist()
    [1.0, 2.0]
    """

    def __init__(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.columns = dict(columns)

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Frame:
        """Make a frame of rows; what a row does not say is empty."""
        made: dict[str, np.ndarray[Any, Any]] = {}
        for name, kind in COLUMNS.items():
            values = [row.get(name, kind()) for row in rows]
            made[name] = np.array(values, dtype=object if kind is str else kind)
        return cls(made)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values())))

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column."""
        return self.columns[name]

    def where(self, **wanted: object) -> Frame:
        """Return the rows whose columns equal these values; a list means any of them."""
        keep = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            column = self.columns[name]
            if isinstance(value, list | tuple | set | frozenset):
                keep &= np.isin(column, list(value))
            else:
                keep &= column == value
        return Frame({name: column[keep] for name, column in self.columns.items()})

    def unique(self, name: str) -> list[Any]:
        """Return a column's different values, in order of appearance."""
        return list(dict.fromkeys(self.columns[name].tolist()))

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Frame]]:
        """Yield each combination of values with its rows, in order of appearance."""
        keys = list(zip(*(self.columns[name].tolist() for name in names), strict=True))
        order: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(keys):
            order.setdefault(key, []).append(row)
        for key, rows in order.items():
            index = np.array(rows)
            yield key, Frame({name: column[index] for name, column in self.columns.items()})

    def rows(self) -> Iterable[dict[str, Any]]:
        """Yield rows as dictionaries."""
        lists = {name: column.tolist() for name, column in self.columns.items()}
        for i in range(len(self)):
            yield {name: values[i] for name, values in lists.items()}
