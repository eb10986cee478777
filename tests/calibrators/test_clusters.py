"""Fits of samples in clusters: folds keep them together, and clusters of one change nothing."""

import warnings

import numpy as np
import pytest

import smallcal as sc
from smallcal.calibrators.maps import loglinear, multinomial_fit
from smallcal.calibrators.signals import crossfit
from smallcal.errors import InputError
from support.simulated import simulate

#: Who draws the folds of each method.
FOLDS = {
    "default": (multinomial_fit, "assign_folds"),
    "srts-bce": (crossfit, "stratified_folds"),
    "vector-scaling": (loglinear, "class_folds"),
    "dirichlet-odir": (loglinear, "class_folds"),
}


def fitted(name, z, y, **given):
    made = sc.Calibrator() if name == "default" else sc.make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.FitWarning)
        return made.fit(z, y, **given)


@pytest.mark.parametrize("name", FOLDS)
def test_folds_keep_clusters_together(name, monkeypatch):
    z, y = simulate(400, 4)
    rng = np.random.default_rng(0)
    clusters = rng.permutation(np.repeat(np.arange(100, 180), 5))
    module, function = FOLDS[name]
    plain, drawn = getattr(module, function), []
    monkeypatch.setattr(module, function, lambda *args: drawn.append(plain(*args)) or drawn[-1])
    fitted(name, z, y)
    apart = drawn[-1]
    drawn.clear()
    fitted(name, z, y, clusters=[f"patient {each}" for each in clusters])
    whole = next(fold for fold in drawn if len(fold) == 400)
    pairs = [len(np.unique(np.column_stack([fold, clusters]), axis=0)) for fold in (whole, apart)]
    assert pairs[0] == 80 < pairs[1]
    sizes = np.bincount(whole)
    assert len(sizes) == 5
    assert np.ptp(sizes) <= 15


@pytest.mark.parametrize("name", FOLDS)
def test_clusters_of_one_change_nothing(name):
    z, y = simulate(300, 4)
    plain, alone = fitted(name, z, y), fitted(name, z, y, clusters=np.arange(300))
    np.testing.assert_array_equal(plain.predict_proba(z), alone.predict_proba(z))


@pytest.mark.parametrize("name", FOLDS)
def test_odd_clusters_give_sensible_fits(name):
    z, y = simulate(300, 4)
    wrong, rows = z.argmax(axis=1) != y, np.arange(300)
    loss = {}
    odd = {
        "none": rows,
        "errors in one": np.where(wrong, 0, 1 + rows % 20),
        "two": rows % 2,
        "one large": np.maximum(rows, 250),
    }
    for what, clusters in odd.items():
        proba = fitted(name, z, y, clusters=clusters).predict_proba(z)
        loss[what] = -np.log(proba[rows, y]).mean()
    assert max(loss.values()) < loss["none"] + 0.05, loss


def test_bad_clusters_are_one_line():
    z, y = simulate(60, 3)
    for clusters, words in (
        (["a"] * 60, "all 60 rows are in one"),
        (["a"] * 59, "one entry per row"),
        ([None, *range(59)], "1 of 60 rows have none"),
    ):
        with pytest.raises(InputError, match=words) as raised:
            sc.TemperatureScaling().fit(z, y, clusters=clusters)
        assert "\n" not in str(raised.value)
