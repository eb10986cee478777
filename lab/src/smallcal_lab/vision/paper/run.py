"""Make cells: train what is to be trained, take logits, and keep what is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smallcal.data import shown
from smallcal.errors import InputError, SmallcalError
from smallcal_lab.studies.collection import Collection, load_collection
from smallcal_lab.vision.extraction.cell_images import CellImages, Corruptions
from smallcal_lab.vision.extraction.extracting import CellName, ExtractionSettings, extract
from smallcal_lab.vision.extraction.store import registered
from smallcal_lab.vision.images import open_images
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.paper.cells import Paper, PaperCell
from smallcal_lab.vision.paper.commands import calibration_split, commands_of, model_of, parts_of
from smallcal_lab.vision.paper.links import link_table, make_links
from smallcal_lab.vision.paper.state import (
    entries_in,
    is_extracted,
    is_trained,
    missing_images,
    wanted_images,
)
from smallcal_lab.vision.paper.work import Places, Work, work_of
from smallcal_lab.vision.training.loop import Epoch
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
    """Images or weights that are not there.

    Attributes
    ----------
    lines : tuple of str
        All of them.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


def missing_for(works: Sequence[Work], places: Places) -> list[str]:
    """Return everything that is missing to make cells: images, weights, models; a line each."""
    there = entries_in(places)
    todo = [work for work in works if not is_extracted(work, places, there)]
    found = [
        _lacks(places, named, parts)
        for named, parts in wanted_images(work.cell for work in todo).items()
    ]
    if not any(found):
        links = dict.fromkeys(shift for work in todo for shift in work.cell.shifts if shift.classes)
        found += [_complaint(link_table, shift, places) for shift in links]
    models: dict[tuple[str, str, bool], Work] = {}
    for work in todo:
        if work.recipe is None or not is_trained(work, places):
            said = work.recipe.model if work.recipe else None
            options = repr((said.options, said.weights) if said else {})
            models.setdefault((work.cell.model, options, work.begins_pretrained), work)
    found += [_complaint(_open, work) for work in models.values()]
    return list(dict.fromkeys(filter(None, found)))


def _lacks(places: Places, named: str, parts: Sequence[str]) -> str:
    """Return what is wrong with a set of images; of many parts the first one is opened."""
    source = places.images(named)
    one = f"{source}:{parts[0]}" if parts else source
    return missing_images(source, parts) or _complaint(open_images, one)


def _complaint(work: Callable[..., object], *given: object) -> str:
    """Return what is said of something that cannot be done; nothing if it can."""
    try:
        work(*given)
    except SmallcalError as error:
        return shown.one_line(error)
    return ""


def _open(work: Work) -> None:
    options = work.recipe.model.options if work.recipe else {}
    own = work.recipe.model.weights or None if work.recipe else None
    open_model(work.cell.model, checkpoint=own, options=options, pretrained=work.begins_pretrained)


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
        raise Missing(lines)
    for number, work in enumerate(works, 1):
        told(f"{work.cell.name} ({number:,} of {len(works):,})")
        make_cell(work, places, settings=settings or RunSettings(), told=told)
    return load_collection(places.logits)


def make_cell(
    work: Work, places: Places, *, settings: RunSettings, told: Callable[[str], object]
) -> None:
    """Do the steps of one cell that are not done."""
    commands = [shown.command(words) for words in commands_of(work, places)]
    if work.recipe is not None:
        told(f"  {commands[0]}")
        _train(work, places, settings, told)
    told(f"  {commands[-1]}")
    if is_extracted(work, places, entries_in(places)):
        told("  its logits exist already")
    else:
        _extract(work, places, settings, told)
    _add_keys(work.cell, places)


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
    RunFolder(places.run(work.cell)).require(recipe)
    if is_trained(work, places):
        told("  it is trained already")
        return

    def on_epoch(row: Epoch, epochs: int) -> None:
        told(f"  {row.line(epochs)}")

    train(recipe, places.run(work.cell), on_epoch=on_epoch)


def _extract(
    work: Work, places: Places, settings: RunSettings, told: Callable[[str], object]
) -> None:
    cell = work.cell
    for shift in cell.shifts:
        if shift.classes:
            make_links(shift, places)
    done = extract(
        model_of(work, places),
        _images(cell, places),
        places.logits,
        cell=CellName(cell.dataset, cell.backbone, cell.seed),
        settings=ExtractionSettings(
            batch_size=settings.batch_size, workers=settings.workers, device=settings.device
        ),
        told=lambda line: told(f"  {line}"),
    )
    for note in done.notes:
        told(f"  {note}")


def _images(cell: PaperCell, places: Places) -> CellImages:
    calibration = cell.train if cell.splits_training else cell.calibration
    return CellImages(
        places.images(cell.test),
        split="" if cell.splits_training else cell.split,
        calibration=places.images(calibration) if calibration else "",
        calibration_split=calibration_split(cell, places),
        split_seed=cell.split_seed,
        shifts=tuple(one for shift in cell.shifts for one in parts_of(shift, places)),
        corruptions=_corruptions(cell),
        whole_shifts=cell.whole_shifts,
    )


def _corruptions(cell: PaperCell) -> Corruptions | None:
    if not cell.corrupt:
        return None
    kinds = tuple(dict.fromkeys(kind for kind, _ in cell.corrupt))
    severities = tuple(dict.fromkeys(severity for _, severity in cell.corrupt))
    return Corruptions(kinds, severities, seed=cell.seed, images=cell.corrupt_images)


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
