"""What a task keeps of its predictions, so that test samples can be resampled without the logits.

One file for each task, ``RUN/predictions/KEY.parquet``: a row for each method, test set and sample,
written whole or not at all, before the task's rows. It is there for a study one of whose tables
needs it, and holds the sets that those tables are about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.data.predictions import FloatArray, Predictions
from smallcal.errors import file_errors
from smallcal.metrics import Scored
from smallcal.metrics.kept import LOSSES, Kept
from smallcal_lab.statistics.samples import Unit
from smallcal_lab.studies.frame import CLEAN, Frame, read_signed, write_signed
from smallcal_lab.studies.study import Task, file_name

FOLDER = "predictions"

#: What stands for every set that is not the clean one.
SHIFTED = "shifted"

#: Columns that say which predictions a row belongs to.
_GROUP = ["label", "set", "severity"]

#: Columns of the file, with their types.
COLUMNS: Mapping[str, str] = {
    "label": "string",
    "set": "string",
    "severity": "int64",
    "row": "int64",
    "truth": "int64",
    "correct": "bool",
    "confidence": "float64",
    "doubt": "float64",
    **dict.fromkeys(LOSSES, "float64"),
}


@dataclass(frozen=True, eq=False)
class Prediction:
    """What a method said of a test set."""

    label: str
    set: str
    severity: int
    kept: Kept


@dataclass(frozen=True, eq=False)
class Keeper:
    """Gathers the predictions of a task.

    Attributes
    ----------
    sets : frozenset of str
        Which to keep: ``"clean"``, ``"shifted"``, both or none.
    found : list of Prediction
    """

    sets: frozenset[str] = frozenset()
    found: list[Prediction] = field(default_factory=list)

    def see(
        self, label: str, name: str, severity: int, preds: Predictions, proba: FloatArray
    ) -> None:
        """Keep a method's predictions for a set, if they are wanted."""
        if (CLEAN if name == CLEAN else SHIFTED) in self.sets:
            kept = Kept.from_scored(Scored.of(preds.labels, proba))
            self.found.append(Prediction(label, name, severity, kept))

    def forget(self, label: str) -> None:
        """Keep nothing of a method that failed."""
        self.found[:] = [one for one in self.found if one.label != label]


def file_of(folder: Path, task: Task) -> Path:
    """Return where a run keeps the predictions of a task."""
    return folder / FOLDER / f"{file_name(task.key)}.parquet"


@dataclass(frozen=True)
class Shelf:
    """The predictions that a run has kept, read when they are asked for."""

    folder: Path

    def units(self, frame: Frame, name: str, severity: int) -> list[Unit]:
        """Return the predictions of a model's seeds for a set; only methods that all have.

        A unit is a seed, with a prediction of each method for every draw.

        Parameters
        ----------
        frame : Frame
            Rows of one model at one budget.
        name, severity
            The test set.
        """
        seeds: list[Unit] = []
        for _, own in frame.groups("cell"):
            draws = [
                {
                    one.label: one.kept
                    for one in read_predictions(file_of(self.folder, Task(*key)))
                    if (one.set, one.severity) == (name, severity)
                }
                for key, _ in own.groups("cell", "budget", "draw")
            ]
            if shared := _shared(draws):
                seeds.append({label: [draw[label] for draw in draws] for label in shared})
        shared = _shared(seeds)
        return [{label: seed[label] for label in shared} for seed in seeds] if shared else []


def _shared(units: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the labels that all have, in the order of the first."""
    first = units[0] if units else {}
    return [label for label in first if all(label in unit for unit in units)]


def write_predictions(file: Path, found: Sequence[Prediction]) -> None:
    """Write predictions, whole or not at all; equal ones give equal bytes."""
    import pyarrow as pa

    tables = [_schema().empty_table()]
    for one in found:
        kept = one.kept
        columns = {
            **{name: pa.repeat(getattr(one, name), kept.n) for name in _GROUP},
            "row": np.arange(kept.n),
            "truth": kept.labels,
            **{name: getattr(kept, name) for name in ("correct", "confidence", "doubt")},
            **{name: kept.losses[name] for name in LOSSES},
        }
        tables.append(pa.table(columns, schema=_schema()))
    with file_errors(f"cannot make {file.parent}"):
        file.parent.mkdir(exist_ok=True)
    write_signed(file, pa.concat_tables(tables).combine_chunks())


def read_predictions(file: Path) -> list[Prediction]:
    """Read predictions, and make sure that they are those that were written.

    Raises
    ------
    FileError
        If the file is missing, damaged, or holds something else.
    """
    table = read_signed(file, _schema(), what="predictions").to_pandas()
    found = []
    for (label, name, severity), own in table.groupby(_GROUP, sort=False):
        kept = Kept.of_columns(
            labels=own["truth"].to_numpy(),
            **{name: own[name].to_numpy() for name in ("confidence", "doubt", "correct")},
            losses={name: own[name].to_numpy() for name in LOSSES},
        )
        found.append(Prediction(label, name, int(severity), kept))
    return found


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])
