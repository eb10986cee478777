"""Every study by name: ``STUDIES``, as ``studies.toml`` beside this file describes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from smallcal.calibrators.catalogue import OF_SCORES
from smallcal.errors import InputError, choose
from smallcal.metrics import METRICS
from smallcal_lab.studies.study import Entry, Study
from smallcal_lab.toml import loads


def _read(file: Path) -> Mapping[str, Study]:
    """Return the studies of a file by name; a name of its lists stands for their items."""
    document = loads(file.read_text(encoding="utf-8"))
    lists = {"every-metric": [*METRICS], "score-maps": [*OF_SCORES], **document["lists"]}

    def whole(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        several = (whole(lists[one]) if str(one) in lists else (one,) for one in value)
        return tuple(item for items in several for item in items)

    studies = {}
    for row in document["study"]:
        about = {key: whole(value) for key, value in row.items()}
        about["entries"] = tuple(
            Entry(one) if isinstance(one, str) else Entry(**one) for one in about["entries"]
        )
        about["settings"] = {key: whole(v) for key, v in row.get("settings", {}).items()}
        studies[row["name"]] = Study(**about)
    return MappingProxyType(studies)


STUDIES = _read(Path(__file__).with_name("studies.toml"))


def study_named(name: str) -> Study:
    """Return a study by name.

    Examples
    --------
    >>> study_named("budget").budgets
    (250, 625, 1250, 2500)
    """
    if name not in STUDIES:
        raise InputError(f"unknown study {name!r}; {choose(name, STUDIES)}")
    return STUDIES[name]
