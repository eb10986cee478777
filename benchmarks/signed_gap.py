"""Does the raw error tell where routing gains? `python benchmarks/signed_gap.py FOLDER`.

FOLDER holds .npz files as `smallcal study import` reads them, with shifted sets in `shift/`. The
study `heterogeneity` runs on the models with enough corruptions, once as they are and once with
all logits times --scale: the same models to any method that fits a temperature, and raw models
that err on the other side. Prints each model's mean signed gap, and the rank correlation of the
gains of SRTS over one temperature with three columns: the numbers in docs/lab/studies.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from smallcal_lab.plots.points import AGAINST, corruption_gain_data
from smallcal_lab.studies import import_folder, run, study_named
from smallcal_lab.studies.tables.shift import rank_words

#: Fewer corruptions have no interval of a rank correlation.
ENOUGH = 4


def models_of(folder):
    """Return the files of each model that has enough corruptions."""
    found = {}
    for file in sorted(folder.glob("*.npz")):
        shifted = sorted((folder / "shift").glob(f"{file.stem}__*.npz"))
        if len({path.stem.rpartition("-s")[0] for path in shifted}) >= ENOUGH:
            found[file] = shifted
    return found


def scaled(models, folder, scale):
    """Write the models with all logits times a number, and return their collection."""
    (folder / "shift").mkdir(parents=True)
    for file, shifted in models.items():
        for path, to in ((file, folder), *((path, folder / "shift") for path in shifted)):
            with np.load(path) as arrays:
                kept = {name: arrays[name] for name in arrays.files}
            for name in kept:
                if name.endswith("logits"):
                    kept[name] = np.float32(scale) * kept[name]
            np.savez(to / path.name, **kept)
    return import_folder(folder, folder).collection


def correlations(study, collection, out):
    """Return each model's raw gap, and the rank correlation of its gains with each x."""
    frame = run(study, collection, out).frame
    found = {against: corruption_gain_data((study, frame), against=against) for against in AGAINST}
    rows = []
    for models in zip(*(each.models for each in found.values()), strict=True):
        gap = models[list(AGAINST).index("raw_gap")].x.mean()
        rows.append((models[0].model, gap, *(rank_words(*model.rank) for model in models)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=0.15)
    given = parser.parse_args()
    models = models_of(given.folder)
    if not models:
        print(f"no model in {given.folder} has {ENOUGH} corruptions or more", file=sys.stderr)
        return 2
    study = study_named("heterogeneity").with_options(methods=("none", "srts-bce"))
    print("| model | logits | raw gap | raw error | raw gap | gap of one temperature |")
    print("|---|---|---|---|---|---|")
    for scale in (1.0, given.scale):
        with tempfile.TemporaryDirectory() as folder:
            collection = scaled(models, Path(folder) / "data", scale)
            for model, gap, *ranks in correlations(study, collection, Path(folder) / "run"):
                print(f"| {model} | x {scale:g} | {gap:+.1f} | {' | '.join(ranks)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
