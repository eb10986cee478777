"""A cell of logits as an entry of ``collection.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, InputError
from smallcal.io.atomic import leftovers
from smallcal.io.lock import one_at_a_time
from smallcal_lab.studies.collection import (
    FILE_NAME,
    Collection,
    collection_of,
    read_description,
    write_description,
)
from smallcal_lab.studies.portions import EVERY

Entry = dict[str, Any]


def entries_of(manifest: Mapping[str, Any], folder: str) -> list[Entry]:
    """Return the entries of a cell, whose files are in a folder of this name.

    A shifted set that has only some of the classes, as ImageNet-R has 200 of 1,000, becomes a cell
    of its own that sees these classes of the same calibration and test files: logits of others
    must be gone before anything is done with them.
    """
    sets: Mapping[str, Any] = manifest["sets"]
    entry: Entry = {key: manifest[key] for key in ("dataset", "backbone", "seed")}
    for part in ("calibration", "test"):
        entry[part] = f"{folder}/{sets[part]['file']}"
    shifts = [one for one in sets.values() if "kind" in one]
    whole = sets["test"]["model_columns"]
    own = [_shift(one, folder) for one in shifts if one["model_columns"] == whole]
    return [
        {**entry, "shift": own},
        *(_restricted(entry, one, folder) for one in shifts if one["model_columns"] != whole),
    ]


def _shift(one: Mapping[str, Any], folder: str) -> Entry:
    kept = {key: one[key] for key in ("kind", "severity")}
    return {**kept, "file": f"{folder}/{one['file']}", "paired": one["paired"]}


def _restricted(entry: Entry, one: Mapping[str, Any], folder: str) -> Entry:
    dataset, kind = entry["dataset"], one["kind"]
    name = kind if kind.startswith(f"{dataset}-") else f"{dataset}-{kind}"
    shift = {**_shift(one, folder), "paired": False, "classes": EVERY}
    return {**entry, "dataset": name, "classes": one["model_columns"], "shift": [shift]}


def registered(root: Path, entries: Sequence[Entry]) -> Collection:
    """Write entries into a folder's ``collection.toml``; others that are there stay.

    Raises
    ------
    InputError
        If a cell of the same name is there with other files.
    """
    with one_at_a_time(root / FILE_NAME):
        for path in leftovers([root / FILE_NAME]):
            path.unlink(missing_ok=True)
        return write_description(merged(root, entries), root)


def merged(root: Path, entries: Sequence[Entry]) -> Entry:
    """Return what is in a folder's ``collection.toml``, and these entries."""
    document: Entry = {"name": root.resolve().name, "cell": []}
    file = root / FILE_NAME
    if file.exists():
        document, _ = read_description(root)
        collection_of(document, root, source=str(file))
    cells: list[Entry] = list(document["cell"])
    for entry in entries:
        place = next((i for i, old in enumerate(cells) if _same_name(old, entry)), None)
        if place is None:
            cells.append(entry)
            continue
        old = cells[place]
        if any(old.get(part) != entry[part] for part in ("calibration", "test")):
            name = f"{entry['dataset']} {entry['backbone']}, seed {entry['seed']},"
            raise InputError(
                f"{file} already has a cell {name} with other files; ",
                python="change its name (dataset, backbone or seed)",
                shell="change its name with --dataset, --backbone or --seed",
            )
        cells[place] = {**old, **entry}
    return {**document, "cell": cells}


def _same_name(old: Entry, entry: Entry) -> bool:
    seeds = old.get("seed", 0)
    named = all(old[key] == entry[key] for key in ("dataset", "backbone"))
    return named and entry["seed"] in (seeds if isinstance(seeds, list) else [seeds])


def require_free(root: Path, entry: Entry) -> None:
    """Raise before any work if the entry could not be written."""
    try:
        merged(root, [entry])
    except FileError as error:
        raise FileError(f"cannot add to the existing collection: {error}") from None
