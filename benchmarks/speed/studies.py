"""Tasks of the budget study against their fits alone, and SMART against its plain descent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ratio import Ratio, logits, timed
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import network
from smallcal.calibrators.maps.base import Split, loss_and_slope
from smallcal.calibrators.maps.temperature import fit_temperature
from smallcal.calibrators.objectives import Gaps, objective
from smallcal.data.predictions import Predictions
from smallcal_lab.studies import study_named
from smallcal_lab.studies.collection import collection_of
from smallcal_lab.studies.engine import work
from smallcal_lab.studies.probes import Site

#: Classes of the models, and samples to draw from and to test on.
MODELS, N_VAL, N_TEST = (10, 100), 3_000, 5_000
BUDGETS = (250, 1250)
TURNS = 3


def rows() -> Iterator[Ratio]:
    study = study_named("budget").with_options(budgets=BUDGETS, draws=1)
    with tempfile.TemporaryDirectory() as name:
        collection = _collection(Path(name))
        _fit_all(study.with_options(budgets=BUDGETS[:1]), collection)  # load what is loaded once
        turns = [
            (
                timed(lambda: _do_tasks(study, collection)),
                timed(lambda: _fit_all(study, collection)),
            )
            for _ in range(TURNS)
        ]
    what = "`study budget`, four tasks of 10 and 100 classes"
    yield Ratio.of(what, "their fits alone", *np.array(turns).T, 2.0)
    split = _split(1_250, 100)
    turns = [
        (timed(lambda: network.fit_smart(split)), timed(lambda: _plain_descent(split, epochs=2000)))
        for _ in range(TURNS)
    ]
    what = "SMART, 1,250 x 100"
    yield Ratio.of(what, "the kernel at each step", *np.array(turns).T, 1 / 2.5)


def _collection(folder):
    cells = []
    for n_classes in MODELS:
        parts = {}
        for seed, (part, n) in enumerate((("val", N_VAL), ("test", N_TEST))):
            parts[f"{part}_logits"], parts[f"{part}_labels"] = logits(n, n_classes, seed=seed)
        np.savez(folder / f"{n_classes}.npz", **parts)
        files = {"calibration": f"{n_classes}.npz:val", "test": f"{n_classes}.npz:test"}
        cells.append({"dataset": f"classes{n_classes}", "backbone": "drawn", **files})
    return collection_of({"cell": cells}, folder, source=str(folder))


def _fit_all(study, collection):
    """Fit what a run fits, and do nothing else."""
    for cell in collection.cells:
        for budget in study.budgets:
            site = Site(study, cell, cell.draw(budget, 0))
            for entry in study.entries:
                site.fit(entry)


def _do_tasks(study, collection):
    """Do what a process of a run does: read, draw, fit, apply and measure."""
    for task in study.tasks(collection):
        work(study, frozenset(), (collection.cell(task.cell), task))


def _split(n, n_classes):
    preds, care = Predictions.of(*logits(n, n_classes)), Discipline(seed=0)
    gaps, goal = Gaps.of(preds), objective("bce")
    pooled = fit_temperature(goal, gaps, bounds=care.bounds)
    scores = (gaps.best.mean() - gaps.best) / gaps.best.std()
    return Split(preds, gaps, goal, pooled, scores, care)


def _plain_descent(split, epochs):
    """Take SMART's steps with an exponential for each sample and class at each of them."""
    scores = np.sort(split.scores)
    gaps = split.gaps.take(np.argsort(split.scores))
    theta = network._first_weights(split, 16)
    adam = network.Adam([theta], rate=5e-3)

    def loss_at(temperature):
        return loss_and_slope(split.goal, gaps, temperature)

    for _ in range(epochs):
        adam.step([network._loss_and_gradient(loss_at, scores, theta)[1]])
