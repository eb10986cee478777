"""What is done to single training images: timm's and torchvision's own parts, in timm's order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

from PIL import Image

from smallcal.errors import FileError, needing
from smallcal_lab.vision.models.model import InputSpec
from smallcal_lab.vision.models.preprocess import Preprocess
from smallcal_lab.vision.training.recipe import Recipe


def timm_data(purpose: str) -> Any:
    """Return timm's module of data; one line where it, or torchvision below it, is missing."""
    with needing("timm", "vision", purpose, of="smallcal-lab"):
        return import_module("timm.data")


def training_transform(recipe: Recipe, seen: InputSpec, preprocess: Callable[..., Any]) -> Any:
    """Return what makes a training image of an image: the model's own preprocessing if no more.

    Parameters
    ----------
    recipe : Recipe
    seen : InputSpec
        Size and normalisation.
    preprocess : callable
        The model's own.
    """
    said = recipe.augment
    if not said.changes_images:
        return preprocess
    data = timm_data("changing training images")
    from torchvision import transforms

    try:
        crop, change, finish = data.create_transform(
            seen.size,
            is_training=True,
            separate=True,
            scale=said.crop_scale,
            hflip=said.flip,
            color_jitter=None,
            auto_augment=said.auto_augment or None,
            interpolation=seen.interpolation,
            mean=seen.mean,
            std=seen.std,
            re_prob=said.erasing,
            re_mode="pixel",
        )
    except (AssertionError, ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{recipe.source}: timm rejects these values of [augment], perhaps auto_augment = "
            f"{said.auto_augment!r}: {type(error).__name__} {error}"
        ) from None
    _let_go_black(change)
    if said.crop == "resized":
        return transforms.Compose([*crop.transforms, *change.transforms, *finish.transforms])
    # The other crops take the place of timm's, which is the first of its steps.
    own: list[Any] = [Preprocess(seen).picture]
    if said.crop == "padded":
        pad = [round(said.padding * side) for side in (seen.size[1], seen.size[0])]
        own.append(transforms.RandomCrop(seen.size, padding=pad))
    return transforms.Compose([*own, *crop.transforms[1:], *change.transforms, *finish.transforms])


def _let_go_black(steps: Any) -> None:
    """Let images that are to keep no bit of their colours be black.

    timm's strongest Posterize asks Pillow for that, and Pillow does it no more from version 13 on.
    """
    for step in steps.transforms:
        found = [*getattr(step, "ops", []), *chain(*getattr(step, "policy", []))]
        for one in found:
            if getattr(one.aug_fn, "__name__", "") == "posterize":
                one.aug_fn = partial(_posterized, one.aug_fn)


def _posterized(posterize: Any, image: Any, bits: int, **more: Any) -> Any:
    return posterize(image, bits, **more) if bits else Image.new(image.mode, image.size)
