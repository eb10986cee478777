"""The file of cells: which models there are, how each is made, what its logits are taken of.

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
import sys
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any

from smallcal.errors import FileError, InputError, choose, missing_file
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.studies.collection import require_in_range, require_keys
from smallcal_lab.vision.images import HUB, KINDS
from smallcal_lab.vision.paper.cells import (
    CORRUPTED,
    PAPER,
    THE_PAPER,
    Elsewhere,
    Paper,
    PaperCell,
    Shift,
)
from smallcal_lab.vision.splits import known_rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_paper(file: str | os.PathLike[str] | None = None) -> Paper:
    """Read a file of cells; the paper's if none is named.

    Raises
    ------
    FileError
        If the file is missing, or not of the form above; it says which entry is wrong.

    Examples
    --------
    >>> paper = load_paper()
    >>> paper.cells[0].name, len(paper.cells[0].shifts[0].parts)
    ('cifar100/vit-b16/seed0', 95)
    """
    path = PAPER if file is None else Path(file)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path} is not there{missing_file(path)}") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise FileError(f"{path} cannot be read as a file of cells: {error}") from None
    return paper_of(document, path)


def paper_of(document: dict[str, Any], file: Path) -> Paper:
    """Turn a parsed file into cells, saying which of its entries is wrong."""
    source = str(file)
    require_keys(document, {"cell": list}, _WHOLE, where=source)
    cells = [
        cell
        for number, entry in enumerate(document["cell"], 1)
        for cell in _cells_of(entry, where=f"{source}, cell {number}")
    ]
    others = [
        one
        for number, entry in enumerate(document.get("elsewhere", []), 1)
        for one in _elsewhere_of(entry, where=f"{source}, elsewhere {number}")
    ]
    names = [cell.name for cell in cells] + [other.name for other in others]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FileError(f"{source}: {', '.join(twice)} occurs more than once")
    if not cells:
        raise FileError(f"{source} names no cell")
    images = document.get("images", {})
    for data, many in images.items():
        _require_images(data, where=f"{source}, images")
        if type(many) is not int or many < 1:
            raise FileError(f"{source}, images: {data} must be a whole number; got {many!r}")
    name = document.get("name", file.stem)
    reference = document.get("reference", "")
    if reference and reference != THE_PAPER:
        reference = str(file.parent / reference)
    return Paper(name, tuple(cells), tuple(others), images, file, reference)


_WHOLE = {"name": str, "reference": str, "images": dict, "elsewhere": list}
_CELL = {"dataset": str, "backbone": str, "model": str, "test": str}
_CELL_TOO: dict[str, type | UnionType] = {
    **{"seeds": int | list, "recipe": str, "overrides": dict, "train": str, "calibration": str},
    **{"split": str, "shifts": list, "corrupt": dict, "draw": str | list, "test_is": str},
    **{"corrupt_images": int, "whole_shifts": bool, "unprinted": str},
}
_SHIFT = {"data": str}
_SHIFT_TOO: dict[str, type | UnionType] = {
    "kinds": str | list,
    "severities": list,
    "classes": str,
    "images": int,
}
_CORRUPT: dict[str, type | UnionType] = {"kinds": str | list, "severities": list}
#: Keys of a cell that are taken as they are.
_PLAIN = (
    *("dataset", "backbone", "model", "test", "recipe", "overrides", "train", "calibration"),
    *("split", "whole_shifts", "corrupt_images", "test_is", "unprinted"),
)


def _cells_of(entry: Any, *, where: str) -> list[PaperCell]:
    """Return the cells of one entry, one for each of its seeds."""
    require_keys(entry, _CELL, _CELL_TOO, where=where)
    where += f" ({entry['dataset']} {entry['backbone']})"
    for name in ("dataset", "backbone"):
        if not entry[name] or set(entry[name]) & set("/\\*?[]\0\n"):
            raise FileError(f"{where}: {name} {entry[name]!r} cannot be part of a file's name")
    _require_sense(entry, where=where)
    draw = entry.get("draw", ())
    corrupt = entry.get("corrupt")
    same = {key: entry[key] for key in _PLAIN if key in entry}
    same["shifts"] = tuple(
        _shift_of(one, where=f"{where}, shift {n}")
        for n, one in enumerate(entry.get("shifts", []), 1)
    )
    if corrupt is not None:
        require_keys(corrupt, {}, _CORRUPT, where=f"{where}, corrupt")
        same["corrupt"] = _parts_of(corrupt, STANDARD + EXTRA, where=f"{where}, corrupt")
    same["draw"] = (draw,) if isinstance(draw, str) else tuple(draw)
    cells = [PaperCell(seed=seed, **same) for seed in _seeds_of(entry.get("seeds", 1), where=where)]
    for data in cells[0].images:
        _require_images(data, where=where)
    return cells


def _require_sense(entry: Mapping[str, Any], *, where: str) -> None:
    """Raise where keys of a cell do not go together."""
    split, recipe = entry.get("split", ""), "recipe" in entry
    if split:
        try:
            known_rule(split)
        except InputError as error:
            raise FileError(f"{where}: {error}") from None
    if recipe != ("train" in entry):
        raise FileError(f"{where}: give both recipe (how to train) and train (on what), or neither")
    if "corrupt_images" in entry and "corrupt" not in entry:
        raise FileError(
            f"{where}: corrupt_images says how many, but corrupt (which images) is missing"
        )
    if "overrides" in entry and not recipe:
        raise FileError(f"{where}: overrides change a recipe, and there is none")
    if bool(split) == ("calibration" in entry):
        raise FileError(f"{where}: give exactly one of split and calibration: what to calibrate on")
    if "%" in split and not recipe:
        raise FileError(
            f"{where}: the split {split} divides training images; give recipe and train too"
        )


def _seeds_of(given: Any, *, where: str) -> list[int]:
    seeds = list(range(given)) if isinstance(given, int) and given <= 1000 else given
    if not isinstance(seeds, list) or not seeds or not all(type(one) is int for one in seeds):
        raise FileError(f"{where}: seeds must be their number, or a list of numbers; got {given!r}")
    if len(set(seeds)) < len(seeds):
        raise FileError(f"{where}: seeds must differ; got {given!r}")
    return [require_in_range(seed, "seeds", where=where) for seed in seeds]


def _shift_of(entry: Any, *, where: str) -> Shift:
    if isinstance(entry, str):
        entry = {"data": entry}
    require_keys(entry, _SHIFT, _SHIFT_TOO, where=where)
    data = entry["data"]
    kind = data.partition(":")[0]
    # A folder may have colons in its name, and a part is one corruption at one severity.
    whole = kind in CORRUPTED and not _names_part(data)
    if not whole and {"kinds", "severities"} & set(entry):
        raise FileError(f"{where}: {data} has no corruptions to choose from")
    parts = _parts_of(entry, CORRUPTED[kind], where=where) if whole else ()
    more = {key: entry[key] for key in ("classes", "images") if key in entry}
    return Shift(data, parts, **more)


def _names_part(data: str) -> bool:
    last = data.rpartition(":")[2].rpartition("-")
    return last[0] in STANDARD + EXTRA and last[2].isdigit()


def _parts_of(
    entry: Mapping[str, Any], usual: tuple[str, ...], *, where: str
) -> tuple[tuple[str, int], ...]:
    """Return corruptions with severities: the usual ones, or those that an entry names."""
    named = {"all": STANDARD + EXTRA, "standard": STANDARD}
    kinds = entry.get("kinds", usual)
    if isinstance(kinds, str):
        if kinds not in named:
            raise FileError(f"{where}: kinds must be all, standard or a list; got {kinds!r}")
        kinds = named[kinds]
    for kind in kinds:
        if kind not in STANDARD + EXTRA:
            raise FileError(
                f"{where}: unknown corruption {kind!r}; {choose(kind, STANDARD + EXTRA)}"
            )
    severities = entry.get("severities", SEVERITIES)
    if not kinds or not severities or not set(severities) <= set(SEVERITIES):
        raise FileError(f"{where}: name at least one kind and one severity from 1 to 5")
    return tuple((kind, severity) for kind in kinds for severity in severities)


def _elsewhere_of(entry: Any, *, where: str) -> list[Elsewhere]:
    needed = {"dataset": str, "backbones": list, "reason": str}
    require_keys(entry, needed, {"seeds": int | list}, where=where)
    seeds = _seeds_of(entry.get("seeds", 1), where=where)
    return [
        Elsewhere(entry["dataset"], str(backbone), seed, entry["reason"])
        for backbone in entry["backbones"]
        for seed in seeds
    ]


def _require_images(data: str, *, where: str) -> None:
    kind, _, rest = data.partition(":")
    if kind not in (*KINDS, HUB):
        raise FileError(f"{where}: unknown kind of images {kind!r}; {choose(kind, (*KINDS, HUB))}")
    if not rest:
        raise FileError(f"{where}: {data!r} does not say where the images are: {kind}:FOLDER")
