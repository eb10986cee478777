"""Batches of training images: the same ones however many processes load or train.

A batch is cut up among processes so that the first image of it and the last are in the same
piece, the second and the last but one, and so on: these are the pairs that timm's Mixup mixes. Each
process mixes its piece with the same numbers, and together the pieces are the batch that one
process would have made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal.data.predictions import IntArray
from smallcal.data.shown import one_line
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.training.augment import timm_data
from smallcal_lab.vision.training.chance import IMAGE, MIX, draw_from, order_of, own_chance
from smallcal_lab.vision.training.processes import Place
from smallcal_lab.vision.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

#: Epoch and rows of a batch.
Asked = tuple[int, IntArray]


@dataclass(frozen=True, eq=False)
class Loaded:
    """Images by rows, ready for the network; a data set as torch's DataLoader takes it.

    Attributes
    ----------
    images : ImageSet
    transform : callable
        From an image to a tensor.
    seed : int, or None
        Where the transform is random.
    """

    images: ImageSet
    transform: Any
    seed: int | None = None

    def __getitem__(self, asked: Asked) -> tuple[Tensor, Tensor] | SmallcalError:
        """Return a batch; what is wrong with an image is returned, for a loader adds a page."""
        import torch

        epoch, rows = asked
        seen = []
        with nullcontext() if self.seed is None else own_chance():
            for row in rows.tolist():
                found = self._seen(row, epoch)
                if isinstance(found, SmallcalError):
                    return found
                seen.append(found)
        if len({one.shape for one in seen}) > 1:
            return InputError(f"{self.images.name}: preprocessing gives images of several sizes")
        return torch.stack(seen), torch.from_numpy(self.images.labels[rows])

    def _seen(self, row: int, epoch: int) -> Tensor | SmallcalError:
        """Return one image; preprocessing is anybody's, and may raise anything."""
        try:
            if self.seed is not None:
                draw_from(self.seed, IMAGE, epoch, row)
            found: Tensor = self.transform(self.images.image(row))
            return found
        except SmallcalError as error:
            return error
        except Exception as error:  # noqa: BLE001 - see above
            why = f"{type(error).__name__}: {one_line(error)[:200]}"
            return InputError(f"{self.images.name}: preprocessing {self.images.ids[row]}: {why}")


@dataclass(frozen=True)
class Batches:
    """Which rows are in which batch, for one process of several.

    Attributes
    ----------
    n, size : int
        Images in all, and in a batch of all processes together; what is left over at the end of an
        epoch is not used in it.
    seed : int
    place : Place
    """

    n: int
    size: int
    seed: int
    place: Place

    def __post_init__(self) -> None:
        if self.n < self.size:
            raise InputError(
                f"{self.n:,} images to train on are fewer than one batch: [training] batch_size is "
                f"{self.size:,}"
            )
        if self.place.world > 1 and self.size % (2 * self.place.world):
            raise InputError(
                f"[training] batch_size ({self.size:,}) must be a multiple of "
                f"{2 * self.place.world} for {self.place.world} processes"
            )

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return self.n // self.size

    def of(self, epoch: int) -> Iterator[Asked]:
        """Yield what this process loads for each step of an epoch."""
        order = order_of(self.n, seed=self.seed, epoch=epoch)
        own = pieces(self.size, self.place)
        for step in range(self.steps):
            yield epoch, order[step * self.size :][: self.size][own]


def pieces(size: int, place: Place) -> IntArray:
    """Return the positions in a batch that a process takes: whole pairs of first and last.

    Examples
    --------
    >>> [pieces(8, Place(rank, 2)).tolist() for rank in range(2)]
    [[0, 1, 6, 7], [2, 3, 4, 5]]
    """
    if place.world == 1:
        return np.arange(size)
    each = size // 2 // place.world
    first = np.arange(place.rank * each, (place.rank + 1) * each)
    return np.concatenate([first, size - 1 - first[::-1]])


class Mixer:
    """timm's Mixup and CutMix of a batch, or nothing; labels become shares of classes."""

    def __init__(self, recipe: Recipe, classes: int) -> None:
        self.seed = recipe.training.seed
        self.mix: Any = None
        said = recipe.augment
        if said.mixes:
            self.mix = timm_data("mixing images").Mixup(
                mixup_alpha=said.mixup,
                cutmix_alpha=said.cutmix,
                prob=said.mix_probability,
                switch_prob=said.switch_probability,
                mode="batch",
                label_smoothing=0.0,  # the loss does it, mixed or not
                num_classes=classes,
            )

    def __call__(self, images: Tensor, labels: Tensor, *, epoch: int, step: int) -> Any:
        """Return images and labels, mixed."""
        if self.mix is None:
            return images, labels
        with own_chance():
            draw_from(self.seed, MIX, epoch, step)
            return self.mix(images, labels)
