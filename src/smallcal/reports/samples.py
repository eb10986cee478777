"""The samples of a report: checked, with where they came from and their fingerprints."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smallcal import io
from smallcal.data.predictions import Predictions, as_class_names
from smallcal.errors import InputError
from smallcal.io.read import split_path

_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """Checked samples of one model.

    Attributes
    ----------
    preds : Predictions
        Holds logits, whatever came in: logarithms where those were probabilities.
    input : {"logits", "probabilities"}
        What came in.
    class_names : tuple of str, or None
    source : str
        The file as it was named, or what the samples are for.
    file_sha256 : str or None
        Fingerprint of that file.
    """

    preds: Predictions
    input: str
    class_names: tuple[str, ...] | None
    source: str
    file_sha256: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what the report says of them."""
        return {
            "source": self.source,
            "n": self.preds.n,
            "n_classes": self.preds.n_classes,
            "n_errors": int((~self.preds.correct).sum()),
            "accuracy": float(self.preds.correct.mean()),
            "sha256": self.preds.sha256(),
            "file_sha256": self.file_sha256,
        }

    def class_name(self, column: int) -> str:
        """Return a class's name, or its column where it has none."""
        return str(column) if self.class_names is None else self.class_names[column]


def samples_of(
    given: object,
    *,
    role: str,
    input: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Samples:
    """Check what a user gave: a pair, a record with logits and labels, or the path of a file.

    Examples
    --------
    >>> samples_of(([[2.0, 0.0], [0.0, 1.0]], [0, 0]), role="test").to_dict()["n_errors"]
    1
    """
    if isinstance(given, str | os.PathLike):
        given = io.read(given, input=input)
    names = class_names if class_names is not None else getattr(given, "class_names", None)
    source = getattr(given, "source", "") or role
    if isinstance(given, Predictions):
        return _checked(given, "logits", names, source)
    if hasattr(given, "logits"):
        logits, labels = given.logits, getattr(given, "labels", None)
    elif isinstance(given, tuple | list) and len(given) == 2:
        logits, labels = given
    else:
        raise InputError(
            f"{role} must be a pair (logits, labels), Predictions or the path of a file; got "
            f"{type(given).__name__}"
        )
    if labels is None:
        raise InputError(f"{source} has no labels; a report needs the true class of each sample")
    kind: str = input or getattr(given, "input", None) or "logits"
    try:
        preds = Predictions.of(
            logits,
            labels,
            input=kind,
            class_names=names,
            features=getattr(given, "features", None),
            name=kind,
        )
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    return _checked(preds, kind, names, source)


def _checked(preds: Predictions, kind: str, names: Sequence[str] | None, source: str) -> Samples:
    known = None if names is None else as_class_names(names, n_classes=preds.n_classes)
    return Samples(
        preds=preds,
        input=kind,
        class_names=known,
        source=source,
        file_sha256=file_sha256(split_path(source)[0]),
    )


def file_sha256(path: Path) -> str | None:
    """Return the fingerprint of a file; None where there is no such file."""
    if not path.is_file():
        return None
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def require_pair(calibration: Samples, test: Samples) -> None:
    """Raise unless a report can be made of the two."""
    calibration.preds.require_fittable(input=calibration.input)
    if calibration.preds.n_classes != test.preds.n_classes:
        raise InputError(
            f"{calibration.source} has {calibration.preds.n_classes} columns and {test.source} "
            f"has {test.preds.n_classes}; both must come from one model"
        )
    if calibration.input != test.input:
        raise InputError(
            f"{calibration.source} holds {calibration.input} and {test.source} holds "
            f"{test.input}; use one kind"
        )
    if test.preds.n < 2:
        raise InputError(f"{test.source} has {test.preds.n} sample; there must be at least 2")
