"""What extraction and training share: batches of images, and a model's errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from PIL import Image

from smallcal.data.shown import one_line
from smallcal.errors import InputError, SmallcalError, needing
from smallcal_lab.vision.loading import of_worker

with needing("torch", "vision", "running image models", of="smallcal-lab"):
    import torch

if TYPE_CHECKING:
    from smallcal_lab.vision.extraction.cell_images import LogitSet
    from smallcal_lab.vision.image_set import ImageSet


def stack(
    images: ImageSet | LogitSet,
    rows: Iterable[int],
    preprocess: Callable[[Image.Image], Any],
    drawn: Callable[[int], object] = lambda row: None,
) -> torch.Tensor | SmallcalError:
    """Return a batch; what is wrong with an image is returned, for a loader adds a page."""
    seen: list[Any] = []
    for row in rows:
        drawn(row)
        try:
            seen.append(preprocess(images.image(row)))
            if seen[-1].shape != seen[0].shape:
                raise InputError("the model's preprocessing gives images of several sizes")
        except Exception as error:  # noqa: BLE001 - preprocessing is anybody's
            if not isinstance(error, SmallcalError):
                error = InputError(one_line(f"{type(error).__name__}: {error}"))
            return error.about(f"{images.name}: row {row} ({images.ids[row]})")
    return torch.stack(seen)


@contextmanager
def model_errors(what: str, smaller: str) -> Iterator[None]:
    """Say in one line what a model's own code raises, and what to make smaller without memory."""
    try:
        yield
    except SmallcalError:
        raise
    except Exception as error:
        if of_worker(error):
            raise
        said = one_line(error)[:200]
        if "memory" in said:
            text = f"too little memory for {what}: choose a smaller {smaller} ({said})"
            raise InputError.with_options(text) from error
        raise InputError(f"the model failed on {what}: {type(error).__name__}: {said}") from error
