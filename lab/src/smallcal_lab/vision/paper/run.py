"""Make cells: train what is to be trained, take logits, and keep what is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smallcal.data import shown
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.studies.collection import Collection, load_collection
from smallcal_lab.vision.extraction.extracting import CellName, ExtractionSettings, extract
from smallcal_lab.vision.extraction.store import registered
from smallcal_lab.vision.images import open_images
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.paper.cells import Paper, PaperCell
from smallcal_lab.vision.paper.work import (
    Places,
    Work,
    commands_of,
    entries_in,
    images_of,
    is_extracted,
    is_trained,
    link_table,
    make_links,
    missing_images,
    model_of,
    wanted_images,
    work_of,
)
from smallcal_lab.vision.training.training import RunFolder, train


@dataclass(frozen=True)
class RunSettings:
    """Where a run is done.

    Attributes
    ----------
    device : str
        "auto", "cpu", "cuda", "cuda:1", ...
    workers : int, optional
        Processes that load images.
    batch_size : int
        Images per batch when saving logits.
    """

    device: str = "auto"
    workers: int | None = None
    batch_size: int = 64


class Missing(InputError):
    """Images or weights that are not there; ``lines`` has all of them."""

    lines: tuple[str, ...] = ()


def missing_for(works: Sequence[Work], places: Places) -> list[str]:
    """Return everything that is missing to make cells: images, weights, models; a line each."""
    there = entries_in(places)
    todo = [work for work in works if not is_extracted(work, places, there)]
    found = []
    for named, parts in wanted_images(work.cell for work in todo).items():
        source = places.images(named)
        one = f"{source}:{parts[0]}" if parts else source  # of many parts the first is opened
        found.append(missing_images(source, parts) or _complaint(open_images, one))
    if not any(found):
        links = dict.fromkeys(shift for work in todo for shift in work.cell.shifts if shift.classes)
        found += [_complaint(link_table, shift, places) for shift in links]
    tried = set()
    for work in todo:
        if work.recipe is not None and is_trained(work, places):
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
        return shown.one_line(error)
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
        As :meth:`Paper.only` gives them.
    places : Places
        Where images are, and where runs and logits go.
    settings : RunSettings, optional
    told : callable
        Called with a line about each step.

    Returns
    -------
    Collection
        Of all logits in the folder, for :func:`smallcal_lab.studies.run` and the like.

    Raises
    ------
    Missing
        If images or weights are missing; nothing has begun.
    SmallcalError
        If a step fails; finished work is kept.
    """
    works = [work_of(cell, paper, places) for cell in cells]
    if lines := missing_for(works, places):
        error = Missing("; ".join(lines))
        error.lines = tuple(lines)
        raise error
    for number, work in enumerate(works, 1):
        told(f"{work.cell.name} ({number:,} of {len(works):,})")
        *trains, logits = (shown.command(words) for words in commands_of(work, places))
        for line in trains:
            told(f"  {line}")
            _train(work, places, settings or RunSettings(), told)
        told(f"  {logits}")
        if is_extracted(work, places, entries_in(places)):
            told("  its logits exist already")
        else:
            _extract(work, places, settings or RunSettings(), told)
        _add_keys(work.cell, places)
    return load_collection(places.logits)


def _train(
    work: Work, places: Places, settings: RunSettings, told: Callable[[str], object]
) -> None:
    assert work.recipe is not None
    own: dict[str, Any] = {"data.source": places.images(work.cell.train)}
    if settings.device != "auto":
        own["training.device"] = settings.device
    if settings.workers is not None:
        own["training.workers"] = settings.workers
    recipe = work.recipe.changed(own)
    folder = places.run(work.cell)
    RunFolder(folder).require(recipe)
    if is_trained(work, places):
        told("  it is trained already")
    else:
        train(recipe, folder, on_epoch=lambda row, epochs: told(f"  {row.line(epochs)}"))


def _extract(
    work: Work, places: Places, settings: RunSettings, told: Callable[[str], object]
) -> None:
    cell = work.cell
    for shift in cell.shifts:
        if shift.classes:
            make_links(shift, places)
    done = extract(
        model_of(work, places),
        images_of(cell, places),
        places.logits,
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
    entry = entries_in(places).get(cell.key)
    if entry is None or not (cell.draw or cell.test_is):
        return
    keys: dict[str, Any] = {"draw": list(cell.draw)} if cell.draw else {}
    if cell.test_is:
        keys["shift"] = [{"kind": cell.test_is, "severity": 0, "file": entry.test}]
    named = {"dataset": cell.dataset, "backbone": cell.backbone, "seed": cell.seed}
    files = {"calibration": entry.calibration, "test": entry.test}
    registered(places.logits, [{**named, **files, **keys}])
