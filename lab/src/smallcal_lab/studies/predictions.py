"""What a task keeps of its predictions, so that test samples can be resampled without the logits.

One file for each task, ``RUN/predictions/KEY.parquet``: a row for each method, test set and sample.
It is there for a study one of whose tables needs it, and holds the sets these tables are about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smallcal.errors import file_errors
from smallcal.metrics.kept import LOSSES, Kept
from smallcal_lab.statistics.samples import Unit
from smallcal_lab.studies.frame import Frame, read_signed, write_signed
from smallcal_lab.studies.study import Task, file_name

FOLDER = "predictions"

#: What stands for every set that is not the clean one.
SHIFTED = "shifted"

#: Columns of the file, with their types; the first three say whose predictions a row belongs to.
_GROUP = {"label": str, "set": str, "severity": int}
COLUMNS: Mapping[str, type] = {
    **_GROUP,
    **{"row": int, "truth": int, "correct": bool, "confidence": float, "doubt": float},
    **dict.fromkeys(LOSSES, float),
}


class Prediction(NamedTuple):
    """What a method said of a test set."""

    label: str
    set: str
    severity: int
    kept: Kept


def file_of(folder: Path, task: Task) -> Path:
    """Return where a run keeps the predictions of a task."""
    return folder / FOLDER / f"{file_name(task.key)}.parquet"


@dataclass(frozen=True)
class Shelf:
    """The predictions that a run has kept, read when they are asked for."""

    folder: Path

    def units(self, frame: Frame, name: str, severity: int) -> list[Unit]:
        """Return the predictions of a model's seeds for a set; only methods that all have.

        ``frame`` has the rows of one model at one budget. A unit is a seed, with a prediction of
        each method for every draw.
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
    return [label for label in units[0] if all(label in u for u in units)] if units else []


def write_predictions(file: Path, found: Sequence[Prediction]) -> None:
    """Write predictions, whole or not at all."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for one in found:
        kept = one.kept
        about = {name: np.repeat(getattr(one, name), kept.n) for name in _GROUP}
        about |= {"row": np.arange(kept.n), "truth": kept.labels, **kept.losses}
        about |= {name: getattr(kept, name) for name in ("correct", "confidence", "doubt")}
        for name, values in columns.items():
            values.append(about[name])
    with file_errors(f"cannot make {file.parent}"):
        file.parent.mkdir(exist_ok=True)
    write_signed(file, {n: np.concatenate(v) if v else v for n, v in columns.items()}, COLUMNS)


def read_predictions(file: Path) -> list[Prediction]:
    """Read predictions, and make sure that they are those that were written."""
    table = read_signed(file, COLUMNS, what="predictions").to_pandas()
    found = []
    for (label, name, severity), own in table.groupby([*_GROUP], sort=False):
        kept = Kept.of_columns(
            labels=own["truth"].to_numpy(),
            **{name: own[name].to_numpy() for name in ("confidence", "doubt", "correct")},
            losses={name: own[name].to_numpy() for name in LOSSES},
        )
        found.append(Prediction(label, name, int(severity), kept))
    return found
