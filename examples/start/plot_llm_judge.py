"""
Turn a judge's marks into probabilities
=======================================

A language model marks answers from 1 to 10. People checked 100 of them. What is a mark of 8 worth,
and how many of the unchecked answers are good?
"""

# %%
# Marks and verdicts
# ------------------
#
# The judge is simulated: it is generous, and its marks are noisy. A *score* is any single number
# per item; ``input="score"`` says so. The outcome is 0 or 1.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots

rng = np.random.default_rng(7)


def judge(n):
    """Return marks of n answers, and whether people find them good."""
    quality = rng.normal(size=n)
    marks = np.clip(np.round(7.5 + 1.2 * quality + 0.8 * rng.normal(size=n)), 1, 10)
    return marks, quality + rng.normal(size=n) > 0.5


marks, good = judge(100)  # checked by people
new_marks, truth = judge(5000)  # unchecked; the truth is here only to look at the result

cal = sc.Calibrator(input="score").fit(marks, good)
p = cal.predict_score(new_marks)

# %%
# What a mark is worth
# --------------------
#
# The curve is what the calibrator learned from 100 labels. The points are the true rates among
# the 5,000 unchecked answers.

fig, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
grid = np.arange(3, 11)
ax.plot(grid, 100 * cal.predict_score(grid), label="calibrated, from 100 labels")
rate = [100 * truth[new_marks == mark].mean() for mark in grid]
ax.scatter(grid, rate, color="C1", zorder=3, label="rate among 5,000 new answers")
ax.plot(grid, 10 * grid, color="0.6", linestyle=":", label="the mark read as tenths")
ax.set(xlabel="mark", ylabel="good answers (%)")
ax.legend()
plt.show()

# %%
# How many are good?
# ------------------
#
# Add up the probabilities. Counting marks of 8 and more gives a different answer.

print(f"calibrated:       {p.mean():.1%}")
print(f"marks of 8 to 10: {(new_marks >= 8).mean():.1%}")
print(f"truth:            {truth.mean():.1%}")

# %%
# Are the probabilities right?
# ----------------------------

fig, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
plots.reliability(truth, {"mark / 10": new_marks / 10, "calibrated": p}, ax=ax)
plt.show()

# %%
# With a map this small, 100 labels carry far. The recipe :doc:`/recipes/llm-judge` goes on to
# decide which answers may go out, and :doc:`/guides/scores` explains the curve.
