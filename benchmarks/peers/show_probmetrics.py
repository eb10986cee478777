"""probmetrics' proofs."""

from __future__ import annotations

import numpy as np

from peers.claims import shows

NAME = "probmetrics"


@shows("logits, as they are", NAME)
def logits(z, y, z_test):
    import torch
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalLogits

    cal = get_calibrator("temp-scaling")
    cal.fit_torch(CategoricalLogits(torch.as_tensor(z)), torch.as_tensor(y))
    return cal.predict_proba_torch(CategoricalLogits(torch.as_tensor(z_test))).get_probs().numpy()


@shows("probabilities", NAME)
def probabilities(p, y, p_test):
    from probmetrics.calibrators import get_calibrator

    return get_calibrator("logistic").fit(p, y).predict_proba(p_test)


@shows("saved arrays, no model object", NAME)
def arrays(p, y, p_test):
    from probmetrics.calibrators import get_calibrator

    return get_calibrator("svs").fit(p, y).predict_proba(p_test)


@shows("one number per item (a score)", NAME)
def one_number(score, right, score_test):
    from probmetrics.calibrators import get_calibrator

    return get_calibrator("quadratic-scaling").fit(score, right).predict_proba(score_test)[:, 1]


@shows("temperature scaling", NAME)
def temperature(p, y, p_test):
    from probmetrics.calibrators import TemperatureScalingCalibrator

    return TemperatureScalingCalibrator().fit(p, y).predict_proba(p_test)


@shows("vector scaling", NAME)
def vector(p, y, p_test):
    from probmetrics.calibrators import SVSCalibrator

    return SVSCalibrator().fit(p, y).predict_proba(p_test)


@shows("matrix scaling, penalised", NAME)
def matrix(p, y, p_test):
    from probmetrics.calibrators import SMSCalibrator

    return SMSCalibrator().fit(p, y).predict_proba(p_test)


@shows("isotonic regression", NAME)
def isotonic(p, y, p_test):
    from probmetrics.calibrators import get_calibrator

    return get_calibrator("isotonic").fit(p, y).predict_proba(p_test)


@shows("histogram binning", NAME)
def histogram(p, y, p_test):
    from probmetrics.calibrators import MulticlassOneVsRestCalibrator
    from probmetrics.calibrators.binning import BinaryHistogramBinningCalibrator

    cal = MulticlassOneVsRestCalibrator(BinaryHistogramBinningCalibrator())
    return cal.fit(p, y).predict_proba(p_test)


@shows("Platt or beta, class by class", NAME)
def platt(p, y, p_test):
    from probmetrics.calibrators import get_calibrator

    return get_calibrator("platt").fit(p, y).predict_proba(p_test)


@shows("Venn-Abers", NAME)
def venn_abers(score, right, score_test):
    from probmetrics.calibrators import get_calibrator

    def both(s):
        return np.column_stack((1 - s, s))

    return get_calibrator("ivap").fit(both(score), right).predict_proba(both(score_test))[:, 1]


@shows("ECE in 15 equal-width bins", NAME)
def ece15(y_test, p_test):
    import torch
    from probmetrics.metrics import Metrics

    metrics = Metrics.from_names(["ece-15"])
    found = metrics.compute_all_from_labels_probs(torch.as_tensor(y_test), torch.as_tensor(p_test))
    return found["ece-15"]


@shows("smooth ECE", NAME)
def smooth(y_test, p_test):
    import torch
    from probmetrics.metrics import Metrics

    metrics = Metrics.from_names(["smece"])
    found = metrics.compute_all_from_labels_probs(torch.as_tensor(y_test), torch.as_tensor(p_test))
    return found["smece"]


@shows("log-loss and Brier score", NAME)
def proper(y_test, p_test):
    import torch
    from probmetrics.metrics import Metrics

    metrics = Metrics.from_names(["logloss", "brier"])
    found = metrics.compute_all_from_labels_probs(torch.as_tensor(y_test), torch.as_tensor(p_test))
    return found["logloss"], found["brier"]


@shows("Lp calibration error by a classifier", NAME)
def variational(y_test, p_test):
    import torch
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalProbs
    from probmetrics.metrics import Metrics, MetricsWithCalibration
    from probmetrics.splitters import CVSplitter

    metrics = MetricsWithCalibration(
        Metrics.from_names(["brier"]), get_calibrator("svs"), CVSplitter(n_cv=5), "svs", 0
    )
    truth = torch.nn.functional.one_hot(torch.as_tensor(y_test)).double()
    rows = CategoricalProbs(torch.as_tensor(p_test))
    found = metrics.compute_all(y_true=CategoricalProbs(truth), y_pred=rows)
    return next(value for name, value in found.items() if name.startswith("calib-err"))


@shows("pickled, read back", NAME)
def pickled(p, y, p_test):
    import pickle

    from probmetrics.calibrators import get_calibrator

    cal = get_calibrator("svs").fit(p, y)
    return cal.predict_proba(p_test), pickle.loads(pickle.dumps(cal)).predict_proba(p_test)


@shows("sklearn.base.clone", NAME)
def cloned():
    from probmetrics.calibrators import SVSCalibrator
    from sklearn.base import clone

    return clone(SVSCalibrator(rho=2.0)).rho == 2.0


@shows("richer maps that keep predictions", NAME)
def keeps(p, y, p_test):
    from probmetrics.calibrators.orderpreserving import IntraOrderPreservingCalibrator

    kept = IntraOrderPreservingCalibrator().fit(p, y).predict_proba(p_test)
    return bool((kept.argmax(axis=1) == p_test.argmax(axis=1)).all())
