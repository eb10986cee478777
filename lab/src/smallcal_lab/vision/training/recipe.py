"""Recipes: how a model is trained, as a small TOML file that one can read and change."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from smallcal.errors import FileError, InputError, choose, missing_file
from smallcal_lab.toml import read_toml, toml_value

#: No number of a recipe is larger: it fits a random generator's seed.
_MOST = 2**32 - 1

#: The recipes that come with smallcal.
_SHIPPED = Path(str(files("smallcal_lab.vision.training") / "recipes"))

#: Instead of a rule for a split: train on all images that are there.
NO_SPLIT = "none"

_WORDS: dict[type, str] = {
    **{str: "a text", bool: "true or false", int: "a whole number", float: "a number"},
    **{tuple: "a list of numbers", dict: "a table"},
}
_BOUNDS = {
    "least": ("at least", operator.ge),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
    "most": ("at most", operator.le),
}


def key(default: Any = MISSING, **rules: Any) -> Any:
    """Return a field with rules: ``least``, ``above``, ``below``, ``most``, ``one_of``."""
    return field(default=default, metadata={"most": _MOST, **rules})


@dataclass(frozen=True)
class Model:
    """What is trained."""

    source: str = key()  # as ``open_model`` takes it
    pretrained: bool = key(default=True)  # begin with the source's weights, or random ones
    weights: str = key("")  # a file of weights to begin with instead
    options: dict[str, Any] = field(default_factory=dict)  # keywords of what makes the model
    # A network from the features to T(x), trained along; "stop-grad" ends its gradient there.
    temperature_head: str = key("none", one_of=("none", "unrestricted", "stop-grad"))
    head_width: int = key(128, least=1, most=65_536)  # hidden units of that network


@dataclass(frozen=True)
class Data:
    """Which images."""

    source: str = key("")  # as ``open_images`` takes it; empty if named when training starts
    split: str = key("5%")  # a rule of ``split_images``, or "none"
    split_seed: int = key(0, least=0)


@dataclass(frozen=True)
class Training:
    """How long, how much at once, and where."""

    epochs: int = key(100, least=1, most=1_000_000)
    batch_size: int = key(64, least=1, most=1_000_000)  # of all processes together
    seed: int = key(0, least=0)
    device: str = key("auto")  # "auto", "cpu", "cuda", "cuda:1", "mps"
    workers: int = key(0, least=0, most=256)  # processes that load images, for each device
    precision: str = key("float32", one_of=("float32", "bfloat16", "float16"))  # of products
    clip: float = key(0.0, least=0)  # the longest gradient; 0 for any
    sync_batch_norm: bool = key(default=False)  # statistics of all GPUs


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """torch's AdamW or SGD; biases and norms are not decayed."""

    name: str = key("adamw", one_of=("adamw", "sgd"))
    lr: float = key(above=0, most=1000)
    weight_decay: float = key(0.0, least=0, most=1000)
    momentum: float = key(0.9, least=0, below=1)  # this and the next are of SGD
    nesterov: bool = key(default=False)
    betas: tuple[float, ...] = key((0.9, 0.999), least=0, below=1)  # and these of AdamW
    eps: float = key(1e-8, above=0, most=1)


@dataclass(frozen=True)
class Schedule:
    """The learning rate of each epoch."""

    name: str = key("cosine", one_of=("cosine", "steps", "constant"))
    warmup_epochs: int = key(0, least=0)  # it rises in a line from ``warmup_lr`` over these
    warmup_lr: float = key(1e-6, least=0, most=1000)
    final_lr: float = key(0.0, least=0, most=1000)  # of the cosine, after the last epoch
    milestones: tuple[int, ...] = key((), least=1)  # epochs from 0, where "steps" multiplies
    factor: float = key(0.1, above=0, most=1)  # by this


@dataclass(frozen=True)
class Augment:
    """What is done to training images; without any of it, they are seen as in a test."""

    # "resized" cuts a random part out and resizes it; "padded" moves the image at random.
    crop: str = key("none", one_of=("none", "resized", "padded"))
    crop_scale: tuple[float, ...] = key((0.08, 1.0), above=0, most=1)  # area that "resized" keeps
    padding: float = key(0.125, least=0, most=1)  # share of the side that "padded" moves by
    flip: float = key(0.0, least=0, most=1)  # how often left and right change places
    auto_augment: str = key("")  # a policy as timm writes it, ``rand-m9-mstd0.5-inc1``
    erasing: float = key(0.0, least=0, most=1)  # how often a rectangle becomes noise
    mixup: float = key(0.0, least=0, most=1000)  # parameters of Beta distributions; 0 for none
    cutmix: float = key(0.0, least=0, most=1000)
    mix_probability: float = key(1.0, least=0, most=1)  # how often a batch is mixed
    switch_probability: float = key(0.5, least=0, most=1)  # by CutMix, if there are both

    @property
    def mixes(self) -> bool:
        """Whether batches are mixed."""
        return bool(self.mixup or self.cutmix)

    @property
    def changes_images(self) -> bool:
        """Whether single images are changed at random."""
        return bool(self.crop != "none" or self.flip or self.auto_augment or self.erasing)


@dataclass(frozen=True)
class Loss:
    """What is made small: the cross-entropy, and the Brier score with a weight."""

    label_smoothing: float = key(0.0, least=0, below=1)
    brier: float = key(0.0, least=0, most=1000)


@dataclass(frozen=True)
class Recipe:
    """A whole recipe; see the sections for their keys.

    Examples
    --------
    >>> recipe = read_recipe("paper-adamw")
    >>> recipe.optimizer.lr, recipe.training.epochs, recipe.augment.mixup
    (5e-05, 100, 0.8)
    """

    model: Model
    data: Data
    training: Training
    optimizer: Optimizer
    schedule: Schedule
    augment: Augment
    loss: Loss
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
            if section == "model" and one.startswith("options."):
                tables[section]["options"][one.removeprefix("options.")] = value
            else:
                tables[section][one] = value
        return recipe_of({"title": self.title, **tables}, source=self.source)


#: The tables of a recipe, in the order that they are written.
SECTIONS = {name: kind for name, kind in get_type_hints(Recipe).items() if is_dataclass(kind)}


def read_recipe(recipe: str | os.PathLike[str]) -> Recipe:
    """Read a recipe: a TOML file, or one of those that come with smallcal, by name.

    Examples
    --------
    >>> read_recipe("paper-sgd").optimizer.name
    'sgd'
    """
    name = os.fspath(recipe)
    shipped = name in recipe_names()
    file = _SHIPPED / f"{name}.toml" if shipped else Path(name).expanduser()
    if not file.exists():
        close = missing_file(file) or f"; {choose(name, recipe_names())}"
        raise FileError(f"there is no recipe {name}{close}")
    return recipe_of(read_toml(file, "a recipe"), source=name if shipped else str(file))


def recipe_names() -> tuple[str, ...]:
    """Return the names of the recipes that come with smallcal.

    Examples
    --------
    >>> recipe_names()
    ('paper-adamw', 'paper-lowdata-10', 'paper-lowdata-25', 'paper-sgd', 'paper-sgd-brier',
     'paper-sgd-stopgrad', 'paper-sgd-temphead')
    """
    return tuple(sorted(file.stem for file in _SHIPPED.glob("*.toml")))


def recipe_text(name: str) -> str:
    """Return a recipe that comes with smallcal as it is written, with its comments."""
    return (_SHIPPED / f"{name}.toml").read_text(encoding="utf-8")


def recipe_of(document: Mapping[str, Any], *, source: str) -> Recipe:
    """Return the recipe of a parsed file; a wrong section or key is named in a FileError."""
    for name in document:
        if name not in SECTIONS and name != "title":
            raise FileError(f"{source} has no section {name!r}; {choose(name, SECTIONS)}")
    title = _value(document.get("title", ""), str, {}, f"{source}: title")
    sections = {
        name: _section(kind, document.get(name, {}), f"{source}: [{name}]")
        for name, kind in SECTIONS.items()
    }
    made = Recipe(**sections, title=title, source=source)
    _require_consistent(made)
    return made


def _section(kind: Any, given: object, where: str) -> Any:
    """Return a section from its table."""
    if not isinstance(given, Mapping):
        raise FileError(f"{where} must be a table of keys")
    known = {one.name: one for one in fields(kind)}
    types = get_type_hints(kind)
    if unknown := next((name for name in given if name not in known), ""):
        raise FileError(f"{where} has no key {unknown!r}; {choose(unknown, known)}")
    checked = {}
    for name, one in known.items():
        if name in given:
            checked[name] = _value(given[name], types[name], one.metadata, f"{where} {name}")
        elif one.default is one.default_factory is MISSING:
            raise FileError(f"{where} lacks the key {name}")
    return kind(**checked)


def _value(given: Any, kind: Any, rules: Mapping[str, Any], where: str) -> Any:
    """Return a value of a key, checked."""
    plain = get_origin(kind) or kind
    if plain is tuple and isinstance(given, list | tuple):
        return tuple(_value(one, get_args(kind)[0], rules, where) for one in given)
    if plain is float and type(given) is int and abs(given) <= _MOST:
        given = float(given)
    if type(given) is not plain:
        raise FileError(f"{where} must be {_WORDS[plain]}; got {given!r}")
    if plain is dict:
        try:
            toml_value(given)  # no dates and the like, which no checkpoint could hold
        except TypeError as error:
            raise FileError(f"{where}: {error}") from None
    for rule, (words, holds) in _BOUNDS.items() if plain in (int, float) else ():
        if rule in rules and not holds(given, rules[rule]):
            raise FileError(f"{where} must be {words} {rules[rule]:,}; got {given!r}")
    if plain is str and given not in rules.get("one_of", (given,)):
        raise FileError(f"{where} is {given!r}; {choose(given, rules['one_of'])}")
    return given


def _require_consistent(recipe: Recipe) -> None:
    """Raise for keys that cannot be together."""
    epochs, batch = recipe.training.epochs, recipe.training.batch_size
    warmup, steps = recipe.schedule.warmup_epochs, list(recipe.schedule.milestones)
    scale, said = list(recipe.augment.crop_scale), recipe.optimizer
    wrong = {
        f"[schedule] warmup_epochs ({warmup}) must be below [training] epochs ({epochs})": (
            warmup >= epochs
        ),
        f"[schedule] milestones must rise and be below [training] epochs ({epochs}); got {steps}": (
            steps != sorted(set(steps)) or any(step >= epochs for step in steps)
        ),
        "[training] batch_size must be even where images of a batch are mixed in pairs; "
        f"got {batch}": recipe.augment.mixes and batch % 2 == 1,
        f"[augment] crop_scale must be two shares, the smaller one first; got {scale}": (
            len(scale) != 2 or scale != sorted(scale)
        ),
        f"[optimizer] betas must be two numbers; got {list(said.betas)}": len(said.betas) != 2,
        "[optimizer] nesterov needs a positive momentum": said.nesterov and not said.momentum,
    }
    for words, holds in wrong.items():
        if holds:
            raise FileError(f"{recipe.source}: {words}")
