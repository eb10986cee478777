"""The work of an extraction: what is missing is run, checked, and kept part by part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smallcal.errors import InputError
from smallcal.io.progress import progress
from smallcal_lab.vision.extraction.run import Batch, Batches, Engine, Writer, run, workers_for
from smallcal_lab.vision.extraction.settings import ExtractionSettings
from smallcal_lab.vision.extraction.store import Part, SetStore, sweep_cell, write_cell

#: Called with a line about each finished set.
Told = Callable[[str], object]


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
    _missing: dict[int, list[Part]] = field(default_factory=dict)
    _part_of: dict[Batch, Part] = field(default_factory=dict)
    _buffer: list[tuple[Any, ...]] = field(default_factory=list)
    _since: float = 0.0

    @property
    def notes(self) -> list[str]:
        """What the user should know."""
        model = self.engine.model
        found = [note for one in self.stores for note in one.notes]
        if model.untrained:
            found.append(f"{model.source} has random weights: it is not trained yet")
        widths = [self.manifest["sets"][one.images.name]["features"] for one in self.stores]
        if self.settings.features and not any(widths):
            found.append(
                f"{model.source} has no last layer that smallcal knows: no features were saved"
            )
        return found

    def run(self, *, certain: bool) -> None:
        """Do what is missing; ``certain`` says that nobody else is at work on the cell."""
        if certain:
            sweep_cell(self.stores[0].folder, [one.file for one in self.stores])
        known = self.manifest["sets"]
        finished = [one.is_finished(known.get(one.images.name)) for one in self.stores]
        for number, one in enumerate(self.stores):
            if finished[number]:
                one.clear()  # of what a kill left
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
        loading = Batches(sets, batches, self.engine.model.preprocess)
        workers = workers_for(self.settings.workers, todo)
        self._since = began = time.perf_counter()
        with progress("Logits", todo, unit="images") as advance, Writer() as writer:

            def keep(batch: Batch, *outputs: Any) -> None:
                # They stay where they are, on a GPU perhaps, until the part is done: to fetch
                # every batch would make the loop wait for it.
                self._buffer.append((batch, *outputs))
                advance(batch.stop - batch.start)
                if batch.stop == self._part_of[batch].stop:
                    writer.submit(self._write, self._part_of[batch], self._buffer)
                    self._buffer = []

            run(self.engine, loading, keep, workers=workers)
        self.seconds = time.perf_counter() - began

    def _batches(self) -> Iterator[Batch]:
        """Yield what is to be run: batches of missing parts, in order."""
        size = self.settings.batch_size
        for number, parts in self._missing.items():
            for part in parts:
                for start in range(part.start, part.stop, size):
                    batch = Batch(number, start, min(part.stop, start + size))
                    self._part_of[batch] = part
                    yield batch

    def _write(self, part: Part, outputs: list[tuple[Batch, Any, Any]]) -> None:
        """Check and write a part; with the last of a set, finish that."""
        number = outputs[0][0].set
        one = self.stores[number]
        arrays = {"logits": [self._logits(one, batch, logits) for batch, logits, _ in outputs]}
        if self.settings.features and outputs[0][2] is not None:
            arrays["features"] = [self._features(batch, found) for batch, _, found in outputs]
        one.write(part, {name: np.concatenate(blocks) for name, blocks in arrays.items()})
        self._missing[number].remove(part)
        if not self._missing[number]:
            self._finish(number)

    def _features(self, batch: Batch, features: Any) -> Any:
        found = _numbers(features)
        if found.ndim != 2 or len(found) != batch.stop - batch.start:
            shape = " x ".join(map(str, found.shape))
            raise InputError(f"{self.engine.model.source}: features of shape {shape}")
        return found

    def _logits(self, one: SetStore, batch: Batch, logits: Any) -> Any:
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
        write_cell(one.folder, self.manifest)
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
