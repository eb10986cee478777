"""What a cell is to be made of: a run of training, sets of images, the folders of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smallcal.errors import FileError, InputError, SmallcalError
from smallcal_lab.vision.images import HUB, open_images
from smallcal_lab.vision.paper.cells import Paper, PaperCell, Shift
from smallcal_lab.vision.training.recipe import NO_SPLIT, Recipe, read_recipe, recipe_names

#: Folders below the one that is written: runs of training, logits, and what is linked to.
RUNS, LOGITS, LINKS = "runs", "logits", "links"


@dataclass(frozen=True)
class Places:
    """Where images are and where results go.

    Attributes
    ----------
    data : Path
        Folders of images are below it.
    out : Path
        Results are below it.
    """

    data: Path = Path()
    out: Path = Path("paper")

    def images(self, named: str) -> str:
        """Return images as ``open_images`` takes them.

        Examples
        --------
        >>> Places(Path("data")).images("cifar100:cifar100:test")
        'cifar100:data/cifar100:test'
        """
        kind, _, rest = named.partition(":")
        return named if kind == HUB else f"{kind}:{self.data / Path(rest).expanduser()}"

    def shift(self, shift: Shift) -> str:
        """Return a shifted set, which may be a folder of links."""
        if not shift.classes:
            return self.images(shift.data)
        return f"folder:{self.links(shift)}"

    def links(self, shift: Shift) -> Path:
        """Return the folder of links to the classes of a shifted set that are wanted."""
        named = shift.classes.replace(":", "-").replace("/", "-").replace("\\", "-")
        return self.out / LINKS / named / shift.kind

    def run(self, cell: PaperCell) -> Path:
        """Return the folder of a cell's training."""
        return self.out / RUNS / cell.key

    @property
    def logits(self) -> Path:
        """The collection."""
        return self.out / LOGITS


@dataclass(frozen=True)
class Work:
    """How much there is to do for a cell; numbers of images are None where they are not known.

    Attributes
    ----------
    cell : PaperCell
    recipe : Recipe or None
        As the cell changes it.
    trained : int
        Images of an epoch; 0 where nothing is trained.
    calibration, test : int
        Images that logits are taken of; those of a split that is drawn later are all in ``test``.
    shifts : dict
        Sets by kind: how many there are, and images of each.
    """

    cell: PaperCell
    recipe: Recipe | None
    trained: int | None
    calibration: int | None
    test: int | None
    shifts: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Epochs of its training."""
        return self.recipe.training.epochs if self.recipe else 0

    @property
    def steps(self) -> int | None:
        """Images that training sees, all epochs together."""
        return None if self.trained is None else self.trained * self.epochs

    @property
    def seen(self) -> int | None:
        """Images that logits are taken of."""
        each = [self.calibration, self.test]
        each += [None if n is None else many * n for many, n in self.shifts.values()]
        known = [n for n in each if n is not None]
        return sum(known) if len(known) == len(each) else None

    @property
    def begins_pretrained(self) -> bool:
        """Whether published weights are needed."""
        return self.recipe is None or self.recipe.model.pretrained


def work_of(cell: PaperCell, paper: Paper, places: Places) -> Work:
    """Return what there is to do for a cell.

    Raises
    ------
    FileError
        If its recipe cannot be used.

    Examples
    --------
    >>> from smallcal_lab.vision.paper.file import load_paper
    >>> paper = load_paper()
    >>> work = work_of(paper.cells[0], paper, Places(Path("nowhere")))
    >>> work.trained, work.epochs, work.calibration, work.test, work.shifts
    (47500, 100, 2500, 10000, {'cifar100-c': (95, 10000)})
    """
    count = _Counts(paper, places)
    recipe = recipe_of_cell(cell, paper)
    trained: int | None = count(cell.train) if cell.train else 0
    calibration: int | None = 0
    if cell.splits_training:
        trained, calibration = _shares(cell.split, trained)
    test = count(cell.test)
    shifts: dict[str, tuple[int, int | None]] = {
        shift.kind: (len(shift.parts) or 1, count.shifted(shift)) for shift in cell.shifts
    }
    if cell.corrupt:
        # Those of a test set that a rule makes smaller are as many less; nobody plans by that.
        made = test if test is None else min(test, cell.corrupt_images or test)
        shifts["corrupted here"] = (len(cell.corrupt), made)
    if cell.calibration:
        calibration = count(cell.calibration)
    return Work(cell, recipe, trained, calibration, test, shifts)


def _shares(rule: str, images: int | None) -> tuple[int | None, int | None]:
    """Return how many images a split leaves to train on and to calibrate on.

    Examples
    --------
    >>> _shares("5%", 50_000), _shares("5%+10%", 50_000)
    ((47500, 2500), (4750, 2500))
    """
    if images is None:
        return None, None
    shares = [float(share.rstrip("%")) / 100 for share in rule.split("+")]
    taken = round(shares[0] * images)
    rest = images - taken
    return (round(shares[1] * rest) if len(shares) > 1 else rest), taken


@dataclass(frozen=True)
class _Counts:
    """How many images sets have: what the file says, else what is there."""

    paper: Paper
    places: Places

    def __call__(self, named: str) -> int | None:
        if named in self.paper.images:
            return self.paper.images[named]
        try:
            return len(open_images(self.places.images(named)))
        except SmallcalError:
            return None

    def shifted(self, shift: Shift) -> int | None:
        """Return the images of each part of a shifted set."""
        if shift.parts and shift.data not in self.paper.images:
            return self(f"{shift.data}:{shift.parts[0][0]}-{shift.parts[0][1]}")
        return shift.images or self(shift.data)


def recipe_of_cell(cell: PaperCell, paper: Paper) -> Recipe | None:
    """Return a cell's recipe with its changes; None where nothing is trained.

    Raises
    ------
    FileError
        If there is no such recipe, or it cannot be changed so.
    """
    if not cell.recipe:
        return None
    named: str | Path = cell.recipe
    if cell.recipe not in recipe_names():
        named = paper.file.parent / cell.recipe
    try:
        return read_recipe(named).changed(changes_of(cell))
    except (FileError, InputError) as error:
        raise FileError(f"{paper.file}: {cell.name}: {error}") from None


def changes_of(cell: PaperCell) -> dict[str, Any]:
    """Return what a cell changes of its recipe, but for where the images are.

    Examples
    --------
    >>> from smallcal_lab.vision.paper.file import load_paper
    >>> changes_of(load_paper().cells[1])
    {'model.source': 'timm:vit_base_patch16_224.augreg_in21k_ft_in1k', 'data.split': '5%',
     'training.seed': 1}
    """
    own = {
        f"{section}.{key}" if isinstance(table, Mapping) else section: value
        for section, table in cell.overrides.items()
        for key, value in (table.items() if isinstance(table, Mapping) else [("", table)])
    }
    return {
        "model.source": cell.model,
        "data.split": cell.split if cell.splits_training else NO_SPLIT,
        "training.seed": cell.seed,
        **own,
    }
