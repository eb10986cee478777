"""
Overconfident in one place, not in another
==========================================

Overall the confidences are fine. But at one site, in one language, for one kind of question they
are not. How do I correct each group with the few labels it has?
"""

# %%
# Three large groups and two small ones
# -------------------------------------
#
# The model is simulated: it is overconfident in Lagos and Quito, and a little underconfident
# elsewhere once one calibrator is fitted for all. Two sites have very few labels.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal.statistics.gaps import gaps_by_group

rng = np.random.default_rng(1)
sites = np.array(["Berlin", "Lagos", "Lima", "Oslo", "Quito"])
noise = np.array([1.5, 4.0, 1.5, 1.5, 4.0])


def answers(n, shares):
    """Return logits, labels and sites of n rows."""
    place = rng.choice(5, size=n, p=shares)
    logits = 3 * rng.normal(size=(n, 4))
    blurred = logits + noise[place, None] * rng.gumbel(size=logits.shape)
    return logits, blurred.argmax(axis=1), sites[place]


logits, labels, site = answers(1000, [0.32, 0.32, 0.32, 0.02, 0.02])
new_logits, truth, new_site = answers(6000, [0.2, 0.2, 0.2, 0.2, 0.2])

# %%
# One effect per group
# --------------------
#
# With ``groups=`` the fit shifts the log-odds of the confidence in each group. A prior around zero
# holds the shifts back (shrinkage): large groups go where their labels are, small ones only as far
# as their few labels support. If groups do not differ, nothing changes.

plain = sc.Calibrator().fit(logits, labels)
grouped = sc.Calibrator().fit(logits, labels, groups=site)
effects = grouped.fitted_.groups
for name, effect in zip(effects.names, effects.effects, strict=True):
    print(f"{name:7} {np.sum(site == name):3} labels, effect on the log-odds {effect:+.2f}")

# %%
# Confidence minus accuracy, site by site
# ---------------------------------------

before = plain.predict_proba(new_logits)
after = grouped.predict_proba(new_logits, groups=new_site)
rows = {row["group"]: row for row in gaps_by_group(truth, after, new_site, before=before)}

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
place = np.arange(len(sites))
for shift, (name, key, colour) in enumerate(
    [("without groups", "raw_gap", "#0072B2"), ("with groups", "gap", "#D55E00")]
):
    prefix = key.removesuffix("gap")
    gap, low, high = (
        np.array([100 * rows[one][prefix + end] for one in sites]) for end in ("gap", "low", "high")
    )
    where = place + 0.16 * (shift - 0.5)
    bars = [gap - low, high - gap]
    ax.errorbar(where, gap, bars, fmt="os"[shift], capsize=3, color=colour, label=name)
ax.axhline(0, color="black", linestyle=":")
counts = [f"{one}\n{np.sum(site == one)} labels" for one in sites]
ax.set(xticks=place, xticklabels=counts, ylabel="confidence - accuracy (points)")
ax.legend()
plt.show()

# %%
# Bars are exact 95 % intervals. The large groups move close to zero. Oslo and Quito, with few
# labels, move in the right direction and no further than those justify: label more rows there.
#
# More: :doc:`/guides/groups`.
