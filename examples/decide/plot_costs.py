"""
What do mistakes cost?
======================

A payment is fraud with a probability of 12 %. Stop it, let it pass, or have somebody look? If the
probability is right, the answer follows from what each mistake costs.
"""

# %%
# An overconfident fraud score
# -----------------------------
#
# The score is simulated: its log-odds are three times too large. Somebody checked 400 payments;
# 5,000 more come in.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots

rng = np.random.default_rng(0)


def payments(n):
    """Return scores between 0 and 1, and whether each payment is fraud."""
    evidence = rng.normal(-1, 1, size=n)
    return 1 / (1 + np.exp(-3 * evidence)), rng.random(n) < 1 / (1 + np.exp(-evidence))


scores, fraud = payments(400)
new_scores, truth = payments(5000)
cal = sc.Calibrator(input="score").fit(scores, fraud)
p = cal.predict_score(new_scores)

# %%
# Costs instead of a threshold
# ----------------------------
#
# A wrong decision costs 10, a look by a person 2. ``decide`` takes the decision with the least
# expected cost: 0 lets the payment pass, 1 stops it, -1 hands it over.

costs = sc.Costs(miss=10, false_alarm=10, review=2)
print("decisions at 1 %, 30 % and 95 %:", costs.decide([0.01, 0.30, 0.95]).tolist())

found = sc.expected_cost(truth, p, costs, raw=new_scores)
print(f"calibrated score: {found.cost.point:.2f} per payment, {found.reviewed:.0%} looked at")
print(f"raw score:        {found.others['raw'].point:.2f} per payment")
print("saved:", found.gains["raw"].text())
print(f"the calibrated probabilities had promised {found.promised:.2f} per payment")

# %%
# Is the threshold right?
# -----------------------
#
# The costs alone say where the threshold must be (dashed). Right probabilities cost least near
# that line. The raw score would need another threshold, which only more labels could find. A star
# marks the lowest cost on these samples.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
series = {"raw": new_scores, "calibrated": p}
plots.cost_curve(truth, series, costs=costs, n_boot=200, ax=left)
plots.net_benefit(truth, series, n_boot=200, ax=right)
plt.show()

# %%
# The right picture is for costs that nobody agrees on. It shows the net benefit for every
# threshold, and so for every ratio of the two mistakes: hits, less false alarms counted in hits. A
# model is of use where its line lies above both "act on all" and "act on none".
#
# More: :doc:`/guides/costs`, which also has matrices of costs for many classes.
