"""ImageNet and the sets that share its 1,000 classes: -C, -V2, -R, -A, -Sketch.

A model of ImageNet has one column for each wnid, in sorted order. A set with fewer classes says
which columns they are (``ImageSet.columns``), and its labels count its own classes.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from pathlib import Path

from smallcal.errors import FileError, InputError, choose
from smallcal_lab.corruption_names import SEVERITIES
from smallcal_lab.vision.cifar import in_order, named_part
from smallcal_lab.vision.folders import (
    ByClass,
    by_class,
    class_folders,
    images_below,
    lines_of,
    set_of,
)
from smallcal_lab.vision.image_set import Files, ImageSet

#: Classes of ImageNet, and of its sets R and A.
ALL, SOME = 1000, 200

_WNID = re.compile(r"n\d{8}")
#: Lists of the 1,000 wnids, a line each, that may lie beside the images: timm's and Kaggle's.
_LISTS = ("imagenet_synsets.txt", "LOC_synset_mapping.txt")
#: Kaggle's list of the classes of the validation images, which it keeps in one folder.
_SOLUTION = "LOC_val_solution.csv"
#: Folders that the archives unpack to.
_FOLDERS = {
    "imagenet": ("ILSVRC/Data/CLS-LOC", "CLS-LOC"),
    "imagenet-c": ("imagenet-c", "ImageNet-C"),
    "imagenet-r": ("imagenet-r",),
    "imagenet-a": ("imagenet-a",),
    "imagenet-sketch": ("sketch", "imagenet-sketch", "ImageNet-Sketch/sketch"),
}
_V2 = "imagenetv2-"
_V2_END = "-format-val"


def _wnids_in(root: Path) -> list[str]:
    """Return the class folders of a folder, if it has any and nothing but them."""
    names = class_folders(root)
    strange = [name for name in names if not _WNID.fullmatch(name)]
    if strange and len(strange) < len(names):
        raise FileError(
            f"{root / strange[0]} is not a class folder: those have names like n01440764"
        )
    return [] if strange else names


def _root(kind: str, place: Path) -> Path:
    """Return the folder of a set: the one that is named, or one that an archive made in it."""
    inner = (place / one for one in _FOLDERS[kind])
    return next((one for one in inner if one.is_dir()), place)


def _columns(wnids: list[str], place: Path) -> list[int] | None:
    """Return the columns of classes among all 1,000; None if they are all."""
    if len(wnids) == ALL:
        return None
    column = {wnid: number for number, wnid in enumerate(all_wnids(place))}
    if strange := next((wnid for wnid in wnids if wnid not in column), ""):
        raise FileError(f"{place}: {strange} is not one of ImageNet's 1,000 classes")
    return [column[wnid] for wnid in wnids]


def all_wnids(place: Path) -> list[str]:
    """Return ImageNet's wnids, sorted, from a list beside the images or from timm's."""
    lists = [place / name for name in _LISTS]
    timm = importlib.util.find_spec("timm")  # found, not imported: that takes seconds
    if timm is not None and timm.submodule_search_locations:
        folder = Path(next(iter(timm.submodule_search_locations)))
        lists.append(folder / "data" / "_info" / _LISTS[0])
    for file in lists:
        if file.is_file():
            found = sorted({line.split()[0] for line in lines_of(file)})
            if len(found) != ALL or not all(map(_WNID.fullmatch, found)):
                raise FileError(f"{file} must hold ImageNet's 1,000 wnids, one per line")
            return found
    raise FileError(
        f"cannot tell which of ImageNet's 1,000 columns the classes in {place} are: install "
        f"timm, or put {_LISTS[0]} there, the 1,000 wnids, one per line; for a model of only these "
        "classes, open the class folders with folder:"
    )


def _opened(name: str, root: Path, place: Path, *, exactly: int = 0) -> ImageSet:
    """Return the images of wnid folders."""
    wnids = _wnids_in(root)
    if not wnids:
        raise FileError(f"{root} holds no class folders, with names like n01440764")
    if len(wnids) > ALL or len(wnids) != (exactly or len(wnids)):
        raise FileError(f"{root} holds {len(wnids):,} class folders; {name} has {exactly or ALL:,}")
    columns = _columns(wnids, place)
    return set_of(name, by_class(root, wnids), Files(root), columns=columns)


# --- one function for each set -------------------------------------------------------------------


def imagenet_parts(place: Path) -> tuple[str, ...]:
    """Return which of "train" and "val" are there; none where the folder holds the classes."""
    root = _root("imagenet", place)
    return tuple(part for part in ("train", "val") if (root / part).is_dir())


def open_imagenet(place: Path, part: str) -> ImageSet:
    """Return a part of ImageNet, in class folders or, its val, as Kaggle has it."""
    root, parts = _root("imagenet", place), imagenet_parts(place)
    if not parts and not part:
        return _opened("imagenet", root, place)
    part = part or "val"
    if part not in parts:
        say = choose(part, parts) if parts else "it holds neither train nor val"
        raise InputError(f"imagenet:{place} has no part {part!r}; {say}")
    folder = root / part
    if _wnids_in(folder) or not images_below(folder):
        return _opened(f"imagenet-{part}", folder, place)
    solution = place / _SOLUTION
    if part != "val" or not solution.is_file():
        raise FileError(
            f"{folder} has images that are in no class folders; put {_SOLUTION}, which says their "
            f"classes, into {place}, or sort them into folders with names like n01440764"
        )
    found = _solved(solution, folder)
    columns = _columns(sorted(found), place)
    return set_of("imagenet-val", found, Files(folder, "{name}"), columns=columns)


def _solved(solution: Path, folder: Path) -> ByClass:
    """Return the images of a folder by class, as Kaggle's list says."""
    owner = {}
    for number, row in enumerate(csv.reader(lines_of(solution)[1:]), 2):
        wnid = row[1].split()[:1] if len(row) == 2 else []
        if not wnid or not _WNID.fullmatch(wnid[0]):
            raise FileError(f"{solution}, line {number}: an image and its wnid are expected")
        owner[row[0]] = wnid[0]
    images: dict[str, list[str]] = {}
    for name in images_below(folder):
        wnid_of = owner.pop(Path(name).stem, "")
        if not wnid_of:
            raise FileError(f"{solution} does not say the class of {folder / name}")
        images.setdefault(wnid_of, []).append(name)
    if owner:
        raise FileError(f"{folder} lacks {min(owner)}, which {solution} names")
    return images


def corrupted_parts(place: Path) -> tuple[str, ...]:
    """Return the corruptions that are there with their severities, such as "fog-3"."""
    root = _root("imagenet-c", place)
    return tuple(
        f"{kind}-{severity}"
        for kind in in_order(set(class_folders(root)))
        for severity in SEVERITIES
        if (root / kind / str(severity)).is_dir()
    )


def open_corrupted(place: Path, part: str) -> ImageSet:
    """Return one corruption at one severity of ImageNet-C; its ids are those of ImageNet's val."""
    there = corrupted_parts(place)
    if not there:
        raise FileError(f"{place} holds no corruption of imagenet-c, such as fog/3/n01440764")
    kind, severity = named_part(f"imagenet-c:{place}", part, there)
    root = _root("imagenet-c", place) / kind / str(severity)
    return _opened(f"imagenet-c-{part}", root, place)


def v2_parts(place: Path) -> tuple[str, ...]:
    """Return which variants of ImageNet-V2 are there; none where the folder holds the classes."""
    names = [name for name in class_folders(place) if name.startswith(_V2)]
    return tuple(name.removeprefix(_V2).removesuffix(_V2_END) for name in names)


def open_v2(place: Path, part: str) -> ImageSet:
    """Return ImageNet-V2, whose folders are called by the column, 0 to 999."""
    parts, root = v2_parts(place), place
    if parts or part:
        part = part or ("matched-frequency" if len(parts) > 1 else parts[0])
        if part not in parts:
            say = choose(part, parts) if parts else "its folders are classes"
            raise InputError(f"imagenet-v2:{place} has no part {part!r}; {say}")
        folder = place / f"{_V2}{part}"
        root = folder if folder.is_dir() else place / f"{_V2}{part}{_V2_END}"
    names = class_folders(root)
    if not names:
        raise FileError(f"{root} holds no class folders, which are called 0 to 999")
    if strange := next((one for one in names if not re.fullmatch(r"0|[1-9]\d{0,2}", one)), ""):
        raise FileError(
            f"{root / strange} is not a class folder of imagenet-v2: those are 0 to 999"
        )
    order = sorted(names, key=int)
    columns = None if len(order) == ALL else map(int, order)
    name = "-".join(filter(None, ("imagenet-v2", part)))
    return set_of(name, by_class(root, order), Files(root), classes=order, columns=columns)


def open_variant(kind: str, place: Path, part: str) -> ImageSet:
    """Return ImageNet-R, -A or -Sketch."""
    if part:
        raise InputError(f"{kind} has no parts; got {part!r}")
    exactly = 0 if kind == "imagenet-sketch" else SOME
    return _opened(kind, _root(kind, place), place, exactly=exactly)
