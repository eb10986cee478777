"""The numbers that a reproduction is held against: a paper's tables as data.

``reference.json`` holds those of the paper that smallcal follows, ``frozen/reference.json`` those
of the collection that ships with smallcal. Another file of the same form will do as well::

    {"version": 1,
     "defaults": {"kind": "value", "decimals": 2},
     "tolerances": {"deterministic": 0.011, "smart-bce": 0.15, "cifar100c": 0.05},
     "shifts": {"cifar100": {"kinds": ["fog", ...], "severities": [1, 2, 3, 4, 5]}},
     "values": [{"table": ..., "dataset": ..., "backbone": ..., "seeds": 5, ...}]}
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from smallcal.errors import FileError
from smallcal.io.documents import read_document
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.studies.frame import CLEAN
from smallcal_lab.studies.study import Entry

#: The paper's numbers: half a megabyte.
PAPER = Path(__file__).parent / "reference.json"
MAX_BYTES = 64 * 1024 * 1024

#: What a fraction, or a number of nats, is multiplied by to be in a unit.
UNITS: Mapping[str, float] = {
    **{"percent": 100.0, "fraction": 1.0, "nats": 1.0, "x1000": 1000.0, "x0.001": 1000.0},
    **{"count": 1.0, "temperature": 1.0, "ratio": 1.0, "correlation": 1.0},
}

#: Sets of a value of all models of a table: their test splits (``CLEAN``, too) or shifted sets.
ALL_REGIMES = "all regimes"
CLEAN_REGIMES, SHIFTED_REGIMES = "regimes the rule was formed on", "imagenet-r and imagenet-a"
#: What stands in the place of a method for all that a table speaks of.
EVERY_METHOD = "every method"
#: Kinds of which the value is a mean.
MEANS = ("value", "difference")

#: A test set: its kind and its severity.
Part = tuple[str, int]
#: The test split as one.
TEST: Part = (CLEAN, 0)
#: Seeds of a model: how many, counted from 0, or which ones.
Seeds = int | list[int]


@dataclass(frozen=True, kw_only=True)
class Value:
    """A printed number, with what it is of; fields as in the file.

    An entry of the file may print several: a mean, the spread beside it, the ends of an interval.
    Each is a value, and ``part`` says which: "value", "spread", "low" or "high". Where the numbers
    of single seeds or draws are printed too, ``seeds`` or ``draw`` says of which.
    """

    table: str
    dataset: str
    backbone: str
    seeds: Seeds | Mapping[str, Seeds] | None
    budget: int | Mapping[str, int] | None
    method: str | None
    set: str
    metric: str | None
    value: float
    unit: str
    kind: str = "value"
    part: str = "value"
    draws: int | None = None
    draw: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    against: str = ""
    spread: float | None = None
    spread_over: str = "seeds"
    ddof: int | None = None
    resampled: str = ""
    decimals: int = 2
    doubt: str = ""
    note: str = ""
    paper_method: str = ""
    paper_metric: str = ""
    study: str = ""
    cells_of: str = ""
    entries: tuple[Entry, ...] = ()

    @property
    def label(self) -> str:
        """The method with its options, which no other method has."""
        return label_of(self.method or self.paper_method, self.options)

    @property
    def model(self) -> str:
        """Data set and backbone."""
        return f"{self.dataset} {self.backbone}"

    @property
    def backbones(self) -> list[str]:
        """The models it is about, where it is about several."""
        return self.backbone.split("+")

    @property
    def measured(self) -> str:
        """The metric, by whichever name it has."""
        return self.metric or self.paper_metric

    @property
    def told(self) -> str:
        """The metric, and which of the numbers that are printed of it this is."""
        if self.part == "spread":
            return f"{self.measured} sd"
        if self.part == "value":
            return self.measured if self.kind in MEANS else f"{self.measured} {self.kind}"
        over = self.resampled.replace(">", " > ")  # so that narrow tables can break it
        return f"{self.measured} {self.part} of {over or self.kind}"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it is about: one, or two for a difference."""
        named = (self.method or self.paper_method, self.against)
        return tuple(name for name in named if name)

    def seeds_of(self, backbone: str) -> tuple[int, ...]:
        """Return which seeds of a model it is about; none where that is not said."""
        given = self.seeds.get(backbone) if isinstance(self.seeds, Mapping) else self.seeds
        return tuple(range(given) if isinstance(given, int) else given or ())


def label_of(name: str, options: Mapping[str, Any]) -> str:
    """Return a name for a method with its options, which no other has.

    Examples
    --------
    >>> label_of("srts-bce", {"n_groups": 5}), label_of("tva-ts", {})
    ('srts-bce[n_groups=5]', 'tva-ts')
    """
    given = ",".join(f"{key}={value}" for key, value in sorted(options.items()))
    return f"{name}[{given}]" if given else name


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Numbers to reproduce, and how near is near enough.

    ``tolerances`` are in points: for ``deterministic`` methods, for ``smart-bce``, and for
    ``cifar100c``. ``shifts`` are the kinds and severities that a data set's ``corrupted`` consists
    of, where these are not the usual ones.
    """

    values: tuple[Value, ...]
    tolerances: Mapping[str, float]
    shifts: Mapping[str, Mapping[str, Any]]

    def parts(self, value: Value) -> frozenset[Part] | None:
        """Return the test sets that a value is a mean over; None for a set by its own name."""
        if value.set == CLEAN:
            return frozenset({TEST})
        usual = STANDARD if value.dataset.startswith("imagenet") else STANDARD + EXTRA
        grid = self.shifts.get(value.dataset, {"kinds": usual, "severities": SEVERITIES})
        kinds, severities = grid["kinds"], grid["severities"]
        # A third of the margins is measured within all sets.
        whole = re.fullmatch(r"corrupted(-15|-margin.*|(-s\d+)*)", value.set)
        if value.set in kinds:
            kinds = (value.set,)
        elif whole is None:
            return None
        elif whole[1] == "-15":
            kinds = STANDARD
        elif levels := re.findall(r"-s(\d+)", value.set):
            severities = map(int, levels)
        return frozenset(product(kinds, severities))

    def regimes(self, value: Value) -> Iterator[Value]:
        """Yield a value of all models of a table for each of them, and each of their sets."""
        clean = {ALL_REGIMES: (True, False), SHIFTED_REGIMES: (False,)}.get(value.set, (True,))
        names = ("dataset", "backbone", "set", "budget", "draws")
        seen = set()
        for other in self.values:
            key = tuple(getattr(other, name) for name in names)
            there = other.table == (value.cells_of or value.table) and other.dataset != "all"
            if there and key not in seen and (other.set == CLEAN) in clean:
                seen.add(key)
                seeds = list(other.seeds_of(other.backbone))
                yield replace(value, **dict(zip(names, key, strict=True)), seeds=seeds)

    def spelt_out(self, value: Value) -> Value:
        """Return a value of every method with the methods that its table has for its model."""
        if value.paper_method != EVERY_METHOD or value.entries:
            return value
        found = {
            other.label: Entry(other.label, other.method or "", other.options)
            for other in self.values
            if (other.table, other.model) == (value.table, value.model) and other.method
        }
        return replace(value, entries=tuple(found.values()))


def load_reference(path: str | os.PathLike[str] = PAPER) -> Reference:
    """Read numbers to reproduce; the paper's if nothing else is asked for.

    >>> len(load_reference().values) > 2000
    True
    """
    document = read_document(path, most=MAX_BYTES, what="file of reference values", error=FileError)
    return reference_of(document, source=str(path))


def reference_of(document: Any, *, source: str) -> Reference:
    """Turn a parsed file into values, saying which of its entries is wrong."""
    if not isinstance(document, dict) or document.get("version") != 1:
        raise FileError(f"{source} does not hold reference values of version 1")
    for name in ("defaults", "tolerances", "shifts"):
        if not isinstance(document.setdefault(name, {}), dict):
            raise FileError(f"{source}: {name} must be an object")
    tolerances = {name: document["tolerances"].get(name) for name in _TOLERANCES}
    for name, points in tolerances.items():
        if not _is_number(points) or points < 0:
            raise FileError(f"{source}: tolerances must say {name}, in points; got {points!r}")
    for grid in document["shifts"].values():
        lists = map(grid.get, ("kinds", "severities")) if isinstance(grid, dict) else [None]
        if not all(isinstance(one, list) and one for one in lists):
            raise FileError(f"{source}: shifts must list kinds and severities for each data set")
    entries = document.get("values")
    if not isinstance(entries, list) or not entries:
        raise FileError(f"{source}: values must be a list of entries")
    values = (
        value
        for number, entry in enumerate(entries, 1)
        for value in _values(entry, document["defaults"], f"{source}, value {number}")
    )
    return Reference(values=tuple(values), tolerances=tolerances, shifts=document["shifts"])


_TOLERANCES = ("deterministic", "smart-bce", "cifar100c")
_FIELDS = {one.name: one for one in fields(Value)}
_NEEDED = tuple(name for name, one in _FIELDS.items() if one.default is one.default_factory)
_COMPARED = ("difference", "win-share", "share-below-zero")


def _values(entry: Any, defaults: Mapping[str, Any], where: str) -> Iterator[Value]:
    """Check one entry and yield its numbers; fields that only people read are left out."""
    if not isinstance(entry, dict):
        raise FileError(f"{where}: expected an object")
    entry = {**defaults, **entry}
    if missing := [name for name in _NEEDED if name not in entry]:
        raise FileError(f"{where}: lacks {', '.join(missing)}")
    for name, given in entry.items():
        if name in _CHECKS and not _CHECKS[name](given):
            raise FileError(f"{where}: {name} cannot be {given!r}")
    if bool(entry.get("against")) != (entry.get("kind", "value") in _COMPARED):
        raise FileError(f"{where}: a difference is against a method, and a value against none")
    found = list(_numbers(entry))
    if not found:
        raise FileError(f"{where}: no number is printed")
    for one in found:
        kept = {name: one[name] for name in _FIELDS if one.get(name) is not None}
        fitted = tuple(Entry(label="", **each) for each in one.get("entries", ()))
        yield Value(**{**dict.fromkeys(_NEEDED), **kept, "entries": fitted})


def _numbers(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an entry for each number that it prints."""
    if entry["value"] is not None:
        yield entry
    alone = {**entry, "spread": None}
    if entry.get("spread") is not None:
        yield {**alone, "value": entry["spread"], "part": "spread"}
    intervals = {entry.get("resampled"): entry.get("interval")}
    for resampled, ends in {**intervals, **entry.get("other_intervals", {})}.items():
        for part, end in zip(("low", "high"), ends or (), strict=False):
            yield {**alone, "value": end, "part": part, "resampled": resampled}
    for seed, value in enumerate(entry.get("per_seed", ())):
        yield {**alone, "value": value, "seeds": [seed]}
    chosen = {"metric": None, "paper_metric": "groups_chosen", "unit": "count", "decimals": 0}
    for place, groups in enumerate(entry.get("picks", ())):
        one = {"draw": place} if entry.get("draws") else {"seeds": [place]}
        yield {**alone, **chosen, **one, "value": groups}


# --- what the fields may be; one that nobody knows can be anything


def _is_count(given: Any, least: int = 1) -> bool:
    return type(given) is int and given >= least


def _is_number(given: Any) -> bool:
    return type(given) in (int, float) and abs(given) < math.inf


def _are_numbers(given: Any) -> bool:
    return isinstance(given, list) and all(map(_is_number, given))


def _is_interval(given: Any) -> bool:
    return given is None or (_are_numbers(given) and len(given) == 2)


def _are_seeds(given: Any) -> bool:
    if isinstance(given, dict):
        return bool(given) and all(one is not None and _are_seeds(one) for one in given.values())
    if isinstance(given, list):
        return bool(given) and all(_is_count(seed, 0) for seed in given)
    return given is None or _is_count(given)


def _is_entry(given: Any) -> bool:
    known = isinstance(given, dict) and given.keys() <= {"method", "options"}
    named = known and isinstance(given.get("method"), str)
    return named and isinstance(given.get("options", {}), dict)


_TEXTS = ("table", "dataset", "backbone", "set", "unit", "kind", "spread_over")
_OPTIONAL = ("method", "metric", "against", "doubt", "note", "resampled", "study", "cells_of")
_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_TEXTS, lambda given: isinstance(given, str)),
    **dict.fromkeys(
        (*_OPTIONAL, "paper_method", "paper_metric"),
        lambda given: given is None or isinstance(given, str),
    ),
    **dict.fromkeys(("value", "spread", "ddof"), lambda given: given is None or _is_number(given)),
    "draws": lambda given: given is None or _is_count(given),
    "decimals": lambda given: _is_count(given, 0),
    "seeds": _are_seeds,
    "budget": lambda given: not isinstance(given, list) and _are_seeds(given),
    "options": lambda given: isinstance(given, dict),
    "interval": _is_interval,
    "other_intervals": lambda given: (
        isinstance(given, dict) and all(map(_is_interval, given.values()))
    ),
    **dict.fromkeys(("per_seed", "picks"), _are_numbers),
    "entries": lambda given: isinstance(given, list) and all(map(_is_entry, given)),
    **dict.fromkeys(("part", "draw"), lambda given: False),  # told from the others
}
