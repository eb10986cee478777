"""The loop over epochs and batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import evaluating, logits_of
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.vision.image_set import ImageSet
from smallcal_lab.vision.loading import loader_of, loading, of_worker
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.training.batches import (
    DROPOUT,
    Batches,
    Loaded,
    Mixer,
    draw_from,
    training_transform,
)
from smallcal_lab.vision.training.optimisation import loss_of, optimizer_of, schedule_of
from smallcal_lab.vision.training.processes import Place, even_out, parallel, summed
from smallcal_lab.vision.training.recipe import Recipe
from smallcal_lab.vision.training.run_folder import Epoch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

#: Losses are looked at so many steps at once: to look makes a GPU wait.
_LOOK = 50


class Step(NamedTuple):
    """A batch that was learnt from: epoch and step from 1, and the loss of all processes."""

    epoch: int
    step: int
    loss: float


class Trainer:
    """A model under training, with all that changes from epoch to epoch.

    Parameters
    ----------
    recipe : Recipe
    model : VisionModel
        On the device.
    images : ImageSet
        To train on.
    check : ImageSet or None
        The images to calibrate on, whose accuracy is told.
    device : torch.device
    place : Place
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
        import torch

        said = recipe.training
        if said.precision == "float16" and device.type != "cuda":
            raise InputError(
                "[training] precision = 'float16' needs a GPU; bfloat16 works on CPUs as well"
            )
        self.recipe, self.module = recipe, model.module
        self.device, self.place = device, place
        self.batches = Batches(len(images), said.batch_size, said.seed, place)
        seed = said.seed if recipe.augment.changes_images else None
        transform = training_transform(recipe, model.input, model.preprocess)
        self.images = Loaded(images, transform, seed)
        self.check = None if check is None else Loaded(check, model.preprocess)
        self.mixer = Mixer(recipe, model.classes)
        self.optimizer = optimizer_of(recipe, self.module)
        self.schedule = schedule_of(recipe, self.optimizer)
        self.scaler: Any = torch.amp.GradScaler(device.type, enabled=said.precision == "float16")
        self.loss = loss_of(recipe.loss)
        self.parallel = parallel(self.module, place, device, sync=said.sync_batch_norm)
        self.log: list[Epoch] = []

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the weights to go on from here."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "log": [list(row) for row in self.log],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave; weights are loaded already."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.log = [Epoch(*row) for row in state["log"]]

    def epoch(self, on_step: Callable[[Step], object]) -> Epoch:
        """Train for one epoch more, and look at the images that are left; steps are told later."""
        start = time.perf_counter()
        rate = float(self.optimizer.param_groups[0]["lr"])
        losses = self._train(len(self.log), on_step)
        seconds = time.perf_counter() - start
        self.schedule.step()
        even_out(self.module, self.place)
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
        import torch

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
                with _model_errors():
                    images = images.to(self.device, non_blocking=gpu)
                    labels = labels.to(self.device, non_blocking=gpu)
                    pending.append(self._learn(*self.mixer(images, labels, epoch=epoch, step=step)))
                if len(pending) == _LOOK or step + 1 == self.batches.steps:
                    total = summed(torch.stack(pending).float(), self.place)
                    for loss in (total / self.place.world).tolist():
                        found.append(loss)
                        told = Step(epoch + 1, len(found), loss)
                        _require_number(told)
                        on_step(told)
                    pending = []
        return found

    def _learn(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take one step, and return the loss before it."""
        import torch

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
        import torch

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
        return int(summed(right, self.place)) / n


def _require_number(step: Step) -> None:
    if not math.isfinite(step.loss):
        raise InputError(
            f"the loss is {step.loss} at epoch {step.epoch:,}, step {step.step:,}; try a lower "
            "[optimizer] lr, more [schedule] warmup_epochs or [training] clip = 1"
        )


@contextmanager
def _model_errors() -> Iterator[None]:
    """Say in one line what a model's own code raises; that the memory is full is not rare."""
    try:
        yield
    except SmallcalError:
        raise
    except Exception as error:
        if of_worker(error):
            raise
        said = one_line(error)[:200]
        if "memory" in said:
            words = f"out of memory; try a smaller [training] batch_size ({said})"
        else:
            words = f"the model fails on a training batch: {type(error).__name__}: {said}"
        raise InputError(words) from error
