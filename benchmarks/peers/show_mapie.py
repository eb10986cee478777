"""MAPIE's proofs."""

from __future__ import annotations

import numpy as np

from peers.claims import shows

NAME = "MAPIE"


@shows("a fitted scikit-learn model", NAME)
def fitted_model(model, X, y, X_test):
    from mapie.calibration import VennAbersCalibrator

    return VennAbersCalibrator(model, cv="prefit").fit(X, y).predict_proba(X_test)


@shows("an unfitted one, by cross-validation", NAME)
def unfitted_model(X_train, y_train, X_test):
    from mapie.calibration import VennAbersCalibrator
    from sklearn.naive_bayes import GaussianNB

    cal = VennAbersCalibrator(GaussianNB(), inductive=False, n_splits=5, random_state=0)
    return cal.fit(X_train, y_train).predict_proba(X_test)


@shows("regression with uncertainty", NAME)
def regression():
    from mapie.regression import SplitConformalRegressor
    from sklearn.datasets import make_regression
    from sklearn.linear_model import Ridge

    X, y = make_regression(900, 5, noise=10, random_state=0)
    model = SplitConformalRegressor(Ridge().fit(X[:300], y[:300]), confidence_level=0.9)
    model.conformalize(X[300:600], y[300:600])
    _, ends = model.predict_interval(X[600:])
    return bool(0.84 < ((ends[:, 0, 0] <= y[600:]) & (y[600:] <= ends[:, 1, 0])).mean() < 0.97)


@shows("Platt or beta, class by class", NAME)
def top_label(model, X, y, X_test, p_test):
    from mapie.calibration import TopLabelCalibrator

    cal = TopLabelCalibrator(model, calibrator="sigmoid", cv="prefit").fit(X, y)
    top = np.nanmax(cal.predict_proba(X_test), axis=1)  # of the predicted class alone
    rest = p_test.copy()
    rest[np.arange(len(rest)), p_test.argmax(axis=1)] = 0
    rest *= ((1 - top) / np.maximum(rest.sum(axis=1), 1e-300))[:, None]
    rest[np.arange(len(rest)), p_test.argmax(axis=1)] = top
    return rest


@shows("Venn-Abers", NAME)
def venn_abers(model, X, right, X_test):
    from mapie.calibration import VennAbersCalibrator
    from sklearn.naive_bayes import GaussianNB

    two = GaussianNB().fit(X[:300], right[:300])  # will the model be right?
    cal = VennAbersCalibrator(two, cv="prefit").fit(X[300:], right[300:])
    return cal.predict_proba(X_test)[:, 1]


@shows("ECE in 15 equal-width bins", NAME)
def ece15(right_test, score_test):
    from mapie.metrics.calibration import expected_calibration_error

    return expected_calibration_error(  # num_bins counts edges
        right_test, score_test, num_bins=16, split_strategy="uniform"
    )


@shows("ECE in bins of equal mass", NAME)
def equal_mass(right_test, score_test):
    from mapie.metrics.calibration import expected_calibration_error

    return expected_calibration_error(
        right_test, score_test, num_bins=16, split_strategy="quantile"
    )


@shows("ECE by class", NAME)
def by_class(right_test, y_test, p_test):
    from mapie.metrics.calibration import expected_calibration_error

    return expected_calibration_error(
        right_test, p_test, num_bins=16, classwise=True, class_labels=y_test
    )


@shows("tests of calibration with a p-value", NAME)
def p_value(right_test, score_test):
    from mapie.metrics.calibration import spiegelhalter_p_value  # also KS and Kuiper

    return spiegelhalter_p_value(right_test, score_test)


@shows("prediction sets, split conformal", NAME)
def sets(model, X, y, X_test):
    from mapie.classification import SplitConformalClassifier

    cal = SplitConformalClassifier(model, confidence_level=0.9).conformalize(X, y)
    return cal.predict_set(X_test)[1][:, :, 0]


@shows("threshold with a guarantee on errors", NAME)
def threshold(score, right, score_test):
    from mapie.risk_control import BinaryClassificationController

    def both(s):
        return np.column_stack((1 - s.ravel(), s.ravel()))

    cal = BinaryClassificationController(
        both, risk="precision", target_level=0.7, confidence_level=0.95
    )
    cal.calibrate(score.reshape(-1, 1), right)  # accept where the prediction is likely right
    return cal.predict(score_test.reshape(-1, 1)) == 1


@shows("conformal regression", NAME)
def conformal_regression():
    from mapie.regression import CrossConformalRegressor  # also jackknife+, CQR, time series
    from sklearn.datasets import make_regression
    from sklearn.linear_model import Ridge

    X, y = make_regression(900, 5, noise=10, random_state=0)
    model = CrossConformalRegressor(Ridge(), confidence_level=0.9).fit_conformalize(
        X[:500], y[:500]
    )
    _, ends = model.predict_interval(X[500:])
    return bool(0.84 < ((ends[:, 0, 0] <= y[500:]) & (y[500:] <= ends[:, 1, 0])).mean() < 0.97)


@shows("guarantees for several labels per row", NAME)
def several_labels():
    from mapie.risk_control import MultiLabelClassificationController
    from sklearn.datasets import make_multilabel_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import MultiOutputClassifier

    X, y = make_multilabel_classification(1500, n_classes=4, allow_unlabeled=False, random_state=0)
    model = MultiOutputClassifier(LogisticRegression(max_iter=1000)).fit(X[:500], y[:500])
    cal = MultiLabelClassificationController(model.predict_proba, target_level=0.9)
    inside = cal.calibrate(X[500:1000], y[500:1000]).predict(X[1000:])[:, :, 0]
    recall = (inside & (y[1000:] == 1)).sum(axis=1) / y[1000:].sum(axis=1)
    return bool(recall.mean() > 0.87)


@shows("alarm on drift, error rate held", NAME)
def drift(right, right_test):
    from mapie.exchangeability_testing import RiskMonitoring

    ones, ones_test = np.ones_like(right), np.ones_like(right_test)  # labels are needed
    calm = RiskMonitoring("accuracy", reference_data=(right, ones), warn=False)
    moved = RiskMonitoring("accuracy", reference_data=(right, ones), warn=False)
    worse = np.where(np.arange(len(right_test)) % 2, right_test, 0)
    alarm = moved.update(worse, ones_test).harmful_shift_detected
    return bool(alarm and not calm.update(right_test, ones_test).harmful_shift_detected)


@shows("pickled, read back", NAME)
def pickled(model, X, y, X_test):
    import pickle

    from mapie.calibration import VennAbersCalibrator

    cal = VennAbersCalibrator(model, cv="prefit").fit(X, y)
    return cal.predict_proba(X_test), pickle.loads(pickle.dumps(cal)).predict_proba(X_test)


@shows("sklearn.base.clone", NAME)
def cloned():
    from mapie.calibration import TopLabelCalibrator
    from sklearn.base import clone

    return clone(TopLabelCalibrator(calibrator="isotonic")).calibrator == "isotonic"


@shows("any class labels (strings)", NAME)
def strings(X_train, y_train, X_test):
    from mapie.classification import SplitConformalClassifier
    from sklearn.naive_bayes import GaussianNB

    named = np.array(["ape", "bee", "cat", "dog"])[y_train]
    cal = SplitConformalClassifier(GaussianNB().fit(X_train[:300], named[:300]))
    return set(cal.conformalize(X_train[300:], named[300:]).predict(X_test)) <= set(named)


@shows("richer maps that keep predictions", NAME)
def keeps(model, X, y, X_test):
    from mapie.calibration import TopLabelCalibrator

    cal = TopLabelCalibrator(model, calibrator="isotonic", cv="prefit").fit(X, y)
    return bool((cal.predict(X_test) == model.predict(X_test)).all())


@shows("probabilities", NAME)
def probabilities(model, X, y, X_test):
    from mapie.calibration import VennAbersCalibrator

    cal = VennAbersCalibrator(model, cv="prefit")  # what predict_proba says
    return cal.fit(X, y).predict_proba(X_test)


@shows("risk-coverage (AURC)", NAME)
def aurc(right_test, score_test):
    from mapie.metrics.uncertainty import auarc  # of accuracy, so 1 minus it is of risk

    return 1 - auarc(right_test, score_test)
