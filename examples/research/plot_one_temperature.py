"""
When is one temperature not enough?
===================================

Temperature scaling divides all logits by one number. Why should some predictions need another one,
and how do I see whether mine do?
"""

# %%
# Same confidence, different risk
# -------------------------------
#
# The model is simulated, so the truth is known: it is more overconfident on hard samples than on
# easy ones. Signal-routed temperature scaling (SRTS) estimates each prediction's risk of being
# wrong from six statistics of its logits, forms three groups by that risk, and fits one temperature
# in each.

import matplotlib.pyplot as plt

import smallcal as sc
from smallcal import plots
from smallcal_lab.studies.simulate import World

world = World(n_classes=100, accuracy=0.75, temperature=1.5, structure=0.4)
val, test = world.draw(2500), world.draw(20_000, split="test")
srts = sc.SRTS().fit(val.logits, val.labels)
print("one temperature for all:", round(srts.pooled_temperature_, 2))
print("by risk, lowest first:  ", srts.temperatures_.round(2).tolist())

# %%
# Left: confidence after *one* temperature against accuracy, group by group. If one temperature were
# enough, the groups would follow the diagonal together. Right: accuracy minus confidence in each
# group, before and after.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
plots.matched_confidence(test.labels, test.logits, calibrator=srts, ax=left)
plots.group_residuals(test.labels, test.logits, calibrator=srts, ax=right)
plt.show()

# %%
# What it is worth
# ----------------
#
# Since the truth is known, the expected scores have no noise from labels.

truth = test.expected(test.probabilities)["top_label_bce"]
for name in ("none", "tva-ts", "random-k3", "srts-bce", "smallcal"):
    cal = sc.make(name).fit(val.logits, val.labels)
    p = cal.predict_proba(test.logits)
    score = test.expected(p)["top_label_bce"]
    print(
        f"{name:10} top-label log-loss above the truth's {100 * (score - truth):5.2f} points, "
        f"true ECE {test.true_ece(p):.1%}"
    )

# %%
# ``tva-ts`` is one temperature. ``random-k3`` is a control: three groups at random, with a
# temperature each. If it gained as much as SRTS, the risk would have nothing to do with it.
#
# How temperatures follow the risk
# --------------------------------

fig, axes = plt.subplots(1, 3, figsize=(10, 4), layout="constrained")
for ax, name in zip(axes, ("srts-bce", "linear-risk", "signal-linear"), strict=True):
    cal = sc.make(name).fit(val.logits, val.labels)
    plots.temperature_signal(cal, test.logits[:3000], ax=ax)
plt.show()

# %%
# Groups give steps, curves give lines, and ``signal-linear`` uses several signals at once.
#
# Ask the same of your own model
# ------------------------------
#
# ``signal_to_noise`` tests on the calibration split whether miscalibration depends on a signal
# after one temperature.

table = sc.signal_to_noise(val.logits, val.labels)
print(table["risk"].text())
print(table.verdict())

# %%
# More: :doc:`/guides/audit`, and :doc:`/reference/methods` for every formula.
