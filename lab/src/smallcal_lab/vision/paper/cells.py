"""The cells of a paper: which models there are, how each is made, what its logits are taken of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from smallcal.errors import InputError, choose
from smallcal_lab.corruption_names import EXTRA, STANDARD

#: The paper's own cells.
PAPER = Path(__file__).parent / "paper.toml"

#: What its numbers are called, which come with smallcal.
THE_PAPER = "paper"

#: Kinds of images that have corruptions as parts, with those that the paper takes.
CORRUPTED = {
    "cifar10-c": STANDARD + EXTRA,
    "cifar100-c": STANDARD + EXTRA,
    "imagenet-c": STANDARD,
}


@dataclass(frozen=True)
class Shift:
    """Shifted test images.

    Attributes
    ----------
    data : str
        ``KIND:FOLDER`` or ``KIND:FOLDER:PART``.
    parts : tuple
        Corruptions with their severities, where ``data`` names all of them; else none.
    classes : str
        Images whose classes are the only ones taken, as the model has no others; empty for all.
    images : int
        How many there are, where the file says; else 0.
    """

    data: str
    parts: tuple[tuple[str, int], ...] = ()
    classes: str = ""
    images: int = 0

    @property
    def kind(self) -> str:
        """What a collection calls it."""
        return self.data.partition(":")[0]


@dataclass(frozen=True)
class PaperCell:
    """One model: a data set, a backbone, a seed; keys as in the file.

    Attributes
    ----------
    dataset, backbone : str
    seed : int
    model : str
        As ``open_model`` takes it.
    recipe : str
        How it is trained; empty for weights as they are published.
    overrides : dict
        What the cell changes of the recipe.
    train, calibration, test : str
        Images; ``calibration`` is empty where a split gives it.
    split : str
        A rule of ``split_images``: of the training images if it leaves some to train on, else of
        the test images.
    shifts : tuple of Shift
    whole_shifts : bool
        Whether shifted sets keep the twins of calibration images.
    corrupt : tuple
        Corruptions of the test images that are made, with their severities.
    corrupt_images : int
        How many test images are corrupted; 0 for all.
    draw : tuple of str
        How a study draws from the calibration split, as in a collection.
    test_is : str
        What shifted set the test images are, if they are one.
    unprinted : str
        Why no printed number is of this model.
    """

    dataset: str
    backbone: str
    seed: int
    model: str
    test: str
    recipe: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    train: str = ""
    calibration: str = ""
    split: str = ""
    shifts: tuple[Shift, ...] = ()
    whole_shifts: bool = False
    corrupt: tuple[tuple[str, int], ...] = ()
    corrupt_images: int = 0
    draw: tuple[str, ...] = ()
    test_is: str = ""
    unprinted: str = ""

    @property
    def name(self) -> str:
        """What it is called: ``cifar100/vit-b16/seed0``."""
        return f"{self.dataset}/{self.backbone}/seed{self.seed}"

    @property
    def key(self) -> str:
        """The same for a file or a folder, as collections write it."""
        return f"{self.dataset}__{self.backbone}__s{self.seed}"

    @property
    def splits_training(self) -> bool:
        """Whether the split is one of the training images."""
        return "%" in self.split

    @property
    def split_seed(self) -> int:
        """What the split is drawn with: seeds of a model that is not trained are those of it."""
        return 0 if self.recipe else self.seed

    @property
    def images(self) -> tuple[str, ...]:
        """Every set of images that it needs."""
        named = [self.train, self.calibration, self.test]
        named += [one for shift in self.shifts for one in (shift.data, shift.classes)]
        return tuple(dict.fromkeys(filter(None, named)))


@dataclass(frozen=True)
class Elsewhere:
    """A model that the file names and cannot make."""

    dataset: str
    backbone: str
    seed: int
    reason: str

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.dataset}/{self.backbone}/seed{self.seed}"


@dataclass(frozen=True)
class Paper:
    """All cells of a file.

    Attributes
    ----------
    name : str
    cells : tuple of PaperCell
    elsewhere : tuple of Elsewhere
    images : dict
        How many images sets have, as far as the file says.
    file : Path
    reference : str
        The printed numbers to compare with: "paper", a file, or none.
    """

    name: str
    cells: tuple[PaperCell, ...]
    elsewhere: tuple[Elsewhere, ...]
    images: Mapping[str, int]
    file: Path
    reference: str = ""

    def only(self, wanted: Sequence[str]) -> tuple[PaperCell, ...]:
        """Return the cells of these names, or of their first parts; all for none.

        Examples
        --------
        >>> from smallcal_lab.vision import load_paper
        >>> paper = load_paper()
        >>> [cell.name for cell in paper.only(["imagenet1k/vit-b16", "cifar10*/deit-s/seed0"])]
        ['cifar100/deit-s/seed0', 'cifar10/deit-s/seed0', 'imagenet1k/vit-b16/seed0']
        >>> paper.only(["cifar100/vit-b61"])
        Traceback (most recent call last):
        ...
        smallcal.errors.InputError: no cell is called 'cifar100/vit-b61'; did you mean ...
        """
        if not wanted:
            return self.cells
        found = {}
        for text in wanted:
            own = [cell for cell in self.cells if _is_called(text, cell.name)]
            if not own:
                raise InputError(self._unknown(text))
            found.update({cell.name: cell for cell in own})
        return tuple(cell for cell in self.cells if cell.name in found)

    def _unknown(self, text: str) -> str:
        for other in self.elsewhere:
            if _is_called(text, other.name):
                return f"{other.name} is not made here: {other.reason}"
        names = [name for cell in self.cells for name in _heads(cell.name)]
        depth = text.strip("/").count("/")
        like = dict.fromkeys(name for name in names if name.count("/") == depth)
        said = choose(text, like or dict.fromkeys(names))
        return f"no cell is called {text!r}; {said}"


def _heads(name: str) -> list[str]:
    words = name.split("/")
    return ["/".join(words[:n]) for n in range(1, len(words) + 1)]


def _is_called(text: str, name: str) -> bool:
    return any(fnmatchcase(head, text.strip("/")) for head in _heads(name))
