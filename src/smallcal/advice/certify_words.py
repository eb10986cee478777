"""What was certified: the numbers, and sentences that say what they promise."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from smallcal.calibrators.decision import Threshold
from smallcal.calibrators.fitted import FittedCalibrator
from smallcal.data.claims import CLAIMS, Claim
from smallcal.data.in_notebook import InNotebook
from smallcal.data.plain import plain
from smallcal.metrics.units import PERCENT, SHARE


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What was found for all rows, for one class or for one group.

    Attributes
    ----------
    name : str
        Of the class or group; empty where all rows share a threshold.
    threshold : float or None
        Rows of this confidence or more are accepted; None where none qualifies.
    n, accepted, errors : int
        Labelled rows, those accepted, and the errors among these.
    bound : float or None
        What the true error rate is at most, at the confidence of its test.
    coverage, low, high : float
        Share of rows accepted, with its 95 % interval.
    best : float or None
        Where none qualifies: the lowest risk that these rows could promise.
    fewest : int or None
        Where none qualifies: the fewest accepted rows that can promise the risk, without an error.

    Of rows in clusters, all counts are of those drawn for the test.
    """

    name: str = ""
    threshold: float | None
    n: int
    accepted: int = 0
    errors: int = 0
    bound: float | None = None
    coverage: float = 0.0
    low: float = 0.0
    high: float = 1.0
    best: float | None = None
    fewest: int | None = None


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was found for one risk.

    Attributes
    ----------
    risk, confidence : float
    rule : {"accepted", "all"}
    by : {"all", "class", "group"}
    correction : {"holm", "bonferroni"} or None
        How classes or groups share the chance of a broken promise.
    rows : tuple of Certified
    cross : bool
        Whether the rows were those of the fit, with confidences out of fold.
    sha256 : str
        Fingerprint of the rows.
    input : {"logits", "score"}
        What rows hold.
    clusters : int or None
        How many clusters the rows come in, if not all are independent of one another.
    """

    risk: float
    confidence: float
    rule: str = "accepted"
    by: str = "all"
    correction: str | None = None
    rows: tuple[Certified, ...]
    cross: bool = False
    sha256: str = ""
    input: str = "logits"
    clusters: int | None = None

    @property
    def found(self) -> bool:
        """Whether there is a threshold, of one class or group at least."""
        return any(row.threshold is not None for row in self.rows)

    @property
    def promise(self) -> str:
        """The guarantee in words.

        Examples
        --------
        >>> row = Certified(threshold=0.9, n=300, accepted=250, errors=1, bound=0.0188)
        >>> print(Certificate(risk=0.02, confidence=0.95, rows=(row,)).promise)
        Of samples with confidence 0.9000 or more, at most 2 % are predicted wrong. This holds \
with 95 % confidence, by an exact test on 300 labelled samples that were not used in the fit, \
for samples of the same kind, assuming that the samples are independent of one another.
        """
        claim = CLAIMS[self.input]
        seen = "that were not used in the fit"
        if self.cross:
            seen = "of the fit itself, out of fold, so that it is approximate"
        if self.clusters is not None:
            seen += f", at most one from each of {self.clusters:,} clusters"
        n = sum(row.n for row in self.rows)
        return (
            f"{self._promised(claim)} This holds with {percent(self.confidence)} confidence, by "
            f"{'an exact test' if self.by == 'all' else 'exact tests'} on {n:,} labelled samples "
            f"{seen}, for samples of the same kind, assuming that {self.assumption}."
        )

    @property
    def assumption(self) -> str:
        """What the guarantee takes for granted."""
        what = "samples" if self.clusters is None else "clusters"
        return f"the {what} are independent of one another"

    def _promised(self, claim: Claim) -> str:
        """Return what is promised of which samples."""
        risk, wrong = percent(self.risk), claim.are_wrong
        level = level_of(self.rows[0].threshold)
        if self.by != "all":
            of = {"class": "predicted class", "group": "group"}[self.by]
            if self.rule == "all":
                said = f"In each {of} at most {risk} of all samples are accepted but {wrong}"
            else:
                said = f"Of the samples accepted in each {of}, at most {risk} {wrong}"
            return f"{said}; each has its own threshold, and this holds in all of them at once."
        if self.rule == "all":
            return (
                f"With samples accepted from {claim.confidence} {level} on, at most {risk} of all "
                f"samples are accepted but {wrong}."
            )
        if not self.rows[0].threshold:
            return f"All samples may be accepted: at most {risk} of them {wrong}."
        return f"Of samples with {claim.confidence} {level} or more, at most {risk} {wrong}."

    def decision(self) -> Threshold:
        """Return the rule that a calibrator carries."""
        each = {
            name: tuple(getattr(row, name) for row in self.rows)
            for name in ("n", "accepted", "errors")
        }
        return Threshold(
            risk=self.risk,
            confidence=self.confidence,
            rule=self.rule,
            by=self.by,
            names=tuple(row.name for row in self.rows),
            thresholds=tuple(row.threshold for row in self.rows),
            bounds=tuple(row.bound for row in self.rows),
            cross=self.cross,
            sha256=self.sha256,
            promise=self.promise,
            **each,
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, for people."""
        if self.by == "all":
            row = self.rows[0]
            return (self._none(row),) if row.threshold is None else self._found(row)
        if not self.found:
            return (self._none(min(self.rows, key=lambda row: row.best or 1.0)),)
        several = {"class": "classes", "group": "groups"}[self.by]
        able = sum(row.threshold is not None for row in self.rows)
        said = f"{able:,} of {len(self.rows):,} {several} have a threshold"
        rest = "." if able == len(self.rows) else "; samples of the others are never accepted."
        return (self.promise, said + rest)

    def _found(self, row: Certified) -> tuple[str, ...]:
        claim = CLAIMS[self.input]
        what = f"{row.accepted:,} accepted samples {claim.are_wrong}"
        if self.rule == "all":
            what = f"{row.n:,} samples are accepted but {claim.are_wrong}"
        found = (
            f"Of these rows, {row.errors:,} of {what}; the true share is at most "
            f"{PERCENT.value(row.bound or 0.0)}."
        )
        ends = SHARE.interval(row.low, row.high)
        share = (
            f"{row.accepted:,} of {row.n:,} are accepted: {SHARE.value(row.coverage)}, 95 % "
            f"interval {ends} %."
        )
        return (self.promise, f"{found} {share}")

    def _none(self, row: Certified) -> str:
        """Say that none qualifies, and what these rows could promise."""
        risk, best = percent(self.risk), rounded(row.best or 1.0)
        whose = "" if self.by == "all" else f" of {self.by} {row.name}"
        who = "None" if self.by == "all" else f"No {self.by}"
        said = f"{who} qualifies for {risk}: the best bound reachable here is {best}"
        said += whose and f", that{whose}"
        if row.fewest is not None and row.n < row.fewest:
            said += f"; {risk} takes at least {row.fewest:,} samples{whose}"
            said += "" if self.clusters is None else " from different clusters"
            said += ", even without an error"
        return f"{said}."

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        told = {**asdict(self), "found": self.found}
        told["promise"] = self.promise if self.found else None
        told["assumption"] = self.assumption
        return dict(plain(told))


@dataclass(frozen=True, kw_only=True)
class Certification(InNotebook):
    """What :func:`smallcal.certify` found.

    Attributes
    ----------
    certificates : tuple of Certificate
        One for each risk, in the order asked.
    calibrator : FittedCalibrator
        With the thresholds found, in place of those it had; ``save`` writes it.
    """

    certificates: tuple[Certificate, ...]
    calibrator: FittedCalibrator = field(repr=False)

    @property
    def found(self) -> bool:
        """Whether every risk has a threshold."""
        return all(each.found for each in self.certificates)

    @property
    def some(self) -> bool:
        """Whether some risk has a threshold."""
        return any(each.found for each in self.certificates)

    @property
    def threshold(self) -> float | None:
        """The threshold of the first risk, where all rows share one."""
        return self.certificates[0].rows[0].threshold if self.certificates[0].by == "all" else None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was found, for people."""
        said = [sentence for each in self.certificates for sentence in each.sentences]
        return (*said, self.together) if self.together else tuple(said)

    @property
    def together(self) -> str:
        """What several risks do not promise; empty where there is one."""
        if len(self.certificates) < 2:
            return ""
        return "Each risk is guaranteed separately, not all of them together."

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data, without the calibrator."""
        each = [certificate.to_dict() for certificate in self.certificates]
        return {"found": self.found, "certificates": each, "sentences": list(self.sentences)}


def percent(share: float) -> str:
    """Write a share that a person chose, with the digits that it has.

    Examples
    --------
    >>> percent(0.02), percent(0.07), percent(0.0025), percent(0.999)
    ('2 %', '7 %', '0.25 %', '99.9 %')
    """
    return f"{100 * share:.6g} %"


def rounded(share: float) -> str:
    """Write a share of which two digits matter; never rounded down.

    Examples
    --------
    >>> rounded(0.0338), rounded(0.1391), rounded(1.0)
    ('3.4 %', '14 %', '100 %')
    """
    step = 10.0 ** (math.floor(math.log10(100 * share)) - 1)
    return f"{math.ceil(100 * share / step - 1e-9) * step:.4g} %"


def level_of(threshold: float | None) -> str:
    """Write a threshold of confidence: four digits, or as many as tell it from 1.

    Examples
    --------
    >>> level_of(0.91234), level_of(0.9999877), level_of(0.0)
    ('0.9123', '0.999988', '0')
    """
    if not threshold:
        return "0"
    digits = 4 if threshold < 0.999 else 1 + math.ceil(-math.log10(1 - threshold))
    return f"{threshold:.{digits}f}"
