"""Batches of training images: the same ones however many processes load or train.

Random numbers depend on what they are for (an image of an epoch, a batch) and on nothing that came
before, so that a run that was stopped goes on as if it had not been.

A batch is cut up among processes so that the first image of it and the last are in the same
piece, the second and the last but one, and so on: these are the pairs that timm's Mixup mixes. Each
process mixes its piece with the same numbers, and together the pieces are the batch that one
process would have made.

``torchrun`` starts a process for each device and says so in the environment.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

import numpy as np
from PIL import Image

from smallcal.data.predictions import IntArray
from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, SmallcalError, needing
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.models.model import InputSpec, Preprocess
from smallcal_lab.vision.running import stack
from smallcal_lab.vision.training.recipe import Recipe

with needing("torch", "vision", "training", of="smallcal-lab"):
    import torch
    from torch import Tensor, distributed, nn

#: What numbers are drawn for.
START, ORDER, DROPOUT, IMAGE, MIX = range(5)


def _seed_of(*key: int) -> int:
    """Return a seed of 64 bits for a few numbers."""
    text = ",".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def draw_from(*key: int) -> None:
    """Let all generators begin anew, as the key says: Python's, NumPy's and torch's on the CPU."""
    seed = _seed_of(*key)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - timm and torchvision draw from this one
    torch.default_generator.manual_seed(seed)


@contextmanager
def own_chance() -> Iterator[None]:
    """Leave all generators as they were, whatever the block draws."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002


def order_of(n: int, *, seed: int, epoch: int) -> IntArray:
    """Return the order in which an epoch goes through the images."""
    return np.random.default_rng(_seed_of(seed, ORDER, epoch)).permutation(n)


# --- processes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Which process this is: its number of how many, and its number on this machine."""

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def device(self, name: str) -> torch.device:
        """Return a device that is there."""
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            several = name == "cuda" and self.world > 1
            device = torch.device(name, self.local) if several else torch.device(name)
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            why = one_line(error)[:120]
            raise InputError(f"the device {name!r} is not available: {why}") from None
        return device

    @contextmanager
    def together(self, device: torch.device) -> Iterator[None]:
        """Join the processes while the block works, unless they are joined already."""
        if self.world == 1 or distributed.is_initialized():
            yield
            return
        gpu = device.type == "cuda"
        if gpu:
            torch.cuda.set_device(device)
        try:
            distributed.init_process_group("nccl" if gpu else "gloo")
        except (RuntimeError, ValueError) as error:
            raise InputError(f"cannot connect the processes: {one_line(error)[:200]}") from None
        try:
            yield
        finally:
            distributed.destroy_process_group()

    def shared(self, value: Any) -> Any:
        """Return what the first process has; all wait for it."""
        held = [value]
        if self.world > 1:
            distributed.broadcast_object_list(held, src=0)
        return held[0]

    def summed(self, numbers: Tensor) -> Tensor:
        """Return the sum over processes."""
        if self.world > 1:
            distributed.all_reduce(numbers)
        return numbers

    def even_out(self, module: nn.Module) -> None:
        """Give every process what the first has beside its weights, such as running means."""
        for buffer in module.buffers() if self.world > 1 else ():
            distributed.broadcast(buffer, src=0)

    def parallel(self, module: nn.Module, device: torch.device, *, sync: bool) -> Any:
        """Return the module that averages gradients over processes, itself if there is one."""
        if self.world == 1:
            return module
        gpu = device.type == "cuda"
        norms: Any = nn.SyncBatchNorm
        chosen = norms.convert_sync_batchnorm(module) if sync and gpu else module
        own = [device.index] if gpu else None
        return nn.parallel.DistributedDataParallel(chosen, device_ids=own)


def place_of(environment: Mapping[str, str] = os.environ) -> Place:
    """Return which process this is, by the variables that ``torchrun`` sets."""
    if "LOCAL_RANK" not in environment:
        return Place()
    return Place(*(int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))


# --- batches -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batches:
    """Which of ``n`` rows are in which batch, for one process of several.

    ``size`` is that of a batch of all processes together; what is left over at the end of an epoch
    is not used in it.
    """

    n: int
    size: int
    seed: int
    place: Place

    def __post_init__(self) -> None:
        if self.n < self.size:
            raise InputError(
                f"{self.n:,} images are fewer than one batch; [training] batch_size = {self.size:,}"
            )
        pairs = 2 * self.place.world
        if self.place.world > 1 and self.size % pairs:
            raise InputError(
                f"[training] batch_size ({self.size:,}) must be a multiple of {pairs} for "
                f"{self.place.world} processes"
            )

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return self.n // self.size

    def of(self, epoch: int) -> Iterator[tuple[int, IntArray]]:
        """Yield the epoch and the rows that this process loads, for each step."""
        order = order_of(self.n, seed=self.seed, epoch=epoch)
        own = pieces(self.size, self.place)
        for step in range(self.steps):
            yield epoch, order[step * self.size :][: self.size][own]


def pieces(size: int, place: Place) -> IntArray:
    """Return the positions in a batch that a process takes: whole pairs of first and last."""
    if place.world == 1:
        return np.arange(size)
    each = size // 2 // place.world
    first = np.arange(place.rank * each, (place.rank + 1) * each)
    return np.concatenate([first, size - 1 - first[::-1]])


@dataclass(frozen=True, eq=False)
class Loaded:
    """Images by epoch and rows, as torch's DataLoader takes them; random ones by a seed."""

    images: ImageSet
    transform: Callable[[Image.Image], Any]
    seed: int = 0

    def __getitem__(self, asked: tuple[int, IntArray]) -> Any:
        """Return a batch and its labels; what is wrong with an image is returned."""
        epoch, rows = asked
        with own_chance():
            drawn = partial(draw_from, self.seed, IMAGE, epoch)
            seen = stack(self.images, rows.tolist(), self.transform, drawn)
        if isinstance(seen, SmallcalError):
            return seen
        return seen, torch.from_numpy(self.images.labels[rows])


def training_transform(recipe: Recipe, seen: InputSpec, preprocess: Callable[..., Any]) -> Any:
    """Return timm's steps from an image to a training image; without any, ``preprocess``."""
    said = recipe.augment
    if not said.changes_images:
        return preprocess
    data = _timm_data("changing training images")
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
    for step in change.transforms:
        for one in [*getattr(step, "ops", []), *chain(*getattr(step, "policy", []))]:
            if one.name.startswith("Posterize"):
                one.aug_fn = _Posterize(one.aug_fn)
    first = crop.transforms
    if said.crop != "resized":  # the other crops take the place of timm's, which is its first step
        first = [Preprocess(seen).picture, *first[1:]]
    if said.crop == "padded":
        pad = [round(said.padding * side) for side in (seen.size[1], seen.size[0])]
        first.insert(1, transforms.RandomCrop(seen.size, padding=pad))
    return transforms.Compose([*first, *change.transforms, *finish.transforms])


@dataclass(frozen=True)
class _Posterize:
    """timm's Posterize, to black where no bit is kept: Pillow refuses that from version 13 on."""

    own: Any

    def __call__(self, image: Any, bits: int, **more: Any) -> Any:
        return self.own(image, bits, **more) if bits else Image.new(image.mode, image.size)


class Mixer:
    """timm's Mixup and CutMix of a batch, or nothing; labels become shares of classes."""

    def __init__(self, recipe: Recipe, classes: int) -> None:
        self.seed, said = recipe.training.seed, recipe.augment
        self.mix: Any = said.mixes and _timm_data("mixing images").Mixup(
            mixup_alpha=said.mixup,
            cutmix_alpha=said.cutmix,
            prob=said.mix_probability,
            switch_prob=said.switch_probability,
            label_smoothing=0.0,  # the loss does it, mixed or not
            num_classes=classes,
        )

    def __call__(self, images: Tensor, labels: Tensor, *, epoch: int, step: int) -> Any:
        """Return images and labels, mixed."""
        if not self.mix:
            return images, labels
        with own_chance():
            draw_from(self.seed, MIX, epoch, step)
            return self.mix(images, labels)


def _timm_data(purpose: str) -> Any:
    """Return timm's module of data; one line where it, or torchvision below it, is missing."""
    with needing("timm", "vision", purpose, of="smallcal-lab"):
        return import_module("timm.data")
