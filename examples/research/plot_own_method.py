"""
Write your own method
=====================

I have an idea for a calibration map. How much must I write to fit it, save it, export it and
compare it with all others?
"""

# %%
# The idea
# --------
#
# One temperature for all, raised where the risk of being wrong is high:
# :math:`T(x) = T_0 \, (1 + a \, r(x))`, where :math:`r(x)` is the estimated risk. smallcal
# already has the risk as a *signal* and top-label log-loss as an *objective*. What is missing is
# the *map* from risk to temperature. It has two halves: what was learned, and how it is learned.

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import smallcal as sc
from smallcal import plots
from smallcal.calibrators.maps import MapFit, Split, TemperatureMap, loss_and_slope, recipe
from smallcal.calibrators.method import Method, fit_arrays
from smallcal.calibrators.parts import Rule, rule
from smallcal.calibrators.program import Row, Value
from smallcal.deploy.export import to_python
from smallcal_lab.studies.simulate import World

# %%
# What was learned
# ----------------
#
# A frozen dataclass. Its fields are what the saved file holds. ``__call__`` applies it in NumPy;
# ``program`` says the same once more, in operations that every export understands.


@dataclass(frozen=True)
class Raised(TemperatureMap):
    """T = temperature * (1 + rise * risk)."""

    temperature: float
    rise: float
    kind: ClassVar[str] = "raised-in-gallery"
    words: ClassVar[str] = "divided by a temperature that rises with {signal}"
    schema: ClassVar[Mapping[str, Rule]] = {
        "temperature": rule("temperature"),
        "rise": rule("number"),
    }

    @property
    def n_parameters(self) -> int:
        """The temperature and the rise."""
        return 2

    def __call__(self, scores: np.ndarray, /) -> np.ndarray:
        """Return the temperature of each row."""
        return self.temperature * (1 + self.rise * scores)

    def program(self, row: Row, scores: Value, /) -> Value:
        """Return the temperature, for exports."""
        return self.temperature * (1 + self.rise * scores)


# %%
# How it is learned
# -----------------
#
# A function with the decorator ``recipe``. It gets the calibration samples with their out-of-fold
# risk, and tries a grid.


@recipe("raised-in-gallery")
def fit_raised(split: Split, *, most: float = 3.0) -> MapFit:
    """Try base temperatures and rises on a grid; keep the pair with the lowest loss."""
    tried = [
        Raised(float(share * split.pooled.value), float(rise))
        for share in np.linspace(0.3, 1.1, 25)
        for rise in np.linspace(0, most, 31)
    ]
    losses = [loss_and_slope(split.goal, split.gaps, each(split.scores))[0] for each in tried]
    return MapFit(tried[int(np.argmin(losses))], (split.gaps.n,))


# %%
# A row of the table of methods puts the parts together:

method = Method(
    name="raised-risk",
    objective="bce",
    signal="risk",
    map="raised-in-gallery",
    summary="one temperature, raised where the risk of being wrong is high",
    good_for="an example",
    parameters="9",
)

# %%
# Fit it
# ------

world = World(n_classes=100, accuracy=0.75, temperature=1.5, structure=0.4)
val, test = world.draw(1000), world.draw(5000, split="test")
raised = fit_arrays(method, val.logits, val.labels)
print(raised.map)

probabilities = {
    name: sc.make(name).fit(val.logits, val.labels).predict_proba(test.logits)
    for name in ("tva-ts", "none", "srts-bce", "linear-risk")
}
probabilities["raised-risk"] = raised.predict_proba(test.logits)
result = sc.compare(test.labels, probabilities, baseline="tva-ts", metrics=["top_label_bce"])
print(result.verdict("raised-risk"))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plots.temperature_signal(raised, test.logits, ax=left)
plots.forest(result, ax=right)
plt.show()

# %%
# All the rest comes with it
# --------------------------
#
# The file that ``save`` writes, and the exports:

print(json.dumps(raised.to_dict()["map"]))
module = {"__name__": "cal"}
exec(to_python(raised), module)
row = test.logits[0].astype(float)
difference = np.abs(module["calibrate"](row.tolist()) - raised.predict_proba(row[None])[0]).max()
print(f"the exported Python file differs by at most {difference:.0e}")

# %%
# To use it by name, ``sc.make("raised-risk")``, put the two halves in a package with an entry
# point: see :doc:`/contributing/adding-a-method`.
