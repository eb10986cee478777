"""The tidy table of a run, a row for each number, and the Parquet files that keep it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.calibrators.catalogue import ALIASES
from smallcal.errors import FileError
from smallcal.io.atomic import atomic_path

#: Columns of the tidy table, with their types; every row has them all.
COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("cell", "dataset", "backbone"), str),
    **dict.fromkeys(("seed", "budget", "draw"), int),
    **dict.fromkeys(("label", "method", "set"), str),
    "severity": int,
    "metric": str,
    "value": float,
    "error": str,
}

#: Rows as dictionaries; what one does not say is empty.
Rows = list[dict[str, Any]]
#: Where a number was measured: draw, set and severity.
Key = tuple[int, str, int]
#: Cell name to the values of its draws, in order.
Values = dict[str, list[float]]

#: A budget that stands for the whole calibration split.
ALL = 0
#: The name of the test set that is not shifted.
CLEAN = "clean"
#: The metric of a row that says why a unit failed.
FAILED = "error"
#: The column that keeps how many samples a fit had, where its budget is the whole split.
_SIZE = "size"

#: Where a file keeps its fingerprint. Parquet's own checksums leave out what describes columns.
_DIGEST = b"smallcal.sha256"


class Frame:
    """The tidy table; ``data`` is a pandas.DataFrame.

    Examples
    --------
    >>> rows = [{"cell": "a", "metric": "nll", "value": v} for v in (1.0, 2.0)]
    >>> Frame.of(rows).where(cell="a")["value"].tolist()
    [1.0, 2.0]
    """

    def __init__(self, columns: Any) -> None:
        import pandas as pd

        self.data = pd.DataFrame(columns)

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Frame:
        """Make a frame of rows; what a row does not say is empty."""
        kinds = {name: object if kind is str else kind for name, kind in COLUMNS.items()}
        return cls(cls(_columns(rows)).data.astype(kinds))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.data)

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column."""
        return np.asarray(self.data[name].to_numpy())

    @property
    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """Every column by name."""
        return {name: self[name] for name in self.data}

    def where(self, **wanted: object) -> Frame:
        """Return the rows whose columns equal these values; a list means any of them."""
        data = self.data
        for name, value in wanted.items():
            several = isinstance(value, list | tuple | set | frozenset)
            data = data[data[name].isin(value if several else [value])]
        return Frame(data)

    def unique(self, name: str) -> list[Any]:
        """Return a column's different values, in order of appearance."""
        return list(self.data[name].unique().tolist())

    def measured(self, wanted: Sequence[str]) -> list[str]:
        """Return the metrics that were measured: the wanted ones, or all if there are none."""
        there = self.unique("metric")
        known = [metric for metric in wanted if metric in there]
        return known or [metric for metric in there if metric != FAILED]

    @property
    def sizes(self) -> list[int]:
        """How many samples the fits had, in order; nothing where that is not known."""
        return sorted(set(self.unique(_SIZE if _SIZE in self.data else "budget")) - {ALL})

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
        for key, rows in self.data.groupby(list(names), sort=False, dropna=False):
            yield (
                tuple(one.item() if isinstance(one, np.generic) else one for one in key),
                Frame(rows),
            )

    def values(self, metric: str, label: str) -> Values:
        """Return a label's values of a metric: for each cell, its draws."""
        found = self.numbers.get((metric, label), {})
        return {cell: [value for _, value in numbers] for cell, numbers in found.items()}

    @cached_property
    def numbers(self) -> dict[tuple[str, str], dict[str, list[tuple[Key, float]]]]:
        """Values by metric and label, then by cell, each with its draw, set and severity."""
        found: dict[tuple[str, str], dict[str, list[tuple[Key, float]]]] = {}
        names = ["metric", "label", "cell", "draw", "set", "severity", "value"]
        columns = (self[name].tolist() for name in names)
        for metric, label, cell, draw, own, severity, value in zip(*columns, strict=True):
            cells = found.setdefault((metric, label), {})
            cells.setdefault(cell, []).append(((draw, own, severity), value))
        return found

    @cached_property
    def model(self) -> dict[str, tuple[str, str]]:
        """The model of each cell, as data set and backbone."""
        first = self.data.drop_duplicates("cell")[["cell", "dataset", "backbone"]]
        return {cell: (dataset, backbone) for cell, dataset, backbone in first.to_numpy().tolist()}

    def rows(self) -> Rows:
        """Return rows as dictionaries."""
        return list(self.data.to_dict("records"))


def as_shown(frame: Frame, budgets: Collection[int]) -> Frame:
    """Return rows as tables and figures show them, whatever was asked for to get them.

    A method has its true name, the one that it had when it was fitted. The whole split is one
    budget, so that models whose splits differ in size are taken together. ``budgets`` are the
    study's; 0 is the whole split.

    Examples
    --------
    >>> rows = [{"cell": cell, "budget": n, "label": "default", "method": "smallcal"}
    ...         for cell, n in (("a", 500), ("b", 800))]
    >>> shown = as_shown(Frame.of(rows), budgets=(0,))
    >>> shown.unique("label"), shown.unique("budget"), shown.samples, shown.sizes
    (['smallcal'], [0], 'all', [500, 800])
    """
    data = frame.data
    alias = data["label"].isin(ALIASES) & (data["method"] != "")
    fits = data[["cell", "budget"]].drop_duplicates()
    found = fits[~fits["budget"].isin(budgets)]
    if ALL not in budgets or found["cell"].duplicated().any():
        found = fits[:0]
    if fits["budget"].nunique() > 1 and not fits["cell"].duplicated().any():
        found = fits  # one budget for each cell, and not the same: their whole splits
    wholes = set(found.itertuples(index=False, name=None))
    whole = [fit in wholes for fit in zip(data["cell"], data["budget"], strict=True)]
    return Frame(
        data.assign(
            label=data["label"].mask(alias, data["method"]),
            budget=np.where(whole, ALL, data["budget"]),
            **{_SIZE: data[_SIZE if _SIZE in data else "budget"]},
        )
    )


def read_parquet(file: Path) -> Rows:
    """Read tidy rows, and make sure that they are those that were written."""
    rows: Rows = read_signed(file, COLUMNS, what="rows").to_pylist()
    return rows


def write_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write tidy rows, whole or not at all; equal rows give equal bytes."""
    write_signed(file, _columns(rows), COLUMNS)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row.get(name, kind()) for row in rows] for name, kind in COLUMNS.items()}


def _schema(kinds: Mapping[str, type]) -> Any:
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return pa.schema([(name, types[kind]) for name, kind in kinds.items()])


def write_signed(file: Path, columns: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Write columns of these types with their fingerprint, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(dict(columns), schema=_schema(kinds))
    with atomic_path(file) as path:
        signed = table.replace_schema_metadata({_DIGEST: _digest(table)})
        pq.write_table(signed, path, compression="zstd")


def read_signed(file: Path, kinds: Mapping[str, type], *, what: str) -> Any:
    """Read a pyarrow.Table, and make sure that it is the one that was written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
        own = table.schema.equals(_schema(kinds))
        whole = own and (table.schema.metadata or {}).get(_DIGEST) == _digest(table)
    except FileNotFoundError:
        raise FileError(f"{file} is missing: the run is not complete") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        said = " ".join(str(error).split())
        raise FileError(f"{file} cannot be read ({said}); delete it and run again") from None
    if not own:
        raise FileError(f"{file} does not hold the {what} of a study")
    if not whole:
        raise FileError(f"{file} is damaged; delete it and run again")
    return table


def _digest(table: Any) -> bytes:
    """Return a fingerprint of the rows."""
    from pandas.util import hash_pandas_object

    found = hash_pandas_object(table.to_pandas(), index=False)
    return hashlib.sha256(found.to_numpy().tobytes()).hexdigest().encode()
