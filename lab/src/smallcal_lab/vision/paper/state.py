"""What is there already: images, weights, runs, logits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from smallcal.errors import FileError, InputError, SmallcalError
from smallcal_lab.studies.collection import FILE_NAME, Cell, load_collection
from smallcal_lab.vision.images import HUB, image_parts
from smallcal_lab.vision.paper.cells import PaperCell
from smallcal_lab.vision.paper.work import Places, Work


def missing_images(source: str, parts: Iterable[str] = ()) -> str:
    """Return what is missing of a set of images, by a look at its folder; nothing if nothing is.

    Examples
    --------
    >>> missing_images("cifar100:nowhere:test")
    'cifar100: the folder nowhere is not there'
    """
    wanted = sorted(parts)
    if source.startswith(f"{HUB}:"):
        return ""  # to look would be to load it
    try:
        there = image_parts(source)
    except FileError as error:
        return str(error)
    except InputError:  # it is one part already
        base, _, part = source.rpartition(":")
        wanted = [part]
        try:
            there = image_parts(base)
        except SmallcalError as error:
            return str(error)
    lacking = [part for part in wanted if part not in there]
    if not lacking:
        return ""
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return f"{source} lacks {', '.join(lacking[:3])}{more}"


def wanted_images(cells: Iterable[PaperCell]) -> dict[str, list[str]]:
    """Return every set of images that cells need, with the parts of it that they name."""
    wanted: dict[str, list[str]] = {}
    for cell in cells:
        for named in cell.images:
            wanted.setdefault(named, [])
        for shift in cell.shifts:
            parts = (f"{kind}-{severity}" for kind, severity in shift.parts)
            wanted[shift.data] = list(dict.fromkeys((*wanted[shift.data], *parts)))
    return wanted


#: Files that published weights are kept in.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def weights_here(source: str) -> bool | None:
    """Return whether a model's weights are in a cache or file here; None if that cannot be told.

    Examples
    --------
    >>> weights_here("checkpoint:nowhere.pt"), weights_here("torch:networks:small")
    (False, None)
    """
    kind, _, rest = source.partition(":")
    name = rest.partition("?")[0]
    if kind in ("checkpoint", "onnx"):
        return Path(name).expanduser().is_file()
    if kind == "hf" and Path(name).expanduser().is_dir():
        return True
    if kind not in ("hf", "timm") or (kind == "timm" and "." not in name):
        return None
    with suppress(ImportError, ValueError):
        from huggingface_hub import try_to_load_from_cache

        owner = "timm/" if kind == "timm" and "/" not in name else ""
        found = (try_to_load_from_cache(f"{owner}{name}", file) for file in _WEIGHTS)
        return any(isinstance(one, str) for one in found)
    return None


def is_trained(work: Work, places: Places) -> bool:
    """Return whether a cell's training is finished, by its log."""
    log = places.run(work.cell) / "log.csv"
    with suppress(OSError, UnicodeDecodeError):
        rows = log.read_text(encoding="utf-8").splitlines()[1:]
        return 0 < work.epochs <= len(rows)
    return False


#: Cells of a collection by their name there.
Entries = Mapping[str, Cell]


def entries_in(places: Places) -> Entries:
    """Return what the collection has; nothing if there is none yet."""
    if not (places.logits / FILE_NAME).is_file():
        return {}
    return {cell.name: cell for cell in load_collection(places.logits).cells}


def is_extracted(work: Work, places: Places, there: Entries) -> bool:
    """Return whether a cell's logits are all there, and not older than its training."""
    entry = there.get(work.cell.key)
    if entry is None:
        return False
    wanted = {*work.cell.corrupt, *(part for shift in work.cell.shifts for part in shift.parts)}
    found = {(shift.kind, shift.severity) for shift in entry.shifts}
    others = sum(not shift.parts for shift in work.cell.shifts)
    if not wanted <= found or len(found) < len(wanted) + others:
        return False
    checkpoint = places.run(work.cell) / "last.pt"
    with suppress(OSError):
        return work.recipe is None or _written(checkpoint) <= _written(Path(entry.files[1]))
    return False


def _written(file: Path) -> int:
    return file.stat().st_mtime_ns
