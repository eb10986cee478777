"""
How many labels do I need?
==========================

Labels cost money. I have 300. Is calibrating with them worth it, and what would more give?
"""

# %%
# Plan from a pilot
# -----------------
#
# The demo data are a real network's outputs for 345 kinds of drawing. Take the first 300 labelled
# rows as the pilot. ``plan`` fits on random draws of growing size, measures each fit on the rows
# left out, and continues the curve beyond the pilot.

import warnings

import matplotlib.pyplot as plt

import smallcal as sc

demo = sc.load_demo("cal")
plan = sc.plan(demo.logits[:300], demo.labels[:300], draws=10, target={"ece15": 0.04})
for sentence in plan.sentences:
    print("-", sentence)

# %%
# The curve
# ---------
#
# The score is top-label log-loss, the log-loss of the statement "the prediction is right"; lower is
# better. The band is the change against the uncalibrated model on the same samples, with its 90 %
# interval: that is what decides whether calibrating is worth it.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
sizes = [row.size for row in plan.rows]
gains = [row.gains["top_label_bce"] for row in plan.rows]
left.fill_between(sizes, [100 * g.low for g in gains], [100 * g.high for g in gains], alpha=0.25)
left.plot(sizes, [100 * g.point for g in gains], marker="o", label=plan.method)
left.axhline(0, color="black", linestyle=":", label="uncalibrated")
left.set(title="What calibrating changes", ylabel="top-label log-loss, change (points)")

errors = [row.metrics["ece15"] for row in plan.rows]
right.fill_between(sizes, [100 * e.low for e in errors], [100 * e.high for e in errors], alpha=0.25)
right.plot(sizes, [100 * e.value for e in errors], marker="o", label=plan.method)
raw = next(row for row in plan.references if row.method == "none")
right.axhline(100 * raw.metrics["ece15"].value, color="black", linestyle=":", label="uncalibrated")
right.set(title=f"Expected ECE on {plan.test_size:,} test samples", ylabel="ECE (%)", ylim=0)

for ax in (left, right):
    ax.axvspan(plan.n, max(sizes), color="0.95", zorder=0, label="beyond the pilot")
    ax.set(xscale="log", xlabel="calibration samples")
    ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
    ax.minorticks_off()
    ax.legend()
plt.show()

# %%
# Did it come true?
# -----------------
#
# The demo has more rows than the pilot. Fit on all of them and measure on the test split:

warnings.simplefilter("ignore", sc.FitWarning)  # accuracy could rise, too: another question
test = sc.load_demo("test")
raw_score = sc.evaluate(
    test.labels, sc.Identity().fit(demo.logits, demo.labels).predict_proba(test.logits)
)["top_label_bce"]
for size in (300, len(demo.labels)):
    cal = sc.make(plan.method).fit(demo.logits[:size], demo.labels[:size])
    score = sc.evaluate(test.labels, cal.predict_proba(test.logits))["top_label_bce"]
    print(
        f"{size:5,} samples: top-label log-loss changed by {100 * (score - raw_score):+.2f} points"
    )

# %%
# The default only applies what the samples support, so with few labels its gain is smaller, not
# negative. :doc:`/guides/planning` explains the numbers.
