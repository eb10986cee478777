"""
Does calibration survive a shift?
=================================

A calibrator is fitted on clean data. What happens to its confidences when images get noisier or
texts get stranger?
"""

# %%
# The same samples, harder and harder
# -----------------------------------
#
# A simulated model with known truth meets the same test samples at six severities. The labels
# stay; the evidence gets weaker, and the model does not notice.

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots
from smallcal_lab.studies.simulate import World

world = World(n_classes=50, accuracy=0.8, temperature=1.5, structure=0.4)
clean = world.draw(1000)
shifted = {f"severity {s}": world.draw(3000, split="test", severity=s) for s in range(6)}

calibrators = {
    "raw": sc.Identity(),
    "one temperature": sc.TemperatureScaling(),
    "three temperatures": sc.SRTS(),
    "default": sc.Calibrator(),
}
for cal in calibrators.values():
    cal.fit(clean.logits, clean.labels)  # clean samples only

# %%
# Error against the accuracy that is left
# ---------------------------------------
#
# Each mark is one severity. The calibration error is the debiased one (noise taken off), with its
# 95 % interval.

labels = {name: rows.labels for name, rows in shifted.items()}
probabilities = {
    method: {name: cal.predict_proba(rows.logits) for name, rows in shifted.items()}
    for method, cal in calibrators.items()
}
fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
plots.shift_errors(labels, probabilities, n_boot=200, ax=ax)
plt.show()

# %%
# Calibration on clean samples still helps on shifted ones: all calibrators stay far below the raw
# model. But no calibrator knows of a shift that it has not seen, and all errors grow.
#
# The samples themselves tell of the shift, without labels. SRTS sorts them into three groups by
# their risk of being wrong, and more and more of them land in the riskiest:

shares = [np.mean(calibrators["three temperatures"].group(s.logits) == 2) for s in shifted.values()]
for name, share in zip(shifted, shares, strict=True):
    print(f"{name}: {share:.0%} of samples in the riskiest group")

# %%
# Watch for shifts where the model runs with a :doc:`monitor </guides/monitor>`, and
# :doc:`refresh </guides/refresh>` the calibrator when new labels come in.
