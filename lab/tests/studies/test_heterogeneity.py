"""Which number tells where routing gains: one that has a side, not the uncalibrated error."""

import numpy as np
import pytest

from signed_gap import correlations, models_of, scaled
from smallcal_lab.studies import study_named
from smallcal_lab.studies.simulate import World

pytest.importorskip("pyarrow", reason="studies keep their rows as Parquet")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What one simulated model shows as it is, and with logits that are too small."""
    root = tmp_path_factory.mktemp("models")
    (root / "shift").mkdir()
    world = World(n_classes=10, accuracy=0.75, structure=0.4)
    splits = {"val": world.draw(1000), "test": world.draw(1500, split="test")}
    arrays = {f"{name}_logits": rows.logits for name, rows in splits.items()}
    arrays |= {f"{name}_labels": rows.labels for name, rows in splits.items()}
    np.savez(root / "world__plain.npz", **arrays)
    for kind, severity in enumerate((1.0, 1.8, 2.6, 3.4, 4.2, 5.0)):
        rows = world.draw(1500, split="test", severity=severity)
        name = f"world__plain__kind{kind}-s1.npz"
        np.savez(root / "shift" / name, logits=rows.logits, labels=rows.labels)
    study = study_named("heterogeneity").with_options(methods=("none", "srts-bce"), n_boot=100)
    result = {}
    for scale in (1.0, 0.15):
        folder = tmp_path_factory.mktemp("scaled") / "data"
        collection = scaled(models_of(root), folder, scale)
        ((model, gap, *ranks),) = correlations(study, collection, folder / "run")
        assert model == "world plain"
        result[scale] = [gap, *(float(text.partition(" ")[0]) for text in ranks)]
    return result


def test_the_correlation_with_the_raw_error_has_the_sign_of_the_raw_gap(found):
    (gap, error, *_), (small_gap, small_error, *_) = found[1.0], found[0.15]
    assert gap > 0 > small_gap
    assert abs(error) > 0.7
    assert np.sign(error) == -np.sign(small_error)


def test_the_correlations_with_signed_gaps_do_not_turn(found):
    for place in (2, 3):
        one, two = (found[scale][place] for scale in (1.0, 0.15))
        assert abs(one) > 0.7
        assert np.sign(one) == np.sign(two)
