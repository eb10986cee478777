"""Where the default's fit spends its time: `python benchmarks/default_profile.py`.

Times each stage of one fit in place (the best of many fits; a stage's time has that of the stages
inside it taken off), beside scikit-learn's fit of one temperature on the same rows. The floor is
what the looks at the data cost, each with its slopes and curvatures: the time that would be left if
all that is done with them (folds, evidence for scales, the weight, counts for the monitor, checks)
were free.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from sklearn.calibration import _TemperatureScaling

import smallcal as sc
from smallcal.calibrators import finish, method
from smallcal.calibrators.maps import correction_fit, regressed_fit
from smallcal.calibrators.objectives import Seen
from smallcal.data import predictions
from speed.ratio import best, logits

REPEATS = 20
#: Stages by name: where the function is looked up.
STAGES = {
    "checks of the input": (predictions.Predictions, "of"),
    "gaps and raw confidences": (Seen, "of"),
    "one temperature of the raw model": (method, "pooled_prior"),
    "correction: looks at the data": (correction_fit._Model, "look"),
    "correction: scales by evidence": (correction_fit.Scales, "balance"),
    "correction: directions, folds, rows out of fold": (method, "fit_correction"),
    "temperatures: looks at the data": (regressed_fit.Problem, "look"),
    "temperatures: the rest": (method.Method, "_fit_parts"),
    "tail": (method.Method, "_with_tail"),
    "weight, and losses of what is deployed": (finish.Made, "finished"),
    "counts for the monitor": (method, "with_reference"),
    "fingerprint": (predictions.Predictions, "sha256"),
}
#: Those that look at the data.
LOOKS = (
    "gaps and raw confidences",
    "one temperature of the raw model",
    "correction: looks at the data",
    "temperatures: looks at the data",
    "tail",
)


class Clock:
    """Time spent in each stage, without what is spent in stages inside it."""

    def __init__(self):
        self.spent, self.calls, self.inside = Counter(), Counter(), [0.0]

    def timed(self, name, function):
        """Return the function, timed under a name."""

        def run(*args, **kwargs):
            self.inside.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.perf_counter() - start
                self.spent[name] += took - self.inside.pop()
                self.calls[name] += 1
                self.inside[-1] += took

        return run


@contextmanager
def timed(clock):
    """Let every stage be timed."""
    with ExitStack() as stack:
        for name, (owner, key) in STAGES.items():
            found = clock.timed(name, getattr(owner, key))
            kept = staticmethod(found) if isinstance(vars(owner).get(key), classmethod) else found
            stack.enter_context(patch.object(owner, key, kept))
        yield


def profile(n, n_classes):
    """Print the stages of one shape."""
    z, y = logits(n, n_classes)
    clocks, whole = [], []
    for _ in range(REPEATS):
        clocks.append(Clock())
        start = time.perf_counter()
        with timed(clocks[-1]):
            sc.Calibrator().fit(z, y)
        whole.append(time.perf_counter() - start)
    total, theirs = min(whole), best(lambda: _TemperatureScaling().fit(z, y), REPEATS)
    print(f"\n{n:,} x {n_classes}: {total * 1e3:.1f} ms, scikit-learn {theirs * 1e3:.1f} ms\n")
    print("| stage | calls | ms | % |\n|---|---|---|---|")
    rest = total
    for name in STAGES:
        spent = min(clock.spent[name] for clock in clocks)
        rest -= spent
        share = 100 * spent / total
        print(f"| {name} | {clocks[0].calls[name]} | {spent * 1e3:.1f} | {share:.0f} |")
    print(f"| everything else | | {rest * 1e3:.1f} | {100 * rest / total:.0f} |")
    floor = sum(min(clock.spent[name] for clock in clocks) for name in LOOKS)
    print(f"\nFloor: {floor * 1e3:.1f} ms, {floor / theirs:.2f} of scikit-learn's time.")


def main():
    warnings.simplefilter("ignore", sc.FitWarning)
    for n, n_classes in ((2_500, 100), (25_000, 100), (2_500, 10)):
        profile(n, n_classes)


if __name__ == "__main__":
    main()
