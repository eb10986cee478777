"""The loop over epochs and batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smallcal.data.shown import one_line
from smallcal.deploy.adapters.torch_batches import evaluating, logits_of
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.vision.loading import loader_of, loading, of_worker
from smallcal_lab.vision.training.batches import Batches, Loaded, Mixer
from smallcal_lab.vision.training.chance import DROPOUT, draw_from
from smallcal_lab.vision.training.optimisation import loss_of, optimizer_of, schedule_of
from smallcal_lab.vision.training.processes import Place, even_out, parallel, summed
from smallcal_lab.vision.training.recipe import Recipe
from smallcal_lab.vision.training.run_folder import Epoch

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

#: Losses are looked at so many steps at once: to look makes a GPU wait.
_LOOK = 50


class Step(NamedTuple):
    """A batch that was learnt from: epoch and step from 1, and the loss of all processes."""

    epoch: int
    step: int
    loss: float


@dataclass(frozen=True, eq=False)
class Material:
    """What is learnt from.

    Attributes
    ----------
    train : Loaded
    check : Loaded or None
        The images to calibrate on, seen as in a test.
    mixer : Mixer
    batches : Batches
    """

    train: Loaded
    check: Loaded | None
    mixer: Mixer
    batches: Batches


class Trainer:
    """A model under training, with all that changes from epoch to epoch.

    Parameters
    ----------
    recipe : Recipe
    module : nn.Module
        On the device.
    material : Material
    device : torch.device
    place : Place
    """

    def __init__(
        self,
        recipe: Recipe,
        module: nn.Module,
        material: Material,
        device: torch.device,
        place: Place,
    ) -> None:
        import torch

        said = recipe.training
        if said.precision == "float16" and device.type != "cuda":
            raise InputError(
                "[training] precision = 'float16' needs a GPU; bfloat16 works on CPUs as well"
            )
        self.recipe, self.module, self.material = recipe, module, material
        self.device, self.place = device, place
        self.optimizer = optimizer_of(recipe, module)
        self.schedule = schedule_of(recipe, self.optimizer)
        self.scaler: Any = torch.amp.GradScaler(device.type, enabled=said.precision == "float16")
        self.loss = loss_of(recipe.loss)
        self.parallel = parallel(module, place, device, sync=said.sync_batch_norm)
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
        number = len(self.log)
        start = time.perf_counter()
        rate = float(self.optimizer.param_groups[0]["lr"])
        losses = self._train(number, on_step)
        seconds = time.perf_counter() - start
        self.schedule.step()
        even_out(self.module, self.place)
        images = self.material.batches.steps * self.material.batches.size
        row = Epoch(
            epoch=number + 1,
            lr=rate,
            loss=math.fsum(losses) / len(losses),
            accuracy=self._accuracy(),
            seconds=round(seconds, 3),
            images_per_second=round(images / seconds, 1),
        )
        self.log.append(row)
        return row

    def _train(self, epoch: int, on_step: Callable[[Step], object]) -> list[float]:
        """Return the losses of an epoch's steps."""
        import torch

        said = self.recipe.training
        self.module.train()
        draw_from(said.seed, DROPOUT, epoch, self.place.rank)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(torch.initial_seed())
        found: list[float] = []
        pending: list[Tensor] = []
        asked = list(self.material.batches.of(epoch))
        gpu = self.device.type == "cuda"
        loader = loader_of(self.material.train, asked, workers=said.workers, pin=gpu)
        with loading(loader) as batches:
            for step, (images, labels) in enumerate(batches):
                with _model_errors():
                    images = images.to(self.device, non_blocking=gpu)
                    labels = labels.to(self.device, non_blocking=gpu)
                    images, labels = self.material.mixer(images, labels, epoch=epoch, step=step)
                    pending.append(self._learn(images, labels))
                if len(pending) == _LOOK or step + 1 == len(asked):
                    for loss in self._looked_at(epoch, len(found), pending):
                        found.append(loss)
                        on_step(Step(epoch + 1, len(found), loss))
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

    def _looked_at(self, epoch: int, before: int, pending: list[Tensor]) -> list[float]:
        """Return losses as numbers, over all processes; one that is none ends the run."""
        import torch

        total = summed(torch.stack(pending).float(), self.place)
        losses: list[float] = (total / self.place.world).tolist()
        for number, loss in enumerate(losses, before + 1):
            if not math.isfinite(loss):
                raise InputError(
                    f"the loss is {loss} at epoch {epoch + 1:,}, step {number:,}; try a lower "
                    "[optimizer] lr, more [schedule] warmup_epochs or [training] clip = 1"
                )
        return losses

    def _accuracy(self) -> float | None:
        """Return the share of the images to calibrate on that are told right; only to be seen."""
        import torch

        check = self.material.check
        if check is None:
            return None
        said, n = self.recipe.training, len(check.images)
        rows = np.arange(self.place.rank, n, self.place.world)
        size = said.batch_size // self.place.world
        asked = [(0, rows[start : start + size]) for start in range(0, len(rows), size)]
        right = torch.zeros(1, dtype=torch.int64, device=self.device)
        loader = loader_of(check, asked, workers=said.workers)
        with evaluating(self.module), loading(loader) as batches:
            for images, labels in batches:
                logits = logits_of(self.module(images.to(self.device)))
                right += (logits.argmax(1) == labels.to(self.device)).sum()
        return int(summed(right, self.place)) / n


#: What models raise where a batch does not fit them.
_RAISED = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


@contextmanager
def _model_errors() -> Iterator[None]:
    """Say in one line what a model's own code raises; that the memory is full is not rare."""
    try:
        yield
    except SmallcalError:
        raise
    except _RAISED as error:
        if of_worker(error):
            raise
        said = one_line(error)[:200]
        if "memory" in said:
            words = f"out of memory; try a smaller [training] batch_size ({said})"
        else:
            words = f"the model fails on a training batch: {type(error).__name__}: {said}"
        raise InputError(words) from error
