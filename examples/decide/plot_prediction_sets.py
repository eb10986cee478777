"""
All classes it may be
=====================

Some applications must not abstain: a doctor wants the list of possible diagnoses. How do I get a
set of classes that holds the true one 90 times in 100?
"""

# %%
# Sets with a promise
# -------------------
#
# A prediction set holds every class that the row may have (conformal prediction). It needs labelled
# rows that the calibrator was not fitted on. The promise holds for any model; better probabilities
# make smaller sets.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import smallcal as sc

digits, y = load_digits(return_X_y=True)
X = digits + np.random.default_rng(0).normal(scale=5, size=digits.shape)  # noisy images
train, rest = train_test_split(np.arange(len(y)), train_size=200, random_state=0, stratify=y)
fit, rest = train_test_split(rest, train_size=300, random_state=0)
fresh, new = train_test_split(rest, train_size=400, random_state=0)

model = LogisticRegression(C=0.05, max_iter=2000).fit(X[train], y[train])
logits = model.decision_function(X)
cal = sc.Calibrator().fit(logits[fit], y[fit])
found = sc.prediction_sets(cal, logits[fresh], y[fresh], alpha=0.1)
for sentence in found.sentences:
    print("-", sentence)

# %%
# Small where the model is sure
# -----------------------------
#
# The size of a set says how doubtful a row is. Here is one new row for each size of set. A set
# may miss the truth; the promise is how often.

inside = found.predict(logits[new])
sizes = inside.sum(axis=1)
covered = inside[np.arange(len(new)), y[new]]
print(f"covered: {covered.mean():.1%} of {len(new)} new rows; mean size {sizes.mean():.2f}")

fig, axes = plt.subplots(1, 5, figsize=(10, 2.6), layout="constrained")
for ax, size in zip(axes, np.unique(sizes), strict=False):
    row = np.flatnonzero(sizes == size)[0]
    ax.imshow(X[new[row]].reshape(8, 8), cmap="gray_r")
    names = ", ".join(str(k) for k in np.flatnonzero(inside[row]))
    ax.set(title=f"{{{names}}}", xlabel=f"truth: {y[new[row]]}", xticks=[], yticks=[])
plt.show()

# %%
# Coverage, class by class
# ------------------------
#
# The promise is an average over rows. ``per_class=True`` makes it for each class, at the price of
# larger sets, because each class has only its own rows to learn from.

each = sc.prediction_sets(cal, logits[fresh], y[fresh], alpha=0.1, per_class=True)
inside_each = each.predict(logits[new])

fig, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for shift, (name, sets) in enumerate(
    {"promise over all rows": inside, "promise in each class": inside_each}.items()
):
    share = [100 * sets[y[new] == k, k].mean() for k in range(10)]
    label = f"{name}: mean size {sets.sum(axis=1).mean():.2f}"
    ax.scatter(np.arange(10) + 0.16 * (shift - 0.5), share, label=label, marker="os"[shift])
ax.axhline(90, color="black", linestyle=":")
ax.set(xticks=range(10), xlabel="true class", ylabel="covered (%)", ylim=(60, 102))
ax.legend(loc="lower right")
plt.show()

# %%
# Each mark rests on a few dozen rows, so it scatters around what is promised.
# :doc:`/guides/prediction-sets` has the other scores (``aps``, ``raps``) and the proof.
