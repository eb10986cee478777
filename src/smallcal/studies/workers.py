"""What a process, here or on a cluster, is told to do of a study: one task.

It gives the same bits wherever it is done: it depends on its own fields and its cell's files, and
each process computes with one thread, because sums split over threads round differently.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from smallcal._version import __version__
from smallcal.errors import FileError, InputError
from smallcal.io.pool import one_thread, said, stopped
from smallcal.studies.collection import Cell, kept_split
from smallcal.studies.frame import Task
from smallcal.studies.probes.catalogue import failed_rows, measure
from smallcal.studies.study import Study

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Order:
    """What is the same for all tasks of a run.

    Attributes
    ----------
    study : Study
    inputs : str
        Stands for the bytes of all files: another text, other bytes.
    version : str
        The smallcal that the rows must come from.
    """

    study: Study
    inputs: str
    version: str = __version__


def work(order: Order, unit: tuple[Cell, Task]) -> Rows:
    """Do one task of one cell.

    What fails because of the data fails again tomorrow, so it becomes rows that say why. What fails
    because of the machine (memory, a disk, a folder that is not there) is raised: it must not be
    taken for a result.
    """
    cell, task = unit
    if order.version != __version__:
        raise InputError(
            f"the run is of smallcal {order.version}, and a worker has {__version__}; "
            "install the same everywhere"
        )
    for file in cell.files:
        if not os.path.exists(file):
            raise FileError(f"a worker cannot see {file}; its folder must be there for all")
    _forget_others(order.inputs)
    with one_thread():
        try:
            return measure(order.study, cell, task)
        except (OSError, MemoryError) as error:
            raise stopped(f"{task.key} cannot be done on this machine ({said(error)})") from error
        except Exception as error:  # noqa: BLE001 - one task's failure must not stop the others
            return failed_rows(order.study, cell, task, error)


@lru_cache(maxsize=1)
def _forget_others(inputs: str) -> None:
    """Let go of files that were read for other inputs: a cluster's worker outlives many runs."""
    kept_split.cache_clear()
