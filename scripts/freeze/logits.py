"""The frozen logits: drawn once, kept as multiples of 1/32, read again as float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Data set and backbone.
Model = tuple[str, str]

SEEDS = (0, 1, 2)
N_CLASSES, N_FEWER = 20, 8

#: The model with corrupted sets, the plain one, and the first one with a few of its classes only,
#: as the paper's ImageNet-R and -A have 200 of 1,000.
STRUCTURED, PLAIN = ("simulated20", "structured"), ("simulated20", "plain")
FEWER = ("simulated8", "structured")
MODELS = (STRUCTURED, PLAIN, FEWER)

#: What smallcal_lab.studies.simulate.World is told, for each model: so inaccurate that every third
#: of every draw has errors, for without one a temperature has no optimum and nothing to agree on.
WORLDS = {
    STRUCTURED: {"accuracy": 0.6, "temperature": 1.5, "structure": 0.4},
    PLAIN: {"accuracy": 0.6, "temperature": 0.6, "structure": 0.0},
    FEWER: {"accuracy": 0.55, "temperature": 1.5, "structure": 0.4},
}
N_CAL = {STRUCTURED: 400, PLAIN: 400, FEWER: 160}
N_TEST = {STRUCTURED: 160, PLAIN: 400, FEWER: 200}

#: Corruptions of the test split, row by row, and a set of other samples with other labels.
KINDS, SEVERITIES = ("weakening", "noise", "dimming", "leaning"), (1, 2, 3, 4, 5)
ELSEWHERE, N_ELSEWHERE = "elsewhere", 200


@dataclass(frozen=True)
class Split:
    """Logits and labels."""

    logits: Array
    labels: Array

    def take(self, rows: Array) -> Split:
        """Return some rows."""
        return Split(self.logits[rows], self.labels[rows])


def file_of(model: Model, seed: int) -> str:
    """Return the name of a model's file."""
    dataset, backbone = model
    fewer = "-fewer" if dataset == FEWER[0] else ""
    return f"{backbone}{fewer}-seed{seed}.npz"


def read_logits(folder: Path, model: Model, seed: int) -> dict[str, Split]:
    """Return the splits of one model by name."""
    with np.load(folder / file_of(model, seed)) as arrays:
        names = [name.removesuffix("_logits") for name in arrays.files if name.endswith("_logits")]
        return {
            name: Split(
                arrays[f"{name}_logits"].astype(np.float64),
                arrays[f"{name}_labels"].astype(np.int64),
            )
            for name in names
        }


def write_logits(folder: Path) -> None:
    """Draw the logits from a world with known truth, and keep what corruptions are made from."""
    from smallcal_lab.studies.reproduce.frozen import PACKED

    arrays: dict[str, Array] = {}
    for model in MODELS:
        for seed in SEEDS:
            name = file_of(model, seed).removesuffix(".npz")
            for split, (logits, labels) in _drawn(model, seed):
                arrays[f"{name}/{split}_logits"] = _planes(logits)
                arrays[f"{name}/{split}_labels"] = labels.astype(np.uint8)
            if model == STRUCTURED:
                added = _added(seed).items()
                arrays |= {f"{name}/{kind}": _planes(step) for kind, step in added}
    np.savez_compressed(folder / PACKED, **arrays)


def _planes(values: Array) -> Array:
    """Return numbers in units of 1/32, their high bytes before their low ones: so they compress."""
    units = np.rint(values * 32).astype(np.int64) + 128 * 256
    return np.stack(np.divmod(units, 256)).astype(np.uint8)


def _world(model: Model, seed: int) -> Any:
    from smallcal_lab.studies.simulate import World

    return World(n_classes=N_CLASSES, seed=seed, **WORLDS[model])


def _drawn(model: Model, seed: int) -> Iterator[tuple[str, tuple[Array, Array]]]:
    """Yield the splits of a model that are drawn: name, logits and labels."""
    world = _world(model, seed)
    sizes = {"cal": N_CAL[model], "test": N_TEST[model]}
    if model == FEWER:
        for name, n in sizes.items():
            yield name, _few_classes(world.draw(4 * n, split=f"few {name}"), n)
        yield ELSEWHERE, _few_classes(_other_mix(world, 8 * N_ELSEWHERE), N_ELSEWHERE)
        return
    for name, n in sizes.items():
        drawn = world.draw(n, split=name)
        yield name, (drawn.logits, drawn.labels)
    if model == STRUCTURED:
        drawn = _other_mix(world, N_ELSEWHERE)
        yield ELSEWHERE, (drawn.logits, drawn.labels)


def _added(seed: int) -> dict[str, Array]:
    """Return what a step of severity adds to the test split, for corruptions that add something.

    Weakening goes in even steps to what the world shows at the highest severity; leaning adds to a
    class the same in every row.
    """
    n, world = N_TEST[STRUCTURED], _world(STRUCTURED, seed)
    clean, weakest = (world.draw(n, split="test", severity=s).logits for s in (0, SEVERITIES[-1]))
    noise, leaning = (
        np.random.default_rng([seed, KINDS.index(kind)]) for kind in ("noise", "leaning")
    )
    return {
        "weakening": (weakest - clean) / SEVERITIES[-1],
        "noise": 0.5 * noise.normal(size=clean.shape),
        "leaning": 0.4 * leaning.normal(size=N_CLASSES),
    }


def _other_mix(world: Any, n: int) -> Split:
    """Return n samples of elsewhere, a little weaker, low classes more frequent than high ones.

    All seeds meet the same samples there, as in the test split.
    """
    drawn = world.draw(4 * n, split=ELSEWHERE, severity=2)
    luck = np.random.default_rng(99).random(4 * n)
    kept = np.flatnonzero(luck < 1 / (1 + 0.3 * drawn.labels))[:n]
    return Split(drawn.logits, drawn.labels).take(kept)


def _few_classes(drawn: Any, n: int) -> tuple[Array, Array]:
    """Return the first n samples of the first classes, with these classes' columns alone."""
    rows = np.flatnonzero(drawn.labels < N_FEWER)[:n]
    assert len(rows) == n, "draw more"
    return drawn.logits[rows, :N_FEWER], drawn.labels[rows]


def description() -> str:
    """Return collection.toml."""
    lines = ['name = "frozen"']
    for dataset, backbone in MODELS:
        for seed in SEEDS:
            file = file_of((dataset, backbone), seed)
            lines += [
                "",
                "[[cell]]",
                f'dataset = "{dataset}"',
                f'backbone = "{backbone}"',
                f"seed = {seed}",
                f'calibration = "{file}:cal"',
                f'test = "{file}:test"',
            ]
            if (dataset, backbone) == STRUCTURED:
                for kind in KINDS:
                    for severity in SEVERITIES:
                        lines += _shift(kind, severity, f"{file}:{kind}{severity}", "true")
            if (dataset, backbone) != PLAIN:
                lines += _shift(ELSEWHERE, 0, f"{file}:{ELSEWHERE}", "false")
    return "\n".join(lines) + "\n"


def _shift(kind: str, severity: int, file: str, paired: str) -> list[str]:
    return [
        "",
        "[[cell.shift]]",
        f'kind = "{kind}"',
        f"severity = {severity}",
        f'file = "{file}"',
        f"paired = {paired}",
    ]
