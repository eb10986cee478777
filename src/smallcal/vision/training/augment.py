"""What is done to single training images: timm's and torchvision's own parts, in timm's order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smallcal.errors import FileError, missing_extra
from smallcal.vision.models.model import InputSpec
from smallcal.vision.training.recipe import Recipe


def require_timm(purpose: str) -> None:
    """Raise one line where timm, or torchvision below it, cannot be imported."""
    try:
        import timm.data  # noqa: F401
    except ImportError:
        raise missing_extra("timm", "vision", purpose) from None


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
    require_timm("changing training images")
    from timm.data import create_transform
    from torchvision import transforms

    try:
        crop, change, finish = create_transform(
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
            f"{recipe.source}: timm cannot make this of [augment], perhaps of auto_augment = "
            f"{said.auto_augment!r}: {type(error).__name__} {error}"
        ) from None
    if said.crop == "resized":
        return transforms.Compose([*crop.transforms, *change.transforms, *finish.transforms])
    # The other crops take the place of timm's, which is the first of its steps.
    own = [_whole(seen)]
    if said.crop == "padded":
        pad = [round(said.padding * side) for side in (seen.size[1], seen.size[0])]
        own.append(transforms.RandomCrop(seen.size, padding=pad))
    return transforms.Compose(
        [*own, *crop.transforms[1:], *change.transforms, *finish.transforms]
    )


def _whole(seen: InputSpec) -> Any:
    """Return the step that makes an image of the right size, of the whole of it."""
    from torchvision import transforms

    return transforms.Resize(
        seen.size, interpolation=transforms.InterpolationMode(seen.interpolation)
    )
