"""Train a model of images as a recipe says, in a folder that a stopped run goes on in."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smallcal.deploy.adapters.torch_batches import require_torch
from smallcal.errors import FileError, InputError, SmallcalError
from smallcal.io.paths import require_apart
from smallcal.io.progress import progress
from smallcal_lab.vision.image_set import Files, ImageSet
from smallcal_lab.vision.images import image_parts, open_images
from smallcal_lab.vision.models.built import FORMAT, read_weights
from smallcal_lab.vision.models.model import BY_HAND, CODE, VisionModel, checkpoint_of, split_source
from smallcal_lab.vision.models.opening import open_model
from smallcal_lab.vision.splits import CALIBRATION, TRAIN, ImageSplit, split_images
from smallcal_lab.vision.training.batches import START, draw_from, own_chance
from smallcal_lab.vision.training.loop import Step, Trainer
from smallcal_lab.vision.training.processes import Place, device_named, place_of, shared, together
from smallcal_lab.vision.training.recipe import NO_SPLIT, Recipe, read_recipe
from smallcal_lab.vision.training.run_folder import Epoch, RunFolder

_CHECKPOINT = "checkpoint:"

#: What a checkpoint says beside its weights, the same in every epoch.
_ABOUT = ("format", "source", "options", "classes", "class_names", "recipe", "seed")

#: Seconds between two pictures of a run: to draw takes half a second, as some epochs do.
_DRAWING = 30.0


@dataclass(frozen=True)
class TrainingRun:
    """A finished run.

    Attributes
    ----------
    folder, checkpoint : Path
    model : str
        What ``open_model`` opens the trained model by.
    log : tuple of Epoch
        What ``log.csv`` holds.
    resumed : int
        Epochs that were done before.
    """

    folder: Path
    checkpoint: Path
    model: str
    log: tuple[Epoch, ...]
    resumed: int


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

    Returns
    -------
    TrainingRun

    Raises
    ------
    SmallcalError
        If something cannot be used; epochs that are done are kept.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> from smallcal_lab.vision import train
    >>> root = Path(tempfile.mkdtemp())
    >>> for name, grey in (("dark", 20), ("light", 200)):
    ...     (root / "images" / name).mkdir(parents=True)
    ...     for number in range(20):
    ...         Image.new("L", (8, 8), grey + number).save(root / "images" / name / f"{number}.png")
    >>> recipe = root / "recipe.toml"
    >>> _ = recipe.write_text('''
    ... [model]
    ... source = "timm:resnet10t?input.size=32"
    ... pretrained = false
    ... [training]
    ... epochs = 2
    ... batch_size = 8
    ... [optimizer]
    ... name = "sgd"
    ... lr = 0.01
    ... ''')
    >>> done = train(recipe, root / "run", changes={"data.source": f"folder:{root / 'images'}"})
    >>> [row.epoch for row in done.log], done.checkpoint.name
    ([1, 2], 'last.pt')
    >>> from smallcal_lab.vision import open_model
    >>> open_model(done.model).class_names
    ('dark', 'light')
    """
    require_torch()
    asked = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    asked = asked.changed(changes or {})
    place = place_of()
    device = device_named(asked.training.device, place)
    folder = RunFolder(Path(run))
    with own_chance(), together(place, device), ExitStack() as stack:
        images, split = _images(asked)
        if isinstance(images.pixels, Files):  # a run among its classes would be taken for one
            require_apart(folder.folder, images.pixels.root)
        _at_first(lambda: stack.enter_context(folder.claimed(asked, split)), place)
        resumed = shared(folder.last.exists(), place)
        model = _model(asked, folder, images, resumed=resumed)
        model.to(str(device))
        to_learn = images if split is None else split.take(images, TRAIN)
        _require_all_classes(to_learn)
        check = None if split is None else split.take(images, CALIBRATION)
        trainer = Trainer(asked, model, to_learn, check, device=device, place=place)
        about = _resume(trainer, folder) if resumed else _about(asked, images)
        done = len(trainer.log)
        _train(trainer, folder, about, on_step, on_epoch)
    model_name = checkpoint_of(folder.last, asked.model.source)
    return TrainingRun(folder.folder, folder.last, model_name, tuple(trainer.log), done)


def _at_first(action: Callable[[], object], place: Place) -> None:
    """Let the first process do something; what it cannot do ends all of them."""
    problem = None
    if place.first:
        try:
            action()
        except SmallcalError as error:
            problem = error
    problem = shared(problem, place)
    if problem is not None:
        raise problem


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


def _require_all_classes(images: ImageSet) -> None:
    counts = np.bincount(images.labels, minlength=len(images.classes))
    if empty := [images.classes[one] for one in np.flatnonzero(counts == 0)]:
        more = f" and {len(empty) - 1:,} more have" if len(empty) > 1 else " has"
        raise InputError(f"{images.name}: the class {empty[0]!r}{more} no image to train on")


def _model(recipe: Recipe, folder: RunFolder, images: ImageSet, *, resumed: bool) -> VisionModel:
    """Open the model as it is at the start, or as the last epoch left it."""
    said, classes = recipe.model, len(images.classes)
    if resumed and said.source.startswith(_CHECKPOINT):  # that file may be gone
        model = open_model(checkpoint_of(folder.last, said.source))
    else:
        draw_from(recipe.training.seed, START)
        try:
            model = open_model(
                said.source,
                checkpoint=folder.last if resumed else said.weights or None,
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
    """Go on from the last checkpoint; return what it says beside its weights."""
    about = read_weights(folder.last).about
    try:
        trainer.resume(about)
        return {name: about[name] for name in _ABOUT}
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise FileError(
            f"{folder.last} cannot be resumed ({type(error).__name__}: {error}); remove it to "
            "start again"
        ) from None


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
