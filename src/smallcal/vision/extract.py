"""Logits of a model on the images of a cell: made batch by batch, kept part by part."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smallcal._version import __version__
from smallcal.errors import FileError, InputError, needing
from smallcal.io import make_folder, require_apart
from smallcal.io.lock import alone_in
from smallcal.io.progress import progress
from smallcal.studies.collection import FILE_NAME, Collection, require_in_range
from smallcal.studies.description import plain_name
from smallcal.vision import extract_store as store
from smallcal.vision.extract_cell import entries_of, registered, require_free
from smallcal.vision.extract_classes import columns_in
from smallcal.vision.extract_images import CellImages, LogitSet, Opened, dataset_of, open_sets
from smallcal.vision.extract_settings import CellName, ExtractionSettings
from smallcal.vision.extract_store import SetStore
from smallcal.vision.images import HUB, image_place
from smallcal.vision.models.model import VisionModel

if TYPE_CHECKING:
    from smallcal.vision.extract_run import Engine

#: Told a line about each set that is finished.
Told = Callable[[str], object]


@dataclass(frozen=True)
class Extracted:
    """What became of an extraction.

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
        What the others took.
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
    told: Told = lambda line: None,
) -> Extracted:
    """Write a model's logits on calibration, test and shifted images as a cell of a collection.

    What was done before is kept: after any stop the same call goes on, and ends with the same
    files. Further models and seeds are added to the same folder.

    Parameters
    ----------
    model : str or VisionModel
        As :func:`open_model` takes it.
    images : CellImages
    output : path
        A new folder, or one with a collection.
    cell : CellName, optional
        What the cell is called.
    settings : ExtractionSettings, optional
    told : callable, optional
        Told a line about each set that is finished.

    Returns
    -------
    Extracted

    Raises
    ------
    InputError
        If an image, the model or what it says cannot be used, or the folder holds something else.
    FileError
        If files cannot be read or written. What was finished before stays in either case.

    Examples
    --------
    See :doc:`vision`: the page has one that runs.
    """
    with needing("torch", "vision", "running models of images"):
        from smallcal.vision.extract_run import Engine
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
    folder = root / _folder(named)
    stores = [
        SetStore(
            folder=folder,
            images=one,
            asked=_asked(engine, one, own, settings),
            how=_how(engine, settings),
            batch_size=settings.batch_size,
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
    cells = [_named_cell(entry) for entry in entries_of(job.manifest, folder.name)]
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
    from smallcal.vision.models import open_model

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


def _folder(named: Mapping[str, Any]) -> str:
    return _named_cell(named)


def _named_cell(entry: Mapping[str, Any]) -> str:
    return f"{entry['dataset']}__{entry['backbone']}__s{entry['seed']}"


def _planned(named: Mapping[str, Any]) -> dict[str, Any]:
    files = {part: f"{_folder(named)}/{part}.npz" for part in ("calibration", "test")}
    return {**named, **files, "shift": []}


def _asked(
    engine: Engine,
    one: LogitSet,
    columns: tuple[int, ...] | None,
    settings: ExtractionSettings,
) -> dict[str, Any]:
    """Return what the numbers of a set depend on."""
    return {
        "images": one.images.checksum(),
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
            python="name this cell otherwise (dataset, backbone, seed)",
            shell="name this cell with --dataset, --backbone or --seed",
        )
    return found


def _save_split(opened: Opened, folder: Path) -> None:
    if opened.split is not None:
        opened.split.save(folder / store.SPLIT)


@dataclass(eq=False)
class Job:
    """The extraction of one cell: what is missing is run, and kept as it comes.

    Attributes
    ----------
    engine : Engine
    settings : ExtractionSettings
    stores : list of SetStore
    told : callable
    manifest : dict
        Of the cell; each set that is finished is written into it.
    before : int
        Images that were done before.
    seconds : float
    """

    engine: Engine
    settings: ExtractionSettings
    stores: list[SetStore]
    told: Told
    manifest: dict[str, Any]
    before: int = 0
    seconds: float = 0.0
    _missing: dict[int, list[store.Part]] = field(default_factory=dict)
    _buffer: list[dict[str, Any]] = field(default_factory=list)
    _since: float = 0.0

    @property
    def notes(self) -> list[str]:
        """What the user should know."""
        model = self.engine.model
        found = [note for one in self.stores for note in one.notes]
        if model.untrained:
            found.append(f"{model.source} has random weights: nothing was learnt yet")
        widths = [self.manifest["sets"][one.images.name]["features"] for one in self.stores]
        if self.settings.features and not any(widths):
            found.append(f"{model.source} has no last layer that is known: no features were kept")
        return found

    def run(self, *, certain: bool) -> None:
        """Do what is missing."""
        from smallcal.vision.extract_run import Batches, run, workers_for

        for number, one in enumerate(self.stores):
            if one.is_finished(self.manifest["sets"].get(one.images.name)):
                continue
            self._missing[number] = one.begin(certain=certain)
            if not self._missing[number]:  # it was stopped before the parts were joined
                self._finish(number)
        batches = list(self._batches())
        todo = sum(batch.stop - batch.start for batch in batches)
        self.before = sum(len(one.images) for one in self.stores) - todo
        if not batches:
            return
        sets = [one.images for one in self.stores]
        self._since = began = time.perf_counter()
        with progress("Logits", todo, unit="images") as advance:

            def keep(batch: Any, logits: Any, features: Any) -> None:
                self._keep(batch, logits, features)
                advance(batch.stop - batch.start)

            loading = Batches(sets, batches, self.engine.model.preprocess)
            workers = workers_for(self.settings.workers, todo)
            run(self.engine, loading, keep, workers=workers)
        self.seconds = time.perf_counter() - began

    def _batches(self) -> Any:
        """Yield what is to be run: batches of missing parts, in order."""
        from smallcal.vision.extract_run import Batch

        size = self.settings.batch_size
        for number, parts in self._missing.items():
            for part in parts:
                for start in range(part.start, part.stop, size):
                    yield Batch(number, start, min(part.stop, start + size))

    def _keep(self, batch: Any, logits: Any, features: Any) -> None:
        """Keep the outputs of one batch; with the last of a part, write it."""
        one = self.stores[batch.set]
        kept = {"logits": self._logits(one, batch, logits)}
        if self.settings.features and features is not None:
            kept["features"] = _numbers(features)
            if kept["features"].shape[:1] != (batch.stop - batch.start,) or features.ndim != 2:
                shape = " x ".join(map(str, features.shape))
                raise InputError(f"{self.engine.model.source}: features of shape {shape}")
        self._buffer.append(kept)
        part = self._missing[batch.set][0]
        if batch.stop < part.stop:
            return
        names = self._buffer[0]
        one.write(part, {name: np.concatenate([b[name] for b in self._buffer]) for name in names})
        self._buffer.clear()
        self._missing[batch.set].pop(0)
        if not self._missing[batch.set]:
            self._finish(batch.set)

    def _logits(self, one: SetStore, batch: Any, logits: Any) -> Any:
        """Return a batch's logits, if they are numbers, of the columns that are classes."""
        model, rows = self.engine.model, batch.stop - batch.start
        found = _numbers(logits)
        if found.shape != (rows, model.classes):
            shape = " x ".join(map(str, found.shape))
            raise InputError(
                f"{model.source} gives {shape} numbers for {rows} images of {model.classes} classes"
            )
        columns = one.asked["model_columns"]
        found = found if columns is None else found[:, columns]
        fine = np.isfinite(found).all(axis=1)
        if not fine.all():
            row = batch.start + int(np.flatnonzero(~fine)[0])
            name = one.images.images.ids[row]
            short = self.engine.precision != "float32"
            more = "; try --precision float32" if short else ""
            raise InputError.with_options(
                f"{one.images.name}: row {row} ({name}): its logits are NaN or infinite{more}"
            )
        return found

    def _finish(self, number: int) -> None:
        """Join the parts of a set, and write it down."""
        one = self.stores[number]
        entry = {"name": one.images.images.name, **one.finish()}
        self.manifest["sets"][one.images.name] = entry
        store.write_cell(one.folder, self.manifest)
        one.clear()
        now = time.perf_counter()
        if self._since:
            rate = len(one.images) / max(now - self._since, 1e-9)
            self.told(f"{one.images.name}: {len(one.images):,} images ({rate:,.0f} images/s)")
        self._since = now


def _numbers(output: Any) -> Any:
    """Return a tensor or an array as float32 in memory."""
    if hasattr(output, "detach"):
        output = output.detach().float().cpu().numpy()
    return np.asarray(output, dtype=np.float32)
