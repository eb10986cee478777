"""Proofs of packages that people ask about for one thing."""

from __future__ import annotations

import numpy as np

from peers.claims import shows


@shows("Venn-Abers", "venn-abers")
def venn_abers(score, right, score_test):
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(np.column_stack((1 - score, score)), right)
    both, _ = model.predict_proba(np.column_stack((1 - score_test, score_test)))
    return both[:, 1]


@shows("an unfitted one, by cross-validation", "venn-abers")
def unfitted(X_train, y_train, X_test):
    from sklearn.naive_bayes import GaussianNB
    from venn_abers import VennAbersCalibrator

    cal = VennAbersCalibrator(GaussianNB(), inductive=False, n_splits=5, random_state=0)
    cal.fit(X_train, y_train)
    return cal.predict_proba(X_test)


@shows("saved arrays, no model object", "venn-abers")
def arrays(p, y, p_test):
    from venn_abers import VennAbersCalibrator

    return VennAbersCalibrator().predict_proba(p_cal=p, y_cal=y, p_test=p_test)


@shows("smooth ECE", "relplot")
def smooth(score_test, right_test):
    import relplot

    return relplot.smECE(score_test, right_test)


@shows("reliability diagram", "relplot")
def diagram(score_test, right_test):
    import relplot

    return relplot.rel_diagram(score_test, right_test)[0]  # smooth, with a bootstrap band


@shows("interval of a metric", "relplot")
def metric_interval(score_test, right_test):
    import relplot

    found = relplot.prepare_rel_diagram(score_test, right_test)
    return found["ce"] - found["ce_ci_width"], found["ce"] + found["ce_ci_width"]


@shows("ECE in 15 equal-width bins", "torchmetrics")
def ece15(p_test, y_test):
    import torch
    from torchmetrics.classification import MulticlassCalibrationError

    metric = MulticlassCalibrationError(num_classes=4, n_bins=15)  # on any device, over processes
    return metric(torch.as_tensor(p_test), torch.as_tensor(y_test))


@shows("interval of a metric", "torchmetrics")
def bootstrapped(p_test, y_test):
    import torch
    from torchmetrics.classification import MulticlassCalibrationError
    from torchmetrics.wrappers import BootStrapper

    torch.manual_seed(0)
    metric = BootStrapper(
        MulticlassCalibrationError(num_classes=4, n_bins=15),
        num_bootstraps=100,
        quantile=torch.tensor([0.025, 0.975]),
    )
    metric.update(torch.as_tensor(p_test, dtype=torch.float32), torch.as_tensor(y_test))
    return metric.compute()["quantile"]


@shows("prediction sets, split conformal", "TorchCP")
def sets(loader, z_test):
    import torch
    from torchcp.classification.predictor import SplitPredictor
    from torchcp.classification.score import LAC  # also APS, RAPS, SAPS, ...

    cal = SplitPredictor(LAC(), model=torch.nn.Identity(), alpha=0.1)
    cal.calibrate(loader)
    return cal.predict(torch.as_tensor(z_test, dtype=torch.float32)).numpy()
