"""What a study is: declarative, so that the engine, the command line and the docs read the same.

It is done task by task. A task depends on nothing but its own fields and its cell's files, so tasks
can run in any order, anywhere, and again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from smallcal._version import versions
from smallcal.calibrators.catalogue import ALIASES, METHODS, true_name
from smallcal.errors import FileError, InputError, did_you_mean
from smallcal_lab.studies.asked import other_metrics, other_settings
from smallcal_lab.studies.collection import FILE_NAME, Cell, Collection
from smallcal_lab.studies.frame import ALL

#: Names that are the same file nowhere else, also where A and a are one.
PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")

#: What a study may need of a cell: how it is told, and what to write into the collection.
NEEDS: Mapping[str, tuple[Callable[[Cell], bool], str]] = MappingProxyType(
    {
        "shift": (lambda cell: bool(cell.shifts), "[[cell.shift]]"),
        "paired": (
            lambda cell: any(shift.paired for shift in cell.shifts),
            "[[cell.shift]] with paired = true",
        ),
    }
)

#: Fields of a study that a run's manifest keeps as they are, beside entries and settings.
_RECORDED = ("baseline", "metrics", "probe", "budgets", "draws", "n_boot")


@dataclass(frozen=True)
class Entry:
    """A method in a study: its label in tables, its name, its options."""

    label: str
    method: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # One name for one method: what is asked for as default is smallcal in every table.
        if self.method in ("", self.label):
            object.__setattr__(self, "label", true_name(self.label))
        object.__setattr__(self, "method", true_name(self.method))

    @property
    def name(self) -> str:
        """The method's name; the label where none is given."""
        return self.method or self.label


@dataclass(frozen=True)
class Task:
    """All entries of a study on one draw of one cell: they share the data, so they go together."""

    cell: str
    budget: int
    draw: int

    @property
    def key(self) -> str:
        """A name that no other task has."""
        return f"{self.cell}__n{self.budget}__d{self.draw}"

    @property
    def file_name(self) -> str:
        """A name for a file, whatever the cell's; see :func:`file_name`."""
        return file_name(self.key)


def file_name(key: str) -> str:
    """Return a name for a file, whatever the key: others get other names.

    Examples
    --------
    >>> file_name("cifar10__vit__s0__n250__d1"), file_name("CIFAR/10")
    ('cifar10__vit__s0__n250__d1', 'cifar-10-1731a5d7d800eb1b')
    """
    if PLAIN.fullmatch(key):
        return key
    slug = re.sub(r"[^a-z0-9_]+", "-", key.lower())[:80].strip("-")
    return f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """One experiment.

    Attributes
    ----------
    name, title, question : str
        What the command line calls it, what it is, and what it asks.
    entries : tuple of Entry
        What is fitted.
    baseline : str
        The label that differences are taken from.
    metrics : tuple of str
    probe : str
        Name in ``PROBES``: what is measured of each fit.
    budgets : tuple of int
        Sizes of the calibration draws; 0 is the whole split.
    draws : int
        Draws at each budget; the whole split can be drawn in one way only.
    tables : tuple of str
        Names in ``TABLES``: how the rows become tables.
    n_boot : int
        Resamples behind each interval.
    settings : dict
        Further settings of the probe and the tables.
    needs : tuple of str
        Names in ``NEEDS``: cells without these are left out.
    given : dict
        What a user set: name to its value and the labels of the methods that take it.
    """

    name: str
    title: str
    question: str
    entries: tuple[Entry, ...]
    baseline: str = "tva-ts"
    metrics: tuple[str, ...] = ()
    tables: tuple[str, ...] = ("means", "differences")
    probe: str = "clean"
    budgets: tuple[int, ...] = (ALL,)
    draws: int = 1
    n_boot: int = 20_000
    settings: dict[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "baseline", true_name(self.baseline))  # as its entry does

    def with_options(
        self,
        *,
        budgets: tuple[int, ...] | None = None,
        draws: int | None = None,
        methods: tuple[str, ...] | None = None,
        metrics: tuple[str, ...] | None = None,
        n_boot: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Study:
        """Return the study with what the user asked for instead.

        Parameters
        ----------
        budgets, draws, methods, metrics, n_boot : optional
            In place of the study's own; the baseline is always among the methods.
        settings : mapping, optional
            Settings of the study, or options of its methods: every method that takes a name
            gets its value, save where the study varies it itself.

        Examples
        --------
        >>> from smallcal_lab.studies.catalogue import study_named
        >>> study = study_named("requantize").with_options(settings={"n_groups": 5})
        >>> study.entries[0].options, study.given["n_groups"]["of"]
        ({'n_groups': 5}, ['srts-bce', 'margin-k3', 'srts-shrunk'])
        """
        entries = None if methods is None else self._entries(methods)
        asked = {"entries": entries, "budgets": budgets, "draws": draws, "n_boot": n_boot}
        changed: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
        if changed.get("draws", 1) < 1 or min(changed.get("budgets", (0,))) < 0:
            raise InputError("draws must be at least 1, and budgets not negative")
        study = replace(self, **changed)
        if metrics is not None:
            study = replace(study, **other_metrics(study, metrics))
        return replace(study, **other_settings(study, settings)) if settings else study

    def _entries(self, methods: tuple[str, ...]) -> tuple[Entry, ...]:
        """Return the entries of these labels or method names, the baseline always among them."""
        known = {entry.label: entry for entry in self.entries}
        chosen = {self.baseline: known[self.baseline]}
        for name in methods:
            if name not in known and true_name(name) not in METHODS:
                meant = did_you_mean(name, [*known, *METHODS, *ALIASES])
                raise InputError(
                    f"unknown method {name!r}; {meant or 'this study has ' + ', '.join(known)}"
                )
            entry = known.get(name, Entry(name))
            chosen[entry.label] = known.get(entry.label, entry)
        return tuple(chosen.values())

    @property
    def methods(self) -> dict[str, str]:
        """The method that each label stands for."""
        return {entry.label: entry.name for entry in self.entries}

    def suits(self, cell: Cell) -> bool:
        """Whether a cell has what the study needs."""
        return all(NEEDS[need][0](cell) for need in self.needs)

    def require(self, collection: Collection) -> None:
        """Raise unless at least one cell has what the study needs."""
        for need in self.needs:
            has, entry = NEEDS[need]
            if not any(map(has, collection.cells)):
                raise InputError(
                    f"study {self.name!r} needs shifted test sets, and no cell here has any of "
                    f"them: add {entry} to {FILE_NAME}"
                )

    def tasks(self, collection: Collection) -> tuple[Task, ...]:
        """Return the tasks in order: cell by cell, so that files are read once."""
        return self.tasks_of([cell.name for cell in collection.cells if self.suits(cell)])

    def tasks_of(self, cells: Sequence[str]) -> tuple[Task, ...]:
        """Return the tasks of cells by name, which is all that a finished run keeps of them."""
        found = []
        for cell in cells:
            for budget in self.budgets:
                draws = 1 if budget == ALL else self.draws
                found += [Task(cell, budget, draw) for draw in range(draws)]
        return tuple(found)

    def configuration(self, collection: Collection) -> dict[str, Any]:
        """Return everything that the rows of a run depend on, for its manifest."""
        return {
            "study": self.document(),
            "methods": self.methods,
            "collection": collection.name,
            "cells": [cell.name for cell in collection.cells if self.suits(cell)],
            "splits": {cell.name: cell.splits for cell in collection.cells},
            "inputs": collection.sha256(),
            "versions": versions("pyarrow"),
        }

    def document(self) -> dict[str, Any]:
        """Return the study as plain data."""
        entries = [
            {"label": e.label, "method": e.name, "options": dict(e.options)} for e in self.entries
        ]
        settings = {key: _listed(value) for key, value in self.settings.items()}
        kept = {name: _listed(getattr(self, name)) for name in _RECORDED}
        found = {"name": self.name, "entries": entries, **kept, "settings": settings}
        if self.given:  # so that runs without have the manifest that they had
            found["set"] = {
                name: {key: _listed(value) for key, value in what.items()}
                for name, what in self.given.items()
            }
        return found

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, known: Study) -> Study:
        """Return the study that a manifest describes; its titles and tables are ``known``'s.

        Raises
        ------
        FileError
            If the document lacks what a study needs.
        """
        try:
            kept = {name: document[name] for name in _RECORDED}
            kept |= {name: tuple(kept[name]) for name in ("metrics", "budgets")}
            given = document["settings"].items()
            return replace(
                known,
                entries=tuple(Entry(**entry) for entry in document["entries"]),
                settings={key: tuple(v) if isinstance(v, list) else v for key, v in given},
                given=dict(document.get("set", {})),
                **kept,
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise FileError(
                f"the manifest does not describe a study: {type(error).__name__}: {error}"
            ) from None


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
