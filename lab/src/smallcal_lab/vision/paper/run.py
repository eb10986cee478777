"""Plan a file of cells (how much there is to run, for how long), and make its cells."""

from __future__ import annotations

import math
import timeit
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from smallcal.data import shown
from smallcal.data.shown import one_line
from smallcal.errors import InputError, SmallcalError, needing
from smallcal_lab.studies.collection import Collection, load_collection
from smallcal_lab.vision.extraction.store import registered
from smallcal_lab.vision.images import open_images
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.paper.cells import Paper, PaperCell
from smallcal_lab.vision.paper.work import Places, Work, wanted_images, weights_here, work_of
from smallcal_lab.vision.training.recipe import Recipe

if TYPE_CHECKING:
    from torch import nn

#: What a GPU sustains, in 10**12 operations a second, where none was measured: about an A100 in
#: mixed precision on networks as these.
TFLOPS = 30.0

#: Images of a step that is tried: as many as in a batch, or as a processor does in two seconds.
_MOST, _LEAST, _PATIENCE = 64, 2, 2.0
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
    """What would be run."""

    paper: Paper
    places: Places
    works: tuple[Work, ...]
    speeds: Mapping[str, Speed]  #: Of each model; empty if nothing was measured.
    images: Mapping[str, str]  #: What is missing of every set of images.
    #: Whether the published weights that models begin with are in a cache here; None where that
    #: cannot be told.
    weights: Mapping[str, bool | None]
    trained: frozenset[str]  #: Names of cells that are finished so far,
    extracted: frozenset[str]  #: and altogether.
    tflops: float = TFLOPS  #: The assumed speed of a GPU, in 10**12 operations a second.

    def hours(self, works: Iterable[Work], *, counted: bool = False) -> float | None:
        """Return how long cells take on the device that was measured, as far as that is known.

        ``counted`` is for a GPU of ``tflops``, by the operations that were counted.
        """
        rate, known = 1e12 * self.tflops, []
        for work in works:
            speed = self.speeds.get(work.cell.model)
            if speed and not speed.reason and not math.isnan(work.steps + work.seen):
                each = (_STEP * speed.flops, speed.flops) if counted else (speed.train, speed.apply)
                seconds = (work.steps * each[0] + work.seen * each[1]) / (rate if counted else 1)
                known.append(seconds / 3600)
        return sum(known) if known else None

    @property
    def left(self) -> tuple[Work, ...]:
        """The cells that are not finished."""
        return tuple(work for work in self.works if work.cell.name not in self.extracted)

    def groups(self) -> list[tuple[Work, ...]]:
        """Return cells that differ in their seed alone, together."""
        named = groupby(self.works, lambda work: (work.cell.dataset, work.cell.backbone))
        return [tuple(group) for _, group in named]

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
            "gpu_hours": self.hours(self.works, counted=True),
            "hours_left": self.hours(self.left),
            "gpu_hours_left": self.hours(self.left, counted=True),
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
            "hours": self.hours([work]),
            "gpu_hours": self.hours([work], counted=True),
            "trained": cell.name in self.trained if cell.recipe else None,
            "extracted": cell.name in self.extracted,
            "unprinted": cell.unprinted or None,
            "commands": [list(words) for words in work.commands],
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
        As ``Paper.only`` gives them.
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
    there, speeds = places.entries(), {}
    for work in works if measured else ():
        if work.cell.model not in speeds:
            speeds[work.cell.model] = measure(work.cell.model, work.recipe)
            advance(1)
    pretrained = dict.fromkeys(work.cell.model for work in works if work.begins_pretrained)
    return Plan(
        paper=paper,
        places=places,
        works=works,
        speeds=speeds,
        images={
            named: places.missing(named, parts) for named, parts in wanted_images(cells).items()
        },
        weights={model: weights_here(model) for model in pretrained},
        trained=frozenset(work.cell.name for work in works if work.is_trained),
        extracted=frozenset(work.cell.name for work in works if work.is_extracted(there)),
        tflops=tflops,
    )


def measure(source: str, recipe: Recipe | None = None) -> Speed:
    """Build a model with random weights and try one step of training and one batch."""
    try:
        with needing("torch", "vision", "measuring a model", of="smallcal-lab"):
            import torch
            from torch.utils.flop_counter import FlopCounterMode
        options = recipe.model.options if recipe else {}
        precision = recipe.training.precision if recipe else "float32"
        gpu, threads = torch.cuda.is_available(), torch.get_num_threads()
        name = f"CPU, {threads} thread{'s' * (threads != 1)}"
        # Of as many classes as it likes: the last layer is the smallest part of it all.
        model = open_model(source, options=options, pretrained=False)
        if model.module is None:
            return Speed(reason="it cannot be trained or timed here")
        module = model.module.to("cuda" if gpu else "cpu")
        batch = torch.randn(_MOST, 3, *model.input.size, device="cuda" if gpu else "cpu")
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            module.eval()(batch[:1])  # the first call also sets things up
        # Logits are taken in bfloat16 on a GPU.
        n, first = _MOST, _seconds(module, batch[:_LEAST], train=False, precision="bfloat16")
        if not gpu:
            n = min(_MOST, max(_LEAST, int(_PATIENCE / (first * _STEP))))
        apply = _seconds(module, batch[:n], train=False, precision="bfloat16")
        train = _seconds(module, batch[:n], train=True, precision=precision)
    except (SmallcalError, ImportError, RuntimeError) as error:  # out of memory, most of all
        return Speed(reason=one_line(error)[:200])
    flops = float(counter.get_total_flops())
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


# --- making cells --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunSettings:
    """Where a run is done."""

    device: str = "auto"  #: "auto", "cpu", "cuda", "cuda:1", ...
    workers: int | None = None  #: Processes that load images.
    batch_size: int = 64  #: Images per batch when saving logits.


class Missing(InputError):
    """Images or weights that are not there; ``lines`` has all of them."""

    lines: tuple[str, ...] = ()


def missing_for(works: Sequence[Work], places: Places) -> list[str]:
    """Return everything that is missing to make cells: images, weights, models; a line each."""
    there = places.entries()
    todo = [work for work in works if not work.is_extracted(there)]
    found = []
    for named, parts in wanted_images(work.cell for work in todo).items():
        source = places.images(named)
        one = f"{source}:{parts[0]}" if parts else source  # of many parts the first is opened
        found.append(places.missing(named, parts) or _complaint(open_images, one))
    if not any(found):
        links = dict.fromkeys(shift for work in todo for shift in work.cell.shifts if shift.classes)
        found += [_complaint(places.link_table, shift) for shift in links]
    tried = set()
    for work in todo:
        if work.recipe is not None and work.is_trained:
            continue
        said = work.recipe.model if work.recipe else None
        own, options = (said.weights or None, said.options) if said else (None, {})
        how = {"checkpoint": own, "options": options, "pretrained": work.begins_pretrained}
        if (key := (work.cell.model, repr(how))) not in tried:
            tried.add(key)
            found.append(_complaint(open_model, work.cell.model, **how))
    return list(dict.fromkeys(filter(None, found)))


def _complaint(work: Callable[..., object], *given: object, **more: object) -> str:
    """Return what is said of something that cannot be done; nothing if it can."""
    try:
        work(*given, **more)
    except SmallcalError as error:
        return one_line(error)
    return ""


def run_paper(
    paper: Paper,
    cells: Sequence[PaperCell],
    places: Places,
    *,
    settings: RunSettings | None = None,
    told: Callable[[str], object] = lambda line: None,
) -> Collection:
    """Train models and save their logits, cell by cell; finished work is not repeated.

    Parameters
    ----------
    paper : Paper
    cells : sequence of PaperCell
        As ``Paper.only`` gives them.
    places : Places
        Where images are, and where runs and logits go.
    settings : RunSettings, optional
    told : callable
        Called with a line about each step.

    Returns
    -------
    Collection
        Of all logits in the folder, for :func:`smallcal_lab.studies.run` and the like. If images
        or weights are missing, nothing begins; if a step fails, finished work is kept.
    """
    settings = settings or RunSettings()
    works = [work_of(cell, paper, places) for cell in cells]
    if lines := missing_for(works, places):
        error = Missing("; ".join(lines))
        error.lines = tuple(lines)
        raise error
    for number, work in enumerate(works, 1):
        told(f"{work.cell.name} ({number:,} of {len(works):,})")
        *trains, logits = (shown.command(words) for words in work.commands)
        for line in trains:
            told(f"  {line}")
            _train(work, settings, told)
        told(f"  {logits}")
        if work.is_extracted(places.entries()):
            told("  its logits exist already")
        else:
            _extract(work, settings, told)
        _add_keys(work.cell, places)
    return load_collection(places.logits)


def _train(work: Work, settings: RunSettings, told: Callable[[str], object]) -> None:
    from smallcal_lab.vision.training.training import RunFolder, train  # it imports torch

    assert work.recipe is not None
    own: dict[str, Any] = {"data.source": work.places.images(work.cell.train)}
    if settings.device != "auto":
        own["training.device"] = settings.device
    if settings.workers is not None:
        own["training.workers"] = settings.workers
    recipe = work.recipe.changed(own)
    folder = work.places.run(work.cell)
    RunFolder(folder).require(recipe)
    if work.is_trained:
        told("  it is trained already")
    else:
        train(recipe, folder, on_epoch=lambda row, epochs: told(f"  {row.line(epochs)}"))


def _extract(work: Work, settings: RunSettings, told: Callable[[str], object]) -> None:
    from smallcal_lab.vision.extraction.extracting import CellName, ExtractionSettings, extract

    cell = work.cell
    for shift in cell.shifts:
        if shift.classes:
            work.places.make_links(shift)
    done = extract(
        work.model,
        work.images,
        work.places.logits,
        cell=CellName(cell.dataset, cell.backbone, cell.seed),
        settings=ExtractionSettings(
            batch_size=settings.batch_size, workers=settings.workers, device=settings.device
        ),
        told=lambda line: told(f"  {line}"),
    )
    for note in done.notes:
        told(f"  {note}")


def _add_keys(cell: PaperCell, places: Places) -> None:
    """Write into the collection what ``smallcal logits`` does not: draws, and what a test is."""
    entry = places.entries().get(cell.key)
    if entry is None or not (cell.draw or cell.test_is):
        return
    keys: dict[str, Any] = {"draw": list(cell.draw)} if cell.draw else {}
    if cell.test_is:
        keys["shift"] = [{"kind": cell.test_is, "severity": 0, "file": entry.test}]
    named = {"dataset": cell.dataset, "backbone": cell.backbone, "seed": cell.seed}
    files = {"calibration": entry.calibration, "test": entry.test}
    registered(places.logits, [{**named, **files, **keys}])
