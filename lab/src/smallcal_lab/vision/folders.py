"""Images in class folders: one's own, Tiny-ImageNet, ImageNet, its -C, -V2, -R, -A and -Sketch.

A model of ImageNet has one column for each wnid, in sorted order. A set with fewer classes says
which columns they are (``ImageSet.columns``), and its labels count its own classes.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from smallcal.errors import FileError, InputError, choose, file_errors
from smallcal_lab.corruption_names import SEVERITIES
from smallcal_lab.vision.cifar import in_order, named_part
from smallcal_lab.vision.image_set import ENDINGS, Files, ImageSet, root_of

#: The images of each class: names below its folder, in order.
ByClass = Mapping[str, list[str]]

#: Folders that hold class folders, and are none.
PARTS = ("train", "val", "test", "valid", "validation")

#: Classes of ImageNet, and of its sets R and A.
ALL, SOME = 1000, 200

_WNID = re.compile(r"n\d{8}")
#: Lists of the 1,000 wnids, a line each, that may lie beside the images: timm's and Kaggle's.
_LISTS = ("imagenet_synsets.txt", "LOC_synset_mapping.txt")
#: Lists of the classes of images in one folder: Kaggle's for ImageNet, and Tiny-ImageNet's.
_SOLUTION, _NOTES = "LOC_val_solution.csv", "val_annotations.txt"
_V2, _V2_END = "imagenetv2-", "-format-val"


def set_of(
    name: str, images: ByClass, pixels: Files, classes: list[str], columns: list[int] | None = None
) -> ImageSet:
    """Return images as one set, class by class, the classes in the order of their labels."""
    found = [
        (label, f"{one}/{i}") for label, one in enumerate(classes) for i in images.get(one, ())
    ]
    labels, ids = [label for label, _ in found], [one for _, one in found]
    return ImageSet.of(name, labels, ids, classes=classes, columns=columns, pixels=pixels)


def class_folders(root: Path) -> list[str]:
    """Return the folders in a folder, by name; those with a dot in front are not looked at."""
    with file_errors(f"cannot read the folder {root}"), os.scandir(root) as entries:
        return sorted(one.name for one in entries if one.is_dir() and not one.name.startswith("."))


def images_below(folder: Path) -> list[str]:
    """Return the image files below a folder, as paths from there, in order."""

    def stop(error: OSError) -> None:
        raise error

    with file_errors(f"cannot read the folder {folder}"):
        return sorted(
            (Path(here) / name).relative_to(folder).as_posix()
            for here, _, files in os.walk(folder, onerror=stop)
            for name in files
            if name.lower().endswith(ENDINGS) and not name.startswith(".")
        )


def by_class(root: Path, names: Iterable[str], *, inner: str = "") -> ByClass:
    """Return the images of class folders, or of a folder in each; all must have some."""
    images = {name: images_below(root / name / inner) for name in names}
    if empty := next((name for name, found in images.items() if not found), ""):
        raise FileError(f"the class folder {root / empty} holds no image ({', '.join(ENDINGS)})")
    return images


def _no_part(source: str, part: str, parts: Iterable[str], otherwise: str) -> InputError:
    """Build the error for a part that is not there."""
    return InputError(
        f"{source} has no part {part!r}; {choose(part, parts) if parts else otherwise}"
    )


def _lines_of(file: Path) -> list[str]:
    """Return the lines of a text file that are not empty."""
    with file_errors(f"cannot read {file}"):
        text = file.read_text(encoding="utf-8", errors="replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _listed(listing: Path, lines: Iterable[str], folder: Path) -> ByClass:
    """Return the images of a folder by class, as a list says: an image and its wnid per line."""
    owner = {}
    for line in lines:
        name, wnid, *_ = [*re.split(r"[,\s]+", line), ""]
        if not _WNID.fullmatch(wnid):
            raise FileError(f"{listing}: an image and its wnid are expected, not {line[:80]!r}")
        owner[Path(name).stem] = wnid
    images: dict[str, list[str]] = {}
    for name in images_below(folder):
        if not (wnid := owner.pop(Path(name).stem, "")):
            raise FileError(f"{listing} does not say the class of {folder / name}")
        images.setdefault(wnid, []).append(name)
    if owner:
        raise FileError(f"{folder} lacks {min(owner)}, which {listing} names")
    return images


def folder_parts(place: Path) -> tuple[str, ...]:
    """Return the folders of class folders, such as "train" and "val"; none if there are classes."""
    names = class_folders(place)
    return tuple(names) if names and set(names) <= set(PARTS) else ()


def open_folder(place: Path, part: str) -> ImageSet:
    """Return the images of a folder of class folders; the classes are these, by name."""
    parts = folder_parts(place)
    if part and part not in parts:
        raise _no_part(f"folder:{place}", part, parts, "its folders are classes")
    if parts and not part:
        raise InputError(
            f"{place} holds {', '.join(parts)} and no classes; write folder:{place}:{parts[-1]}"
        )
    root = place / part
    if not (names := class_folders(root)):
        raise FileError(f"{root} holds no class folders; images belong in ROOT/CLASS/NAME.png")
    name = "-".join(filter(None, (place.resolve().name, part)))
    return set_of(name, by_class(root, names), Files(root), names)


def train_and_val(kind: str, place: Path) -> tuple[str, ...]:
    """Return which of "train" and "val" are there; none where the folder holds the classes."""
    return tuple(part for part in ("train", "val") if (root_of(kind, place) / part).is_dir())


def open_tiny(place: Path, part: str) -> ImageSet:
    """Return a part of Tiny-ImageNet; its classes are the wnids, sorted.

    The official ``val`` is one folder and a list; one that was sorted into class folders since is
    the same set with the same ids.
    """
    part, whole = part or "val", root_of("tiny-imagenet", place)
    root = whole / part
    if part not in (there := train_and_val("tiny-imagenet", place)):
        raise _no_part(f"tiny-imagenet:{place}", part, there, "it holds neither train nor val")
    if part == "val" and (notes := root / _NOTES).is_file():
        found, pattern = _listed(notes, _lines_of(notes), root / "images"), "images/{name}"
    else:
        names = class_folders(root)
        if names in ([], ["images"]):
            raise FileError(f"{root} holds neither class folders nor {_NOTES}")
        inner = "images" if (root / names[0] / "images").is_dir() else ""
        found = by_class(root, names, inner=inner)
        pattern = "{owner}/images/{name}" if inner else "{owner}/{name}"
    # All classes of the data set, whichever this part has: labels of parts must agree.
    classes, source = set(found), whole / "wnids.txt"
    if source.is_file():
        classes = set(_lines_of(source))
    elif "train" in there:
        classes, source = set(class_folders(whole / "train")), whole / "train"
    if strange := sorted(set(found) - classes):
        raise FileError(f"the class {strange[0]} is not in {source}")
    return set_of(f"tiny-imagenet-{part}", found, Files(root, pattern), sorted(classes))


def _wnids_in(root: Path) -> list[str]:
    """Return the class folders of a folder, if it has any and nothing but them."""
    names = class_folders(root)
    strange = [name for name in names if not _WNID.fullmatch(name)]
    if strange and len(strange) < len(names):
        raise FileError(
            f"{root / strange[0]} is not a class folder: those have names like n01440764"
        )
    return [] if strange else names


def all_wnids(place: Path) -> list[str]:
    """Return ImageNet's wnids, sorted, from a list beside the images or from timm's."""
    lists = [place / name for name in _LISTS]
    timm = importlib.util.find_spec("timm")  # found, not imported: that takes seconds
    if timm is not None and timm.origin:
        lists.append(Path(timm.origin).parent / "data" / "_info" / _LISTS[0])
    for file in filter(Path.is_file, lists):
        found = sorted({line.split()[0] for line in _lines_of(file)})
        if len(found) != ALL or not all(map(_WNID.fullmatch, found)):
            raise FileError(f"{file} must hold ImageNet's 1,000 wnids, one per line")
        return found
    raise FileError(
        f"cannot tell which of ImageNet's 1,000 columns the classes in {place} are: install "
        f"timm, or put {_LISTS[0]} there, the 1,000 wnids, one per line; for a model of only these "
        "classes, open the class folders with folder:"
    )


def _of_wnids(name: str, images: ByClass, pixels: Files, place: Path) -> ImageSet:
    """Return images by wnid, with the columns of their classes where they are not all."""
    wnids, columns = sorted(images), None
    if len(wnids) != ALL:
        column = {wnid: number for number, wnid in enumerate(all_wnids(place))}
        if strange := next((wnid for wnid in wnids if wnid not in column), ""):
            raise FileError(f"{place}: {strange} is not one of ImageNet's 1,000 classes")
        columns = [column[wnid] for wnid in wnids]
    return set_of(name, images, pixels, wnids, columns)


def _opened(name: str, root: Path, place: Path, *, exactly: int = 0) -> ImageSet:
    """Return the images of wnid folders."""
    wnids = _wnids_in(root)
    if not wnids or len(wnids) > ALL or len(wnids) != (exactly or len(wnids)):
        raise FileError(
            f"{root} holds {len(wnids)} class folders like n01440764; {name} has {exactly or ALL:,}"
        )
    return _of_wnids(name, by_class(root, wnids), Files(root), place)


def open_imagenet(place: Path, part: str) -> ImageSet:
    """Return a part of ImageNet, in class folders or, its val, as Kaggle has it."""
    root, parts = root_of("imagenet", place), train_and_val("imagenet", place)
    if not parts and not part:
        return _opened("imagenet", root, place)
    part = part or "val"
    if part not in parts:
        raise _no_part(f"imagenet:{place}", part, parts, "it holds neither train nor val")
    folder, solution = root / part, place / _SOLUTION
    if _wnids_in(folder) or not images_below(folder):
        return _opened(f"imagenet-{part}", folder, place)
    if part != "val" or not solution.is_file():
        raise FileError(
            f"{folder} has images that are in no class folders; put {_SOLUTION}, which says their "
            f"classes, into {place}, or sort them into folders with names like n01440764"
        )
    found = _listed(solution, _lines_of(solution)[1:], folder)
    return _of_wnids("imagenet-val", found, Files(folder, "{name}"), place)


def corrupted_parts(place: Path) -> tuple[str, ...]:
    """Return the corruptions that are there with their severities, such as "fog-3"."""
    root = root_of("imagenet-c", place)
    return tuple(
        f"{kind}-{severity}"
        for kind in in_order(class_folders(root))
        for severity in SEVERITIES
        if (root / kind / str(severity)).is_dir()
    )


def open_corrupted(place: Path, part: str) -> ImageSet:
    """Return one corruption at one severity of ImageNet-C; its ids are those of ImageNet's val."""
    kind, severity = named_part(f"imagenet-c:{place}", part, corrupted_parts(place))
    root = root_of("imagenet-c", place) / kind / str(severity)
    return _opened(f"imagenet-c-{part}", root, place)


def v2_parts(place: Path) -> dict[str, str]:
    """Return which variants of ImageNet-V2 are there, with their folders."""
    names = [name for name in class_folders(place) if name.startswith(_V2)]
    return {name.removeprefix(_V2).removesuffix(_V2_END): name for name in names}


def open_v2(place: Path, part: str) -> ImageSet:
    """Return ImageNet-V2, whose folders are called by the column, 0 to 999."""
    there = v2_parts(place)
    if not part and there:
        part = "matched-frequency" if len(there) > 1 else next(iter(there))
    if part and part not in there:
        raise _no_part(f"imagenet-v2:{place}", part, there, "its folders are classes")
    root = place / there.get(part, "")
    names = class_folders(root)
    strange = [one for one in names if not re.fullmatch(r"0|[1-9]\d{0,2}", one)]
    if strange or not names:
        raise FileError(f"{root}: class folders are called 0 to 999, not {strange[:1] or 'none'}")
    order = sorted(names, key=int)
    columns = None if len(order) == ALL else [*map(int, order)]
    name = "-".join(filter(None, ("imagenet-v2", part)))
    return set_of(name, by_class(root, order), Files(root), order, columns)


def open_variant(kind: str, place: Path, part: str) -> ImageSet:
    """Return ImageNet-R, -A or -Sketch."""
    if part:
        raise InputError(f"{kind} has no parts; got {part!r}")
    exactly = 0 if kind == "imagenet-sketch" else SOME
    return _opened(kind, root_of(kind, place), place, exactly=exactly)
