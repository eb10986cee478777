"""Train a model of images as a recipe says, in a folder that a stopped run goes on in.

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
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.data.shown import one_line
from smallcal.errors import FileError, InputError, MissingExtraError, SmallcalError, file_errors
from smallcal.io.atomic import atomic_path, leftovers
from smallcal.io.lock import FILE_NAME, alone_in
from smallcal.io.paths import require_apart
from smallcal.io.progress import progress
from smallcal.io.resumable import changes as changes_between
from smallcal.plots.style import axes_or_new, caption, dress, legend, look, name_series, strip_over
from smallcal_lab.vision.image_set import Files, ImageSet
from smallcal_lab.vision.images import image_parts, open_images
from smallcal_lab.vision.models.built import FORMAT, read_weights
from smallcal_lab.vision.models.model import BY_HAND, CODE, VisionModel, checkpoint_of, split_source
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.splits import CALIBRATION, TRAIN, ImageSplit, split_images
from smallcal_lab.vision.training.batches import START, draw_from, own_chance, place_of
from smallcal_lab.vision.training.loop import Epoch, Step, Trainer
from smallcal_lab.vision.training.recipe import NO_SPLIT, Recipe, read_recipe

_CHECKPOINT = "checkpoint:"

#: What may change while a run is under way: where it is done. The split checks the images.
_FREE = {"training.device": "auto", "training.workers": 0, "data.source": ""}

#: Seconds between two pictures of a run: to draw takes half a second, as some epochs do.
_DRAWING = 30.0


@dataclass(frozen=True)
class TrainingRun:
    """A finished run."""

    folder: Path
    checkpoint: Path
    model: str  #: What ``open_model`` opens the trained model by.
    log: tuple[Epoch, ...]  #: What ``log.csv`` holds.
    resumed: int  #: Epochs that were done before.


def train(
    recipe: Recipe | str | os.PathLike[str],
    run: str | os.PathLike[str],
    *,
    changes: Mapping[str, Any] | None = None,
    on_step: Callable[[Step], object] = lambda step: None,
    on_epoch: Callable[[Epoch, int], object] = lambda row, epochs: None,
) -> TrainingRun:
    """Train an image classifier.

    Under ``torchrun`` every process calls this with the same arguments; the first one writes.
    Finished epochs are kept, whatever happens.

    Parameters
    ----------
    recipe : Recipe, str or path
        A recipe, a TOML file, or the name of one that comes with smallcal.
    run : path
        A folder for the run. A stopped run resumes after its last whole epoch; one of
        another recipe is refused.
    changes : mapping, optional
        Other values for keys of the recipe, as ``{"training.epochs": 30}``.
    on_step : callable, optional
        Called with each ``Step``, some time after it.
    on_epoch : callable, optional
        Called with each finished ``Epoch``, and how many there will be.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for name, grey in (("dark", 20), ("light", 200)):
    ...     (root / "images" / name).mkdir(parents=True)
    ...     for number in range(20):
    ...         Image.new("L", (8, 8), grey + number).save(root / "images" / name / f"{number}.png")
    >>> changes = {"data.source": f"folder:{root / 'images'}", "training.epochs": 2}
    >>> changes |= {"training.batch_size": 8, "schedule.milestones": []}
    >>> changes |= {"model.source": "timm:resnet10t?input.size=32"}
    >>> done = train("paper-sgd", root / "run", changes=changes)
    >>> [row.epoch for row in done.log], done.checkpoint.name
    ([1, 2], 'last.pt')
    """
    asked = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    asked = asked.changed(changes or {})
    place = place_of()
    device = place.device(asked.training.device)
    folder = RunFolder(Path(run))
    with own_chance(), place.together(device), ExitStack() as stack:
        images, split = _images(asked)
        if isinstance(images.pixels, Files):  # a run among its classes would be taken for one
            require_apart(folder.folder, images.pixels.root)
        problem = None
        try:
            if place.first:
                stack.enter_context(folder.claimed(asked, split))
        except SmallcalError as error:
            problem = error
        if (problem := place.shared(problem)) is not None:  # it ends all processes
            raise problem
        resumed = place.shared(folder.last.exists())
        model = _model(asked, folder, images, resumed=resumed)
        model.to(str(device))
        to_learn = images if split is None else split.take(images, TRAIN)
        counts = np.bincount(to_learn.labels, minlength=len(images.classes))
        for empty in np.flatnonzero(counts == 0)[:1]:
            name = images.classes[empty]
            raise InputError(f"{images.name}: the class {name!r} has no image to train on")
        check = None if split is None else split.take(images, CALIBRATION)
        trainer = Trainer(asked, model, to_learn, check, device=device, place=place)
        about = _resume(trainer, folder) if resumed else _about(asked, images)
        done = len(trainer.log)
        _train(trainer, folder, about, on_step, on_epoch)
    model_name = checkpoint_of(folder.last, asked.model.source)
    return TrainingRun(folder.folder, folder.last, model_name, tuple(trainer.log), done)


def _images(recipe: Recipe) -> tuple[ImageSet, ImageSplit | None]:
    """Open the images and split them."""
    source, rule = recipe.data.source, recipe.data.split
    if not source:
        raise InputError(
            "[data] source does not say which images to train on: ",
            python='pass changes={"data.source": "cifar100:DIR"}',
            shell="write --data cifar100:DIR",
        )
    with suppress(SmallcalError):  # a part is named already, or opening it will say what is wrong
        if TRAIN in image_parts(source):
            source = f"{source}:{TRAIN}"
    images = open_images(source)
    if rule == NO_SPLIT:
        return images, None
    split = split_images(images, rule, seed=recipe.data.split_seed)
    if TRAIN not in split.parts:
        raise InputError(
            f"[data] split = {rule!r} leaves nothing to train on; write one as 5% or 5%+10%, "
            "or none"
        )
    return images, split


def _model(recipe: Recipe, folder: RunFolder, images: ImageSet, *, resumed: bool) -> VisionModel:
    """Open the model as it is at the start, or as the last epoch left it."""
    said, classes = recipe.model, len(images.classes)
    draw_from(recipe.training.seed, START)
    try:
        if resumed:
            model = open_model(checkpoint_of(folder.last, said.source))
        else:
            model = open_model(
                said.source,
                checkpoint=said.weights or None,
                classes=classes,
                options=_options(recipe),
                pretrained=said.pretrained,
            )
    except FileError as error:  # a recipe names weights that cannot be fetched in its own way
        for words in BY_HAND:
            error = error.calling(words, "give their file: --set model.weights=FILE")
        raise error from None
    if model.module is None:
        raise InputError(f"{model.source} cannot be trained; name a model of timm, hf or torch")
    if model.classes != classes:
        raise InputError(
            f"{model.source} gives {model.classes:,} columns, and {images.name} has "
            f"{classes:,} classes"
        )
    return model


def _options(recipe: Recipe) -> dict[str, Any]:
    """Return the options that make the model, its temperature head among them."""
    said = recipe.model
    if said.temperature_head == "none":
        return dict(said.options)
    head = {"head.temperature": said.temperature_head, "head.width": said.head_width}
    return {**said.options, **head}


def _resume(trainer: Trainer, folder: RunFolder) -> dict[str, Any]:
    """Go on from the last checkpoint; return what it says beside what the trainer knows."""
    about = read_weights(folder.last).about
    try:
        trainer.resume(about)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(
            f"{folder.last} cannot be resumed ({type(error).__name__}: {error}); remove it to "
            "start again"
        ) from None
    known = trainer.state()
    return {name: value for name, value in about.items() if name not in known}


def _about(recipe: Recipe, images: ImageSet) -> dict[str, Any]:
    """Return what checkpoints will say beside their weights."""
    source, options = recipe.model.source, _options(recipe)
    if source.startswith(_CHECKPOINT):  # the network itself, or the old file would be needed
        _, file, written = split_source(source)
        old = read_weights(file).about
        source, options = old["source"], {**old["options"], **written, **options}
        options.pop(CODE, None)
    return {
        "format": FORMAT,
        "source": source,
        "options": options,
        "classes": len(images.classes),
        "class_names": list(images.classes),
        "recipe": recipe.text(),
        "seed": recipe.training.seed,
    }


def _train(
    trainer: Trainer,
    folder: RunFolder,
    about: dict[str, Any],
    on_step: Callable[[Step], object],
    on_epoch: Callable[[Epoch, int], object],
) -> None:
    """Train for the epochs that are left; the first process writes and tells."""
    epochs, first = trainer.recipe.training.epochs, trainer.place.first
    left = (epochs - len(trainer.log)) * trainer.batches.steps
    if first and trainer.log:
        folder.show(trainer.log)  # it may be from before the last checkpoint
    drawn = -math.inf
    with progress("Training", left) if first else nullcontext(lambda steps: None) as advance:

        def told(step: Step) -> None:
            advance(1)
            on_step(step)

        while len(trainer.log) < epochs:
            row = trainer.epoch(told)
            if first:
                weights = {"model": trainer.module.state_dict(), "epoch": row.epoch}
                folder.write({**about, **weights, **trainer.state()}, trainer.log)
                if time.monotonic() - drawn > _DRAWING or row.epoch == epochs:
                    folder.draw(trainer.log)
                    drawn = time.monotonic()
                on_epoch(row, epochs)


# --- the folder ----------------------------------------------------------------------------------


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
            if not self.folder.exists():
                return
            if not self.folder.is_dir():
                raise FileError(f"{self.folder} is a file; name a folder for the run")
            there = set(self.folder.iterdir()) - {self.folder / FILE_NAME, *leftovers(self.files)}
        if there and self.recipe not in there:
            raise InputError(f"{self.folder} holds other files; name a new folder")
        if self.recipe not in there or self.last not in there:
            return
        if differ := changes_between(_fixed(read_recipe(self.recipe)), _fixed(recipe)):
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
            try:
                if split is not None:
                    split.save(self.split)
            except FileError as error:
                raise FileError(
                    f"{self.split}: the images are not those that the run started with; name "
                    f"another folder for a run on others ({error})"
                ) from None
            yield

    def write(self, checkpoint: dict[str, Any], log: Sequence[Epoch]) -> None:
        """Write the checkpoint, then the log."""
        import torch

        try:
            with atomic_path(self.last) as path:
                torch.save(checkpoint, path)
        except RuntimeError as error:  # so torch says that a disk is full
            raise FileError(
                f"cannot write {self.last}, is the disk full? ({one_line(error)[:100]}); that of "
                f"epoch {log[-1].epoch - 1:,} is kept"
            ) from None
        self.show(log)

    def show(self, log: Sequence[Epoch]) -> None:
        """Write the log as a table."""
        with atomic_path(self.log) as path, open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Epoch._fields, *log])

    def draw(self, log: Sequence[Epoch]) -> None:
        """Draw losses, the share of errors if known and, above, rates; if matplotlib is there."""
        try:
            ax = axes_or_new(None)
        except MissingExtraError:
            return
        epochs = [row.epoch for row in log]
        dress(ax, xlabel="epoch", ylabel="loss, or share of errors")
        series = {"training loss": [row.loss for row in log]}
        if log[0].accuracy is not None:
            wrong = [1 - (row.accuracy or 0) for row in log]
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
        figure: Any = ax.figure
        with atomic_path(self.picture) as path:
            figure.savefig(path, format="png", dpi=120)


def _fixed(recipe: Recipe) -> Any:
    """Return what must not change of a run, as JSON has it: lists, no tuples."""
    return json.loads(json.dumps(recipe.changed(_FREE).tables()))
