"""A collection with every model, seed, size and set that reference values speak of.

Its logits are noise, and the files are few: it is there to ask which values could be checked if
all logits were at hand, not to be run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from smallcal_lab.studies import Cell, Collection
from smallcal_lab.studies.collection import ShiftSet
from smallcal_lab.studies.reproduce.reference import EXTRA, SEVERITIES, STANDARD, Reference, Value

#: Sets that are no corruptions.
NATURAL = ("imagenet-v2", "imagenet-r", "imagenet-a")


def perfect_collection(folder: Path, reference: Reference) -> Collection:
    """Write a file for each size of a calibration split, and return the cells."""
    models: dict[tuple[str, str], list[Value]] = {}
    for value in reference.values:
        for backbone in value.backbones:
            models.setdefault((value.dataset, backbone), []).append(value)
    cells: list[Cell] = []
    for (dataset, backbone), values in models.items():
        if dataset != "all":
            cells += _cells(folder, dataset, backbone, values)
    return Collection("perfect", tuple(cells), folder)


def _cells(folder: Path, dataset: str, backbone: str, values: list[Value]) -> list[Cell]:
    size = max(_size(value, backbone) for value in values)
    # Where all are of draws, there is more to draw from.
    size *= 2 if all(v.draws for v in values if _size(v, backbone) == size) else 1
    split = f"{size}.npz"
    if not (folder / split).exists():
        rng = np.random.default_rng(0)
        logits, features = rng.normal(size=(size, 3)), rng.normal(size=(size, 2))
        labels = rng.integers(3, size=size)
        np.savez(folder / split, logits=logits, labels=labels, features=features)
    kinds = STANDARD if dataset.startswith("imagenet") else STANDARD + EXTRA
    shifts = [ShiftSet(kind, level, split, paired=True) for kind in kinds for level in SEVERITIES]
    shifts += [ShiftSet(kind, 0, split) for kind in NATURAL]
    seeds = {seed for value in values for seed in value.seeds_of(backbone) or (0,)}
    return [
        Cell(dataset, backbone, seed, split, split, tuple(shifts), folder) for seed in sorted(seeds)
    ]


def _size(value: Value, backbone: str) -> int:
    budget = value.budget
    return (budget.get(backbone) if isinstance(budget, Mapping) else budget) or 1
