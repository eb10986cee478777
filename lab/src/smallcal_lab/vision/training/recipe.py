"""Recipes: how a model is trained, as a small TOML file that one can read and change."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, InputError, choose, missing_file
from smallcal_lab.toml import toml_value
from smallcal_lab.vision.training.keys import section_of
from smallcal_lab.vision.training.sections import (
    Augment,
    Data,
    Loss,
    Model,
    Optimizer,
    Schedule,
    Training,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: A recipe has a few hundred bytes.
_MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Recipe:
    """A whole recipe; see the sections for their keys.

    Examples
    --------
    >>> recipe = read_recipe("paper-adamw")
    >>> recipe.optimizer.lr, recipe.training.epochs, recipe.augment.mixup
    (5e-05, 100, 0.8)
    >>> recipe.changed({"training.epochs": 30, "model.source": "timm:deit_small_patch16_224"}).title
    "The paper's fine-tuning"
    >>> recipe.changed({"training.epochz": 30})
    Traceback (most recent call last):
    ...
    smallcal.errors.FileError: paper-adamw: [training] has no key 'epochz'; did you mean 'epochs'?
    """

    model: Model
    optimizer: Optimizer
    data: Data = field(default_factory=Data)
    training: Training = field(default_factory=Training)
    schedule: Schedule = field(default_factory=Schedule)
    augment: Augment = field(default_factory=Augment)
    loss: Loss = field(default_factory=Loss)
    title: str = ""
    source: str = field(default="recipe", compare=False)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the sections as plain tables, every key written out."""
        return {name: asdict(getattr(self, name)) for name in SECTIONS}

    def text(self) -> str:
        """Return the recipe as TOML, every key written out; it reads back as it is."""
        parts = [f"title = {toml_value(self.title)}\n"]
        for name, table in self.tables().items():
            lines = "".join(f"{one} = {toml_value(value)}\n" for one, value in table.items())
            parts.append(f"[{name}]\n{lines}")
        return "\n".join(parts)

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """Return the recipe with other values for some keys, named ``section.key``."""
        tables = self.tables()
        for name, value in changes.items():
            section, _, one = name.partition(".")
            if section not in SECTIONS or not one:
                raise InputError(
                    f"{name!r} is not a key of a recipe; keys are written like training.epochs; "
                    f"{choose(section, SECTIONS)}"
                )
            table, _, inner = one.partition(".")
            if inner and (section, table) == ("model", "options"):
                tables[section][table] = {**tables[section][table], inner: value}
            else:
                tables[section][one] = value
        return recipe_of({"title": self.title, **tables}, source=self.source)


#: The tables of a recipe, in the order that they are written.
SECTIONS: dict[str, Any] = {
    **{"model": Model, "data": Data, "training": Training, "optimizer": Optimizer},
    **{"schedule": Schedule, "augment": Augment, "loss": Loss},
}


def read_recipe(recipe: str | os.PathLike[str]) -> Recipe:
    """Read a recipe: a TOML file, or one of those that come with smallcal, by name.

    Examples
    --------
    >>> read_recipe("paper-sgd").optimizer.name
    'sgd'
    """
    name = os.fspath(recipe)
    if name in recipe_names():
        return recipe_of(_parsed(recipe_text(name), name), source=name)
    file = Path(name).expanduser()
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise FileError(f"{file} is not a recipe: it has more than a million bytes")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        close = missing_file(file) or f"; {choose(name, recipe_names())}"
        raise FileError(f"there is no recipe {name}{close}") from None
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileError(f"{file} cannot be read as a recipe: {why}") from None
    return recipe_of(_parsed(text, str(file)), source=str(file))


def recipe_names() -> tuple[str, ...]:
    """Return the names of the recipes that come with smallcal.

    Examples
    --------
    >>> recipe_names()
    ('paper-adamw', 'paper-lowdata-10', 'paper-lowdata-25', 'paper-sgd', 'paper-sgd-brier',
     'paper-sgd-stopgrad', 'paper-sgd-temphead')
    """
    found = (one.name for one in _shipped().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


def recipe_text(name: str) -> str:
    """Return a recipe that comes with smallcal as it is written, with its comments."""
    if name not in recipe_names():
        raise InputError(f"there is no recipe {name!r}; {choose(name, recipe_names())}")
    return str((_shipped() / f"{name}.toml").read_text(encoding="utf-8"))


def _shipped() -> Any:
    return files("smallcal_lab.vision.training") / "recipes"


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{source} cannot be read as a recipe: {error}") from None


def recipe_of(document: Mapping[str, Any], *, source: str) -> Recipe:
    """Return the recipe of a parsed file.

    Raises
    ------
    FileError
        If a section or key is missing, unknown or impossible; it names the key.
    """
    for name in document:
        if name not in SECTIONS and name != "title":
            raise FileError(f"{source} has no section {name!r}; {choose(name, SECTIONS)}")
    title = document.get("title", "")
    if not isinstance(title, str):
        raise FileError(f"{source}: title must be a text; got {title!r}")
    for name in ("model", "optimizer"):
        if name not in document:
            raise FileError(f"{source} lacks the section [{name}]")
    sections = {
        name: section_of(SECTIONS[name], document[name], where=f"{source}: [{name}]")
        for name in SECTIONS
        if name in document
    }
    made = Recipe(**sections, title=title, source=source)
    for where, wrong, words in _conflicts(made):
        if wrong:
            raise FileError(f"{source}: {where} {words}")
    return made


def _conflicts(recipe: Recipe) -> list[tuple[str, bool, str]]:
    """Return what cannot be together: the key, whether it is so here, and what to say."""
    training, schedule, augment = recipe.training, recipe.schedule, recipe.augment
    epochs, steps = training.epochs, schedule.milestones
    scale = augment.crop_scale
    return [
        (
            "[schedule] warmup_epochs",
            schedule.warmup_epochs >= epochs and schedule.warmup_epochs > 0,
            f"({schedule.warmup_epochs}) must be below [training] epochs ({epochs})",
        ),
        (
            "[schedule] milestones",
            list(steps) != sorted(set(steps)) or any(step >= epochs for step in steps),
            f"must rise and be below [training] epochs ({epochs}); got {list(steps)}",
        ),
        (
            "[training] batch_size",
            augment.mixes and training.batch_size % 2 == 1,
            f"must be even where images of a batch are mixed in pairs; got {training.batch_size}",
        ),
        (
            "[augment] crop_scale",
            len(scale) != 2 or scale[0] > scale[-1],
            f"must be two shares, the smaller one first; got {list(scale)}",
        ),
        (
            "[optimizer] betas",
            len(recipe.optimizer.betas) != 2,
            f"must be two numbers; got {list(recipe.optimizer.betas)}",
        ),
        (
            "[optimizer] nesterov",
            recipe.optimizer.nesterov and not recipe.optimizer.momentum,
            "needs a positive momentum",
        ),
    ]
