"""The folder of a run: its recipe, its split, its log, and the last checkpoint.

::

    RUN/recipe.toml    as it was used, every key written out
    RUN/split.json     which images were trained on, and which are left to calibrate on
    RUN/last.pt        weights and all that is needed to go on, after each epoch
    RUN/log.csv        a row for each epoch
    RUN/run.png        the same as a picture, where matplotlib is installed

Each file is written whole or not at all; ``last.pt`` says which epochs are done.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, MissingExtraError, file_errors
from smallcal.io.atomic import atomic_path, leftovers
from smallcal.io.lock import FILE_NAME, alone_in
from smallcal.io.resumable import changes
from smallcal.metrics.units import PERCENT
from smallcal_lab.vision.splits import ImageSplit
from smallcal_lab.vision.training.curve import draw_run
from smallcal_lab.vision.training.recipe import Recipe, read_recipe

#: What may change while a run is under way: where it is done, not what. That images are the same
#: is checked by the split.
FREE = (("training", "device"), ("training", "workers"), ("data", "source"))


class Epoch(NamedTuple):
    """A row of the log.

    Attributes
    ----------
    epoch : int
        From 1.
    lr, loss : float
        The mean of the loss over the epoch's batches.
    accuracy : float or None
        On the images that are left to calibrate on; None if there are none.
    seconds, images_per_second : float
    """

    epoch: int
    lr: float
    loss: float
    accuracy: float | None
    seconds: float
    images_per_second: float

    def line(self, epochs: int) -> str:
        """Return what a person is told of it.

        Examples
        --------
        >>> Epoch(3, 1e-4, 1.5, 0.7625, 29.58, 1605.3).line(10)
        'epoch 3 of 10: loss 1.5000, accuracy 76.25 %, rate 0.0001, 29.6 s, 1,605 images/s'
        """
        right = "" if self.accuracy is None else f", accuracy {PERCENT.value(self.accuracy)}"
        return (
            f"epoch {self.epoch:,} of {epochs:,}: loss {self.loss:.4f}{right}, rate {self.lr:.3g}, "
            f"{self.seconds:,.1f} s, {self.images_per_second:,.0f} images/s"
        )


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    folder: Path

    @property
    def recipe(self) -> Path:
        """The recipe as it was used."""
        return self.folder / "recipe.toml"

    @property
    def split(self) -> Path:
        """Which images are for what."""
        return self.folder / "split.json"

    @property
    def last(self) -> Path:
        """The checkpoint."""
        return self.folder / "last.pt"

    @property
    def log(self) -> Path:
        """The table of epochs."""
        return self.folder / "log.csv"

    @property
    def picture(self) -> Path:
        """The curves."""
        return self.folder / "run.png"

    @property
    def files(self) -> tuple[Path, ...]:
        """All that a run writes."""
        return self.recipe, self.split, self.last, self.log, self.picture

    def require(self, recipe: Recipe) -> None:
        """Raise unless the folder is new, empty or of a run of this very recipe.

        Where no epoch is done yet, another recipe takes the place of the one that is there.
        """
        with file_errors(f"cannot read {self.folder}"):
            if not self.folder.exists():
                return
            if not self.folder.is_dir():
                raise FileError(f"{self.folder} is a file; name a folder for the run")
            if not self.recipe.exists():
                left = {self.folder / FILE_NAME, *leftovers(self.files)}
                if set(self.folder.iterdir()) - left:
                    raise InputError(f"{self.folder} holds other files; name a new folder")
                return
            if not self.last.exists():
                return
        differ = changes(_fixed(read_recipe(self.recipe)), _fixed(recipe))
        if differ:
            raise InputError(
                f"{self.folder} holds a run of another recipe ({differ}); name another folder"
            )

    @contextmanager
    def claimed(self, recipe: Recipe, split: ImageSplit | None) -> Iterator[None]:
        """Keep other processes out; write recipe and split before anything else."""
        self.require(recipe)  # before a lock is put into what is no run
        with file_errors(f"cannot make {self.folder}"):
            self.folder.mkdir(parents=True, exist_ok=True)
        with alone_in(self.folder, what="this run", instead="another folder with --output"):
            self.require(recipe)
            for left in leftovers(self.files):
                left.unlink(missing_ok=True)
            if not self.last.exists():
                self.split.unlink(missing_ok=True)
                with atomic_path(self.recipe) as path:
                    path.write_text(recipe.text(), encoding="utf-8")
            if split is not None:
                self._keep(split)
            yield

    def _keep(self, split: ImageSplit) -> None:
        """Write the split down; where it is, it must be the same."""
        try:
            split.save(self.split)
        except FileError:
            if not self.last.exists():
                raise
            raise FileError(
                f"{self.split}: the images are not those that the run started with; name another "
                "folder for a run on others"
            ) from None

    def write(self, checkpoint: dict[str, Any], log: Sequence[Epoch]) -> None:
        """Write the checkpoint, then the log."""
        import torch

        try:
            with atomic_path(self.last) as path:
                torch.save(checkpoint, path)
        except RuntimeError as error:  # so torch says that a disk is full
            kept = log[-1].epoch - 1
            stays = f"; that of epoch {kept:,} is kept" if kept else ""
            raise FileError(
                f"cannot write {self.last}, is the disk full? ({one_line(error)[:100]}){stays}"
            ) from None
        self.show(log)

    def show(self, log: Sequence[Epoch]) -> None:
        """Write the log as a table."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(Epoch._fields)
        table.writerows(log)
        with atomic_path(self.log) as path:
            path.write_text(text.getvalue(), encoding="utf-8")

    def draw(self, log: Sequence[Epoch]) -> None:
        """Write the log as a picture, where matplotlib is installed."""
        with suppress(MissingExtraError):
            figure: Any = draw_run(log).figure
            with atomic_path(self.picture) as path:
                figure.savefig(path, format="png", dpi=120)


def _fixed(recipe: Recipe) -> dict[str, Any]:
    """Return what must not change, as JSON has it: lists, no tuples."""
    tables: dict[str, Any] = json.loads(json.dumps(recipe.tables()))
    for section, name in FREE:
        del tables[section][name]
    return tables
