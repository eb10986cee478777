"""Isotonic regression and histogram binning, class by class, against other packages."""

import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression

import smallcal as sc
from smallcal.calibrators.maps.classwise import ClasswiseMap, fit_histogram, fit_isotonic
from smallcal.calibrators.maps.temperature import split_of
from smallcal.errors import InputError
from support.refused import refused
from support.simulated import simulate

pytestmark = pytest.mark.filterwarnings("ignore::smallcal.errors.FitWarning")

FITS = {"isotonic": fit_isotonic, "histogram": fit_histogram}


def softmax(z):
    weight = np.exp(z - z.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def applied(name, z, y, test):
    return FITS[name](split_of(z, y)).map.probabilities(test, np.zeros(len(test)))


class Frozen(ClassifierMixin, BaseEstimator):
    """A model whose input is its logits."""

    def fit(self, X, y):
        self.classes_ = np.arange(X.shape[1])
        return self

    def predict_proba(self, X):
        return softmax(X)

    def predict(self, X):
        return X.argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 8])
def test_isotonic_equals_the_class_of_scikit_learn(n_classes):
    frozen = pytest.importorskip("sklearn.frozen", reason="scikit-learn is older than 1.6")
    z, y = simulate(400, n_classes)
    test = simulate(150, n_classes, seed=1)[0]
    model = frozen.FrozenEstimator(Frozen().fit(z, y))
    theirs = CalibratedClassifierCV(model, method="isotonic", ensemble=False).fit(z, y)
    ours = applied("isotonic", z, y, test)
    np.testing.assert_allclose(ours, theirs.predict_proba(test), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 8])
def test_histogram_equals_that_of_netcal(n_classes):
    netcal = pytest.importorskip("netcal.binning", reason="netcal is not installed")
    z, y = simulate(400, n_classes)
    test = simulate(150, n_classes, seed=1)[0]
    theirs = netcal.HistogramBinning().fit(softmax(z), y).transform(softmax(test))
    ours = applied("histogram", z, y, test)
    np.testing.assert_allclose(ours[:, 1] if n_classes == 2 else ours, theirs, rtol=0, atol=1e-12)


def test_rows_without_any_probability_become_uniform():
    # A class is hit at 0.45 and missed at 0.40 and below, so that a flat row gets 0 from each.
    rows = np.log([[0.45, 0.40, 0.15], [0.15, 0.45, 0.40], [0.40, 0.15, 0.45]])
    z, y = np.repeat(rows, 10, axis=0), np.repeat([0, 1, 2], 10)
    proba = applied("isotonic", z, y, np.vstack((rows[:1], np.zeros((1, 3)))))
    np.testing.assert_allclose(proba, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-15)


@pytest.mark.parametrize("name", FITS)
def test_a_missing_class_keeps_the_models_column(name):
    z, y = simulate(300, 6)
    z, y = z[y != 4], y[y != 4]
    test = simulate(100, 6, seed=1)[0]
    own, expected = softmax(z), softmax(test)
    for label in (0, 1, 2, 3, 5):
        hit, column = y == label, expected[:, label].copy()
        if name == "isotonic":
            found = IsotonicRegression(out_of_bounds="clip").fit(own[:, label], hit)
            expected[:, label] = found.predict(column)
        else:
            at, here = np.floor(own[:, label] * 10), np.floor(column * 10)
            shares = [hit[at == b].mean() if (at == b).any() else b / 10 + 0.05 for b in range(10)]
            expected[:, label] = np.array(shares)[here.astype(int)]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(applied(name, z, y, test), expected, rtol=0, atol=1e-12)
    # With one class only, every column is the model's.
    alone = applied(name, z, np.full(len(z), 2), test)
    np.testing.assert_allclose(alone, softmax(test), rtol=1e-14)


@pytest.mark.parametrize("name", FITS)
def test_weights_count_as_copies(name):
    z, y = simulate(300, 6)
    weight = np.random.default_rng(0).integers(1, 4, size=300)
    weighted = sc.make(name).fit(z, y, sample_weight=weight).predict_proba(z)
    copied = sc.make(name).fit(np.repeat(z, weight, axis=0), np.repeat(y, weight)).predict_proba(z)
    np.testing.assert_allclose(weighted, copied, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_saved_one_predicts_the_same_bits(name, n_classes, tmp_path):
    z, y = simulate(300, n_classes)
    fitted = sc.make(name).fit(z, y)
    fitted.save(tmp_path / "cal.json")
    test = simulate(100, n_classes, seed=1)[0]
    again = sc.load(tmp_path / "cal.json").predict_proba(test)
    np.testing.assert_array_equal(again, fitted.predict_proba(test))
    assert json.loads((tmp_path / "cal.json").read_text())["map"]["kind"] == "classwise"


def test_levels_are_counted_and_bad_points_are_refused():
    # Class 1 is hit never, half of the time, always: three levels in its one column.
    z = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 2.0]] * 5)
    assert fit_isotonic(split_of(z, [0, 0, 1, 1] * 5)).map.n_parameters == 3
    with pytest.raises(InputError, match="points of class 1 must be ascending"):
        ClasswiseMap(((), (0.5, 0.5)), ((), (0.1, 0.2)), stepped=True)
    with pytest.raises(InputError, match="equally long"):
        ClasswiseMap(((), (0.5,)), ((), (0.1, 0.2)), stepped=True)
    with refused("option-range", "n_bins"):
        sc.make("histogram", n_bins=0).fit(z, [0, 0, 1, 1] * 5)
