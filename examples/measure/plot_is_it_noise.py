"""
Is that calibration error noise?
================================

My model has an ECE of a few percent, and the calibrated one a little less. Is the model
miscalibrated at all, and is the difference real?
"""

# %%
# A perfect model has an error too
# --------------------------------
#
# ECE adds up the distances between confidence and accuracy over bins. With few test samples each
# accuracy is noisy, and noise counts as error. Here is a model whose probabilities are exactly
# right, because the labels are drawn from them, on test sets of growing size:

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots
from smallcal.metrics import ece
from smallcal_lab.studies.simulate import World

world = World(n_classes=20, accuracy=0.75, temperature=1.3, structure=0.2)
sizes = [100, 200, 500, 1000, 2000, 5000]
perfect = world.draw(40_000, split="test")
rng = np.random.default_rng(0)
shown = []
for size in sizes:
    rows = [rng.choice(len(perfect.labels), size, replace=False) for _ in range(200)]
    shown.append([ece(perfect.labels[some], perfect.probabilities[some]) for some in rows])

fig, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
low, middle, high = 100 * np.percentile(shown, [2.5, 50, 97.5], axis=1)
ax.fill_between(sizes, low, high, alpha=0.25, label="95 % of test sets")
ax.plot(sizes, middle, marker="o", label="median")
ax.set(xscale="log", xlabel="test samples", ylabel="measured ECE (%)", ylim=0)
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.set_title("A perfectly calibrated model")
ax.legend()
plt.show()

# %%
# Ask for the noise floor
# -----------------------
#
# With ``ci=True``, ``evaluate`` gives the measured value (``plain``), the *noise floor* (what a
# perfectly calibrated model with these confidences would show on average), and an estimate without
# the noise (``point``) with its interval.

val, test = world.draw(500), world.draw(1000, split="test")
methods = ["none", "ts-nll", "tva-ts", "srts-bce", "smallcal"]
probabilities = {
    name: sc.make(name).fit(val.logits, val.labels).predict_proba(test.logits) for name in methods
}
for name in ("none", "ts-nll"):
    found = sc.evaluate(test.labels, probabilities[name], metrics=["ece15"], ci=True)["ece15"]
    print(f"{name}: measured {found.plain:.1%}, floor {found.floor:.1%}")
    print(f"    without noise {found.point:.1%}, 95 % interval {found.low:.1%} to {found.high:.1%}")

# %%
# Compare on the same samples
# ---------------------------
#
# Two methods share their test samples, so most of the noise cancels in their difference.
# ``compare`` resamples the test samples for all methods at once; an interval that holds zero is a
# tie. Judge by a proper score (log-loss, Brier, or top-label log-loss, the log-loss of "is the
# prediction right?"): it has far less noise than ECE.

result = sc.compare(
    test.labels, probabilities, baseline="ts-nll", metrics=["ece15", "top_label_bce"], n_boot=1000
)
for name in methods:
    if name != "ts-nll":
        print(result.verdict(name))

fig, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for ax, metric in zip(axes, ["ece15", "top_label_bce"], strict=True):
    plots.forest(result, metric=metric, ax=ax)
plt.show()

# %%
# :doc:`/explanation/statistics` says which interval answers which question.
