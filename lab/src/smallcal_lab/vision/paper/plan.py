"""What a file of cells would run: how much, for how long, and what is there already."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smallcal.data.shown import one_line
from smallcal.errors import SmallcalError, needing
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.paper.cells import Paper, PaperCell
from smallcal_lab.vision.paper.work import (
    Places,
    Work,
    commands_of,
    entries_in,
    is_extracted,
    is_trained,
    missing_images,
    wanted_images,
    weights_here,
    work_of,
)

if TYPE_CHECKING:
    from torch import nn

#: What a GPU sustains, in 10**12 operations a second, where none was measured: about an A100 in
#: mixed precision on networks as these.
TFLOPS = 30.0

#: Images of a step that is tried: as many as in a batch, or as a processor does in seconds.
_MOST, _LEAST = 64, 2
#: Seconds that a step may take on a processor.
_PATIENCE = 2.0
#: A step of training is a pass forward and one backward, which is twice as long.
_STEP = 3


@dataclass(frozen=True)
class Speed:
    """What one image costs: seconds to train on and to take logits of, or why that is not known."""

    train: float = 0.0
    apply: float = 0.0
    flops: float = 0.0  # of products of matrices and convolutions, forward
    device: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Plan:
    """What would be run.

    Attributes
    ----------
    paper : Paper
    places : Places
    works : tuple of Work
    speeds : dict
        Of each model; empty if nothing was measured.
    images : dict
        Every set of images with what is missing of it; an empty text if nothing is.
    weights : dict
        Every model that begins with published weights, with whether they are in a cache here; None
        where that cannot be told.
    trained, extracted : set of str
        Names of cells that are finished.
    tflops : float
        The assumed speed of a GPU, in 10**12 operations a second.
    """

    paper: Paper
    places: Places
    works: tuple[Work, ...]
    speeds: Mapping[str, Speed]
    images: Mapping[str, str]
    weights: Mapping[str, bool | None]
    trained: frozenset[str]
    extracted: frozenset[str]
    tflops: float = TFLOPS

    def hours(self, works: Iterable[Work]) -> float | None:
        """Return how long cells take on the device that was measured; None if that is not known."""
        return self._hours(works, lambda speed: (speed.train, speed.apply))

    def gpu_hours(self, works: Iterable[Work]) -> float | None:
        """Return how long cells take on a GPU of ``tflops``, by operations that were counted."""
        rate = 1e12 * self.tflops
        return self._hours(works, lambda speed: (_STEP * speed.flops / rate, speed.flops / rate))

    def _hours(
        self, works: Iterable[Work], each: Callable[[Speed], tuple[float, float]]
    ) -> float | None:
        """Return hours from the seconds of an image, for the cells that are known."""
        known = []
        for work in works:
            speed = self.speeds.get(work.cell.model)
            if speed and not speed.reason and work.steps is not None and work.seen is not None:
                train, apply = each(speed)
                known.append((work.steps * train + work.seen * apply) / 3600)
        return sum(known) if known else None

    @property
    def left(self) -> tuple[Work, ...]:
        """The cells that are not finished."""
        return tuple(work for work in self.works if work.cell.name not in self.extracted)

    def groups(self) -> list[tuple[Work, ...]]:
        """Return cells that differ in their seed alone, together."""
        found: dict[tuple[str, str], list[Work]] = {}
        for work in self.works:
            found.setdefault((work.cell.dataset, work.cell.backbone), []).append(work)
        return [tuple(group) for group in found.values()]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "name": self.paper.name,
            "cells": [self._cell(work) for work in self.works],
            "elsewhere": [
                {"cell": name, "reason": reason} for name, reason in self.paper.elsewhere.items()
            ],
            "models": {source: vars(speed) for source, speed in self.speeds.items()},
            "images": {
                self.places.images(named): {"there": not missing, "missing": missing}
                for named, missing in self.images.items()
            },
            "weights_here": dict(self.weights),
            "hours": self.hours(self.works),
            "gpu_hours": self.gpu_hours(self.works),
            "hours_left": self.hours(self.left),
            "gpu_hours_left": self.gpu_hours(self.left),
            "tflops": self.tflops,
        }

    def _cell(self, work: Work) -> dict[str, Any]:
        cell = work.cell
        return {
            **{"cell": cell.name, "model": cell.model, "recipe": cell.recipe or None},
            **{"train_images": work.trained, "epochs": work.epochs},
            **{"calibration": work.calibration, "test": work.test},
            "shifts": {kind: list(sizes) for kind, sizes in work.shifts.items()},
            **{"images_trained_on": work.steps, "images_of_logits": work.seen},
            **{"hours": self.hours([work]), "gpu_hours": self.gpu_hours([work])},
            "trained": cell.name in self.trained if cell.recipe else None,
            "extracted": cell.name in self.extracted,
            "unprinted": cell.unprinted or None,
            "commands": [list(words) for words in commands_of(work, self.places)],
        }


def plan_paper(
    paper: Paper,
    cells: Sequence[PaperCell],
    places: Places,
    *,
    measured: bool = True,
    tflops: float = TFLOPS,
    advance: Callable[[int], object] = lambda models: None,
) -> Plan:
    """Estimate what some cells of a file would run, and for how long, from a batch of each model.

    Parameters
    ----------
    paper : Paper
    cells : sequence of PaperCell
        As :meth:`Paper.only` gives them.
    places : Places
    measured : bool
        Whether a step of training and a batch of each model are tried here.
    tflops : float
        The assumed speed of a GPU, in 10**12 operations a second.
    advance : callable
        Called for each model that was measured.

    Examples
    --------
    >>> from pathlib import Path
    >>> from smallcal_lab.vision import load_paper
    >>> paper = load_paper()
    >>> plan = plan_paper(paper, paper.cells, Places(Path("nowhere")), measured=False)
    >>> len(plan.works), len(plan.groups()), plan.hours(plan.works)
    (72, 30, None)
    """
    works = tuple(work_of(cell, paper, places) for cell in cells)
    there = entries_in(places)
    speeds: dict[str, Speed] = {}
    for work in works if measured else ():
        if work.cell.model not in speeds:
            options = work.recipe.model.options if work.recipe else {}
            precision = work.recipe.training.precision if work.recipe else ""
            speeds[work.cell.model] = measure(work.cell.model, options=options, precision=precision)
            advance(1)
    pretrained = dict.fromkeys(work.cell.model for work in works if work.begins_pretrained)
    return Plan(
        paper=paper,
        places=places,
        works=works,
        speeds=speeds,
        images={
            named: missing_images(places.images(named), parts)
            for named, parts in wanted_images(cells).items()
        },
        weights={model: weights_here(model) for model in pretrained},
        trained=frozenset(work.cell.name for work in works if is_trained(work, places)),
        extracted=frozenset(work.cell.name for work in works if is_extracted(work, places, there)),
        tflops=tflops,
    )


def measure(source: str, *, options: Mapping[str, Any] | None = None, precision: str = "") -> Speed:
    """Build a model with random weights and try one step of training and one batch.

    ``precision`` is that of products of matrices in training on a GPU.

    Examples
    --------
    >>> speed = measure("timm:test_vit.r160_in1k")
    >>> speed.reason, 0 < speed.apply < speed.train, speed.flops > 1e6
    ('', True, True)
    """
    try:
        with needing("torch", "vision", "measuring a model", of="smallcal-lab"):
            import torch
        gpu, threads = torch.cuda.is_available(), torch.get_num_threads()
        name = f"CPU, {threads} thread{'s' * (threads != 1)}"
        # Of as many classes as it likes: the last layer is the smallest part of it all.
        model = open_model(source, options=dict(options or {}), pretrained=False)
        if model.module is None:
            return Speed(reason="it cannot be trained or timed here")
        module = model.module.to("cuda" if gpu else "cpu")
        batch = torch.randn(_MOST, 3, *model.input.size, device="cuda" if gpu else "cpu")
        flops = _flops(module, batch[:1])  # the first call sets things up
        n = _LEAST
        first = _seconds(module, batch[:n], train=False, precision="bfloat16")
        if gpu or first * _STEP * _MOST < _PATIENCE:
            n = _MOST
        else:
            n = max(_LEAST, int(_PATIENCE / (first * _STEP)))
        # Logits are taken in bfloat16 on a GPU.
        apply = _seconds(module, batch[:n], train=False, precision="bfloat16")
        train = _seconds(module, batch[:n], train=True, precision=precision)
    except (SmallcalError, ImportError) as error:
        return Speed(reason=one_line(error))
    except RuntimeError as error:  # out of memory, most of all
        return Speed(reason=f"{type(error).__name__}: {one_line(error)[:120]}")
    return Speed(train, apply, flops, str(torch.cuda.get_device_name()) if gpu else name)


def _seconds(module: nn.Module, batch: Any, *, train: bool, precision: str) -> float:
    """Return the seconds that an image of a batch takes, the fewest of three trials."""
    import torch

    labels = torch.zeros(len(batch), dtype=torch.long, device=batch.device)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-6)
    short = batch.is_cuda and precision in ("bfloat16", "float16")

    def work() -> None:
        cast = torch.autocast("cuda", getattr(torch, precision)) if short else nullcontext()
        with torch.inference_mode(not train), cast:
            loss = torch.nn.functional.cross_entropy(module(batch), labels)
        if train:
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
        if batch.is_cuda:
            torch.cuda.synchronize()

    module.train(train)
    return min(timeit.repeat(work, number=1, repeat=3)) / len(batch)


def _flops(module: nn.Module, image: Any) -> float:
    """Return the floating-point operations of one image, an addition being one."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    module.eval()
    with torch.no_grad(), counter:
        module(image)
    return float(counter.get_total_flops())
