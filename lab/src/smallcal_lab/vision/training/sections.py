"""The sections of a recipe and their keys, with what each may hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from smallcal_lab.vision.training.keys import key

#: Instead of a rule for a split: train on all images that are there.
NO_SPLIT = "none"


@dataclass(frozen=True)
class Model:
    """What is trained.

    Attributes
    ----------
    source : str
        As ``open_model`` takes it.
    pretrained : bool
        Begin with the weights that the source has, or with random ones.
    weights : str
        A file of weights to begin with in their place; empty for none.
    options : dict
        Keywords of whatever makes the model.
    temperature_head : {"none", "unrestricted", "stop-grad"}
        A network from the features to a temperature T(x), trained along; logits are divided by it.
        "stop-grad" keeps its gradient from the features.
    head_width : int
        Hidden units of that network.
    """

    source: str = key()
    pretrained: bool = key(default=True)
    weights: str = key("")
    options: dict[str, Any] = field(default_factory=dict, metadata={"one_of": ()})
    temperature_head: str = key("none", one_of=("none", "unrestricted", "stop-grad"))
    head_width: int = key(128, least=1, most=65_536)


@dataclass(frozen=True)
class Data:
    """Which images.

    Attributes
    ----------
    source : str
        As ``open_images`` takes it; empty if it is named when training starts.
    split : str
        A rule of ``split_images`` that leaves some to train on, or "none".
    split_seed : int
    """

    source: str = key("")
    split: str = key("5%")
    split_seed: int = key(0, least=0)


@dataclass(frozen=True)
class Training:
    """How long, how much at once, and where.

    Attributes
    ----------
    epochs, batch_size, seed : int
        The batch is that of all processes together.
    device : str
        "auto", "cpu", "cuda", "cuda:1", "mps".
    workers : int
        Processes that load images, for each device.
    precision : {"float32", "bfloat16", "float16"}
        Of products of matrices; weights are kept in float32.
    clip : float
        The longest gradient; 0 for any.
    sync_batch_norm : bool
        With several GPUs, take the statistics of batch norm over all of them.
    """

    epochs: int = key(100, least=1, most=1_000_000)
    batch_size: int = key(64, least=1, most=1_000_000)
    seed: int = key(0, least=0)
    device: str = key("auto")
    workers: int = key(0, least=0, most=256)
    precision: str = key("float32", one_of=("float32", "bfloat16", "float16"))
    clip: float = key(0.0, least=0)
    sync_batch_norm: bool = key(default=False)


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """torch's AdamW or SGD; biases and norms are not decayed.

    Attributes
    ----------
    name : {"adamw", "sgd"}
    lr, weight_decay : float
    momentum : float
    nesterov : bool
        Of SGD.
    betas : two floats
    eps : float
        Of AdamW.
    """

    name: str = key("adamw", one_of=("adamw", "sgd"))
    lr: float = key(above=0, most=1000)
    weight_decay: float = key(0.0, least=0, most=1000)
    momentum: float = key(0.9, least=0, below=1)
    nesterov: bool = key(default=False)
    betas: tuple[float, ...] = key((0.9, 0.999), least=0, below=1)
    eps: float = key(1e-8, above=0, most=1)


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each epoch.

    Attributes
    ----------
    name : {"cosine", "steps", "constant"}
    warmup_epochs : int
        It rises in a line from ``warmup_lr`` over these first epochs, which count.
    warmup_lr, final_lr : float
        ``final_lr`` is where the cosine would be after the last epoch.
    milestones : list of int
    factor : float
        "steps" multiplies by ``factor`` at each milestone, an epoch counted from 0.
    """

    name: str = key("cosine", one_of=("cosine", "steps", "constant"))
    warmup_epochs: int = key(0, least=0)
    warmup_lr: float = key(1e-6, least=0, most=1000)
    final_lr: float = key(0.0, least=0, most=1000)
    milestones: tuple[int, ...] = key((), least=1)
    factor: float = key(0.1, above=0, most=1)


@dataclass(frozen=True)
class Augment:
    """What is done to training images; without any of it, they are seen as in a test.

    Attributes
    ----------
    crop : {"none", "resized", "padded"}
        "resized" cuts a random part out and resizes it; "padded" moves the image by a random shift.
    crop_scale : two floats
        How much of the image's area "resized" keeps.
    padding : float
        How far "padded" moves, as a share of the side.
    flip : float
        How often left and right change places.
    auto_augment : str
        A policy as timm writes it, ``rand-m9-mstd0.5-inc1``.
    erasing : float
        How often a rectangle is replaced by noise.
    mixup, cutmix : float
        The parameter of each Beta distribution; 0 for none.
    mix_probability, switch_probability : float
        How often a batch is mixed, and by CutMix if there are both.
    """

    crop: str = key("none", one_of=("none", "resized", "padded"))
    crop_scale: tuple[float, ...] = key((0.08, 1.0), above=0, most=1)
    padding: float = key(0.125, least=0, most=1)
    flip: float = key(0.0, least=0, most=1)
    auto_augment: str = key("")
    erasing: float = key(0.0, least=0, most=1)
    mixup: float = key(0.0, least=0, most=1000)
    cutmix: float = key(0.0, least=0, most=1000)
    mix_probability: float = key(1.0, least=0, most=1)
    switch_probability: float = key(0.5, least=0, most=1)

    @property
    def mixes(self) -> bool:
        """Whether batches are mixed."""
        return bool(self.mixup or self.cutmix)

    @property
    def changes_images(self) -> bool:
        """Whether single images are changed at random."""
        return bool(self.crop != "none" or self.flip or self.auto_augment or self.erasing)


@dataclass(frozen=True)
class Loss:
    """What is made small.

    Attributes
    ----------
    label_smoothing : float
    brier : float
        The weight of the Brier score beside the cross-entropy.
    """

    label_smoothing: float = key(0.0, least=0, below=1)
    brier: float = key(0.0, least=0, most=1000)
