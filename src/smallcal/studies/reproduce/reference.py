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

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from smallcal.calibrators.catalogue import method
from smallcal.errors import FileError
from smallcal.io.documents import read_document
from smallcal.studies.frame import CLEAN

#: The paper's numbers.
PAPER = Path(__file__).parent / "reference.json"

#: The paper's numbers are half a megabyte.
MAX_BYTES = 64 * 1024 * 1024

#: What a fraction, or a number of nats, is multiplied by to be in a unit.
UNITS: Mapping[str, float] = {"percent": 100.0, "fraction": 1.0, "nats": 1.0, "x1000": 1000.0}

#: The corruptions of ImageNet-C; CIFAR-10-C and CIFAR-100-C have four more.
STANDARD = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur"),
    *("motion_blur", "zoom_blur", "snow", "frost", "fog", "brightness", "contrast"),
    *("elastic_transform", "pixelate", "jpeg_compression"),
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
SEVERITIES = (1, 2, 3, 4, 5)

#: The paper's tolerances are for numbers that are printed to a hundredth of a point.
_ROUNDING = 0.005

#: A shifted set: its kind and its severity.
Part = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Value:
    """A printed number, with what it is of; fields as in the file."""

    table: str
    dataset: str
    backbone: str
    seeds: int | None
    budget: int | None
    method: str | None
    set: str
    metric: str | None
    value: float | None
    unit: str
    kind: str = "value"
    draws: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    against: str = ""
    spread: float | None = None
    decimals: int = 2
    doubt: str = ""
    note: str = ""
    paper_method: str = ""
    paper_metric: str = ""

    @property
    def label(self) -> str:
        """The method with its options, which no other method has."""
        name = self.method or self.paper_method
        given = ",".join(f"{key}={value}" for key, value in sorted(self.options.items()))
        return f"{name}[{given}]" if given else name

    @property
    def model(self) -> str:
        """Data set and backbone."""
        return f"{self.dataset} {self.backbone}"

    @property
    def measured(self) -> str:
        """The metric, by whichever name it has."""
        return self.metric or self.paper_metric

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it is about: one, or two for a difference."""
        named = (self.method or self.paper_method, self.against)
        return tuple(name for name in named if name)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Numbers to reproduce, and how near is near enough.

    Attributes
    ----------
    values : tuple of Value
    tolerances : dict
        In points: for ``deterministic`` methods, for ``smart-bce``, and for ``cifar100c``.
    shifts : dict
        Data set to the kinds and severities that its set ``corrupted`` consists of, where these
        are not the usual ones.
    source : str
    """

    values: tuple[Value, ...]
    tolerances: Mapping[str, float]
    shifts: Mapping[str, Mapping[str, Any]]
    source: str

    def parts(self, value: Value) -> frozenset[Part] | None:
        """Return the shifted sets that a value is a mean over; None for a set by its own name.

        Examples
        --------
        >>> paper = load_reference()
        >>> shifted = [v for v in paper.values if v.table == "tab:cifar100c_summary"]
        >>> len(paper.parts(shifted[0]))
        95
        """
        if value.set == CLEAN:
            return frozenset({(CLEAN, 0)})
        kinds, severities = self._grid(value.dataset)
        name, *rest = value.set.split("-")
        if value.set in kinds:
            kinds = (value.set,)
        elif name != "corrupted":
            return None
        elif rest == ["15"]:
            kinds = STANDARD
        elif all(word[:1] == "s" and word[1:].isdigit() for word in rest):
            severities = tuple(int(word[1:]) for word in rest) or severities
        else:
            return None
        return frozenset(product(kinds, severities))

    def _grid(self, dataset: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        given = self.shifts.get(dataset)
        if given is not None:
            return tuple(given["kinds"]), tuple(given["severities"])
        return (STANDARD if dataset.startswith("imagenet") else STANDARD + EXTRA), SEVERITIES

    def tolerance(self, value: Value) -> float | None:
        """Return by how much a reproduced value may differ, in its unit; None if not stated.

        A number printed more coarsely than to a hundredth of a point gets its coarser rounding
        on top, or the right number could not pass.

        Examples
        --------
        >>> paper = load_reference()
        >>> ece = next(v for v in paper.values if v.metric == "ece15" and v.method == "tva-ts")
        >>> ece.value, ece.unit, paper.tolerance(ece)
        (1.65, 'percent', 0.011)
        """
        names = {_sort(name) for name in value.methods}
        if "chance" in names:
            return None
        if value.dataset == "cifar100" and value.set != CLEAN:
            names.add("cifar100c")
        points = max(self.tolerances[name] for name in names)
        to_points = 100 / UNITS[value.unit]
        half = 0.5 * 10.0**-value.decimals * to_points
        return round(max(points, points - _ROUNDING + half) / to_points, 9)


def _sort(name: str) -> str:
    """Return which tolerance is for a method: networks drift, and chance has none."""
    row = method(name)
    if row.map == "head" or row.signal in ("random", "shuffled"):
        return "chance"
    return "smart-bce" if row.map == "smart" else "deterministic"


def load_reference(path: str | os.PathLike[str] = PAPER) -> Reference:
    """Read numbers to reproduce; the paper's if nothing else is asked for.

    Raises
    ------
    FileError
        If the file is missing or is not of the form above.

    Examples
    --------
    >>> paper = load_reference()
    >>> len(paper.values) > 2000
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
    entries = document.get("values")
    if not isinstance(entries, list) or not entries:
        raise FileError(f"{source}: values must be a list of entries")
    defaults = document["defaults"]
    return Reference(
        values=tuple(
            _value({**defaults, **entry} if isinstance(entry, dict) else entry, source, number)
            for number, entry in enumerate(entries, 1)
        ),
        tolerances=tolerances,
        shifts=_shifts(document["shifts"], source),
        source=source,
    )


_TOLERANCES = ("deterministic", "smart-bce", "cifar100c")
_FIELDS = {one.name: one for one in fields(Value)}
_NEEDED = tuple(name for name, one in _FIELDS.items() if one.default is one.default_factory)
_WORDS = ("table", "dataset", "backbone", "set", "unit")
_MAYBE_WORDS = (
    *("method", "metric", "kind", "against", "doubt", "note"),
    *("paper_method", "paper_metric"),
)
_COUNTS = ("seeds", "budget", "draws", "decimals")
_NUMBERS = ("value", "spread")


def _value(entry: Any, source: str, number: int) -> Value:
    """Check one entry; fields that only people read are left out."""
    where = f"{source}, value {number}"
    if not isinstance(entry, dict):
        raise FileError(f"{where}: expected an object")
    if missing := [name for name in _NEEDED if name not in entry]:
        raise FileError(f"{where}: lacks {', '.join(missing)}")
    for name, given in entry.items():
        if not _fits(name, given):
            raise FileError(f"{where}: {name} cannot be {given!r}")
    kind, against = entry.get("kind", "value"), bool(entry.get("against"))
    if (kind, against) in (("difference", False), ("value", True)):
        raise FileError(f"{where}: a difference is against a method, and a value against none")
    return Value(**{name: entry[name] for name in _FIELDS if name in entry})


def _fits(name: str, given: Any) -> bool:
    if name in _WORDS:
        return isinstance(given, str)
    if name in _COUNTS:
        least = 0 if name == "decimals" else 1
        whole = isinstance(given, int) and not isinstance(given, bool) and given >= least
        return whole or (given is None and name != "decimals")
    if name in _MAYBE_WORDS:
        return given is None or isinstance(given, str)
    if name in _NUMBERS:
        return given is None or _is_number(given)
    return name != "options" or isinstance(given, dict)


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and given - given == 0


def _shifts(given: Mapping[str, Any], source: str) -> Mapping[str, Mapping[str, Any]]:
    for grid in given.values():
        lists = (
            [grid.get(name) for name in ("kinds", "severities")] if isinstance(grid, dict) else []
        )
        if not lists or not all(isinstance(one, list) and one for one in lists):
            raise FileError(f"{source}: shifts must list kinds and severities for each data set")
    return given
