"""Folders of links: the images of some classes of a set, under the names that a model knows."""

from __future__ import annotations

import os
from pathlib import Path

from smallcal.errors import FileError, InputError, file_errors
from smallcal_lab.vision.folders import all_wnids
from smallcal_lab.vision.image_set import Files
from smallcal_lab.vision.images import open_images
from smallcal_lab.vision.paper.cells import Shift
from smallcal_lab.vision.paper.work import Places


def make_links(shift: Shift, places: Places) -> Path:
    """Make a folder of links to the class folders that are wanted, or look whether it is there.

    A model of 100 of ImageNet's classes can be shown ImageNet-V2 so, whose folders are numbers.

    Raises
    ------
    FileError
        If a class is not there, or links cannot be made.
    """
    folder = places.links(shift)
    with file_errors(f"cannot make links in {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = link_table(shift, places)
        for old in set(os.listdir(folder)) - set(wanted):
            raise FileError(
                f"{folder / old} is not a link to a class of {shift.data}; move it away"
            )
        for name, target in wanted.items():
            link = folder / name
            if link.is_symlink() and Path(os.readlink(link)) != target:
                link.unlink()
            if not link.is_symlink():
                link.symlink_to(target, target_is_directory=True)
    return folder


def link_table(shift: Shift, places: Places) -> dict[str, Path]:
    """Return the folder of each class that is wanted.

    Raises
    ------
    FileError, InputError
        If the images are not there, or lack a class.
    """
    classes = open_images(places.images(shift.classes)).classes
    source = places.images(shift.data)
    images = open_images(source)
    if not isinstance(images.pixels, Files):
        raise InputError(f"{source}: classes can be chosen only from sets in class folders")
    root = images.pixels.root
    named = {name: name for name in images.classes}
    if not set(classes) <= set(named) and shift.kind == "imagenet-v2":
        # Its folders are called by the column, the other's by the wnid.
        named = {wnid: str(column) for column, wnid in enumerate(all_wnids(root))}
    if strange := next((name for name in classes if named.get(name) not in images.classes), ""):
        raise FileError(f"{source} has no class {strange}, which {shift.classes} has")
    return {name: (root / named[name]).absolute() for name in classes}
