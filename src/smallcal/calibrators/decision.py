"""Decisions: rules that a calibrator carries, each with the guarantee it was tested for.

A rule reads the calibrated probabilities and changes none of them. :func:`smallcal.certify` finds
a threshold and writes down what it was tested on; here it is kept and applied, with NumPy alone.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from smallcal.calibrators import parts
from smallcal.calibrators.given import checked, coded
from smallcal.calibrators.parts import Part, Rule, list_of
from smallcal.data.checks import BoolArray, FloatArray, IntArray
from smallcal.data.groups import as_groups, group_codes
from smallcal.errors import GroupWarning, InputError

if TYPE_CHECKING:
    from smallcal.calibrators.fitted import FittedCalibrator

AnyDecision = TypeVar("AnyDecision", bound="Decision")

#: What the risk is a share of: accepted rows, or all.
RULES = ("accepted", "all")
#: What has a threshold of its own: nothing, each predicted class, each group.
BY = ("all", "class", "group")
#: Stands for a threshold that no confidence reaches.
NEVER = 2.0

_SHARE: Rule = {"type": ["number", "null"], "minimum": 0, "maximum": 1}


class Decision(Part):
    """A rule with a guarantee.

    Attributes
    ----------
    column : str
        What its column in outputs is called, or begins with.
    promise : str
        The guarantee in words.
    sha256 : str
        Fingerprint of the rows it was tested on.
    """

    kinds: ClassVar[dict[str, Any]] = {}
    column: ClassVar[str]
    promise: str
    sha256: str

    @property
    @abstractmethod
    def share(self) -> float:
        """What tells it from others of its kind: the risk, or alpha."""

    @property
    def n_classes(self) -> int | None:
        """Classes it is for, where it has a number of each."""
        return None


@dataclass(frozen=True, kw_only=True)
class Threshold(Decision):
    """Accept a row whose confidence reaches a threshold.

    Attributes
    ----------
    risk, confidence : float
        The share of errors is at most ``risk``, said with this ``confidence``.
    rule : {"accepted", "all"}
        Whether it is a share of the accepted rows, or of all.
    by : {"all", "class", "group"}
        What has a threshold of its own; a class counts where it is predicted.
    names : tuple of str
        Of the classes or groups; one empty name where all rows share a threshold.
    thresholds : tuple of float or None
        One for each name; None where no row is accepted.
    n, accepted, errors : tuple of int
        Rows it was tested on, those it accepted, and the errors among these.
    bounds : tuple of float or None
        The share of errors is at most this, at the confidence of each test.
    cross : bool
        Whether the rows were those of the fit, with confidences out of fold.

    Examples
    --------
    >>> rule = Threshold(
    ...     risk=0.02, confidence=0.95, rule="accepted", by="class", names=("cat", "dog"),
    ...     thresholds=(0.8, None), n=(300, 20), accepted=(250, 0), errors=(1, 0),
    ...     bounds=(0.0189, None), cross=False, sha256="", promise="",
    ... )
    >>> rule.accept(np.array([0.9, 0.7, 0.99]), np.array([0, 0, 1])).tolist()
    [True, False, False]
    """

    risk: float
    confidence: float
    rule: str
    by: str
    names: tuple[str, ...]
    thresholds: tuple[float | None, ...]
    n: tuple[int, ...]
    accepted: tuple[int, ...]
    errors: tuple[int, ...]
    bounds: tuple[float | None, ...]
    cross: bool
    sha256: str
    promise: str
    kind: ClassVar[str] = "threshold"
    column: ClassVar[str] = "accepted"
    words: ClassVar[str] = "rows whose confidence reaches a threshold are accepted"
    schema: ClassVar[Mapping[str, Rule]] = {
        "risk": parts.rule("probability", "Guaranteed upper bound of the share of errors."),
        "confidence": parts.rule("probability", "Confidence of the guarantee."),
        "rule": {
            "type": "string",
            "enum": [*RULES],
            "description": "Share of accepted or all rows.",
        },
        "by": {"type": "string", "enum": [*BY], "description": "What has its own threshold."},
        "names": list_of({"type": "string"}, "Names of the classes or groups.", least=1),
        "thresholds": list_of(_SHARE, "Null where no row is accepted.", least=1),
        "n": list_of(parts.rule("count"), "Rows it was tested on.", least=1),
        "accepted": list_of(parts.rule("count"), "Those it accepted.", least=1),
        "errors": list_of(parts.rule("count"), "The errors among these.", least=1),
        "bounds": list_of(_SHARE, "Upper bound of each share of errors.", least=1),
        "cross": {"type": "boolean", "description": "Whether its rows were those of the fit."},
        "sha256": {"type": "string", "description": "Fingerprint of the rows it was tested on."},
        "promise": {"type": "string", "description": "The guarantee in words."},
    }

    def __post_init__(self) -> None:
        entries = (self.thresholds, self.n, self.accepted, self.errors, self.bounds)
        if {len(each) for each in entries} != {len(self.names)}:
            raise InputError("a decision needs one threshold, count and bound for each name")
        if len(set(self.names)) != len(self.names) or (self.by == "all") != (self.names == ("",)):
            raise InputError("the names of a decision must differ, and stand for classes or groups")
        if not 0 < self.risk < 1 or not 0 < self.confidence < 1:
            raise InputError("risk and confidence of a decision lie between 0 and 1")
        counts = zip(self.errors, self.accepted, self.n, strict=True)
        if not all(errors <= accepted <= n for errors, accepted, n in counts):
            raise InputError("a decision needs errors <= accepted <= n")

    @property
    def share(self) -> float:
        """The risk."""
        return self.risk

    @property
    def n_classes(self) -> int | None:
        """Classes it is for, where each has a threshold."""
        return len(self.names) if self.by == "class" else None

    @property
    def levels(self) -> FloatArray:
        """The thresholds, and one that none reaches for what has none; the last is for unknowns."""
        return np.array([NEVER if each is None else each for each in (*self.thresholds, None)])

    def accept(
        self, confidence: FloatArray, claimed: IntArray, groups: NDArray[np.str_] | None = None
    ) -> BoolArray:
        """Return which rows are accepted; a group that is not known never is."""
        confidence, levels = confidence.astype(np.float64), self.levels
        if self.by == "all":
            return np.asarray(confidence >= levels[0])
        codes = claimed
        if self.by == "group":
            if groups is None:
                raise InputError(
                    "this decision has a threshold for each group; ",
                    python="pass the group of each row as groups=",
                    shell="name the column or array of each row's group with --group",
                    code="groups-missing",
                )
            codes = group_codes(groups, self.names)
            if unknown := int(np.count_nonzero(codes < 0)):
                note = "have no threshold for their group: none of them is accepted"
                warnings.warn(
                    f"{unknown:,} of {len(codes):,} rows {note}", GroupWarning, stacklevel=4
                )
        return np.asarray(confidence >= levels[codes])


def columns_of(decisions: Sequence[Decision], kind: type[AnyDecision]) -> dict[str, AnyDecision]:
    """Return the decisions of one kind by the name of their column in outputs.

    Examples
    --------
    >>> columns_of((), Threshold)
    {}
    """
    found = [each for each in decisions if isinstance(each, kind)]
    if len(found) == 1:
        return {kind.column: found[0]}
    percents = (f"{100 * each.share:.6g}".replace(".", "_") for each in found)
    return {f"{kind.column}_at_{one}pct": each for one, each in zip(percents, found, strict=True)}


def thresholds_of(decisions: Sequence[Decision]) -> dict[str, Threshold]:
    """Return the thresholds among decisions by the name of their column in outputs."""
    return columns_of(decisions, Threshold)


def picked(known: Collection[AnyDecision], share: float | None, wanted: str) -> AnyDecision:
    """Return the decision for a share, or the only one; ``wanted`` begins the error."""
    fitting = [each for each in known if share is None or np.isclose(each.share, share)]
    if len(fitting) != 1:
        shares = ", ".join(f"{each.share:g}" for each in known)
        raise InputError(f"{wanted} ({shares}); got {share}", code="unknown-choice")
    return fitting[0]


def accepted(
    fitted: FittedCalibrator,
    logits: object,
    *,
    risk: float | None = None,
    features: object = None,
    groups: object = None,
) -> BoolArray:
    """Return which rows the threshold of a calibrator accepts."""
    decision = asked(fitted.decisions, risk)
    known = groups if fitted.groups is not None else None
    given = checked(fitted, logits, features, None)
    given = given._replace(groups=coded(fitted.groups, known, len(given.logits)))
    named = None if groups is None else as_groups(groups, n=len(given.logits))
    return decision.accept(*fitted.claims(fitted.calibrate(given), given.logits), named)


def asked(decisions: Sequence[Decision], risk: float | None) -> Threshold:
    """Return the threshold of a risk, or the only one."""
    known = thresholds_of(decisions).values()
    if not known:
        raise InputError(
            "this calibrator has no certified threshold; find one with ",
            python="smallcal.certify(cal, X, y)",
            shell="smallcal certify CALIBRATOR DATA -o NEW",
            code="no-decision",
        )
    return picked(known, risk, "risk must be one that was certified")
