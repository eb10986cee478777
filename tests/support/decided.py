"""Certified thresholds as certify would write them, for tests that need one and no statistics."""

from dataclasses import replace

import numpy as np

from smallcal.calibrators.decision import Threshold
from smallcal.calibrators.given import checked, coded


def threshold(*levels, by="all", names=("",), risk=0.02, **more):
    """Return a decision of these thresholds."""
    k = len(levels)
    given = {
        "risk": risk,
        "confidence": 0.95,
        "rule": "accepted",
        "by": by,
        "names": tuple(names),
        "thresholds": tuple(levels),
        "n": (500,) * k,
        "accepted": tuple(0 if level is None else 300 for level in levels),
        "errors": tuple(0 if level is None else 1 for level in levels),
        "bounds": tuple(None if level is None else 0.0157 for level in levels),
        "cross": False,
        "sha256": "ab" * 32,
        "promise": "At most 2 % of accepted rows are wrong, with 95 % confidence.",
    }
    return Threshold(**{**given, **more})


def with_decisions(fitted, *decisions):
    """Return a calibrator that carries them."""
    return replace(fitted, decisions=decisions)


def near(fitted, z, by=1e-9, *, features=None, groups=None):
    """Return which rows lie so close to a threshold that rounding may decide."""
    given = checked(fitted, z, features, None)
    given = given._replace(groups=coded(fitted.groups, groups, len(given.logits)))
    confidence, claimed = fitted.claims(fitted.calibrate(given), given.logits)
    found = np.zeros(len(given.logits), dtype=bool)
    for rule in fitted.decisions:
        levels = rule.levels[claimed][:, None] if rule.by == "class" else rule.levels
        found |= (np.abs(confidence.astype(float)[:, None] - levels) <= by).any(axis=1)
    return found
