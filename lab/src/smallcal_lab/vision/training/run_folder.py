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
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, MissingExtraError, file_errors
from smallcal.io.atomic import atomic_path, leftovers
from smallcal.io.lock import FILE_NAME, alone_in
from smallcal.io.resumable import changes
from smallcal.metrics.units import PERCENT
from smallcal.plots.style import axes_or_new, caption, dress, legend, look, name_series, strip_over
from smallcal_lab.vision.splits import ImageSplit
from smallcal_lab.vision.training.recipe import Recipe, read_recipe

#: What may change while a run is under way: where it is done, not what. That images are the same
#: is checked by the split.
FREE = (("training", "device"), ("training", "workers"), ("data", "source"))


class Epoch(NamedTuple):
    """A row of the log; ``accuracy`` is on the images to calibrate on, None if there are none."""

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


class RunFolder:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.recipe, self.split = folder / "recipe.toml", folder / "split.json"
        self.last, self.log = folder / "last.pt", folder / "log.csv"
        self.picture = folder / "run.png"
        self.files = (self.recipe, self.split, self.last, self.log, self.picture)

    def require(self, recipe: Recipe) -> None:
        """Raise unless the folder is new, empty or of a run of this very recipe.

        Where no epoch is done yet, another recipe takes the place of the one that is there.
        """
        with file_errors(f"cannot read {self.folder}"):
            if self.folder.exists() and not self.folder.is_dir():
                raise FileError(f"{self.folder} is a file; name a folder for the run")
            if self.folder.exists() and not self.recipe.exists():
                left = {self.folder / FILE_NAME, *leftovers(self.files)}
                if set(self.folder.iterdir()) - left:
                    raise InputError(f"{self.folder} holds other files; name a new folder")
            if not self.recipe.exists() or not self.last.exists():
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
            begun = self.last.exists()
            if not begun:
                self.split.unlink(missing_ok=True)
                with atomic_path(self.recipe) as path:
                    path.write_text(recipe.text(), encoding="utf-8")
            try:
                if split is not None:
                    split.save(self.split)
            except FileError:
                if not begun:
                    raise
                raise FileError(
                    f"{self.split}: the images are not those that the run started with; name "
                    "another folder for a run on others"
                ) from None
            yield

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
        with atomic_path(self.log) as path, open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Epoch._fields, *log])

    def draw(self, log: Sequence[Epoch]) -> None:
        """Write the log as a picture, where matplotlib is installed."""
        with suppress(MissingExtraError):
            figure = draw_run(log).figure
            with atomic_path(self.picture) as path:
                figure.savefig(path, format="png", dpi=120)


def draw_run(log: Sequence[Epoch]) -> Any:
    """Draw the loss of each epoch, the share of errors if known, and the learning rate above."""
    ax = axes_or_new(None)
    epochs = [row.epoch for row in log]
    dress(ax, xlabel="epoch", ylabel="loss, or share of errors")
    series = {"training loss": [row.loss for row in log]}
    wrong = [np.nan if row.accuracy is None else 1 - row.accuracy for row in log]
    if np.isfinite(wrong).any():
        series["share of errors on the calibration images"] = wrong
    for number, (name, values) in enumerate(series.items()):
        style = look(number)
        ax.plot(epochs, values, **style.stroke)
        ax.plot(epochs, values, **style.mark, linestyle="none", markersize=4)
        name_series(ax, name, style)
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="x", integer=True)
    legend(ax)
    strip = strip_over(ax, ylabel="rate")
    strip.plot(epochs, [row.lr for row in log], **look(2).stroke)
    strip.set_ylim(bottom=0)
    caption(strip, f"{len(log):,} epochs")
    return ax


def _fixed(recipe: Recipe) -> dict[str, Any]:
    """Return what must not change, as JSON has it: lists, no tuples."""
    tables: dict[str, Any] = json.loads(json.dumps(recipe.tables()))
    for section, name in FREE:
        del tables[section][name]
    return tables
