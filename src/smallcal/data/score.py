"""One number per row instead of one per class: what it is taken for, and as two columns.

A judge's mark, a verifier's confidence, a margin: a **score**, and an **outcome** of 0 or 1 that
it should predict. A score becomes the two logits (0, x), so that whatever works on logits of two
classes works on it. Scores in [0, 1] are taken for probabilities of outcome 1, and x is their
log-odds; all others are standardised. What a score was taken for is part of the calibrator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smallcal.data.checks import FloatArray, IntArray, as_labels, as_numpy
from smallcal.data.shapes import listed_rows
from smallcal.errors import InputError

#: Probabilities nearer to 0 or 1 count as this near: what is said to be impossible happens.
NEAREST = 1e-6

#: Finite numbers beyond this have squares that are not.
LARGEST = 1e100

#: A probability that was rounded may lie so far outside of [0, 1].
SLACK = 1e-6

#: Scores from 0 to at most this may be percent.
_PERCENT = 100.0
#: Marks out of 5, 10 or 20 are common, and no percent.
_LARGEST_MARK = 20.0


@dataclass(frozen=True)
class ScoreScale:
    """What the scores of a calibration split were taken for.

    Attributes
    ----------
    kind : {"probability", "number"}
        Probabilities of outcome 1 go through their log-odds; numbers are standardised.
    mean, scale : float
        Of finite numbers; 0 and 1 for probabilities.
    low, high : float
        Numbers below and above count as these: one standard deviation beyond the smallest and the
        largest finite score of the split. That is where infinities go.

    Examples
    --------
    >>> marks = ScoreScale.of([1.0, 3.0, 5.0, float("inf")])
    >>> marks.kind, marks.mean, round(marks.high, 2)
    ('number', 3.0, 6.63)
    >>> marks.columns([3.0, 7.0]).round(2).tolist()
    [[0.0, 0.0], [0.0, 2.22]]
    >>> ScoreScale.of([0.2, 0.9]).columns([0.5, 0.9]).round(2).tolist()
    [[0.0, 0.0], [0.0, 2.2]]
    """

    kind: str
    mean: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("probability", "number"):
            raise InputError(f"a score is a probability or a number; got {self.kind!r}")
        numbers = (self.mean, self.scale, self.low, self.high)
        if not np.isfinite(numbers).all() or self.scale <= 0 or self.low > self.high:
            raise InputError("a score needs finite numbers, a positive scale and low <= high")

    @classmethod
    def of(cls, values: object, *, name: str = "scores") -> ScoreScale:
        """See what the scores of a split are."""
        scores = as_one_number(values, name=name)
        if scores.min() >= -SLACK and scores.max() <= 1 + SLACK:
            return cls("probability")
        finite = scores[np.isfinite(scores)].astype(np.float64)
        if not len(finite):
            raise InputError(
                f"{name} are all infinite; at least some must be numbers", code="not-finite"
            )
        largest = float(np.abs(finite).max())
        if largest > LARGEST:
            raise InputError(
                f"{name} must be at most {LARGEST:g} in size, or infinite; got {largest:g}",
                code="not-finite",
            )
        spread = float(finite.std())
        # Equal numbers have a spread of rounding errors.
        scale = spread if spread > 1e-12 * largest else 1.0
        low, high = float(finite.min()) - scale, float(finite.max()) + scale
        return cls("number", float(finite.mean()), scale, low, high)

    @property
    def allowed(self) -> tuple[float, float]:
        """The smallest and the largest score that is taken."""
        return (-SLACK, 1 + SLACK) if self.kind == "probability" else (-np.inf, np.inf)

    def columns(self, values: object, *, name: str = "scores") -> FloatArray:
        """Return the logits (0, x) of each score, in float64.

        Whatever the scores' type: rounded, equal scores could come to lie on two sides of a step.

        Raises
        ------
        InputError
            If a score is NaN, or no probability where the calibrator takes those.
        """
        scores = self.checked(values, name=name)
        result = np.zeros((len(scores), 2))
        result[:, 1] = self.log_odds(scores)
        return result

    def checked(self, values: object, *, name: str = "scores") -> FloatArray:
        """Return scores as floats of shape (n,), of the kind that is wanted; infinities stay."""
        scores = as_one_number(values, name=name)
        if self.kind == "probability":
            self._require_probabilities(scores, name)
        return scores

    def log_odds(self, scores: FloatArray) -> FloatArray:
        """Return x, in float64, of scores that are checked."""
        held = scores.astype(np.float64)  # in float32 one minus the nearest would be 1
        if self.kind == "number":
            np.clip(held, self.low, self.high, out=held)
            held -= self.mean
            held /= self.scale
            return held
        np.clip(held, NEAREST, 1 - NEAREST, out=held)
        held /= 1 - held
        return np.log(held, out=held)

    def _require_probabilities(self, scores: FloatArray, name: str) -> None:
        least, most = self.allowed
        if scores.min() >= least and scores.max() <= most:
            return
        outside = ~((scores >= least) & (scores <= most))
        row = int(np.argmax(outside))
        raise InputError(
            f"{name} must lie in [0, 1], as those of the calibration split did; "
            f"{listed_rows(outside)} do not (row {row} is {float(scores[row]):g})",
            code="scores-range",
        )

    def flags(self, values: object) -> dict[str, list[int]]:
        """Return what the fit says about its scores; see ``FLAGS`` of the calibrators."""
        scores = as_one_number(values, name="scores")
        said: dict[str, list[int]] = {f"score_as_{self.kind}": []}
        finite = scores[np.isfinite(scores)]
        if len(finite) < len(scores):
            said["score_infinite"] = []
        if self.kind == "number" and finite.min() >= 0:
            largest = float(finite.max())
            if _LARGEST_MARK < largest <= _PERCENT:
                said["score_percent"] = []
        return said

    @property
    def words(self) -> str:
        """What becomes of a score before anything is fitted, in a sentence or two."""
        if self.kind == "probability":
            return "Scores are treated as probabilities of outcome 1, through their log-odds."
        return (
            f"Scores are standardised: minus {self.mean:.4g}, divided by {self.scale:.4g}. Those "
            f"below {self.low:.4g} or above {self.high:.4g} are set to these limits. The result "
            "is used as log-odds."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ScoreScale:
        """Rebuild it from a document that the schema allows."""
        numbers = {name: float(document[name]) for name in ("mean", "scale", "low", "high")}
        return cls(document["kind"], **numbers)


def as_one_number(values: object, *, name: str = "scores") -> FloatArray:
    """Return scores as floats of shape (n,), without NaN; infinities stay.

    Examples
    --------
    >>> as_one_number([[1], [2]]).tolist()
    [1.0, 2.0]
    """
    array = as_numpy(values, name=name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "fiub" or array.ndim != 1:
        raise _no_scores(array, name)
    if not len(array):
        raise InputError(f"{name} has no rows (shape {array.shape})", code="empty")
    if array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8):
        wider = np.float32 if array.dtype == np.float16 else np.float64
        array = array.astype(wider)
    missing = np.isnan(array)
    if bool(missing.any()):
        raise InputError(
            f"{name} must not be NaN; found NaN in {listed_rows(missing)} of {len(array)}; drop "
            "those rows",
            code="not-finite",
        )
    return array


def _no_scores(array: NDArray[Any], name: str) -> InputError:
    if array.dtype.kind not in "fiub":
        return InputError(f"{name} must be numbers; got type {array.dtype}", code="array-type")
    columns = array.shape[1] if array.ndim == 2 else 0
    hint = {}
    if columns == 2:
        what = ". Two columns are two classes: give the second, or leave "
        hint = {"python": f"{what}input='score' out", "shell": f"{what}--input score out"}
    return InputError(
        f"{name} must be one number per row, shape (n,) or (n, 1); got {array.shape}",
        **hint,
        code="rows-differ",
    )


def as_outcomes(
    values: object, *, n: int, scores: object = None, class_names: Sequence[str] | None = None
) -> IntArray:
    """Return outcomes as 0 and 1; booleans, numbers, and names where outcomes have names.

    ``scores`` are what they came with, to tell arguments that were swapped.

    Examples
    --------
    >>> as_outcomes([True, False], n=2).tolist()
    [1, 0]
    """
    array = as_numpy(values, name="outcomes")
    if array.size and isinstance(array.flat[0], str) and class_names is None:
        raise InputError(
            f"outcomes are words (the first is {str(array.flat[0])!r}); pass 0 and 1, or name "
            "both, the success last: ",
            python="class_names=[..., ...]",
            shell="--class-names",
            code="outcomes-not-binary",
        )
    if array.dtype.kind in "fiu" and array.size == n:
        flat = array.reshape(-1)
        other = ~((flat == 0) | (flat == 1))
        if bool(other.any()):
            row = int(np.argmax(other))
            given = None if scores is None else as_one_number(scores)
            swapped = given is not None and bool(((given == 0) | (given == 1)).all())
            fix = "The two arguments seem to be swapped" if swapped else "1 is a success"
            raise InputError(
                f"outcomes must be 0 or 1; {listed_rows(other)} are not (row {row} is "
                f"{float(flat[row]):g}). {fix}",
                code="outcomes-not-binary",
            )
    return as_labels(array, n=n, n_classes=2, class_names=class_names, name="outcomes")
