"""Write ``collection.toml`` for logits that are there already: a folder of files, or CalArena's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal import io
from smallcal.errors import FileError, SmallcalError
from smallcal.io.readers import nested_h5, readable
from smallcal.io.reading import read_labels
from smallcal_lab.studies.collection import (
    FILE_NAME,
    Collection,
    plain_name,
    require_in_range,
    write_description,
)

PathLike = str | os.PathLike[str]
#: A cell or a shifted set, as ``collection.toml`` has it.
Entry = dict[str, Any]


@dataclass(frozen=True)
class Imported:
    """The collection that was written, and a line for each file that is no part of it."""

    collection: Collection
    left_out: tuple[str, ...] = ()


def import_folder(folder: PathLike, out: PathLike, *, force: bool = False) -> Imported:
    """Describe a folder of .npz files as a collection, whose logits stay where they are.

    ``DATASET__MODEL.npz`` or ``DATASET__MODEL-seed2.npz`` is a cell: it holds a split called val
    (or cal) and one called test. ``shift/DATASET__MODEL__KIND-s3.npz`` is a shifted test set of
    severity 3; without a severity it has 1. It counts as paired when its labels are those of the
    test split, in order.

    ``collection.toml`` is written to ``out``, which may be the folder itself; an old one is an
    error unless ``force`` says otherwise.
    """
    root, target = Path(folder), Path(out)
    _require_text(root.resolve())
    if not os.path.isdir(root):
        raise FileError(f"{root} is not a folder of .npz files")
    _refuse_old(target / FILE_NAME, force=force)
    cells: list[Entry] = []
    left_out: list[str] = []
    shifts = sorted((root / "shift").glob("*.npz"))
    for file in sorted(root.glob("*.npz")):
        own = [one for one in shifts if one.stem.rpartition("__")[0] == file.stem]
        shifts = [one for one in shifts if one not in own]
        try:
            cells.append(_cell_of(file, own, target, left_out))
        except SmallcalError as error:
            left_out += [str(error), *(f"{one}: its model is left out" for one in own)]
    left_out += [f"{one}: there is no {one.stem.rpartition('__')[0]}.npz" for one in shifts]
    if not cells:
        why = left_out[0] if left_out else "there is no .npz file"
        raise FileError(f"{root} holds no cell called DATASET__MODEL.npz: {why}")
    document = {"name": root.resolve().name, "cell": cells}
    return Imported(write_description(document, target), tuple(left_out))


def _cell_of(file: Path, shifts: Sequence[Path], out: Path, left_out: list[str]) -> Entry:
    dataset, _, model = file.stem.partition("__")
    backbone, seed = _numbered(file, model if dataset else "", "seed", usual=0)
    calibration = _calibration_split(io.splits(file), str(file))
    labels = np.asarray(read_labels(f"{file}:test"))
    found = []
    for shift in shifts:
        try:
            kind, severity = _numbered(shift, shift.stem.rpartition("__")[2], "severity", usual=1)
            paired = bool(np.array_equal(read_labels(shift), labels))
        except SmallcalError as error:
            left_out.append(str(error))
        else:
            about = {"kind": kind, "severity": severity, "paired": paired}
            found.append({**about, "file": _relative(shift, out)})
    cell = _entry(dataset, backbone, _relative(file, out), calibration)
    return {**cell, "seed": seed, "shift": found}


def _entry(dataset: str, backbone: str, path: str, calibration: str) -> Entry:
    files = {"calibration": f"{path}:{calibration}", "test": f"{path}:test"}
    return {"dataset": dataset, "backbone": backbone, "seed": 0, **files}


def _numbered(file: Path, text: str, what: str, *, usual: int) -> tuple[str, int]:
    """Return the end of a file's name without its seed or severity, and that number."""
    _require_text(file)
    if not text:
        raise FileError(f"{file}: not called DATASET__MODEL.npz")
    name, _, digits = text.rpartition("-seed" if what == "seed" else "-s")
    if not name or not digits.isdecimal():
        return text, usual
    return name, require_in_range(int(digits), what, where=str(file))


def _require_text(path: Path) -> None:
    """Raise where a path is bytes that are no text, which no description can hold."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise FileError(f"{path}: its path is not valid UTF-8; rename it") from None


def _calibration_split(there: Sequence[str], source: str) -> str:
    first = next((name for name in io.CALIBRATION_SPLITS if name in there), None)
    if first is None or "test" not in there:
        raise FileError(f"{source}: it does not hold two splits, val (or cal) and test")
    return first


def import_calarena(
    file: PathLike,
    out: PathLike,
    *,
    force: bool = False,
    advance: Callable[[int], object] = lambda cells: None,
) -> Imported:
    """Describe an HDF5 file in CalArena's layout as a collection.

    The layout is ``DATASET/MODEL/`` with ``probas_cal``, ``labels_cal``, ``probas_test`` and
    ``labels_test``; each such group becomes an .npz file in ``out``, one at a time. A file that
    holds them outside of groups is referred to and not copied. A binary model's probabilities of
    one column become two.

    ``collection.toml`` and the files beside it are written to ``out``; old ones are an error unless
    ``force`` says otherwise. ``advance`` is called as each cell is written.
    """
    source, target = Path(file), Path(out)
    _refuse_old(target / FILE_NAME, force=force)
    cells: list[Entry] = []
    left_out: list[str] = []
    with readable(source, nested_h5) as arrays:
        groups = list(dict.fromkeys(name.rpartition("/")[0] for name in arrays.names))
    models = {group: _model_of(group, source) for group in groups if group}
    paths = {group: f"{'__'.join(names)}.npz" for group, names in models.items()}
    for path in paths.values():
        if list(paths.values()).count(path) > 1:
            raise FileError(f"two models would be called {path[:-4]}; rename one of them")
        _refuse_old(target / path, force=force)
    io.make_folder(target)
    for group, path in paths.items():
        try:
            content = _content(f"{source}:{group if '/' in group else f'/{group}'}")
        except SmallcalError as error:
            left_out.append(str(error))
        else:
            io.write_arrays(target / path, content)
            cells.append(_entry(*models[group], path, "cal"))
        advance(1)
    if "" in groups:
        first = _calibration_split(io.splits(source), str(source))
        cells.append(_entry(source.stem, "model", _relative(source, target), first))
    if not cells:
        why = left_out[0] if left_out else "no group holds probas_cal and probas_test"
        raise FileError(f"{source} is not in CalArena's layout: {why}")
    document = {"name": source.stem, "cell": cells}
    return Imported(write_description(document, target), tuple(left_out))


def _model_of(group: str, source: Path) -> tuple[str, str]:
    """Return data set and backbone of a group DATASET/MODEL."""
    first, *others = (plain_name(part) for part in group.split("/"))
    return (first, "-".join(others)) if others else (plain_name(source.stem), first)


def _content(group: str) -> dict[str, NDArray[Any]]:
    """Return one group's two splits."""
    content: dict[str, NDArray[Any]] = {}
    first = _calibration_split(io.splits(group), group)
    for ours, theirs in (("cal", first), ("test", "test")):
        loaded = io.read(f"{group}:{theirs}")
        if loaded.labels is None:
            raise FileError(f"{group}: {theirs} has no labels")
        kind = "scores" if loaded.input == "score" else loaded.input
        content |= {f"{ours}_{kind}": loaded.logits, f"{ours}_labels": loaded.labels}
    return content


def _refuse_old(file: Path, *, force: bool) -> None:
    if os.path.exists(file) and not force:
        how = {"python": "force=True replaces it", "shell": "--force replaces it"}
        raise FileError(f"{file} already exists; ", **how)


def _relative(file: Path, folder: Path) -> str:
    """Return a path as seen from a folder; whole where there is no way, as between two drives."""
    whole, start = file.resolve(), folder.resolve()
    return (Path(os.path.relpath(whole, start)) if whole.drive == start.drive else whole).as_posix()
