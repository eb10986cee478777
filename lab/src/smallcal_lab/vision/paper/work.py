"""What a cell is to be made of: folders, a run of training, images, commands, what is there."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, InputError, SmallcalError, file_errors
from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.studies.collection import FILE_NAME, Cell, load_collection
from smallcal_lab.toml import toml_value
from smallcal_lab.vision.extraction.cell_images import CellImages
from smallcal_lab.vision.folders import all_wnids
from smallcal_lab.vision.image_set import Files
from smallcal_lab.vision.images import HUB, image_parts, image_place, open_images
from smallcal_lab.vision.models.model import checkpoint_of
from smallcal_lab.vision.paper.cells import CORRUPTED, Paper, PaperCell, Shift
from smallcal_lab.vision.training.recipe import NO_SPLIT, Recipe, read_recipe, recipe_names

#: Files that published weights are kept in.
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class Places:
    """Where images are and where results go."""

    data: Path = Path()  #: Folders of images are below it.
    out: Path = Path("paper")  #: Results are below it.

    def images(self, named: str) -> str:
        """Return images as ``open_images`` takes them; none for none."""
        kind, _, rest = named.partition(":")
        return named if kind in ("", HUB) else f"{kind}:{self.data / Path(rest).expanduser()}"

    def links(self, shift: Shift) -> Path:
        """Return the folder of links to the classes of a shifted set that are wanted."""
        named = shift.classes.replace(":", "-").replace("/", "-").replace("\\", "-")
        return self.out / "links" / named / shift.kind

    def run(self, cell: PaperCell) -> Path:
        """Return the folder of a cell's training."""
        return self.out / "runs" / cell.key

    @property
    def logits(self) -> Path:
        """The collection."""
        return self.out / "logits"

    def entries(self) -> dict[str, Cell]:
        """Return the cells of the collection by name; nothing if there is none yet."""
        if not (self.logits / FILE_NAME).is_file():
            return {}
        return {cell.name: cell for cell in load_collection(self.logits).cells}

    def missing(self, named: str, parts: Iterable[str]) -> str:
        """Return what is missing of images, by a look at their folder; nothing if nothing is."""
        source, kind = self.images(named), named.partition(":")[0]
        if kind == HUB:
            return ""  # to look would be to load it
        try:
            place, part = image_place(source)
            there = image_parts(f"{kind}:{place}")
        except SmallcalError as error:
            return str(error)
        lacking = [one for one in sorted([part] if part else parts) if one not in there]
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        return f"{source} lacks {', '.join(lacking[:3])}{more}" if lacking else ""

    def make_links(self, shift: Shift) -> Path:
        """Make a folder of links to the class folders that are wanted, or look whether it is there.

        A model of 100 of ImageNet's classes can be shown ImageNet-V2 so, whose folders are numbers.
        """
        folder = self.links(shift)
        with file_errors(f"cannot make links in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            for name, target in self.link_table(shift).items():
                link = folder / name
                if link.is_symlink() and Path(os.readlink(link)) != target:
                    link.unlink()
                if not link.is_symlink():
                    link.symlink_to(target, target_is_directory=True)
        return folder

    def link_table(self, shift: Shift) -> dict[str, Path]:
        """Return the folder of each class that is wanted."""
        classes = open_images(self.images(shift.classes)).classes
        source = self.images(shift.data)
        images = open_images(source)
        if not isinstance(images.pixels, Files):
            raise InputError(f"{source}: classes can be chosen only from sets in class folders")
        root = images.pixels.root
        named = {name: name for name in images.classes}
        if not set(classes) <= set(named) and shift.kind == "imagenet-v2":
            # Its folders are called by the column, the other's by the wnid.
            named = {wnid: str(column) for column, wnid in enumerate(all_wnids(root))}
        if strange := next((name for name in classes if named.get(name) not in images.classes), ""):
            raise FileError(f"{source} has no class {strange}, which {shift.classes} has")
        return {name: (root / named[name]).absolute() for name in classes}


@dataclass(frozen=True)
class Work:
    """How much there is to do for a cell; numbers of images that are not known are NaN."""

    cell: PaperCell
    places: Places
    recipe: Recipe | None  # as the cell changes it
    trained: float  # images of an epoch; 0 where nothing is trained
    calibration: float  # images that logits are taken of; with a split that is drawn later
    test: float  # all of them are in ``test``
    shifts: Mapping[str, tuple[int, float]]  # by kind: how many sets there are, images of each

    @property
    def epochs(self) -> int:
        """Epochs of its training."""
        return self.recipe.training.epochs if self.recipe else 0

    @property
    def steps(self) -> float:
        """Images that training sees, all epochs together."""
        return self.trained * self.epochs

    @property
    def seen(self) -> float:
        """Images that logits are taken of."""
        shifted = sum(many * n for many, n in self.shifts.values())
        return self.calibration + self.test + shifted

    @property
    def begins_pretrained(self) -> bool:
        """Whether published weights are needed."""
        return self.recipe is None or self.recipe.model.pretrained

    @property
    def model(self) -> str:
        """The model whose logits are taken."""
        if self.recipe is None:
            return self.cell.model
        return checkpoint_of(self.places.run(self.cell) / "last.pt", self.recipe.model.source)

    @property
    def images(self) -> CellImages:
        """The images whose logits are taken."""
        cell, places, of_training = self.cell, self.places, self.cell.splits_training
        return CellImages(
            places.images(cell.test),
            split="" if of_training else cell.split,
            calibration=places.images(cell.train if of_training else cell.calibration),
            calibration_split=str(places.run(cell) / "split.json") if of_training else "",
            split_seed=0 if cell.recipe else cell.seed,  # seeds of published models are of splits
            shifts=tuple(name for shift in cell.shifts for name in _names_of(shift, places)),
            corruptions=cell.corrupt and replace(cell.corrupt, seed=cell.seed),
            whole_shifts=cell.whole_shifts,
        )

    @property
    def commands(self) -> list[tuple[str, ...]]:
        """The commands that do what a run of the cell does."""
        cell, places, images = self.cell, self.places, self.images
        options: list[tuple[str, Any]] = [
            ("-o", places.logits),
            ("--dataset", cell.dataset),
            ("--backbone", cell.backbone),
            ("--seed", str(cell.seed)),
            ("--split", images.split),
            ("--split-seed", images.split and images.split_seed),
            ("--calibration", images.calibration),
            ("--calibration-split", images.calibration_split),
        ]
        for shift in cell.shifts:
            options += [("--shift", name) for name in _names_of(shift, places, brief=True)]
        if made := images.corruptions:
            every = set(made.kinds) == {*STANDARD, *EXTRA}
            levels = ",".join(map(str, made.severities))
            options += [("--corrupt", "all" if every else ",".join(made.kinds))]
            options += [("--severity", "1-5" if made.severities == SEVERITIES else levels)]
            options += [("--corrupt-seed", made.seed), ("--corrupt-images", made.images)]
        words = [word for name, value in options if value for word in (name, str(value))]
        words += ["--whole-shifts"] if images.whole_shifts else []
        logits = ("smallcal", "logits", self.model, str(images.test), *words)
        if self.recipe is None:
            return [logits]
        changes = {"data.source": places.images(cell.train), **_changes_of(cell)}
        train = ["smallcal", "train", self.recipe.source, "-o", str(places.run(cell))]
        for key, value in changes.items():
            train += ["--set", f"{key}={value if isinstance(value, str) else toml_value(value)}"]
        return [tuple(train), logits]

    @property
    def is_trained(self) -> bool:
        """Whether the training is finished, by its log."""
        with suppress(OSError, UnicodeDecodeError):
            log = (self.places.run(self.cell) / "log.csv").read_text(encoding="utf-8")
            return 0 < self.epochs < len(log.splitlines())
        return False

    def is_extracted(self, there: Mapping[str, Cell]) -> bool:
        """Return whether the logits are all there, and not older than the training."""
        cell = self.cell
        entry = there.get(cell.key)
        if entry is None:
            return False
        wanted = {part for shift in cell.shifts for part in shift.parts}
        wanted |= set(cell.corrupt.parts) if cell.corrupt else set()
        found = {(shift.kind, shift.severity) for shift in entry.shifts}
        others = sum(not shift.parts for shift in cell.shifts)
        if not wanted <= found or len(found) < len(wanted) + others:
            return False
        checkpoint, logits = self.places.run(cell) / "last.pt", Path(entry.files[1])
        with suppress(OSError):
            return self.recipe is None or checkpoint.stat().st_mtime_ns <= logits.stat().st_mtime_ns
        return False


def work_of(cell: PaperCell, paper: Paper, places: Places) -> Work:
    """Return what there is to do for a cell."""

    def count(named: str) -> float:
        """Return how many images a set has: what the file says, else what is there."""
        known = {"": 0, **paper.images}
        if named in known:
            return known[named]
        try:
            return len(open_images(places.images(named)))
        except SmallcalError:
            return math.nan

    trained, calibration, test = count(cell.train), count(cell.calibration), count(cell.test)
    if cell.splits_training:
        shares = [float(share.rstrip("%")) / 100 for share in cell.split.split("+")]
        calibration = _whole(shares[0] * trained)
        trained = _whole((trained - calibration) * (shares[1] if len(shares) > 1 else 1))
    shifts: dict[str, tuple[int, float]] = {}
    for shift in cell.shifts:
        named = shift.data
        if shift.parts and named not in paper.images:
            named += f":{shift.parts[0][0]}-{shift.parts[0][1]}"
        shifts[shift.kind] = (len(shift.parts) or 1, shift.images or count(named))
    if cell.corrupt:
        # Those of a test set that a rule makes smaller are as many less; nobody plans by that.
        shifts["corrupted here"] = len(cell.corrupt.parts), min(test, cell.corrupt.images or test)
    return Work(cell, places, _recipe_of(cell, paper), trained, calibration, test, shifts)


def _whole(number: float) -> float:
    return number if math.isnan(number) else round(number)


def _recipe_of(cell: PaperCell, paper: Paper) -> Recipe | None:
    """Return a cell's recipe with its changes; None where nothing is trained."""
    if not cell.recipe:
        return None
    shipped = cell.recipe in recipe_names()
    try:
        recipe = read_recipe(cell.recipe if shipped else paper.file.parent / cell.recipe)
        return recipe.changed(_changes_of(cell))
    except (FileError, InputError) as error:
        raise FileError(f"{paper.file}: {cell.name}: {error}") from None


def _changes_of(cell: PaperCell) -> dict[str, Any]:
    """Return what a cell changes of its recipe, but for where the images are."""
    changes = {
        "model.source": cell.model,
        "data.split": cell.split if cell.splits_training else NO_SPLIT,
        "training.seed": cell.seed,
    }
    for section, table in cell.overrides.items():
        if isinstance(table, Mapping):
            changes |= {f"{section}.{key}": value for key, value in table.items()}
        else:
            changes[section] = table
    return changes


# --- what it is made with ------------------------------------------------------------------------


def _names_of(shift: Shift, places: Places, *, brief: bool = False) -> list[str]:
    """Return the sets of a shift, each by its whole name; in brief one name stands for all."""
    whole = f"folder:{places.links(shift)}" if shift.classes else places.images(shift.data)
    if brief and set(shift.parts) == set(product(CORRUPTED.get(shift.kind, ()), SEVERITIES)):
        return [whole]
    return [f"{whole}:{kind}-{severity}" for kind, severity in shift.parts] or [whole]


# --- what is there -------------------------------------------------------------------------------


def wanted_images(cells: Iterable[PaperCell]) -> dict[str, list[str]]:
    """Return every set of images that cells need, with the parts of it that they name."""
    wanted: dict[str, list[str]] = {}
    for cell in cells:
        for named in cell.images:
            wanted.setdefault(named, [])
        for shift in cell.shifts:
            parts = (f"{kind}-{severity}" for kind, severity in shift.parts)
            wanted[shift.data] = list(dict.fromkeys((*wanted[shift.data], *parts)))
    return wanted


def weights_here(source: str) -> bool | None:
    """Return whether a model's weights are in a cache or file here; None if that cannot be told."""
    kind, _, rest = source.partition(":")
    name = rest.partition("?")[0]
    if kind in ("checkpoint", "onnx") or (kind == "hf" and Path(name).expanduser().is_dir()):
        return Path(name).expanduser().exists()
    if kind == "hf" or (kind == "timm" and "." in name):
        with suppress(ImportError, ValueError):
            from huggingface_hub import try_to_load_from_cache

            owner = "timm/" if kind == "timm" and "/" not in name else ""
            found = (try_to_load_from_cache(f"{owner}{name}", file) for file in _WEIGHTS)
            return any(isinstance(one, str) for one in found)
    return None
