"""Logits of a model on the images of a cell: made batch by batch, kept part by part."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smallcal._version import __version__
from smallcal.errors import InputError, needing
from smallcal.io import make_folder, require_apart
from smallcal.io.lock import alone_in
from smallcal.io.progress import progress
from smallcal_lab.studies.collection import Collection, plain_name, require_in_range
from smallcal_lab.vision.extraction import store
from smallcal_lab.vision.extraction.cell_images import (
    CellImages,
    columns_in,
    dataset_of,
    open_sets,
)
from smallcal_lab.vision.extraction.run import (
    Batch,
    Batches,
    Engine,
    ExtractionSettings,
    explained,
    workers_for,
)
from smallcal_lab.vision.extraction.store import SetStore
from smallcal_lab.vision.images import HUB, image_place
from smallcal_lab.vision.loading import loader_of, loading
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.models.opening import open_model


@dataclass(frozen=True)
class CellName:
    """The name of a cell; parts left out come from the names of the images and the model.

    Attributes
    ----------
    dataset, backbone : str
    seed : int, optional
        By default the seed that a checkpoint was trained with, else 0.
    """

    dataset: str = ""
    backbone: str = ""
    seed: int | None = None


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
    >>> from smallcal_lab.vision.models.model import Preprocess
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
    root, settings, cell = Path(output), settings or ExtractionSettings(), cell or CellName()
    store.require_own(root)
    for source in (images.test, images.calibration, *images.shifts):
        if isinstance(source, str) and source and not source.startswith(f"{HUB}:"):
            require_apart(root, image_place(source)[0])
    sets, split = open_sets(images)
    found = model if isinstance(model, VisionModel) else open_model(model)
    columns = [columns_in(found, one.images) for one in sets]
    seed = cell.seed if cell.seed is not None else found.seed or 0
    named = {
        "dataset": plain_name(cell.dataset or dataset_of(images.test)),
        "backbone": plain_name(cell.backbone or found.name),
        "seed": require_in_range(int(seed), "seed", where="the cell"),
    }
    store.require_free(root, named)
    engine = Engine.of(found, settings)
    folder = root / store.name_of(named)
    # Corrupted sets share their images: each is summed up once.
    sums = {id(one.images): one.images for one in sets}
    checksums = {key: some.checksum() for key, some in sums.items()}
    stores = [
        SetStore(
            folder=folder,
            images=one,
            asked={
                "images": checksums[id(one.images)],
                "weights": found.fingerprint,
                "input": asdict(found.input),
                "model_columns": None if own is None else list(own),
                "corruption": None if one.corruption is None else list(one.corruption),
                "precision": engine.precision,
                "with_features": settings.features,
            },
            how=_how(engine, settings),
            columns=found.classes if own is None else len(own),
        )
        for one, own in zip(sets, columns, strict=True)
    ]
    make_folder(folder)
    what, instead = f"the cell {folder}", "another folder with --output"
    with alone_in(folder, what=what, instead=instead) as certain:
        weights = found.fingerprint
        manifest = store.begin_cell(folder, named, source=found.source, weights=weights)
        if split is not None:
            split.save(folder / store.SPLIT)
        if certain:
            store.sweep_cell(folder, [one.file for one in stores])
        before, seconds = _work(engine, settings, stores, manifest, told, certain=certain)
        entries = store.entries_of(manifest, folder.name)
        collection = store.registered(root, entries)
    notes = [note for one in stores for note in one.notes]
    if found.untrained:
        notes.append(f"{found.source} has random weights: it is not trained yet")
    if settings.features and not any(manifest["sets"][one.name]["features"] for one in sets):
        notes.append(
            f"{found.source} has no last layer that smallcal knows: no features were saved"
        )
    return Extracted(
        folder=root,
        cells=tuple(map(store.name_of, entries)),
        collection=collection,
        sets={one.name: len(one) for one in sets},
        images=sum(map(len, sets)),
        images_before=before,
        seconds=seconds,
        notes=tuple(dict.fromkeys(notes)),
    )


def _how(engine: Engine, settings: ExtractionSettings) -> dict[str, Any]:
    """Return what the last bits of numbers may depend on."""
    import PIL
    import torch

    versions = {"smallcal": __version__, "torch": torch.__version__}
    versions |= {"numpy": np.__version__, "pillow": PIL.__version__}
    device = torch.device(engine.device).type
    return {"batch_size": settings.batch_size, "device": device, "versions": versions}


def _work(
    engine: Engine,
    settings: ExtractionSettings,
    stores: Sequence[SetStore],
    manifest: dict[str, Any],
    told: Callable[[str], object],
    *,
    certain: bool,
) -> tuple[int, float]:
    """Run what is missing, and keep it part by part; return images done before, and seconds."""

    def finish(one: SetStore) -> None:
        manifest["sets"][one.images.name] = one.finish()
        store.write_cell(one.folder, manifest)
        one.clear()

    missing: list[tuple[int, range]] = []
    for number, one in enumerate(stores):
        if one.is_finished(manifest["sets"].get(one.images.name)):
            one.clear()  # of what a kill left
            continue
        parts = one.begin(certain=certain)
        missing += [(number, part) for part in parts]
        if not parts:  # it was stopped before the parts were joined
            finish(one)
    todo = sum(len(part) for _, part in missing)
    before = sum(len(one.images) for one in stores) - todo
    if not todo:
        return before, 0.0
    size, model = settings.batch_size, engine.model
    batches = [
        Batch(number, start, min(part.stop, start + size))
        for number, part in missing
        for start in part[::size]
    ]
    loader = loader_of(
        Batches([one.images for one in stores], batches, model.preprocess),
        range(len(batches)),
        workers=workers_for(settings.workers, todo),
        pin=engine.device.startswith("cuda"),
    )
    left = Counter(number for number, _ in missing)
    began = since = time.perf_counter()
    with (
        progress("Logits", todo, unit="images") as advance,
        loading(loader) as stream,
        engine.running() as run,
    ):
        upcoming = zip(batches, stream, strict=True)
        for number, part in missing:
            one = stores[number]
            outputs: list[tuple[Batch, Any, Any]] = []
            while not outputs or outputs[-1][0].stop < part.stop:
                batch, pixels = next(upcoming)
                with explained(one.images, batch):
                    # They stay on a GPU until the part is done: to fetch every batch would make
                    # the loop wait for it.
                    outputs.append((batch, *run(pixels)))
                advance(batch.stop - batch.start)
            logits = [_array(model, batch, found, model.classes) for batch, found, _ in outputs]
            arrays = {"logits": _checked(engine, one, part, np.concatenate(logits))}
            if settings.features and outputs[0][2] is not None:
                features = [_array(model, batch, found) for batch, _, found in outputs]
                arrays["features"] = np.concatenate(features)
            one.write(part, arrays)
            left[number] -= 1
            if not left[number]:
                finish(one)
                now = time.perf_counter()
                rate = len(one.images) / max(now - since, 1e-9)
                told(f"{one.images.name}: {len(one.images):,} images ({rate:,.0f} images/s)")
                since = now
    return before, time.perf_counter() - began


def _array(model: VisionModel, batch: Batch, output: Any, width: int | None = None) -> Any:
    """Return what a model gave for a batch as float32 in memory, if it is of that shape."""
    if hasattr(output, "detach"):
        output = output.detach().float().cpu().numpy()
    found = np.asarray(output, dtype=np.float32)
    rows = batch.stop - batch.start
    if found.ndim != 2 or len(found) != rows or width not in (None, found.shape[1]):
        shape = " x ".join(map(str, found.shape))
        wanted = "features" if width is None else f"{width} classes"
        raise InputError(f"{model.source} gives {shape} numbers for {rows} images of {wanted}")
    return found


def _checked(engine: Engine, one: SetStore, part: range, logits: Any) -> Any:
    """Return the columns that are classes, if all are numbers."""
    columns = one.asked["model_columns"]
    found = logits if columns is None else logits[:, columns]
    for bad in np.flatnonzero(~np.isfinite(found).all(axis=1))[:1]:
        row = part[bad]
        more = "" if engine.precision == "float32" else "; try --precision float32"
        raise InputError.with_options(
            f"{one.images.name}: row {row} ({one.images.images.ids[row]}): its logits are NaN or "
            f"infinite{more}"
        )
    return found
