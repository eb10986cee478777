"""Agreement with other libraries' implementations of the same definitions."""

import warnings

import numpy as np
import pytest

from smallcal.metrics import ece, smece

SHAPES = [(50, 3), (2_000, 10), (20_000, 100)]


def peer(name):
    """Import another library, or skip; what its own imports warn of is not ours to fail on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"compares with {name.partition('.')[0]}")


def top(y_true, y_proba):
    return y_proba.max(axis=1), (y_proba.argmax(axis=1) == y_true).astype(np.float64)


@pytest.mark.parametrize(("n", "n_classes"), SHAPES)
def test_ece_agrees_with_torchmetrics(n, n_classes, softmax_case):
    torch = peer("torch")
    torchmetrics = peer("torchmetrics.functional.classification")
    y_true, y_proba = softmax_case(n, n_classes)
    theirs = torchmetrics.multiclass_calibration_error(
        torch.from_numpy(y_proba), torch.from_numpy(y_true), n_classes, n_bins=15, norm="l1"
    )
    assert ece(y_true, y_proba) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize(("n", "n_classes"), SHAPES)
def test_ece_agrees_with_netcal(n, n_classes, softmax_case):
    y_true, y_proba = softmax_case(n, n_classes)
    theirs = peer("netcal.metrics").ECE(bins=15).measure(y_proba, y_true)
    assert ece(y_true, y_proba) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize(("n", "n_classes"), SHAPES)
def test_ece_agrees_with_relplot(n, n_classes, softmax_case):
    y_true, y_proba = softmax_case(n, n_classes)
    theirs = peer("relplot.metrics").binnedECE(*top(y_true, y_proba), nbins=15)
    assert ece(y_true, y_proba) == pytest.approx(float(theirs), abs=1e-6)


def nasty(kind, n):
    """Confidences and hits that strain the released estimator's grid."""
    rng = np.random.default_rng(n)
    confidence = rng.uniform(0.2, 1, n)
    if kind == "many_ones":
        confidence[rng.random(n) < 0.5] = 1.0
    elif kind == "all_ones":
        confidence[:] = 1.0
    elif kind == "coarse":
        confidence = np.round(confidence, 1)
    elif kind == "near_one":
        confidence = 1 - 10 ** rng.uniform(-17, -1, n)
    elif kind == "constant":
        confidence[:] = 0.5
    chance = {"all_right": 1.0, "all_wrong": 0.0, "reversed": 1.2 - confidence}
    return confidence, rng.random(n) < chance.get(kind, confidence)


@pytest.mark.parametrize("n", [1, 2, 3, 20, 500, 50_000])
@pytest.mark.parametrize(
    "kind",
    [
        "calibrated",
        "many_ones",
        "all_ones",
        "coarse",
        "near_one",
        "constant",
        "all_right",
        "all_wrong",
        "reversed",
    ],
)
def test_smece_agrees_with_the_released_estimator(kind, n, pairs):
    y_true, y_proba = pairs(*nasty(kind, n))
    theirs = peer("relplot").smECE(*top(y_true, y_proba))
    assert smece(y_true, y_proba) == pytest.approx(float(theirs), abs=1e-9)


@pytest.mark.parametrize("sharpness", [0.5, 3.0, 20.0])
def test_smece_agrees_with_the_released_estimator_on_a_model(sharpness, softmax_case):
    y_true, y_proba = softmax_case(3_000, 20, sharpness=sharpness)
    theirs = peer("relplot").smECE(*top(y_true, y_proba))
    assert smece(y_true, y_proba) == pytest.approx(float(theirs), abs=1e-9)
