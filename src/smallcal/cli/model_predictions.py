"""How well a calibrator's confidences fit the model's own predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.cli import terminal
from smallcal.data.predictions import IntArray
from smallcal.deploy.decided_rows import Rows
from smallcal.metrics import METRICS, Scored

#: What is measured; none of these looks at other classes.
MEASURED = ("accuracy", "ece15", "top_label_bce")


def scored(labels: IntArray, rows: Rows) -> Scored:
    """Return the model's own predictions with their calibrated probabilities, for `measured`."""
    whole = Scored.of(labels, rows.proba)
    own = rows.logits.argmax(axis=1)
    sure = whole.proba[np.arange(whole.n), own]
    first = own == whole.proba.argmax(axis=1)
    return Scored(
        proba=np.empty((whole.n, 0)),
        labels=np.empty(0, dtype=np.int64),
        confidence=np.minimum(sure, 1.0),
        doubt=np.where(first, whole.doubt, 1 - sure),
        correct=own == whole.labels,
    )


def measured(views: Sequence[Scored]) -> dict[str, float]:
    """Return accuracy, ECE and top-label log-loss of the model's own predictions."""
    names = ("proba", "labels", "confidence", "doubt", "correct")
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(view, name) for view in views]) for name in names
    }
    whole = Scored(**joined)
    return {name: METRICS[name].of(whole) for name in MEASURED}


def show(fitted: FittedCalibrator | None, found: Mapping[str, float] | None) -> None:
    """Print them, where predictions may differ from the calibrator's."""
    if fitted is None or found is None:
        return
    if fitted.preserves_argmax and not fitted.keep_predictions:
        return
    told = (f"{METRICS[name].title} {METRICS[name].unit.value(found[name])}" for name in MEASURED)
    terminal.say(
        f"The model's own predictions, with their calibrated confidence: {', '.join(told)}."
    )
