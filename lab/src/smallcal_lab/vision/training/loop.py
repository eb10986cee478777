"""The loop over epochs and batches, with torch's optimisers, learning rates and losses."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from smallcal.deploy.adapters.torch_batches import evaluating, logits_of
from smallcal.errors import InputError, needing
from smallcal.metrics.units import PERCENT
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.loading import loader_of, loading
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.running import model_errors
from smallcal_lab.vision.training.batches import (
    DROPOUT,
    Batches,
    Loaded,
    Mixer,
    Place,
    draw_from,
    training_transform,
)
from smallcal_lab.vision.training.recipe import Loss, Recipe

with needing("torch", "vision", "training", of="smallcal-lab"):
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

#: Losses are looked at so many steps at once: to look makes a GPU wait.
_LOOK = 50


class Step(NamedTuple):
    """A batch that was learnt from: epoch and step from 1, and the loss of all processes."""

    epoch: int
    step: int
    loss: float


class Epoch(NamedTuple):
    """A row of the log; ``accuracy`` is on the images to calibrate on, None if there are none."""

    epoch: int
    lr: float
    loss: float
    accuracy: float | None
    seconds: float
    images_per_second: float

    def line(self, epochs: int) -> str:
        """Return what a person is told of it."""
        right = "" if self.accuracy is None else f", accuracy {PERCENT.value(self.accuracy)}"
        return (
            f"epoch {self.epoch:,} of {epochs:,}: loss {self.loss:.4f}{right}, rate {self.lr:.3g}, "
            f"{self.seconds:,.1f} s, {self.images_per_second:,.0f} images/s"
        )


class Trainer:
    """A model under training, on its device, with all that changes from epoch to epoch.

    The accuracy on the images of ``check``, those to calibrate on, is told and not used.
    """

    def __init__(
        self,
        recipe: Recipe,
        model: VisionModel,
        images: ImageSet,
        check: ImageSet | None,
        *,
        device: torch.device,
        place: Place,
    ) -> None:
        said = recipe.training
        if said.precision == "float16" and device.type != "cuda":
            raise InputError(
                "[training] precision = 'float16' needs a GPU; bfloat16 works on CPUs as well"
            )
        self.recipe, self.module = recipe, model.module
        self.device, self.place = device, place
        self.batches = Batches(len(images), said.batch_size, said.seed, place)
        transform = training_transform(recipe, model.input, model.preprocess)
        self.images = Loaded(images, transform, said.seed)
        self.check = None if check is None else Loaded(check, model.preprocess)
        self.mixer = Mixer(recipe, model.classes)
        self.optimizer = optimizer_of(recipe, self.module)
        self.scaler: Any = torch.amp.GradScaler(device.type, enabled=said.precision == "float16")
        self.loss = loss_of(recipe.loss)
        self.parallel = place.parallel(self.module, device, sync=said.sync_batch_norm)
        self.log: list[Epoch] = []

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the weights to go on from here."""
        states = {"optimizer": self.optimizer.state_dict(), "scaler": self.scaler.state_dict()}
        return {**states, "log": [list(row) for row in self.log]}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave; weights are loaded already."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.log = [Epoch(*row) for row in state["log"]]

    def epoch(self, on_step: Callable[[Step], object]) -> Epoch:
        """Train for one epoch more, and look at the images that are left; steps are told later."""
        start = time.perf_counter()
        rate = rate_of(self.recipe, len(self.log))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        losses = self._train(len(self.log), on_step)
        seconds = time.perf_counter() - start
        self.place.even_out(self.module)
        row = Epoch(
            epoch=len(self.log) + 1,
            lr=rate,
            loss=math.fsum(losses) / len(losses),
            accuracy=self._accuracy(),
            seconds=round(seconds, 3),
            images_per_second=round(self.batches.steps * self.batches.size / seconds, 1),
        )
        self.log.append(row)
        return row

    def _train(self, epoch: int, on_step: Callable[[Step], object]) -> list[float]:
        """Return the losses of an epoch's steps."""
        said, gpu = self.recipe.training, self.device.type == "cuda"
        self.module.train()
        draw_from(said.seed, DROPOUT, epoch, self.place.rank)
        if gpu:
            torch.cuda.manual_seed(torch.initial_seed())
        found: list[float] = []
        pending: list[Tensor] = []
        loader = loader_of(self.images, list(self.batches.of(epoch)), workers=said.workers, pin=gpu)
        with loading(loader) as batches:
            for step, (images, labels) in enumerate(batches):
                with model_errors("a training batch", "[training] batch_size"):
                    images = images.to(self.device, non_blocking=gpu)
                    labels = labels.to(self.device, non_blocking=gpu)
                    pending.append(self._learn(*self.mixer(images, labels, epoch=epoch, step=step)))
                if len(pending) < _LOOK and step + 1 < self.batches.steps:
                    continue
                total = self.place.summed(torch.stack(pending).float())
                for loss in (total / self.place.world).tolist():
                    found.append(loss)
                    if not math.isfinite(loss):
                        raise InputError(
                            f"the loss is {loss} at epoch {epoch + 1:,}, step {len(found):,}; try "
                            "a lower [optimizer] lr, more [schedule] warmup_epochs or [training] "
                            "clip = 1"
                        )
                    on_step(Step(epoch + 1, len(found), loss))
                pending = []
        return found

    def _learn(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take one step, and return the loss before it."""
        said = self.recipe.training
        with torch.autocast(
            self.device.type,
            dtype=torch.float16 if said.precision == "float16" else torch.bfloat16,
            enabled=said.precision != "float32",
        ):
            logits = logits_of(self.parallel(images))
        loss = self.loss(logits.float(), labels)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        if said.clip:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), said.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def _accuracy(self) -> float | None:
        """Return the share of the images to calibrate on that are told right; only to be seen."""
        if self.check is None:
            return None
        n, size = len(self.check.images), self.batches.size // self.place.world
        rows = np.arange(self.place.rank, n, self.place.world)
        asked = [(0, rows[start : start + size]) for start in range(0, len(rows), size)]
        right = torch.zeros(1, dtype=torch.int64, device=self.device)
        loader = loader_of(self.check, asked, workers=self.recipe.training.workers)
        with evaluating(self.module), loading(loader) as batches:
            for images, labels in batches:
                logits = logits_of(self.module(images.to(self.device)))
                right += (logits.argmax(1) == labels.to(self.device)).sum()
        return int(self.place.summed(right)) / n


# --- optimiser, learning rates and loss ----------------------------------------------------------


def optimizer_of(recipe: Recipe, module: nn.Module) -> torch.optim.Optimizer:
    """Return torch's AdamW or SGD over the weights that are trained.

    As in timm, vectors (biases and norms) are not decayed, nor what the model itself names in
    ``no_weight_decay``, such as the embeddings of places.
    """
    said = recipe.optimizer
    named: Any = getattr(module, "no_weight_decay", set)
    spared = named()
    groups: list[dict[str, Any]] = [
        {"params": [], "weight_decay": 0.0},
        {"params": [], "weight_decay": said.weight_decay},
    ]
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            plain = weight.ndim <= 1 or name.endswith(".bias") or name in spared
            groups[0 if plain else 1]["params"].append(weight)
    if not any(group["params"] for group in groups):
        raise InputError("the model has no weights that can be trained")
    if said.name == "adamw":
        betas = (said.betas[0], said.betas[1])
        return torch.optim.AdamW(groups, lr=said.lr, betas=betas, eps=said.eps)
    return torch.optim.SGD(groups, lr=said.lr, momentum=said.momentum, nesterov=said.nesterov)


def rate_of(recipe: Recipe, epoch: int) -> float:
    """Return the learning rate of an epoch, counted from 0.

    Warm-up epochs are the first of those that the cosine is counted over, as in timm.
    """
    said, lr = recipe.schedule, recipe.optimizer.lr
    if epoch < said.warmup_epochs:
        return said.warmup_lr + epoch * (lr - said.warmup_lr) / said.warmup_epochs
    if said.name == "steps":
        return lr * said.factor ** sum(epoch >= step for step in said.milestones)
    if said.name == "constant":
        return lr
    share = epoch / recipe.training.epochs
    return said.final_lr + 0.5 * (lr - said.final_lr) * (1 + math.cos(math.pi * share))


def loss_of(said: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean loss of logits, for labels or for shares of classes.

    The cross-entropy is torch's, smoothed; the Brier score, the sum of squared differences of
    probabilities over classes, has the same smoothed shares to aim at.
    """

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        found = functional.cross_entropy(logits, labels, label_smoothing=said.label_smoothing)
        if not said.brier:
            return found
        classes = logits.shape[1]
        shares = labels if labels.ndim == 2 else functional.one_hot(labels, classes).to(logits)
        shares = shares * (1 - said.label_smoothing) + said.label_smoothing / classes
        gaps = torch.softmax(logits, 1) - shares
        return found + said.brier * gaps.square().sum(1).mean()

    return loss
