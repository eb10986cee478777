"""Logits of a model on the images of a cell: made batch by batch, kept part by part."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smallcal._version import __version__
from smallcal.errors import InputError, needing
from smallcal.io import make_folder, require_apart
from smallcal.io.lock import alone_in
from smallcal_lab.studies.collection import FILE_NAME, Collection, plain_name, require_in_range
from smallcal_lab.vision.extraction import store
from smallcal_lab.vision.extraction.cell_images import (
    CellImages,
    LogitSet,
    Opened,
    dataset_of,
    open_sets,
)
from smallcal_lab.vision.extraction.classes import columns_in
from smallcal_lab.vision.extraction.entries import entries_of, registered, require_free
from smallcal_lab.vision.extraction.job import Job
from smallcal_lab.vision.extraction.run import Engine
from smallcal_lab.vision.extraction.settings import CellName, ExtractionSettings
from smallcal_lab.vision.extraction.store import SetStore
from smallcal_lab.vision.images import HUB, image_place
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.models.opening import open_model


@dataclass(frozen=True)
class Extracted:
    """The result of an extraction.

    Attributes
    ----------
    folder : Path
        Of the collection.
    cells : tuple of str
        Names of the cells that were written: one, and one for each shifted set that has only some
        of the classes.
    collection : Collection
        As it is now.
    sets : mapping of str to int
        The sets, and how many images each has.
    images : int
        How many there are in all.
    images_before : int
        Of those, how many an earlier run had done.
    seconds : float
        Time for the other images.
    notes : tuple of str
    """

    folder: Path
    cells: tuple[str, ...]
    collection: Collection
    sets: Mapping[str, int]
    images: int
    images_before: int
    seconds: float
    notes: tuple[str, ...] = ()


def extract(
    model: str | VisionModel,
    images: CellImages,
    output: str | os.PathLike[str],
    *,
    cell: CellName | None = None,
    settings: ExtractionSettings | None = None,
    told: Callable[[str], object] = lambda line: None,
) -> Extracted:
    """Write a model's logits on calibration, test and shifted images as a cell of a collection.

    Finished work is kept: if it is stopped, the same call resumes, and ends with the same
    files. Further models and seeds are added to the same folder.

    Parameters
    ----------
    model : str or VisionModel
        As :func:`open_model` takes it.
    images : CellImages
    output : path
        A new folder, or one with a collection.
    cell : CellName, optional
        The name of the cell.
    settings : ExtractionSettings, optional
    told : callable, optional
        Called with a line about each finished set.

    Returns
    -------
    Extracted

    Raises
    ------
    InputError
        If an image, the model or its output cannot be used, or the folder holds other files.
    FileError
        If files cannot be read or written. Finished work is kept in either case.

    Examples
    --------
    >>> import tempfile, torch
    >>> from PIL import Image
    >>> from smallcal_lab.vision import CellImages, InputSpec, VisionModel, extract
    >>> from smallcal_lab.vision.models.preprocess import Preprocess
    >>> root = Path(tempfile.mkdtemp())
    >>> for number in range(8):
    ...     folder = root / "pets" / ("cat", "dog")[number % 2]
    ...     folder.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (8, 8), (30 * number, 90, 0)).save(folder / f"{number}.png")
    >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    >>> seen = InputSpec((8, 8))
    >>> model = VisionModel(  # or a string, "timm:vit_tiny_patch16_224"
    ...     "torch:mine", "linear", 2, Preprocess(seen), lambda x: (net(x), x.flatten(1)), "0", seen
    ... )
    >>> done = extract(model, CellImages(f"folder:{root / 'pets'}", split="halves"), root / "out")
    >>> done.cells, dict(done.sets)
    (('pets__linear__s0',), {'calibration': 4, 'test': 4})
    >>> done.collection.cells[0].read("test").features.shape
    (4, 192)
    """
    with needing("torch", "vision", "running image models", of="smallcal-lab"):
        import torch  # noqa: F401
    root = Path(output)
    store.require_own(root, FILE_NAME)
    _require_apart(root, images)
    opened = open_sets(images)
    found = _model(model)
    settings = settings or ExtractionSettings()
    columns = [columns_in(found, one.images) for one in opened.sets]
    named = _named(cell or CellName(), found, images)
    require_free(root, _planned(named))
    engine = Engine.of(found, settings)
    folder = root / _cell_name(named)
    # Corrupted sets share their images: each is summed up once.
    distinct = {id(one.images): one.images for one in opened.sets}
    sums = {key: some.checksum() for key, some in distinct.items()}
    stores = [
        SetStore(
            folder=folder,
            images=one,
            asked={"images": sums[id(one.images)], **_asked(engine, one, own, settings)},
            how=_how(engine, settings),
            columns=found.classes if own is None else len(own),
        )
        for one, own in zip(opened.sets, columns, strict=True)
    ]
    make_folder(folder)
    what, instead = f"the cell {folder}", "another folder with --output"
    with alone_in(folder, what=what, instead=instead) as certain:
        job = Job(engine, settings, stores, told, _manifest(folder, named, found))
        _save_split(opened, folder)
        job.run(certain=certain)
        collection = registered(root, entries_of(job.manifest, folder.name))
    cells = [_cell_name(entry) for entry in entries_of(job.manifest, folder.name)]
    return Extracted(
        folder=root,
        cells=tuple(cells),
        collection=collection,
        sets={one.name: len(one) for one in opened.sets},
        images=sum(map(len, opened.sets)),
        images_before=job.before,
        seconds=job.seconds,
        notes=tuple(dict.fromkeys(job.notes)),
    )


def _model(model: str | VisionModel) -> VisionModel:
    if isinstance(model, VisionModel):
        return model
    return open_model(model)


def _require_apart(root: Path, images: CellImages) -> None:
    """Raise where logits would be written among the images."""
    for source in (images.test, images.calibration, *images.shifts):
        if isinstance(source, str) and source and not source.startswith(f"{HUB}:"):
            require_apart(root, image_place(source)[0])


def _named(cell: CellName, model: VisionModel, images: CellImages) -> dict[str, Any]:
    seed = cell.seed if cell.seed is not None else model.seed or 0
    return {
        "dataset": plain_name(cell.dataset or dataset_of(images.test)),
        "backbone": plain_name(cell.backbone or model.name),
        "seed": require_in_range(int(seed), "seed", where="the cell"),
    }


def _cell_name(entry: Mapping[str, Any]) -> str:
    return f"{entry['dataset']}__{entry['backbone']}__s{entry['seed']}"


def _planned(named: Mapping[str, Any]) -> dict[str, Any]:
    files = {part: f"{_cell_name(named)}/{part}.npz" for part in ("calibration", "test")}
    return {**named, **files, "shift": []}


def _asked(
    engine: Engine,
    one: LogitSet,
    columns: tuple[int, ...] | None,
    settings: ExtractionSettings,
) -> dict[str, Any]:
    """Return what the numbers of a set depend on."""
    return {
        "weights": engine.model.fingerprint,
        "input": asdict(engine.model.input),
        "model_columns": None if columns is None else list(columns),
        "corruption": None if one.corruption is None else list(one.corruption),
        "precision": engine.precision,
        "with_features": settings.features,
    }


def _how(engine: Engine, settings: ExtractionSettings) -> dict[str, Any]:
    """Return what the last bits of numbers may depend on."""
    import PIL
    import torch

    versions = {"smallcal": __version__, "torch": torch.__version__}
    versions |= {"numpy": np.__version__, "pillow": PIL.__version__}
    return {
        "batch_size": settings.batch_size,
        "device": torch.device(engine.device).type,
        "versions": versions,
    }


def _manifest(folder: Path, named: Mapping[str, Any], model: VisionModel) -> dict[str, Any]:
    """Return the manifest of a cell, begun if need be; that of another model is an error."""
    found = store.read_cell(folder)
    if found is None:
        found = {
            "format": store.FORMAT,
            "version": store.VERSION,
            **named,
            "model": model.source,
            "weights": model.fingerprint,
            "sets": {},
        }
        store.write_cell(folder, found)
    if found["weights"] != model.fingerprint:
        raise InputError(
            f"{folder} holds logits of another model ({found['model']}, with other weights); ",
            python="change the cell's name (dataset, backbone or seed)",
            shell="change the cell's name with --dataset, --backbone or --seed",
        )
    return found


def _save_split(opened: Opened, folder: Path) -> None:
    if opened.split is not None:
        opened.split.save(folder / store.SPLIT)
