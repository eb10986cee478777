"""scikit-learn's proofs."""

from __future__ import annotations

import numpy as np

from peers.claims import shows

NAME = "scikit-learn"


@shows("logits, as they are", NAME)
def logits(z, y, z_test):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Logits(ClassifierMixin, BaseEstimator):  # rows are the logits themselves
        def fit(self, X, y):
            self.classes_ = np.arange(X.shape[1])
            return self

        def decision_function(self, X):
            return X

        def predict(self, X):
            return X.argmax(axis=1)

    frozen = FrozenEstimator(Logits().fit(z, y))
    return CalibratedClassifierCV(frozen, method="temperature").fit(z, y).predict_proba(z_test)


@shows("a fitted scikit-learn model", NAME)
def fitted_model(model, X, y, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    frozen = FrozenEstimator(model)
    return CalibratedClassifierCV(frozen, method="temperature").fit(X, y).predict_proba(X_test)


@shows("an unfitted one, by cross-validation", NAME)
def unfitted_model(X_train, y_train, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.naive_bayes import GaussianNB

    return CalibratedClassifierCV(GaussianNB(), cv=5).fit(X_train, y_train).predict_proba(X_test)


@shows("one number per item (a score)", NAME)
def one_number(score, right, score_test):
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(score, right).predict(score_test)


@shows("sample weights in the fit", NAME)
def weights(model, X, y, weights, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    def cal():
        return CalibratedClassifierCV(FrozenEstimator(model), method="temperature")

    weighted = cal().fit(X, y, sample_weight=weights).predict_proba(X_test)
    return weighted, cal().fit(X, y).predict_proba(X_test)


@shows("temperature scaling", NAME)
def temperature(model, X, y, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    frozen = FrozenEstimator(model)
    return CalibratedClassifierCV(frozen, method="temperature").fit(X, y).predict_proba(X_test)


@shows("isotonic regression", NAME)
def isotonic(model, X, y, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    frozen = FrozenEstimator(model)
    return CalibratedClassifierCV(frozen, method="isotonic").fit(X, y).predict_proba(X_test)


@shows("Platt or beta, class by class", NAME)
def platt(model, X, y, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    frozen = FrozenEstimator(model)
    return CalibratedClassifierCV(frozen, method="sigmoid").fit(X, y).predict_proba(X_test)


@shows("log-loss and Brier score", NAME)
def proper(y_test, p_test):
    from sklearn.metrics import brier_score_loss, log_loss

    return log_loss(y_test, p_test), brier_score_loss(y_test, p_test)


@shows("reliability diagram", NAME)
def diagram(right_test, score_test):
    from sklearn.calibration import CalibrationDisplay

    display = CalibrationDisplay.from_predictions(right_test, score_test)  # two classes
    return display.figure_


@shows("decisions by cost", NAME)
def by_cost(model, X, y):
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

    def gain(truth, said):
        return -10 * ((truth == 1) & (said == 0)).sum() - ((truth == 0) & (said == 1)).sum()

    two = type(model)().fit(X[:400], y[:400] == 0)  # a miss costs ten false alarms
    tuned = TunedThresholdClassifierCV(two, scoring=make_scorer(gain), cv="prefit", refit=False)
    tuned.fit(X[400:], y[400:] == 0)
    half = FixedThresholdClassifier(two, threshold=0.5).fit(X[:400], y[:400] == 0)
    truth = y[400:] == 0
    return bool(gain(truth, tuned.predict(X[400:])) >= gain(truth, half.predict(X[400:])))


@shows("pickled, read back", NAME)
def pickled(model, X, y, X_test):
    import pickle

    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    cal = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X, y)
    return cal.predict_proba(X_test), pickle.loads(pickle.dumps(cal)).predict_proba(X_test)


@shows("sklearn.base.clone", NAME)
def cloned():
    from sklearn.base import clone
    from sklearn.calibration import CalibratedClassifierCV

    return clone(CalibratedClassifierCV(method="isotonic")).method == "isotonic"


@shows("any class labels (strings)", NAME)
def strings(X_train, y_train, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.naive_bayes import GaussianNB

    named = np.array(["ape", "bee", "cat", "dog"])[y_train]
    found = CalibratedClassifierCV(GaussianNB()).fit(X_train, named).predict(X_test)
    return set(found) <= set(named)


@shows("probabilities", NAME)
def probabilities(model, X, y, X_test):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    cal = CalibratedClassifierCV(FrozenEstimator(model), method="temperature")
    return cal.fit(X, y).predict_proba(X_test)  # GaussianNB has predict_proba alone


@shows("choice of a method by cross-validation", NAME)
def choice(X_train, y_train):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.naive_bayes import GaussianNB

    methods = {"method": ["temperature", "isotonic"]}
    found = GridSearchCV(CalibratedClassifierCV(GaussianNB()), methods, scoring="neg_log_loss")
    return found.fit(X_train, y_train).best_params_["method"] in methods["method"]
