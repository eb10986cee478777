"""
A language model that prefers option A
======================================

Zero-shot models and language models that answer multiple choice prefer some options whatever the
question is. Can calibration repair that, and may predictions change?
"""

# %%
# A model with a favourite
# ------------------------
#
# The questions are simulated. The right answer is A, B, C or D equally often, but the model adds
# something to A and takes something from D.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots

rng = np.random.default_rng(3)
options = ["A", "B", "C", "D"]


def ask(n):
    """Return logits and right answers of n questions."""
    answers = rng.integers(4, size=n)
    logits = rng.normal(size=(n, 4)) + 2 * np.eye(4)[answers]
    return 1.5 * logits + [1.5, 0.3, -0.3, -1.2], answers


logits, answers = ask(300)  # questions with known answers
new_logits, truth = ask(3000)  # questions to come; we know the answers only to check

# %%
# Fit
# ---
#
# The default corrects the bias, so predictions may change. It estimates what that does to accuracy
# by cross-validation on the 300 questions:

default = sc.Calibrator().fit(logits, answers)
found = default.fitted_.fit_metrics["cross_validated"]
low, high = 100 * found["accuracy_change_low"], 100 * found["accuracy_change_high"]
print(
    f"changes {found['changed']:.0%} of predictions; accuracy "
    f"{100 * found['accuracy_change']:+.1f} points, 95 % interval {low:.1f} to {high:.1f}"
)

# %%
# Beside it the uncalibrated model and temperature scaling, which keeps predictions:

calibrators = {
    "uncalibrated": sc.Identity().fit(logits, answers),
    "temperature scaling": sc.TemperatureScaling().fit(logits, answers),
    "default": default,
}
probabilities = {name: cal.predict_proba(new_logits) for name, cal in calibrators.items()}
for name, p in probabilities.items():
    found = sc.evaluate(truth, p, metrics=["accuracy", "nll", "ece15"])
    print(
        f"{name:19} accuracy {found['accuracy']:.1%}, log-loss {found['nll']:.3f}, "
        f"ECE {found['ece15']:.1%}"
    )

# %%
# One temperature cannot see the problem: it scales all options alike. The default shifts each
# option by as much as the 300 answers support, and the model is right more often.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
width = 0.4
for shift, (name, colour) in enumerate({"uncalibrated": "#0072B2", "default": "#D55E00"}.items()):
    share = np.bincount(probabilities[name].argmax(axis=1), minlength=4) / len(truth)
    left.bar(np.arange(4) + (shift - 0.5) * width, 100 * share, width, label=name, color=colour)
left.axhline(25, color="black", linestyle=":", label="right answers")
left.set(xticks=range(4), xticklabels=options, ylabel="predictions (%)", xlabel="option")
left.legend()
shown = {name: probabilities[name] for name in ("uncalibrated", "default")}
plots.reliability(truth, shown, ax=right)
plt.show()

# %%
# A vision model with text prompts (CLIP, for example) shows the same pattern: some prompts attract
# more images than they should. The recipe :doc:`/recipes/multiple-choice` reads the logs of
# evaluation harnesses.
