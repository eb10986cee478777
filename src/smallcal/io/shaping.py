"""What was read from a file, put into the shape that its kind has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.errors import FileError
from smallcal.io.layout import Loaded
from smallcal.io.outcomes import as_outcomes, one_number
from smallcal.io.words import called_score, holds_scores


def kind_of(scores: NDArray[Any], role: str, name: str) -> str:
    """Return what an array holds by its name; what is called scores may be logits."""
    single = scores.ndim == 1 or scores.shape[1:] == (1,)
    if role == "logits" and single and scores.dtype.kind == "f" and called_score(name):
        return "score"
    return "logits" if role == "score" and not single and holds_scores(name) else role


def scored(loaded: Loaded) -> Loaded:
    """Return one number per row, and outcomes as 0 and 1."""
    source = loaded.source
    scores = one_number(loaded.logits, source=source)
    loaded = replace(loaded, logits=scores, class_names=None)
    if loaded.labels is None:
        return loaded
    found, notes = as_outcomes(loaded.labels, source=source)
    return replace(loaded, labels=found, notes=(*loaded.notes, *notes))


def refuse_predicted(scores: NDArray[Any], name: str, file: Path) -> None:
    """Raise where an array called preds, say, holds the predicted classes."""
    if scores.ndim == 1 and scores.dtype.kind in "iubU":
        raise FileError.with_options(
            f"{file}: {name} holds one class per row, not scores; name the array of shape (n, "
            "classes) with --logits-key",
            code="array-shape",
        )


def flattened(loaded: Loaded) -> Loaded:
    """Return one row per token where scores and labels have an axis for the tokens of a text."""
    scores, labels = loaded.logits, loaded.labels
    if labels is None or scores.ndim < 3 or labels.shape != scores.shape[:-1]:
        return loaded
    note = f"{loaded.source}: flattened to {labels.size:,} rows, one per label"
    groups = loaded.groups
    return replace(
        loaded,
        groups=None if groups is None else np.repeat(groups, labels.size // len(labels)),
        logits=scores.reshape(-1, scores.shape[-1]),
        labels=labels.reshape(-1),
        notes=(*loaded.notes, note),
    )
