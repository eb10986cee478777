"""
Calibrate a scikit-learn model
==============================

``CalibratedModel`` wraps any scikit-learn classifier and is itself one. How does it compare with
scikit-learn's own ``CalibratedClassifierCV``?
"""

# %%
# Two data sets, three ways
# -------------------------
#
# Two data sets that ship with scikit-learn, a random forest on each. Every way of calibrating gets
# the same training half and is measured on the same test half:
#
# - **raw**: the forest's own probabilities;
# - **sigmoid** and **isotonic**: ``CalibratedClassifierCV``, five folds, one model;
# - **smallcal**: ``CalibratedModel`` with its defaults, five folds, one model.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import smallcal as sc
from smallcal import plots


def forest():
    """Return an untrained model."""
    return RandomForestClassifier(n_estimators=40, min_samples_leaf=3, random_state=0)


ways = {
    "raw": forest(),
    "sigmoid": CalibratedClassifierCV(forest(), method="sigmoid", ensemble=False),
    "isotonic": CalibratedClassifierCV(forest(), method="isotonic", ensemble=False),
    "smallcal": sc.CalibratedModel(forest()),
}

log_loss, probabilities, truth = {}, {}, {}
for data, load in {"digits": load_digits, "breast cancer": load_breast_cancer}.items():
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    fitted = {name: model.fit(X, y) for name, model in ways.items()}
    probabilities[data] = {name: model.predict_proba(X_test) for name, model in fitted.items()}
    truth[data] = y_test
    log_loss[data] = sc.compare(y_test, probabilities[data], metrics=["nll"], n_boot=500)
    print(data)
    for name in list(ways)[1:]:
        print("  ", log_loss[data].verdict(name))

# %%
# Each line is a paired comparison with the uncalibrated model on the same test samples: a change
# counts only where its 95 % interval excludes zero. One split of two small data sets shows how to
# ask;
# :doc:`/guides/scikit-learn` has the answer over more data sets, models and splits.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
for ax, (data, found) in zip(axes, log_loss.items(), strict=True):
    values = [found.values[name]["nll"] for name in ways]
    ax.barh(list(ways), values, color=["0.7", "0.7", "0.7", "#D55E00"])
    ax.bar_label(ax.containers[0], fmt="%.3f", padding=3)
    ax.set(title=data, xlabel="log-loss on the test half", xlim=(0, 1.25 * np.max(values)))
    ax.invert_yaxis()
plt.show()

# %%
# Where the log-loss comes from
# -----------------------------
#
# A forest averages many trees, so it is rarely sure: on digits its raw confidences are too low.

fig, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
shown = {name: probabilities["digits"][name] for name in ("raw", "smallcal")}
plots.reliability(truth["digits"], shown, ax=ax)
plt.show()

# %%
# The calibrated model is an ordinary estimator. It works in pipelines and grid searches, and its
# calibrator can be saved on its own:

model = sc.CalibratedModel(forest()).fit(X, y)
print(model.calibrator_.method_, "fitted on", model.n_calibration_, "out-of-fold predictions")
