"""From arrays to a fitted calibrator: what ``fit`` does in every estimator, and in the shell.

No scikit-learn here: the command line fits without it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from smallcal.calibrators.discipline import NOTES
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.calibrators.method import Method
from smallcal.calibrators.with_classes import with_classes
from smallcal.data.predictions import Predictions
from smallcal.errors import FitWarning


def fit_arrays(
    method: Method,
    X: object,
    y: object,
    *,
    input: str = "logits",
    features: object = None,
    **given: Any,
) -> FittedCalibrator:
    """Check arrays and fit a method on them; see :meth:`BaseCalibrator.fit`.

    ``given`` are class names, weights and groups, as :meth:`Predictions.of` takes them.

    Examples
    --------
    >>> from smallcal.calibrators.catalogue import method
    >>> fit_arrays(method("ts-nll"), [[2.0, 0.0]] * 60, [0] * 40 + [1] * 20).map.kind
    'scalar'
    """
    features = features if "features" in method.needs else None
    preds = Predictions.of(X, y, input=input, features=features, **given).counted()
    preds.require_fittable(input=input)
    fitted = method.fit(preds)
    fitted = with_classes(fitted, preds.logits, preds.features, preds.group_labels)
    fitted = replace(fitted, input=input, class_names=preds.class_names)
    if preds.score is not None:
        fitted = replace(fitted, flags={**preds.score.flags(X), **fitted.flags})
    return fitted


def warn_of_flags(fitted: FittedCalibrator) -> None:
    """Say once, in words, what about this fit a person should act on."""
    for name, groups in fitted.flags.items():
        if name in NOTES:
            continue
        where = ""
        if groups and name != "absent_classes":
            plural = "s" if len(groups) > 1 else ""
            where = f" in group{plural} {', '.join(map(str, groups))}"
        warnings.warn(f"{name}{where}: {fitted.flag_text(name)}", FitWarning, stacklevel=3)
