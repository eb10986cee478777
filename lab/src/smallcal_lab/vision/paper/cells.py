"""The cells of a paper: which models there are, how each is made, what its logits are taken of.

``paper.toml`` has the paper's. Another file of the same form will do as well::

    name = "mine"

    [[cell]]
    dataset = "photographs"
    backbone = "small"
    seeds = 3
    model = "torch:networks:small"
    recipe = "recipe.toml"
    train = "folder:photographs:train"
    split = "5%"
    test = "folder:photographs:test"
    corrupt = {kinds = ["fog", "snow"], severities = [1, 3, 5]}
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from types import UnionType
from typing import Any

from smallcal.data.checks import whole_number
from smallcal.errors import FileError, InputError, choose
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.studies.collection import require_keys
from smallcal_lab.toml import read_toml
from smallcal_lab.vision.extraction.cell_images import Corruptions
from smallcal_lab.vision.images import HUB, KINDS
from smallcal_lab.vision.splits import known_rule

#: The paper's own cells.
PAPER = Path(__file__).parent / "paper.toml"

_ALL = STANDARD + EXTRA

#: Kinds of images that have corruptions as parts, with those that the paper takes.
CORRUPTED = {"cifar10-c": _ALL, "cifar100-c": _ALL, "imagenet-c": STANDARD}


@dataclass(frozen=True)
class Shift:
    """Shifted test images."""

    data: str  # ``KIND:FOLDER`` or ``KIND:FOLDER:PART``
    #: Corruptions with severities, where ``data`` names all of them.
    parts: tuple[tuple[str, int], ...] = ()
    classes: str = ""  # images whose classes are the only ones taken; empty for all
    images: int = 0  # how many there are, where the file says

    @property
    def kind(self) -> str:
        """What a collection calls it."""
        return self.data.partition(":")[0]


@dataclass(frozen=True)
class PaperCell:
    """One model: a data set, a backbone, a seed; keys as in the file."""

    dataset: str
    backbone: str
    seed: int
    model: str  # as ``open_model`` takes it
    test: str
    recipe: str = ""  # how it is trained; empty for weights as they are published
    overrides: Mapping[str, Any] = field(default_factory=dict)  # of the recipe
    train: str = ""
    calibration: str = ""  # empty where a split gives it
    split: str = ""  # of the training images if it leaves some to train on, else of the test images
    shifts: tuple[Shift, ...] = ()
    whole_shifts: bool = False  # whether shifted sets keep the twins of calibration images
    corrupt: Corruptions | None = None  # of the test images, that are made
    draw: tuple[str, ...] = ()  # how a study draws from the calibration split
    test_is: str = ""  # what shifted set the test images are, if they are one
    unprinted: str = ""  # why no printed number is of this model

    @property
    def name(self) -> str:
        """What it is called: ``cifar100/vit-b16/seed0``."""
        return f"{self.dataset}/{self.backbone}/seed{self.seed}"

    @property
    def key(self) -> str:
        """The same for a file or a folder, as collections write it."""
        return f"{self.dataset}__{self.backbone}__s{self.seed}"

    @property
    def splits_training(self) -> bool:
        """Whether the split is one of the training images."""
        return "%" in self.split

    @property
    def images(self) -> tuple[str, ...]:
        """Every set of images that it needs."""
        named = [self.train, self.calibration, self.test]
        named += [one for shift in self.shifts for one in (shift.data, shift.classes)]
        return tuple(dict.fromkeys(filter(None, named)))


@dataclass(frozen=True)
class Paper:
    """All cells of a file."""

    name: str
    cells: tuple[PaperCell, ...]
    elsewhere: Mapping[str, str]  #: Cells that the file names and cannot make, with the reasons.
    images: Mapping[str, int]  #: How many images sets have, as far as the file says.
    file: Path
    reference: str = ""  #: The printed numbers to compare with: "paper", a file, or none.

    def only(self, wanted: Sequence[str]) -> tuple[PaperCell, ...]:
        """Return the cells of these names, or of their first parts; all for none.

        Examples
        --------
        >>> from smallcal_lab.vision import load_paper
        >>> paper = load_paper()
        >>> [cell.name for cell in paper.only(["imagenet1k/vit-b16", "cifar10*/deit-s/seed0"])]
        ['cifar100/deit-s/seed0', 'cifar10/deit-s/seed0', 'imagenet1k/vit-b16/seed0']
        """
        found: set[str] = set()
        for text in wanted:
            own = {cell.name for cell in self.cells if _is_called(text, cell.name)}
            if not own:
                raise InputError(self._unknown(text))
            found |= own
        return tuple(cell for cell in self.cells if not wanted or cell.name in found)

    def _unknown(self, text: str) -> str:
        for name, reason in self.elsewhere.items():
            if _is_called(text, name):
                return f"{name} is not made here: {reason}"
        depth = text.strip("/").count("/") + 1
        like = dict.fromkeys("/".join(cell.name.split("/")[:depth]) for cell in self.cells)
        return f"no cell is called {text!r}; {choose(text, like)}"


def _is_called(text: str, name: str) -> bool:
    return fnmatchcase(f"{name}/", f"{text.strip('/')}/*")


def load_paper(file: str | os.PathLike[str] | None = None) -> Paper:
    """Read a file of cells; the paper's if none is named.

    Examples
    --------
    >>> paper = load_paper()
    >>> paper.cells[0].name, len(paper.cells[0].shifts[0].parts)
    ('cifar100/vit-b16/seed0', 95)
    """
    path = PAPER if file is None else Path(file)
    document = read_toml(path, "a file of cells")
    require_keys(document, {"cell": list}, _WHOLE, where=str(path))
    images = document.get("images", {})
    cells: list[PaperCell] = []
    elsewhere: list[tuple[str, str]] = []
    for number, entry in enumerate(document["cell"], 1):
        cells += _cells_of(entry, f"{path}, cell {number}")
    for number, entry in enumerate(document.get("elsewhere", []), 1):
        elsewhere += _elsewhere_of(entry, f"{path}, elsewhere {number}")
    names = [cell.name for cell in cells] + [name for name, _ in elsewhere]
    with _told_of(str(path)):
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"{', '.join(twice)} occurs more than once")
        for data, many in images.items():
            _require_images(data)
            whole_number(many, data, least=1)
    name, reference = document.get("name", path.stem), document.get("reference", "")
    if reference and reference != "paper":  # whose numbers come with smallcal
        reference = str(path.parent / reference)
    return Paper(name, tuple(cells), dict(elsewhere), images, path, reference)


@contextmanager
def _told_of(where: str) -> Iterator[None]:
    """Say in which entry of which file something is wrong."""
    try:
        yield
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


_WHOLE = {"name": str, "reference": str, "images": dict, "elsewhere": list}
_CELL = {"dataset": str, "backbone": str, "model": str, "test": str}
_CELL_TOO: dict[str, type | UnionType] = {
    **{"seeds": int | list, "recipe": str, "overrides": dict, "train": str, "calibration": str},
    **{"split": str, "shifts": list, "corrupt": dict, "draw": str | list, "test_is": str},
    **{"corrupt_images": int, "whole_shifts": bool, "unprinted": str},
}
_CORRUPT: dict[str, type | UnionType] = {"kinds": str | list, "severities": list}
_SHIFT_TOO: dict[str, type | UnionType] = {**_CORRUPT, "classes": str, "images": int}


def _cells_of(entry: Any, where: str) -> list[PaperCell]:
    """Return the cells of one entry, one for each of its seeds."""
    require_keys(entry, _CELL, _CELL_TOO, where=where)
    where += f" ({entry['dataset']} {entry['backbone']})"
    given = dict(entry)
    draw, made = entry.get("draw", ()), given.pop("corrupt_images", 0)
    given["draw"] = (draw,) if isinstance(draw, str) else tuple(draw)
    shifts = enumerate(entry.get("shifts", []), 1)
    given["shifts"] = tuple(_shift_of(one, f"{where}, shift {n}") for n, one in shifts)
    with _told_of(where):
        _require_sense(entry)
        seeds = _seeds_of(given.pop("seeds", 1))
        if "corrupt" in entry:
            require_keys(entry["corrupt"], {}, _CORRUPT, where=f"{where}, corrupt")
            given["corrupt"] = replace(_corruptions(entry["corrupt"], _ALL), images=made)
        cell = PaperCell(seed=0, **given)
        for data in cell.images:
            _require_images(data)
    return [replace(cell, seed=seed) for seed in seeds]


def _require_sense(entry: Mapping[str, Any]) -> None:
    """Raise where keys of a cell do not go together."""
    for name in ("dataset", "backbone"):
        if not entry[name] or set(entry[name]) & set("/\\*?[]\0\n"):
            raise InputError(f"{name} {entry[name]!r} cannot be part of a file's name")
    split = entry.get("split") or "halves"
    known_rule(split)
    recipe = "recipe" in entry
    if recipe != ("train" in entry):
        raise InputError("give both recipe (how to train) and train (on what), or neither")
    if "corrupt_images" in entry and "corrupt" not in entry:
        raise InputError("corrupt_images says how many, but corrupt (which images) is missing")
    if "overrides" in entry and not recipe:
        raise InputError("overrides change a recipe, and there is none")
    if ("split" in entry) == ("calibration" in entry):
        raise InputError("give exactly one of split and calibration: what to calibrate on")
    if "%" in split and not recipe:
        raise InputError(f"the split {split} divides training images; give recipe and train too")


def _seeds_of(given: Any) -> list[int]:
    seeds = list(range(given)) if isinstance(given, int) and given <= 1000 else given
    if not isinstance(seeds, list) or not seeds:
        raise InputError(f"seeds must be their number, or a list of numbers; got {given!r}")
    if any(seeds.count(seed) > 1 for seed in seeds):
        raise InputError(f"seeds must differ; got {given!r}")
    return [whole_number(seed, "a seed", most=2**32 - 1) for seed in seeds]


def _shift_of(entry: Any, where: str) -> Shift:
    entry = {"data": entry} if isinstance(entry, str) else entry
    require_keys(entry, {"data": str}, _SHIFT_TOO, where=where)
    shift = Shift(entry["data"], classes=entry.get("classes", ""), images=entry.get("images", 0))
    # A folder may have colons in its name, and a part is one corruption at one severity.
    kind, _, severity = shift.data.rpartition(":")[2].rpartition("-")
    with _told_of(where):
        if shift.kind in CORRUPTED and not (kind in _ALL and severity.isdigit()):
            return replace(shift, parts=_corruptions(entry, CORRUPTED[shift.kind]).parts)
        if {"kinds", "severities"} & set(entry):
            raise InputError(f"{shift.data} has no corruptions to choose from")
    return shift


def _corruptions(entry: Mapping[str, Any], usual: tuple[str, ...]) -> Corruptions:
    """Return the usual corruptions, or those that an entry names."""
    kinds = entry.get("kinds", usual)
    if isinstance(kinds, str):
        kinds = {"all": _ALL, "standard": STANDARD}.get(kinds, (kinds,))
    return Corruptions(tuple(kinds), tuple(entry.get("severities", SEVERITIES)))


def _elsewhere_of(entry: Any, where: str) -> list[tuple[str, str]]:
    needed = {"dataset": str, "backbones": list, "reason": str}
    require_keys(entry, needed, {"seeds": int | list}, where=where)
    with _told_of(where):
        named = product(entry["backbones"], _seeds_of(entry.get("seeds", 1)))
    return [(f"{entry['dataset']}/{name}/seed{seed}", entry["reason"]) for name, seed in named]


def _require_images(data: str) -> None:
    kind, _, rest = data.partition(":")
    if kind not in (*KINDS, HUB):
        raise InputError(f"unknown kind of images {kind!r}; {choose(kind, (*KINDS, HUB))}")
    if not rest:
        raise InputError(f"{data!r} does not say where the images are: {kind}:FOLDER")
