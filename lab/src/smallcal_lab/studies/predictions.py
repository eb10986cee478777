"""What a task keeps of its predictions, so that test samples can be resampled without the logits.

One file for each task, ``RUN/predictions/KEY.parquet``: a row for each method, test set and sample,
written whole or not at all, before the task's rows. It is there for a study one of whose tables
needs it, and holds the sets that those tables are about.
"""

from __future__ import annotations

import hashlib
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
from smallcal_lab.studies.frame import CLEAN, Frame
from smallcal_lab.studies.parquet import read_signed, write_signed
from smallcal_lab.studies.study import Task

FOLDER = "predictions"

#: What stands for every set that is not the clean one.
SHIFTED = "shifted"

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
    return folder / FOLDER / f"{task.file_name}.parquet"


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
        seeds: list[dict[str, list[Scored]]] = []
        for _, own in frame.groups("cell"):
            draws = own.groups("cell", "budget", "draw")
            tasks = [self._read(Task(*key), name, severity) for key, _ in draws]
            shared = [label for label in tasks[0] if all(label in task for task in tasks)]
            if shared:
                seeds.append({label: [task[label] for task in tasks] for label in shared})
        shared = [label for label in seeds[0] if all(label in s for s in seeds)] if seeds else []
        return [{label: seed[label] for label in shared} for seed in seeds] if shared else []

    def _read(self, task: Task, name: str, severity: int) -> dict[str, Scored]:
        return {
            one.label: one.kept
            for one in read_predictions(file_of(self.folder, task))
            if (one.set, one.severity) == (name, severity)
        }


def write_predictions(file: Path, found: Sequence[Prediction]) -> None:
    """Write predictions, whole or not at all; equal ones give equal bytes."""
    import pyarrow as pa

    columns = {name: pa.array(values) for name, values in _columns(found).items()}
    with file_errors(f"cannot make {file.parent}"):
        file.parent.mkdir(exist_ok=True)
    write_signed(file, pa.table(columns).cast(_schema()), _digest)


def _columns(found: Sequence[Prediction]) -> dict[str, Any]:
    if not found:
        return {name: [] for name in COLUMNS}
    sizes = [one.kept.n for one in found]

    def repeated(name: str) -> Any:
        return np.repeat(np.array([getattr(one, name) for one in found]), sizes)

    def joined(name: str) -> Any:
        return np.concatenate([getattr(one.kept, name) for one in found])

    return {
        **{name: repeated(name) for name in ("label", "set", "severity")},
        "row": np.concatenate([np.arange(n) for n in sizes]),
        "truth": joined("labels"),
        **{name: joined(name) for name in ("correct", "confidence", "doubt")},
        **{name: np.concatenate([one.kept.losses[name] for one in found]) for name in LOSSES},
    }


def read_predictions(file: Path) -> list[Prediction]:
    """Read predictions, and make sure that they are those that were written.

    Raises
    ------
    FileError
        If the file is missing, damaged, or holds something else.
    """
    table = read_signed(file, _schema(), _digest, what="predictions")
    return _predictions({name: table[name].to_numpy() for name in COLUMNS})


def _predictions(columns: Mapping[str, Any]) -> list[Prediction]:
    """Cut columns where a new method or set begins: at a row 0."""
    starts = np.flatnonzero(columns["row"] == 0).tolist()
    found = []
    for start, stop in zip(starts, [*starts[1:], len(columns["row"])], strict=True):
        own = {name: values[start:stop] for name, values in columns.items()}
        kept = Kept.of_columns(
            labels=own["truth"],
            confidence=own["confidence"],
            doubt=own["doubt"],
            correct=own["correct"],
            losses={name: own[name] for name in LOSSES},
        )
        found.append(Prediction(str(own["label"][0]), str(own["set"][0]), own["severity"][0], kept))
    return found


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])


def _digest(table: Any) -> bytes:
    """Return a fingerprint of the columns."""
    found = hashlib.sha256()
    for name in table.column_names:
        values = table[name].to_numpy()
        found.update(name.encode())
        plain = values.dtype != object
        found.update(values.tobytes() if plain else "\0".join(map(str, values)).encode())
    return found.hexdigest().encode()
