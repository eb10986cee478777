"""One task of a study: every entry is fitted on one draw of one cell, and measured.

A task gives the same bits wherever it is done: it depends on its own fields and its cell's files,
and each process computes with one thread, because sums split over threads round differently.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from smallcal.calibrators.catalogue import method
from smallcal.errors import FileError
from smallcal.io.pool import said, stopped
from smallcal_lab.studies.collection import Cell, kept_split
from smallcal_lab.studies.frame import FAILED, Rows
from smallcal_lab.studies.predictions import Keeper, Prediction
from smallcal_lab.studies.probes import PROBES, Site
from smallcal_lab.studies.study import Study, Task

#: A task with its cell, which is sent along: a process that read the collection's description anew
#: could find another.
Unit = tuple[Cell, Task]
#: What a task gives: its rows, and what is kept of its predictions.
Done = tuple[Rows, list[Prediction]]


@dataclass(frozen=True)
class Order:
    """What is the same for all tasks of a run.

    Attributes
    ----------
    study : Study
    inputs : str
        Stands for the bytes of all files: another text, other bytes.
    kept : frozenset of str
        Sets whose predictions are kept, see :class:`~smallcal_lab.studies.predictions.Keeper`.
    """

    study: Study
    inputs: str
    kept: frozenset[str] = frozenset()


def work(order: Order, unit: Unit) -> Done:
    """Do one task; what a process, wherever it is, is told to do.

    What fails because of the data fails again tomorrow, so it becomes rows that say why. What fails
    because of the machine (memory, a disk, a folder that is not there) is raised: it must not be
    taken for a result.
    """
    import sklearn.linear_model  # noqa: F401 - only libraries that are loaded can be limited
    from threadpoolctl import threadpool_limits

    cell, task = unit
    for file in cell.files:
        if not os.path.exists(file):
            raise FileError(f"a worker cannot find {file}; all workers need its folder")
    _forget_others(order.inputs)
    with threadpool_limits(1):
        try:
            keeper = Keeper(order.kept)
            return measure(order.study, cell, task, keeper), keeper.found
        except (OSError, MemoryError) as error:
            raise stopped(f"{task.key} cannot be done on this machine ({said(error)})") from error


@lru_cache(maxsize=1)
def _forget_others(inputs: str) -> None:
    """Let go of files that were read for other inputs: a cluster's worker outlives many runs."""
    kept_split.cache_clear()


def measure(study: Study, cell: Cell, task: Task, keeper: Keeper) -> Rows:
    """Fit and measure every entry of a study on one draw; a failure is a row that says why.

    What is to be kept of predictions goes to the keeper.
    Faults of the machine (memory, a disk) are raised: they must not be taken for results.
    """
    about = {name: getattr(cell, name) for name in ("dataset", "backbone", "seed")}
    about |= asdict(task)
    names = [{"label": label, "method": name} for label, name in study.methods.items()]
    try:
        cal = cell.draw(task.budget, task.draw)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - one task's failure must not stop the others
        return [{**about, **name, **_failure(error)} for name in names]
    about["budget"] = cal.n
    site = Site(study, cell, cal, keeper)
    found: Rows = []
    for entry, name in zip(study.entries, names, strict=True):
        try:
            if "features" in method(entry.name).needs and cal.features is None:
                continue  # nothing to fit it on: the tables leave it out
            rows = site.rows(PROBES[study.probe], entry)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - one unit's failure must not stop the others
            rows = [_failure(error)]
            keeper.forget(entry.label)
        found += [{**about, **name, **row} for row in rows]
    return found


def _failure(error: Exception) -> dict[str, Any]:
    return {"metric": FAILED, "value": float("nan"), "error": said(error)}
