"""
Fix an overconfident classifier in five lines
=============================================

A classifier says "99 % sure" and is right far less often. How do I get confidences that mean what
they say?

The model here is a logistic regression for scikit-learn's handwritten digits, trained on few and
noisy images, so that it is overconfident. Any classifier will do: smallcal needs only its
outputs.
"""

# %%
# A trained model
# ---------------
#
# Split the data in three: one part trains the model, one calibrates it, one tests the result. The
# model has never seen the calibration part. That matters, because a model's confidence on its own
# training data says nothing about new data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import smallcal as sc
from smallcal import plots

X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=6, size=X.shape)  # noisy images
X_train, X, y_train, y = train_test_split(X, y, train_size=100, random_state=0, stratify=y)
X_cal, X_test, y_cal, y_test = train_test_split(X, y, train_size=300, random_state=0, stratify=y)

model = LogisticRegression(max_iter=5000).fit(X_train, y_train)
cal_logits = model.decision_function(X_cal)  # shape (300, 10): one column per class
test_logits = model.decision_function(X_test)

# %%
# Calibrate it
# ------------
#
# Logits and labels go in. ``predict_proba`` gives honest probabilities for new logits, and
# ``save`` keeps the calibrator as a small JSON file.

cal = sc.Calibrator().fit(cal_logits, y_cal)
calibrated = cal.predict_proba(test_logits)

# %%
# Before and after
# ----------------
#
# The accuracy stays the same, because the default keeps every prediction. The mean confidence
# moves to where the accuracy is. ECE (expected calibration error) is the mean distance between
# confidence and accuracy, and log-loss punishes confident mistakes; lower is better for both.

raw = model.predict_proba(X_test)
for name, probabilities in {"raw": raw, "calibrated": calibrated}.items():
    found = sc.evaluate(y_test, probabilities)
    print(
        f"{name:10}  accuracy {found['accuracy']:.1%}  "
        f"mean confidence {probabilities.max(axis=1).mean():.1%}  "
        f"ECE {found['ece15']:.1%}  log-loss {found['nll']:.2f}"
    )

# %%
# A reliability diagram shows it at a glance. It sorts predictions into bins by confidence and
# draws the accuracy of each bin. On the diagonal, confidence and accuracy agree; below it, the
# model is overconfident. The bands are 95 % intervals for each bin.

fig, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
plots.reliability(y_test, {"raw": raw, "calibrated": calibrated}, ax=ax)
plt.show()

# %%
# The strip on top counts predictions by confidence. The uncalibrated model's pile up at the far
# right: "certain". Calibration moves many of them to the left, and the curve to the diagonal.
#
# Next: :doc:`/guides/choosing` explains what the default does,
# and :doc:`/recipes/scikit-learn` calibrates scikit-learn models without handling logits yourself.
