"""What a calibrator is applied to, checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from smallcal.calibrators.group_effects import GroupEffects
from smallcal.calibrators.signals import RowBlock, Rows
from smallcal.data.checks import (
    FloatArray,
    IntArray,
    as_features,
    as_labels,
    probabilities_like,
)
from smallcal.data.groups import as_groups
from smallcal.data.predictions import Predictions
from smallcal.errors import GroupWarning, InputError, missing_input

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator

#: Logits that are copied at once: in memory beside the caller's own.
_COPIED_BYTES = 2**23


class Given(NamedTuple):
    """Rows: their logits, and what else some calibrators ask for; groups as places among names."""

    logits: FloatArray
    features: FloatArray | None
    labels: IntArray | None
    groups: IntArray | None = None

    def take(self, rows: slice | IntArray) -> Given:
        """Return some of the rows."""
        return Given(*(None if array is None else array[rows] for array in self))  # type: ignore[arg-type]

    def rows(self, block: RowBlock) -> Rows:
        """Return the rows of a block as a signal takes them."""
        part = self.take(block.rows)
        return Rows(block.logits, block=block, features=part.features, labels=part.labels)


def checked(fitted: FittedCalibrator, logits: object, features: object, labels: object) -> Given:
    """Return what a calibrator takes of rows; groups are looked up elsewhere."""
    array, signal = fitted.logits_of(logits), fitted.signal
    if array.shape[1] != fitted.n_classes:
        want = f"the {fitted.n_classes} columns this calibrator was fitted on"
        raise InputError(
            f"{fitted.input} must have {want}; got {array.shape[1]}", code="columns-differ"
        )
    _refuse_probabilities(fitted, array)
    for name, value in (("features", features), ("labels", labels)):
        if name in signal.needs and value is None:
            raise missing_input(fitted.method, name)
    more, codes = None, None
    if "features" in signal.needs:
        more = as_features(features, n=len(array))
        if more.shape[1] != signal.n_features:
            raise InputError(
                f"features must have the {signal.n_features} columns this calibrator was fitted "
                f"on; got {more.shape[1]}",
                code="features-missing",
            )
    if "labels" in signal.needs:
        n, n_classes = array.shape
        codes = as_labels(labels, n=n, n_classes=n_classes, class_names=fitted.class_names)
    return Given(array, more, codes)


def labelled(
    fitted: FittedCalibrator, rows: object, y: object, *, features: object, groups: object
) -> Predictions:
    """Return labelled rows as a calibrator takes them, checked."""
    preds = Predictions.of(
        rows,
        y,
        input=fitted.input,
        class_names=fitted.class_names,
        features=features if "features" in fitted.signal.needs else None,
        groups=groups,
        score=fitted.score,
        name=fitted.input,
    )
    _refuse_probabilities(fitted, preds.logits)
    return preds


def _refuse_probabilities(fitted: FittedCalibrator, logits: FloatArray) -> None:
    """Raise where rows look like probabilities and those of the fit were logits."""
    if fitted.input != "logits" or fitted.score is not None or "like_probabilities" in fitted.flags:
        return
    if like := probabilities_like(logits):
        raise InputError(
            f"logits look like probabilities ({like}), but this calibrator was fitted on logits: "
            "give raw logits, or fit one on probabilities",
            code="probabilities-as-logits",
        )


def slices(n: int, n_classes: int, *, size: int = _COPIED_BYTES) -> Iterator[slice]:
    """Yield slices of rows whose logits take at most ``size`` bytes.

    Examples
    --------
    >>> list(slices(3, 2**20))
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    step = max(1, size // (8 * n_classes))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def coded(known: GroupEffects | None, groups: object, n: int) -> IntArray | None:
    """Return the group of each row as a place among those of a fit; unknown ones are warned of."""
    if groups is None:
        if known is not None and known.sigma:
            raise InputError(
                "this calibrator was fitted with groups; ",
                python="pass the group of each row as groups=",
                shell="name the column or array of each row's group with --group",
                code="groups-missing",
            )
        return None
    if known is None:
        raise InputError(
            "groups were given, but this calibrator was fitted without; fit it with groups=",
            code="groups-invalid",
        )
    codes = known.codes(as_groups(groups, n=n))
    if note := known.unseen_note(codes):
        warnings.warn(note, GroupWarning, stacklevel=4)
    return codes
