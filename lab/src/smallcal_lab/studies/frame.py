"""The tidy table of a run: a row for each number, as columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from smallcal.calibrators.catalogue import ALIASES

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

#: Rows as dictionaries; what one does not say is empty.
Rows = list[dict[str, Any]]
#: Cell name to the values of its draws, in order.
Values = dict[str, list[float]]
#: Draw, set and severity of a value.
Key = tuple[int, str, int]

#: A budget that stands for the whole calibration split.
ALL = 0
#: The name of the test set that is not shifted.
CLEAN = "clean"
#: The metric of a row that says why a unit failed.
FAILED = "error"
#: The column that keeps how many samples a fit had, where its budget is the whole split.
_SIZE = "size"


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

    def measured(self, wanted: Sequence[str]) -> list[str]:
        """Return the metrics that were measured: the wanted ones, or all if there are none."""
        there = self.unique("metric")
        known = [metric for metric in wanted if metric in there]
        return known or [metric for metric in there if metric != FAILED]

    @property
    def sizes(self) -> list[int]:
        """How many samples the fits had, in order; nothing where that is not known."""
        sizes = self.columns.get(_SIZE, self.columns["budget"])
        return sorted(set(sizes.tolist()) - {ALL})

    @property
    def samples(self) -> str:
        """How many samples the fits had, in a word: "all" where whole splits differ in size."""
        return f"{self.sizes[0]:,}" if len(self.sizes) == 1 else "all"

    def blocks(self) -> Iterator[tuple[str, str, Frame]]:
        """Yield (samples, models, rows): each budget, for each model and for all."""
        for _, rows in self.groups("budget"):
            models = list(rows.models())
            yield from models
            if len(models) > 1:
                yield rows.samples, "all", rows

    def models(self) -> Iterator[tuple[str, str, Frame]]:
        """Yield (samples, model, rows): each model at each budget."""
        for (_, dataset, backbone), rows in self.groups("budget", "dataset", "backbone"):
            yield rows.samples, f"{dataset} {backbone}", rows

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], Frame]]:
        """Yield each combination of values with its rows, in order of appearance."""
        keys = list(zip(*(self.columns[name].tolist() for name in names), strict=True))
        order: dict[tuple[Any, ...], list[int]] = {}
        for row, key in enumerate(keys):
            order.setdefault(key, []).append(row)
        for key, rows in order.items():
            index = np.array(rows)
            yield key, Frame({name: column[index] for name, column in self.columns.items()})

    def values(self, metric: str, label: str) -> Values:
        """Return a label's values of a metric: for each cell, its draws."""
        found = self.numbers.get((metric, label), {})
        return {cell: [value for _, value in numbers] for cell, numbers in found.items()}

    @cached_property
    def numbers(self) -> dict[tuple[str, str], dict[str, list[tuple[Key, float]]]]:
        """Values by metric and label, then by cell, each with its draw, set and severity."""
        found: dict[tuple[str, str], dict[str, list[tuple[Key, float]]]] = {}
        names = ("metric", "label", "cell", "draw", "set", "severity", "value")
        for metric, label, cell, *key, value in zip(
            *(self.columns[name].tolist() for name in names), strict=True
        ):
            own = found.setdefault((metric, label), {}).setdefault(cell, [])
            own.append(((key[0], key[1], key[2]), value))
        return found

    @cached_property
    def model(self) -> dict[str, tuple[str, str]]:
        """The model of each cell, as data set and backbone."""
        columns = (self.columns[name].tolist() for name in ("cell", "dataset", "backbone"))
        return {cell: (dataset, own) for cell, dataset, own in zip(*columns, strict=True)}

    def rows(self) -> Iterable[dict[str, Any]]:
        """Yield rows as dictionaries."""
        lists = {name: column.tolist() for name, column in self.columns.items()}
        for i in range(len(self)):
            yield {name: values[i] for name, values in lists.items()}


def as_shown(frame: Frame, budgets: Collection[int]) -> Frame:
    """Return rows as tables and figures show them, whatever was asked for to get them.

    A method has its true name, the one that it had when it was fitted. The whole split is one
    budget, so that models whose splits differ in size are taken together.

    Parameters
    ----------
    frame : Frame
    budgets : collection of int
        Those of the study; 0 is the whole split.

    Examples
    --------
    >>> rows = [{"cell": cell, "budget": n, "label": "default", "method": "smallcal"}
    ...         for cell, n in (("a", 500), ("b", 800))]
    >>> shown = as_shown(Frame.of(rows), budgets=(0,))
    >>> shown.unique("label"), shown.unique("budget"), shown.samples, shown.sizes
    (['smallcal'], [0], 'all', [500, 800])
    """
    labels = [
        method if label in ALIASES and method else label
        for label, method in zip(frame["label"].tolist(), frame["method"].tolist(), strict=True)
    ]
    keys = list(zip(frame["cell"].tolist(), frame["budget"].tolist(), strict=True))
    pairs = set(keys)
    sizes = {(cell, n) for cell, n in pairs if n not in budgets}
    if ALL not in budgets or _twice(sizes):
        sizes = set()
    if len({n for _, n in pairs}) > 1 and not _twice(pairs):
        sizes = pairs  # one budget for each cell, and not the same: their whole splits
    whole = np.array([key in sizes for key in keys], dtype=bool)
    shown = {
        "label": np.array(labels, dtype=object),
        "budget": np.where(whole, ALL, frame["budget"]),
        _SIZE: frame.columns.get(_SIZE, frame["budget"]),
    }
    return Frame({**frame.columns, **shown})


def _twice(pairs: Collection[tuple[str, int]]) -> bool:
    """Whether a cell is there with two budgets."""
    return len({cell for cell, _ in pairs}) < len(pairs)
