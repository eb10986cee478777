"""
The class frequencies changed
=============================

The model was calibrated where every kind of mail was equally frequent. Now most of it is of one
kind. Do I need new labels?
"""

# %%
# Label shift
# -----------
#
# Mails of a kind look as before; only the frequencies of the kinds moved. Probabilities are then
# wrong in a known way, and Bayes' rule repairs them. The new frequencies can be estimated without
# labels, from how often each class is predicted.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots

rng = np.random.default_rng(0)
kinds = ["work", "news", "offers", "spam"]


def mails(n, frequencies):
    """Return logits and kinds of n mails."""
    labels = rng.choice(4, size=n, p=frequencies)
    return 1.8 * rng.normal(size=(n, 4)) + 3.2 * np.eye(4)[labels], labels


before, now = [0.25, 0.25, 0.25, 0.25], [0.1, 0.1, 0.2, 0.6]
logits, labels = mails(1000, before)
cal = sc.TemperatureScaling(class_names=kinds).fit(logits, labels)

today, _ = mails(2000, now)  # no labels
found = sc.adapt(cal, today)
for sentence in found.sentences:
    print("-", sentence)

# %%
# Estimated frequencies
# ---------------------

fig, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
place = np.arange(4)
estimate, low, high = (100 * np.array(share) for share in (found.now, found.low, found.high))
ax.bar(place, 100 * np.array(found.before), color="0.85", label="calibration split")
ax.errorbar(
    place, estimate, [estimate - low, high - estimate], fmt="o", capsize=4, label="estimated, now"
)
ax.scatter(place, 100 * np.array(now), marker="x", color="#D55E00", zorder=3, label="truth, now")
ax.set(xticks=place, xticklabels=kinds, ylabel="mails (%)")
ax.legend()
plt.show()

# %%
# What it changes
# ---------------
#
# On fresh mails of the new mix, with labels to check:

fresh, truth = mails(5000, now)
probabilities = {
    "not adapted": cal.predict_proba(fresh),
    "adapted": found.calibrator.predict_proba(fresh),
}
for name, p in probabilities.items():
    score = sc.evaluate(truth, p, metrics=["accuracy", "nll", "ece15"])
    print(
        f"{name:11} accuracy {score['accuracy']:.1%}, log-loss {score['nll']:.3f}, "
        f"ECE {score['ece15']:.1%}"
    )

# %%
# The probability of spam, held against how often it was spam:

fig, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
spam = {name: p[:, kinds.index("spam")] for name, p in probabilities.items()}
plots.reliability(truth == kinds.index("spam"), spam, ax=ax)
plt.show()

# %%
# When it refuses
# ---------------
#
# If the inputs themselves changed, other frequencies do not explain the rows, and correcting for
# them would make things worse. ``adapt`` tests that and leaves the calibrator alone:

print(sc.adapt(cal, 0.4 * today).sentences[0])

# %%
# More: :doc:`/guides/adapt`. If you know the new frequencies, give them as ``rates=``.
