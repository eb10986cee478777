"""
A threshold you can defend
==========================

From which confidence on may the model answer alone, so that at most 20 in 100 of its answers are
wrong? And how sure is that?
"""

# %%
# Calibrate, then certify on fresh rows
# -------------------------------------
#
# The demo data are a real network's outputs for 345 kinds of drawing, and a hard task. Fit on the
# calibration split. Use half of the test split to find the threshold, and keep the other half to
# see whether the promise holds.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots

val, test = sc.load_demo("cal"), sc.load_demo("test")
cal = sc.TemperatureScaling().fit(val.logits, val.labels)

half = len(test.labels) // 2
found = sc.certify(cal, test.logits[:half], test.labels[:half], risk=[0.1, 0.2, 0.3])
for sentence in found.sentences:
    print("-", sentence)

# %%
# The threshold comes with an exact test, not with a point on a curve: of all data sets like this
# one, at most 5 in 100 lead to a threshold that breaks its promise. Where the rows cannot support a
# promise, the answer is "None qualifies".
#
# Does it hold on other rows?
# ---------------------------

new_logits, new_labels = test.logits[half:], test.labels[half:]
right = cal.predict(new_logits) == new_labels
promises = [certificate for certificate in found.certificates if certificate.found]
for promise in promises:
    answered = found.calibrator.accept(new_logits, risk=promise.risk)
    print(
        f"promised: at most {promise.risk:.0%} wrong. On new rows {answered.mean():.0%} are "
        f"answered, and {np.mean(~right[answered]):.1%} of these {answered.sum()} answers are wrong"
    )

# %%
# Risk and coverage
# -----------------
#
# Coverage is the share of rows that are answered, the surest first. The curve shows the error rate
# among them. Stars mark the certified thresholds, with their bound: they lie above the curve,
# because a promise must leave room for chance.

fig, ax = plt.subplots(figsize=(6.5, 4.4), layout="constrained")
plots.risk_coverage(test.labels[:half], cal.predict_proba(test.logits[:half]), ax=ax)
ax.scatter(
    [promise.rows[0].coverage for promise in promises],
    [promise.rows[0].bound for promise in promises],
    marker="*",
    s=140,
    color="#D55E00",
    zorder=5,
    label="certified: at most this many wrong",
)
ax.legend()
plt.show()

# %%
# Save ``found.calibrator``: the threshold travels with it, also into every export.
# :doc:`/guides/certify` has thresholds per class and per group.
