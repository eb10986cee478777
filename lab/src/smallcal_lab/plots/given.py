"""What the plots of studies are given: a run's folder, its rows, or plain columns."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from smallcal.calibrators.catalogue import true_name
from smallcal.errors import InputError
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.engine import Outcome, recorded
from smallcal_lab.studies.frame import CLEAN, COLUMNS, FAILED, Frame, as_shown
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.shift import shifted_rows

#: Rows alone do not say which study they are of; with the study they do.
RunLike: TypeAlias = (
    str | os.PathLike[str] | Frame | Outcome | Mapping[str, Any] | tuple[Study, Frame | Outcome]
)
#: Columns to a value or a list of values.
Where: TypeAlias = Mapping[str, Any] | None

#: What columns must hold at least.
_NEEDED = ("cell", "dataset", "backbone", "label", "metric", "value")


@dataclass(frozen=True, eq=False)
class Run:
    """A study and the rows to draw of it."""

    study: Study
    frame: Frame

    @property
    def metric(self) -> str:
        """The metric that is drawn."""
        return self.study.metrics[0]

    @property
    def labels(self) -> list[str]:
        """The methods that were measured by it."""
        return self.frame.where(metric=self.metric).unique("label")

    def only(self, **wanted: object) -> Run:
        """Return the run with fewer rows."""
        return replace(self, frame=self.frame.where(**wanted))


def open_run(
    run: RunLike,
    usual: str,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Where = None,
) -> Run:
    """Return the rows of a run that are asked for, with a study of one metric.

    ``usual`` is the study that rows are taken to be of where nothing says so.
    """
    opened = open_rows(run, usual, where=where)
    frame, study = opened.frame, opened.study
    chosen = metric if metric is not None else next(iter(frame.measured(study.metrics)), FAILED)
    require_one_of("metric", chosen, frame.unique("metric"))
    labels = frame.where(metric=chosen).unique("label")
    base = name_in(labels, study.baseline if baseline is None else baseline)
    require_one_of("baseline", base, labels)
    return Run(replace(study, metrics=(chosen,), baseline=base), frame)


def open_rows(run: RunLike, usual: str, *, where: Where = None) -> Run:
    """Return the rows of a run that are asked for, for a figure without metric and baseline."""
    study, given = cast("Study | None", None), cast(object, run)
    match run:
        case str() | os.PathLike():
            study, given = recorded(Path(run))
        case (Study(), _):
            study, given = run
    frame = given.frame if isinstance(given, Outcome) else given
    if isinstance(frame, Mapping):
        frame = _frame_of(frame)
    if not isinstance(frame, Frame):
        raise InputError(
            "run must be a run's folder, its rows (outcome.frame), columns by name, or "
            f"(study, rows); got {type(run).__name__}"
        )
    study = study or study_named(usual)
    known = frame.where(metric=[m for m in frame.unique("metric") if m != FAILED])
    frame = _chosen(as_shown(known, study.budgets), where or {})
    return Run(replace(study, metrics=study.metrics or (frame.unique("metric")[0],)), frame)


def _frame_of(columns: Mapping[str, Any]) -> Frame:
    """Make a frame of columns; what is not given is empty, and the set is the clean one."""
    if not set(_NEEDED) <= set(columns) <= set(COLUMNS):
        raise InputError(
            f"run has the columns {', '.join(map(str, columns))}; it needs {', '.join(_NEEDED)}, "
            f"and may have {', '.join(name for name in COLUMNS if name not in _NEEDED)}"
        )
    lists = [np.asarray(column).tolist() for column in columns.values()]
    if len(set(map(len, lists))) != 1:
        raise InputError("the columns of run differ in length")
    rows = zip(*lists, strict=True)
    return Frame.of([{"set": CLEAN, **dict(zip(columns, row, strict=True))} for row in rows])


def _chosen(frame: Frame, where: Mapping[str, Any]) -> Frame:
    for name in where:
        if name not in COLUMNS:
            raise InputError(f"where names {name!r}; the columns are {', '.join(COLUMNS)}")
    if "label" in where:
        names, there = where["label"], frame.unique("label")
        names = [names] if isinstance(names, str) else names
        where = {**where, "label": [name_in(there, name) for name in names]}
    kept = frame.where(**where)
    if not len(kept):
        raise InputError(f"run has no rows where {dict(where)}" if where else "run has no rows")
    return kept


def require_one_of(what: str, name: object, there: Iterable[object]) -> None:
    """Raise unless a name is among those that were measured."""
    names = list(there)
    if name not in names:
        known = ", ".join(map(str, names)) or "nothing"
        raise InputError(f"{what} '{name}' was not measured in this run; it has {known}")


def name_in(labels: Collection[str], name: str) -> str:
    """Return the label that a name such as ``default`` has among those of a run."""
    return name if name in labels else true_name(name)


def label_with(run: Run, metric: object, method: str | None, *, of: str) -> str:
    """Return the method that is asked for, or the first that has a metric; ``of`` for errors."""
    there = run.frame.where(metric=metric).unique("label")
    label = method if method is not None else next(iter(there), run.study.baseline)
    require_one_of(of, label, there)
    return label


def clean(run: Run) -> Run:
    """Return the run on clean samples alone."""
    found = run.only(set=CLEAN)
    if not len(found.frame):
        raise InputError("run has shifted sets only; this plot is of clean samples")
    return found


def one_budget(run: Run) -> Run:
    """Return the run if it has one budget, which curves along something else need."""
    budgets = run.frame.unique("budget")
    if len(budgets) > 1:
        raise InputError(
            f"run has the budgets {', '.join(map(str, sorted(budgets)))}: choose one, for "
            f"instance where={{'budget': {max(budgets)}}}"
        )
    return run


def measured_at_all(run: Run, along: str) -> tuple[Run, tuple[str, ...]]:
    """Return the rows of what was measured everywhere along an axis, and what is left out.

    A curve whose points are means of different models, or of different corruptions, would rise
    and fall with who is in them: of budgets, cells are kept that have all methods at all budgets;
    of severities, the corruptions of a cell that have all methods at all severities.
    """
    rows, unit = run.frame.where(metric=run.metric), ["cell"]
    if along == "severity":
        rows, unit = shifted_rows(rows), ["cell", "set"]
    axes = list(dict.fromkeys([along, "label"]))
    points = math.prod(len(rows.unique(axis)) for axis in axes)
    finite = rows.data[np.isfinite(rows["value"])]
    found = finite.drop_duplicates([*unit, *axes]).value_counts(unit)
    full = set(found.index[found == points])
    if not full:
        raise InputError(
            f"nothing was measured with every method at every {along}: choose fewer of them, for "
            "instance where={'label': [...]}"
        )
    keys = dict.fromkeys(rows.data[unit].itertuples(index=False, name=None))
    left_out = tuple(" ".join(key) for key in keys if key not in full)
    if along == "severity":
        full |= {(cell, CLEAN) for cell, _ in full}
    data = run.frame.data
    keep = [key in full for key in data[unit].itertuples(index=False, name=None)]
    return replace(run, frame=Frame(data[keep])), left_out
