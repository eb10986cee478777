"""What a file of cells would run: how much, for how long, and what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smallcal_lab.vision.paper.cells import Paper, PaperCell
from smallcal_lab.vision.paper.commands import commands_of
from smallcal_lab.vision.paper.measure import STEP, Speed, measure
from smallcal_lab.vision.paper.state import (
    entries_in,
    is_extracted,
    is_trained,
    missing_images,
    wanted_images,
    weights_here,
)
from smallcal_lab.vision.paper.work import Places, Work, work_of

#: What a GPU sustains, in 10**12 operations a second, where none was measured: about an A100 in
#: mixed precision on networks as these.
TFLOPS = 30.0


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
        return _sum(
            _cost(work, self.speeds.get(work.cell.model), lambda speed: (speed.train, speed.apply))
            for work in works
        )

    def gpu_hours(self, works: Iterable[Work]) -> float | None:
        """Return how long cells take on a GPU of ``tflops``, by operations that were counted."""
        rate = 1e12 * self.tflops
        return _sum(
            _cost(
                work,
                self.speeds.get(work.cell.model),
                lambda speed: (STEP * speed.flops / rate, speed.flops / rate),
            )
            for work in works
        )

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

    def commands(self, work: Work) -> list[tuple[str, ...]]:
        """Return the commands that a cell is made with."""
        return list(commands_of(work, self.places))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "name": self.paper.name,
            "cells": [self._cell(work) for work in self.works],
            "elsewhere": [{"cell": one.name, "reason": one.reason} for one in self.paper.elsewhere],
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
        shifts = {kind: list(sizes) for kind, sizes in work.shifts.items()}
        return {
            **{"cell": cell.name, "model": cell.model, "recipe": cell.recipe or None},
            **{"train_images": work.trained, "epochs": work.epochs},
            **{"calibration": work.calibration, "test": work.test, "shifts": shifts},
            **{"images_trained_on": work.steps, "images_of_logits": work.seen},
            **{"hours": self.hours([work]), "gpu_hours": self.gpu_hours([work])},
            "trained": cell.name in self.trained if cell.recipe else None,
            "extracted": cell.name in self.extracted,
            "unprinted": cell.unprinted or None,
            "commands": [list(words) for words in self.commands(work)],
        }


def _cost(
    work: Work, speed: Speed | None, each: Callable[[Speed], tuple[float, float]]
) -> float | None:
    """Return hours, from the seconds that an image takes to train on and to get logits of."""
    if speed is None or speed.reason or work.steps is None or work.seen is None:
        return None
    train, apply = each(speed)
    return (work.steps * train + work.seen * apply) / 3600


def _sum(numbers: Iterable[float | None]) -> float | None:
    """Return the sum of what is known; None if nothing is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


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

    Raises
    ------
    FileError
        If a recipe cannot be used.

    Examples
    --------
    >>> from smallcal_lab.vision.paper.file import load_paper
    >>> from pathlib import Path
    >>> paper = load_paper()
    >>> plan = plan_paper(paper, paper.cells, Places(Path("nowhere")), measured=False)
    >>> len(plan.works), len(plan.groups()), plan.hours(plan.works)
    (72, 30, None)
    """
    works = tuple(work_of(cell, paper, places) for cell in cells)
    there = entries_in(places)
    speeds = {}
    for work in works if measured else ():
        if work.cell.model not in speeds:
            options = work.recipe.model.options if work.recipe else {}
            precision = work.recipe.training.precision if work.recipe else ""
            speeds[work.cell.model] = measure(work.cell.model, options=options, precision=precision)
            advance(1)
    return Plan(
        paper=paper,
        places=places,
        works=works,
        speeds=speeds,
        images={
            named: missing_images(places.images(named), parts)
            for named, parts in wanted_images(cells).items()
        },
        weights={
            work.cell.model: weights_here(work.cell.model)
            for work in works
            if work.begins_pretrained
        },
        trained=frozenset(work.cell.name for work in works if is_trained(work, places)),
        extracted=frozenset(work.cell.name for work in works if is_extracted(work, places, there)),
        tflops=tflops,
    )
