"""What a file of cells would run: how much, for how long, and what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, InputError, SmallcalError
from smallcal.studies.collection import FILE_NAME, load_collection
from smallcal.vision.images import HUB, image_parts
from smallcal.vision.paper.cells import Paper, PaperCell
from smallcal.vision.paper.commands import commands_of
from smallcal.vision.paper.measure import Speed, measure
from smallcal.vision.paper.work import Places, Work, work_of

#: What a GPU sustains, in 10**12 operations a second, where none was measured: about an A100 in
#: mixed precision on networks as these.
TFLOPS = 30.0
#: A step of training costs a pass forward and one backward, which is twice as long.
_STEP = 3


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
        What a GPU is taken to sustain.
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
                lambda speed: (_STEP * speed.flops / rate, speed.flops / rate),
            )
            for work in works
        )

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
                {"cell": one.name, "reason": one.reason} for one in self.paper.elsewhere
            ],
            "models": {source: vars(speed) for source, speed in self.speeds.items()},
            "images": {
                self.places.images(named): {"there": not missing, "missing": missing}
                for named, missing in self.images.items()
            },
            "weights_here": dict(self.weights),
            "hours": self.hours(self.works),
            "gpu_hours": self.gpu_hours(self.works),
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
            "commands": [list(words) for words in commands_of(work, self.places)],
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
    """Say what some cells of a file would run, and for how long; nothing is run but a batch of each.

    Parameters
    ----------
    paper : Paper
    cells : sequence of PaperCell
        As :meth:`Paper.only` gives them.
    places : Places
    measured : bool
        Whether a step of training and a batch of each model are tried here.
    tflops : float
        What a GPU is taken to sustain, in 10**12 operations a second.
    advance : callable
        Called for each model that was measured.

    Raises
    ------
    FileError
        If a recipe cannot be used.

    Examples
    --------
    >>> from smallcal.vision.paper.cells import load_paper
    >>> paper = load_paper()
    >>> plan = plan_paper(paper, paper.cells, Places(Path("nowhere")), measured=False)
    >>> len(plan.works), len(plan.groups()), plan.hours(plan.works)
    (72, 30, None)
    """
    works = tuple(work_of(cell, paper, places) for cell in cells)
    speeds = {}
    for work in works if measured else ():
        if work.cell.model not in speeds:
            options = work.recipe.model.options if work.recipe else {}
            precision = work.recipe.training.precision if work.recipe else ""
            speeds[work.cell.model] = measure(
                work.cell.model, options=options, precision=precision
            )
            advance(1)
    return Plan(
        paper=paper,
        places=places,
        works=works,
        speeds=speeds,
        images=_images(cells, places),
        weights={
            work.cell.model: weights_here(work.cell.model)
            for work in works
            if work.begins_pretrained
        },
        trained=frozenset(work.cell.name for work in works if is_trained(work, places)),
        extracted=extracted(cells, places),
        tflops=tflops,
    )


# --- what is there -------------------------------------------------------------------------------


def _images(cells: Iterable[PaperCell], places: Places) -> dict[str, str]:
    wanted: dict[str, set[str]] = {}
    for cell in cells:
        for named in cell.images:
            wanted.setdefault(named, set())
        for shift in cell.shifts:
            wanted[shift.data] |= {f"{kind}-{severity}" for kind, severity in shift.parts}
    return {named: missing_images(places.images(named), parts) for named, parts in wanted.items()}


def missing_images(source: str, parts: Iterable[str] = ()) -> str:
    """Return what is missing of a set of images, by a look at its folder; nothing if nothing is.

    Examples
    --------
    >>> missing_images("cifar100:nowhere:test")
    'cifar100: the folder nowhere is not there'
    """
    wanted = sorted(parts)
    if source.startswith(f"{HUB}:"):
        return ""  # to look would be to load it
    try:
        there = image_parts(source)
    except FileError as error:
        return str(error)
    except InputError:  # it is one part already
        base, _, part = source.rpartition(":")
        wanted = [part]
        try:
            there = image_parts(base)
        except SmallcalError as error:
            return str(error)
    lacking = [part for part in wanted if part not in there]
    if not lacking:
        return ""
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return f"{source} lacks {', '.join(lacking[:3])}{more}"


#: Files that published weights are kept in.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


def weights_here(source: str) -> bool | None:
    """Return whether a model's weights are in a cache or file here; None if that cannot be told.

    Examples
    --------
    >>> weights_here("checkpoint:nowhere.pt"), weights_here("torch:networks:small")
    (False, None)
    """
    kind, _, rest = source.partition(":")
    name = rest.partition("?")[0]
    if kind in ("checkpoint", "onnx"):
        return Path(name).expanduser().is_file()
    if kind == "hf" and Path(name).expanduser().is_dir():
        return True
    if kind not in ("hf", "timm") or (kind == "timm" and "." not in name):
        return None
    with suppress(ImportError, ValueError):
        from huggingface_hub import try_to_load_from_cache

        owner = "timm/" if kind == "timm" and "/" not in name else ""
        found = (try_to_load_from_cache(f"{owner}{name}", file) for file in _WEIGHTS)
        return any(isinstance(one, str) for one in found)
    return None


def is_trained(work: Work, places: Places) -> bool:
    """Return whether a cell's training is finished, by its log."""
    log = places.run(work.cell) / "log.csv"
    with suppress(OSError, UnicodeDecodeError):
        rows = log.read_text(encoding="utf-8").splitlines()[1:]
        return 0 < work.epochs <= len(rows)
    return False


def extracted(cells: Iterable[PaperCell], places: Places) -> frozenset[str]:
    """Return the names of the cells whose logits are in the collection."""
    if not (places.logits / FILE_NAME).is_file():
        return frozenset()
    there = {cell.name for cell in load_collection(places.logits).cells}
    return frozenset(cell.name for cell in cells if cell.key in there)
