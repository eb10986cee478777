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

import warnings

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
# Keep predictions, or not?
# -------------------------
#
# The default keeps every prediction and corrects only confidences. It warns when that costs
# accuracy, and estimates how much, by cross-validation on the 300 questions:

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kept = sc.Calibrator().fit(logits, answers)
for warning in caught:
    print(warning.message)

# %%
# If nobody depends on the old predictions, let them change:

free = sc.Calibrator(keep_predictions=False).fit(logits, answers)
one_temperature = sc.TemperatureScaling().fit(logits, answers)

calibrators = {
    "raw": sc.Identity().fit(logits, answers),
    "one temperature": one_temperature,
    "predictions kept": kept,
    "predictions free": free,
}
probabilities = {name: cal.predict_proba(new_logits) for name, cal in calibrators.items()}
for name, p in probabilities.items():
    found = sc.evaluate(truth, p, metrics=["accuracy", "nll", "ece15"])
    print(
        f"{name:17} accuracy {found['accuracy']:.1%}, log-loss {found['nll']:.3f}, "
        f"ECE {found['ece15']:.1%}"
    )

# %%
# One temperature cannot see the problem: it scales all options alike. The free view shifts each
# option by as much as the 300 answers support, and the model is right more often.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
width = 0.4
for shift, (name, colour) in enumerate({"raw": "#0072B2", "predictions free": "#D55E00"}.items()):
    share = np.bincount(probabilities[name].argmax(axis=1), minlength=4) / len(truth)
    left.bar(np.arange(4) + (shift - 0.5) * width, 100 * share, width, label=name, color=colour)
left.axhline(25, color="black", linestyle=":", label="right answers")
left.set(xticks=range(4), xticklabels=options, ylabel="predictions (%)", xlabel="option")
left.legend()
shown = {name: probabilities[name] for name in ("raw", "predictions free")}
plots.reliability(truth, shown, ax=right)
plt.show()

# %%
# A vision model with text prompts (CLIP, for example) shows the same pattern: some prompts attract
# more images than they should. The recipe :doc:`/recipes/multiple-choice` reads the logs of
# evaluation harnesses.
