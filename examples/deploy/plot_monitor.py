"""
Is it still right? A monitor over thirty days
=============================================

The calibrator was fitted in spring. How do I notice that the data have changed, without labels and
without a false alarm every week?
"""

# %%
# Thirty days, and a change on day 11
# -----------------------------------
#
# A simulated model sees 300 rows a day. From day 11 on the inputs get harder, day by day. Nobody
# labels them.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal_lab.studies.simulate import World

world = World(n_classes=20, accuracy=0.85, temperature=1.4)
clean = world.draw(1000)
cal = sc.Calibrator().fit(clean.logits, clean.labels)


def day(number):
    """Return the rows of one day."""
    severity = float(np.clip((number - 10) / 3, 0, 5))
    return world.draw(300, split="test", draw=number, severity=severity)


# %%
# One look a day
# --------------
#
# The chance of *ever* giving a false alarm is at most ``alpha``, however often one looks. That is
# what makes it safe to look every day. A usual p-value does not allow that.

alpha = 0.01
monitor = sc.Monitor(cal, alpha=alpha)
days = np.arange(1, 31)
reports = [monitor.update(day(number).logits) for number in days]
first = next(number for number, report in zip(days, reports, strict=True) if report.drifted)
print(f"alarm on day {first}")
for sentence in reports[first - 1].sentences:
    print("-", sentence)

# %%
# The evidence against "nothing has changed" is an e-value. While nothing changes it wanders, and
# mostly stays small. An alarm is given when it reaches 1 / alpha.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(days, [report.drift_log_e / np.log(10) for report in reports], marker=".")
left.axhline(-np.log10(alpha), color="#D55E00", linestyle="--", label="alarm")
left.set(xlabel="day", ylabel="evidence of drift (log10 of e-value)", ylim=(-4, 10))
truth = [np.mean(cal.predict(day(d).logits) == day(d).labels) for d in days]
confidence = [np.mean(cal.predict_proba(day(d).logits).max(axis=1)) for d in days]
right.plot(days, 100 * np.array(confidence), label="mean confidence (seen)")
right.plot(days, 100 * np.array(truth), linestyle="--", label="accuracy (not seen)")
right.set(xlabel="day", ylabel="%")
for ax in (left, right):
    ax.axvline(10.5, color="0.6", linestyle=":", label="the data change")
    ax.legend()
plt.show()

# %%
# Label some rows
# ---------------
#
# Drift alone does not say that confidence is wrong. A few labelled rows do:

later = [day(number) for number in range(26, 31)]
logits, labels = (
    np.concatenate([getattr(d, name) for d in later]) for name in ("logits", "labels")
)
checked = sc.Monitor(cal, alpha=alpha, tolerance=0.02).update(logits, labels)
gap = checked.gap
print(f"accuracy minus confidence: {gap.gap:+.1%}, interval {gap.low:+.1%} to {gap.high:+.1%}")
print("verdict:", checked.verdict)

# %%
# ``smallcal monitor`` does the same from a shell, keeps its state in a file, and leaves with exit
# code 1 on alarm. :doc:`/guides/monitor` says what it can miss.
