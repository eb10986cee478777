"""Studies on cells whose rows are one number: draws, the scale of the split, and the tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import log_loss

import smallcal as sc
from smallcal.errors import InputError
from smallcal_lab.studies import check_collection, study_named
from smallcal_lab.studies.engine import measure
from smallcal_lab.studies.importers import import_folder
from smallcal_lab.studies.portions import draw_rows
from smallcal_lab.studies.study import Task
from support.judged import confidences, marks
from support.real import data_folder

pytest.importorskip("pyarrow", reason="runs are kept as Parquet: pip install 'smallcal[parquet]'")


def standardised(scores: np.ndarray, split: np.ndarray) -> np.ndarray:
    return (scores - split.mean()) / split.std()


def log_odds(scores: np.ndarray, _: np.ndarray) -> np.ndarray:
    held = np.clip(scores, 1e-6, 1 - 1e-6)
    return np.log(held / (1 - held))


#: Sets by name: how they are drawn, and what becomes of a score beside those of a split.
SETS = {"judge__a": (marks, standardised), "model__b": (confidences, log_odds)}


@pytest.fixture
def collection(tmp_path):
    """Two sets: marks, and confidences with ties."""
    for name, (drawn, _) in SETS.items():
        (s, y), (t, u) = drawn(120, 0), drawn(150, 1)
        arrays = {"val_scores": s, "val_outcomes": y, "test_scores": t, "test_outcomes": u}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    return import_folder(tmp_path, tmp_path).collection


def test_equal_scores_are_no_leak(collection):
    assert check_collection(collection) == []


def test_rows_equal_fits_on_two_columns_by_hand(collection):
    study = study_named("scores").with_options(budgets=(30,), draws=1, methods=("platt", "none"))
    for cell, (drawn, scaled) in zip(collection.cells, SETS.values(), strict=True):
        (s, y), (t, u) = drawn(120, 0), drawn(150, 1)
        x, z = (np.column_stack([0 * v, scaled(v, s)]) for v in (s, t))
        np.testing.assert_allclose(cell.read("test").logits, z)
        rows = draw_rows(y, 30, seed=0, draw=0)
        found = {
            row["label"]: row["value"]
            for row in measure(study, cell, Task(cell.name, 30, 0))[0]
            if row["metric"] == "nll"
        }
        assert set(found) == {"spline", "platt", "none"}
        for name, value in found.items():
            proba = sc.Calibrator(method=name).fit(x[rows], y[rows]).predict_proba(z)
            assert value == pytest.approx(log_loss(u, proba[:, 1]), rel=1e-9), name


def test_the_study_runs_from_the_shell(collection, cli, tmp_path_factory):
    run = tmp_path_factory.mktemp("out") / "run"
    code, out, err = cli(
        *("study", "scores", str(collection.folder), "--out", str(run)),
        *("--budgets", "30", "--draws", "1", "--n-boot", "100", "--methods", "none,platt"),
    )
    assert (code, err) == (0, "")
    assert "Differences from spline" in out


def test_classes_cannot_be_chosen_of_scores(collection):
    cell = replace(collection.cells[0], classes=(0, 1))
    with pytest.raises(InputError, match="no columns to choose from"):
        cell.read("calibration")


@pytest.mark.skipif(
    data_folder() is None or not (data_folder() / "scores").is_dir(),
    reason="needs scores/ in the folder that SMALLCAL_DATA names",
)
def test_on_real_scores_the_default_is_ahead_of_the_raw_score_and_of_isotonic(tmp_path):
    study = study_named("scores").with_options(
        budgets=(100,), draws=1, methods=("none", "isotonic")
    )
    found: dict[tuple[str, str], list[float]] = {}
    for cell in import_folder(data_folder() / "scores", tmp_path).collection.cells:
        for row in measure(study, cell, Task(cell.name, 100, 0))[0]:
            found.setdefault((row["label"], row["metric"]), []).append(row["value"])
    for metric in ("nll", "brier", "ece15"):
        for other in ("none", "isotonic"):
            assert np.mean(found["spline", metric]) < np.mean(found[other, metric]), metric
