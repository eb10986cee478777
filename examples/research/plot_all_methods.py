"""
Every method under one protocol
===============================

Which calibration method is best for this model? Fit them all on the same rows, measure them on the
same others, and let paired intervals decide.
"""

# %%
# A dozen methods
# ---------------
#
# The demo data are a real network's outputs for 345 kinds of drawing. ``sc.methods()`` names all
# methods; here are some of each kind that need no further package.

import warnings
from time import perf_counter

import matplotlib.pyplot as plt

import smallcal as sc
from smallcal import plots

val, test = sc.load_demo("cal"), sc.load_demo("test")
chosen = [
    "ts-nll",
    "none",
    "tva-ts",
    "margin-k3",
    "random-k3",
    "srts-bce",
    "srts-shrunk",
    "linear-risk",
    "hts-bce",
    "signal-linear",
    "vector-scaling",
    "smallcal",
]
print(f"{len(sc.methods())} names; of these:")
for name in chosen:
    print(f"  {name:19} {sc.methods()[name]}")

# %%
# Fit and measure
# ---------------
#
# Some fits warn that the split is small for what they learn. In a comparison that is no news.

warnings.simplefilter("ignore", sc.FitWarning)
probabilities, seconds = {}, {}
for name in chosen:
    start = perf_counter()
    fitted = sc.make(name).fit(val.logits, val.labels)
    seconds[name] = perf_counter() - start
    probabilities[name] = fitted.predict_proba(test.logits)

metrics = ["top_label_bce", "nll", "ece15", "accuracy"]
result = sc.compare(test.labels, probabilities, baseline="ts-nll", metrics=metrics, n_boot=500)
print(f"{'method':19} top-label x100  log-loss x100  ECE %  accuracy %")
for name in chosen:
    row = result.values[name]
    print(
        f"{name:19} {100 * row['top_label_bce']:14.2f}  {100 * row['nll']:13.2f}  "
        f"{100 * row['ece15']:5.2f}  {100 * row['accuracy']:10.2f}"
    )

# %%
# Differences, not ranks
# ----------------------
#
# A table of means invites reading too much into the last digit. The forest plot shows each
# method's difference from one temperature on the same samples, with its 95 % interval. Only an
# interval that excludes zero is called better or worse.

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.6), layout="constrained")
for ax, metric in zip(axes, ("nll", "top_label_bce"), strict=True):
    plots.forest(result, metric=metric, ax=ax)
plt.show()

# %%
# Two of the methods can correct a bias for some classes, which temperatures cannot:
# ``vector-scaling`` and ``smallcal``, the default. They may change predictions. Top-label log-loss
# does not reward that, since it asks each method about its own predictions.
#
# And what a fit costs
# --------------------

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.barh(chosen, [1000 * seconds[name] for name in chosen], color="#0072B2")
ax.set(
    xscale="log",
    xlabel=f"milliseconds to fit {len(val.labels):,} samples, {val.logits.shape[1]} classes",
)
ax.invert_yaxis()
plt.show()

# %%
# One data set answers for one model. :doc:`/lab/studies` runs such comparisons over many
# models, budgets and draws, and :doc:`/explanation/no-harm` shows the result on real ones. From a
# shell: ``smallcal compare val.npz test.npz --methods all``.
