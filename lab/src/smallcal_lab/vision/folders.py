"""Images in class folders, and Tiny-ImageNet, which has them with one folder more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from smallcal.errors import FileError, InputError, choose, file_errors
from smallcal_lab.vision.image_set import Files, ImageSet
from smallcal_lab.vision.pixels import ENDINGS

#: Folders that hold class folders, and are none.
PARTS = ("train", "val", "test", "valid", "validation")

#: The images of each class: names below its folder, in order.
ByClass = Mapping[str, list[str]]


def set_of(
    name: str,
    images: ByClass,
    pixels: Files,
    *,
    classes: Iterable[str] | None = None,
    columns: Iterable[int] | None = None,
) -> ImageSet:
    """Return images as one set, class by class.

    ``classes`` are the folders in the order of their labels, by name where it is not said.
    """
    order = sorted(images) if classes is None else list(classes)
    found = [(label, image) for label, one in enumerate(order) for image in images.get(one, ())]
    return ImageSet.of(
        name,
        [label for label, _ in found],
        [f"{order[label]}/{image}" for label, image in found],
        classes=order,
        columns=None if columns is None else tuple(columns),
        pixels=pixels,
    )


def class_folders(root: Path) -> list[str]:
    """Return the folders in a folder, by name; those with a dot in front are not looked at."""
    with file_errors(f"cannot read the folder {root}"), os.scandir(root) as entries:
        return sorted(one.name for one in entries if one.is_dir() and not one.name.startswith("."))


def images_below(folder: Path) -> list[str]:
    """Return the image files below a folder, as paths from there, in order."""

    def stop(error: OSError) -> None:
        raise FileError(f"cannot read the folder {error.filename}: {error.strerror}")

    return sorted(
        (Path(here) / name).relative_to(folder).as_posix()
        for here, _, files in os.walk(folder, onerror=stop)
        for name in files
        if _is_image(name)
    )


def _is_image(name: str) -> bool:
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def by_class(root: Path, names: Iterable[str], *, inner: str = "") -> ByClass:
    """Return the images of class folders, all of which must have some.

    ``inner`` is a folder in each that holds them.
    """
    images = {}
    for name in names:
        folder = root / name / inner
        if not folder.is_dir():
            raise FileError(f"the class folder {root / name} has no folder {inner!r}")
        if not (found := images_below(folder)):
            raise FileError(f"the class folder {folder} holds no image ({', '.join(ENDINGS)})")
        images[name] = found
    return images


def folder_parts(place: Path) -> tuple[str, ...]:
    """Return the folders of class folders, such as "train" and "val"; none if there are classes."""
    names = class_folders(place)
    return tuple(names) if names and set(names) <= set(PARTS) else ()


def open_folder(place: Path, part: str) -> ImageSet:
    """Return the images of a folder of class folders; the classes are these, by name."""
    parts = folder_parts(place)
    if part and part not in parts:
        instead = choose(part, parts) if parts else "its folders are classes"
        raise InputError(f"folder:{place} has no part {part!r}; {instead}")
    if parts and not part:
        raise InputError(
            f"{place} holds {', '.join(parts)} and no classes; name one of them, "
            f"as folder:{place}:{parts[-1]}"
        )
    root = place / part
    names = class_folders(root)
    if not names:
        kind = "images, but not in" if any(map(_is_image, os.listdir(root))) else "no"
        raise FileError(f"{root} holds {kind} class folders; images belong in ROOT/CLASS/NAME.png")
    name = "-".join(filter(None, (place.resolve().name, part)))
    return set_of(name, by_class(root, names), Files(root))


# --- Tiny-ImageNet -------------------------------------------------------------------------------

_TINY_PARTS = ("train", "val")
_NOTES = "val_annotations.txt"


def _tiny_root(place: Path) -> Path:
    inner = place / "tiny-imagenet-200"
    return inner if inner.is_dir() else place


def tiny_parts(place: Path) -> tuple[str, ...]:
    """Return which of "train" and "val" are there."""
    return tuple(part for part in _TINY_PARTS if (_tiny_root(place) / part).is_dir())


def open_tiny(place: Path, part: str) -> ImageSet:
    """Return a part of Tiny-ImageNet; its classes are the wnids, sorted.

    The official ``val`` is one folder and a list; one that was sorted into class folders since is
    the same set with the same ids.
    """
    part = part or "val"
    if part == "test":
        raise InputError("the test images of tiny-imagenet have no labels; the paper tests on val")
    if part not in _TINY_PARTS:
        raise InputError(f"tiny-imagenet has no part {part!r}; {choose(part, _TINY_PARTS)}")
    whole = _tiny_root(place)
    root = whole / part
    if not root.is_dir():
        raise FileError(f"tiny-imagenet needs the folder {root}, and it is not there")
    if part == "val" and (root / _NOTES).is_file():
        found, pattern = _annotated(root), "images/{name}"
    else:
        names = class_folders(root)
        if names in ([], ["images"]):
            raise FileError(f"{root} holds neither class folders nor {_NOTES}")
        inner = "images" if (root / names[0] / "images").is_dir() else ""
        found = by_class(root, names, inner=inner)
        pattern = "{owner}/images/{name}" if inner else "{owner}/{name}"
    # All classes of the data set, whichever this part has: labels of parts must agree.
    classes, source = set(found), root
    if (whole / "wnids.txt").is_file():
        classes, source = set(lines_of(whole / "wnids.txt")), whole / "wnids.txt"
    elif (whole / "train").is_dir():
        classes, source = set(class_folders(whole / "train")), whole / "train"
    if strange := sorted(set(found) - classes):
        raise FileError(f"the class {strange[0]} is not in {source}")
    return set_of(f"tiny-imagenet-{part}", found, Files(root, pattern), classes=sorted(classes))


def _annotated(root: Path) -> ByClass:
    """Return which class the images of the official val are of."""
    images: dict[str, list[str]] = {}
    there = set(images_below(root / "images")) if (root / "images").is_dir() else set()
    listing = root / _NOTES
    for number, line in enumerate(lines_of(listing), 1):
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) < 2:
            raise FileError(f"{listing}, line {number}: an image and its class are expected")
        name, wnid = fields[:2]
        if name not in there:
            raise FileError(f"{listing}, line {number}: there is no image {root / 'images' / name}")
        there.remove(name)
        images.setdefault(wnid, []).append(name)
    if there:
        raise FileError(f"{listing} does not say the class of {root / 'images' / min(there)}")
    if not images:
        raise FileError(f"{listing} names no image")
    return {wnid: sorted(names) for wnid, names in images.items()}


def lines_of(file: Path) -> list[str]:
    """Return the lines of a text file that are not empty."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise FileError(f"cannot read {file}: {why}") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
