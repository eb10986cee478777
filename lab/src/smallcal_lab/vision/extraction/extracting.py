"""Logits of a model on the images of a cell: made batch by batch, kept part by part.

Which images make a batch depends on the set and the batch size alone, never on where a run was
stopped: a batch gives the same bytes whenever it is done.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from smallcal._version import __version__
from smallcal.data.checks import whole_number
from smallcal.deploy.adapters.torch_batches import evaluating
from smallcal.errors import InputError, choose, needing
from smallcal.io import make_folder, require_apart, write_arrays
from smallcal.io.atomic import leftovers
from smallcal.io.lock import alone_in, one_at_a_time
from smallcal.io.progress import progress
from smallcal_lab.studies.collection import FILE_NAME, Collection, plain_name
from smallcal_lab.vision.extraction import store
from smallcal_lab.vision.extraction.cell_images import CellImages, LogitSet, columns_in, open_sets
from smallcal_lab.vision.extraction.store import SetStore
from smallcal_lab.vision.images import HUB, image_place
from smallcal_lab.vision.loading import loader_of, loading
from smallcal_lab.vision.models.model import VisionModel
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.running import model_errors, stack

with needing("torch", "vision", "running image models", of="smallcal-lab"):
    import torch

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class ExtractionSettings:
    """How a model is run over images."""

    batch_size: int = 64
    #: Processes that load images; 0 for none. By default as many as there are processors, up to
    #: eight, and none for a few images.
    workers: int | None = None
    #: A GPU where there is one, by default; ``cuda:1`` is the second.
    device: str = "auto"
    #: What torch's autocast computes in: by default mixed on GPUs, float32 on CPUs.
    precision: str = "auto"
    features: bool = True  #: Whether the inputs of the last layer are kept, too.

    def __post_init__(self) -> None:
        whole_number(self.batch_size, "batch_size", least=1)
        whole_number(self.workers or 0, "workers")
        if self.precision not in PRECISIONS:
            offer = choose(self.precision, PRECISIONS)
            raise InputError(f"unknown precision {self.precision!r}; {offer}")


@dataclass(frozen=True)
class CellName:
    """The name of a cell; parts left out come from the names of the images and the model."""

    dataset: str = ""
    backbone: str = ""
    seed: int | None = None  #: By default the seed that a checkpoint was trained with, else 0.


@dataclass(frozen=True)
class Extracted:
    """The result of an extraction."""

    folder: Path  #: Of the collection.
    #: Names of the cells that were written: one, and one for each shifted set that has only some
    #: of the classes.
    cells: tuple[str, ...]
    collection: Collection  #: As it is now.
    sets: Mapping[str, int]  #: How many images each set has.
    images: int  #: How many there are in all.
    images_before: int  #: Of those, how many an earlier run had done.
    seconds: float  #: Time for the other images.
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

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for number in range(8):
    ...     folder = root / "pets" / ("cat", "dog")[number % 2]
    ...     folder.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (8, 8), (30 * number, 90, 0)).save(folder / f"{number}.png")
    >>> model = open_model("timm:resnet10t?input.size=32", classes=2, pretrained=False)
    >>> done = extract(model, CellImages(f"folder:{root / 'pets'}", split="halves"), root / "out")
    >>> done.cells, dict(done.sets)
    (('pets__resnet10t__s0',), {'calibration': 4, 'test': 4})
    """
    root, settings, cell = Path(output), settings or ExtractionSettings(), cell or CellName()
    store.require_own(root)
    for source in (images.test, images.calibration, *images.shifts):
        if isinstance(source, str) and source and not source.startswith(f"{HUB}:"):
            require_apart(root, image_place(source)[0])
    sets, split = open_sets(images)
    found = model if isinstance(model, VisionModel) else open_model(model)
    seed = cell.seed if cell.seed is not None else found.seed or 0
    named = {
        "dataset": plain_name(cell.dataset or images.dataset),
        "backbone": plain_name(cell.backbone or found.name),
        "seed": whole_number(seed, "the cell's seed", most=2**32 - 1),
    }
    store.require_free(root, named)
    precision = _placed(found, settings)
    folder = root / store.name_of(named)
    versions = {"smallcal": __version__, "torch": torch.__version__}
    versions |= {"numpy": np.__version__, "pillow": PIL.__version__}
    kind = torch.device(found.device).type
    how = {"batch_size": settings.batch_size, "device": kind, "versions": versions}
    # Corrupted sets share their images: each is summed up once.
    sums = {key: some.checksum() for key, some in {id(s.images): s.images for s in sets}.items()}
    stores = []
    for one in sets:
        columns = columns_in(found, one.images)
        asked = {
            "images": sums[id(one.images)],
            "weights": found.fingerprint,
            "input": asdict(found.input),
            "model_columns": None if columns is None else list(columns),
            "corruption": None if one.corruption is None else list(one.corruption),
            "precision": precision,
            "with_features": settings.features,
        }
        stores.append(SetStore(folder, one, asked, how, len(columns or range(found.classes))))
    make_folder(root)
    with one_at_a_time(root / FILE_NAME):  # what it leaves says whose folder this is
        make_folder(folder)
    what, instead = f"the cell {folder}", "another folder with --output"
    with alone_in(folder, what=what, instead=instead) as certain:
        manifest = store.begin_cell(folder, named, found)
        if split is not None:
            split.save(folder / store.SPLIT)
        if certain:  # what a killed process had not finished writing
            own = (folder / store.MANIFEST, folder / store.SPLIT)
            for path in leftovers([*own, *(one.file for one in stores)]):
                path.unlink(missing_ok=True)
        todo = [one for one in stores if not one.is_finished(manifest["sets"].get(one.images.name))]
        fresh, began = 0, time.perf_counter()
        for kept in todo:
            since, missing = time.perf_counter(), kept.missing()
            if missing:  # or it was stopped before the parts were joined
                _run(found, settings, kept, missing)
            manifest["sets"][kept.images.name] = kept.finish()
            store.write_cell(folder, manifest)
            shutil.rmtree(kept.work, ignore_errors=True)
            fresh += sum(map(len, missing))
            rate = len(kept.images) / (time.perf_counter() - since)
            told(f"{kept.images.name}: {len(kept.images):,} images ({rate:,.0f} images/s)")
        seconds = time.perf_counter() - began if fresh else 0.0
        for kept in stores:
            shutil.rmtree(kept.work, ignore_errors=True)  # of finished sets, what a kill left
        with suppress(OSError):  # parts of other sets may be there
            (folder / store.PARTS).rmdir()
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
        images_before=sum(map(len, sets)) - fresh,
        seconds=seconds,
        notes=tuple(dict.fromkeys(notes)),
    )


def _placed(model: VisionModel, settings: ExtractionSettings) -> str:
    """Move a model to where it shall run, and return its precision."""
    precision, device = settings.precision, settings.device
    if model.module is None and precision not in ("auto", "float32"):
        raise InputError.with_options(
            f"--precision {precision} cannot be set: {model.source} has its own"
        )
    if device == "auto":
        mps = "mps" if torch.backends.mps.is_available() else "cpu"
        device = "cuda" if torch.cuda.is_available() else mps
    kind = torch.device(model.to(device).device).type
    if precision != "auto":
        return precision
    if kind == "cpu" or model.module is None:
        return "float32"
    # Older GPUs have bfloat16 by emulation, which is slow.
    short = kind == "cuda" and torch.cuda.get_device_capability()[0] >= 8
    return "bfloat16" if short else "float16"


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of a set by rows, as torch's DataLoader takes them."""

    images: LogitSet
    preprocess: Callable[[Any], Any]

    def __getitem__(self, rows: range) -> Any:
        """Return a batch as a tensor."""
        return stack(self.images, rows, self.preprocess)


def _run(
    model: VisionModel, settings: ExtractionSettings, one: SetStore, missing: Sequence[range]
) -> None:
    """Run what is missing of a set, and keep it part by part."""
    size, todo, precision = settings.batch_size, sum(map(len, missing)), one.asked["precision"]
    batches = [
        [range(start, min(part.stop, start + size)) for start in part[::size]] for part in missing
    ]
    loader = loader_of(
        Batches(one.images, model.preprocess),
        list(chain(*batches)),
        workers=_workers(todo) if settings.workers is None else settings.workers,
        pin=model.device.startswith("cuda"),
    )
    dtype = torch.float16 if precision == "float16" else torch.bfloat16
    with (
        progress(f"Logits: {one.images.name}", todo, unit="images") as advance,
        loading(loader) as stream,
        nullcontext() if model.module is None else evaluating(model.module),
        torch.inference_mode(),
        torch.autocast(torch.device(model.device).type, dtype, enabled=precision != "float32"),
    ):
        for part, inside in zip(missing, batches, strict=True):
            outputs = []
            for rows in inside:
                pixels = next(stream)
                what = f"rows {rows.start} to {rows.stop - 1} of {one.images.name}"
                with model_errors(what, "--batch-size"):
                    # They stay on a GPU until the part is done: to fetch every batch would make
                    # the loop wait for it.
                    outputs.append(model.outputs(pixels.to(model.device, non_blocking=True)))
                advance(len(rows))
            write_arrays(one.part(part), _arrays(model, one, part, outputs))


def _workers(images: int) -> int:
    """Return how many processes load images: to start them takes longer than to read a few."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(8, there or 1) if images >= 512 else 0


def _arrays(
    model: VisionModel, one: SetStore, part: range, outputs: Sequence[tuple[Any, Any]]
) -> dict[str, Any]:
    """Return the logits and features of a part, if all logits are numbers."""
    asked = one.asked
    logits = _joined(model, [found for found, _ in outputs], len(part), model.classes)
    if asked["model_columns"] is not None:
        logits = logits[:, asked["model_columns"]]
    for bad in np.flatnonzero(~np.isfinite(logits).all(axis=1))[:1]:
        row = part[bad]
        more = "" if asked["precision"] == "float32" else "; try --precision float32"
        raise InputError.with_options(
            f"{one.images.name}: row {row} ({one.images.ids[row]}): its logits are NaN or "
            f"infinite{more}"
        )
    if not asked["with_features"] or outputs[0][1] is None:
        return {"logits": logits}
    return {"logits": logits, "features": _joined(model, [two for _, two in outputs], len(part))}


def _joined(model: VisionModel, outputs: Sequence[Any], rows: int, width: int | None = None) -> Any:
    """Return what a model gave for some batches as one float32 array, if it is of that shape."""
    with model_errors(f"{rows} images", "--batch-size"):
        tensors = hasattr(outputs[0], "detach")
        parts = [one.detach().float().cpu() if tensors else one for one in outputs]
        found = np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])
    if found.ndim != 2 or len(found) != rows or width not in (None, found.shape[1]):
        shape = " x ".join(map(str, found.shape))
        wanted = "features" if width is None else f"{width} classes"
        raise InputError(f"{model.source} gives {shape} numbers for {rows} images of {wanted}")
    return found
