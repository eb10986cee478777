"""What the plots of studies are given: a run's folder, its rows, or plain columns."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from smallcal.calibrators.catalogue import true_name
from smallcal.errors import InputError
from smallcal.plots.twins import documented
from smallcal_lab.studies.catalogue import study_named
from smallcal_lab.studies.engine import Outcome, recorded
from smallcal_lab.studies.frame import CLEAN, COLUMNS, FAILED, Frame, as_shown
from smallcal_lab.studies.study import Study
from smallcal_lab.studies.tables.shift import shifted_rows

#: Rows alone do not say which study they are of; with the study they do.
RunLike: TypeAlias = (
    str
    | os.PathLike[str]
    | Frame
    | Outcome
    | Mapping[str, Any]
    | tuple[Study, Frame]
    | tuple[Study, Outcome]
)

#: What columns must hold at least, and what the others are where they are not given.
_NEEDED = ("cell", "dataset", "backbone", "label", "metric", "value")
_USUAL: Mapping[str, Any] = {"set": CLEAN}


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


@documented
def open_run(
    run: RunLike,
    usual: str,
    *,
    metric: str | None = None,
    baseline: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> Run:
    """Return the rows of a run that are asked for, with a study of one metric.

    Parameters
    ----------
    usual : str
        The study that rows are taken to be of where nothing says so.

    Raises
    ------
    InputError
        If there are no such rows, or no such metric or baseline.

    Examples
    --------
    >>> rows = {"cell": ["a"], "dataset": ["toy"], "backbone": ["mlp"], "label": ["tva-ts"],
    ...         "metric": ["nll"], "value": [0.5]}
    >>> open_run(rows, "budget").metric
    'nll'
    """
    study, frame = _opened(run, usual)
    frame = _only(_as_asked(study, frame), where or {})
    there = frame.unique("metric")
    chosen = metric if metric is not None else next(iter(frame.measured(study.metrics)), FAILED)
    require_one_of("metric", chosen, there)
    labels = frame.where(metric=chosen).unique("label")
    base = name_in(labels, study.baseline if baseline is None else baseline)
    require_one_of("baseline", base, labels)
    return Run(replace(study, metrics=(chosen,), baseline=base), frame)


@documented
def open_rows(run: RunLike, usual: str, *, where: Mapping[str, Any] | None = None) -> Run:
    """Return the rows of a run that are asked for, for a figure without metric and baseline.

    Parameters
    ----------
    usual : str
        The study that rows are taken to be of where nothing says so.

    Raises
    ------
    InputError
        If there are no such rows.

    Examples
    --------
    >>> rows = {"cell": ["a"], "dataset": ["toy"], "backbone": ["mlp"], "label": ["margin-k3"],
    ...         "metric": ["flow_0_to_0"], "value": [0.5]}
    >>> len(open_rows(rows, "risk-flow").frame)
    1
    """
    study, frame = _opened(run, usual)
    frame = _only(_as_asked(study, frame), where or {})
    return Run(replace(study, metrics=study.metrics or (frame.unique("metric")[0],)), frame)


def require_one_of(what: str, name: str, there: Iterable[str]) -> None:
    """Raise unless a name is among those that were measured."""
    names = list(there)
    if name not in names:
        raise InputError(
            f"{what} {name!r} was not measured in this run; it has {', '.join(names) or 'nothing'}"
        )


def _opened(run: RunLike, usual: str) -> tuple[Study, Frame]:
    if isinstance(run, str | os.PathLike):
        return recorded(Path(run))
    if isinstance(run, tuple) and len(run) == 2 and isinstance(run[0], Study):
        return run[0], _opened(run[1], usual)[1]
    if isinstance(run, Outcome):
        return study_named(usual), run.frame
    if isinstance(run, Frame):
        return study_named(usual), run
    if isinstance(run, Mapping):
        return study_named(usual), _frame(run)
    raise InputError(
        "run must be a run's folder, its rows (outcome.frame), columns by name, or "
        f"(study, rows); got {type(run).__name__}"
    )


def _frame(columns: Mapping[str, Any]) -> Frame:
    """Make a frame of columns; what is not given is empty, and the set is the clean one."""
    unknown = [str(name) for name in columns if name not in COLUMNS]
    missing = [name for name in _NEEDED if name not in columns]
    if unknown or missing:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(unknown)}"
        raise InputError(f"run {wrong}; its columns must be among {', '.join(COLUMNS)}")
    lists = {name: np.asarray(column).tolist() for name, column in columns.items()}
    sizes = {name: len(column) for name, column in lists.items()}
    if len(set(sizes.values())) != 1:
        raise InputError(f"the columns of run differ in length: {sizes}")
    rows = zip(*lists.values(), strict=True)
    return Frame.of([{**_USUAL, **dict(zip(lists, row, strict=True))} for row in rows])


def _as_asked(study: Study, frame: Frame) -> Frame:
    """Return the rows of what did not fail, as the tables show them."""
    known = frame.where(metric=[m for m in frame.unique("metric") if m != FAILED])
    return as_shown(known, study.budgets)


def _only(frame: Frame, where: Mapping[str, Any]) -> Frame:
    for name in where:
        if name not in COLUMNS:
            raise InputError(f"where names {name!r}; the columns are {', '.join(COLUMNS)}")
    names, there = where.get("label"), frame.unique("label")
    if isinstance(names, str):
        where = {**where, "label": name_in(there, names)}
    elif isinstance(names, list | tuple | set | frozenset):
        where = {**where, "label": [name_in(there, name) for name in names]}
    kept = frame.where(**where)
    if not len(kept):
        raise InputError(f"run has no rows where {dict(where)}" if where else "run has no rows")
    return kept


def name_in(labels: Collection[str], name: str) -> str:
    """Return the label that a name such as ``default`` has among those of a run."""
    return name if name in labels else true_name(name)


def clean(run: Run) -> Run:
    """Return the run on clean samples alone."""
    frame = run.frame.where(set=CLEAN)
    if not len(frame):
        raise InputError("run has shifted sets only; this plot is of clean samples")
    return replace(run, frame=frame)


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
    and fall with who is in them. So of budgets, cells are kept that have all methods at all
    budgets; of severities, the corruptions of a cell that have all methods at all severities.
    """
    frame = run.frame
    rows = frame.where(metric=run.metric)
    unit: tuple[str, ...] = ("cell",)
    if along == "severity":
        rows, unit = shifted_rows(rows), ("cell", "set")
    seen: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    labels = rows.unique("label")
    points = {(place, label) for place in rows.unique(along) for label in labels}
    if along == "label":
        points = {(label, label) for label in labels}
    columns = (*unit, along, "label", "value")
    for *key, place, label, value in zip(*(rows[c].tolist() for c in columns), strict=True):
        there = seen.setdefault(tuple(key), set())
        if np.isfinite(value):
            there.add((place, label))
    full = {key for key, there in seen.items() if there == points}
    left_out = tuple(" ".join(map(str, key)) for key in seen if key not in full)
    if not full:
        raise InputError(
            f"nothing was measured with every method at every {along}: choose fewer of them, for "
            "instance where={'label': [...]}"
        )
    return replace(run, frame=_of_units(frame, unit, full)), left_out


def _of_units(frame: Frame, unit: tuple[str, ...], full: set[tuple[Any, ...]]) -> Frame:
    """Return the rows of these cells; of these sets, and the clean one, where sets are named."""
    if len(unit) == 2:
        full = full | {(cell, CLEAN) for cell, _ in full}
    keys = zip(*(frame[name].tolist() for name in unit), strict=True)
    keep = np.array([key in full for key in keys], dtype=bool)
    return Frame({name: column[keep] for name, column in frame.columns.items()})


def label_with(run: Run, metric: str, method: str | None, *, of: str) -> str:
    """Return the method that is asked for, or the first that has a metric; ``of`` for errors."""
    there = run.frame.where(metric=metric).unique("label")
    label = method if method is not None else next(iter(there), run.study.baseline)
    require_one_of(of, label, there)
    return label
