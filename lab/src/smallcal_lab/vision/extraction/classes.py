"""Whether classes of images are the columns of a model, and which of its columns they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from smallcal.errors import InputError
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.imagenet import ALL
from smallcal_lab.vision.models.model import VisionModel

_SHOWN = 3


def columns_in(model: VisionModel, images: ImageSet) -> tuple[int, ...] | None:
    """Return the model's columns that the images' classes are; None for all, as they stand.

    Raises
    ------
    InputError
        If the model has other columns, or the same in another order.
    """
    n = len(images.classes)
    if model.classes == n:
        columns = None
    elif images.columns is not None and model.classes == ALL:
        columns = images.columns
    else:
        raise InputError(
            f"{images.name} has {n:,} classes and {model.source} has {model.classes:,} columns: "
            "name a model of these classes, such as a checkpoint that was trained on them"
        )
    _require_names(model, images, columns)
    return columns


def _require_names(model: VisionModel, images: ImageSet, columns: tuple[int, ...] | None) -> None:
    """Raise where both sides name their classes and mean others."""
    names = model.class_names
    if len(names) != model.classes:
        return
    chosen = names if columns is None else tuple(names[column] for column in columns)
    if moved := _moved(chosen, images.classes):
        first, second, name = moved
        raise InputError(
            f"the classes of {images.name} are in another order than the columns of "
            f"{model.source}: {name!r} is column {first} of the model and class {second} of the "
            "images"
        )
    if chosen != images.classes and model.source.startswith("checkpoint:"):
        raise InputError(
            f"{model.source} was trained on other classes ({_some(chosen)}) than those of "
            f"{images.name} ({_some(images.classes)})"
        )


def _moved(left: Sequence[str], right: Sequence[str]) -> tuple[int, int, str] | None:
    """Return the first name that both sides have at different places."""
    places = {name: number for number, name in enumerate(right)}
    for number, name in enumerate(left):
        if places.get(name, number) != number:
            return number, places[name], name
    return None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def for_columns(images: ImageSet, test: ImageSet) -> ImageSet:
    """Return the images of the test images' classes, where those are some of a larger set's.

    Images of ImageNet beside ImageNet-R's: those of its 200 classes stay, and labels count these.
    """
    if test.columns is None or images.columns is not None or len(images.classes) != ALL:
        return images
    number = np.full(ALL, -1)
    number[list(test.columns)] = np.arange(len(test.columns))
    labels = number[images.labels]
    kept = images.take(np.flatnonzero(labels >= 0))
    return replace(kept, labels=labels[labels >= 0], classes=test.classes, columns=test.columns)


def require_same_classes(test: ImageSet, images: ImageSet) -> None:
    """Raise where two sets that are seen by the same columns have other classes."""
    if len(images.classes) != len(test.classes):
        raise InputError(
            f"{images.name} has {len(images.classes):,} classes and {test.name} has "
            f"{len(test.classes):,}: all image sets of a cell must have the same"
        )
    if moved := _moved(test.classes, images.classes):
        first, second, name = moved
        raise InputError(
            f"{images.name} and {test.name} have their classes in another order: {name!r} is "
            f"class {second} of the one and {first} of the other"
        )
