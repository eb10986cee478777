"""What a study is: declarative, so that the engine, the command line and the docs read the same.

It is done task by task. A task depends on nothing but its own fields and its cell's files, so tasks
can run in any order, anywhere, and again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from smallcal import calibrators
from smallcal.calibrators.catalogue import ALIASES, METHODS, settable_options, true_name
from smallcal.data.checks import whole_number
from smallcal.errors import FileError, InputError, choose, did_you_mean
from smallcal.io.pool import said
from smallcal.metrics import METRICS
from smallcal.metrics.table import chosen_metrics
from smallcal_lab.studies.collection import FILE_NAME, Cell, Collection
from smallcal_lab.studies.frame import ALL

#: What a study may need of a cell, and what to write into the collection to have it.
NEEDS = {"shift": "[[cell.shift]]", "paired": "[[cell.shift]] with paired = true"}

#: Fields of a study that a run's manifest keeps as they are, beside entries and settings.
_RECORDED = ("baseline", "metrics", "probe", "budgets", "draws", "n_boot")
#: Settings that say how a probe and a table belong together, or that have an option of their own.
_FIXED = ("control", "metrics")
#: Metrics that a table cannot do without: they are measured whatever is asked for.
_NEEDED = {"signal-to-noise": ("ece15", "top_label_bce")}
#: Tables that rank by the first metric, the lowest value being the best.
_RANKED = ("selector", "nested-k", "oracle-k", "heterogeneity")
#: Least values of settings that are whole numbers.
_LEAST = {"repeats": 1, "folds": 2, "n_null": 1, "bins": 2}
#: Settings that name methods of the study, and what the setting ``rules`` can name.
_LABELS = ("ours", "rivals", "gain_of", "raw", "fixed")
_SELECTORS = ("repeat", "fold", "sample")


@dataclass(frozen=True)
class Entry:
    """A method in a study: its label in tables, its name (the label where none is given), options.

    One method has one name: what is asked for as default is smallcal in every table.
    """

    label: str
    method: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method in ("", self.label):
            object.__setattr__(self, "label", true_name(self.label))
        object.__setattr__(self, "method", true_name(self.method or self.label))

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method

    def with_option(self, name: str, value: Any) -> Entry:
        """Return the entry with an option, or raise if the method cannot have it."""
        options = {**self.options, name: value}
        try:
            calibrators.make(self.name, **options)._compose()
        except InputError as error:
            raise error.about(f"{name}={value} of {self.label}") from None
        return replace(self, options=options)

    @property
    def settable(self) -> dict[str, Any]:
        """Options that it can have, with their defaults."""
        params = calibrators.make(self.name).get_params()
        known = settable_options(self.name).items()
        return {name: value for name, value in known if name in params or "options" in params}


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


def file_name(key: str) -> str:
    """Return a name for a file, whatever the key: others get others, also where A and a are one.

    Examples
    --------
    >>> file_name("cifar10__vit__s0__n250__d1"), file_name("CIFAR/10")
    ('cifar10__vit__s0__n250__d1', 'cifar-10-1731a5d7d800eb1b')
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,99}", key):
        return key
    slug = re.sub(r"[^a-z0-9_]+", "-", key.lower())[:80].strip("-")
    return f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, kw_only=True)
class Study:
    """One experiment: what is fitted (``entries``), measured (``probe``) and shown (``tables``).

    Attributes
    ----------
    name, title, question : str
        What the command line calls it, what it is, and what it asks.
    entries, baseline : tuple of Entry, str
        The methods, and the label that differences are taken from.
    metrics, tables, probe : tuple of str, tuple of str, str
        Names in ``METRICS``, ``TABLES`` and ``PROBES``.
    budgets, draws : tuple of int, int
        Sizes of the calibration draws, of which 0 is the whole split, and how many of each.
    n_boot : int
        Resamples behind each interval.
    settings, needs : dict, str
        Further settings of the probe and the tables; what cells must have, a name in ``NEEDS``.
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
    needs: str = ""
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
        """Return the study with what the user asked for instead of its own.

        The baseline is always among the methods. ``settings`` are the study's, or options of its
        methods: every method that takes a name gets its value, save where the study varies it.

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
            study = study._measuring(metrics)
        for name, value in (settings or {}).items():
            study = study._with_setting(name, value)
        return study

    def _entries(self, methods: tuple[str, ...]) -> tuple[Entry, ...]:
        """Return the entries of these labels or method names, the baseline always among them."""
        known = {entry.label: entry for entry in self.entries}
        chosen = {self.baseline: known[self.baseline]}
        for name in methods:
            if name not in known and true_name(name) not in METHODS:
                meant = did_you_mean(name, [*known, *METHODS, *ALIASES])
                there = f"this study has {', '.join(known)}"
                raise InputError(f"unknown method {name!r}; {meant or there}")
            entry = known.get(name, Entry(name))
            chosen[entry.label] = known.get(entry.label, entry)
        return tuple(chosen.values())

    def _measuring(self, names: Sequence[str]) -> Study:
        """Return a study that measures these metrics instead."""
        own = self.metrics or self.settings.get("metrics", ())
        if not own or not set(own) <= set(METRICS):
            raise InputError(
                f"study {self.name!r} measures its own quantities: its metrics cannot be replaced"
            )
        chosen_metrics(names)
        if METRICS[names[0]].better != "lower" and set(_RANKED) & set(self.tables):
            raise InputError(
                f"study {self.name!r} ranks by the lowest value of its first metric, and "
                f"{names[0]} is better when higher: put another first"
            )
        needed = [name for table in self.tables for name in _NEEDED.get(table, ())]
        metrics = tuple(dict.fromkeys([*names, *needed]))
        if self.metrics:
            return replace(self, metrics=metrics)
        return replace(self, settings={**self.settings, "metrics": metrics})

    def _with_setting(self, name: str, value: Any) -> Study:
        """Return a study with one of its settings, or of its methods' options, changed.

        An option goes to every method that takes it, except where the study gives an entry one of
        its own: what a study varies stays varied.
        """
        own = [entry.label for entry in self.entries if name in entry.options]
        takers = [e.label for e in self.entries if name in e.settable and e.label not in own]
        changed: dict[str, Any] = {}
        if name in self.settings and name not in _FIXED:
            takers = []
            changed["settings"] = {**self.settings, name: self._checked(name, value)}
        elif takers:
            changed["entries"] = tuple(
                entry.with_option(name, value) if entry.label in takers else entry
                for entry in self.entries
            )
        elif own:
            raise InputError.with_options(
                f"study {self.name!r} varies {name} itself ({', '.join(own)}); choose among "
                "them with --methods"
            )
        else:
            known = offered(self)
            advice = choose(name, sorted(known)) if known else "it has no settings"
            raise InputError(
                f"{name} is not a setting of study {self.name!r} or of its methods; {advice}"
            )
        return replace(self, **changed, given={**self.given, name: {"value": value, "of": takers}})

    def _checked(self, name: str, value: Any) -> Any:
        """Return the value of a study's own setting, if it can be one."""
        own = self.settings[name]
        if isinstance(own, tuple):
            value = tuple(value) if isinstance(value, list | tuple) else (value,)
        several = value if isinstance(value, tuple) else (value,)
        # What was there stays, also if its method was not asked for.
        labels = [*(entry.label for entry in self.entries), *(own if several is value else (own,))]
        allowed = {**dict.fromkeys(_LABELS, labels), "rules": _SELECTORS}.get(name, several)
        if name in _LEAST:
            whole_number(value, name, least=_LEAST[name])
        elif name == "loss":
            chosen_metrics([value], lack="loss must be a metric; unknown")
        for one in several:
            if name in ("thresholds", "coverages"):
                if isinstance(one, bool) or not isinstance(one, int | float) or not 0 < one <= 1:
                    raise InputError(f"{name} must be shares above 0 and up to 1; got {one!r}")
            elif one not in allowed:
                among = ", ".join(dict.fromkeys(allowed))
                raise InputError(f"{name} must be among {among}; got {one!r}")
        return value

    def suits(self, cell: Cell) -> bool:
        """Whether a cell has what the study needs."""
        return not self.needs or any(s.paired or self.needs == "shift" for s in cell.shifts)

    def require(self, collection: Collection) -> None:
        """Raise unless at least one cell has what the study needs."""
        if not any(map(self.suits, collection.cells)):
            raise InputError(
                f"study {self.name!r} needs shifted test sets, and no cell has any of them: "
                f"add {NEEDS[self.needs]} to {FILE_NAME}"
            )

    def tasks(self, collection: Collection) -> tuple[Task, ...]:
        """Return the tasks in order: cell by cell, so that files are read once."""
        return self.tasks_of([cell.name for cell in collection.cells if self.suits(cell)])

    def tasks_of(self, cells: Sequence[str]) -> tuple[Task, ...]:
        """Return the tasks of cells by name, which is all that a finished run keeps of them."""
        return tuple(
            Task(cell, budget, draw)
            for cell in cells
            for budget in self.budgets
            for draw in range(1 if budget == ALL else self.draws)
        )

    def document(self) -> dict[str, Any]:
        """Return the study as plain data."""
        kept = {name: getattr(self, name) for name in _RECORDED}
        entries = [{**vars(entry), "options": dict(entry.options)} for entry in self.entries]
        found = {"name": self.name, "entries": entries, **kept, "settings": self.settings}
        document: dict[str, Any] = json.loads(
            json.dumps(found | ({"set": self.given} if self.given else {}), default=str)
        )
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, known: Study) -> Study:
        """Return the study that a manifest describes; its titles and tables are ``known``'s."""
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
            raise FileError(f"the manifest does not describe a study: {said(error)}") from None


def offered(study: Study) -> dict[str, Any]:
    """Return every name that can be set, with a value that shows its type."""
    found = {name: value for name, value in study.settings.items() if name not in _FIXED}
    for entry in study.entries:
        for name, value in entry.settable.items():
            if found.get(name) is None:
                found[name] = value
    return found


def given_text(given: Mapping[str, Mapping[str, Any]]) -> str:
    """Say what was set, and for which methods; nothing where nothing was."""
    parts = []
    for name, what in given.items():
        value = what["value"]
        text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        parts.append(f"{name}={text}" + (f" ({', '.join(what['of'])})" if what["of"] else ""))
    return f"Set: {'; '.join(parts)}." if parts else ""
