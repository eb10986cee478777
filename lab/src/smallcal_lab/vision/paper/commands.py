"""The commands that a cell is made with, one for each step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from smallcal_lab.corruption_names import EXTRA, SEVERITIES, STANDARD
from smallcal_lab.toml import toml_value
from smallcal_lab.vision.models.model import checkpoint_of
from smallcal_lab.vision.paper.cells import CORRUPTED, PaperCell, Shift
from smallcal_lab.vision.paper.work import Places, Work, changes_of

Words = tuple[str, ...]


def commands_of(work: Work, places: Places) -> Iterator[Words]:
    """Yield the commands that do what a run of the cell does.

    Examples
    --------
    >>> from pathlib import Path
    >>> from smallcal_lab.vision.paper.file import load_paper
    >>> from smallcal_lab.vision.paper.work import work_of
    >>> paper, places = load_paper(), Places(Path("data"), Path("out"))
    >>> work = work_of(paper.only(["cifar100/deit-s/seed0"])[0], paper, places)
    >>> for words in commands_of(work, places):
    ...     print(*words)
    smallcal train paper-adamw -o out/runs/cifar100__deit-s__s0 ...
    smallcal logits checkpoint:out/runs/cifar100__deit-s__s0/last.pt cifar100:data/cifar100:test ...
    """
    if work.recipe is not None:
        yield _train(work, places)
    yield _logits(work, places)


def _train(work: Work, places: Places) -> Words:
    cell = work.cell
    changes = {"data.source": places.images(cell.train), **changes_of(cell)}
    settings = (
        word for key, value in changes.items() for word in ("--set", f"{key}={_said(value)}")
    )
    recipe = work.recipe.source if work.recipe else cell.recipe
    return ("smallcal", "train", recipe, "-o", str(places.run(cell)), *settings)


def _said(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value)


def model_of(work: Work, places: Places) -> str:
    """Return the model whose logits are taken."""
    if work.recipe is None:
        return work.cell.model
    return checkpoint_of(places.run(work.cell) / "last.pt", work.recipe.model.source)


def calibration_split(cell: PaperCell, places: Places) -> str:
    """Return the split that says which training images calibrate; nothing if none does."""
    return str(places.run(cell) / "split.json") if cell.splits_training else ""


def parts_of(shift: Shift, places: Places) -> list[str]:
    """Return the sets of a shift, each by its whole name.

    Examples
    --------
    >>> parts_of(Shift("cifar10-c:c", (("fog", 1), ("fog", 5))), Places())
    ['cifar10-c:c:fog-1', 'cifar10-c:c:fog-5']
    """
    whole = places.shift(shift)
    return [f"{whole}:{kind}-{severity}" for kind, severity in shift.parts] or [whole]


def _logits(work: Work, places: Places) -> Words:
    cell = work.cell
    words = ["smallcal", "logits", model_of(work, places), places.images(cell.test)]
    words += ["-o", str(places.logits)]
    words += ["--dataset", cell.dataset, "--backbone", cell.backbone, "--seed", str(cell.seed)]
    if cell.splits_training:
        words += ["--calibration", places.images(cell.train)]
        words += ["--calibration-split", calibration_split(cell, places)]
    elif cell.split:
        words += ["--split", cell.split]
        words += ["--split-seed", str(cell.split_seed)] if cell.split_seed else []
    else:
        words += ["--calibration", places.images(cell.calibration)]
    for shift in cell.shifts:
        usual = set(shift.parts) == set(product(CORRUPTED.get(shift.kind, ()), SEVERITIES))
        named = [places.shift(shift)] if usual else parts_of(shift, places)
        words += [word for one in named for word in ("--shift", one)]
    words += ["--whole-shifts"] if cell.whole_shifts else []
    return (*words, *_corrupt(cell))


def _corrupt(cell: PaperCell) -> Words:
    if not cell.corrupt:
        return ()
    kinds = tuple(dict.fromkeys(kind for kind, _ in cell.corrupt))
    severities = tuple(dict.fromkeys(severity for _, severity in cell.corrupt))
    named = "all" if set(kinds) == {*STANDARD, *EXTRA} else ",".join(kinds)
    levels = "1-5" if severities == SEVERITIES else ",".join(map(str, severities))
    some = ("--corrupt-images", str(cell.corrupt_images)) if cell.corrupt_images else ()
    seed = ("--corrupt-seed", str(cell.seed)) if cell.seed else ()
    return ("--corrupt", named, "--severity", levels, *seed, *some)
