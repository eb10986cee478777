"""A small collection of simulated models with shifted sets, for the pictures of studies.

Two models whose truth is known, two seeds each; `corrupt` makes the shifted sets of the test
samples, so that they are paired. Nothing here is a claim about real models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal_lab.studies import Collection, import_folder
from smallcal_lab.studies.simulate import World

Array = NDArray[Any]

N_CLASSES, N_CAL, N_TEST = 20, 1_000, 2_000
SEEDS, SEVERITIES = (0, 1), (1, 2, 3)
MODELS: dict[str, dict[str, float]] = {
    "structured": {"accuracy": 0.75, "temperature": 1.5, "structure": 0.5},
    "plain": {"accuracy": 0.8, "temperature": 1.4, "structure": 0.0},
}

#: What a step of severity does to logits; the second argument is noise of their shape.
CORRUPTIONS: dict[str, Callable[[Array, Array, int], Array]] = {
    "noise": lambda z, noise, s: z + 0.6 * s * noise,
    "loudness": lambda z, noise, s: (1 + 0.15 * s) * z,
    "fading": lambda z, noise, s: (1 - 0.12 * s) * z,
    "clipping": lambda z, noise, s: np.clip(z, None, np.quantile(z, 0.99 - 0.01 * s)),
    "bias": lambda z, noise, s: z + 0.5 * s * np.sin(np.arange(z.shape[1])),
    "gaps": lambda z, noise, s: np.where(noise > 2.6 - 0.4 * s, z.mean(), z),
    "bursts": lambda z, noise, s: z + 2 * s * (np.abs(noise) > 2) * noise,
}


def write_collection(folder: Path) -> Collection:
    """Write logits and `collection.toml`, and return the collection."""
    (folder / "shift").mkdir(parents=True)
    for name, options in MODELS.items():
        for seed in SEEDS:
            world = World(n_classes=N_CLASSES, seed=seed, **options)
            cal, test = world.draw(N_CAL), world.draw(N_TEST, split="test")
            splits = {"val": cal, "test": test}
            arrays = {f"{key}_logits": split.logits for key, split in splits.items()}
            arrays |= {f"{key}_labels": split.labels for key, split in splits.items()}
            stem = f"simulated__{name}-seed{seed}"
            np.savez(folder / f"{stem}.npz", **arrays)
            noise = np.random.default_rng(seed).normal(size=test.logits.shape)
            for kind, corrupt in CORRUPTIONS.items():
                for severity in SEVERITIES:
                    logits = corrupt(test.logits, noise, severity).astype(np.float32)
                    file = folder / "shift" / f"{stem}__{kind}-s{severity}.npz"
                    np.savez(file, logits=logits, labels=test.labels)
    return import_folder(folder, folder).collection
