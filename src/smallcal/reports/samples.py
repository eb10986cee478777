"""The samples of a report: checked, with where they came from and their fingerprints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from smallcal import io
from smallcal.data.checks import as_class_names
from smallcal.data.predictions import Predictions
from smallcal.errors import InputError
from smallcal.io.paths import file_sha256, split_path


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """Checked samples of one model.

    Attributes
    ----------
    preds : Predictions
        Holds logits, whatever came in: logarithms where those were probabilities.
    input : {"logits", "probabilities", "score"}
        What came in.
    class_names : tuple of str, or None
    source : str
        The file as it was named, or what the samples are for.
    file : str
        The file as it was named; empty where there is none.
    facts : dict
        What the report says of them: ``source``, ``n``, ``n_classes``, ``n_errors`` and
        ``accuracy`` (of scores: outcomes 0, and the success rate), ``sha256`` of the arrays,
        and ``file_sha256``, None where they came from no file.
    flags : dict of str to list
        What scores were taken for; nothing of logits.
    """

    preds: Predictions
    input: str
    class_names: tuple[str, ...] | None
    source: str
    file: str
    facts: dict[str, Any]
    flags: dict[str, list[int]]


def samples_of(
    given: object,
    *,
    role: str,
    input: str | None = None,
    class_names: Sequence[str] | None = None,
    like: Samples | None = None,
) -> Samples:
    """Check what a user gave: a pair, a record with logits and labels, or the path of a file.

    Columns of a file are put in the order of the classes of samples that it should be ``like``, by
    their names; scores are taken for what theirs were.

    Examples
    --------
    >>> samples_of(([[2.0, 0.0], [0.0, 1.0]], [0, 0]), role="test").facts["n_errors"]
    1
    """
    known = None if like is None else like.class_names
    if isinstance(given, str | os.PathLike):
        given = io.read(given, input=input, class_names=class_names, known=known)
        for note in given.notes:
            warnings.warn(note, stacklevel=4)
        if role == "calibration":  # effects of groups are fitted where somebody asks for them
            given = replace(given, groups=None)
    if isinstance(given, io.Loaded):
        given = given.in_order_of(known)
    names = class_names if class_names is not None else getattr(given, "class_names", None)
    file = getattr(given, "source", "")
    source = file or role
    kind: str = input or getattr(given, "input", None) or "logits"
    if isinstance(given, Predictions):
        # It holds logits, and a report counts every sample once.
        preds, kind, logits = replace(given, weight=None), given.kind, None
    else:
        logits, labels = _arrays(given, role)
        if labels is None:
            raise InputError(
                f"{source} has no labels; a report needs the true class, or the outcome, of each "
                "sample",
                code="no-labels",
            )
        try:
            preds = Predictions.of(
                logits,
                labels,
                input=None if input is None and kind == "logits" else kind,
                class_names=names,
                features=getattr(given, "features", None),
                score=None if like is None else like.preds.score,
                groups=getattr(given, "groups", None),
                name=kind,
            )
        except InputError as error:
            raise error.about(source) from error
    path = split_path(file)[0] if file else None
    return Samples(
        preds=preds,
        input=kind,
        class_names=None if names is None else as_class_names(names, n_classes=preds.n_classes),
        source=source,
        file=file,
        facts={
            "source": source,
            "n": preds.n,
            "n_classes": preds.n_classes,
            "n_errors": int((~preds.came).sum()),
            "accuracy": float(preds.came.mean()),
            "sha256": preds.sha256(),
            "file_sha256": file_sha256(path) if path is not None and os.path.isfile(path) else None,
        },
        flags=_taken_for(preds, logits),
    )


def _taken_for(preds: Predictions, scores: object) -> dict[str, list[int]]:
    """Return what scores were taken for, and what is odd about them where they are at hand."""
    if preds.score is None:
        return {}
    return {f"score_as_{preds.score.kind}": []} if scores is None else preds.score.flags(scores)


def _arrays(given: object, role: str) -> tuple[object, object]:
    """Return logits and labels, or None for labels that are not there."""
    if hasattr(given, "logits"):
        return given.logits, getattr(given, "labels", None)
    if isinstance(given, tuple | list) and len(given) == 2:
        return given[0], given[1]
    raise InputError(
        f"{role} must be a pair (logits, labels), Predictions or the path of a file; got "
        f"{type(given).__name__}",
        code="option-type",
    )


def require_pair(calibration: Samples, test: Samples) -> None:
    """Raise unless a report can be made of the two."""
    require_same_model(calibration, test)
    _require_groups(calibration, test)
    calibration.preds.require_fittable()
    if test.preds.n < 2:
        raise InputError(
            f"{test.source} has {test.preds.n} sample; there must be at least 2",
            code="too-few-samples",
        )


def _require_groups(calibration: Samples, test: Samples) -> None:
    if calibration.preds.groups is not None and test.preds.groups is None:
        raise InputError(
            f"{calibration.source} has groups and {test.source} has none; give both, or neither",
            code="groups-missing",
        )


def require_same_model(one: Samples, other: Samples) -> None:
    """Raise where two sets of samples cannot come from one model."""
    columns = one.preds.n_classes, other.preds.n_classes
    if columns[0] != columns[1]:
        raise InputError(
            f"{one.source} has {columns[0]} columns and {other.source} has {columns[1]}; both "
            "must come from one model",
            code="columns-differ",
        )
    if one.input != other.input:
        raise InputError(
            f"{one.source} holds {one.input} and {other.source} holds {other.input}; use one kind",
            code="input-differs",
        )
