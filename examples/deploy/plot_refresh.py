"""
A few new labels came in
========================

The calibrator is in use, and some rows of last week were labelled. They are too few for a fit of
their own. Should they count, and how much?
"""

# %%
# Refresh
# -------
#
# The demo data are a real network's outputs for 345 kinds of drawing. In one story nothing has
# changed since the fit. In the other an update made the model's logits half as large again, and
# nobody said so. ``refresh`` weighs new rows against the old fit, and changes it only where they
# speak against it clearly.

import warnings

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc

warnings.simplefilter("ignore", sc.FitWarning)  # accuracy could rise, too: another question
val, test = sc.load_demo("cal"), sc.load_demo("test")
cal = sc.Calibrator().fit(val.logits, val.labels)
stories = {"nothing changed": test.logits, "the model became surer": 1.5 * test.logits}
order = np.random.default_rng(0).permutation(len(test.labels))
labelled, rest = order[:400], order[400:]

few = labelled[:60]
for name, logits in stories.items():
    print(f"{name}:\n{sc.refresh(cal, logits[few], test.labels[few])}\n")

# %%
# Against the two other ways
# --------------------------
#
# One could keep the old calibrator, or fit a new one on the new rows alone. Each is measured on
# rows that no fit has seen.

counts = [20, 50, 100, 200, 400]


def log_loss(calibrator, logits):
    """Return the log-loss on rows that nobody fitted on."""
    p = calibrator.predict_proba(logits[rest])
    return sc.evaluate(test.labels[rest], p, metrics=["nll"])["nll"]


fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for ax, (name, logits) in zip(axes, stories.items(), strict=True):
    refreshed, alone = [], []
    for n in counts:
        rows = logits[labelled[:n]], test.labels[labelled[:n]]
        refreshed.append(log_loss(sc.refresh(cal, *rows).calibrator, logits))
        alone.append(log_loss(sc.Calibrator().fit(*rows), logits))
    ax.axhline(log_loss(cal, logits), color="black", linestyle=":", label="old calibrator")
    ax.plot(counts, refreshed, marker="o", color="#D55E00", label="refreshed")
    ax.plot(counts, alone, marker="s", color="#0072B2", label="new rows alone")
    ax.set(title=name, xscale="log", xlabel="new labelled rows")
    ax.set_xticks(counts, [str(n) for n in counts])
    ax.minorticks_off()
axes[0].set_ylabel("log-loss on other rows")
axes[0].legend()
plt.show()

# %%
# Nobody has to know which story is true. Rows may also come in one by one, in any order; the
# result is the same as with all of them at once. :doc:`/guides/refresh` has the same comparison on
# real models and real shifts.
